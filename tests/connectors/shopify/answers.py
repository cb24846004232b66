"""Answers of Shopify's wire form, small and changeable, and a source that gets them."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from connectors import protocol
from connectors.protocol import Stream
from connectors.shopify import source

TOKEN = "shpat_0123456789abcdef0123456789abcdef"
DOMAIN = "linden-goods.myshopify.com"
SINCE = datetime(2026, 11, 30, 8, 25, tzinfo=UTC)
UNTIL = datetime(2026, 11, 30, 8, 55, tzinfo=UTC)
WINDOW = protocol.Window(SINCE, UNTIL)
HEADERS = {"x-shopify-api-version": "2026-07", "date": "Mon, 30 Nov 2026 08:57:00 GMT"}
COST = {
    "requestedQueryCost": 90,
    "actualQueryCost": 18,
    "throttleStatus": {"maximumAvailable": 2000, "currentlyAvailable": 41, "restoreRate": 100},
}
EMAIL = {
    "emailAddress": "Mara.Lind@example.com",
    "validFormat": True,
    "marketingState": "SUBSCRIBED",
    "marketingOptInLevel": "CONFIRMED_OPT_IN",
    "marketingUpdatedAt": "2026-11-30T08:31:04Z",
}


def customer(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"gid://shopify/Customer/{number}",
        "createdAt": "2026-03-02T09:12:44Z",
        "updatedAt": "2026-11-30T08:31:05Z",
        "firstName": "Mara",
        "lastName": "Lind",
        "displayName": "Mara Lind",
        "locale": "de",
        "tags": ["VIP"],
        "state": "DISABLED",
        "verifiedEmail": True,
        "numberOfOrders": "3",
        "amountSpent": {"amount": "231.1", "currencyCode": "EUR"},
        "dataSaleOptOut": False,
        "defaultEmailAddress": copy.deepcopy(EMAIL),
        "defaultPhoneNumber": None,
        "defaultAddress": None,
        **changes,
    }


def money(amount: str) -> dict[str, Any]:
    return {"shopMoney": {"amount": amount, "currencyCode": "EUR"}}


def line(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"gid://shopify/LineItem/{number}",
        "title": "Bergamot Oil",
        "variantTitle": "50 ml",
        "sku": f"BO-{number}",
        "quantity": 2,
        "currentQuantity": 2,
        "vendor": "Linden",
        "discountedUnitPriceSet": money("27.50"),
        **changes,
    }


def order(number: int = 1, **changes: Any) -> dict[str, Any]:
    lines = changes.pop("lines", [line(1)])
    more = changes.pop("more_lines", None)
    buyer = {"id": "gid://shopify/Customer/9", "dataSaleOptOut": False, "defaultEmailAddress": copy.deepcopy(EMAIL)}
    return {
        "id": f"gid://shopify/Order/{number}",
        "name": f"#{number}",
        "createdAt": "2026-11-30T08:30:59Z",
        "processedAt": "2026-11-30T08:30:58Z",
        "updatedAt": "2026-11-30T08:31:02Z",
        "cancelledAt": None,
        "cancelReason": None,
        "closedAt": None,
        "test": False,
        "confirmed": True,
        "sourceName": "web",
        "email": "mara.lind@example.com",
        "phone": None,
        "customerLocale": "de-DE",
        "displayFinancialStatus": "PAID",
        "displayFulfillmentStatus": "UNFULFILLED",
        "tags": [],
        "discountCodes": [],
        "totalPriceSet": money("55.0"),
        "currentTotalPriceSet": money("55.0"),
        "totalRefundedSet": money("0.0"),
        "customer": buyer,
        "lineItems": {"nodes": lines, "pageInfo": {"hasNextPage": more is not None, "endCursor": more}},
        **changes,
    }


def page(
    *nodes: Any, stream: Stream = Stream.CUSTOMERS, more: Any = False, end: Any = None, **extensions: Any
) -> dict[str, Any]:
    connection = {"edges": [{"node": node} for node in nodes], "pageInfo": {"hasNextPage": more, "endCursor": end}}
    return {"data": {stream.value: connection}, "extensions": {"cost": COST, **extensions}}


def refused(code: str, message: str = "No.", **extensions: Any) -> dict[str, Any]:
    error = {"message": message, "extensions": {"code": code, **extensions}, "path": ["customers"]}
    return {"errors": [error], "data": None, "extensions": {"cost": COST}}


def warning(path: str, field: str = "25") -> dict[str, Any]:
    found = [{"field": field, "message": "Invalid search field for this query.", "code": "invalid_field"}]
    return {"path": [path], "query": "x", "parsed": {}, "warnings": found}


class Shop:
    """Answers the source's questions one after the other (the last one for ever) and keeps the questions."""

    def __init__(self, *bodies: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.bodies = list(bodies)
        self.status = status
        self.headers = HEADERS if headers is None else headers
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.Response(self.status, content=content, headers=self.headers)

    def variables(self, position: int = -1) -> dict[str, Any]:
        return json.loads(self.asked[position].content)["variables"]

    def run(self, doing: Callable[[source.ShopifySource], Awaitable[Any]]) -> Any:
        async def done() -> Any:
            client = source.client(DOMAIN, TOKEN, transport=httpx.MockTransport(self))
            shop = source.ShopifySource(client)
            try:
                return await doing(shop)
            finally:
                await shop.close()

        return asyncio.run(done())

    def read(
        self, stream: Stream = Stream.CUSTOMERS, after: str | None = None, window: protocol.Window = WINDOW
    ) -> protocol.Page:
        return self.run(lambda shop: shop.read_page(stream, window, after))
