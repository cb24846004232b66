"""Records of earlier reads whose time has come: deferred ones, and dead letters a person wants tried (4.4, 4.6).

The ledger holds no payload, so they are read again by id and take the same way as every record. A deferred order is
ripe when the contact it waited for has landed through any sync between the same two connections: that is a join of our
own tables, not a question to the vendor.
"""

import logging
from collections import Counter
from dataclasses import replace
from typing import Any

from psycopg.types.json import Jsonb

from connectors.errors import InDoubt, Passing, Unreadable
from connectors.protocol import Page
from syncs.domain.lifecycle import RecordState
from syncs.engine import batch, lease
from syncs.engine.batch import Tally
from syncs.engine.database import Cursor, Row
from syncs.engine.running import Running

log = logging.getLogger(__name__)

MOST = 250
"""Records read again by one request."""
ROUNDS = 20
"""Requests of one run; the rest waits for the next one."""

RETRY_ASKED = "retry_asked"
"""Code of a row that a person wants tried again."""

RIPE = """
SELECT d.id, d.record AS record_id
FROM syncs_delivery d JOIN syncs_sync mine ON mine.id = d.sync_id
WHERE d.sync_id = %(sync)s AND d.id > %(after)s AND d.id <= %(upto)s AND d.record <> ''
  AND d.state IN ('deferred', 'set_aside') AND (
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


SET_ASIDE = """
UPDATE syncs_delivery SET state = 'set_aside'
WHERE sync_id = %(sync)s AND record = ANY(%(records)s) AND state = 'failed' AND fence = %(fence)s
"""


async def retry(running: Running) -> None:
    """Deliver what is ripe now, page by page.

    What goes wrong with these records never keeps a proven read from closing: a rejected one is set aside as it was, a
    passing trouble leaves them for the next run. Raises only what ends the run itself.
    """
    newest = await running.outside.database.row("SELECT coalesce(max(id), 0) AS id FROM syncs_delivery")
    assert newest is not None  # noqa: S101 - an aggregate always answers
    after = 0
    for _ in range(ROUNDS):
        values = {"sync": running.facts.sync_id, "most": MOST, "after": after, "upto": newest["id"]}
        rows = await running.outside.database.rows(RIPE, values)
        if not rows or running.ending.is_set():
            return
        after = rows[-1]["id"]
        if not await _page(running, rows):
            return


async def _page(running: Running, rows: list[Row]) -> bool:
    """Whether it may go on with the next page."""
    number = await running.outside.database.row("SELECT nextval('vigil_read_no') AS number")
    assert number is not None  # noqa: S101 - a sequence always answers
    ids = list(dict.fromkeys(row["record_id"] for row in rows))
    try:
        found = await running.connected.source.reread(running.stream, ids)
    except (Passing, Unreadable) as error:
        log.warning("Records that run %s would try again cannot be read now: %s", running.facts.run_id, error.code)
        return False
    records = [replace(record, position=at) for at, record in enumerate(one for one in found if one is not None)]
    page = Page(tuple(records), None, running.version_served or "")
    tally = await batch.deliver(running, page, after=f"again:{rows[-1]['id']}", read_no=number["number"])
    if isinstance(tally.error, Passing | InDoubt):
        log.warning("Records of run %s that were tried again wait on: %s", running.facts.run_id, tally.error.code)
        return False
    await _close(running, rows, tally, {record.id for record in records}, number["number"])
    return True


async def _close(running: Running, rows: list[Row], tally: Tally, there: set[str], read_no: int) -> None:
    """Close the old rows. What is rejected again stays a dead letter, under its newest row; what waits, waits on."""
    closing = [row for row in rows if row["record_id"] not in tally.waiting]
    gone = [row["id"] for row in closing if row["record_id"] not in there]
    async with running.outside.database.transaction() as connection:
        await lease.prove(connection, running.lease)
        await connection.execute(CLOSE, {"ids": [row["id"] for row in closing], "gone": gone})
        await connection.execute(SET_ASIDE, {**running.lease.held, "records": list(tally.failed)})
        await batch.keep(connection, running, tally, read_no)
        await _count(connection, running, tally, len(gone))


def _word(state: RecordState) -> str:
    """Rejected again is set aside again."""
    return (RecordState.SET_ASIDE if state is RecordState.FAILED else state).value


async def _count(connection: Cursor, running: Running, tally: Tally, gone: int) -> None:
    """Counted apart: they are no part of what this read saw."""
    await connection.execute("SELECT retried FROM syncs_run WHERE id = %s", [running.facts.run_id])
    row = await connection.fetchone()
    before: dict[str, Any] = row["retried"] if row else {}
    counted = Counter({name: int(number) for name, number in before.items()})
    counted.update({_word(state): number for state, number in tally.states.items()})
    counted.update({"source_record_gone": gone} if gone else {})
    await connection.execute(
        "UPDATE syncs_run SET retried = %s, possible_duplicates = possible_duplicates + %s WHERE id = %s",
        [Jsonb(dict(counted)), running.possible_duplicates, running.facts.run_id],
    )
    running.possible_duplicates = 0
