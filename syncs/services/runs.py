"""Starting, stopping and driving runs."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django_q.tasks import async_task

from syncs.domain.lifecycle import Lane, OccurrenceState, Outcome, RunState, SyncState, Trigger
from syncs.engine import ledger, planner, worker
from syncs.errors import PublicationInvalid
from syncs.models import Attempt, Lease, Occurrence, Run, Sync, Version
from syncs.models.beats import BeatKind
from syncs.models.workspaces import Role
from syncs.services import beats, outside
from syncs.services.actors import Actor, audit, database_now

log = logging.getLogger(__name__)

WORK = "syncs.tasks.work"
"""The dotted path of the one task that drives runs. It never moves: queued tasks outlive deploys."""

OPEN = (RunState.WAITING.value, RunState.RUNNING.value)
COLLISION = "Another run of this sync was active, so this one ended. Nothing was read or written."


def poke(run_ids: Iterable[int]) -> None:
    """Invite a worker to look for work, once the rows are committed (Case QUEUE-11). Losing it loses nothing."""
    for run_id in run_ids:
        transaction.on_commit(lambda run_id=run_id: async_task(WORK, run_id))  # type: ignore[misc]


@transaction.atomic
def run_start(
    actor: Actor, sync: Sync, *, lane: Lane = Lane.MANUAL, force: bool = False, seen: int | None = None
) -> Run:
    """Run now; with ``force`` also what is unchanged is sent again, events excepted (PRODUCT 2.5).

    A run that waits for its next attempt in the same lane is pulled forward; one that is going on is a collision: a
    finished run, not queued, not retried, not a failure (PRODUCT 3.4). Raises PublicationInvalid when nothing is
    published. ``seen`` is the newest run on the page that was clicked: a second click on the same page finds what the
    first one made (Case LEASE-06).
    """
    actor.require(sync.workspace, Role.OPERATOR)
    locked = Sync.objects.select_for_update(of=("self",), no_key=True).select_related("workspace").get(pk=sync.pk)
    if locked.state != SyncState.PUBLISHED or locked.published is None:
        raise PublicationInvalid(f"This sync is {locked.state}: preview it and publish it, then run it.")
    now = database_now()
    open_run = Run.objects.select_for_update().filter(sync=locked, state__in=OPEN).first()
    waits = open_run is not None and open_run.state == RunState.WAITING
    twin = None if waits or seen is None else _twin(actor, locked, now, seen)
    if twin is not None:
        return twin
    if open_run is not None and waits and (open_run.lane, open_run.force) == (lane, force):
        Run.objects.filter(pk=open_run.pk).update(due_after=now)
        run = open_run
    else:
        run = _new_run(actor, locked, locked.published, lane, now, force=force, collided=open_run is not None)
    audit(actor, "run.started", locked, workspace=locked.workspace, after={"run": run.pk, "lane": lane.value})
    if run.state != RunState.FINISHED:
        poke([run.pk])
    return run


DOUBLE_CLICK = timedelta(seconds=30)


def _twin(actor: Actor, sync: Sync, now: datetime, seen: int) -> Run | None:
    """What this person's click on the same page has already made."""
    mine = Run.objects.filter(sync=sync, started_by=actor.user, trigger=Trigger.PERSON.value, pk__gt=seen)
    return mine.filter(created_at__gt=now - DOUBLE_CLICK).first()


def _new_run(
    actor: Actor, sync: Sync, version: Version, lane: Lane, now: datetime, *, force: bool, collided: bool
) -> Run:
    ended: dict[str, Any] = (
        {
            "state": RunState.FINISHED.value,
            "finished_at": now,
            "outcome": Outcome.COLLIDED.value,
            "error_code": "collision",
            "error_sentence": COLLISION,
        }
        if collided
        else {}
    )
    return Run.objects.create(
        sync=sync,
        version=version,
        lane=lane.value,
        trigger=Trigger.PERSON.value,
        started_by=actor.user,
        due_after=now,
        created_at=now,
        force=force,
        **ended,
    )


