"""How did a run end, and where is every record of it? (UX, P3.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from syncs import words
from syncs.domain.lifecycle import DeliveryState, Outcome, RecordState, RunState, Trigger, Verdict
from syncs.domain.retry import MAX_ATTEMPTS
from syncs.models import Attempt, Delivery, Lease, Run, Sync
from syncs.queries import standing
from syncs.words import Sign, Tone

NOT_WRITTEN_SHOWN: Final = 100
"""Records without a happy end that a run's page names."""

OPEN: Final = (RunState.WAITING.value, RunState.RUNNING.value)
"""A sync has at most one run in these states; parked history is not open (PRODUCT 3.4)."""

DOUBLE_CLICK: Final = timedelta(seconds=30)
"""Presses of Run now on one and the same page within this time are one."""

QUOTE_LIMIT: Final = 300
"""Characters of another system's own text that a page quotes."""

ALWAYS_NAMED: Final = (
    RecordState.WRITTEN,
    RecordState.UNCHANGED,
    RecordState.REFUSED,
    RecordState.IN_DOUBT,
    RecordState.FAILED,
)
"""States that the counter line shows large even when there is none of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """One term of the counter line. ``at`` and ``width`` are percent of the bar."""

    state: str
    word: str
    number: int
    at: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Counters:
    """read = the sum of the parts. ``parts`` are shown large, ``others`` are the states of which there is none."""

    read: int
    parts: tuple[Part, ...]
    others: tuple[Part, ...]

    @property
    def drawn(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.number)


@dataclass(frozen=True, slots=True)
class Reason:
    """Refused records by reason."""

    code: str
    word: str
    number: int
    share: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """One line of the table of runs."""

    id: int
    planned_for: datetime
    started_at: datetime | None
    late_by: timedelta | None
    duration: timedelta | None
    sign: Sign
    started_by: str
    by_schedule: bool
    attempt: int
    read: int
    written: int
    refused: int
    left_behind: str
    version: int
    unchanged: int = 0
    in_doubt: int = 0
    failed: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt."""

    number: int
    started_at: datetime
    ended_at: datetime | None
    sign: Sign
    pages: int
    slices: int
    fence: int
    sentence: str


