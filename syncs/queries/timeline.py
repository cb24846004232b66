"""What a run did, step by step, out of what its rows remember (UX, P3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from syncs import words
from syncs.domain.lifecycle import RunState
from syncs.models import Attempt, Coverage, Cursor, Run

WATCHED = 50
"""Attempts that a timeline names."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened. ``at`` None: it is not known when, or it has not happened yet."""

    at: datetime | None
    what: str
    detail: str = ""
    tone: str = ""


def steps(run: Run, attempts: list[Attempt], zone: tzinfo, now: datetime) -> tuple[Step, ...]:
    """The timeline of ``run``, oldest first. One query, two while it is open."""
    told = [*_begun(run), *_proved(run), *_tried(attempts[:WATCHED], zone, now)]
    told.sort(key=lambda step: step.at or now)
    return (*told, *_moved(run, zone, now), *_ended(run))


def _begun(run: Run) -> Iterator[Step]:
    occurrence = getattr(run, "occurrence", None)
    if occurrence is not None:
        yield Step(occurrence.planned_for, _("Planned"), _("by the schedule"))
    who = run.started_by.get_username() if run.started_by else ""
    yield Step(run.created_at, _("Queued"), _("by %(who)s") % {"who": who} if who else "")
    if run.started_at is not None:
        yield Step(run.started_at, _("Started"))
    if run.cancel_asked_at is not None:
        yield Step(run.cancel_asked_at, _("Asked to stop"), _("by %(who)s") % {"who": run.cancel_asked_by})


def _proved(run: Run) -> Iterator[Step]:
    proof: dict[str, Any] = run.proof
    if not proof.get("digest"):
        return
    named = {"number": proof.get("version", ""), "digest": str(proof["digest"])[:12]}
    yield Step(
        _instant(proof.get("proved_at")),
        _("Version %(number)s proved") % named,
        _("digest %(digest)s, both accounts, the scopes") % named,
    )


def _instant(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def _tried(attempts: list[Attempt], zone: tzinfo, now: datetime) -> Iterator[Step]:
    for one in attempts:
        named = {"number": one.number, "fence": one.fence}
        yield Step(one.started_at, _("Attempt %(number)d took the lease") % named, _("fence %(fence)d") % named)
        if one.ended_at is not None:
            pages = ngettext("%(n)d page moved over", "%(n)d pages moved over", one.pages) % {"n": one.pages}
            slices = ngettext("%(n)d slice", "%(n)d slices", one.slices) % {"n": one.slices}
            outcome = str(words.OUTCOMES.get(one.outcome, one.outcome))
            ended = _("Attempt %(number)d ended: %(outcome)s") % {**named, "outcome": outcome}
            yield Step(one.ended_at, ended, f"{pages}, {slices}", words.outcome_tone(one.outcome))


def _moved(run: Run, zone: tzinfo, now: datetime) -> Iterator[Step]:
    """Where the cursor went: what was covered, or where it stands while the run is open."""
    if run.state != RunState.FINISHED:
        yield from _standing(run, zone, now)
        return
    covered = Coverage.objects.filter(run=run).first()
    if covered is None:
        yield Step(None, _("The cursor did not move to the end of a read"), _("It stands after the last whole page."))
        return
    since = words.instant(covered.since, zone, now) if covered.since else _("the beginning")
    named = {"since": since, "until": words.instant(covered.until, zone, now), "records": f"{covered.records:,}"}
    yield Step(
        covered.proved_at,
        _("Cursor moved from %(since)s to %(until)s") % named,
        _("%(records)s records of the source in it, proved") % named,
    )


def _standing(run: Run, zone: tzinfo, now: datetime) -> Iterator[Step]:
    cursor = Cursor.objects.filter(sync_id=run.sync_id, lane=run.lane).first()
    if cursor is None or cursor.until is None:
        return
    named = {"pages": f"{cursor.pages:,}", "rows": f"{cursor.rows:,}", "until": words.instant(cursor.until, zone, now)}
    yield Step(
        cursor.moved_at,
        _("Cursor stands behind page %(pages)s") % named,
        _("%(rows)s records so far of a read up to %(until)s") % named,
    )


def _ended(run: Run) -> Iterator[Step]:
    if run.finished_at is not None:
        tone = words.outcome_tone(run.outcome)
        yield Step(run.finished_at, _("Closed: %(outcome)s") % {"outcome": words.OUTCOMES[run.outcome]}, "", tone)
