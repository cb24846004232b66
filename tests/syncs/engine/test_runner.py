"""One run, from the first page to its verdict, on the real database and connectors in memory."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connections

from connectors import errors, memory
from connectors.memory import Fault
from connectors.protocol import Landing, Receipt
from syncs.domain.lifecycle import Lane
from syncs.models import Coverage, Finding, Run, Suppression, Tombstone
from syncs.services import sync_pause, vigil
from tests.house import ORDERS, House, consent, customer, order

pytestmark = pytest.mark.django_db(transaction=True)


def states(run: Run) -> dict[str, int]:
    return {state: number for state, number in run.states.items() if number}


def known(run: Run) -> int:
    """Records that had been delivered before, by this reading or another."""
    assert set(run.states) <= {"already_delivered", "unchanged", "set_aside"}
    return run.states.get("already_delivered", 0) + run.states.get("unchanged", 0)


def test_a_first_run_writes_everybody_who_may_be_mailed_and_moves_the_watermark() -> None:
    house = House.build()
    for number in range(1, 13):
        house.source.put(customer(number))
    house.source.put(customer(20, said=consent("UNSUBSCRIBED")))

    run = house.run()

    assert (run.outcome, run.verdict, run.failures) == ("succeeded", "proven", 0)
    assert states(run) == {"written": 12, "refused": 1}
    assert run.refusals == {"unsubscribed": 1}
    assert sorted(person.address for person in house.destination.people.values()) == sorted(
        f"c{number}@shop.example" for number in range(1, 13)
    )
    assert all(person.lists == {7} for person in house.destination.people.values())
    cursor = house.cursor()
    assert cursor.until is None and cursor.watermark is not None and cursor.rows == 0
    assert Coverage.objects.get().records == 13
    assert house.states() == {"written": 12, "refused": 1}


def test_a_second_run_over_unchanged_records_calls_nobody() -> None:
    house = House.build()
    for number in range(1, 8):
        house.source.put(customer(number))
    house.run()
    house.source.traits = memory.MemorySource(overlap=timedelta(days=4000)).traits
    called = len(house.destination.called("write"))

    run = house.run()

    assert known(run) == 7
    assert len(house.destination.called("write")) == called


def test_a_b_a_is_written_three_times_case_deliv_07() -> None:
    house = House.build()
    for name in ("A", "B", "A"):
        house.source.put(customer(1, name, updated_at=house.soon()))
        house.run()
    person = house.destination.person("c1@shop.example")
    assert person is not None and person.attributes == {"FIRSTNAME": "A"}
    assert house.tombstones() == {"contact:1": 3}
    keys = [delivery.effect_key for delivery in house.deliveries(state="written")]
    assert len(set(keys)) == 3


def test_a_failed_record_keeps_the_cursor_and_its_siblings_land() -> None:
    house = House.build()
    for number in (1, 2, 3):
        house.source.put(customer(number))

    def reject_second(receipts: list[Receipt]) -> list[Receipt]:
        return [Receipt(one.effect_key, Landing.REJECTED, "rejected", "No.") for one in receipts]

    house.destination.fail("write", Fault(), Fault(change=reject_second))
    run = house.run()

    assert (run.outcome, run.error_code) == ("failed", "rejected")
    assert run.unsettled == {"written": 2, "failed": 1}
    assert house.cursor().pages == 0
    assert house.cursor().until is not None
    assert Finding.objects.get(resolved_at=None).code == "run_failed"


def test_a_rejected_content_is_called_once_until_it_changes_case_retry_05() -> None:
    house = House.build()
    house.source.put(customer(1))
    reject = Fault(change=lambda rs: [Receipt(r.effect_key, Landing.REJECTED, "rejected", "No.") for r in rs])
    house.destination.fail("write", reject)
    for _ in range(3):
        assert house.run().outcome == "failed"
    assert len(house.destination.called("write")) == 1
    house.source.put(customer(1, "Changed"))
    assert house.run().outcome == "succeeded"
    assert len(house.destination.called("write")) == 2


def test_set_aside_lets_the_cursor_move_and_calls_once_case_retry_04() -> None:
    rule = {"on_rejected": "set_aside", "ratio": "0.5", "cap": 20}
    house = House.build({"stream": "customers", "list_id": 7, "mapping": [], **rule})
    for number in (1, 2, 3):
        house.source.put(customer(number))
    reject = Fault(change=lambda rs: [Receipt(r.effect_key, Landing.REJECTED, "rejected", "No.") for r in rs])
    house.destination.fail("write", Fault(), reject)
    run = house.run()
    assert run.outcome == "succeeded"
    assert states(run) == {"written": 2, "set_aside": 1}
    house.source.traits = memory.MemorySource(overlap=timedelta(days=4000)).traits
    again = house.run()
    assert (known(again), again.states["set_aside"]) == (2, 1)
    assert len(house.destination.called("write")) == 3


def test_five_records_rejected_alike_are_an_error_of_the_run_case_deliv_05() -> None:
    house = House.build()
    for number in range(1, 6):
        house.source.put(customer(number))
    reject = Fault(change=lambda rs: [Receipt(r.effect_key, Landing.REJECTED, "bad_list", "No list.") for r in rs])
    house.destination.fail("write", *[reject] * 5)
    run = house.run()
    assert (run.outcome, run.error_code, run.failures) == ("failed", "rejected_alike", 1)
    assert house.run().outcome == "failed"
    house.publish()
    assert house.run().outcome == "succeeded"
    assert len(house.destination.people) == 5


def test_passing_trouble_is_tried_five_times_and_then_fails() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.fail("write", *[errors.Passing("Out of order.")] * 9)
    run = house.run()
    assert (run.outcome, run.failures, run.attempts.count()) == ("failed", 5, 5)
    assert [attempt.outcome for attempt in run.attempts.order_by("number")] == ["failed"] * 5
    assert house.run().outcome == "succeeded"


def test_a_refused_token_ends_the_run_at_once_case_retry_01() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.fail("write", errors.TokenRefused("Brevo refused the key (401). Enter a new one."))
    run = house.run()
    assert (run.outcome, run.error_code, run.attempts.count()) == ("failed", "token_refused", 1)
    assert house.states() == {"claimed": 1}


def test_five_failed_runs_pause_the_sync_and_nothing_starts_it_again_case_retry_08() -> None:
    house = House.build()
    house.source.put(customer(1))
    for _ in range(5):
        house.source.fail("identify", errors.TokenRefused("Shopify refused the access token (401)."))
        house.run()
    house.sync.refresh_from_db()
    assert (house.sync.state, house.sync.pause_code) == ("paused", "token_refused")
    assert {finding.code for finding in Finding.objects.filter(resolved_at=None)} == {"paused", "run_failed"}
    house.publish()
    assert house.run().outcome == "succeeded"


def test_a_success_resets_the_count_of_failures() -> None:
    house = House.build()
    house.source.put(customer(1))
    for failing in (True, True, True, True, False, True):
        if failing:
            house.source.fail("identify", errors.TokenRefused("Refused."))
        house.run()
    house.sync.refresh_from_db()
    assert house.sync.state == "published"


def test_an_empty_answer_that_the_count_contradicts_moves_nothing_case_read_01() -> None:
    house = House.build()
    for number in (1, 2, 3):
        house.source.put(customer(number))
    house.source.fail("read_page", *[Fault(change=memory.emptied)] * 5)
    run = house.run()
    assert (run.outcome, run.verdict) == ("short", "short")
    assert "3" in run.error_sentence and "0" in run.error_sentence
    assert house.destination.people == {}
    cursor = house.cursor()
    assert cursor.watermark is None and cursor.until is not None


def test_a_quiet_shop_is_a_success_with_proof() -> None:
    house = House.build()
    run = house.run()
    assert (run.outcome, run.verdict) == ("succeeded", "proven_quiet")
    house.sync.refresh_from_db()
    assert house.sync.last_success_at is not None


def test_a_source_that_leads_back_ends_the_run_case_read_06() -> None:
    house = House.build(page_size=1)
    for number in (1, 2, 3):
        house.source.put(customer(number))
    house.source.fail("read_page", Fault(), *[Fault(change=memory.repeated_cursor)] * 9)
    run = house.run()
    assert run.outcome == "unreadable"
    assert run.error_code == "source_does_not_advance"


def test_what_the_destination_says_no_to_is_refused_and_never_joins_case_cons_01() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.add_person("c1@shop.example", blocklisted=True)
    run = house.run()
    assert states(run) == {"refused": 1}
    assert run.refusals == {"destination_blocklisted": 1}
    person = house.destination.person("c1@shop.example")
    assert person is not None and person.blocklisted and person.lists == set()
    assert house.destination.violations == []


def test_a_person_deleted_at_the_destination_is_never_created_again_case_cons_08() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    person = house.destination.person("c1@shop.example")
    assert person is not None
    house.destination.delete(person)
    for name in ("New", "Newer"):
        house.source.put(customer(1, name, updated_at=house.soon()))
        run = house.run()
        assert run.refusals == {"suppressed": 1}
    assert house.destination.people == {} and house.destination.violations == []
    assert Suppression.objects.get().reason == "suppressed"


def test_a_changed_address_is_refused_and_the_old_one_leaves_the_list_case_deliv_12() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    house.source.put(customer(1, address="new@shop.example", updated_at=house.soon()))
    run = house.run()
    assert run.refusals == {"address_changed": 1}
    person = house.destination.person("c1@shop.example")
    assert person is not None and person.lists == set()
    assert house.destination.person("new@shop.example") is None
    assert Finding.objects.get(resolved_at=None).code == "address_changed"


def test_a_withdrawal_takes_the_person_off_the_list_case_cons_12() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    house.source.put(customer(1, updated_at=house.soon(), said=consent("UNSUBSCRIBED")))
    run = house.run()
    assert run.refusals == {"unsubscribed": 1}
    person = house.destination.person("c1@shop.example")
    assert person is not None and person.lists == set() and not person.blocklisted
    house.source.put(customer(1, updated_at=house.soon()))
    assert states(house.run()) == {"written": 1}
    assert person.lists == set(), "an old consent does not put them back"
    house.source.put(customer(1, "New", updated_at=house.soon(), said=consent(given_at=house.clock.now())))
    assert states(house.run()) == {"written": 1}
    assert person.lists == {7}


def test_two_records_of_one_address_become_one_contact_under_the_strictest_consent_case_data_04() -> None:
    house = House.build()
    house.source.put(customer(1, "First", address="Kim@Shop.example"))
    house.source.put(customer(2, "Second", address="kim@shop.example "))
    house.source.put(customer(3, address="lee@shop.example", said=consent("NOT_SUBSCRIBED")))
    house.source.put(customer(4, address="LEE@shop.example"))
    run = house.run()
    assert states(run) == {"superseded": 2, "written": 1, "refused": 1}
    assert run.refusals == {"not_subscribed": 1}
    assert [(person.address, person.attributes) for person in house.destination.people.values()] == [
        ("kim@shop.example", {"FIRSTNAME": "Second"})
    ]


def test_an_order_goes_out_with_one_event_and_only_for_a_contact_that_is_there() -> None:
    house = House.build(ORDERS, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.source.put(order(100, of=1))
    house.source.put(order(101, of=2))
    house.source.put(order(102, of=None))
    run = house.run(Lane.MANUAL)
    assert states(run) == {"written": 1, "deferred": 1, "refused": 1}
    assert run.refusals == {"no_customer": 1}
    assert list(house.destination.orders) == ["100"]
    assert [(event.name, event.subject_id) for event in house.destination.events] == [("order_placed", "memory:1:1")]
    assert house.destination.triggered == []


def test_the_scheduled_lane_of_orders_starts_with_the_first_publication() -> None:
    house = House.build(ORDERS, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.source.put(order(100))
    first = house.run()
    assert (first.verdict, states(first)) == ("proven_quiet", {})
    later = house.soon()
    house.source.put(order(101, updated_at=later, placed_at=later))
    run = house.run()
    assert states(run) == {"written": 1}
    assert house.destination.triggered == ["101"]
    assert len(house.destination.events) == 1


def test_an_old_order_that_comes_back_starts_no_automation_and_sends_no_old_event() -> None:
    house = House.build(ORDERS, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.run()
    house.source.put(order(100, updated_at=house.soon(), refunded_total="5.00"))
    run = house.run()
    assert states(run) == {"written": 1}
    assert (house.destination.triggered, house.destination.events) == ([], [])


def test_an_event_in_doubt_is_looked_for_before_it_is_sent_again_case_deliv_01() -> None:
    house = House.build(ORDERS, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.destination.traits = memory.some_traits(deadline=timedelta(seconds=0.2))
    house.source.put(order(100))
    house.destination.fail("write", Fault(), Fault(error=memory.lost(), after=True))
    run = house.run(Lane.MANUAL)
    assert (run.outcome, run.failures, states(run)) == ("succeeded", 1, {"written": 1})
    assert len(house.destination.events) == 1
    assert len(house.destination.called("find")) == 1


def test_an_event_in_doubt_that_never_arrived_is_sent_under_the_same_key() -> None:
    house = House.build(ORDERS, name="Orders")
    house.destination.add_person("c1@shop.example", "memory:1:1")
    house.destination.traits = memory.some_traits(deadline=timedelta(seconds=0.2))
    house.source.put(order(100))
    house.destination.fail("write", Fault(), Fault(error=memory.lost()))
    run = house.run(Lane.MANUAL)
    assert (run.outcome, states(run)) == ("succeeded", {"written": 1})
    keys = [write.effect_key for (writes,) in house.destination.called("write") for write in writes if write.event_name]
    assert len(keys) == 2 and len(set(keys)) == 1
    assert len(house.destination.events) == 1


def test_an_upsert_in_doubt_is_simply_sent_again() -> None:
    house = House.build()
    house.destination.traits = memory.some_traits(deadline=timedelta(seconds=0.2))
    house.source.put(customer(1))
    house.destination.fail("write", Fault(error=memory.lost(), after=True))
    run = house.run()
    assert (run.outcome, run.failures, states(run)) == ("succeeded", 1, {"written": 1})
    assert len(house.destination.people) == 1


def test_a_stale_page_cursor_starts_the_window_again_case_read_11() -> None:
    house = House.build(page_size=1)
    for number in (1, 2, 3):
        house.source.put(customer(number))
    house.source.fail("read_page", Fault(), Fault(error=errors.CursorStale("Another query's cursor.")))
    run = house.run()
    assert run.outcome == "succeeded"
    assert len(house.destination.people) == 3
    assert sum(run.states.values()) == 3


def test_a_wait_the_vendor_asked_for_is_no_failed_attempt() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.fail("write", errors.Throttled("Slow down.", wait=timedelta(milliseconds=20)))
    run = house.run()
    assert (run.outcome, run.failures, run.attempts.count()) == ("succeeded", 0, 1)


def test_a_long_wait_parks_the_run_uncounted() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.fail("write", errors.Throttled("Slow down.", wait=timedelta(hours=2)))
    run = house.run()
    assert (run.outcome, run.failures) == ("succeeded", 0)
    assert [attempt.outcome for attempt in run.attempts.order_by("number")] == ["parked", "succeeded"]


def test_a_run_of_another_account_stops_before_it_writes_case_pub_07() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.destination.identity = memory.an_identity(("contacts:write",), account="another")
    run = house.run()
    assert (run.outcome, run.error_code) == ("failed", "wrong_account")
    assert house.destination.called("write") == []


def test_a_publication_under_a_run_stops_it_and_the_next_one_goes_on_case_pub_06() -> None:
    house = House.build(page_size=2)
    for number in range(1, 7):
        house.source.put(customer(number))

    async def publish_meanwhile(receipts: list[Receipt]) -> list[Receipt]:
        await asyncio.to_thread(_publish_elsewhere, house)
        return receipts

    house.destination.fail("write", Fault(change=publish_meanwhile))
    run = house.run()
    assert (run.outcome, run.failures) == ("superseded", 0)
    written = len(house.destination.people)
    assert written <= 2
    again = house.run()
    assert again.outcome == "succeeded"
    assert len(house.destination.people) == 6
    assert sum(again.states.values()) == 6


def _publish_elsewhere(house: House) -> None:
    try:
        house.publish({"stream": "customers", "list_id": 7, "mapping": []})
    finally:
        connections.close_all()


def test_a_record_is_read_with_a_number_drawn_before_its_page() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    house.run()
    first = Tombstone.objects.get().read_no
    house.source.put(customer(1, "New", updated_at=house.soon()))
    house.run()
    assert Tombstone.objects.get().read_no > first


def test_a_read_of_many_slices_goes_on_where_it_stood() -> None:
    house = House.build(page_size=2)
    for number in range(1, 9):
        house.source.put(customer(number))
    house.terms = replace(house.terms, slice=timedelta(0))
    run = house.start()
    slices = 0
    while run.state != "finished" and slices < 20:
        house.work()
        slices += 1
        run.refresh_from_db()
    assert (run.outcome, states(run)) == ("succeeded", {"written": 8})
    attempt = run.attempts.get()
    assert (attempt.slices, attempt.pages) == (4, 4) and slices == 4


def test_a_pause_under_a_run_stops_it_in_its_own_words() -> None:
    house = House.build(page_size=2)
    for number in range(1, 7):
        house.source.put(customer(number))

    async def pause_meanwhile(receipts: list[Receipt]) -> list[Receipt]:
        await asyncio.to_thread(_pause_elsewhere, house)
        return receipts

    house.destination.fail("write", Fault(change=pause_meanwhile))
    run = house.run()
    assert (run.outcome, run.error_code, run.failures) == ("stopped", "paused", 0)
    assert len(house.destination.people) <= 2


def _pause_elsewhere(house: House) -> None:
    try:
        sync_pause(vigil(), house.sync, reason="a test")
    finally:
        connections.close_all()


def test_a_finding_about_an_address_closes_when_the_address_is_right_again() -> None:
    house = House.build()
    house.source.put(customer(1))
    house.run()
    house.source.put(customer(1, address="new@shop.example", updated_at=house.soon()))
    house.run()
    assert Finding.objects.get(code="address_changed").state == "open"
    house.source.put(customer(1, updated_at=house.soon()))
    assert states(house.run()) == {"written": 1}
    assert Finding.objects.get(code="address_changed").state == "resolved"