@dataclass(frozen=True, slots=True)
class NotWritten:
    """A record without a happy end: its id, never its address (Case UI-03)."""

    record: str
    state: str
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of proof: what was asked and what the answer was."""

    name: str
    answer: str


def with_relations() -> QuerySet[Run]:
    """Runs as lines need them; the published text stays where it is."""
    return Run.objects.select_related("version", "started_by", "occurrence").defer(
        "version__document", "version__facts", "proof"
    )


def newest(sync: Sync) -> QuerySet[Run]:
    """All runs of a sync, newest first, by their index."""
    return Run.objects.filter(sync=sync).order_by("-created_at", "-pk")


def totals(run: Run) -> dict[str, int]:
    """Records by state: those of pages moved over, and those of the page it stopped at (PRODUCT 1.2)."""
    summed: dict[str, int] = {}
    for part in (run.states, run.unsettled):
        for state, number in part.items():
            summed[state] = summed.get(state, 0) + int(number)
    return summed


def counters(states: Mapping[str, int]) -> Counters:
    """The counter line. It closes by construction: what is read is what the states add up to."""
    named: dict[str, str] = {state: str(word) for state, word in words.RECORD_STATES.items()}
    named |= {state: state.replace("_", " ") for state in states if state not in named}
    every = [Part(state, word, int(states.get(state, 0))) for state, word in named.items()]
    shown = [part for part in every if part.number or part.state in ALWAYS_NAMED]
    others = tuple(part for part in every if part not in shown)
    return Counters(sum(part.number for part in every), _drawn(shown), others)


LEAST_WIDTH: Final = 2.4
"""Percent of the bar that a count above nothing takes at least, so that 3 of 250 can be seen; numbers are exact."""


def _drawn(parts: list[Part]) -> tuple[Part, ...]:
    total = sum(part.number for part in parts)
    widths = [max(part.number * 100 / total, LEAST_WIDTH) if part.number else 0.0 for part in parts]
    if widths and total:
        widest = widths.index(max(widths))
        widths[widest] -= sum(widths) - 100
    placed: list[Part] = []
    at = 0.0
    for part, width in zip(parts, widths, strict=True):
        placed.append(Part(part.state, part.word, part.number, round(at, 3), round(width, 3)))
        at += width
    return tuple(placed)


def reasons(refusals: Mapping[str, int]) -> tuple[Reason, ...]:
    """Refusals by reason, the most frequent first."""
    total = sum(refusals.values())
    ordered = sorted(refusals.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Reason(code, words.refusal(code), n, round(n * 100 / total, 1)) for code, n in ordered if n)


def row(run: Run, sync: Sync, now: datetime) -> RunRow:
    """One run as a line. Its version, person and occurrence are loaded already."""
    occurrence = getattr(run, "occurrence", None)
    planned = occurrence.planned_for if occurrence is not None else run.created_at
    states = totals(run)
    by = run.started_by.get_username() if run.started_by else str(words.TRIGGERS[Trigger(run.trigger)])
    late = run.started_at - planned if run.started_at is not None and occurrence is not None else None
    return RunRow(
        id=run.pk,
        planned_for=planned,
        started_at=run.started_at,
        late_by=late if late is not None and late > standing.LATE_AFTER else None,
        duration=(run.finished_at or now) - run.started_at if run.started_at is not None else None,
        sign=sign(run, getattr(sync, "lease", None), now),
        started_by=by,
        by_schedule=run.trigger == Trigger.SCHEDULE,
        attempt=min(run.failures + 1, MAX_ATTEMPTS) if run.started_at is not None else 0,
        read=sum(states.values()),
        written=states.get(RecordState.WRITTEN, 0),
        refused=states.get(RecordState.REFUSED, 0),
        left_behind=words.left_behind(states),
        version=run.version.number,
        unchanged=states.get(RecordState.UNCHANGED, 0),
        in_doubt=states.get(RecordState.IN_DOUBT, 0),
        failed=states.get(RecordState.FAILED, 0),
        others=sum(number for state, number in states.items() if state not in ALWAYS_NAMED),
    )


def sign(run: Run, lease: Lease | None, now: datetime) -> Sign:
    """How a run is shown, whatever its state."""
    if run.state == RunState.FINISHED:
        return words.run_sign(
            outcome=run.outcome, verdict=run.verdict, states=totals(run), stopped_by=run.cancel_asked_by
        )
    if standing.no_sign_since(run, lease, now) is not None:
        return Sign(_("no sign of life"), Tone.WARN, "warning")
    if run.state == RunState.RUNNING:
        return Sign(_("running: %(phase)s") % {"phase": words.PHASES.get(run.phase, run.phase)}, Tone.QUIET, "running")
    if run.state == RunState.PARKED:
        return Sign(str(words.RUN_STATES[RunState.PARKED]), Tone.QUIET, "clock")
    if run.failures:
        return Sign(_("waiting for its next attempt"), Tone.WARN, "clock")
    return Sign(str(words.RUN_STATES[RunState.WAITING]), Tone.QUIET, "clock")


def sentence_of(run: Run, told: standing.Speaker) -> str:
    seen = standing.no_sign_since(run, told.facts.lease, told.now)
    if seen is not None:
        return standing.SENTENCES[words.Health.LATE](told)
    if run.state == RunState.RUNNING:
        return _("It is going on since %(at)s.") % {"at": told.at(run.started_at)}
    if run.state == RunState.PARKED:
        return _("It lets a scheduled run through and goes on afterwards.")
    if run.state == RunState.WAITING and run.failures:
        return standing.SENTENCES[words.Health.RETRYING](told)
    if run.state == RunState.WAITING:
        return _("It starts at %(at)s or as soon as a worker is free.") % {"at": told.at(run.due_after)}
    named = {"at": told.at(run.finished_at), "read": f"{sum(totals(run).values()):,}"}
    if run.outcome == Outcome.SUCCEEDED and run.verdict == Verdict.PROVEN_QUIET:
        return _("It ended at %(at)s: nothing new, and that is proved.") % named
    if run.outcome == Outcome.SUCCEEDED:
        return _("It ended at %(at)s after %(read)s records, and the read is proved.") % named
    return _("It ended at %(at)s: %(outcome)s.") % {**named, "outcome": words.OUTCOMES.get(run.outcome, run.outcome)}


def tries_of(attempts: list[Attempt]) -> list[Try]:
    tries: list[Try] = []
    for one in attempts:
        if one.ended_at is None:
            shown = Sign(_("going on"), Tone.QUIET, "running")
        else:
            shown = words.run_sign(outcome=one.outcome, verdict="", states={})
        text = one.error_sentence
        tries.append(
            Try(one.number, one.started_at, one.ended_at, shown, one.pages, one.slices, one.fence, text[:QUOTE_LIMIT])
        )
    return tries


NOT_HAPPY: Final = (
    DeliveryState.FAILED,
    DeliveryState.IN_DOUBT,
    DeliveryState.SET_ASIDE,
    DeliveryState.DEFERRED,
    DeliveryState.SENDING,
    DeliveryState.CLAIMED,
    DeliveryState.REFUSED,
)
"""States without a happy end, what a person should look at first."""


def not_written(run: Run) -> tuple[NotWritten, ...]:
    """Up to a hundred of each state, each by the index of the run, whatever the ledger's size; a hundred in all."""
    columns = ("object", "state", "code", "sentence")
    first, *others = (
        Delivery.objects.filter(run=run, state=state.value).order_by("id").values_list(*columns)[:NOT_WRITTEN_SHOWN]
        for state in NOT_HAPPY
    )
    found = sorted(first.union(*others, all=True), key=lambda row: NOT_HAPPY.index(DeliveryState(row[1])))
    shown = [
        NotWritten(name, str(words.DELIVERY_STATES.get(state, state)), words.refusal(code) if code else "", said)
        for name, state, code, said in found[:NOT_WRITTEN_SHOWN]
    ]
    return tuple(sorted(shown, key=lambda one: (one.state, one.reason, one.record)))


