"""Lanes keep out of each other's way; what could not go out yet goes out when its time has come (PRODUCT 1.6, 4.6)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections

from connectors import errors, memory
from connectors.memory import Fault
from connectors.protocol import EffectKind, Landing, Receipt
from syncs.domain import rule as rules
from syncs.domain.lifecycle import Lane
from syncs.engine import planner
from syncs.engine.database import Database, parameters
from syncs.errors import NotFound, PublicationInvalid
from syncs.models import AuditEntry, Connection, Delivery, Finding, Occurrence, Run, Sync
from syncs.services import (
    cursor_reset,
    deliveries_retry,
    delivery_set_aside,
    schedule_set,
    vigil,
)
from syncs.services.actors import database_now
from tests.house import CONTACTS, ORDERS, House, customer, order

pytestmark = pytest.mark.django_db(transaction=True)


def planned(plan: Callable[[Database], Awaitable[Any]]) -> Any:
    async def walk() -> Any:
        given = Database(parameters(settings.DATABASES["default"]))
        try:
            return await plan(given)
        finally:
            await given.close()

    return asyncio.run(walk())


def come_due(house: House) -> None:
    schedule = schedule_set(vigil(), house.sync, every_minutes=15)
    schedule.next_for = database_now() - timedelta(minutes=1)
    schedule.save()


def test_history_lets_a_due_scheduled_run_through_and_goes_on_behind_it_case_read_18() -> None:
    house = House.build(page_size=2)
    for number in range(1, 9):
        house.source.put(customer(number))
    house.run()
    house.source.put(customer(99, updated_at=house.soon()))
    manual = house.start(Lane.MANUAL)

    async def come_due_meanwhile(page: object) -> object:
        def elsewhere() -> None:
            try:
                come_due(house)
                planned(planner.plan_due)
            finally:
                connections.close_all()

        await asyncio.to_thread(elsewhere)
        return page

    house.source.fail("read_page", Fault(), Fault(change=come_due_meanwhile))
    house.work()
    for _ in range(6):
        house.work()
    manual.refresh_from_db()
    scheduled = Run.objects.get(trigger="schedule")
    assert (scheduled.outcome, scheduled.states) == ("succeeded", {"written": 1})
    assert (manual.outcome, sum(manual.states.values())) == ("succeeded", 9)
    assert scheduled.finished_at is not None and manual.finished_at is not None
    assert scheduled.finished_at < manual.finished_at
    assert Occurrence.objects.get().state == "executed"
    assert manual.attempts.count() == 1 and manual.failures == 0


def test_history_that_waits_makes_way_at_once() -> None:
    house = House.build()
    manual = house.start(Lane.MANUAL)
    come_due(house)
    (scheduled,) = planned(planner.plan_due)
    manual.refresh_from_db()
    assert (manual.state, Run.objects.get(pk=scheduled).state) == ("parked", "waiting")
    assert planned(planner.change_lanes) == []
    house.work()
    manual.refresh_from_db()
    assert manual.state in ("waiting", "finished")
    house.work()
    manual.refresh_from_db()
    assert manual.outcome == "succeeded"


def test_no_lane_moves_another_ones_cursor() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run(Lane.SCHEDULED)
    before = house.cursor(Lane.SCHEDULED).watermark
    house.run(Lane.MANUAL)
    assert house.cursor(Lane.SCHEDULED).watermark == before


def test_the_daily_second_look_finds_what_the_index_hid_case_read_03() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    hidden = customer(2, updated_at=house.at - timedelta(seconds=20))
    house.source.put(hidden)
    house.run()
    assert house.destination.person("c2@shop.example") is None
    assert planned(planner.plan_reconciles) == []
    Sync.objects.update(first_published_at=database_now() - timedelta(days=2))
    (run_id,) = planned(planner.plan_reconciles)
    house.at += timedelta(minutes=1)
    house.source.identity = replace(house.source.identity, server_time=house.at)
    house.work()
    run = Run.objects.get(pk=run_id)
    assert (run.lane, run.outcome, run.states["written"]) == ("reconcile", "succeeded", 1)
    assert planned(planner.plan_reconciles) == []
    assert house.destination.person("c2@shop.example") is not None


def beside(house: House, rule: dict[str, Any], name: str) -> House:
    """Another sync between the same two connections."""
    sync = Sync.objects.create(
        workspace=house.sync.workspace,
        name=name,
        source=Connection.objects.get(pk=house.sync.source_id),
        destination=Connection.objects.get(pk=house.sync.destination_id),
        draft=rules.document(rules.parse(rule)),
    )
    twin = House(house.source, house.destination, sync, at=house.at)
    twin.publish()
    return twin


def test_a_deferred_order_goes_out_when_its_contact_has_landed() -> None:
    contacts = House.build()
    orders = beside(contacts, ORDERS, "Orders")
    contacts.source.put(order(100, of=1))
    first = orders.run(Lane.MANUAL)
    assert first.states == {"deferred": 1}
    assert orders.run(Lane.MANUAL).retried == {}, "nothing has landed yet, so nobody is asked"
    contacts.source.put(customer(1))
    contacts.run()
    again = orders.run(Lane.MANUAL)
    assert (again.states, again.retried) == ({}, {"written": 1})
    assert list(contacts.destination.orders) == ["100"]
    assert len(contacts.destination.events) == 1
    assert orders.run(Lane.MANUAL).retried == {}
    assert not Delivery.objects.filter(state="deferred").exists()


def test_a_deferred_order_that_is_gone_at_the_source_says_so() -> None:
    contacts = House.build()
    orders = beside(contacts, ORDERS, "Orders")
    contacts.source.put(order(100, of=1))
    orders.run(Lane.MANUAL)
    contacts.source.records[order(100).stream].clear()
    contacts.source.put(customer(1))
    contacts.run()
    assert orders.run(Lane.MANUAL).retried == {"source_record_gone": 1}
    assert Delivery.objects.get(code="source_record_gone").state == "superseded"


def test_what_waits_for_a_week_is_a_finding_and_is_never_pruned() -> None:
    house = House.build(ORDERS, name="Orders")
    house.source.put(order(100, of=1))
    house.run(Lane.MANUAL)
    planned(planner.find_long_deferred)
    assert not Finding.objects.filter(code="deferred_long").exists()
    Delivery.objects.update(settled_at=database_now() - timedelta(days=8))
    planned(planner.find_long_deferred)
    assert Finding.objects.get(code="deferred_long").sentence.startswith("1 records have waited")


def rejecting(times: int) -> list[Fault]:
    def reject(receipts: list[Receipt]) -> list[Receipt]:
        return [Receipt(one.effect_key, Landing.REJECTED, "rejected", "No.") for one in receipts]

    return [Fault(change=reject)] * times


def test_a_person_sets_a_rejected_record_aside_and_the_page_is_decided() -> None:
    house = House.build()
    for number in (1, 2):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(1))
    assert house.run().outcome == "failed"
    failed = Delivery.objects.get(state="failed")
    delivery_set_aside(vigil(), failed, reason="known bad")
    run = house.run()
    assert run.outcome == "succeeded" and run.states == {"set_aside": 1, "already_delivered": 1}
    with pytest.raises(NotFound):
        delivery_set_aside(vigil(), failed, reason="again")
    assert AuditEntry.objects.filter(action="delivery.set_aside").count() == 1


def test_dead_letters_are_tried_again_in_bulk() -> None:
    rule = {**CONTACTS, "on_rejected": "set_aside", "ratio": "1", "cap": 20}
    house = House.build(rule)
    for number in (1, 2, 3):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(3))
    assert house.run().states == {"set_aside": 3}
    assert deliveries_retry(vigil(), house.sync, code="rejected", reason="mended there") == 3
    run = house.run()
    assert (run.states, run.retried) == ({}, {"written": 3})
    assert len(house.destination.people) == 3
    assert not Delivery.objects.filter(state="set_aside").exists()


def test_a_retry_clears_the_memory_of_a_rejection() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.fail("write", *rejecting(1))
    house.run()
    failed = Delivery.objects.get(state="failed")
    assert deliveries_retry(vigil(), house.sync, ids=[failed.pk], reason="mended") == 1
    assert house.run().states == {"written": 1}


def test_set_aside_beyond_its_budget_fails_the_run() -> None:
    rule = {**CONTACTS, "on_rejected": "set_aside", "ratio": "0.05", "cap": 1}
    house = House.build(rule)
    for number in range(1, 5):
        house.source.put(customer(number))
    house.destination.fail("write", *rejecting(2))
    run = house.run()
    assert (run.outcome, run.error_code) == ("failed", "rejected")
    assert run.unsettled == {"written": 2, "set_aside": 1, "failed": 1}


def test_a_forced_run_sends_again_once_each_time_and_no_event_twice() -> None:
    house = House.build(ORDERS, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.source.put(order(100))
    house.run(Lane.MANUAL)
    for times in (2, 3):
        cursor_reset(vigil(), house.sync, Lane.MANUAL, to=None, reason="a test")
        run = house.start_forced(Lane.MANUAL)
        assert run.states == {"written": 1}
        assert house.tombstones() == {"order:100": times, "event:order_placed:100": 1}
    assert len(house.destination.events) == 1


def test_an_append_nobody_can_look_for_is_sent_again_and_counted() -> None:
    house = House.build(ORDERS, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    traits = memory.some_traits(deadline=timedelta(seconds=0.1))
    house.destination.traits = {**traits, EffectKind.EVENT: replace(traits[EffectKind.EVENT], findable=False)}
    house.source.put(order(100))
    house.destination.fail("write", Fault(), Fault(error=memory.lost(), after=True))
    run = house.run(Lane.MANUAL)
    assert (run.outcome, run.possible_duplicates) == ("succeeded", 1)
    assert len(house.destination.events) == 2


def test_a_cursor_is_reset_only_while_nobody_owns_it() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    open_run = house.start()
    with pytest.raises(PublicationInvalid, match="owns the cursor"):
        cursor_reset(vigil(), house.sync, Lane.SCHEDULED, to=None, reason="a test")
    Run.objects.filter(pk=open_run.pk).delete()
    cursor_reset(vigil(), house.sync, Lane.SCHEDULED, to=None, reason="a test")
    run = house.run()
    assert run.states == {"already_delivered": 1}
    assert AuditEntry.objects.filter(action="cursor.reset").count() == 1


def test_a_read_goes_on_at_page_20_of_24_on_another_worker() -> None:
    house = House.build(page_size=1)
    for number in range(1, 25):
        house.source.put(customer(number))
    house.source.fail("read_page", *[Fault()] * 19, errors.Passing("Gone for a moment."))
    house.terms = replace(house.terms, retry_scale=1.0)
    run = house.start()
    house.work()
    run.refresh_from_db()
    assert (run.state, run.attempts.get().pages) == ("waiting", 19)
    Run.objects.update(due_after=database_now())
    house.holder = "another:2:2"
    house.work()
    run.refresh_from_db()
    assert (run.outcome, run.states) == ("succeeded", {"written": 24})
    assert len(house.destination.called("write")) == 24
    with connection.cursor() as at:
        at.execute("SELECT worker FROM syncs_attempt ORDER BY number")
        assert [row[0] for row in at.fetchall()] == ["test:1:1", "another:2:2"]
