"""Numbers of one sync that its page shows, in one statement, each part of it by an index (UX, P2 and P5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from syncs.domain.lifecycle import Lane
from syncs.models import Sync

DAYS: Final = 7
"""A week, compared with the week before it."""

STATEMENT: Final = """
WITH recent AS MATERIALIZED (
    SELECT states, refusals, greatest(floor(extract(epoch FROM %(now)s - created_at) / 86400), 0)::int AS day
    FROM syncs_run
    WHERE sync_id = %(sync)s AND created_at > %(since)s AND lane <> %(second_look)s
)
SELECT 'state' AS what, key AS name, day, sum(value::bigint)::bigint AS number, NULL::timestamptz AS at,
    NULL::interval AS length
FROM recent, jsonb_each_text(states) GROUP BY key, day
UNION ALL
SELECT 'refused', key, day, sum(value::bigint)::bigint, NULL, NULL
FROM recent, jsonb_each_text(refusals) GROUP BY key, day
UNION ALL
SELECT 'open', state, 0, count(*), min(coalesce(sending_at, claimed_at)), NULL FROM syncs_delivery
WHERE sync_id = %(sync)s AND state IN ('claimed', 'in_doubt', 'sending') GROUP BY state
UNION ALL
SELECT 'left', state, 0, count(*), min(settled_at), NULL FROM syncs_delivery
WHERE sync_id = %(sync)s AND state IN ('deferred', 'set_aside') GROUP BY state
UNION ALL
SELECT 'left', 'failed', 0, count(*), min(settled_at), NULL FROM syncs_delivery
WHERE sync_id = %(sync)s AND state = 'failed' HAVING count(*) > 0
UNION ALL
SELECT 'withdrawn', '', 0, count(*), max(settled_at), max(settled_at - claimed_at) FROM syncs_delivery
WHERE sync_id = %(sync)s AND kind = 'withdrawal' AND settled_at > %(week)s AND state = 'written' HAVING count(*) > 0
UNION ALL
(SELECT 'preview', '', 0, id, made_at, NULL FROM syncs_preview
 WHERE sync_id = %(sync)s AND draft_revision = %(revision)s ORDER BY made_at DESC LIMIT 1)
UNION ALL
(SELECT 'scheduled', '', 0, 0, at, NULL FROM syncs_auditentry
 WHERE workspace_id = %(workspace)s AND subject = %(name)s AND action = 'schedule.set' ORDER BY at DESC LIMIT 1)
"""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows there are of a kind, since when, or how long the slowest took."""

    number: int
    since: datetime | None = None
    longest: timedelta | None = None


NONE: Final = Tally(0)


@dataclass(frozen=True, slots=True)
class Sums:
    """``states`` and ``refused``: name -> numbers by day, today first, two weeks of them. ``open`` and ``left``:
    deliveries by state. ``withdrawn``: withdrawals carried this week. ``preview``: the newest one of the draft."""

    states: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    refused: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    open: Mapping[str, Tally] = field(default_factory=dict)
    left: Mapping[str, Tally] = field(default_factory=dict)
    withdrawn: Tally = NONE
    preview: int | None = None
    schedule_set_at: datetime | None = None

    def state(self, name: str) -> int:
        """Records of the week in a state."""
        return sum(self.states.get(name, ())[:DAYS])

    @property
    def read(self) -> int:
        """Records read in the week."""
        return sum(self.state(name) for name in self.states)


def sums(sync: Sync, now: datetime) -> Sums:
    """Two weeks of ``sync``, without its daily second look, which sees the same people again."""
    values: dict[str, int | str | datetime] = {
        "sync": sync.pk,
        "now": now,
        "since": now - timedelta(days=2 * DAYS),
        "week": now - timedelta(days=DAYS),
        "second_look": Lane.RECONCILE.value,
        "revision": sync.draft_revision,
        "workspace": sync.workspace_id,
        "name": str(sync)[:200],
    }
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT, values)
        rows = cursor.fetchall()
    return _read(rows)


def _read(rows: list[tuple[Any, ...]]) -> Sums:
    by_day: dict[str, dict[str, list[int]]] = {"state": {}, "refused": {}}
    tallies: dict[str, dict[str, Tally]] = {"open": {}, "left": {}, "withdrawn": {}, "preview": {}, "scheduled": {}}
    for what, name, day, number, at, length in rows:
        if what in by_day:
            by_day[what].setdefault(name, [0] * (2 * DAYS))[min(day, 2 * DAYS - 1)] += number
        else:
            tallies[what][name] = Tally(number, at, length)
    preview, scheduled = tallies["preview"].get(""), tallies["scheduled"].get("")
    return Sums(
        states={name: tuple(days) for name, days in by_day["state"].items()},
        refused={name: tuple(days) for name, days in by_day["refused"].items()},
        open=tallies["open"],
        left=tallies["left"],
        withdrawn=tallies["withdrawn"].get("", NONE),
        preview=preview.number if preview else None,
        schedule_set_at=scheduled.since if scheduled else None,
    )
