"""States and outcomes of everything that lives through a run, and the moves between them, as tables.

One list of words serves code, pages, JSON and logs (PRODUCT 1.2, 3.4, 4.3, 8.3). A state says where something is and
may leave; an outcome says how it ended, for ever. Moving against a table is a programming fault: `move` raises.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar


class MoveRefused(ValueError):
    """A state was asked to move where its table has no line."""


class Lane(StrEnum):
    """Whose cursor a run reads with (PRODUCT 1.3)."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    RECONCILE = "reconcile"


class Trigger(StrEnum):
    """What started a run."""

    SCHEDULE = "schedule"
    PERSON = "person"


class SyncState(StrEnum):
    """The only words for changing a sync: draft, published, paused (PRODUCT 6.1, 6.3, 4.3)."""

    DRAFT = "draft"
    PUBLISHED = "published"
    EDITED = "edited"
    PAUSED = "paused"


SYNC_MOVES: Mapping[SyncState, frozenset[SyncState]] = {
    SyncState.DRAFT: frozenset({SyncState.PUBLISHED}),
    SyncState.PUBLISHED: frozenset({SyncState.PUBLISHED, SyncState.EDITED, SyncState.PAUSED}),
    SyncState.EDITED: frozenset({SyncState.PUBLISHED, SyncState.PAUSED}),
    SyncState.PAUSED: frozenset({SyncState.PUBLISHED, SyncState.EDITED}),
}


class OccurrenceState(StrEnum):
    """One due start. It ends in exactly one of the last five (PRODUCT 8.3)."""

    DUE = "due"
    HELD = "held"
    EXECUTED = "executed"
    EXECUTED_LATE = "executed_late"
    SKIPPED_LATE = "skipped_late"
    COLLIDED = "collided"
    DISCARDED = "discarded"


class RunState(StrEnum):
    """Where a run is. A waiting run has a due time; only a finished one has an outcome.

    A parked run is history that lets a due scheduled run through (PRODUCT 3.4): it is not open, and goes on afterwards.
    """

    WAITING = "waiting"
    RUNNING = "running"
    PARKED = "parked"
    FINISHED = "finished"


RUN_MOVES: Mapping[RunState, frozenset[RunState]] = {
    RunState.WAITING: frozenset({RunState.RUNNING, RunState.PARKED, RunState.FINISHED}),
    RunState.RUNNING: frozenset({RunState.WAITING, RunState.PARKED, RunState.FINISHED}),
    RunState.PARKED: frozenset({RunState.WAITING, RunState.FINISHED}),
    RunState.FINISHED: frozenset(),
}


class Phase(StrEnum):
    """What a running run is doing (UX, section 1)."""

    PROVING = "proving"
    READING = "reading"
    WRITING = "writing"
    CLOSING = "closing"


class Outcome(StrEnum):
    """How a run, or one attempt of it, ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNREADABLE = "unreadable"
    SHORT = "short"
    UNPROVEN = "unproven"
    LOST_LEASE = "lost_lease"
    COLLIDED = "collided"
    SUPERSEDED = "superseded"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    LIMIT = "stopped_at_limit"
    INTERRUPTED = "interrupted"
    PARKED = "parked"
    YIELDED = "yielded"


FAILURES = frozenset({Outcome.FAILED, Outcome.UNREADABLE, Outcome.SHORT, Outcome.UNPROVEN, Outcome.INTERRUPTED})
"""Outcomes of a run that count towards the pause after five (PRODUCT 4.3)."""


class Verdict(StrEnum):
    """What the evidence of a read shows (PRODUCT 5.2). Only the two proven ones are a success."""

    OPEN = "open"
    PROVEN = "proven"
    PROVEN_QUIET = "proven_quiet"
    SHORT = "short"
    UNREADABLE = "unreadable"
    UNPROVEN = "unproven"


PROVEN = frozenset({Verdict.PROVEN, Verdict.PROVEN_QUIET})


class DeliveryState(StrEnum):
    """Where one effect is on its way to the destination (PRODUCT 2.3, 2.4)."""

    CLAIMED = "claimed"
    SENDING = "sending"
    IN_DOUBT = "in_doubt"
    WRITTEN = "written"
    REFUSED = "refused"
    FAILED = "failed"
    DEFERRED = "deferred"
    SET_ASIDE = "set_aside"
    SUPERSEDED = "superseded"


OPEN_DELIVERIES = frozenset({DeliveryState.CLAIMED, DeliveryState.SENDING, DeliveryState.IN_DOUBT})

_CLOSED = frozenset(DeliveryState) - OPEN_DELIVERIES

DELIVERY_MOVES: Mapping[DeliveryState, frozenset[DeliveryState]] = {
    DeliveryState.CLAIMED: frozenset({DeliveryState.CLAIMED, DeliveryState.SENDING, DeliveryState.SUPERSEDED}),
    DeliveryState.SENDING: _CLOSED | {DeliveryState.CLAIMED, DeliveryState.IN_DOUBT},
    DeliveryState.IN_DOUBT: _CLOSED | {DeliveryState.SENDING, DeliveryState.IN_DOUBT},
    DeliveryState.WRITTEN: frozenset(),
    DeliveryState.REFUSED: frozenset(),
    DeliveryState.FAILED: frozenset({DeliveryState.SET_ASIDE, DeliveryState.SUPERSEDED}),
    DeliveryState.DEFERRED: frozenset({DeliveryState.SUPERSEDED}),
    DeliveryState.SET_ASIDE: frozenset({DeliveryState.SUPERSEDED}),
    DeliveryState.SUPERSEDED: frozenset(),
}


class RecordState(StrEnum):
    """How a record is decided, from best to worst: a record's state is the worst of its effects (PRODUCT 2.2)."""

    FILTERED = "filtered"
    UNCHANGED = "unchanged"
    ALREADY_DELIVERED = "already_delivered"
    SUPERSEDED = "superseded"
    WRITTEN = "written"
    REFUSED = "refused"
    DEFERRED = "deferred"
    SET_ASIDE = "set_aside"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"
    NOT_YET_TRIED = "not_yet_tried"


_BADNESS = {state: rank for rank, state in enumerate(RecordState)}

UNDECIDED = frozenset({RecordState.FAILED, RecordState.IN_DOUBT, RecordState.NOT_YET_TRIED})
"""While a page holds one of these, its cursor stays (PRODUCT 1.2)."""


def worst(states: Iterable[RecordState]) -> RecordState:
    """The worst of ``states``. Raises ValueError when there is none."""
    return max(states, key=_BADNESS.__getitem__)


class FindingState(StrEnum):
    """The life of a finding (PRODUCT 5.6)."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"


S = TypeVar("S", bound=StrEnum)


def move(moves: Mapping[S, frozenset[S]], before: S, after: S) -> S:
    """``after``, when ``moves`` allows it. Raises MoveRefused otherwise."""
    if after not in moves[before]:
        raise MoveRefused(f"{type(before).__name__} cannot move from {before} to {after}")
    return after
