"""What may be written where, who decided it, and when does it run?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from syncs.domain import credential
from syncs.domain.lifecycle import OccurrenceState, SyncState
from syncs.models import fields
from syncs.models.workspaces import Connection, Workspace


class Sync(models.Model):
    """A configured pair: one stream of a source to one target at a destination, always one way (PRODUCT 3.10)."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="syncs")
    name = models.CharField(max_length=120, help_text="What people call it.")
    source = models.ForeignKey(Connection, on_delete=models.PROTECT, related_name="+", help_text="Read from here.")
    destination = models.ForeignKey(Connection, on_delete=models.PROTECT, related_name="+", help_text="Written to.")
    state = fields.word(SyncState, "Draft, published, edited or paused.", default=SyncState.DRAFT.value)
    draft = models.JSONField(default=dict, help_text="The rule being edited.")
    draft_revision = models.PositiveIntegerField(
        default=1, help_text="Counts saved drafts; guards against two editors."
    )
    draft_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    draft_at = models.DateTimeField(auto_now_add=True)
    published = models.ForeignKey("Version", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    target = models.CharField(max_length=300, default="", help_text="What it writes to; no two syncs share one (2.7).")
    changed_at = models.DateTimeField(null=True, help_text="Since when failures are counted (4.3).")
    first_published_at = models.DateTimeField(null=True, help_text="Where the scheduled lane of orders starts (1.4).")
    paused_at = models.DateTimeField(null=True, help_text="Since when it is paused.")
    pause_code = models.CharField(max_length=60, default="", help_text="Why it is paused.")
    pause_sentence = models.CharField(max_length=500, default="", help_text="Why, for people.")
    last_success_at = models.DateTimeField(null=True, help_text="End of the last proved run.")
    fresh_as_of = models.DateTimeField(null=True, help_text="The destination shows the source as of this instant.")

    class Meta:
        # What staff may do in every workspace, beside looking (PRODUCT 10.1); each includes the ones before.
        permissions: ClassVar = [
            ("operate_sync", "Can run, pause, test and retry in every workspace"),
            ("edit_sync", "Can edit and preview drafts in every workspace"),
            ("publish_sync", "Can publish in every workspace"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="sync_name_once_per_workspace"),
            models.UniqueConstraint(fields=["target"], condition=~models.Q(target=""), name="sync_target_not_shared"),
            models.CheckConstraint(
                condition=~fields.one_of("state", [SyncState.PUBLISHED]) | models.Q(published__isnull=False),
                name="sync_published_has_version",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Preview(models.Model):
    """What a draft would have done, shown before anything is written (PRODUCT 6.1). Holds masked samples only."""

    sync = models.ForeignKey(Sync, on_delete=models.CASCADE, related_name="previews")
    draft_revision = models.PositiveIntegerField(help_text="The draft it was made of.")
    digest = models.CharField(max_length=64, help_text="Of rule and connections.")
    rule = models.JSONField(help_text="The rule previewed.")
    facts = models.JSONField(help_text="Connections as proved for it: kind, account, scopes.")
    result = models.JSONField(help_text="Counts, refusals, masked sample, what stands in the way.")
    publishable = models.BooleanField(default=False, help_text="Whether nothing stands in the way of publishing.")
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(help_text="When the source was asked.")
    valid_until = models.DateTimeField(help_text="After this it must be made again.")

    def __str__(self) -> str:
        return f"Preview {self.digest[:12]} of {self.sync}"


class Version(models.Model):
    """A published rule, for ever. The database refuses UPDATE and DELETE (PRODUCT 6.2)."""

    sync = models.ForeignKey(Sync, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField(help_text="Counts up per sync.")
    digest = models.CharField(max_length=64, help_text="Binds rule and connections.")
    digest_method = models.PositiveSmallIntegerField(help_text="How the digest was made; old ones keep their meaning.")
    document = models.TextField(help_text="The rule as canonical JSON; the digest is over this text.")
    facts = models.JSONField(help_text="Both connections as published: kind, account, scopes.")
    publisher = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False
    )
    publisher_label = models.CharField(max_length=200, help_text="Who published it, as text.")
    published_at = models.DateTimeField(help_text="When.")
    reason = models.CharField(max_length=300, default="", blank=True, help_text="Why, in the publisher's words.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["sync", "number"], name="version_number_once_per_sync"),
        ]

    def __str__(self) -> str:
        return f"Version {self.number} of {self.sync}"


class Schedule(models.Model):
    """When a sync runs. Edited and audited apart from what it may write (PRODUCT 8.1)."""

    sync = models.OneToOneField(Sync, on_delete=models.CASCADE, related_name="schedule")
    every_minutes = models.PositiveIntegerField(default=15, help_text="Minutes between two starts.")
    offset_seconds = models.PositiveIntegerField(default=0, help_text="Spreads syncs over the minutes.")
    active = models.BooleanField(default=True, help_text="Whether it plans starts at all.")
    next_for = models.DateTimeField(null=True, help_text="The next planned instant, precomputed for the planner.")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(every_minutes__gte=1), name="schedule_every_at_least_a_minute"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["next_for"], condition=models.Q(active=True), name="schedule_due"),
        ]

    def __str__(self) -> str:
        return f"Every {self.every_minutes} minutes: {self.sync}"


class Occurrence(models.Model):
    """One due start: unique per schedule and planned instant, ending in exactly one state (PRODUCT 8.3)."""

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="occurrences")
    planned_for = models.DateTimeField(help_text="The planned instant.")
    state = fields.word(OccurrenceState, "Where it is or how it ended.", default=OccurrenceState.DUE.value)
    run = models.OneToOneField("Run", null=True, on_delete=models.SET_NULL, related_name="occurrence")
    decided_at = models.DateTimeField(null=True, help_text="When its state was decided.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["schedule", "planned_for"], name="occurrence_once_per_instant"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["planned_for"],
                condition=models.Q(state=OccurrenceState.DUE.value, run__isnull=True),
                name="occurrence_without_run",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.planned_for:%Y-%m-%d %H:%M} {self.state}"


# --- The syncs of a connection ----------------------------------------------------------------------------------------
def syncs_of(connection: Connection) -> models.QuerySet[Sync]:
    """The syncs that read from a connection or write to it, by name."""
    either = models.Q(source=connection) | models.Q(destination=connection)
    return Sync.objects.filter(either).order_by("name", "pk")


def published_for(connection: Connection) -> list[tuple[Sync, Mapping[str, Any]]]:
    """The published syncs of a connection, each with what its publication binds of it: account and scopes (6.2)."""
    rows = syncs_of(connection).filter(published__isnull=False).select_related("workspace", "published")
    sides = ((sync, sync.published, sync.source_id == connection.pk) for sync in rows)
    return [(sync, version.facts["source" if reads else "destination"]) for sync, version, reads in sides if version]


def standing_still(connection: Connection) -> tuple[Sync, ...]:
    """The syncs that would stand still if the credential to come took over: published for what it is not (6.3)."""
    tested = connection.next_test or {}
    if not tested.get("account"):
        return ()
    account, given = tested["account"], tested["given"]
    return tuple(
        sync
        for sync, known in published_for(connection)
        if sync.state == SyncState.PUBLISHED and not credential.difference(account, given, known).is_none
    )


def stopped_without(connection: Connection) -> tuple[Sync, ...]:
    """The syncs that would be paused if a connection were disconnected."""
    working = [SyncState.PUBLISHED.value, SyncState.EDITED.value]
    return tuple(syncs_of(connection).filter(state__in=working).select_related("workspace"))
