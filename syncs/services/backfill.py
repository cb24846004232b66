"""Backfill, first form: one range of history, read once in the manual lane (PRODUCT 1.4, 7.1).

The manual lane's cursor is set to an open read of the range, and an open read keeps its window: whatever interrupts the
run, the next one goes on where it stood. No other lane is touched, and the manual lane's watermark never goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import transaction
from django.utils.translation import gettext as _

from connectors.errors import ScopeMissing
from connectors.protocol import Count, Destination, EffectKind, Stream, Window
from syncs.domain.lifecycle import Lane, RunState, SyncState
from syncs.domain.rule import Rule
from syncs.engine import publication
from syncs.errors import Collided, PublicationInvalid
from syncs.models import Cursor, Run, Sync, Tombstone, Version
from syncs.models.workspaces import Role
from syncs.services import outside, runs
from syncs.services.actors import Actor, audit, database_now

HISTORY_WALLS: Final[Mapping[tuple[str, str], tuple[str, timedelta]]] = {
    ("shopify", Stream.ORDERS): ("read_all_orders", timedelta(days=60)),
}
"""Kind and stream -> the scope without which what is older is just absent, and how old (Case READ-12)."""


class RangeRefused(ValueError):
    """No range of history that can be read. The message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What a backfill would do. ``records`` is the source's own count of the range, ``known`` how many objects of the
    sync were delivered before: of them only what has changed since is sent again.

    ``pages`` and ``writes`` are calls at most. ``rows`` is how many records an interrupted read of this very range has
    moved over, None when there is none.
    """

    window: Window
    records: Count
    pages: int
    writes: int
    known: int
    rows: int | None


def backfill_plan(actor: Actor, sync: Sync, *, since: datetime, until: datetime) -> BackfillPlan:
    """Look before reading. It asks the source for its count and changes nothing.

    Raises RangeRefused, ScopeMissing, Collided and PublicationInvalid as `backfill_start` does, and what the source
    raises.
    """
    actor.require(sync.workspace, Role.OPERATOR)
    version = _check(sync, since, until)
    _open_run(sync, since, until)
    rows = _rows_of_open_read(sync, since, until)
    rule = publication.read_document(version.document)
    return asyncio.run(_plan(sync, rule, Window(since, until), rows, Tombstone.objects.filter(sync=sync).count()))


async def _plan(sync: Sync, rule: Rule, window: Window, rows: int | None, known: int) -> BackfillPlan:
    connected = await outside.connect(sync.pk)
    try:
        counted = await connected.source.count(rule.stream, window)
        pages = max(1, _calls(counted.records, connected.source.traits.page_size))
        return BackfillPlan(window, counted, pages, _writes(connected.destination, rule, counted.records), known, rows)
    finally:
        await connected.close()


def _calls(records: int, per_call: int) -> int:
    return -(-records // max(per_call, 1))


def _writes(destination: Destination, rule: Rule, records: int) -> int:
    """Calls that write, were every record new: its contact, or its order with the events of the past."""
    if rule.stream is Stream.CUSTOMERS:
        return _calls(records, destination.traits[EffectKind.CONTACT].batch)
    events = records * len(rule.events) if rule.history_events else 0
    orders = _calls(records, destination.traits[EffectKind.ORDER].batch)
    return orders + _calls(events, destination.traits[EffectKind.EVENT].batch)


@transaction.atomic
def backfill_start(actor: Actor, sync: Sync, *, since: datetime, until: datetime, reason: str = "") -> Run:
    """Set the manual lane to a read of [since, until) and start its run; go on with the one that was interrupted.

    Raises RangeRefused for a range that is none or not over, ScopeMissing where the source would hide a part of it,
    PublicationInvalid when nothing is published, and Collided while a run of the sync is open or the manual lane's read
    is open over another range: the sentence says which, and how to go on.
    """
    actor.require(sync.workspace, Role.OPERATOR)
    locked = Sync.objects.select_for_update(of=("self",), no_key=True).select_related("workspace").get(pk=sync.pk)
    _check(locked, since, until)
    waiting = _open_run(locked, since, until)
    goes_on = _rows_of_open_read(locked, since, until) is not None
    if not goes_on:
        _open_read(locked, since, until)
    if waiting is None or waiting.state == RunState.WAITING:
        run = runs.run_start(actor, locked, lane=Lane.MANUAL)
        if run.state == RunState.FINISHED:
            # A start of the timetable came due in between: nothing of this is kept.
            raise Collided(runs.COLLISION)
    else:
        run = waiting
    audit(
        actor,
        "backfill.started",
        locked,
        workspace=locked.workspace,
        after={"run": run.pk, "since": since.isoformat(), "until": until.isoformat(), "goes_on": goes_on},
        reason=reason,
    )
    return run


def _check(sync: Sync, since: datetime, until: datetime) -> Version:
    """The published version, for a range that can be read now."""
    if since >= until:
        raise RangeRefused(_("The range ends before it begins: write --since before --until."))
    if until > database_now():
        raise RangeRefused(_("The range ends in the future: what changes from now on is the schedule's to read."))
    if sync.state != SyncState.PUBLISHED or sync.published is None:
        raise PublicationInvalid(f"This sync is {sync.state}: preview it and publish it, then read its history.")
    _refuse_hidden(sync.published, since)
    return sync.published


def _refuse_hidden(version: Version, since: datetime) -> None:
    """Refuse history that the source would leave out without a word."""
    source, stream = version.facts["source"], publication.read_document(version.document).stream
    scope, age = HISTORY_WALLS.get((source["kind"], stream), ("", timedelta.max))
    if not scope or scope in source["scopes"]:
        return
    wall = database_now() - age
    if since < wall:
        raise ScopeMissing(
            _(
                "History before %(day)s needs the scope %(scope)s: without it the source leaves older records out and "
                "says nothing. Grant it and publish again, or begin on that day."
            )
            % {"day": f"{wall:%Y-%m-%d}", "scope": scope}
        )


def _open_run(sync: Sync, since: datetime, until: datetime) -> Run | None:
    """The run that was reading this very range and waits. Raises Collided for any other that is open."""
    run = Run.objects.filter(sync=sync).exclude(state=RunState.FINISHED).order_by("pk").first()
    if run is None:
        return None
    reads_it = run.lane == Lane.MANUAL and _rows_of_open_read(sync, since, until) is not None
    if run.state == RunState.RUNNING or not reads_it:
        raise Collided(
            _("Run %(run)d of this sync is open (%(lane)s, %(state)s): wait for its end, or cancel it on its page.")
            % {"run": run.pk, "lane": run.lane, "state": run.state}
        )
    return run


def _rows_of_open_read(sync: Sync, since: datetime, until: datetime) -> int | None:
    """How far the manual lane's open read of this very range is; None when no read is open.

    Raises Collided when one is open over another range.
    """
    cursor = Cursor.objects.filter(sync=sync, lane=Lane.MANUAL.value).first()
    if cursor is None or cursor.until is None:
        return None
    if (cursor.since, cursor.until) == (since, until):
        return cursor.rows
    raise Collided(
        _(
            "The manual lane is still reading %(since)s to %(until)s and stands after %(rows)s records. Finish that "
            "first with sync_run %(sync)d, or reset the manual cursor on the sync's recovery page."
        )
        % {
            "since": _utc(cursor.since) if cursor.since else _("the beginning"),
            "until": _utc(cursor.until),
            "rows": f"{cursor.rows:,}",
            "sync": sync.pk,
        }
    )


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _open_read(sync: Sync, since: datetime, until: datetime) -> None:
    """An open read of the range, before its first page. Watermark and fence stay what they are."""
    cursor, _made = Cursor.objects.select_for_update().get_or_create(sync=sync, lane=Lane.MANUAL.value)
    cursor.since, cursor.until = since, until
    cursor.query_digest, cursor.after, cursor.anchor = "", None, None
    cursor.exhausted, cursor.rows, cursor.pages, cursor.counted = False, 0, 0, None
    cursor.save()
