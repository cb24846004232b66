"""One run owns the sync; whoever lost it starts no further call and moves nothing (PRODUCT 3.1 to 3.3)."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from connectors.memory import Fault
from connectors.protocol import Count, Window
from syncs.domain.clock import SystemClock
from syncs.domain.lifecycle import Lane
from syncs.engine import cursor, lease, planner, starting
from syncs.engine.database import Database, parameters
from syncs.errors import LeaseLost
from syncs.models import Lease, Run
from syncs.services import leases_free_dead, outside, runs, vigil
from tests.house import House, customer

pytestmark = pytest.mark.django_db(transaction=True)

TERM = timedelta(seconds=60)


def database() -> Database:
    return Database(parameters(settings.DATABASES["default"]))


async def acquire(given: Database, house: House, run: Run, *, term: timedelta = TERM) -> lease.Lease | None:
    async with given.transaction() as at:
        return await lease.acquire(
            at, SystemClock(), sync_id=house.sync.pk, run_id=run.pk, holder="a", term=term, continues=False
        )


def test_of_two_that_start_together_exactly_one_proceeds_case_lease_05() -> None:
    house = House.build()
    run = house.start()

    async def race() -> list[lease.Lease | None]:
        given = database()
        try:
            return list(await asyncio.gather(*[acquire(given, house, run) for _ in range(4)]))
        finally:
            await given.close()

    won = [one for one in asyncio.run(race()) if one is not None]
    assert len(won) == 1 and won[0].fence == 1


def test_the_fencing_number_only_grows() -> None:
    house = House.build()
    run = house.start()

    async def three_times() -> list[int]:
        given, fences = database(), []
        try:
            for _ in range(3):
                held = await acquire(given, house, run)
                assert held is not None
                fences.append(held.fence)
                async with given.transaction() as at:
                    await lease.release(at, held)
        finally:
            await given.close()
        return fences

    assert asyncio.run(three_times()) == [1, 2, 3]


def test_expiry_is_the_databases_clock_not_the_hosts_case_lease_03() -> None:
    house = House.build()
    run = house.start()

    async def walk() -> tuple[Any, Any]:
        given = database()
        try:
            await acquire(given, house, run)
            early = await acquire(given, house, run)
            await given.rows("UPDATE vigil_clock SET shift = interval '61 seconds'")
            late = await acquire(given, house, run)
        finally:
            await given.rows("UPDATE vigil_clock SET shift = interval '0'")
            await given.close()
        return early, late

    early, late = asyncio.run(walk())
    assert early is None
    assert late is not None and late.fence == 2


def test_a_stale_owner_moves_no_cursor_and_proves_nothing_case_lease_02() -> None:
    house = House.build()
    run = house.start()

    async def walk() -> list[str]:
        given, refused = database(), []
        try:
            first = await acquire(given, house, run, term=timedelta(seconds=0))
            second = await acquire(given, house, run)
            assert first is not None and second is not None
            until = house.at
            for held in (first, second):
                try:
                    read = await cursor.open_read(
                        given, held, Lane.SCHEDULED, until=until, start=None, overlap=timedelta(0)
                    )
                    read = await cursor.bind(given, held, read, query_digest="d", counted=Count(1, True))
                    async with given.transaction() as at:
                        await lease.prove(at, held)
                        await cursor.move(at, held, read, cursor.follow(read, "k1", 1))
                    refused.append("moved")
                except LeaseLost:
                    refused.append("refused")
            async with given.transaction() as at:
                await lease.release(at, first)
            still = await given.row("SELECT fence, expires_at > vigil_now() AS held FROM syncs_lease")
            assert still is not None and still["fence"] == 2 and still["held"]
        finally:
            await given.close()
        return refused

    assert asyncio.run(walk()) == ["refused", "moved"]


def test_a_deadline_lies_before_the_rows_own_expiry() -> None:
    house = House.build()
    run = house.start()

    async def walk() -> tuple[lease.Lease | None, float]:
        given = database()
        try:
            held = await acquire(given, house, run)
            row = await given.row("SELECT extract(epoch FROM expires_at - vigil_now())::float AS left FROM syncs_lease")
        finally:
            await given.close()
        assert row is not None
        return held, row["left"]

    held, left = asyncio.run(walk())
    assert held is not None
    assert held.deadline - time.monotonic() < left
    assert held.covers(SystemClock(), 50) and not held.covers(SystemClock(), 59)


def test_a_busy_loop_does_not_starve_the_renewal() -> None:
    house = House.build()
    run = house.start()
    keywords = parameters(settings.DATABASES["default"])
    renewer = lease.Renewer(keywords, SystemClock(), timedelta(seconds=0.1))
    renewer.start()

    async def walk() -> lease.Lease:
        given = database()
        held = await acquire(given, house, run, term=timedelta(seconds=2))
        assert held is not None
        renewer.watch(held)
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            pass
        await given.close()
        return held

    held = asyncio.run(walk())
    renewer.end()
    assert held.renewals >= 3 and not held.lost


def test_a_renewal_that_finds_its_row_gone_marks_the_lease_lost() -> None:
    house = House.build()
    run = house.start()
    renewer = lease.Renewer(parameters(settings.DATABASES["default"]), SystemClock(), timedelta(seconds=0.05))
    renewer.start()

    async def walk() -> lease.Lease:
        given = database()
        held = await acquire(given, house, run)
        assert held is not None
        await given.rows("UPDATE syncs_lease SET fence = fence + 1")
        renewer.watch(held)
        for _ in range(100):
            if held.lost:
                break
            await asyncio.sleep(0.02)
        await given.close()
        return held

    held = asyncio.run(walk())
    renewer.end()
    assert held.lost


def test_a_run_that_loses_its_lease_stops_and_its_claims_go_to_the_next_owner_case_lease_01() -> None:
    house = House.build(page_size=4)
    for number in range(1, 9):
        house.source.put(customer(number))
    house.destination.traits = {
        kind: replace(traits, concurrency=1) for kind, traits in house.destination.traits.items()
    }

    async def take_over(answer: object) -> object:
        """Somebody else takes the sync while this call is out: its answer still counts."""
        keywords = parameters(settings.DATABASES["default"])
        with psycopg.connect(**keywords, autocommit=True) as elsewhere:
            elsewhere.execute("UPDATE syncs_lease SET fence = fence + 1, token = gen_random_uuid()")
        await asyncio.sleep(2 * house.terms.look.total_seconds())
        return answer

    house.terms = replace(house.terms, look=timedelta(seconds=0.05))

    house.destination.fail("write", Fault(), Fault(change=take_over))
    run = house.start()
    house.work()
    run.refresh_from_db()
    assert run.state == "running", "how it ends is the new owner's to say"
    assert len(house.destination.people) == 2, "the call on the wire landed; no further one started"
    assert sorted(house.states().items()) == [("claimed", 2), ("written", 2)]

    Lease.objects.update(holder="x", run=None)
    with connection.cursor() as at:
        at.execute("UPDATE syncs_lease SET expires_at = vigil_now()")
    assert recover() == [run.pk]
    house.work()
    run.refresh_from_db()
    assert (run.outcome, run.failures) == ("succeeded", 0)
    assert len(house.destination.people) == 8
    assert len(house.destination.called("write")) == 8


def recover() -> list[int]:
    """What the planner does each minute about runs that nobody owns."""

    async def walk() -> list[int]:
        given = database()
        try:
            return await planner.recover(given)
        finally:
            await given.close()

    return asyncio.run(walk())


def test_a_worker_that_died_before_any_renewal_is_followed_case_lease_04() -> None:
    house = House.build()
    house.source.put(customer(1))
    run = house.start()

    async def die() -> None:
        given = house.outside()
        assert await starting.start(given, run.pk) is not None
        await given.database.close()

    asyncio.run(die())
    assert recover() == [], "its lease still stands"
    with connection.cursor() as at:
        at.execute("UPDATE syncs_lease SET expires_at = vigil_now()")
    assert recover() == [run.pk]
    house.work()
    run.refresh_from_db()
    assert run.outcome == "succeeded"
    assert [attempt.outcome for attempt in run.attempts.order_by("number")] == ["interrupted", "succeeded"]


def test_five_deaths_without_progress_fail_the_run_case_queue_02() -> None:
    house = House.build()
    run = house.start()

    async def die() -> None:
        given = house.outside()
        assert await starting.start(given, run.pk) is not None
        await given.database.rows("UPDATE syncs_lease SET expires_at = vigil_now()")
        await given.database.close()

    for _ in range(5):
        asyncio.run(die())
        recover()
    run.refresh_from_db()
    assert (run.outcome, run.error_code, run.attempts.count()) == ("interrupted", "worker_died", 5)


def test_a_due_run_that_meets_a_standing_lease_is_put_off_to_its_end_case_queue_02() -> None:
    house = House.build()
    run = house.start()
    other = Run.objects.get(pk=run.pk)

    async def walk() -> None:
        given = database()
        await given.rows(
            "INSERT INTO syncs_lease (sync_id, token, fence, holder, acquired_at, renewed_at, expires_at)"
            " VALUES (%s, gen_random_uuid(), 4, 'b', vigil_now(), vigil_now(), vigil_now() + interval '9 minutes')",
            [house.sync.pk],
        )
        await given.close()

    asyncio.run(walk())
    house.work()
    other.refresh_from_db()
    assert other.state == "waiting" and other.due_after == Lease.objects.get().expires_at


def test_a_dead_process_of_this_host_is_proven_dead_and_another_hosts_is_not() -> None:
    alive = outside.holder()
    house, pid, started = alive.rsplit(":", 2)
    assert not outside.is_proven_dead(alive)
    assert outside.is_proven_dead(f"{house}:{pid}:{int(started) + 1}"), "the pid was given to another process"
    assert not outside.is_proven_dead(f"elsewhere/1/2:{pid}:1")
    assert not outside.is_proven_dead("test:1:1")


def test_what_a_dead_process_held_is_freed_at_once() -> None:
    house = House.build()
    house.source.put(customer(1))
    run = house.start()
    name, pid, started = outside.holder().rsplit(":", 2)
    house.holder = f"{name}:{pid}:{int(started) + 1}"

    async def die() -> None:
        given = house.outside()
        assert await starting.start(given, run.pk) is not None
        await given.database.close()

    asyncio.run(die())
    assert leases_free_dead() == [run.pk]
    house.work()
    run.refresh_from_db()
    assert run.outcome == "succeeded"


def test_run_now_while_a_run_is_going_on_is_a_collision_case_lease_06() -> None:
    house = House.build()
    first = house.start()
    Run.objects.filter(pk=first.pk).update(state="running")
    second = house.start()
    assert (second.state, second.outcome) == ("finished", "collided")
    twice = runs.run_start(vigil(), house.sync, seen=first.pk)
    assert twice.pk == second.pk, "a double click on one page is one run"
    Run.objects.filter(pk=first.pk).update(state="waiting")
    assert house.start().pk == first.pk, "a run that waits is pulled forward"
    assert Run.objects.count() == 2


def test_a_window_is_kept_until_it_is_exhausted() -> None:
    house = House.build()
    run = house.start()

    async def walk() -> tuple[Window, Window]:
        given = database()
        try:
            held = await acquire(given, house, run)
            assert held is not None
            windows = []
            for minutes in (0, 30):
                read = await cursor.open_read(
                    given,
                    held,
                    Lane.SCHEDULED,
                    until=house.at + timedelta(minutes=minutes),
                    start=None,
                    overlap=timedelta(0),
                )
                windows.append(read.window)
            return windows[0], windows[1]
        finally:
            await given.close()

    first, second = asyncio.run(walk())
    assert first == second
