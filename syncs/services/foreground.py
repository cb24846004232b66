"""Driving one run to its end in this process, for an operator at a shell (UX, section 4).

The run goes through the same rows as in a worker: it is taken under its lease, and a worker that is faster has it. Then
this process only watches. History that gives way to a scheduled run of the same sync is let through here as well, so
that a run ends also where no worker is at work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg

from syncs.domain.lifecycle import Outcome, RunState
from syncs.engine import planner, runner
from syncs.engine.lease import Renewer
from syncs.engine.outside import Outside
from syncs.models import Run
from syncs.models.workspaces import Role
from syncs.services import outside, runs
from syncs.services.actors import Actor

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 0.2
"""Seconds between two looks at the run, and at whether somebody wants it to stop."""
IDLE_LOOK: Final = 0.5
"""The same while nothing is done here."""

SEEN = """
SELECT r.state, r.phase, r.outcome, r.failures, r.error_sentence, r.due_after,
    extract(epoch FROM r.due_after - vigil_now())::float AS due_in,
    coalesce(c.rows, (SELECT sum(value::bigint) FROM jsonb_each_text(r.states)), 0)::bigint AS done,
    coalesce(c.counted, r.expected) AS expected
FROM syncs_run r LEFT JOIN syncs_cursor c ON c.sync_id = r.sync_id AND c.lane = r.lane AND c.until IS NOT NULL
WHERE r.id = %(run)s
"""
DUE = """
SELECT id FROM syncs_run WHERE sync_id = %(sync)s AND state = 'waiting' AND due_after <= vigil_now() ORDER BY due_after
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as it was at one look. ``done`` of ``expected`` records of its read; ``due_in`` seconds, while it waits."""

    state: RunState
    phase: str
    failures: int
    sentence: str
    due_after: datetime
    due_in: float
    done: int
    expected: int | None
    here: bool


def run_drive(actor: Actor, run: Run, *, stopping: Callable[[], bool], tell: Callable[[Seen], None]) -> Run:
    """Drive ``run`` until it has ended, through all its attempts; fresh from the database.

    Once ``stopping`` answers true the page in hand is finished and the run keeps its place: then it may come back
    unfinished. ``tell`` is called several times a second, in the event loop: it must not ask Django's database.
    """
    actor.require(run.sync.workspace, Role.OPERATOR)
    runs.leases_free_dead()
    asyncio.run(_drive(run.pk, run.sync_id, stopping, tell))
    run.refresh_from_db()
    return run


async def _drive(run_id: int, sync_id: int, stopping: Callable[[], bool], tell: Callable[[Seen], None]) -> None:
    given = outside.outside()
    renewer = Renewer(given.database.keywords, given.clock, given.terms.renew)
    renewer.start()
    ending = asyncio.Event()
    slices: set[asyncio.Task[Outcome | None]] = set()
    try:
        while not await _is_over(given, run_id, bool(slices), tell):
            if stopping():
                ending.set()
            if not slices and ending.is_set():
                return
            for due in [] if slices else await _due(given, sync_id):
                slices.add(asyncio.create_task(runner.slice_(given, renewer, due, ending)))
            await _wait(given, slices)
    finally:
        # Normally there is none left: only a fault of ours, or the end of this very task, leaves one behind.
        for task in slices:
            task.cancel()
        await asyncio.gather(*slices, return_exceptions=True)
        await asyncio.to_thread(renewer.end)
        await given.database.close()


async def _is_over(given: Outside, run_id: int, here: bool, tell: Callable[[Seen], None]) -> bool:
    """Whether the run has ended and nothing of it is left here. Tells what it saw."""
    rows = await _look(given, SEEN, {"run": run_id})
    if rows is None:
        return False
    if not rows or rows[0]["state"] == RunState.FINISHED:
        return not here
    row = rows[0]
    tell(
        Seen(
            state=RunState(row["state"]),
            phase=row["phase"],
            failures=row["failures"],
            sentence=row["error_sentence"],
            due_after=row["due_after"],
            due_in=row["due_in"],
            done=row["done"],
            expected=row["expected"],
            here=here,
        )
    )
    return False


async def _due(given: Outside, sync_id: int) -> list[int]:
    """What of this sync may start now: at most one run, by the constraint on open ones."""
    return [row["id"] for row in await _look(given, DUE, {"sync": sync_id}) or []]


async def _look(given: Outside, statement: str, values: dict[str, Any]) -> list[dict[str, Any]] | None:
    """What the rows say; None while the database does not answer: the slice writes down its own end when it does."""
    try:
        return await given.database.rows(statement, values)
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        log.warning("Looking at the run failed and is tried again (%s).", type(error).__name__)
        return None


async def _wait(given: Outside, slices: set[asyncio.Task[Outcome | None]]) -> None:
    """One look's time. Lanes change behind a slice that ended, and while there is none: the tick may be far away."""
    if slices:
        done, _ = await asyncio.wait(slices, timeout=LOOK_EVERY)
        for task in done:
            slices.discard(task)
            task.result()
    else:
        await asyncio.sleep(IDLE_LOOK)
    if not slices:
        await _change_lanes(given)


async def _change_lanes(given: Outside) -> None:
    try:
        await planner.change_lanes(given.database)
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        log.warning("Changing lanes failed and is tried again (%s).", type(error).__name__)
