"""The process's time. No other module reads it (PRODUCT 8.5).

`now` plans and is shown; `monotonic` measures durations, deadlines and backoff inside one process. What machines must
agree on is decided by the database's clock, not by this one.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where a function gets the time from. Passed as an argument, so that tests can move it."""

    def now(self) -> datetime:
        """The wall clock, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back. Comparable only with the same clock."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to: both hands together."""

    def __init__(self, at: datetime) -> None:
        """Start at ``at``. Raises ValueError when it has no zone."""
        if at.tzinfo is None:
            raise ValueError("A clock needs an instant with a zone.")
        self._now = at.astimezone(UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, by: timedelta) -> None:
        """Move on by ``by``. Raises ValueError when that is backwards."""
        if by < timedelta(0):
            raise ValueError("A clock is not turned back.")
        self._now += by
        self._monotonic += by.total_seconds()
