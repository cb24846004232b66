"""A cursor is a read in progress, and it moves only when every record of a page is decided (PRODUCT 1.1 to 1.7).

`open_read` starts or goes on with a read: a fixed window, kept until it is exhausted. `move` goes over one page.
`close_read` moves the watermark to the window's end, after proof. All three are fenced: an owner that has lost the
lease moves nothing (PRODUCT 3.3).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from connectors.errors import Unreadable
from connectors.protocol import Count, Window
from syncs.domain.lifecycle import Lane
from syncs.engine import crash
from syncs.engine.database import Cursor as Connection
from syncs.engine.database import Database
from syncs.engine.lease import HELD, HELD_L, Lease, lost


@dataclass(frozen=True, slots=True)
class Read:
    """The open read of one lane. ``after`` None stands before the first page; ``rows`` and ``pages`` were moved over.

    ``anchor`` is an earlier page cursor: a page that leads back to it is a loop (Brent's method: it is moved to the
    present cursor whenever the number of pages is a power of two, so that any loop is met within twice its length).
    """

    sync_id: int
    lane: Lane
    window: Window
    query_digest: str
    after: str | None
    anchor: str | None
    exhausted: bool
    rows: int
    pages: int
    counted: Count | None


@dataclass(frozen=True, slots=True)
class Moved:
    """Where `move` leads: the cursor behind the page (None when exhausted) and the records on it."""

    after: str | None
    records: int


OPEN = f"""
INSERT INTO syncs_cursor AS c (sync_id, lane, watermark, since, until, query_digest, after, anchor, exhausted, rows,
    pages, counted, counted_exact, fence, moved_at)
SELECT %(sync)s, %(lane)s, %(start)s, %(start)s, greatest(%(until)s, %(start)s), '', NULL, NULL, false, 0, 0,
    NULL, true, %(fence)s, vigil_now()
FROM syncs_lease WHERE {HELD}
ON CONFLICT (sync_id, lane) DO UPDATE SET
    since = CASE WHEN c.until IS NOT NULL THEN c.since
                 ELSE greatest(c.watermark - %(overlap)s, %(floor)s) END,
    until = CASE WHEN c.until IS NOT NULL THEN c.until ELSE greatest(%(until)s, c.watermark) END,
    fence = EXCLUDED.fence
    WHERE c.fence <= EXCLUDED.fence
RETURNING *
"""


async def open_read(
    database: Database,
    lease: Lease,
    lane: Lane,
    *,
    until: datetime,
    start: datetime | None,
    overlap: timedelta,
) -> Read:
    """The lane's read in progress, or a new one up to ``until``. Raises LeaseLost.

    A lane that never read starts at ``start`` (None: the beginning). A later read begins ``overlap`` before the
    watermark, never before ``start``: that much the source's index may lag (PRODUCT 1.5, 1.6).
    """
    values = {**lease.held, "lane": lane.value, "until": until, "start": start, "floor": start, "overlap": overlap}
    row = await database.row(OPEN, values)
    if row is None:
        raise lost(lease)
    return _read(row)


def _read(row: dict[str, Any]) -> Read:
    counted = None if row["counted"] is None else Count(row["counted"], row["counted_exact"])
    return Read(
        sync_id=row["sync_id"],
        lane=Lane(row["lane"]),
        window=Window(row["since"], row["until"]),
        query_digest=row["query_digest"],
        after=row["after"],
        anchor=row["anchor"],
        exhausted=row["exhausted"],
        rows=row["rows"],
        pages=row["pages"],
        counted=counted,
    )


BIND = f"""
UPDATE syncs_cursor c SET query_digest = %(digest)s, after = NULL, anchor = NULL, exhausted = false, rows = 0,
    pages = 0, counted = %(counted)s, counted_exact = %(exact)s, fence = %(fence)s
FROM syncs_lease l
WHERE c.sync_id = %(sync)s AND c.lane = %(lane)s AND c.fence <= %(fence)s
  AND {HELD_L}
