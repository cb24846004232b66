"""Everything about one run (UX, P3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.text import capfirst
from django.utils.translation import gettext as _

from syncs import words
from syncs.domain.lifecycle import DeliveryState, Outcome, RunState
from syncs.models import Run
from syncs.queries import records, runs, standing, timeline

RETRIED = frozenset({DeliveryState.FAILED, DeliveryState.SET_ASIDE})


@dataclass(frozen=True, slots=True)
class RunPage:
    """All that a run's page shows."""

    run: Run
    row: runs.RunRow
    sentence: str
    advice: str
    counters: runs.Counters
    tried_again: tuple[runs.Part, ...]
    refusals: tuple[runs.Reason, ...]
    attempts: tuple[runs.Try, ...]
    receipt: tuple[runs.Fact, ...]
    proved_at: datetime | None
    evidence: tuple[runs.Fact, ...]
    proof_sentence: str
    not_written: tuple[runs.NotWritten, ...]
    is_open: bool
    steps: tuple[timeline.Step, ...]
    groups: tuple[records.Group, ...]
    can_cancel: bool
    is_cancelling: bool
    retry_count: int
    said: str


def run_page(run: Run, now: datetime) -> RunPage:
    """Everything about one run. Five queries."""
    sync = run.sync
    zone = words.zone_of(sync.workspace.zone)
    tries = list(run.attempts.order_by("number"))
    groups = records.groups(run)
    row = runs.row(run, sync, now)
    return RunPage(
        run=run,
        row=row,
        sentence=runs.sentence_of(run, standing.Speaker(standing.Facts(sync, run, None), now, zone)),
        advice="" if run.outcome == Outcome.SUCCEEDED else words.advice(run.error_code),
        counters=runs.counters(runs.totals(run)),
        tried_again=tuple(part for part in runs.counters(run.retried).parts if part.number),
        refusals=runs.reasons(run.refusals),
        attempts=tuple(runs.tries_of(tries)),
        receipt=runs.receipt(run.proof),
        proved_at=runs.instant_of(run.proof.get("proved_at")),
        evidence=runs.evidence(run.evidence),
        proof_sentence=str(run.evidence.get("sentence", "")),
        not_written=runs.not_written(run),
        is_open=run.state != RunState.FINISHED,
        steps=timeline.steps(run, tries, zone, now),
        groups=groups,
        can_cancel=run.state != RunState.FINISHED and run.cancel_asked_at is None,
        is_cancelling=run.state != RunState.FINISHED and run.cancel_asked_at is not None,
        retry_count=sum(group.number for group in groups if group.state in RETRIED),
        said=said(row),
    )


def said(row: runs.RunRow) -> str:
    """What is read out while it goes on."""
    return _("%(state)s. Records so far: %(n)s.") % {"state": capfirst(row.sign.word), "n": f"{row.read:,}"}
