"""When a sync is due: intervals as plain arithmetic in UTC (PRODUCT 8.2). Clock changes do not touch them."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

DEFAULT_MINUTES: Final = 15
MOST_MINUTES: Final = 7 * 24 * 60

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Every:
    """Every ``minutes``, counted from the epoch and shifted by ``offset``. Raises ValueError outside its ranges."""

    minutes: int
    offset: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if not 1 <= self.minutes <= MOST_MINUTES:
            raise ValueError(f"An interval is 1 to {MOST_MINUTES} minutes.")
        if not timedelta(0) <= self.offset < self.step:
            raise ValueError("The offset is at least nothing and shorter than the interval.")

    @property
    def step(self) -> timedelta:
        return timedelta(minutes=self.minutes)


def spread_offset(sync_id: int, minutes: int) -> timedelta:
    """The sync's own shift, in whole seconds within the interval: the same for ever, and even over many syncs."""
    number = int.from_bytes(hashlib.sha256(str(sync_id).encode()).digest()[:8], "big")
    return timedelta(seconds=number % (minutes * 60))


def next_start(every: Every, after: datetime) -> datetime:
    """The first start later than ``after``, in UTC. Raises ValueError when ``after`` has no zone.

    It depends on the grid alone, so a late start or a lost tick shifts nothing that follows (Case SCHED-03).
    """
    if after.tzinfo is None:
        raise ValueError("The next start is computed from an instant with a zone.")
    steps = (after.astimezone(UTC) - _EPOCH - every.offset) // every.step
    return _EPOCH + every.offset + (steps + 1) * every.step


def lateness(planned_for: datetime, at: datetime) -> timedelta:
    """How long after its planned instant something happened; nothing when it was on time or early."""
    return max(at - planned_for, timedelta(0))
