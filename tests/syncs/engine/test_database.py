"""The database goes away and comes back: a run recovers within its attempts, nothing is lost or doubled."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from django.conf import settings

from connectors.memory import Fault
from syncs.engine.database import Database, parameters
from tests.house import House, customer

pytestmark = pytest.mark.django_db(transaction=True)

CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'vigil-engine' AND pid <> pg_backend_pid()"
)


def cut() -> None:
    """End every other connection to this database, as a restart does."""
    with psycopg.connect(**parameters(settings.DATABASES["default"]), autocommit=True) as elsewhere:
        elsewhere.execute(CUT)


def test_idle_connections_that_broke_with_one_are_opened_anew() -> None:
    async def walk() -> list[int]:
        given = Database(parameters(settings.DATABASES["default"]), size=3)
        try:
            await asyncio.gather(*[given.rows("SELECT pg_sleep(0.05)") for _ in range(3)])
            await asyncio.to_thread(cut)
            with pytest.raises(psycopg.OperationalError):
                await given.rows("SELECT 1")
            found = await asyncio.gather(*[given.row("SELECT 1 AS one") for _ in range(3)])
            return [row["one"] for row in found if row]
        finally:
            await given.close()

    assert asyncio.run(walk()) == [1, 1, 1]


@pytest.mark.parametrize("method", ["write", "read_page", "count"])
def test_a_run_survives_a_restart_of_the_database_at_any_call_case_ops_01(method: str) -> None:
    house = House.build(page_size=2)
    for number in range(1, 8):
        house.source.put(customer(number))

    async def restart(answer: object) -> object:
        await asyncio.to_thread(cut)
        return answer

    end = house.destination if method == "write" else house.source
    end.fail(method, *([Fault()] * 2 if method == "write" else []), Fault(change=restart))
    run = house.start()
    for _ in range(6):
        house.work()
    run.refresh_from_db()
    assert run.outcome == "succeeded" and run.attempts.count() <= 3
    assert len(house.destination.people) == 7
    assert house.states() == {"written": 7}


def test_a_worker_stays_with_its_slices_while_the_database_is_away() -> None:
    house = House.build(page_size=2)
    for number in range(1, 8):
        house.source.put(customer(number))
    house.terms = replace(house.terms, look=timedelta(seconds=1))

    async def away(answer: object) -> object:
        """Nobody may connect for a while: what a server that starts again looks like."""
        await asyncio.to_thread(shut, True)
        opening.start()
        return answer

    # A thread of its own, and in the end by hand: the database never stays shut behind this test.
    opening = threading.Timer(1.2, shut, [False])
    house.source.fail("read_page", Fault(), Fault(change=away))
    run = house.start()
    try:
        for _ in range(8):
            house.work()
    finally:
        opening.cancel()
        shut(False)
    run.refresh_from_db()
    assert run.outcome == "succeeded", "and not left running under a lease that still stands"
    assert len(house.destination.people) == 7


def shut(closed: bool) -> None:
    name = settings.DATABASES["default"]["NAME"]
    keywords = {**parameters(settings.DATABASES["default"]), "dbname": "postgres"}
    with psycopg.connect(**keywords, autocommit=True) as elsewhere:
        elsewhere.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {not closed}'.encode())
    if closed:
        with psycopg.connect(**keywords, autocommit=True) as elsewhere:
            elsewhere.execute(CUT.replace("current_database()", f"'{name}'").encode())