def receipt(proof: Mapping[str, Any]) -> tuple[Fact, ...]:
    """What the run proved before it changed anything (PRODUCT 6.4)."""
    if not proof.get("digest"):
        return ()
    return (
        Fact(_("Version"), str(proof.get("version", ""))),
        Fact(_("Digest"), str(proof["digest"])),
        Fact(_("Published by"), str(proof.get("publisher", ""))),
        Fact(_("Source account"), str(proof.get("source", ""))),
        Fact(_("Destination account"), str(proof.get("destination", ""))),
    )


def evidence(found: Mapping[str, Any]) -> tuple[Fact, ...]:
    """What shows that the read was real (PRODUCT 5.2)."""
    if "rows_seen" not in found:
        return ()
    served, asked = found.get("version_served"), found.get("version_asked")
    return (
        Fact(_("Credential and account"), _("proved") if found.get("identity_ok") else _("not proved")),
        Fact(_("Scopes that lack"), ", ".join(map(str, found.get("scopes_missing", []))) or _("none")),
        Fact(_("API version asked and served"), f"{asked or _('none')} / {served or _('none')}"),
        Fact(_("Counted by the source before"), _counted(found.get("count_before"))),
        Fact(_("Counted by the source after"), _counted(found.get("count_after"))),
        Fact(_("Records read"), f"{int(found['rows_seen']):,}"),
        Fact(_("Pages agree with each other"), _("yes") if found.get("structure_ok") else _("no")),
        Fact(_("Read to its end"), _("yes") if found.get("exhausted") else _("no")),
        Fact(_("Faults in the answers"), ", ".join(map(str, found.get("problems", []))) or _("none")),
    )


def _counted(count: Mapping[str, Any] | None) -> str:
    if not count:
        return _("not counted")
    number = f"{int(count.get('records', 0)):,}"
    return number if count.get("exact") else _("at least %(number)s") % {"number": number}


def instant_of(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
