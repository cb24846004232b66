"""One attempt of a run, slice by slice: prove, read, deliver, move, and close with a verdict.

`slice_` is the straight line. Every way it can end is an error class or a return value; `syncs.domain.retry.VERDICTS`
says what each means for the run, and `close` writes it in one fenced transaction together with its finding.
"""

import asyncio
import logging
import traceback
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from connectors.errors import ConnectorError, CursorStale, Passing, Throttled, Unreadable
from connectors.protocol import Page
from syncs.domain import evidence as judging
from syncs.domain import retry
from syncs.domain.evidence import Evidence
from syncs.domain.lifecycle import PROVEN, Lane, Outcome, Phase, Verdict
from syncs.domain.mapping import Mapper
from syncs.engine import again, batch, crash, cursor, evidence, findings, lease, ledger, publication, sending, starting
from syncs.engine.batch import Tally
from syncs.engine.cursor import Read
from syncs.engine.database import Cursor, Row
from syncs.engine.lease import Lease, Renewer
from syncs.engine.outside import Connected, Outside
from syncs.engine.running import Facts, Running
from syncs.errors import Cancelled, Faulty, Paused, Superseded, VigilError

log = logging.getLogger(__name__)

WINDOW_RESTARTS = 2
"""How often one slice starts its window again for a stale page cursor before it is an error."""


async def slice_(outside: Outside, renewer: Renewer, run_id: int, ending: asyncio.Event) -> Outcome | None:
    """One slice of a run that is due. The outcome, when the run or its attempt ended; None when it could not start.

    ``ending`` is set when the slice should yield after the page in hand. Never raises what the tables name.
    """
    started = await starting.start(outside, run_id)
    if started is None:
        return None
    held, stopping = started, ending
    renewer.watch(held)
    try:
        return await _guarded(outside, held, run_id, stopping)
    finally:
        renewer.forget(held)


CLOSE_TRIES = 30
"""Seconds for which a run tries to write down how it ended while the database does not answer."""


async def _close_surely(outside: Outside, held: Lease, run_id: int, error: ConnectorError | VigilError) -> Outcome:
    """`close`, through a restart of the database. After that the lease runs out and the planner closes the attempt."""
    for left in reversed(range(CLOSE_TRIES)):
        try:
            return await close(outside, held, run_id, error)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            if not left:
                raise
            await asyncio.sleep(1)
    raise AssertionError("the loop above returns or raises")


async def _guarded(outside: Outside, held: Lease, run_id: int, ending: asyncio.Event) -> Outcome:
    try:
        return await _work(outside, held, run_id, ending)
    except (ConnectorError, VigilError) as error:
        return await _close_surely(outside, held, run_id, error)
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        # The statement's values are not for the log: they may hold what a record contains.
        log.warning("Run %s met a database error: %s", run_id, type(error).__name__)
        trouble = Passing("The database did not answer. The cursor stands after the last whole page.", code="database")
        return await _close_surely(outside, held, run_id, trouble)
    except Exception as error:
        # The outermost border of a run: without it a fault of ours would hold the sync until the lease runs out.
        # Only places are logged: the message of an exception may hold what a record contains.
        log.error("Run %s met a fault of ours: %s\n%s", run_id, type(error).__name__, _places(error))
        return await _close_surely(outside, held, run_id, Faulty(f"{FAULT} ({type(error).__name__})."))


FAULT = "Vigil met a fault of its own and stopped before its next write. Staff must look at the worker's log"


def _places(error: Exception) -> str:
    return "".join(traceback.format_tb(error.__traceback__))


async def _work(outside: Outside, held: Lease, run_id: int, ending: asyncio.Event) -> Outcome:
    facts = await publication.load(outside.database, run_id)
    rule = publication.prove_digest(facts)
    connected = await outside.connect(facts.sync_id)
    try:
        _require_same_credentials(facts, connected)
        running = Running(
            outside=outside,
            facts=facts,
            lease=held,
            connected=connected,
            rule=rule,
            mapper=_mapper(facts, connected, rule),
            policy=rule.policy,
            target=publication.target_of(rule, facts.version_facts),
            ending=ending,
        )
        return await _read_and_write(running)
    finally:
        await connected.close()


