"""What should a person know, and who did what?"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from syncs.domain.lifecycle import FindingState
from syncs.models import fields
from syncs.models.syncs import Sync
from syncs.models.workspaces import Workspace


class Finding(models.Model):
    """Something true that a person should know. Opened in the transaction of the change it tells of (PRODUCT 5.6)."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="findings")
    sync = models.ForeignKey(Sync, null=True, blank=True, on_delete=models.CASCADE, related_name="findings")
    code = models.CharField(max_length=60, help_text="Stable name; page, mail and log share it.")
    subject = models.CharField(max_length=120, default="", help_text="What it is about, besides the sync.")
    sentence = models.CharField(max_length=500, help_text="What happened, for people.")
    state = fields.word(FindingState, "Open, acknowledged, snoozed or resolved.", default=FindingState.OPEN.value)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="When it was last seen to be true.")
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "sync", "code", "subject"],
                condition=models.Q(resolved_at__isnull=True),
                nulls_distinct=False,
                name="finding_opens_once",
            ),
        ]

    def __str__(self) -> str:
        return self.code


class AuditEntry(models.Model):
    """Who did what, when and why. Append-only: the database refuses UPDATE and DELETE (PRODUCT 9.3)."""

    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.DO_NOTHING, related_name="audit", db_constraint=False
    )
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False
    )
    actor_label = models.CharField(max_length=200, help_text="Who, as text: a person, or Vigil.")
    action = models.CharField(max_length=60, help_text="Namespaced: sync.published, run.started ...")
    subject = models.CharField(max_length=200, help_text="What it was done to.")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.CharField(max_length=300, default="", blank=True)
    at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [
            models.Index(fields=["workspace", "-at"], name="audit_by_workspace"),
            models.Index(fields=["workspace", "subject", "-at"], name="audit_by_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.actor_label}"
