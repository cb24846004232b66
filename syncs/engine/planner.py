"""Turns what is due into rows: occurrences, runs, the next start; and notices runs whose owner is gone (PRODUCT 8.3).

Nothing of the timetable lives in memory. Each step is one set-based statement or one short transaction; a poke that is
lost is sent again by the next tick, since what is due is a row.
"""

from datetime import timedelta

from syncs.domain import schedule
from syncs.domain.lifecycle import Outcome
from syncs.engine import lease, runner
from syncs.engine.database import Cursor, Database, Row
from syncs.engine.runner import Ended

DEATHS = 5
"""Starts without progress or end that fail a run (PRODUCT 3.5)."""

DUE_SCHEDULES = """
SELECT c.id, c.sync_id, c.every_minutes, c.offset_seconds, c.next_for, s.state AS sync_state, s.published_id,
    vigil_now() AS now
FROM syncs_schedule c JOIN syncs_sync s ON s.id = c.sync_id
WHERE c.active AND c.next_for <= vigil_now()
ORDER BY c.next_for LIMIT 1 FOR UPDATE OF c SKIP LOCKED
"""
OCCUR = """
INSERT INTO syncs_occurrence (schedule_id, planned_for, state, decided_at)
VALUES (%(schedule)s, %(planned_for)s, 'due', NULL)
ON CONFLICT (schedule_id, planned_for) DO NOTHING RETURNING id
"""
PLAN_RUN = """
INSERT INTO syncs_run (sync_id, version_id, lane, trigger, state, phase, due_after, failures, deaths, created_at,
    outcome, verdict, evidence, proof, error_code, error_sentence, states, refusals, unsettled, cancel_asked_by)
VALUES (%(sync)s, %(version)s, 'scheduled', 'schedule', 'waiting', 'proving', vigil_now(), 0, 0, vigil_now(), '',
    'open', '{}', '{}', '', '', '{}', '{}', '{}', '')
ON CONFLICT (sync_id) WHERE state IN ('running', 'waiting') DO NOTHING RETURNING id
"""


async def plan_due(database: Database, most: int = 1000) -> list[int]:
    """Make an occurrence and a run of every due start, oldest first; the new runs' ids. One transaction per start."""
    planned: list[int] = []
    for _ in range(most):
        async with database.transaction() as cursor:
            await cursor.execute(DUE_SCHEDULES)
            row = await cursor.fetchone()
            if row is None:
                break
            run_id = await _plan(cursor, row)
        if run_id is not None:
            planned.append(run_id)
    return planned


async def _plan(cursor: Cursor, row: Row) -> int | None:
    """One due start: its occurrence, its run or its end, and the next start from the rule, never by adding."""
    every = schedule.Every(row["every_minutes"], timedelta(seconds=row["offset_seconds"]))
    await cursor.execute(
        "UPDATE syncs_schedule SET next_for = %s WHERE id = %s", [schedule.next_start(every, row["now"]), row["id"]]
    )
    await cursor.execute(OCCUR, {"schedule": row["id"], "planned_for": row["next_for"]})
    occurrence = await cursor.fetchone()
    if occurrence is None:
        return None
    if row["sync_state"] != "published":
        await _decide(cursor, occurrence, "discarded")
        return None
    await cursor.execute(PLAN_RUN, {"sync": row["sync_id"], "version": row["published_id"]})
    run = await cursor.fetchone()
    if run is None:
        await _decide(cursor, occurrence, "collided")
        return None
    await cursor.execute("UPDATE syncs_occurrence SET run_id = %s WHERE id = %s", [run["id"], occurrence["id"]])
    run_id: int = run["id"]
    return run_id


async def _decide(cursor: Cursor, occurrence: Row, state: str) -> None:
    await cursor.execute(
        "UPDATE syncs_occurrence SET state = %s, decided_at = vigil_now() WHERE id = %s", [state, occurrence["id"]]
    )


ORPHANS = """
SELECT r.id, r.sync_id, r.deaths, s.workspace_id, s.changed_at
FROM syncs_run r JOIN syncs_sync s ON s.id = r.sync_id
LEFT JOIN syncs_lease l ON l.sync_id = r.sync_id AND l.run_id = r.id AND l.expires_at > vigil_now()
WHERE r.state = 'running' AND l.sync_id IS NULL
FOR UPDATE OF r SKIP LOCKED
"""
INTERRUPTED = "The worker ended before the run did. What was sent is known by its keys; the run goes on."
WORKER_DIED = (
    f"The worker died {DEATHS} times in a row while it worked on this run, without moving the cursor. "
    "Look at the worker's log, then run it again."
)


async def recover(database: Database) -> list[int]:
    """Close the attempts of vanished workers and make their runs due again; the ids of the runs.

    A run is an orphan when nobody holds its lease any more. The fifth start without progress fails it.
    """
    recovered: list[int] = []
    async with database.transaction() as cursor:
        await cursor.execute(ORPHANS)
        for run in await cursor.fetchall():
            if run["deaths"] >= DEATHS:
                await runner.fail(cursor, run, Ended(Outcome.INTERRUPTED, "worker_died", WORKER_DIED))
                continue
            ended = Ended(Outcome.INTERRUPTED, "interrupted", INTERRUPTED)
            await runner.end_attempt(cursor, run["id"], ended)
            await cursor.execute(
                "UPDATE syncs_run SET state = 'waiting', due_after = vigil_now() WHERE id = %s", [run["id"]]
            )
            recovered.append(run["id"])
    return recovered


async def end_of_process(database: Database, holders: list[str]) -> list[int]:
    """Free what proven-dead processes held, and make their runs due again (PRODUCT 3.1)."""
    async with database.transaction() as cursor:
        await lease.end_of_process(cursor, holders)
    return await recover(database)


async def due_runs(database: Database, most: int) -> list[int]:
    """Runs that may start now, the longest due first."""
    rows = await database.rows(
        "SELECT id FROM syncs_run WHERE state = 'waiting' AND due_after <= vigil_now() ORDER BY due_after LIMIT %s",
        [most],
    )
    return [row["id"] for row in rows]
