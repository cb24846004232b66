"""What is running, who owns it, how far has it read, and how did it end?"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from syncs.domain.lifecycle import Lane, Outcome, Phase, RunState, Trigger, Verdict
from syncs.models import fields
from syncs.models.syncs import Sync, Version


class Run(models.Model):
    """One execution of a version for one trigger. At most one per sync is open (PRODUCT 3.4)."""

    sync = models.ForeignKey(Sync, on_delete=models.CASCADE, related_name="runs")
    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="runs")
    lane = fields.word(Lane, "Whose cursor it reads with.")
    trigger = fields.word(Trigger, "What started it.")
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    state = fields.word(RunState, "Waiting, running or finished.", default=RunState.WAITING.value)
    phase = fields.word(Phase, "What it is doing.", default=Phase.PROVING.value)
    due_after = models.DateTimeField(help_text="Not started before this instant.")
    failures = models.PositiveSmallIntegerField(default=0, help_text="Attempts that ended in a failure (4.1).")
    deaths = models.PositiveSmallIntegerField(default=0, help_text="Starts without progress or end, in a row (3.5).")
    created_at = models.DateTimeField(help_text="When it was planned.")
    started_at = models.DateTimeField(null=True, help_text="When its first attempt started.")
    finished_at = models.DateTimeField(null=True, help_text="When it ended.")
    outcome = fields.word(Outcome, "How it ended.", default="", blank=True)
    verdict = fields.word(Verdict, "What the evidence of its read shows.", default=Verdict.OPEN.value)
    evidence = models.JSONField(default=dict, help_text="The evidence behind the verdict; no personal data.")
    proof = models.JSONField(default=dict, help_text="The receipt: version, digest, publisher, connections, when.")
    error_code = models.CharField(max_length=60, default="", blank=True)
    error_sentence = models.CharField(max_length=500, default="", blank=True)
    states = models.JSONField(default=dict, help_text="Records by state; their sum is what was read.")
    refusals = models.JSONField(default=dict, help_text="Refused records by reason code.")
    unsettled = models.JSONField(default=dict, help_text="States of the open batch after a stop; not yet decided.")
    expected = models.BigIntegerField(null=True, help_text="The source's own count for the window.")
    retried = models.JSONField(default=dict, help_text="Records of earlier reads tried again, by state (4.4, 4.6).")
    force = models.BooleanField(default=False, help_text="Sends again what is unchanged, on purpose (2.5).")
    possible_duplicates = models.PositiveIntegerField(default=0, help_text="Appends sent again unseen (2.4).")
    yield_asked_at = models.DateTimeField(null=True, help_text="When a scheduled run asked to be let through (3.4).")
    cancel_asked_at = models.DateTimeField(null=True, help_text="When a person asked it to stop.")
    cancel_asked_by = models.CharField(max_length=200, default="", blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["sync"],
                condition=fields.one_of("state", [RunState.WAITING, RunState.RUNNING]),
                name="run_one_open_per_sync",
            ),
            models.CheckConstraint(
                condition=models.Q(state=RunState.FINISHED.value, finished_at__isnull=False) & ~models.Q(outcome="")
                | ~models.Q(state=RunState.FINISHED.value) & models.Q(finished_at__isnull=True, outcome=""),
                name="run_finished_has_outcome",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["due_after"], condition=models.Q(state=RunState.WAITING.value), name="run_due"),
            models.Index(fields=["state"], condition=models.Q(state=RunState.RUNNING.value), name="run_running"),
            models.Index(fields=["state"], condition=models.Q(state=RunState.PARKED.value), name="run_parked"),
            models.Index(fields=["sync", "-created_at"], name="run_by_sync"),
        ]

    def __str__(self) -> str:
        return f"Run {self.pk} of {self.sync_id}"


class Attempt(models.Model):
    """One try of a run, counted when the lease is taken, before any work (PRODUCT 3.5)."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField(help_text="Counts up per run.")
    worker = models.CharField(max_length=200, help_text="Which process: host, pid and its start.")
    fence = models.BigIntegerField(help_text="The fencing number of its first slice.")
    slices = models.PositiveIntegerField(default=1, help_text="How many slices it took.")
    pages = models.PositiveIntegerField(default=0, help_text="How many pages it moved the cursor over.")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    outcome = fields.word(Outcome, "How it ended.", default="", blank=True)
    error_code = models.CharField(max_length=60, default="", blank=True)
    error_sentence = models.CharField(max_length=500, default="", blank=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["run", "number"], name="attempt_number_once_per_run")]

    def __str__(self) -> str:
        return f"Attempt {self.number} of run {self.run_id}"


class Lease(models.Model):
    """Who owns a sync now. Rows are never deleted: the fencing number only grows (PRODUCT 3.1)."""

    sync = models.OneToOneField(Sync, on_delete=models.CASCADE, primary_key=True, related_name="lease")
    token = models.UUIDField(help_text="New for every acquisition.")
    fence = models.BigIntegerField(help_text="Grows with every acquisition, never shrinks.")
    holder = models.CharField(max_length=200, help_text="Which process: host, pid and its start.")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    acquired_at = models.DateTimeField()
    renewed_at = models.DateTimeField()
    expires_at = models.DateTimeField(help_text="By the database's clock.")

    def __str__(self) -> str:
        return f"Lease of {self.sync_id}, fence {self.fence}"


class Cursor(models.Model):
    """How far a lane has read: a watermark, and the read in progress (PRODUCT 1.3, 1.5)."""

    sync = models.ForeignKey(Sync, on_delete=models.CASCADE, related_name="cursors")
    lane = fields.word(Lane, "Whose cursor it is.")
    watermark = models.DateTimeField(null=True, help_text="Everything the source changed before this was read.")
    since = models.DateTimeField(null=True, help_text="Lower bound of the open read, inclusive; none: the beginning.")
    until = models.DateTimeField(null=True, help_text="Upper bound of the open read; none: no read is open.")
    query_digest = models.CharField(max_length=64, default="", help_text="The query that made the page cursor.")
    after = models.CharField(max_length=2000, null=True, help_text="The source's page cursor.")
    anchor = models.CharField(max_length=2000, null=True, help_text="An earlier page cursor, to notice a loop (1.7).")
    exhausted = models.BooleanField(default=False, help_text="Whether the last page was read.")
    rows = models.BigIntegerField(default=0, help_text="Records seen in the open read.")
    pages = models.BigIntegerField(default=0, help_text="Pages moved over in the open read.")
    counted = models.BigIntegerField(null=True, help_text="The source's count before the open read.")
    counted_exact = models.BooleanField(default=True)
    fence = models.BigIntegerField(default=0, help_text="Fencing number of the last owner that moved it.")
    moved_at = models.DateTimeField(null=True, help_text="When it last moved.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["sync", "lane"], name="cursor_one_per_lane"),
        ]

    def __str__(self) -> str:
        return f"{self.lane} cursor of {self.sync_id}"


class Coverage(models.Model):
    """Which stretch of source time was read by which run (PRODUCT 1.4)."""

    sync = models.ForeignKey(Sync, on_delete=models.CASCADE, related_name="coverage")
    lane = fields.word(Lane, "Whose read it was.")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    since = models.DateTimeField(null=True, help_text="Inclusive; none: the beginning.")
    until = models.DateTimeField(help_text="Exclusive.")
    records = models.BigIntegerField()
    proved_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["sync", "until"], name="coverage_by_sync")]
        verbose_name_plural = "coverage"

    def __str__(self) -> str:
        return f"Up to {self.until:%Y-%m-%d %H:%M}"
