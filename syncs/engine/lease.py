"""One run owns the sync, and proves it before every write (PRODUCT 3.1 to 3.3).

A lease is a row with a token per acquisition, an expiry by the database's clock, and a fencing number that only grows.
In the process it has a deadline on the monotonic clock, taken *before* the statement was sent, so that it always lies
before the row's own expiry. A call may go out only when that deadline covers the call's whole time.
"""

import logging
import threading
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg

from syncs.domain.clock import Clock
from syncs.engine import crash
from syncs.engine.database import Cursor
from syncs.errors import LeaseLost

log = logging.getLogger(__name__)

MARGIN = timedelta(seconds=2)
"""Taken off the monotonic deadline (a tenth of the term at most), for clocks of unequal pace."""
LOST = "The run lost its slot partway and stopped so as not to write twice."
RETRY_RENEWAL = 1.0
"""Seconds until a renewal that the database did not confirm is tried again."""


@dataclass(slots=True)
class Lease:
    """A lease as its owner knows it. ``deadline`` is a `Clock.monotonic` instant; ``lost`` never turns back."""

    sync_id: int
    token: uuid.UUID
    fence: int
    term: timedelta
    deadline: float
    lost: bool = False
    renewals: int = field(default=0)

    def covers(self, clock: Clock, seconds: float) -> bool:
        """Whether a call of ``seconds`` that starts now ends while the lease still holds."""
        return not self.lost and clock.monotonic() + seconds <= self.deadline

    def require(self, clock: Clock) -> None:
        """Raises LeaseLost when the lease is lost or over."""
        if not self.covers(clock, 0):
            raise lost(self)

    @property
    def held(self) -> dict[str, Any]:
        """What `HELD` needs."""
        return {"sync": self.sync_id, "token": self.token, "fence": self.fence}


HELD = "sync_id = %(sync)s AND token = %(token)s AND fence = %(fence)s AND expires_at > vigil_now()"
"""The row test: this very acquisition, still running by the database's clock."""
HELD_L = "l.sync_id = %(sync)s AND l.token = %(token)s AND l.fence = %(fence)s AND l.expires_at > vigil_now()"
"""The same where the lease is joined as ``l``."""

ACQUIRE = """
INSERT INTO syncs_lease AS l (sync_id, token, fence, holder, run_id, acquired_at, renewed_at, expires_at)
VALUES (%(sync)s, %(token)s, 1, %(holder)s, %(run)s, vigil_now(), vigil_now(), vigil_now() + %(term)s)
ON CONFLICT (sync_id) DO UPDATE
    SET token = EXCLUDED.token, fence = l.fence + 1, holder = EXCLUDED.holder, run_id = EXCLUDED.run_id,
        acquired_at = vigil_now(), renewed_at = vigil_now(), expires_at = vigil_now() + %(term)s
    WHERE l.expires_at <= vigil_now() OR (l.run_id = %(run)s AND %(continues)s)
RETURNING fence
"""

RENEW = f"""
UPDATE syncs_lease SET expires_at = vigil_now() + %(term)s, renewed_at = vigil_now() WHERE {HELD} RETURNING fence
"""

RELEASE = f"UPDATE syncs_lease SET expires_at = vigil_now(), run_id = NULL WHERE {HELD}"

END_OF_PROCESS = """
UPDATE syncs_lease SET expires_at = vigil_now() WHERE holder = ANY(%(holders)s) AND expires_at > vigil_now()
RETURNING sync_id, holder
"""


def lost(lease: Lease) -> LeaseLost:
    """Mark the lease as lost for good, and the error to raise for it."""
    lease.lost = True
    return LeaseLost(LOST)


def _deadline(before: float, term: timedelta) -> float:
    return before + (term - min(MARGIN, term / 10)).total_seconds()


