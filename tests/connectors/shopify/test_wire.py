"""The source against a shop that speaks Shopify's wire form on this machine."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from connectors import errors, protocol, registry, sandbox
from connectors.protocol import Stream
from tests.connectors.shopify.answers import line, order

T = TypeVar("T")
TOKEN = "shpat_0123456789abcdef"
EVER = protocol.Window(None, datetime.now(UTC) - timedelta(minutes=2))


@pytest.fixture(scope="module")
def served() -> Iterator[sandbox.Served]:
    with sandbox.serving("shopify", token=TOKEN) as served:
        yield served


@pytest.fixture
def shop(served: sandbox.Served) -> sandbox.Served:
    served.control("reset", {})
    return served


def run(served: sandbox.Served, doing: Callable[[protocol.Source], Awaitable[T]], token: str = TOKEN) -> T:
    async def done() -> T:
        settings = {"domain": "example-goods.myshopify.com", "base_url": served.url}
        source = registry.source("shopify", settings, {"token": token})
        try:
            return await doing(source)
        finally:
            await source.close()

    return asyncio.run(done())


async def read_all(source: protocol.Source, stream: Stream, window: protocol.Window) -> list[protocol.Record]:
    records: list[protocol.Record] = []
    after = None
    while True:
        page = await source.read_page(stream, window, after)
        records.extend(page.records)
        after = page.next
        if after is None:
            return records


def failing(served: sandbox.Served, token: str = TOKEN) -> errors.ConnectorError:
    with pytest.raises(errors.ConnectorError) as caught:
        run(served, lambda source: source.read_page(Stream.CUSTOMERS, EVER, None), token)
    return caught.value


@pytest.mark.parametrize("stream", list(Stream))
def test_every_record_is_read_once_and_the_count_agrees(shop: sandbox.Served, stream: Stream) -> None:
    async def both(source: protocol.Source) -> tuple[list[protocol.Record], protocol.Count]:
        return await read_all(source, stream, EVER), await source.count(stream, EVER)

    records, count = run(shop, both)

    assert count == protocol.Count(len(records), exact=True)
    assert len({record.id for record in records}) == len(records) > 0
    assert all((record.order is not None) is (stream is Stream.ORDERS) for record in records)


def test_a_window_reads_what_changed_in_it(shop: sandbox.Served) -> None:
    records = run(shop, lambda source: read_all(source, Stream.CUSTOMERS, EVER))
    times = sorted(record.updated_at for record in records if record.updated_at)
    window = protocol.Window(times[len(times) // 2], times[-1] + timedelta(seconds=1))

    inside = run(shop, lambda source: read_all(source, Stream.CUSTOMERS, window))

    wanted = {record.id for record in records if record.updated_at and record.updated_at >= times[len(times) // 2]}
    assert {record.id for record in inside} == wanted


def test_the_shop_says_who_it_is(shop: sandbox.Served) -> None:
    identity = run(shop, lambda source: source.identify())

    assert {"read_customers", "read_orders"} <= set(identity.scopes)
    assert abs(identity.server_time - datetime.now(UTC)) < timedelta(minutes=1)
    assert identity.version_served == identity.version_asked


def test_a_wrong_token_is_refused(shop: sandbox.Served) -> None:
    assert type(failing(shop, "shpat_another_token")) is errors.TokenRefused


def test_a_lost_scope_is_no_empty_shop(shop: sandbox.Served) -> None:
    shop.control("scopes", {"scopes": ["read_orders"]})

    error = failing(shop)

    assert type(error) is errors.ScopeMissing
    assert "read_customers" in error.sentence


FAULTS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"kind": "status", "status": 503}, errors.Passing),
    ({"kind": "status", "status": 423}, errors.Refused),
    ({"kind": "status", "status": 200, "body": {"data": None}}, errors.Unreadable),
    ({"kind": "html", "status": 200}, errors.Passing),
    ({"kind": "reset_after"}, errors.Passing),
]


@pytest.mark.parametrize(("fault", "kind"), FAULTS)
def test_a_fault_ends_the_read_and_the_next_one_goes_well(
    shop: sandbox.Served, fault: dict[str, Any], kind: type[Exception]
) -> None:
    shop.control("faults", {"path": "/admin", **fault})

    assert type(failing(shop)) is kind
    assert run(shop, lambda source: source.read_page(Stream.CUSTOMERS, EVER, None)).records


def test_a_cursor_of_another_query_starts_the_window_again(shop: sandbox.Served) -> None:
    """Case READ-11."""
    page = run(shop, lambda source: source.read_page(Stream.CUSTOMERS, EVER, None))
    assert page.next is not None

    with pytest.raises(errors.CursorStale):
        run(shop, lambda source: source.read_page(Stream.CUSTOMERS, EVER, "nonsense"))


def test_an_order_with_many_lines_is_read_whole(shop: sandbox.Served) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    lines = {"nodes": [line(number) for number in range(25)]}
    node = order(5, customer=None, updatedAt=now.strftime("%Y-%m-%dT%H:%M:%SZ"), lineItems=lines)
    shop.control("upsert", {"kind": "order", "node": node})
    window = protocol.Window(now - timedelta(minutes=5), now + timedelta(minutes=5))

    records = run(shop, lambda source: read_all(source, Stream.ORDERS, window))

    assert [(record.id, len(record.order.lines)) for record in records if record.order] == [("5", 25)]
