"""Shopify keeps the contract of a source, against a shop that speaks its wire form on this machine."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.register_assert_rewrite("tests.connectors.contract.source")

from connectors import errors, protocol, registry, sandbox  # noqa: E402
from connectors.protocol import Record, Stream  # noqa: E402
from connectors.shopify import queries  # noqa: E402
from connectors.shopify import source as shopify  # noqa: E402
from tests.connectors.contract import source as contract  # noqa: E402
from tests.connectors.contract.source import PAGE, START, Doing, SourceContract, WiredSource  # noqa: E402
from tests.connectors.sandbox.callers import write_shop  # noqa: E402
from tests.connectors.shopify.answers import customer, line, order, page, warning  # noqa: E402

T = TypeVar("T")
TOKEN, RENEWED = "shpat_0123456789abcdef", "shpat_fedcba9876543210"
SCHEMAS = Path(__file__).resolve().parents[4] / "shared" / "api" / "schemas"
BUYER = 9
KINDS = {Stream.CUSTOMERS: "customer", Stream.ORDERS: "order"}


@dataclass
class Rig:
    """A shop in two processes: the one that is asked, and one where only the token is another."""

    served: sandbox.Served
    renewed: sandbox.Served
    edge: timedelta = timedelta(seconds=1)

    def put(self, stream: Stream, number: int, at: datetime, *, name: str = "Ada", lines: int = 1) -> None:
        updated = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if stream is Stream.CUSTOMERS:
            node = customer(number, updatedAt=updated, firstName=name)
        else:
            self.served.control("upsert", {"kind": "customer", "node": customer(BUYER)})
            items = [line(item) for item in range(1, lines + 1)]
            node = order(number, updatedAt=updated, name=name, lines=items, customer=customer(BUYER))
        self.served.control("upsert", {"kind": KINDS[stream], "node": node})

    def remove(self, stream: Stream, number: int) -> None:
        assert self.served.control("node", {"id": queries.gid(stream, str(number))}, "DELETE") == {"removed": True}

    def name_of(self, record: Record) -> str:
        return record.order.name if record.order else str(record.fields["firstName"])

    def run(self, doing: Doing[T]) -> T:
        return self._run(doing, self.served.url)

    def run_renewed(self, doing: Doing[T]) -> T:
        return self._run(doing, self.renewed.url, token=RENEWED)

    def run_next_version(self, doing: Doing[T]) -> T:
        return self._run(doing, self.served.url, version="2026-10")

    def run_unreachable(self, doing: Doing[T]) -> T:
        with contextlib.closing(socket.socket()) as nobody:
            nobody.bind(("127.0.0.1", 0))
            return self._run(doing, f"http://127.0.0.1:{nobody.getsockname()[1]}")

    def _run(self, doing: Doing[T], url: str, *, token: str = TOKEN, version: str = queries.VERSION) -> T:
        async def done() -> T:
            settings = {"domain": "demo-shop.myshopify.com", "base_url": url, "version": version}
            source = registry.source("shopify", settings, {"token": token})
            try:
                return await doing(source)
            finally:
                await source.close()

        return asyncio.run(done())

    def lose_scope(self, scope: str) -> None:
        left = [held for held in self.run(lambda source: source.identify()).scopes if held != scope]
        self.served.control("scopes", {"scopes": left})

    def refuse_token(self) -> None:
        self.served.control("token", {"valid": False})

    def throttle(self, wait: timedelta) -> None:
        status = {"maximumAvailable": 2000, "currentlyAvailable": 50, "restoreRate": 100}
        cost = {"requestedQueryCost": 50 + wait.total_seconds() * 100, "throttleStatus": status}
        error = {"message": "Throttled", "extensions": {"code": "THROTTLED"}}
        self.answer({"errors": [error], "extensions": {"cost": cost}})

    def damage(self, name: str) -> None:
        fault = _FAULTS.get(name) or {"kind": "html", "status": 200, "body": _SPOILT[name]}
        self.served.control("faults", {"path": "/admin", **fault})

    def answer(self, body: Any) -> None:
        """The shop's next answer."""
        self.served.control("faults", {"path": "/admin", "kind": "status", "status": 200, "body": body})


