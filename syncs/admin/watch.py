"""The admin's first page: what needs somebody, across all workspaces (UX, S1).

A number that could not be measured is red and says so; it is never nought, and never green.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from syncs import queries, words
from syncs.admin import columns
from syncs.queries import standing, watch
from syncs.queries.watch import Tally
from syncs.words import Health, Tone

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

MINUTE: Final = timedelta(minutes=1)
LAG_WARNS: Final = 120
"""Seconds between a planned start and the run's, of 95 in 100."""
QUEUE_LATE: Final = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the page, as people see it."""

    title: str
    value: str
    said: str
    tone: Tone
    icon: str
    link: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """Numbers that belong together."""

    title: str
    tiles: tuple[Tile, ...]


Judge = Callable[[Tally, datetime], "tuple[str, str, Tone]"]
"""What was measured, and now -> value, sentence, tone."""


@dataclass(frozen=True, slots=True)
class Number:
    """How one number is told, where it leads and who may see it."""

    code: str
    group: str
    title: StrPromise
    judge: Judge
    table: str
    query: str = ""
    permission: str = ""

    @property
    def needs(self) -> str:
        return self.permission or f"syncs.view_{self.table}"

    @property
    def link(self) -> str:
        return reverse(f"admin:syncs_{self.table}_changelist") + (f"?{self.query}" if self.query else "")


def counted(number: int) -> str:
    """A whole number with its thousands apart, as the language does it."""
    return number_format(number, use_l10n=True, force_grouping=True)


# --- How each is judged ----------------------------------------------------------------------------------------------
def _some(tone: Tone) -> Judge:
    """Nought is quiet; anything else is ``tone`` and says since when."""

    def judge(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
        if tally.number == 0:
            return "0", _now("None now."), Tone.QUIET
        said = _now("The oldest for %(length)s.") % {"length": words.lasting(now - tally.at)} if tally.at else ""
        return counted(tally.number), said, tone

    return judge


def _due(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
    value, said, _tone = _some(Tone.WARN)(tally, now)
    late = tally.at is not None and now - tally.at > standing.LATE_AFTER
    return value, said, Tone.BAD if late else Tone.QUIET


def _lag(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
    if tally.at is None:
        return "-", _now("No start was planned yet."), Tone.QUIET
    said = _now("From planned to started, 95 of 100 of the latest %(n)d starts.") % {"n": watch.LAG_OF}
    return words.lasting(timedelta(seconds=tally.number)), said, Tone.WARN if tally.number > LAG_WARNS else Tone.QUIET


def _queue(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
    # A task that is worked on is locked into the future: its lock is when it would be handed out again.
    waits = tally.at is not None and tally.at <= now
    said = _now("The oldest for %(length)s.") % {"length": words.lasting(now - tally.at)} if waits and tally.at else ""
    late = tally.at is not None and now - tally.at > QUEUE_LATE
    return counted(tally.number), said or _now("None waits."), Tone.BAD if late else Tone.QUIET


def _workers(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
    if tally.at is None:
        return "0", _now("None has ever shown that it lives. Start vigil_worker."), Tone.BAD
    said = _now("The last sign of life %(when)s.") % {"when": words.relative(tally.at, now)}
    return counted(tally.number), said, Tone.OK if tally.number else Tone.BAD


def _tick(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
    if tally.at is None:
        return _now("never"), _now("Nothing is planned without it. Start vigil_worker."), Tone.BAD
    late = now - tally.at > watch.TICK_LATE
    said = _now("It plans what is due, each minute.")
    return words.relative(tally.at, now), said, Tone.BAD if late else Tone.OK


def _ledger(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
    said = _now("Deliveries, as the database's statistics estimate. Nothing is counted.")
    return "≈ " + counted(tally.number), said, Tone.QUIET


def _skew(tally: Tally, now: datetime) -> tuple[str, str, Tone]:
    apart = timedelta(milliseconds=abs(tally.number))
    tone = Tone.BAD if apart > watch.SKEW_BAD else Tone.WARN if apart > watch.SKEW_WARNS else Tone.OK
    said = _now("This process's clock against the database's.")
    seconds = number_format(tally.number / 1000, 1, use_l10n=True, force_grouping=True)
    return _now("%(seconds)s s") % {"seconds": seconds}, said, tone


def _of_health(health: Health) -> Number:
    tone = Tone.WARN if health is Health.EDITED else Tone.BAD
    return Number(health.value, "syncs", words.HEALTH[health], _some(tone), "sync", f"health={health}")  # type: ignore[arg-type]


SHELVES: Final[Sequence[tuple[StrPromise, tuple[Number, ...]]]] = (
    (
        _("Syncs, each by the worst that is true of it"),
        tuple(
            _of_health(one) for one in (Health.PAUSED, Health.FAILING, Health.SILENT, Health.UNPROVEN, Health.EDITED)
        ),
    ),
    (
        _("What needs a decision"),
        (
            Number(
                "in_doubt", "in_doubt", _("Deliveries in doubt"), _some(Tone.WARN), "delivery", "state=may_be_stored"
            ),
            Number("findings", "findings", _("Open findings"), _some(Tone.WARN), "finding", "open=1"),
        ),
    ),
    (
        _("Runs"),
        (
            Number("due", "due", _("Due and not started"), _due, "run", "due=now"),
            Number("running", "running", _("Running"), _some(Tone.QUIET), "run", "state=running"),
            Number("unplanned", "unplanned", _("Starts nobody planned"), _some(Tone.BAD), "schedule", "due=unplanned"),
            Number("lag", "lag", _("Planning lag"), _lag, "occurrence"),
        ),
    ),
    (
        _("The house"),
        (
            Number("workers", "workers", _("Workers alive"), _workers, "beat"),
            Number("tick", "tick", _("Last tick"), _tick, "beat"),
            Number("queue", "queue", _("Tasks in the queue"), _queue, "run", "state=waiting"),
            Number("ledger", "ledger", _("Ledger"), _ledger, "delivery"),
            Number("skew", "skew", _("Clock ahead"), _skew, "beat"),
        ),
    ),
)

LOOKS: Final[Mapping[Tone, str]] = {
    Tone.OK: "check_circle",
    Tone.QUIET: "radio_button_unchecked",
    Tone.WARN: "warning",
    Tone.BAD: "error",
}


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Adds the numbers that whoever asks may see to the context of the admin's index."""
    now = queries.now()
    seen = [(title, [one for one in numbers if request.user.has_perm(one.needs)]) for title, numbers in SHELVES]
    groups = list(dict.fromkeys(one.group for _title, numbers in seen for one in numbers))
    found = watch.measure(groups, now) if groups else {}
    shelves = [
        Shelf(str(title), tuple(_tile(one, found, now) for one in numbers)) for title, numbers in seen if numbers
    ]
    unmeasured = sum(tile.value == _unmeasured() for shelf in shelves for tile in shelf.tiles)
    return context | {
        "shelves": shelves,
        "unmeasured": unmeasured,
        "made_at": columns.instant(now, UTC),
        "zone_data": watch.zone_data(),
    }


def _unmeasured() -> str:
    return _now("Not measured")


def _tile(number: Number, found: Mapping[str, Tally | None], now: datetime) -> Tile:
    tally = found.get(number.code)
    if tally is None:
        return _told(number, _unmeasured(), _now("This could not be measured: it may be well or not."), Tone.BAD)
    return _told(number, *number.judge(tally, now))


def _told(number: Number, value: str, said: str, tone: Tone) -> Tile:
    return Tile(str(number.title), value, said, tone, LOOKS[tone], number.link)
