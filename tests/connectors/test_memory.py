"""The pair in memory behaves where an engine could go wrong."""

import asyncio
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from connectors import errors, memory, protocol
from connectors.memory import Fault, MemoryDestination, MemorySource
from connectors.protocol import EffectKind, Landing, Receipt, Stream, Window, Write
from tests.connectors.brevo.answers import (
    ADDRESS,
    DAY,
    SUBJECT,
    an_order,
    contact_write,
    event_write,
    order_write,
    withdrawal,
)

T = TypeVar("T")
WINDOW = Window(None, DAY + timedelta(days=1))


def run(awaited: Awaitable[T]) -> T:
    async def awaiting() -> T:
        return await awaited

    return asyncio.run(awaiting())


def record(number: int, minutes: int | None = 0) -> protocol.Record:
    at = None if minutes is None else DAY + timedelta(minutes=minutes)
    return protocol.Record(Stream.CUSTOMERS, str(number), 0, at, {"id": number}, None)


def source(*records: protocol.Record, page_size: int = 2) -> MemorySource:
    return MemorySource({Stream.CUSTOMERS: records}, page_size=page_size)


def read_all(one: MemorySource, window: Window = WINDOW) -> list[list[str]]:
    pages, after = [], None
    while True:
        page = run(one.read_page(Stream.CUSTOMERS, window, after))
        pages.append([record.id for record in page.records])
        assert [record.position for record in page.records] == list(range(len(page.records)))
        after = page.next
        if after is None:
            return pages


# --- source -----------------------------------------------------------------------------------------------------


def test_pages_come_in_order_and_no_tie_is_lost_at_an_edge() -> None:
    """Case READ-16."""
    one = source(record(12, 5), record(3, 5), record(20, 5), record(1, 9), record(7, None))

    assert read_all(one) == [["7", "3"], ["12", "20"], ["1"]]


def test_the_window_holds_its_first_instant_and_not_its_last() -> None:
    one = source(record(1, 0), record(2, 5), record(3, 10))
    window = Window(DAY, DAY + timedelta(minutes=10))

    assert read_all(one, window) == [["1", "2"]]
    assert run(one.count(Stream.CUSTOMERS, window)) == protocol.Count(2, exact=True)


def test_a_record_put_again_takes_the_place_of_the_old_one() -> None:
    one = source(record(1, 0))
    one.put(record(1, 7))

    assert [held.updated_at for held in one.records[Stream.CUSTOMERS]] == [DAY + timedelta(minutes=7)]


def test_a_changed_query_has_another_digest() -> None:
    one = source()

    assert one.query_digest(Stream.CUSTOMERS, WINDOW) != one.query_digest(Stream.ORDERS, WINDOW)
    assert one.query_digest(Stream.CUSTOMERS, WINDOW) != one.query_digest(Stream.CUSTOMERS, Window(DAY, WINDOW.until))


@pytest.mark.parametrize(
    ("change", "shown"),
    [(memory.repeated_cursor, (1, "again")), (memory.emptied, (0, None)), (memory.another_version, (1, None))],
)
def test_a_page_can_be_changed_on_its_way(change: Any, shown: tuple[int, str | None]) -> None:
    one = source(record(1))
    one.fail("read_page", Fault(change=change))

    page = run(one.read_page(Stream.CUSTOMERS, WINDOW, None))

    assert (len(page.records), page.next) == shown
    assert page.version_served == ("memory-2" if change is memory.another_version else "memory-1")


def test_a_count_can_contradict_the_pages() -> None:
    one = source(record(1))
    one.fail("count", Fault(change=memory.counted(3, exact=False)))

    assert run(one.count(Stream.CUSTOMERS, WINDOW)) == protocol.Count(3, exact=False)
    assert run(one.count(Stream.CUSTOMERS, WINDOW)) == protocol.Count(1, exact=True)


def test_faults_come_in_turn_and_then_the_call_goes_well() -> None:
    one = source(record(1))
    one.fail("read_page", errors.Passing("no"), memory.contradiction())

    kinds = []
    for _ in range(2):
        with pytest.raises(errors.ConnectorError) as caught:
            run(one.read_page(Stream.CUSTOMERS, WINDOW, None))
        kinds.append(type(caught.value))

    assert kinds == [errors.Passing, errors.Unreadable]
    assert read_all(one) == [["1"]]
    assert one.called("read_page") == [(Stream.CUSTOMERS, WINDOW, None)] * 3