async def acquire(
    cursor: Cursor, clock: Clock, *, sync_id: int, run_id: int, holder: str, term: timedelta, continues: bool
) -> Lease | None:
    """The lease, or None when somebody else holds it.

    ``continues`` says that this run's own slice ended by itself and may be followed at once (PRODUCT 3.5); the caller
    has locked the run's row and seen it waiting.
    """
    token = uuid.uuid4()
    before = clock.monotonic()
    await cursor.execute(
        ACQUIRE,
        {"sync": sync_id, "token": token, "holder": holder, "run": run_id, "term": term, "continues": continues},
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    deadline = _deadline(before, term)
    return Lease(sync_id=sync_id, token=token, fence=row["fence"], term=term, deadline=deadline)


async def prove(cursor: Cursor, lease: Lease) -> None:
    """Prove in this transaction that the lease is held; the row stays locked to its end. Raises LeaseLost."""
    await cursor.execute(f"SELECT fence FROM syncs_lease WHERE {HELD} FOR SHARE", lease.held)
    if await cursor.fetchone() is None:
        raise lost(lease)


async def release(cursor: Cursor, lease: Lease) -> None:
    """Give the lease back. Releasing a lost one changes nothing."""
    await cursor.execute(RELEASE, lease.held)


async def end_of_process(cursor: Cursor, holders: list[str]) -> list[int]:
    """End the leases of processes that are proven dead. Returns the syncs they held (PRODUCT 3.1)."""
    if not holders:
        return []
    await cursor.execute(END_OF_PROCESS, {"holders": holders})
    return [row["sync_id"] for row in await cursor.fetchall()]


class Renewer(threading.Thread):
    """Renews every lease of this process on a connection and a thread of its own: a busy event loop cannot starve it.

    A renewal that finds its row gone marks the lease lost. One that the database does not confirm is tried again each
    second; the lease's deadline does not move meanwhile, so the run stops by itself before the row expires.
    """

    def __init__(self, keywords: dict[str, Any], clock: Clock, every: timedelta) -> None:
        super().__init__(name="lease-renewer", daemon=True)
        self._keywords = keywords
        self._clock = clock
        self._every = every.total_seconds()
        self._leases: dict[uuid.UUID, tuple[Lease, float]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = False
        self._connection: psycopg.Connection[Any] | None = None

    def watch(self, lease: Lease) -> None:
        with self._lock:
            self._leases[lease.token] = (lease, self._clock.monotonic() + self._every)
        self._wake.set()

    def forget(self, lease: Lease) -> None:
        with self._lock:
            self._leases.pop(lease.token, None)

    def end(self) -> None:
        """Stop and wait for the thread."""
        self._ending = True
        self._wake.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        while not self._ending:
            self._wake.wait(self._pause())
            self._wake.clear()
            for lease in self._due():
                self._renew(lease)
        if self._connection is not None:
            self._connection.close()

    def _pause(self) -> float | None:
        with self._lock:
            due = [at for _, at in self._leases.values()]
        return max(0.0, min(due) - self._clock.monotonic()) if due else None

    def _due(self) -> list[Lease]:
        now = self._clock.monotonic()
        with self._lock:
            return [lease for lease, at in self._leases.values() if at <= now]

    def _renew(self, lease: Lease) -> None:
        crash.here("while_renewing")
        before = self._clock.monotonic()
        try:
            held = self._execute(lease)
        except psycopg.Error as error:
            log.warning("Renewing a lease failed and is tried again (%s).", type(error).__name__)
            self._later(lease, before + RETRY_RENEWAL)
            return
        if not held:
            lease.lost = True
            self.forget(lease)
            return
        lease.deadline = _deadline(before, lease.term)
        lease.renewals += 1
        self._later(lease, before + self._every)

    def _later(self, lease: Lease, at: float) -> None:
        with self._lock:
            if lease.token in self._leases:
                self._leases[lease.token] = (lease, at)

    def _execute(self, lease: Lease) -> bool:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = psycopg.connect(**self._keywords, autocommit=True, connect_timeout=5)
        row = self._connection.execute(RENEW.encode(), {**lease.held, "term": lease.term}).fetchone()
        return row is not None
