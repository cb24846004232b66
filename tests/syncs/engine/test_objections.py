"""One address, several records of the source: the strictest consent holds, on whatever pages they stand (2.7, 3.8)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from connectors import memory
from connectors.memory import Fault
from syncs.domain.lifecycle import Lane
from syncs.models import Objection
from tests.house import CONTACTS, House, consent, customer
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


def test_who_says_no_no_longer_stands_in_nobodys_way() -> None:
    house = House.build()
    house.source.put(customer(1, address=SHARED, said=UNSUBSCRIBED))
    house.run()
    house.source.put(customer(1, address=SHARED, updated_at=house.soon(), said=consent("NOT_SUBSCRIBED")))
    assert house.run().refusals == {"not_subscribed": 1}
    assert not Objection.objects.exists()
    house.source.put(customer(2, address=AS_PUNYCODE, updated_at=house.soon()))
    assert house.run().states == {"written": 1}
    assert on_list(house)


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
    assert not Objection.objects.exists()
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
