"""A sync's runs, filtered, fifty a page, and the same as rows to take away (UX, P2.7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q, QuerySet

from syncs import words
from syncs.domain.lifecycle import Outcome, RecordState, RunState, Trigger
from syncs.models import Run, Sync
from syncs.queries import activity, runs

SHOWN: Final = 50
EXPORTED: Final = 10_000
"""Runs that one export holds, the newest."""

OPEN: Final = "open"
"""The choice that asks for runs without an outcome."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person filters by; empty asks for everything. ``started_by``: a trigger, or a person's name."""

    outcome: str = ""
    started_by: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, int] | None = None


@dataclass(frozen=True, slots=True)
class RunList:
    """A page of runs, newest first. ``more``: where the next page begins."""

    rows: tuple[runs.RunRow, ...]
    more: str


def run_list(sync: Sync, asked: Asked, now: datetime) -> RunList:
    """Fifty runs of a sync. One query, by the index of its runs."""
    found = list(filtered(sync, asked)[: SHOWN + 1])
    shown = found[:SHOWN]
    more = activity.mark(shown[-1].created_at, shown[-1].pk) if len(found) > SHOWN else ""
    return RunList(tuple(runs.row(run, sync, now) for run in shown), more)


def filtered(sync: Sync, asked: Asked) -> QuerySet[Run]:
    """The runs asked for, newest first."""
    found = runs.with_relations().filter(sync=sync).order_by("-created_at", "-pk")
    if asked.outcome == OPEN:
        found = found.exclude(state=RunState.FINISHED)
    elif asked.outcome:
        found = found.filter(outcome=asked.outcome)
    if asked.started_by == Trigger.SCHEDULE:
        found = found.filter(trigger=Trigger.SCHEDULE.value)
    elif asked.started_by == Trigger.PERSON:
        found = found.filter(trigger=Trigger.PERSON.value)
    elif asked.started_by:
        found = found.filter(started_by__username=asked.started_by)
    if asked.since is not None:
        found = found.filter(created_at__gte=asked.since)
    if asked.until is not None:
        found = found.filter(created_at__lt=asked.until)
    if asked.before is not None:
        at, number = asked.before
        found = found.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(pk__lt=number))
    return found


COLUMNS: Final = (
    "id",
    "planned_for",
    "started_at",
    "finished_at",
    "trigger",
    "started_by",
    "lane",
    "state",
    "outcome",
    "verdict",
    "attempts_failed",
    "version",
    "error_code",
    "error_sentence",
    "read",
    *(state.value for state in RecordState),
)


def export(sync: Sync, asked: Asked) -> Iterator[dict[str, Any]]:
    """The runs asked for as flat rows, times in UTC, states by their codes; no personal data."""
    for run in filtered(sync, asked)[:EXPORTED].iterator(chunk_size=500):
        yield flat(run)


def flat(run: Run) -> dict[str, Any]:
    """One run as plain values. ``read`` is the sum of the record states."""
    occurrence = getattr(run, "occurrence", None)
    states = runs.totals(run)
    return {
        "id": run.pk,
        "planned_for": _utc(occurrence.planned_for if occurrence is not None else run.created_at),
        "started_at": _utc(run.started_at),
        "finished_at": _utc(run.finished_at),
        "trigger": run.trigger,
        "started_by": run.started_by.get_username() if run.started_by else "",
        "lane": run.lane,
        "state": run.state,
        "outcome": run.outcome,
        "verdict": run.verdict,
        "attempts_failed": run.failures,
        "version": run.version.number,
        "error_code": run.error_code,
        "error_sentence": run.error_sentence,
        "read": sum(states.values()),
        **{state.value: states.get(state, 0) for state in RecordState},
    }


def whole(run: Run) -> dict[str, Any]:
    """One run with its attempts, receipt, evidence and refusals, for a download (UX, P3)."""
    attempts = [
        {
            "number": one.number,
            "worker": one.worker,
            "fence": one.fence,
            "slices": one.slices,
            "pages": one.pages,
            "started_at": _utc(one.started_at),
            "ended_at": _utc(one.ended_at),
            "outcome": one.outcome,
            "error_code": one.error_code,
            "error_sentence": one.error_sentence,
        }
        for one in run.attempts.order_by("number")
    ]
    return {
        **flat(run),
        "digest": run.version.digest,
        "expected": run.expected,
        "refusals": run.refusals,
        "tried_again": run.retried,
        "possible_duplicates": run.possible_duplicates,
        "receipt": run.proof,
        "evidence": run.evidence,
        "attempts": attempts,
    }


def _utc(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at is not None else None


def outcome_choices() -> list[tuple[str, str]]:
    """Every outcome a run may have, with its word, for a filter."""
    return [
        (OPEN, str(words.RUN_STATES[RunState.RUNNING])),
        *((one.value, str(words.OUTCOMES[one])) for one in Outcome),
    ]
