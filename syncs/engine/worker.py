"""One process drives many runs in one event loop: a poke is an invitation to look for work, never the work itself.

The vendor's limit decides how fast one run is, so runs wait, not workers. `work` takes what is due, gives each run a
slice, looks for more while slices last, and ends when its time is over or nothing is due.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable

import psycopg

from syncs.domain.lifecycle import Outcome
from syncs.engine import planner, runner
from syncs.engine.lease import Renewer
from syncs.engine.outside import Outside

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
"""Seconds between two looks for runs that have come due meanwhile."""


async def work(outside: Outside, stopping: asyncio.Event | None = None) -> list[int]:
    """Drive due runs for one slice's time. The runs that yielded and want another slice at once.

    ``stopping`` is set from outside for a graceful stop: every run ends its page and keeps its place (PRODUCT 8.9).
    """
    ending = stopping or asyncio.Event()
    renewer = Renewer(outside.database.keywords, outside.clock, outside.terms.renew)
    renewer.start()
    try:
        return await _drive(outside, renewer, ending)
    finally:
        await asyncio.to_thread(renewer.end)
        await outside.database.close()


async def _drive(outside: Outside, renewer: Renewer, ending: asyncio.Event) -> list[int]:
    until = outside.clock.monotonic() + outside.terms.slice.total_seconds()
    slices: dict[asyncio.Task[Outcome | None], int] = {}
    try:
        return await _drive_until(outside, renewer, ending, until, slices)
    finally:
        # Normally there is none left. If the loop above could not go on, none of them may stay behind unwatched.
        for task in slices:
            task.cancel()
        await asyncio.gather(*slices, return_exceptions=True)


async def _drive_until(
    outside: Outside,
    renewer: Renewer,
    ending: asyncio.Event,
    until: float,
    slices: dict["asyncio.Task[Outcome | None]", int],
) -> list[int]:
    yielded: list[int] = []
    while True:
        if not ending.is_set():
            busy = {*slices.values(), *yielded}
            for run_id in await _look(planner.due_runs(outside.database, outside.terms.runs)):
                if run_id not in busy and len(slices) < outside.terms.runs:
                    slices[asyncio.create_task(runner.slice_(outside, renewer, run_id, ending))] = run_id
        if not slices:
            return yielded
        left = LOOK_EVERY if ending.is_set() else min(LOOK_EVERY, max(0.0, until - outside.clock.monotonic()))
        done, _ = await asyncio.wait(slices, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            run_id = slices.pop(task)
            if _outcome(task, run_id) is Outcome.YIELDED:
                yielded.append(run_id)
        if done:
            await _look(planner.change_lanes(outside.database))
        if outside.clock.monotonic() >= until:
            ending.set()


async def _look(asking: Awaitable[list[int]]) -> list[int]:
    """What a look at the rows found; nothing while the database does not answer. The slices go on: each of them writes
    down its own end when it does again, and leaving now would cut them off under leases that still stand."""
    try:
        return await asking
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        log.warning("Looking for due runs failed and is tried again (%s).", type(error).__name__)
        return []


def _outcome(task: "asyncio.Task[Outcome | None]", run_id: int) -> Outcome | None:
    """The slice's outcome. A fault of ours in one run must not take the others down: its lease runs out by itself."""
    error = task.exception()
    if error is None:
        return task.result()
    places = "".join(traceback.format_tb(error.__traceback__))
    log.error("Run %s met a fault of ours: %s\n%s", run_id, type(error).__name__, places)
    return None
