"""Workers that meet: one asleep past its lease, two poked at once, a read that shifted under a crash."""

import signal
import time
from pathlib import Path

import pytest

from connectors import memory
from connectors.memory import Fault
from syncs import queries, services
from syncs.domain.lifecycle import Lane
from syncs.models import Attempt, Delivery, Lease
from tests.children import a_shop, child, finish
from tests.house import ORDERS, House, order

pytestmark = pytest.mark.django_db(transaction=True)

SHORT_LEASE = {"VIGIL_LEASE_SECONDS": "5", "VIGIL_LEASE_RENEW_SECONDS": "1", "VIGIL_CALL_SECONDS": "2"}


def wait_for(condition: object, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)


def test_a_worker_asleep_past_its_lease_writes_nothing_when_it_wakes_case_lease_01(tmp_path: Path) -> None:
    with a_shop(tmp_path) as shop:
        finish(shop.start(shop.contacts, Lane.SCHEDULED))
        run = shop.start(shop.orders, Lane.MANUAL)
        asleep = child(run, SHORT_LEASE)
        wait_for(lambda: Delivery.objects.filter(run=run, state="written").count() > 20)
        asleep.send_signal(signal.SIGSTOP)
        fence = Lease.objects.get(sync=shop.orders).fence
        awake = child(run, SHORT_LEASE)
        wait_for(lambda: Lease.objects.get(sync=shop.orders).fence > fence)
        asleep.send_signal(signal.SIGCONT)
        for worker in (awake, asleep):
            worker.communicate(timeout=60)
        run.refresh_from_db()
        assert (run.outcome, run.verdict) == ("succeeded", "proven")
        assert shop.state() == {"contacts": 213, "orders": 395, "events": 395, "duplicate_events": 0, "violations": 0}
        assert sum(run.states.values()) == 1000
        assert {attempt.outcome for attempt in Attempt.objects.filter(run=run)} <= {"interrupted", "succeeded"}


def test_a_worker_asleep_past_its_lease_goes_on_when_nobody_took_the_run(tmp_path: Path) -> None:
    """A person's run whose machine slept is nobody else's to start: it goes on under a new lease by itself."""
    with a_shop(tmp_path) as shop:
        finish(shop.start(shop.contacts, Lane.SCHEDULED))
        run = shop.start(shop.orders, Lane.MANUAL)
        asleep = child(run, SHORT_LEASE)
        wait_for(lambda: Delivery.objects.filter(run=run, state="written").count() > 20)
        asleep.send_signal(signal.SIGSTOP)
        wait_for(lambda: not Lease.objects.filter(sync=shop.orders, expires_at__gt=queries.now()).exists())
        asleep.send_signal(signal.SIGCONT)
        asleep.communicate(timeout=60)
        run.refresh_from_db()
        assert (run.outcome, run.verdict) == ("succeeded", "proven")
        outcomes = list(Attempt.objects.filter(run=run).order_by("number").values_list("outcome", flat=True))
        # Asleep inside a call, it first hears that the call has failed; the lease is over either way.
        assert outcomes in (["lost_lease", "succeeded"], ["failed", "succeeded"])
        assert shop.state() == {"contacts": 213, "orders": 395, "events": 395, "duplicate_events": 0, "violations": 0}


def test_two_workers_poked_for_one_run_write_it_once_case_queue_01(tmp_path: Path) -> None:
    with a_shop(tmp_path) as shop:
        run = shop.start(shop.contacts, Lane.SCHEDULED)
        workers = [child(run) for _ in range(2)]
        for worker in workers:
            worker.communicate(timeout=60)
        run.refresh_from_db()
        assert (run.outcome, run.attempts.count()) == ("succeeded", 1)
        assert shop.state()["contacts"] == run.states["written"] == 213
        assert shop.brevo.control("summary")["violations"] == 0


def test_a_poke_that_was_lost_is_made_again_by_the_next_tick(tmp_path: Path) -> None:
    house = House.build()
    run = house.start()
    assert run.pk in services.tick()


def test_a_page_that_shifted_between_two_reads_sends_no_event_twice_case_deliv_08() -> None:
    house = House.build(ORDERS, name="Orders", page_size=10)
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.destination.traits = memory.some_traits(concurrency=1)
    for number in (200, 300):
        house.source.put(order(number))
    house.source.fail("count", Fault(), Fault(error=memory.errors.Passing("Gone for a moment.")))
    house.destination.fail("write", Fault(), Fault(), Fault(error=memory.errors.Passing("Gone for a moment.")))
    run = house.start(Lane.MANUAL)
    house.work()
    house.source.put(order(100))
    for _ in range(6):
        house.work()
    run.refresh_from_db()
    assert run.outcome == "succeeded"
    again = house.run(Lane.MANUAL)
    assert again.outcome == "succeeded"
    sent = [event.properties["order_id"] for event in house.destination.events]
    assert sorted(sent) == sorted(set(sent))
    assert {"200", "300"} <= set(sent)