def _require_same_credentials(facts: Facts, connected: Connected) -> None:
    """Raises Passing when a credential was rotated between the look at its proof and its opening."""
    proved = (facts.source["fingerprint"], facts.destination["fingerprint"])
    if connected.fingerprints is not None and connected.fingerprints != proved:
        raise Passing("A credential was rotated while the run started; it starts again.", code="rotated")


def _mapper(facts: Facts, connected: Connected, rule: Any) -> Mapper:
    source = facts.version_facts["source"]
    shop = source["account"].rsplit("/", 1)[-1]
    return Mapper(rule, shop, prefix=source["kind"], zone=publication.zone_of(connected.zone))


async def _read_and_write(running: Running) -> Outcome:
    await _phase(running, Phase.PROVING)
    read = await _open(running)
    await _phase(running, Phase.READING)
    restarts = 0
    while not read.exhausted:
        try:
            read = await _pages(running, read)
        except CursorStale:
            restarts += 1
            if restarts > WINDOW_RESTARTS:
                raise
            read = await _begin(running, read)
            continue
        if not read.exhausted:
            return await _yield(running)
    await again.retry(running)
    await _phase(running, Phase.CLOSING)
    return await _finish(running, read)


async def _open(running: Running) -> Read:
    """Prove the connections and open the read, or go on with the one that is open."""
    facts, database = running.facts, running.outside.database
    running.lists = await ledger.lists_of_shop(database, sync_id=facts.sync_id)
    now = facts.now
    open_ = await database.row(
        "SELECT until FROM syncs_cursor WHERE sync_id = %s AND lane = %s AND until IS NOT NULL",
        [facts.sync_id, facts.lane.value],
    )
    identity = await publication.prove_connections(
        database, running.outside.terms, facts, running.connected, asked=open_ is None
    )
    scopes = list(identity.scopes) if identity else facts.source["scopes"]
    running.scopes_missing = publication.missing_scopes(running.connected.source, running.stream, scopes)
    running.proof = publication.receipt(facts, now)
    if identity is not None:
        now = identity.server_time
        running.proof["version_asked"] = identity.version_asked
        running.version_served = identity.version_served
    await database.rows("UPDATE syncs_run SET proof = proof || %s WHERE id = %s", [Jsonb(running.proof), facts.run_id])
    traits = running.connected.source.traits
    read = await cursor.open_read(
        database,
        running.lease,
        facts.lane,
        until=(now - traits.settle).replace(microsecond=0),
        start=_start(running, now),
        overlap=RECONCILE_STRETCH if facts.lane is Lane.RECONCILE else traits.overlap,
    )
    digest = running.connected.source.query_digest(running.stream, read.window)
    return read if read.query_digest == digest else await _begin(running, read)


RECONCILE_STRETCH = timedelta(days=3)
"""How far the daily second look reaches back: longer than an index lags or a dropped row stays hidden (1.6)."""


def _start(running: Running, now: datetime) -> datetime | None:
    """Where a lane begins that has never read; None: at the beginning (PRODUCT 1.4)."""
    history = running.stream in running.connected.source.traits.starts_with_history
    first = None if history else running.facts.first_published_at
    if running.facts.lane is Lane.MANUAL:
        return None
    if running.facts.lane is Lane.SCHEDULED:
        return first
    back = now - RECONCILE_STRETCH
    return back if first is None else max(first, back)


async def _begin(running: Running, read: Read) -> Read:
    """Start the window at its first page, with the source's own count before it."""
    source = running.connected.source
    counted = await source.count(running.stream, read.window)
    running.expected = counted.records
    await running.outside.database.rows(
        "UPDATE syncs_run SET expected = %s, states = '{}', refusals = '{}' WHERE id = %s",
        [counted.records, running.facts.run_id],
    )
    digest = source.query_digest(running.stream, read.window)
    return await cursor.bind(running.outside.database, running.lease, read, query_digest=digest, counted=counted)


