"""What keeps the queue honest: lost pokes are sent again, a cluster that hangs is noticed, a busy one is left alone."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone
from django_q.models import OrmQ

from local import stage
from local.stage import Care
from syncs import services
from syncs.domain.lifecycle import RunState
from syncs.models import Lease
from syncs.services import outside
from tests import factories

pytestmark = pytest.mark.django_db

LONG = 1000.0
NOW = timezone.now


def ago(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often runs were poked for again; the planner itself stays out."""
    made: list[str] = []
    monkeypatch.setattr(services, "tick", lambda: made.append("tick"))
    return made


def task(waits: float | None = None, fetched: float = 0) -> None:
    """A task of the queue: one that nobody has fetched for ``waits`` seconds, else one fetched so long ago."""
    lock = NOW() - ago(waits) if waits is not None else NOW() + ago(settings.Q_CLUSTER["retry"] - fetched)
    OrmQ.objects.create(key=settings.Q_CLUSTER["name"], payload="", lock=lock)


def running(renewed: float) -> None:
    """A run at work whose lease was renewed so many seconds ago."""
    factories.open_run(factories.published(), RunState.RUNNING, created=NOW() - ago(renewed))


def due(seconds: float) -> None:
    factories.open_run(factories.published(), due_after=NOW() - ago(seconds))


# --- Whose lease it is ------------------------------------------------------------------------------------------------
def test_a_lease_of_a_worker_of_this_machine_is_ours_and_one_of_another_is_not() -> None:
    here, elsewhere = (factories.open_run(factories.published(), RunState.RUNNING, created=NOW()) for _ in range(2))
    Lease.objects.filter(run=here).update(holder=outside.holder_of(1))
    found = [stage.held(run) for run in (here, elsewhere)]
    assert [held and held.ours for held in found] == [True, False]
    assert [held and held.until for held in found] == [run.sync.lease.expires_at for run in (here, elsewhere)]


def test_a_lease_that_ran_out_holds_nothing_and_a_run_that_only_waits_has_none() -> None:
    over = factories.open_run(factories.published(), RunState.RUNNING, created=NOW() - ago(1000))
    waiting = factories.open_run(factories.published())
    factories.lease(waiting, renewed=NOW())
    assert [stage.held(over), stage.held(waiting)] == [None, None]


# --- The queue --------------------------------------------------------------------------------------------------------
def test_a_quiet_queue_is_left_alone(ticks: list[str]) -> None:
    assert (Care().look(LONG), ticks) == (False, [])


def test_a_run_that_nobody_takes_is_poked_for_again_but_not_each_second(ticks: list[str]) -> None:
    due(seconds=5)
    care = Care()
    assert [care.look(LONG), care.look(LONG), ticks] == [False, False, ["tick"]]


def test_what_waits_in_the_queue_needs_no_second_poke(ticks: list[str]) -> None:
    due(seconds=5)
    task(waits=1)
    assert (Care().look(LONG), ticks) == (False, [])


def test_a_run_that_is_due_later_is_nobodys_matter(ticks: list[str]) -> None:
    due(seconds=-60)
    assert (Care().look(LONG), ticks) == (False, [])


@pytest.mark.parametrize(("age", "hangs"), [(20.0, True), (10.0, False)])
def test_due_runs_and_no_taker_are_a_cluster_that_hangs_once_it_had_time_to_come_up(
    ticks: list[str], age: float, hangs: bool
) -> None:
    due(seconds=20)
    assert Care().look(age) is hangs


def test_tasks_that_nobody_fetches_are_a_cluster_that_hangs(ticks: list[str]) -> None:
    task(waits=20)
    assert Care().look(LONG) is True


def test_tasks_wait_while_the_workers_drive_runs(ticks: list[str]) -> None:
    task(waits=20)
    running(renewed=1)
    assert Care().look(LONG) is False


def test_tasks_that_are_never_reported_done_are_a_monitor_that_hangs(ticks: list[str]) -> None:
    for _ in range(stage.UNACKNOWLEDGED):
        task(fetched=200)
    assert (Care().look(LONG), Care().look(150.0)) == (True, False)


def test_a_lease_that_is_not_renewed_in_time_is_a_worker_that_hangs(ticks: list[str]) -> None:
    running(renewed=settings.VIGIL_LEASE_RENEW_SECONDS + stage.LATE_SECONDS + 1)
    assert Care().look(LONG) is True