def test_a_change_may_wait_so_that_a_test_stands_inside_the_call() -> None:
    async def inside() -> list[str]:
        one, entered, leave = source(record(1)), asyncio.Event(), asyncio.Event()

        async def wait(page: protocol.Page) -> protocol.Page:
            entered.set()
            await leave.wait()
            return page

        one.fail("read_page", Fault(change=wait))
        reading = asyncio.create_task(one.read_page(Stream.CUSTOMERS, WINDOW, None))
        await entered.wait()
        assert not reading.done()
        leave.set()
        return [record.id for record in (await reading).records]

    assert asyncio.run(inside()) == ["1"]


def test_both_sides_say_who_they_are() -> None:
    for one in (source(), MemoryDestination()):
        identity = run(one.identify())
        assert datetime.now(UTC) - identity.server_time < timedelta(minutes=1)
        run(one.close())
        assert one.closed


def test_both_sides_keep_the_protocol() -> None:
    pair: tuple[protocol.Source, protocol.Destination] = (source(), MemoryDestination())

    assert [side.kind for side in pair] == ["memory", "memory"]


# --- destination ------------------------------------------------------------------------------------------------


def write(one: MemoryDestination, *writes: Write, seconds: float = 5) -> list[Receipt]:
    return list(run(one.write(writes, by=time.monotonic() + seconds)))


def delivered() -> tuple[MemoryDestination, memory.Person]:
    one = MemoryDestination()
    write(one, contact_write())
    person = one.person(ADDRESS)
    assert person is not None
    return one, person


def known(person: memory.Person, **changes: Any) -> Write:
    return contact_write(known=True, destination_id=person.id, granted_at=DAY, **changes)


def test_an_unknown_contact_is_created_on_the_list() -> None:
    one = MemoryDestination()

    receipts = write(one, contact_write(attributes={"FIRSTNAME": "Ada", "SMS": None}))

    assert receipts == [Receipt("c0ffee", Landing.LANDED, destination_id="1", grants=True)]
    assert one.people == {"1": memory.Person("1", SUBJECT, ADDRESS, {"FIRSTNAME": "Ada"}, {7})}


@pytest.mark.parametrize("subject_id", [SUBJECT, None])
def test_a_contact_that_exists_is_updated(subject_id: str | None) -> None:
    """Case DELIV-16."""
    one = MemoryDestination()
    person = one.add_person(ADDRESS.upper(), subject_id)

    assert write(one, contact_write()) == [Receipt("c0ffee", Landing.LANDED, destination_id="1", grants=True)]
    assert (len(one.people), person.subject_id, person.lists) == (1, SUBJECT, {7})


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"blocklisted": True}, "destination_blocklisted"),
        ({"left_lists": {7}, "blocklisted": True}, "destination_unsubscribed"),
        ({"address": "old@example.com"}, "address_changed"),
    ],
)
def test_the_destinations_no_wins(state: dict[str, Any], code: str) -> None:
    """Case CONS-01."""
    one, person = delivered()
    for name, value in state.items():
        setattr(person, name, value)

    receipts = write(one, known(person, attributes={"FIRSTNAME": "Eve"}))

    assert [(receipt.landing, receipt.code) for receipt in receipts] == [(Landing.REFUSED, code)]
    assert person.attributes == {"FIRSTNAME": "Ada"}


def test_somebody_deleted_is_suppressed_and_a_new_creation_is_a_violation() -> None:
    """Case CONS-08."""
    one, person = delivered()
    one.delete(person)

    receipts = write(one, known(person))
    assert [(receipt.code, receipt.suppress) for receipt in receipts] == [("suppressed", True)]
    assert (one.people, one.violations) == ({}, [])

    write(one, contact_write())
    assert len(one.violations) == 1


def test_somebody_taken_off_by_hand_stays_off_until_newer_consent() -> None:
    one, person = delivered()
    person.lists.clear()

    assert write(one, known(person))[0].code == "left_off_list"
    assert person.lists == set()
    assert write(one, known(person, consent_at=DAY + timedelta(days=1)))[0].grants is True
    assert person.lists == {7}


def test_a_withdrawal_takes_somebody_off_the_list() -> None:
    one, person = delivered()

    assert write(one, withdrawal(destination_id=person.id))[0].landing is Landing.LANDED
    assert person.lists == set()
    one.delete(person)
    assert write(one, withdrawal(destination_id=person.id))[0].suppress is True


