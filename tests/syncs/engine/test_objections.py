"""One address, several records of the source: the strictest consent holds, on whatever pages they stand (2.7, 3.8)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from connectors import memory
from connectors.memory import Fault
from connectors.protocol import ConsentEvidence, Page, Subject
from syncs.domain.lifecycle import Lane
from syncs.models import Objection
from tests.house import CONTACTS, ORDERS, House, consent, customer, order
from tests.syncs.engine.test_lanes import beside, rejecting
from tests.syncs.engine.test_sequences import go_on

pytestmark = pytest.mark.django_db(transaction=True)

UNSUBSCRIBED = consent("UNSUBSCRIBED")
SHARED = "kim@bücher.example"
AS_PUNYCODE = "Kim@xn--bcher-kva.example"


def on_list(house: House) -> bool:
    person = house.destination.person(AS_PUNYCODE.lower())
    return person is not None and 7 in person.lists


def test_a_no_on_an_earlier_page_refuses_the_same_address_on_a_later_one() -> None:
    house = House.build(page_size=1)
    house.source.put(customer(1, address=SHARED, said=UNSUBSCRIBED))
    house.source.put(customer(2, address=AS_PUNYCODE))
    run = house.run()
    assert (run.states, run.refusals) == ({"refused": 2}, {"unsubscribed": 2})
    assert house.destination.person(AS_PUNYCODE.lower()) is None


def test_a_no_on_a_later_page_takes_off_the_list_what_an_earlier_one_put_there() -> None:
    house = House.build(page_size=1)
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.source.put(customer(2, address=SHARED, said=UNSUBSCRIBED))
    run = house.run()
    assert run.states == {"written": 1, "refused": 1}
    assert not on_list(house)


def test_a_no_in_a_later_run_does_the_same_and_stands_when_the_other_record_changes() -> None:
    house = House.build()
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.run()
    assert on_list(house)
    house.source.put(customer(2, address=SHARED, updated_at=house.soon(), said=UNSUBSCRIBED))
    house.run()
    house.source.put(customer(1, "Bo", address=AS_PUNYCODE, updated_at=house.soon()))
    run = house.run()
    assert run.refusals == {"unsubscribed": 1}
    assert not on_list(house)


def test_who_says_yes_now_stands_in_nobodys_way() -> None:
    house = House.build(page_size=1)
    house.source.put(customer(1, address=SHARED, said=UNSUBSCRIBED))
    house.run()
    house.source.put(customer(1, address=SHARED, updated_at=house.soon(), said=consent(given_at=house.at)))
    house.source.put(customer(2, address=AS_PUNYCODE, updated_at=house.soon() + timedelta(seconds=1)))
    run = house.run()
    assert run.states["written"] == 1 and not Objection.objects.exists()
    assert on_list(house)


@pytest.mark.parametrize(
    "said", [consent("NOT_SUBSCRIBED"), consent("SOMETHING_NEW"), consent(None), None], ids=["gone", "new", "none", ""]
)
def test_nothing_but_a_yes_lifts_a_no(said: ConsentEvidence | None) -> None:
    """A release of the source that renames a word would lift every objection there is."""
    house = House.build()
    house.source.put(customer(1, address=SHARED, said=UNSUBSCRIBED))
    house.run()
    then = customer(1, address=SHARED, updated_at=house.soon(), said=said or consent())
    house.source.put(then if said else replace(then, subject=Subject("1", SHARED, None)))
    house.source.put(customer(2, address=AS_PUNYCODE, updated_at=house.soon() + timedelta(seconds=1)))
    run = house.run()
    assert "written" not in run.states
    assert not on_list(house)


@pytest.mark.parametrize("page_size", [1, 5])
def test_who_never_subscribed_counts_on_one_page_as_on_two(page_size: int) -> None:
    house = House.build(page_size=page_size)
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.source.put(customer(2, address=SHARED, said=consent("NOT_SUBSCRIBED")))
    assert house.run().outcome == "succeeded"
    assert not on_list(house)


def test_a_no_on_a_page_that_is_never_decided_is_remembered() -> None:
    house = House.build(page_size=5)
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.run()
    house.source.put(customer(2, address=SHARED, updated_at=house.soon(), said=UNSUBSCRIBED))
    house.source.put(customer(3, updated_at=house.soon() + timedelta(seconds=1)))
    house.destination.fail("write", Fault(), *rejecting(1))
    assert house.run().outcome == "failed"
    assert not on_list(house)
    house.source.put(customer(1, "Bo", address=AS_PUNYCODE, said=consent(given_at=house.at)))
    house.destination.fail("write", *rejecting(1))
    house.run(Lane.MANUAL)
    assert not on_list(house)


def test_a_withdrawal_finds_a_contact_that_bears_somebody_else_s_id() -> None:
    """Another system made it; our write landed there, and the process died before it could tell."""
    house = House.build()
    house.terms = replace(house.terms, retry_scale=1.0)
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    person = house.destination.add_person(AS_PUNYCODE.lower(), "crm:77")
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.destination.fail("write", Fault(error=memory.lost(), after=True))
    house.start()
    house.work()
    assert person.lists == {7}
    house.source.put(customer(1, address=AS_PUNYCODE, said=UNSUBSCRIBED))
    run = go_on(house)
    assert (run.outcome, person.lists) == ("succeeded", set())


def test_a_withdrawal_that_is_rejected_is_bound_by_no_budget_and_tried_again() -> None:
    house = House.build({**CONTACTS, "on_rejected": "set_aside", "ratio": "1", "cap": 20})
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.run()
    house.source.put(customer(1, address=AS_PUNYCODE, updated_at=house.soon(), said=UNSUBSCRIBED))
    house.destination.fail("write", *rejecting(1))
    assert (house.run().outcome, house.states()["failed"]) == ("failed", 1)
    calls = len(house.destination.called("write"))
    assert house.run().outcome == "succeeded" and not on_list(house)
    assert len(house.destination.called("write")) == calls + 1


def test_an_erased_record_without_an_address_keeps_its_no() -> None:
    house = House.build()
    house.source.put(customer(1, address=SHARED, said=UNSUBSCRIBED))
    house.run()
    house.source.put(customer(1, address=None, updated_at=house.soon(), said=consent("REDACTED")))
    house.source.put(customer(2, address=AS_PUNYCODE, updated_at=house.soon() + timedelta(seconds=1)))
    assert house.run().refusals == {"no_address": 1, "unsubscribed": 1}


def test_what_the_filter_leaves_out_has_a_say_across_pages_too() -> None:
    house = House.build({**CONTACTS, "filter": "firstName == 'Ada'"}, page_size=1)
    house.source.put(customer(1, "Bo", address=SHARED, said=UNSUBSCRIBED))
    house.source.put(customer(2, address=AS_PUNYCODE))
    run = house.run()
    assert run.states == {"filtered": 1, "refused": 1}


def test_who_says_no_twice_on_one_page_takes_the_other_off_once() -> None:
    house = House.build(page_size=5)
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.run()
    said = customer(2, address=SHARED, updated_at=house.soon(), said=UNSUBSCRIBED)

    async def twice(page: Page) -> Page:
        both = (*page.records, *page.records)
        return replace(page, records=tuple(replace(one, position=at) for at, one in enumerate(both)))

    house.source.put(said)
    house.source.fail("read_page", Fault(change=twice))
    run = house.run()
    assert run.outcome == "succeeded" and not on_list(house)


def test_one_erased_and_another_who_says_no_for_the_same_address_take_it_off_once() -> None:
    house = House.build(page_size=5)
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.run()
    house.source.put(customer(1, address=None, updated_at=house.soon(), said=consent("REDACTED")))
    house.source.put(customer(2, address=SHARED, updated_at=house.soon() + timedelta(seconds=1), said=UNSUBSCRIBED))
    run = house.run()
    assert run.outcome == "succeeded" and not on_list(house)


def test_an_order_goes_not_out_for_an_address_that_another_customer_said_no_for() -> None:
    contacts = House.build()
    orders = beside(contacts, ORDERS, "Orders")
    contacts.source.put(customer(2, address="c1@shop.example", said=UNSUBSCRIBED))
    contacts.run()
    contacts.destination.add_person("c1@shop.example", "memory:1:1")
    contacts.source.put(order(100, of=1))
    assert orders.run(Lane.MANUAL).refusals == {"unsubscribed": 1}
    assert contacts.destination.orders == {}


def test_an_order_heeds_the_lists_that_our_syncs_put_people_on() -> None:
    contacts = House.build()
    orders = beside(contacts, ORDERS, "Orders")
    person = contacts.destination.add_person("c1@shop.example", "memory:1:1")
    person.left_lists.add(7)
    contacts.source.put(order(100, of=1))
    assert orders.run(Lane.MANUAL).refusals == {"destination_unsubscribed": 1}


def test_two_who_say_no_take_the_third_off_once() -> None:
    house = House.build(page_size=5)
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.run()
    for number in (2, 3):
        at = house.soon() + timedelta(seconds=number)
        house.source.put(customer(number, address=SHARED, updated_at=at, said=UNSUBSCRIBED))
    run = house.run()
    assert run.states == {"superseded": 1, "refused": 1}
    assert not on_list(house)
    assert len(house.deliveries(kind="withdrawal")) == 1


def test_the_cursor_stays_until_the_other_record_s_contact_is_off_the_list() -> None:
    house = House.build()
    house.terms = replace(house.terms, retry_scale=1.0)
    house.source.put(customer(1, address=AS_PUNYCODE))
    house.run()
    house.source.put(customer(2, address=SHARED, updated_at=house.soon(), said=UNSUBSCRIBED))
    house.destination.fail("write", Fault(error=memory.errors.Passing("Gone for a moment.")))
    run = house.start()
    house.work()
    run.refresh_from_db()
    assert (run.state, run.states, run.unsettled) == ("waiting", {}, {"failed": 1})
    run = go_on(house)
    assert (run.outcome, run.states) == ("succeeded", {"refused": 1})
    assert not on_list(house)


def test_a_create_that_is_in_doubt_counts_as_one_that_landed() -> None:
    """A person's run gave up on it; the scheduled one reads the "no" of the same address first."""
    house = House.build(page_size=1)
    house.destination.traits = memory.some_traits(deadline=timedelta(milliseconds=50))
    house.source.put(customer(9, address=AS_PUNYCODE))
    house.destination.fail("write", *[Fault(error=memory.lost(), after=True)] * 5)
    failed = house.run(Lane.MANUAL)
    assert (failed.outcome, house.states(), on_list(house)) == ("failed", {"in_doubt": 1}, True)
    house.source.put(customer(2, address=SHARED, said=UNSUBSCRIBED))
    run = house.run()
    assert (run.outcome, run.states) == ("succeeded", {"refused": 2})
    assert not on_list(house)
