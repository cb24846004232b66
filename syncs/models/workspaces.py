"""Who are we working for, who may do what there, and which accounts are connected?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from django.conf import settings
from django.db import models

from syncs.domain import sealing
from syncs.models import fields


def _ring() -> sealing.Keyring:
    return sealing.keyring(settings.VIGIL_CREDENTIAL_KEYS)


class Role(StrEnum):
    """What a member may do, each including the ones before (PRODUCT 10.1)."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    PUBLISHER = "publisher"


RANK: Mapping[str, int] = {role.value: rank for rank, role in enumerate(Role)}


class Workspace(models.Model):
    """One merchant's room. No view, command or API returns another workspace's row (PRODUCT 10.1)."""

    name = models.CharField(max_length=120, help_text="What people call it.")
    slug = models.SlugField(max_length=60, unique=True, help_text="Its place in addresses of pages.")
    zone = models.CharField(
        max_length=60, default="UTC", help_text="IANA time zone of its pages, such as Europe/Berlin."
    )
    sealed_secret = models.BinaryField(help_text="Sealed key of the hashes that stand for addresses.", editable=False)
    secret_key_id = models.CharField(max_length=40, help_text="Which key sealed it.", editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        permissions: ClassVar = [("view_as_merchant", "Can view a workspace as its merchant sees it")]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: object, **kwargs: object) -> None:
        if not self.sealed_secret:
            self.secret_key_id, self.sealed_secret = sealing.seal(
                _ring(), {"addresses": os.urandom(32).hex()}, f"workspace:{self.slug}"
            )
        super().save(*args, **kwargs)  # type: ignore[arg-type]

    def address_secret(self) -> bytes:
        """The key of this workspace's address hashes. Raises SealBroken."""
        opened = sealing.unseal(_ring(), self.secret_key_id, bytes(self.sealed_secret), f"workspace:{self.slug}")
        return bytes.fromhex(opened["addresses"])


class Membership(models.Model):
    """A person's role in a workspace."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = fields.word(Role, "What this person may do here.", default=Role.VIEWER.value)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "user"], name="membership_once_per_person"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}: {self.role}"

    def may(self, role: Role) -> bool:
        """Whether this membership includes ``role``."""
        return RANK[self.role] >= RANK[role.value]


class Connection(models.Model):
    """An account at another system, with its credential sealed (PRODUCT 10.2).

    ``account`` and ``scopes`` are what the vendor last said of the credential; ``proved_at`` when, and
    ``proved_fingerprint`` for which credential: another one must be proved again (PRODUCT 5.2).
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="connections")
    name = models.CharField(max_length=120, help_text="What people call it.")
    kind = models.CharField(max_length=24, help_text="Which connector speaks to it.")
    options = models.JSONField(default=dict, blank=True, help_text="What is no secret: the shop's domain, for example.")
    sealed = models.BinaryField(default=b"", editable=False, help_text="The sealed credential.")
    key_id = models.CharField(max_length=40, default="", editable=False, help_text="Which key sealed it.")
    fingerprint = models.CharField(max_length=64, default="", editable=False, help_text="Keyed hash of the credential.")
    account = models.CharField(max_length=200, default="", help_text="The vendor's id of shop or account.")
    label = models.CharField(max_length=200, default="", help_text="The name people know the account by.")
    scopes = models.JSONField(default=list, help_text="What the credential may do, as the vendor said.")
    proved_at = models.DateTimeField(null=True, help_text="When account and scopes were last proved.")
    proved_fingerprint = models.CharField(max_length=64, default="", editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="connection_name_once_per_workspace"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"

    def _binding(self) -> str:
        return f"connection:{self.pk}:workspace:{self.workspace_id}"

    def seal(self, secrets: Mapping[str, str]) -> None:
        """Seal ``secrets`` into this saved row's fields. The caller saves."""
        if self.pk is None:
            raise ValueError("A connection is saved before its credential is sealed: the seal is bound to the row.")
        self.key_id, self.sealed = sealing.seal(_ring(), secrets, self._binding())
        text = "\x00".join(f"{k}={v}" for k, v in sorted(secrets.items()))
        self.fingerprint = hashlib.blake2b(text.encode(), key=bytes.fromhex(settings.VIGIL_EFFECT_KEY)).hexdigest()[:64]

    def secrets(self) -> dict[str, str]:
        """The credential in the open. Raises SealBroken."""
        return sealing.unseal(_ring(), self.key_id, bytes(self.sealed), self._binding())
