"""Two days of planned starts, drawn by shape and told by word; those that never happened too (UX, P2.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from typing import Any, Final

from django.utils import formats
from django.utils.translation import gettext as _

from syncs import words
from syncs.domain import schedule as schedules
from syncs.domain.lifecycle import FAILURES, OccurrenceState, Outcome, RunState, SyncState, Verdict
from syncs.models import Occurrence, Schedule, Sync
from syncs.queries.standing import LATE_AFTER
from syncs.words import Sign, Tone

HOURS: Final = 48
CELL: Final = timedelta(minutes=15)
"""The least stretch of a cell: starts that follow each other faster share one, which shows the worst of them."""

QUOTE: Final = 120
"""Characters of a run's error beside its cell."""

COLUMNS: Final = (
    "planned_for",
    "state",
    "run_id",
    "run__state",
    "run__outcome",
    "run__verdict",
    "run__states",
    "run__unsettled",
    "run__error_sentence",
)


@dataclass(frozen=True, slots=True)
class Slot:
    """One planned start: when, how it went (``sign``, whose shape is a cell's), its run if it had one."""

    at: datetime
    sign: Sign
    run: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is drawn: one slot, or the worst of several in a quarter of an hour. ``label`` says all of it."""

    key: str
    worst: Slot
    label: str


@dataclass(frozen=True, slots=True)
class Hour:
    """The cells of one hour of the workspace's clock."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Day:
    """24 hours."""

    label: str
    hours: tuple[Hour, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """How often one thing happened, with the shape it is drawn by."""

    sign: Sign
    number: int


@dataclass(frozen=True, slots=True)
class Strip:
    """The drawing, its key and the slots of its table, newest first."""

    days: tuple[Day, ...]
    kinds: tuple[Kind, ...]
    slots: tuple[Slot, ...]

    @property
    def total(self) -> int:
        return len(self.slots)

    @property
    def summary(self) -> str:
        """What did not go as planned, in numbers; that nothing did not, otherwise."""
        wrong = [kind for kind in self.kinds if kind.sign.tone in (Tone.BAD, Tone.WARN)]
        if not wrong:
            return _("Nothing failed, nothing was left out.")
        return ", ".join(f"{kind.number:,} {kind.sign.word}" for kind in wrong) + "."


SHAPES: Final = ("fail", "miss", "warn", "other", "pause", "run", "ok", "quiet", "plan")
"""Shapes of cells, worst first."""


def strip(sync: Sync, now: datetime, *, known_since: datetime | None) -> Strip | None:
    """The last two days of ``sync`` up to the end of this hour; None when nothing was ever planned. One query.

    ``known_since``: since when the schedule is the present one. What lies on its grid after that and has no row was
    missed: nobody looked at the timetable then.
    """
    schedule: Schedule | None = getattr(sync, "schedule", None)
    if schedule is None:
        return None
    zone = words.zone_of(sync.workspace.zone)
    start, end = window(now, zone)
    found = {slot.at: slot for slot in _happened(schedule, start, end, now)}
    slots = sorted({**_planned(sync, schedule, start, end, now, known_since), **found}.values(), key=lambda s: s.at)
    return Strip(_days(slots, start, zone), _kinds(slots), tuple(reversed(slots))) if slots else None


def window(now: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Whole hours of the workspace's clock, the present one the last."""
    local = now.astimezone(zone)
    end = now - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    end += timedelta(hours=1)
    return end - timedelta(hours=HOURS), end


def _happened(schedule: Schedule, start: datetime, end: datetime, now: datetime) -> Iterator[Slot]:
    rows = Occurrence.objects.filter(schedule=schedule, planned_for__gte=start, planned_for__lt=end)
    for row in rows.values(*COLUMNS):
        yield slot_of(row, now)


def slot_of(row: Mapping[str, Any], now: datetime) -> Slot:
    """One occurrence with the columns of its run."""
    at: datetime = row["planned_for"]
    if row["run_id"] is None or not row["run__state"]:
        return Slot(at, _unrun(OccurrenceState(row["state"]), at, now))
    return Slot(at, _ran(row), row["run_id"], (row["run__error_sentence"] or "")[:QUOTE])


def _unrun(state: OccurrenceState, at: datetime, now: datetime) -> Sign:
    word = str(words.OCCURRENCE_STATES[state])
    if state is OccurrenceState.SKIPPED_LATE:
        return Sign(word, Tone.WARN, "miss")
    if state is OccurrenceState.DISCARDED:
        return Sign(word, Tone.QUIET, "pause")
    if state is OccurrenceState.HELD:
        return Sign(word, Tone.QUIET, "pause")
    if state is OccurrenceState.DUE and now - at > LATE_AFTER:
        return Sign(_("late: has not started"), Tone.WARN, "miss")
    shape = "plan" if state is OccurrenceState.DUE else "other"
    return Sign(word, Tone.QUIET, shape)


def _ran(row: Mapping[str, Any]) -> Sign:
    if row["run__state"] != RunState.FINISHED:
        return Sign(str(words.RUN_STATES.get(row["run__state"], row["run__state"])), Tone.QUIET, "run")
    states = {**row["run__states"], **row["run__unsettled"]}
    sign = words.run_sign(outcome=row["run__outcome"], verdict=row["run__verdict"], states=states)
    return Sign(sign.word, sign.tone, _shape(row["run__outcome"], row["run__verdict"], sign.tone))


def _shape(outcome: str, verdict: str, tone: Tone) -> str:
    if outcome in FAILURES:
        return "fail"
    if outcome != Outcome.SUCCEEDED:
        return "other"
    if tone is not Tone.OK:
        return "warn"
    return "quiet" if verdict == Verdict.PROVEN_QUIET else "ok"


def _planned(
    sync: Sync, schedule: Schedule, start: datetime, end: datetime, now: datetime, known_since: datetime | None
) -> dict[datetime, Slot]:
    """The grid: what is still to come, and what should have been and is in no row."""
    since = max([start, *(at for at in (sync.first_published_at, known_since) if at is not None)])
    if sync.first_published_at is None or not schedule.active:
        return {}
    every = schedules.Every(schedule.every_minutes, timedelta(seconds=schedule.offset_seconds))
    grid: dict[datetime, Slot] = {}
    at = schedules.next_start(every, since)
    while at < end:
        sign = _of_the_grid(sync, at, now)
        if sign is not None:
            grid[at] = Slot(at, sign)
        at += every.step
    return grid


def _of_the_grid(sync: Sync, at: datetime, now: datetime) -> Sign | None:
    if at <= now - LATE_AFTER:
        return Sign(_("missed: nobody planned it"), Tone.WARN, "miss")
    if sync.state != SyncState.PUBLISHED:
        return None
    return Sign(_("planned"), Tone.QUIET, "plan")


def _days(slots: list[Slot], start: datetime, zone: tzinfo) -> tuple[Day, ...]:
    middle = start + timedelta(hours=24)
    halves = [slot for slot in slots if slot.at < middle], [slot for slot in slots if slot.at >= middle]
    return tuple(
        Day(_day_label(begins, zone), _hours(half, zone))
        for half, begins in zip(halves, (start, middle), strict=True)
        if half
    )


def _day_label(begins: datetime, zone: tzinfo) -> str:
    ends = begins + timedelta(hours=24)
    return _("%(since)s to %(until)s") % {"since": _weekday(begins, zone), "until": _weekday(ends, zone)}


def _weekday(at: datetime, zone: tzinfo) -> str:
    local = at.astimezone(zone)
    return formats.date_format(local, "D j M, H:i")


def _hours(slots: list[Slot], zone: tzinfo) -> tuple[Hour, ...]:
    def hour(slot: Slot) -> tuple[int, str]:
        local = slot.at.astimezone(zone)
        return int(slot.at.astimezone(UTC).timestamp() // 3600), formats.date_format(local.replace(minute=0), "H:i")

    return tuple(Hour(label, _cells(list(group), zone)) for (_number, label), group in groupby(slots, key=hour))


def _cells(slots: list[Slot], zone: tzinfo) -> tuple[Cell, ...]:
    def quarter(slot: Slot) -> int:
        return int(slot.at.timestamp() // CELL.total_seconds())

    return tuple(_cell(list(group), zone) for _number, group in groupby(slots, key=quarter))


def _cell(slots: list[Slot], zone: tzinfo) -> Cell:
    worst = min(slots, key=lambda slot: SHAPES.index(slot.sign.shape))
    label = f"{_weekday(worst.at, zone)}: {worst.sign.word}"
    if worst.detail:
        label += f": {worst.detail}"
    if len(slots) > 1:
        label += " " + _("(the worst of %(n)d starts)") % {"n": len(slots)}
    return Cell(key_of(worst), worst, label)


def key_of(slot: Slot) -> str:
    """What a slot's row in the table is called, so that a cell without a run leads there."""
    return f"t{int(slot.at.timestamp())}"


def _kinds(slots: Iterable[Slot]) -> tuple[Kind, ...]:
    numbers: dict[str, int] = {}
    signs: dict[str, Sign] = {}
    for slot in slots:
        word = _kind_word(slot.sign)
        signs.setdefault(word, Sign(word, slot.sign.tone, slot.sign.shape))
        numbers[word] = numbers.get(word, 0) + 1
    ordered = sorted(signs, key=lambda word: (SHAPES.index(signs[word].shape), word))
    return tuple(Kind(signs[word], numbers[word]) for word in ordered)


def _kind_word(sign: Sign) -> str:
    """Without its numbers: "succeeded, 3 set aside" and "succeeded, 1 in doubt" are one kind."""
    return _("succeeded, with records left behind") if sign.shape == "warn" else sign.word