@transaction.atomic
def run_cancel(actor: Actor, run: Run, *, reason: str = "") -> None:
    """Ask a run to stop. One that waits ends now; a running one before its next write. Pages demand the reason."""
    actor.require(run.sync.workspace, Role.OPERATOR)
    sync = Sync.objects.select_for_update(no_key=True).get(pk=run.sync_id)
    open_run = Run.objects.filter(pk=run.pk).exclude(state=RunState.FINISHED)
    open_run.update(cancel_asked_at=database_now(), cancel_asked_by=actor.label)
    end_waiting(
        sync,
        Outcome.CANCELLED,
        run_id=run.pk,
        sentence=f"Cancelled by {actor.label}. The cursor stands after the last whole page.",
    )
    audit(actor, "run.cancelled", run.sync, workspace=run.sync.workspace, after={"run": run.pk}, reason=reason)


def end_waiting(sync: Sync, outcome: Outcome, sentence: str, *, run_id: int | None = None) -> None:
    """End runs that wait or are parked, in the caller's transaction; only ``run_id`` when it is given.

    Nobody works on such a run, so a lease it kept between two slices ends with it."""
    now = database_now()
    waiting = list(Run.objects.select_for_update().filter(sync=sync, state__in=[RunState.WAITING, RunState.PARKED]))
    for run in (one for one in waiting if run_id in (None, one.pk)):
        Attempt.objects.filter(run=run, ended_at=None).update(ended_at=now, outcome=outcome.value)
        Occurrence.objects.filter(run=run, state=OccurrenceState.DUE.value).update(
            state=OccurrenceState.DISCARDED.value if run.started_at is None else OccurrenceState.EXECUTED.value,
            decided_at=now,
        )
        Lease.objects.filter(sync=sync, run=run).update(expires_at=now, run=None)
        run.state, run.finished_at, run.outcome = RunState.FINISHED.value, now, outcome.value
        run.error_code, run.error_sentence = outcome.value, sentence[:500]
        run.save()


def tick() -> list[int]:
    """Plan what is due, notice vanished workers, and poke for everything that may start. The runs poked for.

    Its last deed is its sign of life: a tick that came only half-way leaves none.
    """
    leases_free_dead()
    run_ids = asyncio.run(_tick())
    poke(run_ids)
    beats.beats_forget()
    beats.beat(BeatKind.TICK)
    return run_ids


async def _tick() -> list[int]:
    given = outside.outside()
    try:
        await planner.plan_due(given.database)
        await planner.recover(given.database)
        await planner.change_lanes(given.database)
        await planner.plan_reconciles(given.database)
        await planner.find_long_deferred(given.database)
        await ledger.prune(given.database, age=timedelta(days=settings.VIGIL_LEDGER_DAYS))
        return await planner.due_runs(given.database, given.terms.runs)
    finally:
        await given.database.close()


def work() -> None:
    """Drive due runs for one slice's time in this process, and poke again for those that want another slice.

    SIGTERM ends the slices gracefully: every run finishes its page and keeps its place (PRODUCT 8.9).
    """
    connection.close()
    poke(asyncio.run(_work()))


async def _work() -> list[int]:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM)
    try:
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
    except (RuntimeError, ValueError):
        return await worker.work(outside.outside(), stopping)
    try:
        return await worker.work(outside.outside(), stopping)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


def leases_free_dead() -> list[int]:
    """Free what processes held that are proven dead on this host; the runs that are due again (PRODUCT 3.1)."""
    held = Lease.objects.filter(expires_at__gt=database_now()).values_list("holder", flat=True).distinct()
    dead = sorted(name for name in held if outside.is_proven_dead(name))
    if not dead:
        return []
    log.warning("Freeing what %s dead processes held.", len(dead))
    return asyncio.run(_free(dead))


async def _free(dead: list[str]) -> list[int]:
    given = outside.outside()
    try:
        return await planner.end_of_process(given.database, dead)
    finally:
        await given.database.close()