def test_a_list_that_is_gone_ends_the_run_before_anything_is_created() -> None:
    one = MemoryDestination(lists={})

    with pytest.raises(errors.Refused) as caught:
        write(one, contact_write())

    assert (caught.value.code, one.people) == ("list_missing", {})


def test_orders_are_kept_by_their_id_and_history_triggers_nothing() -> None:
    one, _ = delivered()

    write(one, order_write(1), order_write(2, history=True), order_write(1, order=an_order(status="refunded")))

    assert {key: order.status for key, order in one.orders.items()} == {"1": "refunded", "2": "paid"}
    assert one.triggered == ["1", "1"]


def test_events_are_appended_without_looking() -> None:
    """Case DELIV-01."""
    one, person = delivered()
    event = event_write(destination_id=person.id)

    write(one, event)
    write(one, event)

    assert [(appended.name, appended.effect_key) for appended in one.events] == [("order_placed", "beef")] * 2
    doubts = [protocol.Doubt(key, "1", "order_placed", SUBJECT, person.id, DAY, DAY) for key in ("beef", "dead")]
    assert run(one.find(doubts, by=0)) == {"beef"}


def test_an_event_for_a_stranger_is_rejected_and_one_for_somebody_blocked_a_violation() -> None:
    """PRODUCT 3.9."""
    one, person = delivered()

    assert write(one, event_write(destination_id="99"))[0].landing is Landing.REJECTED
    person.blocklisted = True
    write(one, event_write(destination_id=person.id))
    write(one, order_write(1, destination_id=person.id))
    assert len(one.violations) == 2


def test_people_are_looked_at_as_they_are_now() -> None:
    one, person = delivered()
    person.left_lists.add(9)

    by_id = run(one.look([SUBJECT, "x"]))

    assert by_id[SUBJECT] == protocol.Contact("1", SUBJECT, False, frozenset({9}), frozenset({7}), {"FIRSTNAME": "Ada"})
    assert by_id["x"] is None
    assert run(one.look_address([ADDRESS, "x@example.com"])) == {ADDRESS: by_id[SUBJECT], "x@example.com": None}


def test_lists_and_attributes_are_what_a_test_says() -> None:
    one = MemoryDestination(lists={3: "VIP"}, attributes={"NOM": "text"})

    assert (run(one.list_name(3)), run(one.list_name(4))) == ("VIP", None)
    assert run(one.attributes()) == {"NOM": "text"}


@pytest.mark.parametrize(("after", "people"), [(False, 0), (True, 1)])
def test_an_answer_can_be_lost_before_or_after_the_write_took_effect(after: bool, people: int) -> None:
    """Case DELIV-03."""
    one = MemoryDestination()
    one.fail("write", Fault(error=memory.lost(), after=after))

    with pytest.raises(errors.InDoubt):
        write(one, contact_write())

    assert len(one.people) == people
    assert write(one, contact_write())[0].landing is Landing.LANDED
    assert len(one.people) == 1


@pytest.mark.parametrize("applied", [False, True])
def test_single_writes_of_a_batch_can_end_on_their_own(applied: bool) -> None:
    """Case DELIV-04."""
    one, _ = delivered()
    one.answer_for("02", Receipt("", Landing.IN_DOUBT, "in_doubt"), applied=applied)

    receipts = write(one, order_write(1), order_write(2), order_write(3))

    assert [(receipt.effect_key, receipt.landing) for receipt in receipts] == [
        ("01", Landing.LANDED),
        ("02", Landing.IN_DOUBT),
        ("03", Landing.LANDED),
    ]
    assert ("2" in one.orders) is applied
    assert write(one, order_write(2))[0].landing is Landing.LANDED


def test_nothing_is_written_after_the_deadline() -> None:
    one = MemoryDestination()

    receipts = write(one, contact_write(), seconds=-1)

    assert [(receipt.landing, receipt.code) for receipt in receipts] == [(Landing.PASSING, "not_sent")]
    assert one.people == {}


@pytest.mark.parametrize("writes", [[contact_write(), contact_write()], [order_write(), event_write()]])
def test_more_or_other_writes_than_the_traits_say_are_a_fault(writes: list[Write]) -> None:
    with pytest.raises(ValueError):
        write(MemoryDestination(), *writes)


def test_the_traits_can_be_set_for_all_kinds() -> None:
    assert {traits.settle for traits in memory.some_traits(settle=timedelta(1)).values()} == {timedelta(1)}
    assert set(memory.some_traits()) == set(EffectKind)
