"""The command that runs the queue's workers: the one row of its timetable is healed at every start."""

from datetime import timedelta

import pytest
from django.utils import timezone
from django_q.models import Schedule

from syncs import tasks
from syncs.management.commands import vigil_worker

pytestmark = pytest.mark.django_db


def rows() -> list[tuple[object, ...]]:
    return list(Schedule.objects.values_list("name", "func", "schedule_type", "minutes", "repeats", "cluster"))


ONE = [("tick each minute", "syncs.tasks.tick", Schedule.MINUTES, 1, -1, None)]


def test_the_tick_names_a_task_that_is_there() -> None:
    assert f"{tasks.tick.__module__}.{tasks.tick.__name__}" == vigil_worker.TICK


def test_every_start_leaves_exactly_one_tick() -> None:
    vigil_worker.ensure_tick()
    vigil_worker.ensure_tick()
    assert rows() == ONE


def test_a_bad_row_and_its_doubles_are_healed() -> None:
    later = timezone.now() + timedelta(days=900)
    for minutes in (None, 7):
        Schedule.objects.create(
            func=vigil_worker.TICK,
            schedule_type=Schedule.HOURLY,
            minutes=minutes,
            repeats=0,
            kwargs="(",
            next_run=later,
        )
    vigil_worker.ensure_tick()
    assert rows() == ONE
    healed = Schedule.objects.get()
    assert (healed.kwargs, healed.next_run <= timezone.now()) == (None, True)


def test_rows_of_others_stay() -> None:
    Schedule.objects.create(func="somebody.elses", schedule_type=Schedule.ONCE)
    vigil_worker.ensure_tick()
    assert Schedule.objects.count() == 2
