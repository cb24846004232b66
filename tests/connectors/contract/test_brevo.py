"""Brevo keeps the contract of a destination, against an account that speaks its wire form on this machine."""

import asyncio
import contextlib
import json
import socket
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import pytest

pytest.register_assert_rewrite("tests.connectors.contract.destination")

from connectors import registry, sandbox  # noqa: E402
from connectors.protocol import EffectKind, Landing, Receipt, Write  # noqa: E402
from tests.connectors.brevo.answers import ADDRESS, an_order, order_write  # noqa: E402
from tests.connectors.contract import destination as contract  # noqa: E402
from tests.connectors.contract.destination import (  # noqa: E402
    ALL,
    LONG,
    DestinationContract,
    Doing,
    Person,
    State,
    delivered,
    landing,
    prepared,
    write,
)

T = TypeVar("T")
KEY, RENEWED, WRONG = "xkeysib-0123456789abcdef", "xkeysib-fedcba9876543210", "xkeysib-of-somebody-else"
PATHS = {
    EffectKind.CONTACT: "/v3/contacts",
    EffectKind.WITHDRAWAL: "/v3/contacts/lists",
    EffectKind.ORDER: "/v3/orders/status",
    EffectKind.EVENT: "/v3/events",
}


@dataclass
class Rig:
    """An account in two processes: the one that is written to, and one where only the key is another."""

    served: sandbox.Served
    renewed: sandbox.Served

    def run(self, doing: Doing[T]) -> T:
        return self._run(doing, self.served.url)

    def run_renewed(self, doing: Doing[T]) -> T:
        return self._run(doing, self.renewed.url, RENEWED)

    def run_refused(self, doing: Doing[T]) -> T:
        return self._run(doing, self.served.url, WRONG)

    def write_unreachable(self, writes: Sequence[Write]) -> Sequence[Receipt]:
        with contextlib.closing(socket.socket()) as nobody:
            nobody.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            return self._run(lambda one: one.write(writes, by=time.monotonic() + LONG), url)

    def _run(self, doing: Doing[T], url: str, key: str = KEY) -> T:
        async def done() -> T:
            one = registry.destination("brevo", {"base_url": url}, {"api_key": key})
            try:
                return await doing(one)
            finally:
                await one.close()

        return asyncio.run(done())

    def state(self) -> State:
        dump = self.served.control("dump")
        numbers = {order["id"]: order["id"].rpartition(":")[2] for order in dump["orders"]}
        return State(
            people=tuple(_person(contact) for contact in dump["contacts"]),
            orders={numbers[order["id"]]: order["status"] for order in dump["orders"]},
            events=tuple((event["event_name"], event["event_properties"]["vigil_key"]) for event in dump["events"]),
            triggered={numbers[order["id"]]: order["triggers"] for order in dump["orders"]},
            violations=tuple(violation["kind"] for violation in dump["violations"]),
        )

    def requests(self) -> int:
        return int(self.served.control("summary")["requests"])

    def add(self, address: str, subject_id: str | None = None, **held: Any) -> str:
        contact = {
            "email": address,
            "emailBlacklisted": held.get("blocked", False),
            "listIds": sorted(held.get("lists", ())),
            "listUnsubscribed": sorted(held.get("left", ())),
            **({"ext_id": subject_id} if subject_id else {}),
        }
        return str(self.served.control("contacts", contact)["id"])

    def unsubscribe(self, address: str, list_id: int | None = None) -> None:
        self.served.control("unsubscribe", {"email": address, **({"list_id": list_id} if list_id else {})})

    def take_off(self, address: str, list_id: int) -> None:
        self._staff("POST", f"/contacts/lists/{list_id}/contacts/remove", {"emails": [address]})

    def delete(self, address: str) -> None:
        self._staff("DELETE", f"/contacts/{address}")

    def _staff(self, method: str, path: str, body: Any = None) -> None:
        """Somebody at the vendor, past the connector."""
        headers = {"api-key": KEY, "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.served.url}/v3{path}", content, headers, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=LONG):
            pass

    def lose_answer(self, write: Write, *, applied: bool) -> None:
        self._meet(write, kind="timeout_after" if applied else "timeout_before", seconds=contract.SHORT * 2)

    def throttle(self, write: Write, wait: timedelta | None) -> None:
        headers = {} if wait is None else {"x-sib-ratelimit-reset": str(int(wait.total_seconds()))}
        self._meet(write, kind="status", status=429, headers=headers)

    def rejected_order(self, number: int, *, history: bool) -> Write:
        return order_write(number, order=an_order(status=""), history=history)

    def _meet(self, write: Write, **fault: Any) -> None:
        known = write.kind is EffectKind.CONTACT and write.known
        self.served.control("faults", {"path": PATHS[write.kind], "method": "PUT" if known else "POST", **fault})


