"""The destination against an account that speaks Brevo's wire form on this machine."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from connectors import errors, protocol, registry, sandbox
from connectors.protocol import Landing, Receipt, Write
from tests.connectors.brevo.answers import (
    ADDRESS,
    DAY,
    SUBJECT,
    contact_write,
    event_write,
    order_write,
    withdrawal,
)

T = TypeVar("T")
KEY = "xkeysib-0123456789abcdef"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sandbox.Served]:
    state: Path = tmp_path_factory.mktemp("brevo") / "state.sqlite"
    with sandbox.serving("brevo", api_key=KEY, state=state) as served:
        yield served


@pytest.fixture
def account(served: sandbox.Served) -> sandbox.Served:
    served.control("reset", {})
    return served


def run(served: sandbox.Served, doing: Callable[[protocol.Destination], Awaitable[T]], key: str = KEY) -> T:
    async def done() -> T:
        destination = registry.destination("brevo", {"base_url": served.url}, {"api_key": key})
        try:
            return await doing(destination)
        finally:
            await destination.close()

    return asyncio.run(done())


def write(served: sandbox.Served, *writes: Write, seconds: float = 5, key: str = KEY) -> list[Receipt]:
    return list(run(served, lambda one: one.write(writes, by=time.monotonic() + seconds), key))


def dump(served: sandbox.Served) -> dict[str, Any]:
    found: dict[str, Any] = served.control("dump")
    assert found["violations"] == []
    return found


def a_list(served: sandbox.Served) -> int:
    """A list that exists in a fresh account."""

    async def first(one: protocol.Destination) -> int:
        for number in range(1, 20):
            if await one.list_name(number) is not None:
                return number
        raise AssertionError("the account has no list")

    return run(served, first)


@pytest.fixture
def number(account: sandbox.Served) -> int:
    return a_list(account)


def created(served: sandbox.Served, number: int) -> str:
    receipt = write(served, contact_write(list_id=number))[0]
    assert (receipt.landing, receipt.grants) == (Landing.LANDED, True)
    assert receipt.destination_id is not None
    return receipt.destination_id


def only_contact(served: sandbox.Served) -> dict[str, Any]:
    contacts = dump(served)["contacts"]
    assert len(contacts) == 1
    return contacts[0]


def test_a_contact_is_created_and_updated_and_stays_one(account: sandbox.Served, number: int) -> None:
    """Case DELIV-16."""
    made = created(account, number)

    again = write(account, contact_write(list_id=number, attributes={"FIRSTNAME": "Augusta"}))[0]
    known = contact_write(list_id=number, known=True, destination_id=made, granted_at=DAY)

    assert (again.landing, again.destination_id) == (Landing.LANDED, made)
    assert write(account, known)[0].landing is Landing.LANDED
    contact = only_contact(account)
    assert (contact["email"], contact["ext_id"], contact["listIds"]) == (ADDRESS, SUBJECT, [number])
    assert contact["attributes"]["FIRSTNAME"] == "Ada"


def test_somebody_who_left_the_list_is_not_put_back(account: sandbox.Served, number: int) -> None:
    made = created(account, number)
    account.control("unsubscribe", {"email": ADDRESS, "list_id": number})
    later = contact_write(list_id=number, known=True, destination_id=made, consent_at=DAY + timedelta(days=9))

    assert write(account, later)[0].code == "destination_unsubscribed"
    assert write(account, contact_write(list_id=number))[0].code == "destination_unsubscribed"
    assert only_contact(account)["listIds"] == []


def test_somebody_blocklisted_stays_blocklisted(account: sandbox.Served, number: int) -> None:
    """Case CONS-01."""
    created(account, number)
    account.control("unsubscribe", {"email": ADDRESS})

    assert write(account, contact_write(list_id=number))[0].code == "destination_blocklisted"
    looked = run(account, lambda one: one.look([SUBJECT]))[SUBJECT]
    assert looked is not None and looked.blocklisted and looked.subject_id == SUBJECT
    assert only_contact(account)["emailBlacklisted"] is True


def test_another_address_of_a_known_person_is_refused(account: sandbox.Served, number: int) -> None:
    """Case DELIV-12 b."""
    made = created(account, number)
    moved = {"address": "new@example.com", "list_id": number}

    assert write(account, contact_write(known=True, destination_id=made, **moved))[0].code == "address_changed"
    assert write(account, contact_write(**moved))[0].code == "address_changed"
    assert only_contact(account)["email"] == ADDRESS


def test_a_withdrawal_takes_off_and_may_be_repeated(account: sandbox.Served, number: int) -> None:
    made = created(account, number)

    for _ in range(2):
        assert write(account, withdrawal(list_id=number, destination_id=made))[0].landing is Landing.LANDED
    assert write(account, withdrawal(list_id=number, destination_id=None))[0].landing is Landing.LANDED
    assert only_contact(account)["listIds"] == []


def test_a_list_that_is_gone_ends_the_run(account: sandbox.Served) -> None:
    for missing in (contact_write(list_id=987), withdrawal(list_id=987, destination_id=None)):
        with pytest.raises(errors.Refused) as caught:
            write(account, missing)
        assert caught.value.code == "list_missing"
    assert dump(account)["contacts"] == []


def test_history_lands_without_a_trigger_and_a_live_order_with_one(account: sandbox.Served, number: int) -> None:
    created(account, number)
    writes = [order_write(1, history=True), order_write(2), order_write(3, history=True)]

    receipts = write(account, *writes)

    assert [receipt.landing for receipt in receipts] == [Landing.LANDED] * 3
    orders = {order["id"]: order for order in dump(account)["orders"]}
    assert {key: order["triggers"] for key, order in orders.items()} == {
        "shopify:linden:1": 0,
        "shopify:linden:2": 1,
        "shopify:linden:3": 0,
    }
    assert all(order["contact_id"] for order in orders.values())
    assert orders["shopify:linden:2"]["amount"] == 55.1


def test_an_event_lost_after_it_landed_is_found_by_its_key(account: sandbox.Served, number: int) -> None:
    """Case DELIV-01."""
    event = event_write(destination_id=created(account, number))
    account.control("faults", {"path": "/v3/events", "kind": "reset_after"})

    assert write(account, event)[0].landing is Landing.IN_DOUBT
    doubts = [
        protocol.Doubt(key, "1", "order_placed", SUBJECT, event.destination_id, DAY, DAY) for key in ("beef", "dead")
    ]
    assert run(account, lambda one: one.find(doubts, by=time.monotonic() + 5)) == {"beef"}
    assert len(dump(account)["events"]) == 1


FAULTS: list[tuple[dict[str, Any], Landing, int]] = [
    ({"kind": "status", "status": 500}, Landing.IN_DOUBT, 0),
    ({"kind": "html"}, Landing.IN_DOUBT, 0),
    ({"kind": "reset_after"}, Landing.IN_DOUBT, 1),
    ({"kind": "timeout_after", "seconds": 0.3}, Landing.IN_DOUBT, 1),
    ({"kind": "timeout_before", "seconds": 0.3}, Landing.IN_DOUBT, 0),
    ({"kind": "status", "status": 429, "headers": {"x-sib-ratelimit-reset": "3"}}, Landing.PASSING, 0),
    ({"kind": "status", "status": 425}, Landing.PASSING, 0),
]


@pytest.mark.parametrize(("fault", "landing", "stored"), FAULTS)
def test_a_fault_is_told_for_what_it_is_and_a_repeat_makes_one_contact(
    account: sandbox.Served, number: int, fault: dict[str, Any], landing: Landing, stored: int
) -> None:
    """Cases DELIV-01, HTTP-09."""
    account.control("faults", {"path": "/v3/contacts", "method": "POST", **fault})

    receipt = write(account, contact_write(list_id=number), seconds=0.2)[0]

    assert (receipt.landing, len(dump(account)["contacts"])) == (landing, stored)
    assert receipt.wait == (timedelta(seconds=3) if fault.get("status") == 429 else None)
    assert write(account, contact_write(list_id=number))[0].landing is Landing.LANDED
    assert only_contact(account)["listIds"] == [number]


def test_a_wrong_key_ends_the_run(account: sandbox.Served) -> None:
    with pytest.raises(errors.TokenRefused):
        write(account, contact_write(), key="xkeysib-another-key")


def test_the_account_and_its_attributes_are_shown(account: sandbox.Served) -> None:
    identity = run(account, lambda one: one.identify())
    attributes = run(account, lambda one: one.attributes())

    assert (identity.account, identity.label) == ("sandbox", "Example Goods")
    assert attributes["FIRSTNAME"] == "text"