RETURNING c.*
"""


async def bind(database: Database, lease: Lease, read: Read, *, query_digest: str, counted: Count) -> Read:
    """Begin the window at its first page, under this query, with the source's own count before it.

    Also what happens to a page cursor that was made under another query: it is dropped, the window starts again, and
    what was delivered is recognised (PRODUCT 1.7). Raises LeaseLost.
    """
    values = {**lease.held, "lane": read.lane.value, "digest": query_digest}
    row = await database.row(BIND, {**values, "counted": counted.records, "exact": counted.exact})
    if row is None:
        raise lost(lease)
    return _read(row)


def follow(read: Read, after: str | None, records: int) -> Read:
    """The read behind one more page. Raises Unreadable when the source leads back to a page it has shown before."""
    if after is not None and after in (read.after, read.anchor):
        raise Unreadable(
            "The source does not advance: it led back to a page it had shown before. The cursor did not move.",
            code="source_does_not_advance",
        )
    pages = read.pages + 1
    anchor = after if pages & (pages - 1) == 0 else read.anchor
    return replace(
        read,
        after=read.after if after is None else after,
        anchor=anchor,
        exhausted=after is None,
        rows=read.rows + records,
        pages=pages,
    )


MOVE = f"""
UPDATE syncs_cursor c SET after = %(after)s, anchor = %(anchor)s, exhausted = %(exhausted)s, rows = %(rows)s,
    pages = %(pages)s, fence = %(fence)s, moved_at = vigil_now()
FROM syncs_lease l
WHERE c.sync_id = %(sync)s AND c.lane = %(lane)s AND c.fence <= %(fence)s AND c.until IS NOT NULL
  AND c.pages = %(before)s AND c.query_digest = %(digest)s
  AND {HELD_L}
RETURNING c.pages
"""


async def move(cursor: Connection, lease: Lease, before: Read, after: Read) -> None:
    """Move over one decided page, in the caller's transaction. One row, or LeaseLost is raised."""
    crash.here("in_move")
    values = {
        **lease.held,
        "lane": after.lane.value,
        "after": after.after,
        "anchor": after.anchor,
        "exhausted": after.exhausted,
        "rows": after.rows,
        "pages": after.pages,
        "before": before.pages,
        "digest": after.query_digest,
    }
    await cursor.execute(MOVE.encode(), values)
    if await cursor.fetchone() is None:
        raise lost(lease)


CLOSE = f"""
WITH closed AS (
    UPDATE syncs_cursor c SET watermark = CASE WHEN c.lane = 'manual' AND c.since > coalesce(c.watermark, '-infinity')
            THEN c.watermark ELSE greatest(c.watermark, c.until) END,
        since = NULL, until = NULL, query_digest = '', after = NULL,
        anchor = NULL, exhausted = false, rows = 0, pages = 0, counted = NULL, fence = %(fence)s, moved_at = vigil_now()
    FROM syncs_lease l
    WHERE c.sync_id = %(sync)s AND c.lane = %(lane)s AND c.fence <= %(fence)s AND c.exhausted AND c.until IS NOT NULL
      AND {HELD_L}
    RETURNING c.lane
)
INSERT INTO syncs_coverage (sync_id, lane, run_id, since, until, records, proved_at)
SELECT %(sync)s, %(lane)s, %(run)s, %(since)s, %(until)s, %(rows)s, vigil_now() FROM closed RETURNING until
"""
"""The watermark never goes back, and a backfill that begins behind it leaves it: what lies between was not read."""


async def close_read(cursor: Connection, lease: Lease, read: Read, *, run_id: int) -> None:
    """Move the watermark to the window's end and note the coverage, after proof (PRODUCT 1.4, 1.5).

    Raises LeaseLost when the lease is gone.
    """
    values = {**lease.held, "lane": read.lane.value, "run": run_id, "rows": read.rows}
    window = {"since": read.window.since, "until": read.window.until}
    await cursor.execute(CLOSE.encode(), {**values, **window})
    if await cursor.fetchone() is None:
        raise lost(lease)
