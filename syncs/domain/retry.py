"""What passes is tried again, what stays stops (PRODUCT 4.1 to 4.3).

Waits are rows with a due time, never sleeping workers; this room computes them and counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final

from connectors import errors as connector_errors
from syncs import errors
from syncs.domain.lifecycle import FAILURES, Outcome

MAX_ATTEMPTS: Final = 5
WAITS: Final = (timedelta(seconds=60), timedelta(seconds=120), timedelta(seconds=240), timedelta(seconds=480))
JITTER: Final = 0.10
"""Share of a wait that may be added to it. Never taken away."""

SPREAD_STEP: Final = timedelta(seconds=1)
PASSING_IN_A_ROW: Final = 5
"""Passing failures, one after the other, that end a page."""

INLINE_WAIT: Final = timedelta(seconds=60)
"""The longest wait a vendor may ask for that is waited out inside the attempt. Longer ones park the run."""

PARK_WAIT: Final = timedelta(seconds=60)
"""How long a run is parked where the vendor names no time."""

PAUSE_AFTER: Final = 5
"""Failed runs in a row that pause a sync, unless the sync says otherwise."""


class Next(Enum):
    """What follows a failed attempt."""

    AGAIN = "again"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """How an error ends an attempt: its outcome, whether the run is tried again, whether that costs an attempt and
    counts towards the pause."""

    outcome: Outcome
    retried: bool
    counted: bool


VERDICTS: Final[Mapping[type[Exception], Ending]] = {
    connector_errors.Passing: Ending(Outcome.FAILED, retried=True, counted=True),
    connector_errors.Throttled: Ending(Outcome.PARKED, retried=True, counted=False),
    connector_errors.Rejected: Ending(Outcome.FAILED, retried=False, counted=True),
    connector_errors.Refused: Ending(Outcome.FAILED, retried=False, counted=True),
    connector_errors.TokenRefused: Ending(Outcome.FAILED, retried=False, counted=True),
    connector_errors.ScopeMissing: Ending(Outcome.FAILED, retried=False, counted=True),
    connector_errors.WrongAccount: Ending(Outcome.FAILED, retried=False, counted=True),
    connector_errors.InDoubt: Ending(Outcome.FAILED, retried=True, counted=True),
    connector_errors.Unreadable: Ending(Outcome.UNREADABLE, retried=True, counted=True),
    connector_errors.CursorStale: Ending(Outcome.UNREADABLE, retried=True, counted=True),
    errors.RuleInvalid: Ending(Outcome.FAILED, retried=False, counted=True),
    errors.PublicationInvalid: Ending(Outcome.FAILED, retried=False, counted=True),
    errors.Faulty: Ending(Outcome.FAILED, retried=False, counted=True),
    errors.LeaseLost: Ending(Outcome.LOST_LEASE, retried=True, counted=False),
    errors.Superseded: Ending(Outcome.SUPERSEDED, retried=False, counted=False),
    errors.Cancelled: Ending(Outcome.CANCELLED, retried=False, counted=False),
    errors.Paused: Ending(Outcome.STOPPED, retried=False, counted=False),
    errors.Collided: Ending(Outcome.COLLIDED, retried=False, counted=False),
}
"""Error class -> ending of the attempt. A class that is not here is its nearest ancestor that is."""


def counted(error: Exception) -> Ending:
    """The ending for ``error``. Raises LookupError for a class of neither tree: that is a fault of ours."""
    for kind in type(error).__mro__:
        if kind in VERDICTS:
            return VERDICTS[kind]
    raise LookupError(f"{type(error).__name__} is not in the table of endings.")


def after_failure(attempts_so_far: int) -> Next:
    """Whether a run that has just failed its attempt number ``attempts_so_far`` gets another one."""
    return Next.AGAIN if attempts_so_far < MAX_ATTEMPTS else Next.FAILED


def wait(failures: int, fraction: float) -> timedelta:
    """How long to wait after ``failures`` (1 to 4) failed attempts; ``fraction`` in [0, 1) is the share of the jitter.

    Raises ValueError outside of both ranges.
    """
    if not 1 <= failures < MAX_ATTEMPTS:
        raise ValueError("There is a wait after one to four failures.")
    if not 0 <= fraction < 1:
        raise ValueError("The share of the jitter is at least 0 and below 1.")
    return WAITS[failures - 1] * (1 + JITTER * fraction)


def spread(position: int) -> timedelta:
    """What the run at ``position`` (0 first) of those that failed together at one account waits on top (RETRY-07).

    Jitter alone puts twenty runs into six seconds.
    """
    return SPREAD_STEP * position


def is_inline(asked: timedelta | None) -> bool:
    """Whether a wait the vendor asked for is waited out inside the attempt. None, no time named, never is."""
    return asked is not None and asked <= INLINE_WAIT


def park(asked: timedelta | None) -> timedelta:
    """How long to park a run for a wait that is not waited out inline."""
    return PARK_WAIT if asked is None else asked


def should_pause(outcomes: Sequence[Outcome], after: int = PAUSE_AFTER) -> bool:
    """Whether the last ``after`` finished runs that count all failed (PRODUCT 4.3).

    ``outcomes`` are those since the sync's last change, newest first. Runs that neither failed nor succeeded are
    passed over; a success ends the row.
    """
    telling = [outcome for outcome in outcomes if outcome in FAILURES or outcome is Outcome.SUCCEEDED]
    return len(telling) >= after and all(outcome in FAILURES for outcome in telling[:after])
