"""What a person can mend on a sync: its cursors, its lease, its records that were not taken (PRODUCT 1.8, 4.4, 9.3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from syncs import words
from syncs.domain.lifecycle import DeliveryState, Lane, RunState
from syncs.models import Cursor, Delivery, Lease, Run, Sync
from syncs.queries import records

SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class CursorLine:
    """How far a lane has read."""

    lane: str
    word: str
    watermark: datetime | None
    since: datetime | None
    until: datetime | None
    rows: int
    pages: int
    moved_at: datetime | None
    fence: int

    @property
    def is_open(self) -> bool:
        return self.until is not None


@dataclass(frozen=True, slots=True)
class LeaseLine:
    """Who owns the sync. ``is_expired``: nobody does any more, and another worker may take over."""

    fence: int
    run: int | None
    renewed_at: datetime
    expires_at: datetime
    is_expired: bool


@dataclass(frozen=True, slots=True)
class RecoveryPage:
    """All that the recovery page shows."""

    cursors: tuple[CursorLine, ...]
    lease: LeaseLine | None
    open_run: Run | None
    is_running: bool
    failed: tuple[records.RecordRow, ...]
    set_aside: tuple[records.RecordRow, ...]
    deferred: tuple[records.RecordRow, ...]

    @property
    def failed_codes(self) -> tuple[tuple[str, str], ...]:
        """Reasons among the rejected ones that are listed, each with its word."""
        return _codes(self.failed)

    @property
    def set_aside_codes(self) -> tuple[tuple[str, str], ...]:
        return _codes(self.set_aside)


def _codes(rows: tuple[records.RecordRow, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({(row.code, row.reason) for row in rows if row.code}))


def recovery_page(sync: Sync, now: datetime) -> RecoveryPage:
    """Five queries, whatever the ledger's size."""
    open_run = Run.objects.filter(sync=sync).exclude(state=RunState.FINISHED).order_by("-created_at").first()
    lease = _lease(getattr(sync, "lease", None), now)
    return RecoveryPage(
        cursors=_cursors(sync),
        lease=lease,
        open_run=open_run,
        is_running=open_run is not None and open_run.state == RunState.RUNNING,
        failed=_rows(sync, DeliveryState.FAILED),
        set_aside=_rows(sync, DeliveryState.SET_ASIDE),
        deferred=_rows(sync, DeliveryState.DEFERRED),
    )


def _cursors(sync: Sync) -> tuple[CursorLine, ...]:
    found = {cursor.lane: cursor for cursor in Cursor.objects.filter(sync=sync)}
    return tuple(_cursor(lane, found.get(lane.value)) for lane in Lane)


def _cursor(lane: Lane, cursor: Cursor | None) -> CursorLine:
    word = str(words.LANES[lane])
    if cursor is None:
        return CursorLine(lane.value, word, None, None, None, 0, 0, None, 0)
    return CursorLine(
        lane=lane.value,
        word=word,
        watermark=cursor.watermark,
        since=cursor.since,
        until=cursor.until,
        rows=cursor.rows,
        pages=cursor.pages,
        moved_at=cursor.moved_at,
        fence=cursor.fence,
    )


def _lease(lease: Lease | None, now: datetime) -> LeaseLine | None:
    if lease is None:
        return None
    expired = lease.expires_at <= now
    return LeaseLine(lease.fence, lease.run_id, lease.renewed_at, lease.expires_at, expired)


def _rows(sync: Sync, state: DeliveryState) -> tuple[records.RecordRow, ...]:
    found = Delivery.objects.filter(sync=sync, state=state.value).order_by("id")[:SHOWN]
    return tuple(records.row_of(one) for one in found)
