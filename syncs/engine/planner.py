"""Turns what is due into rows: occurrences, runs, the next start; and notices runs whose owner is gone (PRODUCT 8.3).

Nothing of the timetable lives in memory. Each step is one set-based statement or one short transaction; a poke that is
lost is sent again by the next tick, since what is due is a row.
"""

from contextlib import suppress
from datetime import timedelta

import psycopg

from syncs.domain import schedule
from syncs.domain.lifecycle import Outcome
from syncs.engine import findings, lease, runner
from syncs.engine.database import Cursor, Database, Row
from syncs.engine.runner import Ended

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
    outcome, verdict, evidence, proof, error_code, error_sentence, states, refusals, unsettled, retried, force,
    possible_duplicates, cancel_asked_by)
VALUES (%(sync)s, %(version)s, %(lane)s, 'schedule', 'waiting', 'proving', vigil_now(), 0, 0, vigil_now(), '',
    'open', '{}', '{}', '', '', '{}', '{}', '{}', '{}', false, 0, '')
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
    return await _give_run(cursor, occurrence, row["sync_id"], row["published_id"])


async def _give_run(cursor: Cursor, occurrence: Row, sync_id: int, version_id: int) -> int | None:
    """A run for a due occurrence. It collides with a scheduled run that is open; history that is open yields to it,
    and the occurrence stays due until it has (PRODUCT 3.4, Case READ-18)."""
    values = {"sync": sync_id, "version": version_id, "lane": "scheduled"}
    await cursor.execute(PLAN_RUN, values)
    run = await cursor.fetchone()
    if run is None:
        yielding = await _ask_to_yield(cursor, sync_id)
        if yielding is None:
            await _decide(cursor, occurrence, "collided")
            return None
        if not yielding:
            return None
        await cursor.execute(PLAN_RUN, values)
        run = await cursor.fetchone()
    if run is None:
        return None
    await cursor.execute("UPDATE syncs_occurrence SET run_id = %s WHERE id = %s", [run["id"], occurrence["id"]])
    run_id: int = run["id"]
    return run_id


ASK_TO_YIELD = """
UPDATE syncs_run SET yield_asked_at = coalesce(yield_asked_at, vigil_now()),
    state = CASE state WHEN 'waiting' THEN 'parked' ELSE state END
WHERE sync_id = %s AND state IN ('waiting', 'running') AND lane <> 'scheduled'
RETURNING id, state
"""


async def _ask_to_yield(cursor: Cursor, sync_id: int) -> bool | None:
    """True when open history is parked already, False when it will be after its page, None when there is none."""
    await cursor.execute(ASK_TO_YIELD, [sync_id])
    run = await cursor.fetchone()
    if run is None:
        return None
    if run["state"] == "parked":
        # Nobody works on a run that waits: a lease it kept between two slices ends with the wait.
        await cursor.execute(
            "UPDATE syncs_lease SET expires_at = vigil_now(), run_id = NULL WHERE sync_id = %s AND run_id = %s",
            [sync_id, run["id"]],
        )
    return bool(run["state"] == "parked")


WITHOUT_RUN = """
SELECT o.id, s.id AS sync_id, s.state AS sync_state, s.published_id
FROM syncs_occurrence o JOIN syncs_schedule c ON c.id = o.schedule_id JOIN syncs_sync s ON s.id = c.sync_id
WHERE o.state = 'due' AND o.run_id IS NULL AND o.id > %s ORDER BY o.id LIMIT 1 FOR UPDATE OF o SKIP LOCKED
"""
PARKED = """
SELECT r.id FROM syncs_run r
WHERE r.state = 'parked'
  AND NOT EXISTS (SELECT 1 FROM syncs_run o WHERE o.sync_id = r.sync_id AND o.state IN ('waiting', 'running'))
  AND NOT EXISTS (SELECT 1 FROM syncs_occurrence o JOIN syncs_schedule c ON c.id = o.schedule_id
                  WHERE c.sync_id = r.sync_id AND o.state = 'due' AND o.run_id IS NULL)
ORDER BY r.id
"""
GO_ON = """
UPDATE syncs_run SET state = 'waiting', due_after = greatest(due_after, vigil_now()), yield_asked_at = NULL
WHERE id = %s AND state = 'parked'
"""


async def change_lanes(database: Database) -> list[int]:
    """Let scheduled runs through that history has made way for, and history go on behind them; the runs now due."""
    due: list[int] = []
    after = 0
    while True:
        async with database.transaction() as cursor:
            await cursor.execute(WITHOUT_RUN, [after])
            row = await cursor.fetchone()
            if row is None:
                break
            after = row["id"]
            if row["sync_state"] != "published":
                await _decide(cursor, row, "discarded")
                continue
            run_id = await _give_run(cursor, row, row["sync_id"], row["published_id"])
        due += [] if run_id is None else [run_id]
    for row in await database.rows(PARKED):
        # Another run of the sync may have been opened since the look: the constraint decides, and it stays parked.
        with suppress(psycopg.errors.UniqueViolation):
            await database.rows(GO_ON, [row["id"]])
            due.append(row["id"])
    return due


