"""Taking a due run: its lease, its attempt, its state, in one transaction (PRODUCT 3.1, 3.5)."""

from syncs.engine import crash, lease
from syncs.engine.lease import Lease
from syncs.engine.outside import Outside

DUE = """
SELECT r.id, r.sync_id, a.id AS attempt_id
FROM syncs_run r LEFT JOIN syncs_attempt a ON a.run_id = r.id AND a.ended_at IS NULL
WHERE r.id = %(run)s AND r.state = 'waiting' AND r.due_after <= vigil_now()
FOR UPDATE OF r SKIP LOCKED
"""
BEGIN = """
UPDATE syncs_run SET state = 'running', phase = 'proving', started_at = coalesce(started_at, vigil_now()),
    deaths = deaths + 1
WHERE id = %(run)s
"""
NEW_ATTEMPT = """
INSERT INTO syncs_attempt (run_id, number, worker, fence, slices, pages, started_at, outcome, error_code,
    error_sentence)
SELECT %(run)s, coalesce(max(number), 0) + 1, %(holder)s, %(fence)s, 1, 0, vigil_now(), '', '', ''
FROM syncs_attempt WHERE run_id = %(run)s
"""
NEXT_SLICE = "UPDATE syncs_attempt SET slices = slices + 1, worker = %(holder)s WHERE id = %(attempt)s"
PUT_OFF = """
UPDATE syncs_run SET due_after = greatest(due_after, (SELECT expires_at FROM syncs_lease WHERE sync_id = %(sync)s))
WHERE id = %(run)s
"""


async def start(outside: Outside, run_id: int) -> Lease | None:
    """Take the run if it is due and its sync is free. The attempt is counted before any work.

    None when somebody else was faster, or when a lease still stands: then the run is put off to that lease's end, and
    does not end as a collision, since nobody else would ever start it (Case QUEUE-02).
    """
    async with outside.database.transaction() as cursor:
        await cursor.execute(DUE, {"run": run_id})
        run = await cursor.fetchone()
        if run is None:
            return None
        held = await lease.acquire(
            cursor,
            outside.clock,
            sync_id=run["sync_id"],
            run_id=run_id,
            holder=outside.holder,
            term=outside.terms.lease,
            continues=run["attempt_id"] is not None,
        )
        if held is None:
            await cursor.execute(PUT_OFF, {"run": run_id, "sync": run["sync_id"]})
            return None
        await cursor.execute(BEGIN, {"run": run_id})
        values = {"run": run_id, "holder": outside.holder, "fence": held.fence, "attempt": run["attempt_id"]}
        await cursor.execute(NEW_ATTEMPT if run["attempt_id"] is None else NEXT_SLICE, values)
    crash.here("after_acquire")
    return held
