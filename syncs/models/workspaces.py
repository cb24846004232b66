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


NEXT = ":next"
"""The slot of the credential to come, as its seal is bound to it."""


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
    entered_at = models.DateTimeField(null=True, editable=False, help_text="When the credential was entered.")
    last_test = models.JSONField(
        null=True, editable=False, help_text="The last test: at, ok, scopes wanted and given, checks."
    )
    next_sealed = models.BinaryField(default=b"", editable=False, help_text="The sealed credential to come.")
    next_key_id = models.CharField(max_length=40, default="", editable=False, help_text="Which key keeps that one.")
    next_at = models.DateTimeField(null=True, editable=False, help_text="When the credential to come was entered.")
    next_test = models.JSONField(
        null=True, editable=False, help_text="Its last test, with the account that was proved."
    )
    disconnected_at = models.DateTimeField(null=True, editable=False, help_text="Since when it holds no credential.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="connection_name_once_per_workspace"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"

    def _binding(self, slot: str = "") -> str:
        return f"connection:{self.pk}:workspace:{self.workspace_id}{slot}"

    def seal(self, secrets: Mapping[str, str]) -> None:
        """Seal ``secrets`` into this saved row's fields. The caller saves."""
        self.key_id, self.sealed, self.fingerprint = self._sealed(secrets, self._binding())

    def seal_next(self, secrets: Mapping[str, str]) -> None:
        """The same into the slot of the credential to come. A seal of one slot does not open in the other."""
        self.next_key_id, self.next_sealed, _fingerprint = self._sealed(secrets, self._binding(NEXT))
        self.next_test = None

    def _sealed(self, secrets: Mapping[str, str], binding: str) -> tuple[str, bytes, str]:
        if self.pk is None:
            raise ValueError("A connection is saved before its credential is sealed: the seal is bound to the row.")
        key_id, sealed = sealing.seal(_ring(), secrets, binding)
        text = "\x00".join(f"{k}={v}" for k, v in sorted(secrets.items()))
        keyed = hashlib.blake2b(text.encode(), key=bytes.fromhex(settings.VIGIL_EFFECT_KEY))
        return key_id, sealed, keyed.hexdigest()[:64]

    def secrets(self) -> dict[str, str]:
        """The credential in the open. Raises SealBroken."""
        if not self.sealed:
            raise sealing.SealBroken("This connection holds no credential: enter one, test it and switch to it.")
        return sealing.unseal(_ring(), self.key_id, bytes(self.sealed), self._binding())

    def next_secrets(self) -> dict[str, str]:
        """The credential to come in the open. Raises SealBroken."""
        if not self.next_sealed:
            raise sealing.SealBroken("This connection holds no next credential: enter one first.")
        return sealing.unseal(_ring(), self.next_key_id, bytes(self.next_sealed), self._binding(NEXT))

    def drop_next(self) -> None:
        """Empty the slot of the credential to come. The caller saves."""
        self.next_sealed, self.next_key_id, self.next_at, self.next_test = b"", "", None, None

    def wipe(self) -> None:
        """Hold no secret any more, and no proof of one. The caller saves."""
        self.drop_next()
        self.sealed, self.key_id, self.fingerprint, self.entered_at = b"", "", "", None
        self.proved_at, self.proved_fingerprint = None, ""

    @property
    def is_proved(self) -> bool:
        """Whether the vendor was asked about the very credential that is stored."""
        return self.proved_at is not None and bool(self.sealed) and self.proved_fingerprint == self.fingerprint
