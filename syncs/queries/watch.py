"""What should staff look at first, across all workspaces? (UX, S1 and S2)

Every number is measured by itself, within its own time, and set by set: none grows with the ledger. What could not be
measured is None and is shown as that; it is never nought.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from importlib import metadata
from typing import Any, Final

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from syncs import words
from syncs.domain.clock import SystemClock
from syncs.domain.lifecycle import FAILURES, DeliveryState
from syncs.models import Delivery, Sync, Workspace
from syncs.queries import standing
from syncs.queries.access import now as database_now
from syncs.words import Health

log = logging.getLogger(__name__)

MEASURE_MS: Final = 2000
"""How long one measurement may take in the database before it counts as not measured."""

ALIVE: Final = timedelta(seconds=75)
"""A worker shows each 20 seconds that it lives: three signs missed and one on its way."""

TICK_LATE: Final = timedelta(minutes=3)
"""The tick comes each minute; two missed ones are worth a look."""

SKEW_WARNS: Final = timedelta(seconds=5)
SKEW_BAD: Final = timedelta(seconds=60)
"""Of this process's clock against the database's (PRODUCT 8.5)."""

LAG_OF: Final = 500
"""Of how many of the latest planned starts the lag is told."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many there are, and since when the oldest of them (or the last, where that is the question)."""

    number: int
    at: datetime | None = None


Measured = Mapping[str, "Tally | None"]
"""Code -> what was measured; None where it could not be."""


# --- The headline of every sync, as one set --------------------------------------------------------------------------
STANDINGS = """
SELECT s.id, s.workspace_id,
    CASE
        WHEN s.state = 'draft' THEN 'draft'
        WHEN s.state = 'paused' THEN 'paused'
        WHEN l.outcome = ANY(%(failing)s) THEN 'failing'
        WHEN s.state = 'published' AND greatest(s.last_success_at, s.changed_at) < %(now)s - %(silent)s THEN 'silent'
        WHEN l.outcome = ANY(%(unproven)s) THEN 'unproven'
        WHEN s.state = 'edited' THEN 'edited'
        WHEN o.state = 'waiting' AND o.failures > 0 THEN 'retrying'
        WHEN o.state = 'running' AND (e.expires_at <= %(now)s
            OR coalesce(e.renewed_at, o.started_at, o.created_at) < %(now)s - %(no_sign)s) THEN 'late'
        WHEN o.state = 'waiting' AND o.due_after < %(now)s - %(late)s THEN 'late'
        WHEN o.state IS DISTINCT FROM 'waiting' AND s.state = 'published' AND c.active
            AND c.next_for < %(now)s - %(late)s THEN 'late'
        WHEN s.last_success_at >= %(now)s - %(silent)s THEN 'healthy'
        ELSE 'waiting'
    END AS health,
    CASE
        WHEN s.state = 'paused' THEN s.paused_at
        WHEN l.outcome IS NOT NULL THEN l.finished_at
        WHEN s.state = 'edited' THEN s.draft_at
        ELSE greatest(s.last_success_at, s.changed_at)
    END AS since
FROM syncs_sync s
LEFT JOIN LATERAL (
    SELECT r.outcome, r.created_at, r.finished_at FROM syncs_run r
    WHERE r.sync_id = s.id AND r.outcome = ANY(%(counted)s) ORDER BY r.created_at DESC, r.id DESC LIMIT 1
) n ON s.state <> 'draft'
LEFT JOIN LATERAL (
    SELECT n.outcome, n.finished_at
    WHERE n.outcome = ANY(%(failures)s) AND (s.changed_at IS NULL OR n.created_at >= s.changed_at)
) l ON true
LEFT JOIN syncs_run o ON o.sync_id = s.id AND o.state IN ('waiting', 'running')
LEFT JOIN syncs_lease e ON e.sync_id = s.id AND e.run_id = o.id
LEFT JOIN syncs_schedule c ON c.sync_id = s.id
"""
"""The same judgement as `standing.headline`, for all syncs at once."""


def _judged_by(now: datetime) -> dict[str, Any]:
    return {
        "now": now,
        "counted": sorted(standing.COUNTED),
        "failures": sorted(FAILURES),
        "failing": sorted(FAILURES - standing.UNPROVEN),
        "unproven": sorted(standing.UNPROVEN),
        "silent": standing.SILENT_AFTER,
        "no_sign": standing.NO_SIGN_AFTER,
        "late": standing.LATE_AFTER,
    }


OF_HEALTH = f"SELECT t.id FROM ({STANDINGS}) t WHERE t.health = %(health)s"  # noqa: S608 - a constant of ours


def with_health(syncs: QuerySet[Sync], health: str, now: datetime) -> QuerySet[Sync]:
    """Those of ``syncs`` whose headline is ``health``."""
    return syncs.filter(pk__in=_subquery(OF_HEALTH, {**_judged_by(now), "health": health}))


