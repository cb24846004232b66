"""Sequences that a single step does not show: each once went wrong on paper or on the real database."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, connections

from connectors import errors, memory
from connectors.memory import Fault
from connectors.protocol import Receipt, Subject
from syncs.domain.lifecycle import Lane
from syncs.engine import batch, planner
from syncs.errors import PublicationInvalid
from syncs.models import Cursor, Delivery, Finding, Lease, Run
from syncs.services import cursor_reset, deliveries_retry, run_cancel, run_start, schedule_set, vigil
from syncs.services.actors import database_now
from tests.house import CONTACTS, ORDERS, House, consent, customer, order
from tests.syncs.engine.test_lanes import beside, planned, rejecting

pytestmark = pytest.mark.django_db(transaction=True)

UNSUBSCRIBED = consent("UNSUBSCRIBED")


def lists(house: House, number: int = 1) -> set[int]:
    person = house.destination.person(f"c{number}@shop.example")
    assert person is not None
    return person.lists


def in_doubt_create(house: House) -> None:
    """A contact was created, and the answer is lost: the run stands before its second attempt."""
    house.terms = replace(house.terms, retry_scale=1.0)
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    house.source.put(customer(1))
    house.destination.fail("write", Fault(error=memory.lost(), after=True))
    house.start()
    house.work()
    assert lists(house) == {7} and house.states() == {"in_doubt": 1}


def go_on(house: House) -> Run:
    Run.objects.filter(state="waiting").update(due_after=database_now())
    house.work()
    return Run.objects.latest("pk")


# --- Withdrawals ------------------------------------------------------------------------------------------------------


def test_a_withdrawal_outlives_the_filter() -> None:
    house = House.build({**CONTACTS, "filter": "firstName == 'Ada'"})
    house.source.put(customer(1))
    house.run()
    house.source.put(customer(1, "Bo", updated_at=house.soon(), said=UNSUBSCRIBED))
    run = house.run()
    assert run.states == {"filtered": 1}
    assert lists(house) == set()


def test_who_is_filtered_and_still_subscribed_stays() -> None:
    house = House.build({**CONTACTS, "filter": "firstName == 'Ada'"})
    house.source.put(customer(1))
    house.run()
    house.source.put(customer(1, "Bo", updated_at=house.soon()))
    assert house.run().states == {"filtered": 1}
    assert lists(house) == {7}


def test_a_create_in_doubt_counts_as_granted_when_the_person_says_no() -> None:
    house = House.build()
    in_doubt_create(house)
    house.source.put(customer(1, said=UNSUBSCRIBED))
    run = go_on(house)
    assert (run.outcome, run.refusals) == ("succeeded", {"unsubscribed": 1})
    assert lists(house) == set()
    assert not Delivery.objects.filter(state__in=["claimed", "sending", "in_doubt"]).exists()


def test_a_create_in_doubt_whose_address_changed_takes_the_old_one_off() -> None:
    house = House.build()
    in_doubt_create(house)
    house.source.put(customer(1, address="new@shop.example"))
    run = go_on(house)
    assert (run.outcome, run.refusals) == ("succeeded", {"address_changed": 1})
    assert lists(house) == set() and house.destination.person("new@shop.example") is None


def test_a_claim_that_was_never_sent_is_closed_with_the_refusal() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.fail("write", errors.TokenRefused("Refused."))
    house.run()
    assert house.states() == {"claimed": 1}
    house.source.put(customer(1, said=UNSUBSCRIBED))
    assert house.run().refusals == {"unsubscribed": 1}
    assert house.states() == {"superseded": 1, "refused": 1}


def test_of_two_people_of_one_address_the_one_we_granted_leaves() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    at = house.soon()
    house.source.put(customer(1, updated_at=at, said=UNSUBSCRIBED))
    house.source.put(customer(2, address="c1@shop.example", updated_at=at + timedelta(seconds=1)))
    run = house.run()
    assert run.states == {"superseded": 1, "refused": 1}
    assert lists(house) == set()


def test_an_erased_person_leaves_the_list() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    house.source.put(customer(1, address=None, updated_at=house.soon(), said=consent("REDACTED")))
    assert house.run().refusals == {"no_address": 1}
    assert lists(house) == set()


@pytest.mark.parametrize("trouble", [errors.Passing("Gone."), errors.TokenRefused("Refused.")])
def test_a_doubt_is_not_lifted_by_a_second_call_that_did_not_land(trouble: errors.ConnectorError) -> None:
    house = House.build()
    in_doubt_create(house)
    house.destination.fail("write", trouble)
    go_on(house)
    house.source.put(customer(1, said=UNSUBSCRIBED))
    run = go_on(house)
    if run.outcome != "succeeded":
        run = house.run()
    assert (run.outcome, run.refusals) == ("succeeded", {"unsubscribed": 1})
    assert lists(house) == set()


def test_who_was_withdrawn_and_never_created_may_come_back() -> None:
    house = House.build()
    house.terms = replace(house.terms, retry_scale=1.0)
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    house.source.put(customer(1))
    house.destination.fail("write", Fault(error=memory.lost()))
    house.start()
    house.work()
    house.source.put(customer(1, said=UNSUBSCRIBED))
    go_on(house)
    house.source.put(customer(1, updated_at=house.soon(), said=consent(given_at=house.clock.now())))
    assert house.run().states == {"written": 1}
    assert lists(house) == {7}


def test_one_record_rejected_again_leaves_its_neighbours_alone() -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "1", "cap": 20})
    for number in (1, 2):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(2))
    house.run()
    house.publish(CONTACTS)
    deliveries_retry(vigil(), house.sync, code="rejected", reason="perhaps")
    house.destination.fail("write", *rejecting(1))
    run = house.run()
    assert (run.outcome, run.retried) == ("succeeded", {"written": 1, "set_aside": 1})
    assert Delivery.objects.filter(state="set_aside").count() == 1
    called = len(house.destination.called("write"))
    cursor_reset(vigil(), house.sync, Lane.SCHEDULED, to=None, reason="a look")
    again = house.run()
    assert again.outcome == "succeeded" and again.states["set_aside"] == 1
    assert len(house.destination.called("write")) == called


# --- Orders and events ------------------------------------------------------------------------------------------------


def orders_house(**rule: object) -> House:
    house = House.build({**ORDERS, **rule}, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    return house


def test_an_old_refund_is_not_sent_as_a_new_one() -> None:
    house = orders_house(events=["order_placed", "order_refunded"], history_events=False)
    house.run()
    house.source.put(order(100, updated_at=house.soon(), refunded_total="5.00"))
    assert house.run().states == {"written": 1}
    assert house.destination.events == []


@pytest.mark.parametrize("aside", [True, False])
def test_the_events_of_a_rejected_order_are_decided_with_it(aside: bool) -> None:
    house = orders_house(**({"on_rejected": "set_aside", "ratio": "1", "cap": 20} if aside else {}))
    house.source.put(order(100))
    house.destination.fail("write", *rejecting(1))
    run = house.run(Lane.MANUAL)
    if aside:
        assert (run.outcome, run.states) == ("succeeded", {"set_aside": 1})
    else:
        assert (run.outcome, run.error_code, run.failures) == ("failed", "rejected", 1)
        assert "100" in run.error_sentence
    assert house.destination.events == []


def test_a_dead_letter_of_an_event_is_sent_when_a_person_asks() -> None:
    house = orders_house(on_rejected="set_aside", ratio="1", cap=20)
    house.source.put(order(100))
    house.destination.fail("write", Fault(), *rejecting(1))
    assert house.run(Lane.MANUAL).states == {"set_aside": 1}
    house.destination.events.clear()  # a vendor that rejects stores nothing
    assert deliveries_retry(vigil(), house.sync, code="rejected", reason="mended") == 1
    assert house.run(Lane.MANUAL).retried == {"written": 1}
    assert len(house.destination.events) == 1
    assert not Delivery.objects.filter(state="set_aside").exists()


def test_an_event_in_doubt_is_looked_for_at_its_own_time_and_not_at_the_orders_newer_one() -> None:
    house = orders_house(events=["order_refunded"])
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    house.terms = replace(house.terms, retry_scale=1.0)
    first = house.soon()
    house.source.put(order(100, updated_at=first, placed_at=first, refunded_total="5.00"))
    house.destination.fail("write", Fault(), Fault(error=memory.lost(), after=True))
    house.start()
    house.work()
    house.source.put(order(100, updated_at=first + timedelta(seconds=5), placed_at=first, refunded_total="5.00"))
    run = go_on(house)
    ((doubts,),) = house.destination.called("find")
    assert [doubt.event_at for doubt in doubts] == [first]
    assert run.outcome == "succeeded" and len(house.destination.events) == 1


def test_an_order_is_not_lost_when_its_contact_lands_while_its_page_is_decided() -> None:
    contacts = House.build()
    orders = beside(contacts, ORDERS, "Orders")
    contacts.source.put(order(100, of=1))
    contacts.source.put(customer(1))

    async def land_meanwhile(found: object) -> object:
        def elsewhere() -> None:
            try:
                contacts.run()
            finally:
                connections.close_all()

        await asyncio.to_thread(elsewhere)
        return found

    contacts.destination.fail("look", Fault(change=land_meanwhile))
    run = orders.run(Lane.MANUAL)
    assert (run.states, run.retried) == ({"deferred": 1}, {"written": 1})
    assert list(contacts.destination.orders) == ["100"]


def test_a_person_who_said_no_after_the_look_gets_no_event() -> None:
    house = orders_house()
    house.source.put(order(100))
    person = house.destination.person("c1@shop.example")
    assert person is not None

    async def say_no(receipts: list[Receipt]) -> list[Receipt]:
        person.blocklisted = True
        return receipts

    house.destination.fail("write", Fault(change=say_no))
    batch.LOOK_AGE, before = timedelta(0), batch.LOOK_AGE
    try:
        run = house.run(Lane.MANUAL)
    finally:
        batch.LOOK_AGE = before
    assert run.refusals == {"destination_blocklisted": 1}
    assert house.destination.events == [] and house.destination.violations == []
    assert not Delivery.objects.filter(state="claimed").exists()
    event = Delivery.objects.get(kind="event")
    assert (event.state, event.code) == ("refused", "destination_blocklisted")


@pytest.mark.parametrize("after", [True, False], ids=["it had landed", "it had not"])
def test_an_event_in_doubt_whose_person_left_is_closed_as_what_it_is(after: bool) -> None:
    """Otherwise it would be in doubt for good, and sent a second time if the person ever came back."""
    house = orders_house()
    house.terms = replace(house.terms, retry_scale=1.0)
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    house.source.put(order(100))
    house.destination.fail("write", Fault(), Fault(error=memory.lost(), after=after))
    house.start(Lane.MANUAL)
    house.work()
    assert Delivery.objects.get(kind="event").state == "in_doubt"
    person = house.destination.person("c1@shop.example")
    assert person is not None
    person.blocklisted = True
    run = go_on(house)
    assert (run.outcome, run.refusals) == ("succeeded", {"destination_blocklisted": 1})
    event = Delivery.objects.get(kind="event")
    assert (event.state, event.code) == (("written", "") if after else ("refused", "destination_blocklisted"))
    person.blocklisted = False
    house.source.put(order(100, amount="20.00", updated_at=house.soon()))
    assert house.run(Lane.MANUAL).outcome == "succeeded"
    assert len(house.destination.events) == 1, "sent once, whether then or now"


def test_an_order_in_doubt_whose_customer_left_is_closed_too() -> None:
    house = orders_house()
    house.terms = replace(house.terms, retry_scale=1.0)
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    house.source.put(order(100))
    house.destination.fail("write", Fault(error=memory.lost()))
    house.start(Lane.MANUAL)
    house.work()
    house.source.put(replace(order(100), subject=Subject("1", "c1@shop.example", UNSUBSCRIBED)))
    run = go_on(house)
    assert (run.outcome, run.refusals) == ("succeeded", {"unsubscribed": 1})
    assert not Delivery.objects.filter(state__in=["claimed", "sending", "in_doubt"]).exists()
    closed = Delivery.objects.get(kind="order", calls__gt=0)
    assert (closed.state, closed.code) == ("refused", "unsubscribed")
    assert closed.sentence == "An earlier call may have landed. Nothing was sent again."


def test_an_order_closed_in_doubt_is_sent_again_when_its_customer_comes_back() -> None:
    """A, then B in doubt, then A: what the destination holds is not known, so nothing counts as unchanged."""
    house = orders_house()
    house.terms = replace(house.terms, retry_scale=1.0)
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    house.source.put(order(100, amount="10.00"))
    house.run(Lane.MANUAL)
    at = house.soon()
    house.source.put(order(100, amount="20.00", updated_at=at))
    house.destination.fail("write", Fault(error=memory.lost(), after=True))
    house.start(Lane.MANUAL)
    house.work()
    said_no = Subject("1", "c1@shop.example", UNSUBSCRIBED)
    house.source.put(replace(order(100, amount="20.00", updated_at=at), subject=said_no))
    assert go_on(house).refusals == {"unsubscribed": 1}
    house.source.put(order(100, amount="10.00", updated_at=house.soon()))
    assert house.run(Lane.MANUAL).states == {"written": 1}
    assert house.destination.orders["100"].amount == "10.00"


def test_a_record_beyond_all_limits_is_an_unreadable_read_and_no_fault_of_ours() -> None:
    house = House.build()
    house.source.put(replace(customer(1), fields={"id": "1", "big": 2**60}))
    run = house.run()
    assert (run.outcome, run.error_code) == ("unreadable", "record_beyond_limits")


def test_a_contact_in_doubt_that_goes_no_further_is_looked_for_and_closed() -> None:
    house = House.build({**CONTACTS, "filter": "firstName == 'Ada'"})
    in_doubt_create(house)
    house.source.put(customer(1, "Bo"))
    run = go_on(house)
    assert (run.outcome, run.states) == ("succeeded", {"filtered": 1})
    assert house.states() == {"written": 1}, "it had landed, and is known to have"
    house.source.put(customer(1, "Bo", updated_at=house.soon(), said=UNSUBSCRIBED))
    house.run()
    assert lists(house) == set()


def test_what_waited_is_closed_when_a_newer_reading_is_decided() -> None:
    house = House.build(ORDERS, name="Orders")
    house.source.put(order(100))
    for _ in range(2):
        house.run(Lane.MANUAL)
        house.source.put(order(100, updated_at=house.soon()))
    assert house.run(Lane.MANUAL).states == {"deferred": 1}
    assert house.states()["deferred"] == 1
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.source.put(order(100, amount="13.00", updated_at=house.soon()))
    assert house.run(Lane.MANUAL).states == {"written": 1}
    assert "deferred" not in house.states()


def test_the_first_slice_knows_how_many_records_its_budget_is_of() -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "0.5", "cap": 20}, page_size=5)
    for number in range(1, 21):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(3))
    assert house.run().states == {"written": 17, "set_aside": 3}


# --- What must not stand in the way -----------------------------------------------------------------------------------


def test_a_dead_letter_rejected_again_keeps_no_new_record_back() -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "1", "cap": 20})
    house.source.put(customer(1))
    house.destination.fail("write", *rejecting(1))
    house.run()
    house.publish(CONTACTS)
    deliveries_retry(vigil(), house.sync, code="rejected", reason="perhaps")
    house.source.put(customer(2, updated_at=house.soon()))
    house.destination.fail("write", Fault(), *rejecting(1))
    run = house.run()
    assert (run.outcome, run.states) == ("succeeded", {"written": 1})
    assert Delivery.objects.get(state="set_aside").code == "rejected"
    assert house.run().outcome == "succeeded"
    assert len(house.destination.called("write")) == 3


def test_parking_keeps_the_wait_a_vendor_asked_for() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.terms = replace(house.terms, retry_scale=1.0)
    house.destination.fail("write", errors.Throttled("Slow down.", wait=timedelta(hours=2)))
    manual = house.start(Lane.MANUAL)
    house.work()
    manual.refresh_from_db()
    due = manual.due_after
    schedule = schedule_set(vigil(), house.sync, every_minutes=15)
    schedule.next_for = database_now() - timedelta(minutes=1)
    schedule.save()
    planned(planner.plan_due)
    house.work()
    manual.refresh_from_db()
    assert (manual.state, manual.due_after) == ("waiting", due)


def test_the_budget_of_an_open_read_is_that_of_its_whole_count() -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "0.5", "cap": 20}, page_size=5)
    for number in range(1, 21):
        house.source.put(customer(number))
    house.source.fail("read_page", Fault(), errors.TokenRefused("Refused."))
    assert house.run().outcome == "failed"
    house.destination.fail("write", *rejecting(2))
    run = house.run()
    assert (run.outcome, run.states["set_aside"]) == ("succeeded", 2)


def test_rejected_alike_is_an_error_of_the_run_under_set_aside_too() -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "1", "cap": 20}, page_size=8)
    for number in range(1, 9):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(8))
    run = house.run()
    assert (run.outcome, run.error_code) == ("failed", "rejected_alike")
    assert house.states() == {"failed": 8}
    assert Cursor.objects.get().pages == 0


class Died(BaseException):
    """The process ended here."""


def test_rejected_alike_is_seen_by_the_attempt_after_one_that_died_before_saying_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "1", "cap": 20}, page_size=8)
    for number in range(1, 9):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(8))

    def die(*_: object) -> None:
        raise Died

    house.start()
    with monkeypatch.context() as patched:
        patched.setattr(batch, "_alike", die)
        house.work()
    assert house.states() == {"failed": 8}
    Lease.objects.update(expires_at=database_now())
    planned(planner.recover)
    run = go_on(house)
    assert (run.outcome, run.error_code) == ("failed", "rejected_alike")
    assert (house.states(), Cursor.objects.get().pages) == ({"failed": 8}, 0)
    assert len(house.destination.called("write")) == 8


def test_what_a_dead_attempt_had_rejected_is_within_the_budget_of_the_next() -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "1", "cap": 2}, page_size=8)
    house.terms = replace(house.terms, retry_scale=1.0)
    for number in range(1, 5):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(2), Fault(error=errors.Passing("Gone.")))
    house.start()
    house.work()
    assert house.states()["failed"] == 2
    house.destination.fail("write", *rejecting(1))
    run = go_on(house)
    assert (run.outcome, run.error_code) == ("failed", "rejected")


# --- What must be seen ------------------------------------------------------------------------------------------------


def test_a_cancel_is_seen_by_a_run_that_sends_nothing() -> None:
    house = House.build(page_size=1)
    for number in range(1, 7):
        house.source.put(customer(number, said=consent("NOT_SUBSCRIBED")))

    async def cancel_meanwhile(page: object) -> object:
        def elsewhere() -> None:
            try:
                run_cancel(vigil("ann"), Run.objects.get())
            finally:
                connections.close_all()

        await asyncio.to_thread(elsewhere)
        return page

    house.source.fail("read_page", Fault(), Fault(change=cancel_meanwhile))
    run = house.run()
    assert (run.outcome, run.cancel_asked_by) == ("cancelled", "ann")
    assert Cursor.objects.get().pages < 6


def test_a_second_look_makes_no_stuck_sync_green() -> None:
    house = House.build()
    house.source.put(customer(1))
    for _ in range(4):
        house.source.fail("count", errors.TokenRefused("Refused."))
        house.run()
    house.run(Lane.RECONCILE)
    house.sync.refresh_from_db()
    assert house.sync.fresh_as_of is None and house.sync.last_success_at is None
    assert Finding.objects.filter(code="run_failed", resolved_at=None).exists()
    house.source.fail("count", errors.TokenRefused("Refused."))
    house.run()
    house.sync.refresh_from_db()
    assert house.sync.state == "paused", "five failed in a row, whatever the second look found"


def test_a_read_of_many_slices_finds_no_drift_of_the_version() -> None:
    house = House.build(page_size=2)
    for number in range(1, 9):
        house.source.put(customer(number))
    house.terms = replace(house.terms, slice=timedelta(0))
    assert house.run().outcome == "succeeded"
    assert not Finding.objects.filter(code="version_drift").exists()


def test_the_counters_of_a_short_read_start_again_with_it() -> None:
    house = House.build()
    for number in (1, 2, 3):
        house.source.put(customer(number))
    house.source.fail("count", Fault(change=memory.counted(5)), *[Fault(change=memory.counted(5))] * 2)
    run = house.run()
    assert run.outcome == "succeeded"
    assert sum(run.states.values()) == 3 == run.evidence["rows_seen"]


def test_a_cursor_is_not_set_into_the_future() -> None:
    house = House.build()
    house.run()
    with pytest.raises(PublicationInvalid, match="only set back"):
        cursor_reset(vigil(), house.sync, Lane.SCHEDULED, to=database_now() + timedelta(days=30), reason="a slip")


def test_a_step_that_is_always_slow_ends_the_page_in_words() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.terms = replace(house.terms, look=timedelta(seconds=0.02))
    with connection.cursor() as at:
        at.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END $$;"
            " CREATE TRIGGER slow BEFORE UPDATE ON syncs_delivery FOR EACH ROW EXECUTE FUNCTION slow()"
        )
    try:
        run = house.run()
    finally:
        with connection.cursor() as at:
            at.execute("DROP FUNCTION slow CASCADE")
    assert (run.outcome, run.error_code) == ("failed", "late_look")
    assert house.destination.called("write") == [] or house.destination.people == {}


def test_a_click_during_a_page_deadlocks_with_nothing() -> None:
    house = House.build(page_size=1)
    for number in range(1, 7):
        house.source.put(customer(number, said=consent("NOT_SUBSCRIBED")))

    def click() -> None:
        try:
            for _ in range(20):
                run_start(vigil(), house.sync)
        finally:
            connections.close_all()

    async def click_meanwhile(page: object) -> object:
        clicks.append(asyncio.get_running_loop().run_in_executor(None, click))
        return page

    clicks: list[object] = []
    house.source.fail("read_page", Fault(change=click_meanwhile))
    run = house.run()
    assert (run.outcome, run.failures) == ("succeeded", 0)