RECONCILE_EVERY = timedelta(days=1)
DUE_RECONCILES = """
SELECT s.id, s.published_id FROM syncs_sync s
WHERE s.state = 'published' AND s.first_published_at < vigil_now() - %(every)s
  AND NOT EXISTS (SELECT 1 FROM syncs_run r WHERE r.sync_id = s.id AND r.state <> 'finished')
  AND NOT EXISTS (SELECT 1 FROM syncs_run r WHERE r.sync_id = s.id AND r.lane = 'reconcile'
                  AND r.created_at > vigil_now() - %(every)s)
ORDER BY s.id LIMIT %(most)s
"""


async def plan_reconciles(database: Database, most: int = 50) -> list[int]:
    """The daily second look of each published sync, when nothing else of it is open (PRODUCT 1.6)."""
    planned: list[int] = []
    for row in await database.rows(DUE_RECONCILES, {"every": RECONCILE_EVERY, "most": most}):
        values = {"sync": row["id"], "version": row["published_id"], "lane": "reconcile"}
        planned += [run["id"] for run in await database.rows(PLAN_RUN, values)]
    return planned


LONG_DEFERRED = """
SELECT s.workspace_id, s.id AS sync_id, count(DISTINCT d.record) AS records
FROM syncs_delivery d JOIN syncs_sync s ON s.id = d.sync_id
WHERE d.state = 'deferred' AND d.settled_at < vigil_now() - %s GROUP BY s.workspace_id, s.id
"""
NO_LONGER_DEFERRED = """
UPDATE syncs_finding f SET state = 'resolved', resolved_at = vigil_now()
WHERE f.code = 'deferred_long' AND f.resolved_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM syncs_delivery d
    WHERE d.sync_id = f.sync_id AND d.state = 'deferred' AND d.settled_at < vigil_now() - %s)
"""
DEFERRED_TOO_LONG = timedelta(days=7)


async def find_long_deferred(database: Database) -> None:
    """Records that have waited for another one for a week are a finding (PRODUCT 4.6)."""
    async with database.transaction() as cursor:
        await cursor.execute(NO_LONGER_DEFERRED, [DEFERRED_TOO_LONG])
        await cursor.execute(LONG_DEFERRED, [DEFERRED_TOO_LONG])
        for row in await cursor.fetchall():
            await findings.open_finding(
                cursor,
                workspace_id=row["workspace_id"],
                sync_id=row["sync_id"],
                code="deferred_long",
                sentence=f"{row['records']} records have waited for their contact for more than 7 days. They are kept; "
                "see which people are missing at the destination.",
            )


async def _decide(cursor: Cursor, occurrence: Row, state: str) -> None:
    await cursor.execute(
        "UPDATE syncs_occurrence SET state = %s, decided_at = vigil_now() WHERE id = %s", [state, occurrence["id"]]
    )


ORPHANS = """
SELECT r.id, r.sync_id, r.deaths, s.workspace_id, s.changed_at
FROM syncs_run r JOIN syncs_sync s ON s.id = r.sync_id
LEFT JOIN syncs_lease l ON l.sync_id = r.sync_id AND l.run_id = r.id AND l.expires_at > vigil_now()
WHERE r.state = 'running' AND l.sync_id IS NULL
"""
THIS_ORPHAN = f"{ORPHANS} AND r.id = %s FOR UPDATE OF r SKIP LOCKED"
THIS_SYNC = "SELECT 1 FROM syncs_sync WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED"
INTERRUPTED = "The worker ended before the run did. What was sent is known by its keys; the run goes on."


async def recover(database: Database) -> list[int]:
    """Close the attempts of vanished workers and make their runs due again; the ids of the runs.

    A run is an orphan when nobody holds its lease any more. The fifth start without progress fails it.
    """
    return [orphan["id"] for orphan in await database.rows(ORPHANS) if await _recover(database, orphan)]


async def _recover(database: Database, orphan: Row) -> bool:
    """The sync is locked before its run, as everywhere; who holds one of them decides it, or the next tick does."""
    async with database.transaction() as cursor:
        await cursor.execute(THIS_SYNC, [orphan["sync_id"]])
        if await cursor.fetchone() is None:
            return False
        await cursor.execute(THIS_ORPHAN, [orphan["id"]])
        run = await cursor.fetchone()
        if run is None:
            return False
        return await runner.go_on(cursor, run, Ended(Outcome.INTERRUPTED, "interrupted", INTERRUPTED))


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
