"""``script/demo``: shows Vigil at work on this machine.

Its own PostgreSQL, a sandbox Shopify, a sandbox Brevo, the queue's workers and the web server, all as children of this
process; a demo workspace whose two syncs are published and run through the queue. A second call goes on where the first
one ended and writes nothing again.

Everything lives in one folder, VIGIL_HOME or ``.vigil`` in the checkout. Each shop has a demo of its own, so that
nothing of two shops is mixed and no timetable runs against another shop's sandbox: without --shop the invented one, in
the database ``vigil_demo``, as demo-shop.myshopify.com; with --shop a database and a domain named after the folder; and
each a Brevo account (a state file) of its own. With DATABASE_URL one database holds one demo, and another shop is
refused there.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # Until there is something to end, a Ctrl-C just ends us, without a traceback from the midst of an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local import house, postgres, show
from local.house import House, Unusable, say
from local.supervisor import ChildFailed, Interrupted, Interrupts, Watchdog, adopt_orphans

if TYPE_CHECKING:
    from local import stage
    from syncs.domain.lifecycle import Lane
    from syncs.models import Run, Sync

SIGNALLED = 128
LAST_PORT = 65535
CALLED_FROM = "VIGIL_CALLED_FROM"
EPILOG = """exit codes: 0 done (refusals are normal); 1 unexpected; 2 wrong use; 4 a run failed; 7 a source was
unreadable, short or unproven; 130, 143 ended by a signal."""


# --- What is asked ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Asked:
    """The command line. ``shop`` is absolute; ``port`` None means the first free one from 8000 on."""

    once: bool
    json: bool
    shop: Path | None
    port: int | None
    reset: bool


def parse(arguments: Sequence[str] | None) -> Asked:
    """Raises Unusable for what only looks like an option's value."""
    parser = argparse.ArgumentParser(prog="script/demo", description="Shows Vigil at work.", epilog=EPILOG)
    parser.add_argument("--once", action="store_true", help="end after both syncs have run once")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, all else on stderr")
    parser.add_argument("--shop", metavar="DIR", help="folder with customers.jsonl and orders.jsonl (or .gz)")
    parser.add_argument("--port", help=f"port of the pages (default: {house.PORT}, or the next free one)")
    parser.add_argument("--reset", action="store_true", help="forget this shop's demo first: database, Brevo, login")
    found = parser.parse_args(arguments)
    # The script changed the folder; what the person typed is seen from where they stand.
    shop = None if found.shop is None else Path(os.environ.get(CALLED_FROM, ""), found.shop).absolute()
    return Asked(found.once, found.json, shop, _port(found.port), found.reset)


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= LAST_PORT):
        raise Unusable(f"--port is no port: name a whole number from 0 to {LAST_PORT}, or leave it out.")
    return int(text)


# --- What it does -----------------------------------------------------------------------------------------------------
def perform(asked: Asked, interrupts: Interrupts) -> int:
    """The whole demo; its exit code. Whatever happens, nothing that it started goes on."""
    if asked.reset and os.environ.get("DATABASE_URL"):
        raise Unusable("--reset deletes the demo's own database, never that of DATABASE_URL: unset one of the two.")
    place = house.place_of(asked.shop)
    house.prepare_folder(place)
    with house.alone(place, interrupts) as lock:
        house.begin_logs(place)
        built = House(place, asked.shop, house.listen(asked.port), interrupts, Watchdog(lock))
        try:
            with interrupts.raised(), house.telling_of_a_lost_database(place):
                return _show(built, asked)
        finally:
            built.stop()


def _show(built: House, asked: Asked) -> int:
    prepared = built.start(reset=asked.reset)
    say(
        "Everything is up."
        if asked.once
        else f"The pages are at {built.url} (user {house.USER}, password in {built.place.login})."
    )
    runs: list[Run] = []
    code = 0
    for sync, lane in prepared.plan:
        if why := built.asking(lambda sync=sync: _stands_still(sync)):  # type: ignore[misc]
            say(why)
            code = show.FAILED
            continue
        runs.append(_run(built, prepared, sync, lane))
        code = show.code_of(runs[-1]) or code
        if show.code_of(runs[-1]):
            break
    _tell(built, runs, asked)
    if not asked.once:
        _serve(built)
    return code


def _stands_still(sync: Sync) -> str | None:
    from local import stage

    return stage.stands_still(sync)


def _run(built: House, prepared: stage.Stage, sync: Sync, lane: Lane) -> Run:
    """Runs a sync through the queue to its end."""
    from local import stage

    run = built.asking(lambda: stage.take(prepared, sync, lane))
    while run is None:
        built.look()
        time.sleep(house.LOOK_SECONDS)
        run = built.asking(lambda: stage.take(prepared, sync, lane))
    progress = show.Progress(sync.name)
    while not stage.is_over(run):
        built.look()
        progress.show(run, built.asking(lambda: stage.held(run)))
        time.sleep(house.LOOK_SECONDS)
        built.asking(run.refresh_from_db)
    progress.end(run)
    return run


def _tell(built: House, runs: Sequence[Run], asked: Asked) -> None:
    held = built.brevo.control("summary")
    from local import stage

    result: dict[str, Any] = {
        # With --once the pages end with this call.
        "url": None if asked.once else built.url,
        "syncs": [stage.report(run) for run in runs],
        "destination": show.destination(held, stage.LIST),
    }
    people = sys.stderr if asked.json else sys.stdout
    show.summary(result, runs, people)
    login = f"user {house.USER}, password {built.password} (kept in {built.place.login})."
    pages = "To see the pages call it without --once;" if asked.once else f"Pages: {built.url} "
    print(f"{pages} {login}", file=people, flush=True)
    if asked.json:
        show.as_json(result)


def _serve(built: House) -> None:
    say("Press Ctrl-C to end; the next call goes on from here.")
    while True:
        built.look()
        time.sleep(house.LOOK_SECONDS)


# --- Command line -----------------------------------------------------------------------------------------------------
def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code; what a person can cause is told in one sentence."""
    try:
        asked = parse(arguments)
    except Unusable as problem:
        say(str(problem))
        return problem.code
    interrupts = Interrupts()
    interrupts.install()
    adopt_orphans()
    try:
        return _told(asked, interrupts)
    except Interrupted as ended:
        with contextlib.suppress(OSError):
            say("Ended. What was done is kept; the next call goes on from here.")
        return SIGNALLED + ended.number
    except BrokenPipeError:
        # Whoever read us is gone; the interpreter must not try to tell them more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return house.UNEXPECTED


def _told(asked: Asked, interrupts: Interrupts) -> int:
    try:
        return perform(asked, interrupts)
    except Unusable as problem:
        say(str(problem))
        return problem.code
    except ChildFailed as problem:
        say(f"{problem.said}\n{problem}".strip())
        return house.UNEXPECTED
    except postgres.PostgresUnavailable as problem:
        say(str(problem))
        return house.UNEXPECTED


if __name__ == "__main__":
    sys.exit(main())