WORST = f"""
SELECT t.workspace_id FROM ({STANDINGS}) t GROUP BY t.workspace_id
HAVING min(array_position(%(order)s::text[], t.health)) = array_position(%(order)s::text[], %(health)s)
"""  # noqa: S608 - a constant of ours


def with_worst(workspaces: QuerySet[Workspace], health: str, now: datetime) -> QuerySet[Workspace]:
    """Those of ``workspaces`` whose worst sync is ``health``."""
    values = {**_judged_by(now), "order": [one.value for one in Health], "health": health}
    return workspaces.filter(pk__in=_subquery(WORST, values))


def healths(sync_ids: Collection[int], now: datetime) -> dict[int, Health]:
    """The headlines of these syncs."""
    asked = f"SELECT t.id, t.health FROM ({STANDINGS}) t WHERE t.id = ANY(%(ids)s)"  # noqa: S608 - a constant of ours
    return {row[0]: Health(row[1]) for row in _rows(asked, {**_judged_by(now), "ids": list(sync_ids)})}


# --- Workspaces in a list --------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Summary:
    """One workspace in the list of staff. ``written`` is by the runs that were planned on its own today."""

    worst: Health | None
    states: Mapping[Health, int]
    last_success_at: datetime | None
    findings: int
    written: int


PER_WORKSPACE = f"""
SELECT t.workspace_id, t.health, count(*), max(s.last_success_at)
FROM ({STANDINGS}) t JOIN syncs_sync s ON s.id = t.id WHERE t.workspace_id = ANY(%(ids)s) GROUP BY 1, 2
"""  # noqa: S608 - a constant of ours
FINDINGS_OF = """
SELECT workspace_id, count(*) FROM syncs_finding
WHERE resolved_at IS NULL AND workspace_id = ANY(%(ids)s) GROUP BY 1
"""
WRITTEN_OF = """
SELECT d.id, sum((r.states ->> 'written')::bigint)
FROM unnest(%(ids)s::bigint[], %(since)s::timestamptz[]) AS d (id, since)
JOIN syncs_sync s ON s.workspace_id = d.id
JOIN syncs_run r ON r.sync_id = s.id AND r.created_at >= d.since
GROUP BY 1
"""


def summaries(workspaces: Sequence[Workspace], now: datetime) -> dict[int, Summary]:
    """What the list shows of these workspaces, by id. Three queries, however many they are."""
    ids = [one.pk for one in workspaces]
    since = [_midnight(one.zone, now) for one in workspaces]
    judged = _rows(PER_WORKSPACE, {**_judged_by(now), "ids": ids})
    findings = dict(_rows(FINDINGS_OF, {"ids": ids}))
    written = dict(_rows(WRITTEN_OF, {"ids": ids, "since": since}))
    return {one: _summary([row for row in judged if row[0] == one], findings.get(one), written.get(one)) for one in ids}


def _summary(rows: list[Any], findings: int | None, written: int | None) -> Summary:
    states = {health: number for health in Health for _, word, number, _ in rows if word == health}
    successes = [row[3] for row in rows if row[3] is not None]
    worst = next(iter(states), None)
    return Summary(worst, states, max(successes, default=None), findings or 0, int(written or 0))


def _midnight(zone: str, now: datetime) -> datetime:
    """When today began on the workspace's own clock."""
    place = words.zone_of(zone)
    return datetime.combine(now.astimezone(place).date(), time(), place)


# --- What the watch page measures ------------------------------------------------------------------------------------
def in_doubt(deliveries: QuerySet[Delivery], now: datetime) -> QuerySet[Delivery]:
    """What may have been stored without an answer: in doubt, or sent by an owner whose call can no longer be out.

    Both conditions fit the index of open claims.
    """
    over = Q(state=DeliveryState.SENDING.value, call_ends_at__lt=now)
    return deliveries.filter(Q(state=DeliveryState.IN_DOUBT.value) | over)


