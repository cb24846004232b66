"""Due starts become rows, once; what nobody may run is decided at once (PRODUCT 8.3)."""

import asyncio
from datetime import timedelta

import pytest
from django.conf import settings

from syncs.engine import planner
from syncs.engine.database import Database, parameters
from syncs.models import Occurrence, Run, Schedule
from syncs.services import schedule_set, sync_pause, vigil
from syncs.services.actors import database_now
from tests.house import House, customer

pytestmark = pytest.mark.django_db(transaction=True)


def plan() -> list[int]:
    async def walk() -> list[int]:
        given = Database(parameters(settings.DATABASES["default"]))
        try:
            return await planner.plan_due(given)
        finally:
            await given.close()

    return asyncio.run(walk())


def due(house: House, minutes: int = 1) -> Schedule:
    schedule = schedule_set(vigil(), house.sync, every_minutes=15)
    schedule.next_for = database_now() - timedelta(minutes=minutes)
    schedule.save()
    return schedule


def test_a_due_start_becomes_one_occurrence_and_one_run() -> None:
    house = House.build()
    schedule = due(house)
    planned_for = schedule.next_for
    (run_id,) = plan()
    assert plan() == []
    occurrence = Occurrence.objects.get()
    assert (occurrence.planned_for, occurrence.state, occurrence.run_id) == (planned_for, "due", run_id)
    schedule.refresh_from_db()
    assert schedule.next_for is not None and schedule.next_for > database_now()
    assert schedule.next_for - database_now() <= timedelta(minutes=15)


def test_an_executed_occurrence_says_so() -> None:
    house = House.build()
    house.source.put(customer(1))
    due(house)
    plan()
    house.work()
    assert Occurrence.objects.get().state == "executed"
    assert Run.objects.get().outcome == "succeeded"


def test_a_start_that_meets_an_open_run_collides_and_is_not_queued() -> None:
    house = House.build()
    house.start()
    due(house)
    assert plan() == []
    assert Occurrence.objects.get().state == "collided"
    assert Run.objects.count() == 1


def test_a_start_of_a_paused_sync_is_discarded() -> None:
    house = House.build()
    due(house)
    sync_pause(vigil(), house.sync, reason="a test")
    assert plan() == []
    assert Occurrence.objects.get().state == "discarded"


def test_the_same_instant_is_planned_once_even_when_asked_twice() -> None:
    house = House.build()
    schedule = due(house)
    at = schedule.next_for
    plan()
    Schedule.objects.update(next_for=at)
    assert plan() == []
    assert Occurrence.objects.count() == 1


def test_a_late_start_shifts_nothing_that_follows() -> None:
    house = House.build()
    schedule = due(house, minutes=65)
    plan()
    schedule.refresh_from_db()
    offset = timedelta(seconds=schedule.offset_seconds)
    assert schedule.next_for is not None
    assert (schedule.next_for - offset).minute % 15 == 0 and (schedule.next_for - offset).second == 0
