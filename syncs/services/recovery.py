"""What a person does when something went wrong: look at cursors and reset one, try records again, set one aside.

Each act needs a role and a reason and is in the audit log (PRODUCT 1.8, 4.4, 9.3).
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction

from connectors.protocol import Count, Stream, Window
from syncs.domain import rule as rules
from syncs.domain.lifecycle import DeliveryState, Lane, RunState
from syncs.engine.again import RETRY_ASKED
from syncs.errors import Collided, NotFound, PublicationInvalid
from syncs.models import Cursor, Delivery, Lease, Run, Sync, Tombstone
from syncs.models.workspaces import Role
from syncs.services import outside
from syncs.services.actors import Actor, audit, database_now


@dataclass(frozen=True, slots=True)
class CursorPlan:
    """What resetting a lane's cursor would do. ``to`` None: back to the beginning.

    ``records`` is the source's own count of what would be read again; ``known`` how many objects of this sync were
    delivered before: of them only what has changed since is sent again.
    """

    lane: Lane
    stands_at: datetime | None
    to: datetime | None
    records: Count
    known: int


def cursor_plan(actor: Actor, sync: Sync, lane: Lane, *, to: datetime | None) -> CursorPlan:
    """Preview a reset (PRODUCT 1.8). It changes nothing. Raises what the source raises."""
    actor.require(sync.workspace, Role.OPERATOR)
    stream = rules.parse(sync.draft).stream
    counted = asyncio.run(_count(sync.pk, stream, Window(to, database_now())))
    cursor = Cursor.objects.filter(sync=sync, lane=lane.value).first()
    known = Tombstone.objects.filter(sync=sync).count()
    return CursorPlan(lane, cursor.watermark if cursor else None, to, counted, known)


async def _count(sync_id: int, stream: Stream, window: Window) -> Count:
    connected = await outside.connect(sync_id)
    try:
        return await connected.source.count(stream, window)
    finally:
        await connected.close()


EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Before it there is nothing to read, and below it lie instants that neither the database nor a clock can hold."""


@transaction.atomic
def cursor_reset(actor: Actor, sync: Sync, lane: Lane, *, to: datetime | None, reason: str) -> Cursor:
    """Set a lane's watermark, and drop the read it had open. What was delivered stays known by its tombstones.

    Raises PublicationInvalid while a run of the sync is open: it owns the cursor.
    """
    actor.require(sync.workspace, Role.PUBLISHER)
    locked = Sync.objects.select_for_update(of=("self",), no_key=True).select_related("workspace").get(pk=sync.pk)
    if Run.objects.filter(sync=locked).exclude(state=RunState.FINISHED).exists():
        raise PublicationInvalid("A run of this sync is open and owns the cursor: wait for its end or cancel it.")
    cursor, _ = Cursor.objects.select_for_update().get_or_create(sync=locked, lane=lane.value)
    before = cursor.watermark
    if to is not None and to < EARLIEST:
        raise PublicationInvalid("No shop is older than the year 2000: choose a later instant, or the beginning.")
    if to is not None and before is None:
        raise PublicationInvalid("This lane has never read: it begins by itself where it should. Nothing is to be set.")
    if to is not None and before is not None and to > before:
        raise PublicationInvalid("A cursor is only set back: what lies between would never be read.")
    cursor.watermark, cursor.since, cursor.until = to, None, None
    cursor.query_digest, cursor.after, cursor.anchor = "", None, None
    cursor.exhausted, cursor.rows, cursor.pages, cursor.counted = False, 0, 0, None
    cursor.save()
    audit(
        actor,
        "cursor.reset",
        locked,
        workspace=locked.workspace,
        before={"lane": lane.value, "watermark": before.isoformat() if before else None},
        after={"lane": lane.value, "watermark": to.isoformat() if to else None},
        reason=reason,
    )
    return cursor


@transaction.atomic
def deliveries_retry(actor: Actor, sync: Sync, *, code: str = "", ids: list[int] | None = None, reason: str) -> int:
    """Try rejected records again, singly or all of one reason. The number of records.

    What stands in the way of a page is called again by the next run; a dead letter is read again by id.
    """
    actor.require(sync.workspace, Role.OPERATOR)
    rows = Delivery.objects.filter(sync=sync)
    rows = rows.filter(pk__in=ids) if ids is not None else rows.filter(code=code)
    failed = rows.filter(state=DeliveryState.FAILED.value).update(state=DeliveryState.SUPERSEDED.value)
    dead = rows.filter(state=DeliveryState.SET_ASIDE.value).update(code=RETRY_ASKED)
    audit(
        actor,
        "deliveries.retried",
        sync,
        workspace=sync.workspace,
        after={"failed": failed, "set_aside": dead, "code": code},
        reason=reason,
    )
    return failed + dead


@transaction.atomic
def delivery_set_aside(actor: Actor, delivery: Delivery, *, reason: str) -> Delivery:
    """Set a rejected record aside: the page it stands in the way of is decided by the next run (PRODUCT 4.4).

    Raises NotFound when it is not rejected any more.
    """
    actor.require(delivery.sync.workspace, Role.OPERATOR)
    moved = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.FAILED.value).update(
        state=DeliveryState.SET_ASIDE.value
    )
    if not moved:
        raise NotFound("This record is not rejected any more. Look at it again.")
    audit(
        actor,
        "delivery.set_aside",
        delivery.sync,
        workspace=delivery.sync.workspace,
        after={"object": delivery.object, "code": delivery.code},
        reason=reason,
    )
    delivery.refresh_from_db()
    return delivery


NOBODY_HOLDS = "Nobody holds this sync: there is no lease to take over."
STILL_HELD = (
    "The lease under fence number %s runs until %s UTC and its holder may be at work: wait until then. It is taken "
    "over early only from a process that is proven dead."
)


def lease_may_be_taken(lease: Lease, now: datetime) -> bool:
    """Whether its owner can write no more: the lease is over, or its process is proven dead (PRODUCT 3.1)."""
    return lease.expires_at <= now or outside.is_proven_dead(lease.holder)


@transaction.atomic
def lease_take_over(actor: Actor, sync: Sync, *, reason: str) -> Lease:
    """Free a lease that is over, or whose process is proven dead; the fencing number grows (PRODUCT 9.3).

    Whoever held it can move nothing any more. The run it belonged to goes on at the next tick. Raises NotFound when
    nobody holds the sync, Collided while its holder may be at work.
    """
    actor.require(sync.workspace, Role.OPERATOR)
    lease = Lease.objects.select_for_update().filter(sync=sync).first()
    if lease is None or lease.run_id is None:
        raise NotFound(NOBODY_HOLDS)
    now = database_now()
    if not lease_may_be_taken(lease, now):
        raise Collided(STILL_HELD % (lease.fence, f"{lease.expires_at:%H:%M}"))
    before = {"fence": lease.fence, "holder": lease.holder, "run": lease.run_id}
    lease.token, lease.fence, lease.run = uuid.uuid4(), lease.fence + 1, None
    lease.expires_at = min(lease.expires_at, now)
    lease.save(update_fields=["token", "fence", "run", "expires_at"])
    audit(
        actor,
        "lease.taken_over",
        sync,
        workspace=sync.workspace,
        before=before,
        after={"fence": lease.fence},
        reason=reason,
    )
    return lease