async def _draw_read_no(running: Running) -> int:
    """Drawn before the page is requested: what an older read saw never overwrites a newer one (PRODUCT 2.6)."""
    row = await running.outside.database.row("SELECT nextval('vigil_read_no') AS number")
    assert row is not None  # noqa: S101 - a sequence always answers
    number: int = row["number"]
    return number


async def _ask_page(running: Running, read: Read, after: str | None) -> tuple[Page, int]:
    """The next page and its read number. A wait the vendor asked for, up to a minute, is waited out here."""
    number = await _draw_read_no(running)
    for _ in range(retry.PASSING_IN_A_ROW):
        try:
            return await running.connected.source.read_page(running.stream, read.window, after), number
        except Throttled as error:
            if error.wait is None or not retry.is_inline(error.wait):
                raise
            await _sit_out(running, error.wait)
    raise Throttled("The source asked for one wait after the other.", wait=None)


async def _sit_out(running: Running, wait: timedelta) -> None:
    """A vendor's short wait, in pieces: a lost lease or the end of the slice cuts it off."""
    clock = running.outside.clock
    until = clock.monotonic() + wait.total_seconds()
    while (left := until - clock.monotonic()) > 0:
        running.lease.require(clock)
        if running.ending.is_set():
            raise Throttled("The source asked for a wait, and the slice is ending.", wait=timedelta(seconds=left))
        await asyncio.sleep(min(left, 1.0))


async def _pages(running: Running, read: Read) -> Read:
    """Read and deliver pages until the read is exhausted or the slice is to yield.

    The next page is read while this one is written; what was read ahead is dropped when this page is not decided.
    """
    ahead = asyncio.create_task(_ask_page(running, read, read.after))
    try:
        while True:
            page, number = await ahead
            following = cursor.follow(read, page.next, len(page.records))
            if not following.exhausted and not running.ending.is_set():
                ahead = asyncio.create_task(_ask_page(running, following, following.after))
            running.version_served = page.version_served
            read = await _page(running, read, following, page, number)
            if read.exhausted or running.ending.is_set() or running.yielding:
                return read
    finally:
        await _drop(ahead)


