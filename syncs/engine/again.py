"""Records of earlier reads whose time has come: deferred ones, and dead letters a person wants tried (4.4, 4.6).

The ledger holds no payload, so they are read again by id and take the same way as every record. A deferred order is
ripe when the contact it waited for has landed through any sync between the same two connections: that is a join of our
own tables, not a question to the vendor.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from psycopg.types.json import Jsonb

from connectors.protocol import Page
from syncs.engine import batch, lease, ledger
from syncs.engine.batch import Tally
from syncs.engine.database import Cursor, Row
from syncs.engine.running import Running

MOST = 250
"""Records read again by one request."""
ROUNDS = 20
"""Requests of one run; the rest waits for the next one."""

RETRY_ASKED = "retry_asked"
"""Code of a row that a person wants tried again."""

RIPE = """
SELECT d.id, split_part(d.object, ':', 2) AS record_id
FROM syncs_delivery d JOIN syncs_sync mine ON mine.id = d.sync_id
WHERE d.sync_id = %(sync)s AND d.state IN ('deferred', 'set_aside') AND (
    d.code = 'retry_asked'
    OR d.state = 'deferred' AND EXISTS (
        SELECT 1 FROM syncs_tombstone t JOIN syncs_sync other ON other.id = t.sync_id
        WHERE other.source_id = mine.source_id AND other.destination_id = mine.destination_id
          AND t.object = 'contact:' || d.subject AND t.settled_at > d.settled_at))
ORDER BY d.id LIMIT %(most)s
"""

CLOSE = """
UPDATE syncs_delivery SET state = 'superseded',
    code = CASE WHEN id = ANY(%(gone)s) THEN 'source_record_gone' ELSE '' END
WHERE id = ANY(%(ids)s) AND state IN ('deferred', 'set_aside')
"""


async def retry(running: Running) -> None:
    """Deliver what is ripe, page by page. Raises what `batch.deliver` raises, and the error of an undecided page."""
    for _ in range(ROUNDS):
        rows = await running.outside.database.rows(RIPE, {"sync": running.facts.sync_id, "most": MOST})
        if not rows or running.ending.is_set():
            return
        await _page(running, rows)


async def _page(running: Running, rows: list[Row]) -> None:
    number = await running.outside.database.row("SELECT nextval('vigil_read_no') AS number")
    assert number is not None  # noqa: S101 - a sequence always answers
    ids = list(dict.fromkeys(row["record_id"] for row in rows))
    found = await running.connected.source.reread(running.stream, ids)
    records = [replace(record, position=at) for at, record in enumerate(one for one in found if one is not None)]
    page = Page(tuple(records), None, running.version_served or "")
    tally = await batch.deliver(running, page, after=f"again:{rows[-1]['id']}", read_no=number["number"])
    if tally.error is not None:
        raise tally.error
    there = {record.id for record in records}
    async with running.outside.database.transaction() as connection:
        await lease.prove(connection, running.lease)
        gone = [row["id"] for row in rows if row["record_id"] not in there]
        await connection.execute(CLOSE, {"ids": [row["id"] for row in rows], "gone": gone})
        await ledger.note_refused(
            connection,
            running.lease,
            tally.refusals,
            run_id=running.facts.run_id,
            lane=running.facts.lane.value,
            read_no=number["number"],
        )
        await _count(connection, running, tally, len(gone))


async def _count(connection: Cursor, running: Running, tally: Tally, gone: int) -> None:
    """Counted apart: they are no part of what this read saw."""
    await connection.execute("SELECT retried FROM syncs_run WHERE id = %s", [running.facts.run_id])
    row = await connection.fetchone()
    before: dict[str, Any] = row["retried"] if row else {}
    counted = Counter({name: int(number) for name, number in before.items()})
    counted.update({state.value: number for state, number in tally.states.items()})
    counted.update({"source_record_gone": gone} if gone else {})
    await connection.execute(
        "UPDATE syncs_run SET retried = %s WHERE id = %s", [Jsonb(dict(counted)), running.facts.run_id]
    )