_FAULTS: dict[str, dict[str, Any]] = {
    "html": {"kind": "html", "status": 200},
    "outage": {"kind": "status", "status": 503},
    "reset": {"kind": "reset_after"},
}


def _spoilt() -> dict[str, str]:
    """Bodies that look like a page of both streams and are none, as text."""
    whole = page(customer())
    whole["data"] |= page(order(), stream=Stream.ORDERS)["data"]
    text = json.dumps(whole)
    lacking = page(_without(customer(), "dataSaleOptOut"))
    lacking["data"] |= page(_without(order(), "test"), stream=Stream.ORDERS)["data"]
    endless = page(customer(), more=True)
    endless["data"] |= page(order(), stream=Stream.ORDERS, more=True)["data"]
    return {
        "cut": text[: len(text) // 2],
        "empty": "",
        "nan": text.replace('"3"', "NaN").replace('"quantity": 2', '"quantity": NaN', 1),
        "huge_number": text.replace('"3"', "1e999999999"),
        "duplicate_key": text.replace('"data":', '"data": {}, "data":', 1),
        "too_deep": text.replace('["VIP"]', "[" * 70 + "]" * 70),
        "errors_beside": json.dumps({"errors": [{"message": "odd", "extensions": {"code": "NEW"}}], **whole}),
        "key_missing": json.dumps(lacking),
        "nothing": json.dumps({"data": None}),
        "other_shape": json.dumps({"data": {"customers": [], "orders": []}}),
        "more_without_a_cursor": json.dumps(endless),
    }


def _without(node: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != name}


_SPOILT = _spoilt()


@pytest.fixture(scope="module")
def _shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sandbox.Served, sandbox.Served]]:
    empty: Path = write_shop(tmp_path_factory.mktemp("shop") / "empty", [], [])
    with (
        sandbox.serving("shopify", token=TOKEN, shop=empty) as served,
        sandbox.serving("shopify", token=RENEWED, shop=empty) as renewed,
    ):
        yield served, renewed