def _person(contact: dict[str, Any]) -> Person:
    attributes = {name: value for name, value in contact["attributes"].items() if name != "EXT_ID"}
    return Person(
        str(contact["id"]),
        contact["email"],
        contact["ext_id"],
        contact["emailBlacklisted"],
        frozenset(contact["listIds"]),
        frozenset(contact["listUnsubscribed"]),
        attributes,
    )


@pytest.fixture(scope="module")
def _accounts() -> Iterator[tuple[sandbox.Served, sandbox.Served]]:
    with sandbox.serving("brevo", api_key=KEY) as served, sandbox.serving("brevo", api_key=RENEWED) as renewed:
        yield served, renewed


@pytest.fixture
def rig(_accounts: tuple[sandbox.Served, sandbox.Served]) -> Rig:
    _accounts[0].control("reset", {})
    return Rig(*_accounts)


class TestBrevoDestination(DestinationContract):
    pass


# --- What only a wire can do ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_after_the_deadline_no_byte_reaches_brevo(rig: Rig, kind: str) -> None:
    """PRODUCT 3.2."""
    one = prepared(rig, kind)
    heard = rig.requests()

    assert landing(rig, one, seconds=-0.001) == [Landing.PASSING]
    assert rig.requests() == heard


def test_no_write_and_no_question_reach_brevo_for_nothing(rig: Rig) -> None:
    async def nothing(one: Any) -> None:
        await one.write([], by=time.monotonic() + LONG)
        await one.find([], by=time.monotonic() + LONG)
        await one.look([])

    rig.run(nothing)

    assert rig.requests() == 0


def test_a_call_is_made_once_however_it_ends(rig: Rig) -> None:
    """PRODUCT 4.1: inside an attempt nothing is retried. Case DELIV-02."""
    for fault in ({"kind": "status", "status": 503}, {"kind": "status", "status": 429}, {"kind": "reset_after"}):
        rig.served.control("reset", {})
        rig.served.control("faults", {"path": "/v3/contacts", "method": "POST", "times": 9, **fault})

        assert landing(rig, contract.contact_write())[0] in (Landing.IN_DOUBT, Landing.PASSING)
        assert rig.requests() == 1


def test_a_batch_that_brevo_takes_and_does_not_show_in_time_is_in_doubt(rig: Rig) -> None:
    """PRODUCT 2.8: 202 is not landed. The repeat confirms it, and there is one order."""
    one = order_write(1, destination_id=delivered(rig), history=True)
    rig.served.control("faults", {"path": "/v3/orders", "method": "GET", "kind": "status", "status": 503})

    receipt = write(rig, one)[0]

    assert (receipt.landing, receipt.code) == (Landing.IN_DOUBT, "unconfirmed")
    assert landing(rig, one) == [Landing.LANDED]
    assert rig.state().orders == {"1": "paid"}


def test_a_batch_refused_as_a_whole_does_not_ask_for_ever(rig: Rig) -> None:
    """Case DELIV-05: every order refused alike is told as such, in few calls."""
    writes = [rig.rejected_order(number, history=True) for number in range(1, 101)]
    heard = rig.requests()

    receipts = write(rig, *writes)

    assert {receipt.landing for receipt in receipts} == {Landing.REJECTED}
    assert rig.requests() - heard <= 20


@pytest.mark.parametrize("body", ['{"id": 5', "<html>down</html>", '{"id": NaN}', '{"id": 1, "id": 2}', "{}", ""])
def test_a_contact_that_cannot_be_read_is_no_stranger(rig: Rig, body: str) -> None:
    """PRODUCT 3.7: nobody is taken for unknown, or for willing, because an answer was spoilt."""
    id = delivered(rig)
    fault = {"path": "/v3/contacts/", "method": "GET", "kind": "html", "status": 200, "body": body}
    before = rig.state()

    rig.served.control("faults", fault)
    with pytest.raises(contract.errors.ConnectorError) as caught:
        rig.run(lambda one: one.look([contract.SUBJECT]))
    assert isinstance(caught.value, contract.errors.Passing | contract.errors.Unreadable)
    rig.served.control("faults", fault)
    receipt = write(rig, contract.known(id, attributes={"FIRSTNAME": "Eve"}))[0]

    assert (receipt.landing, receipt.suppress) == (Landing.PASSING, False)
    assert rig.state() == before


def test_half_a_character_in_a_name_does_not_hide_a_contact(rig: Rig) -> None:
    body = {"id": 5, "emailBlacklisted": True, "listIds": [], "email": ADDRESS, "attributes": {"FIRSTNAME": "\ud83d"}}
    rig.served.control(
        "faults", {"path": "/v3/contacts/", "method": "GET", "kind": "status", "status": 200, "body": body}
    )

    seen = rig.run(lambda one: one.look([contract.SUBJECT]))[contract.SUBJECT]

    assert seen is not None
    assert (seen.blocklisted, seen.attributes) == (True, {"FIRSTNAME": "\ufffd"})