HEADLINES = f"SELECT t.health, count(*), min(t.since) FROM ({STANDINGS}) t GROUP BY 1"  # noqa: S608 - a constant of ours
DOUBTS = """
SELECT count(*), min(coalesce(sending_at, claimed_at)) FROM syncs_delivery
WHERE state IN ('claimed', 'in_doubt', 'sending')
  AND (state = 'in_doubt' OR state = 'sending' AND call_ends_at < %(now)s)
"""
FINDINGS = "SELECT count(*), min(opened_at) FROM syncs_finding WHERE resolved_at IS NULL"
DUE = "SELECT count(*), min(due_after) FROM syncs_run WHERE state = 'waiting' AND due_after <= %(now)s"
RUNNING = "SELECT count(*), min(started_at) FROM syncs_run WHERE state = 'running'"
UNPLANNED = "SELECT count(*), min(next_for) FROM syncs_schedule WHERE active AND next_for < %(now)s - %(late)s"
LAG = """
SELECT max(t.planned_for), extract(epoch FROM percentile_disc(0.95) WITHIN GROUP (ORDER BY t.lag))
FROM (SELECT o.planned_for, greatest(coalesce(r.started_at, %(now)s) - o.planned_for, interval '0') AS lag
      FROM (SELECT planned_for, run_id FROM syncs_occurrence ORDER BY id DESC LIMIT %(most)s) o
      JOIN syncs_run r ON r.id = o.run_id WHERE r.started_at IS NOT NULL OR r.state = 'waiting') t
"""
QUEUE = "SELECT count(*), min(lock) FROM django_q_ormq WHERE key = %(cluster)s"
WORKERS = """
SELECT count(*) FILTER (WHERE at > %(now)s - %(alive)s), max(at) FROM syncs_beat WHERE kind = 'worker'
"""
TICK = "SELECT count(*), max(at) FROM syncs_beat WHERE kind = 'tick'"
LEDGER = """
SELECT reltuples::bigint, pg_relation_size(oid) FROM pg_class WHERE oid = 'syncs_delivery'::regclass
"""


def _headlines(now: datetime) -> Measured:
    found = {row[0]: Tally(row[1], row[2]) for row in _rows(HEADLINES, _judged_by(now))}
    return {health.value: found.get(health.value, Tally(0)) for health in Health}


def _one(code: str, statement: str) -> Callable[[datetime], Measured]:
    def measured(now: datetime) -> Measured:
        values = {"now": now, "late": standing.LATE_AFTER, "alive": ALIVE, "cluster": settings.Q_CLUSTER["name"]}
        number, at = _rows(statement, values)[0]
        return {code: Tally(number, at)}

    return measured


def _lag(now: datetime) -> Measured:
    """The 95th percentile in whole seconds, and the newest of the starts it is of; none where none was planned."""
    newest, seconds = _rows(LAG, {"now": now, "most": LAG_OF})[0]
    return {"lag": Tally(int(seconds or 0), newest)}


def ledger_size() -> int | None:
    """The statistics' own estimate of the ledger's rows; None before the database has looked at the table."""
    rows, size = _rows(LEDGER, {})[0]
    if size == 0:
        return 0
    return int(rows) if rows >= 0 else None


def _ledger(now: datetime) -> Measured:
    size = ledger_size()
    return {"ledger": None if size is None else Tally(size)}


def _skew(now: datetime) -> Measured:
    """How far this process's clock is ahead of the database's, in milliseconds; what the question took is halved."""
    clock = SystemClock()
    before = clock.now()
    asked = database_now()
    after = clock.now()
    middle = before + (after - before) / 2
    return {"skew": Tally(round((middle - asked).total_seconds() * 1000))}


def zone_data() -> str | None:
    """The version of the pinned time zone data; None where it is not installed."""
    try:
        return metadata.version("tzdata")
    except metadata.PackageNotFoundError:
        return None


MEASURES: Final[Mapping[str, Callable[[datetime], Measured]]] = {
    "syncs": _headlines,
    "in_doubt": _one("in_doubt", DOUBTS),
    "findings": _one("findings", FINDINGS),
    "due": _one("due", DUE),
    "running": _one("running", RUNNING),
    "unplanned": _one("unplanned", UNPLANNED),
    "lag": _lag,
    "queue": _one("queue", QUEUE),
    "workers": _one("workers", WORKERS),
    "tick": _one("tick", TICK),
    "ledger": _ledger,
    "skew": _skew,
}
"""Group -> how its numbers are measured. A group stands or falls as one."""


def measure(groups: Collection[str], now: datetime) -> dict[str, Tally | None]:
    """The numbers of ``groups``. What could not be measured is not in it."""
    found: dict[str, Tally | None] = {}
    with transaction.atomic(), _bounded():
        for group in groups:
            found |= _measured(group, now)
    return found


def _measured(group: str, now: datetime) -> Measured:
    try:
        with transaction.atomic():
            return MEASURES[group](now)
    except Error as error:
        log.warning("Measuring %s failed (%s).", group, type(error).__name__)
        return {}


@contextmanager
def _bounded() -> Iterator[None]:
    """No statement of this transaction takes longer than it may."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        before = cursor.fetchone()[0]
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(MEASURE_MS)])
        yield
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])


def _rows(statement: str, values: Mapping[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


NAMED: Final = re.compile(r"%\((\w+)\)s")


def _subquery(statement: str, values: Mapping[str, Any]) -> RawSQL:
    """A statement of ours inside one of the ORM's, whose parameters have places and no names."""
    places = NAMED.findall(statement)
    return RawSQL(NAMED.sub("%s", statement), [values[name] for name in places])  # noqa: S611 - every value a parameter