async def _drop(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _page(running: Running, read: Read, following: Read, page: Page, read_no: int) -> Read:
    tally = await _deliver(running, read, page, read_no)
    if tally.error is not None:
        raise tally.error
    crash.here("before_move")
    async with running.outside.database.transaction() as connection:
        await batch.keep(connection, running, tally, read_no)
        await cursor.move(connection, running.lease, read, following)
        stand = await _count(connection, running, tally)
        await _find_changed_addresses(connection, running, tally)
    crash.here("after_move")
    running.pages += 1
    _refuse_to_go_on(stand)
    return following


async def _deliver(running: Running, read: Read, page: Page, read_no: int) -> Tally:
    """Deliver the page; when it is not decided, leave its states on the run for people to see."""
    tally = await batch.deliver(running, page, after=read.after, read_no=read_no)
    if tally.error is not None:
        await running.outside.database.rows(
            "UPDATE syncs_run SET unsettled = %s WHERE id = %s",
            [Jsonb({state.value: number for state, number in tally.states.items()}), running.facts.run_id],
        )
    return tally


COUNT = """
UPDATE syncs_run r SET unsettled = '{}', deaths = 0,
    states = (SELECT coalesce(jsonb_object_agg(k, v), '{}') FROM (
        SELECT key AS k, sum(value::bigint) AS v FROM (
            SELECT * FROM jsonb_each_text(r.states) UNION ALL SELECT * FROM jsonb_each_text(%(states)s)) pairs
        GROUP BY key) summed),
    refusals = (SELECT coalesce(jsonb_object_agg(k, v), '{}') FROM (
        SELECT key AS k, sum(value::bigint) AS v FROM (
            SELECT * FROM jsonb_each_text(r.refusals) UNION ALL SELECT * FROM jsonb_each_text(%(refusals)s)) pairs
        GROUP BY key) summed)
    , possible_duplicates = r.possible_duplicates + %(doubles)s
WHERE r.id = %(run)s
RETURNING r.yield_asked_at IS NOT NULL AND r.lane <> 'scheduled' AS yields, r.cancel_asked_at IS NOT NULL AS cancelled,
    (SELECT s.state FROM syncs_sync s WHERE s.id = r.sync_id) AS sync_state,
    (SELECT s.published_id = r.version_id FROM syncs_sync s WHERE s.id = r.sync_id) AS published
"""


def _refuse_to_go_on(stand: Row) -> None:
    """A run that sends nothing must notice a cancel, a pause and a new publication too. Raises them."""
    if stand["cancelled"]:
        raise Cancelled(sending.CANCELLED)
    if not stand["published"]:
        raise Superseded(sending.SUPERSEDED)
    if stand["sync_state"] != "published":
        raise Paused(sending.STANDING)


async def _count(connection: Cursor, running: Running, tally: Tally) -> Row:
    """Counters move with the cursor, in its transaction: read = the sum of the states (PRODUCT 1.5)."""
    states = {state.value: number for state, number in tally.states.items()}
    values = {"states": Jsonb(states), "refusals": Jsonb(dict(tally.reasons)), "run": running.facts.run_id}
    await connection.execute(COUNT, {**values, "doubles": running.possible_duplicates})
    counted = await connection.fetchone()
    assert counted is not None  # noqa: S101 - the run is there as long as its lease
    running.possible_duplicates, running.yielding = 0, counted["yields"]
    await connection.execute("UPDATE syncs_attempt SET pages = pages + 1 WHERE id = %s", [running.facts.attempt_id])
    return counted


async def _find_changed_addresses(connection: Cursor, running: Running, tally: Tally) -> None:
    await findings.resolve_subjects(
        connection, sync_id=running.facts.sync_id, code="address_changed", subjects=tally.good_contacts
    )
    for record_id in tally.changed_addresses:
        await findings.open_finding(
            connection,
            workspace_id=running.facts.workspace_id,
            sync_id=running.facts.sync_id,
            code="address_changed",
            subject=record_id,
            sentence=f"Customer {record_id} has another address at the source than the contact at the destination. "
            "Nothing was sent to the new one; an old one that we had put on the list was taken off. "
            "Decide in the destination which contact is right.",
        )


async def _phase(running: Running, phase: Phase) -> None:
    await running.outside.database.rows(
        "UPDATE syncs_run SET phase = %s WHERE id = %s", [phase.value, running.facts.run_id]
    )


async def _yield(running: Running) -> Outcome:
    """End the slice. The run keeps its lease, and its next slice takes it over at once (PRODUCT 3.5); history that a
    scheduled run waits for gives it back and is parked until that one is through (PRODUCT 3.4)."""
    crash.here("between_slices")
    async with running.outside.database.transaction() as connection:
        await lease.prove(connection, running.lease)
        await connection.execute(
            "UPDATE syncs_run SET state = %s, due_after = vigil_now(), yield_asked_at = NULL"
            " WHERE id = %s AND state = 'running'",
            ["parked" if running.yielding else "waiting", running.facts.run_id],
        )
        if running.yielding:
            await lease.release(connection, running.lease)
    return Outcome.PARKED if running.yielding else Outcome.YIELDED


async def _finish(running: Running, read: Read) -> Outcome:
    """The read is exhausted: judge its evidence, and only a proven one moves the watermark (PRODUCT 1.5, 5.2)."""
    found = await evidence.prove_read(running, read)
    verdict = judging.verdict(found)
    sentence = judging.sentence(found, source=running.connected.source.kind.capitalize(), noun=running.stream.value)
    if verdict not in PROVEN:
        return await _close_unproven(running, read, found, verdict, sentence)
    crash.here("before_finish")
    async with running.outside.database.transaction() as connection:
        await _lock_sync(connection, running.facts.sync_id)
        await cursor.close_read(connection, running.lease, read, run_id=running.facts.run_id)
        await _note_version(connection, running, found)
        ended = Ended(Outcome.SUCCEEDED, "", "", verdict, {**found.document(), "sentence": sentence})
        await end_run(connection, running.facts.run_id, ended)
        await connection.execute(
            "UPDATE syncs_sync SET"
            " last_success_at = CASE WHEN %s THEN last_success_at ELSE vigil_now() END,"
            " fresh_as_of = CASE WHEN %s THEN greatest(fresh_as_of, %s) ELSE fresh_as_of END WHERE id = %s",
            [
                running.facts.lane is Lane.RECONCILE,
                running.facts.lane is Lane.SCHEDULED,
                read.window.until,
                running.facts.sync_id,
            ],
        )
        if running.facts.lane is Lane.SCHEDULED:
            await findings.resolve(connection, sync_id=running.facts.sync_id, codes=RECOVERED)
        await lease.release(connection, running.lease)
        crash.here("in_finish")
    return Outcome.SUCCEEDED


RECOVERED = ["run_failed", "paused"]


async def _note_version(connection: Cursor, running: Running, found: Evidence) -> None:
    if found.version_drifted:
        await findings.open_finding(
            connection,
            workspace_id=running.facts.workspace_id,
            sync_id=running.facts.sync_id,
            code="version_drift",
            sentence=f"The source was asked in version {found.version_asked} and answered in {found.version_served}. "
            "Every mapped field was there. Plan the move to the newer version.",
        )
    elif found.version_served is not None:
        await findings.resolve(connection, sync_id=running.facts.sync_id, codes=["version_drift"])


UNPROVEN_OUTCOMES = {
    Verdict.SHORT: Outcome.SHORT,
    Verdict.UNREADABLE: Outcome.UNREADABLE,
    Verdict.UNPROVEN: Outcome.UNPROVEN,
    Verdict.OPEN: Outcome.UNPROVEN,
}


async def _close_unproven(running: Running, read: Read, found: Evidence, verdict: Verdict, sentence: str) -> Outcome:
    """The window was read to its end and not believed: it is read again from its first page."""
    begun = replace(read, after=None, exhausted=False)
    counted = found.count_after or found.count_before
    if counted is not None:
        await cursor.bind(
            running.outside.database, running.lease, begun, query_digest=read.query_digest, counted=counted
        )
        await running.outside.database.rows(
            "UPDATE syncs_run SET states = '{}', refusals = '{}' WHERE id = %s", [running.facts.run_id]
        )
    ended = Ended(
        UNPROVEN_OUTCOMES[verdict],
        f"read_{verdict.value}",
        sentence,
        verdict,
        {**found.document(), "sentence": sentence},
    )
    return await _end_attempt(running.outside, running.lease, running.facts.run_id, ended, _again(verdict), None)


def _again(verdict: Verdict) -> retry.Ending:
    return retry.Ending(UNPROVEN_OUTCOMES[verdict], retried=True, counted=True)


class Ended:
    """How an attempt or a run ended, in one value."""

    __slots__ = ("code", "evidence", "outcome", "sentence", "verdict")

    def __init__(
        self, outcome: Outcome, code: str, sentence: str, verdict: Verdict | None = None, evidence: Any = None
    ) -> None:
        self.outcome = outcome
        self.code = code
        self.sentence = sentence
        self.verdict = verdict
        self.evidence = evidence


END_RUN = """
UPDATE syncs_run SET state = 'finished', finished_at = vigil_now(), outcome = %(outcome)s,
    verdict = coalesce(%(verdict)s, verdict), evidence = coalesce(%(evidence)s, evidence),
    error_code = %(code)s, error_sentence = %(sentence)s
WHERE id = %(run)s AND state <> 'finished'
RETURNING id
"""
END_ATTEMPT = """
UPDATE syncs_attempt SET ended_at = vigil_now(), outcome = %(outcome)s, error_code = %(code)s,
    error_sentence = %(sentence)s
WHERE run_id = %(run)s AND ended_at IS NULL
"""
END_OCCURRENCE = """
UPDATE syncs_occurrence SET state = 'executed', decided_at = vigil_now() WHERE run_id = %(run)s AND state = 'due'
"""


def _values(run_id: int, ended: Ended) -> dict[str, Any]:
    return {
        "run": run_id,
        "outcome": ended.outcome.value,
        "code": ended.code[:60],
        "sentence": ended.sentence[:500],
        "verdict": ended.verdict.value if ended.verdict else None,
        "evidence": None if ended.evidence is None else Jsonb(ended.evidence),
    }


async def end_attempt(connection: Cursor, run_id: int, ended: Ended) -> None:
    """Write the end of the run's open attempt, in the caller's transaction."""
    await connection.execute(END_ATTEMPT, _values(run_id, ended))


async def end_run(connection: Cursor, run_id: int, ended: Ended) -> None:
    """Write the end of a run, of its open attempt and of its occurrence, in the caller's transaction."""
    values = _values(run_id, ended)
    await connection.execute(END_ATTEMPT, values)
    await connection.execute(END_RUN, values)
    await connection.execute(END_OCCURRENCE, values)


async def close(outside: Outside, held: Lease, run_id: int, error: ConnectorError | VigilError) -> Outcome:
    """End the attempt for ``error``, by the table; the run with it, or its next attempt becomes a row."""
    ending = retry.counted(error)
    verdict = Verdict.UNREADABLE if isinstance(error, Unreadable) else None
    ended = Ended(ending.outcome, error.code, error.sentence, verdict)
    wait = retry.park(error.wait) if isinstance(error, Throttled) else None
    return await _end_attempt(outside, held, run_id, ended, ending, wait)


async def _end_attempt(
    outside: Outside, held: Lease, run_id: int, ended: Ended, ending: retry.Ending, parked: timedelta | None
) -> Outcome:
    async with outside.database.transaction() as connection:
        await _lock_sync(connection, held.sync_id)
        run = await _locked(connection, run_id)
        if run is None or run["state"] != "running":
            return ended.outcome
        if not await _is_ours(connection, held) and ending.outcome is not Outcome.LOST_LEASE:
            # Another owner has taken the run over meanwhile; how it ends is that owner's to say.
            return Outcome.LOST_LEASE
        if ending.outcome is Outcome.LOST_LEASE:
            return await _lose(connection, held, run, ended)
        failures = run["failures"] + (1 if ending.counted else 0)
        await connection.execute("UPDATE syncs_run SET failures = %s WHERE id = %s", [failures, run_id])
        again = ending.retried and (not ending.counted or retry.after_failure(failures) is retry.Next.AGAIN)
        if again:
            await _wait(connection, outside, run_id, ended, failures, parked)
        else:
            await fail(connection, run, ended)
        await lease.release(connection, held)
    return ended.outcome


async def _lock_sync(connection: Cursor, sync_id: int) -> None:
    """The sync before its run, as the services do: two orders of locking would deadlock with a person's click."""
    await connection.execute("SELECT 1 FROM syncs_sync WHERE id = %s FOR NO KEY UPDATE", [sync_id])


async def _locked(connection: Cursor, run_id: int) -> Row | None:
    await connection.execute(
        "SELECT r.*, s.workspace_id, s.changed_at FROM syncs_run r JOIN syncs_sync s ON s.id = r.sync_id"
        " WHERE r.id = %s FOR UPDATE OF r",
        [run_id],
    )
    return await connection.fetchone()


async def _is_ours(connection: Cursor, held: Lease) -> bool:
    await connection.execute(
        "SELECT 1 FROM syncs_lease WHERE sync_id = %s AND token = %s AND fence = %s",
        [held.sync_id, held.token, held.fence],
    )
    return await connection.fetchone() is not None


async def _lose(connection: Cursor, held: Lease, run: Row, ended: Ended) -> Outcome:
    """The attempt lost its slot. If nobody has taken the run since, it is due again; else its new owner goes on."""
    if await _is_ours(connection, held):
        await lease.release(connection, held)
        await go_on(connection, run, ended)
    return Outcome.LOST_LEASE


DEATHS = 5
"""Starts without progress or end that fail a run (PRODUCT 3.5)."""
WORKER_DIED = (
    f"This run was started {DEATHS} times in a row, and each time its worker or its slot was lost before the cursor "
    "moved. Look at the worker's log, then run it again."
)


async def go_on(connection: Cursor, run: Row, ended: Ended) -> bool:
    """The run's owner is gone, for ``ended``: the run is due again at once, or failed at the fifth start that brought
    nothing. Whether it goes on. The sync and the run are locked by the caller."""
    if run["deaths"] >= DEATHS:
        await fail(connection, run, Ended(Outcome.INTERRUPTED, "worker_died", WORKER_DIED))
        return False
    await end_attempt(connection, run["id"], ended)
    await connection.execute(
        "UPDATE syncs_run SET state = 'waiting', due_after = vigil_now() WHERE id = %s", [run["id"]]
    )
    return True


async def _wait(
    connection: Cursor, outside: Outside, run_id: int, ended: Ended, failures: int, parked: timedelta | None
) -> None:
    """The next attempt is a row with a due time, not a sleeping worker (PRODUCT 4.1)."""
    pause = parked if parked is not None else retry.wait(max(failures, 1), outside.jitter())
    await end_attempt(connection, run_id, ended)
    await connection.execute(
        "UPDATE syncs_run SET state = 'waiting', due_after = vigil_now() + %s, deaths = 0,"
        " error_code = %s, error_sentence = %s WHERE id = %s",
        [pause * outside.terms.retry_scale, ended.code[:60], ended.sentence[:500], run_id],
    )


RUN_FAILED = frozenset({Outcome.FAILED, Outcome.UNREADABLE, Outcome.SHORT, Outcome.UNPROVEN, Outcome.INTERRUPTED})


async def fail(connection: Cursor, run: Row, ended: Ended) -> None:
    """The run is over. A failure is a finding; the fifth in a row pauses the sync, both in this transaction."""
    await end_run(connection, run["id"], ended)
    if ended.outcome not in RUN_FAILED:
        return
    crash.here("between_state_and_finding")
    await findings.open_finding(
        connection,
        workspace_id=run["workspace_id"],
        sync_id=run["sync_id"],
        code="run_failed",
        sentence=ended.sentence or "The last run failed.",
    )
    await connection.execute(
        "SELECT outcome FROM syncs_run WHERE sync_id = %s AND state = 'finished'"
        " AND lane <> 'reconcile' AND created_at >= coalesce(%s, '-infinity'::timestamptz)"
        " ORDER BY finished_at DESC, id DESC LIMIT 50",
        [run["sync_id"], run["changed_at"]],
    )
    outcomes = [Outcome(row["outcome"]) for row in await connection.fetchall()]
    if retry.should_pause(outcomes):
        await pause(connection, run, ended)


async def pause(connection: Cursor, run: Row, ended: Ended) -> None:
    """Pause the sync and show its last error. Nothing restarts it by itself (PRODUCT 4.3)."""
    await connection.execute(
        "UPDATE syncs_sync SET state = 'paused', paused_at = vigil_now(), pause_code = %s, pause_sentence = %s"
        " WHERE id = %s AND state = 'published' RETURNING id",
        [ended.code[:60], ended.sentence[:500], run["sync_id"]],
    )
    if await connection.fetchone() is None:
        return
    await findings.open_finding(
        connection,
        workspace_id=run["workspace_id"],
        sync_id=run["sync_id"],
        code="paused",
        sentence=f"Paused after {retry.PAUSE_AFTER} failed runs in a row. Nothing is lost: the cursor stands. "
        f"Last error: {ended.sentence}",
    )