@pytest.fixture
def rig(_shops: tuple[sandbox.Served, sandbox.Served], monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(queries, "PAGE_SIZES", dict.fromkeys(Stream, PAGE))
    _shops[0].control("reset", {})
    return Rig(*_shops)


class TestShopifySource(SourceContract):
    pass


class TestShopifyWire(WiredSource):
    pass


# --- What only Shopify can do -----------------------------------------------------------------------------------


def test_pages_of_the_real_size_meet_inside_a_tie(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case READ-16: a bulk edit stamps more rows alike than a page holds."""
    monkeypatch.undo()
    for number in range(1, 256):
        rig.put(Stream.CUSTOMERS, number, START)

    found = rig.run(lambda source: contract.pages(source, Stream.CUSTOMERS))

    assert [len(page.records) for page in found] == [250, 5]
    assert contract.ids([record for page in found for record in page.records]) == [str(n) for n in range(1, 256)]


def test_an_order_with_many_lines_is_read_again_whole(rig: Rig) -> None:
    rig.put(Stream.ORDERS, 5, START, lines=45)
    rig.put(Stream.ORDERS, 6, START)

    again = rig.run(lambda source: source.reread(Stream.ORDERS, ["6", "5", "4"]))

    assert [record and len(record.order.lines) for record in again] == [1, 45, None]


def test_an_id_that_is_none_is_a_fault_of_ours_and_is_not_sent(rig: Rig) -> None:
    for wrong in ("gid://shopify/Customer/1", "", "1 2", "-1", "\u0661"):
        with pytest.raises(ValueError, match="decimal"):
            rig.run(lambda source, wrong=wrong: source.reread(Stream.CUSTOMERS, [wrong]))
    assert rig.served.control("summary")["requests"] == 0


def node_answer(*nodes: Any, **more: Any) -> dict[str, Any]:
    return {"data": {"nodes": list(nodes)}, **more}


GONE = {"message": "Access denied", "extensions": {"code": "ACCESS_DENIED", "requiredAccess": "`read_customers` x"}}
UNBELIEVED: list[tuple[Any, type[errors.ConnectorError]]] = [
    (node_answer(), errors.Unreadable),
    (node_answer(customer(1), None, None), errors.Unreadable),
    (node_answer(customer(2), customer(1)), errors.Unreadable),
    (node_answer(order(1), None), errors.Unreadable),
    (node_answer({}, None), errors.Unreadable),
    (node_answer("x", None), errors.Unreadable),
    (node_answer(_without(customer(1), "dataSaleOptOut"), None), errors.Unreadable),
    (node_answer(customer(1, updatedAt="soon"), None), errors.Unreadable),
    ({"data": {"nodes": None}}, errors.Unreadable),
    ({"data": {}}, errors.Unreadable),
    (node_answer(customer(1), None, extensions={"search": [warning("nodes")]}), errors.Unreadable),
    (node_answer(None, None, errors=[GONE]), errors.ScopeMissing),
    (node_answer(customer(1), None, errors=[GONE]), errors.ScopeMissing),
]


@pytest.mark.parametrize(("body", "kind"), UNBELIEVED)
def test_an_answer_by_id_is_believed_as_little_as_a_page(rig: Rig, body: Any, kind: type[Exception]) -> None:
    rig.answer(body)

    assert type(contract.failing(rig, lambda source: source.reread(Stream.CUSTOMERS, ["1", "2"]))) is kind


def test_records_that_show_nobody_when_read_again_were_blanked(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PAGE_SIZES", dict.fromkeys(Stream, 10))
    blank = {"firstName": None, "lastName": None, "defaultEmailAddress": None}
    rig.answer(node_answer(*(customer(number, **blank) for number in range(1, 6))))

    error = contract.failing(rig, lambda source: source.reread(Stream.CUSTOMERS, ["1", "2", "3", "4", "5"]))

    assert (type(error), error.code) == (errors.Unreadable, "redacted")


def test_somebody_read_again_is_asked_for_with_the_fields_of_a_page() -> None:
    for stream in Stream:
        assert queries.selection(queries.NODES[stream]) in queries.REREADS[stream]
        assert queries.selection(queries.NODES[stream]) in queries.PAGES[stream]


@pytest.mark.parametrize("version", ["2026-07", "2026-10"])
def test_reading_again_is_valid_in_the_vendors_schema(version: str) -> None:
    graphql = pytest.importorskip("graphql")
    path = SCHEMAS / f"shopify-admin-{version}.subset.graphql"
    if not path.is_file():
        pytest.skip("Shopify's schema is not beside this repository (../shared/api/schemas).")
    schema = graphql.build_schema(path.read_text(), assume_valid=True)

    for text in queries.REREADS.values():
        assert [str(error) for error in graphql.validate(schema, graphql.parse(text))] == []


def test_no_text_of_the_connector_can_change_a_shop() -> None:
    """PRODUCT 3.10."""
    assert all(text.startswith("query ") for text in queries.REREADS.values())
    for module in (queries, shopify):
        assert "mutation" not in Path(module.__file__).read_text(encoding="utf-8")


def test_half_a_character_in_an_address_is_left_for_the_consent_filter(rig: Rig) -> None:
    """The page is read; nobody is mailed at an address with U+FFFD in it."""
    node = customer(1, updatedAt="2026-11-30T08:00:00Z")
    node["defaultEmailAddress"]["emailAddress"] = "ma\ud83dra@example.com"
    rig.answer(page(node))

    record: protocol.Record = rig.run(contract.page_of(Stream.CUSTOMERS)).records[0]

    assert record.subject is not None
    assert record.subject.address == "ma\ufffdra@example.com"


def test_half_a_character_in_an_id_is_no_id(rig: Rig) -> None:
    rig.answer(page(customer(1, id="gid://shopify/Customer/1\ud83d")))

    assert type(contract.failing(rig, contract.page_of(Stream.CUSTOMERS))) is errors.Unreadable
