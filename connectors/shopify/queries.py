"""What we ask Shopify, as shapes: the query text and the check of the answer come from the same value.

A shape maps a field to None (a value) or to the shape of what is inside. Only fields that `read_customers` and
`read_orders` allow are in here: a location needs another scope, a line item's product too.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from connectors import protocol

Shape = Mapping[str, "Shape | None"]

VERSION = "2026-07"
PAGE_SIZES: Mapping[protocol.Stream, int] = MappingProxyType(
    {protocol.Stream.CUSTOMERS: 250, protocol.Stream.ORDERS: 100}
)
LINES_PER_ORDER = 20
LINES_PER_PAGE = 250
PROBE_FIELD = "vigil_probe"
PROBE = f"{PROBE_FIELD}:1"
ROOTS: Mapping[protocol.Stream, str] = MappingProxyType(
    {protocol.Stream.CUSTOMERS: "customers", protocol.Stream.ORDERS: "orders"}
)
TYPES: Mapping[protocol.Stream, str] = MappingProxyType(
    {protocol.Stream.CUSTOMERS: "Customer", protocol.Stream.ORDERS: "Order"}
)
REREAD_MOST = 250


def _fields(names: str) -> Shape:
    return dict.fromkeys(names.split())


MONEY: Shape = {"shopMoney": _fields("amount currencyCode")}
EMAIL: Shape = _fields("emailAddress validFormat marketingState marketingOptInLevel marketingUpdatedAt")
PHONE: Shape = _fields("phoneNumber marketingState marketingOptInLevel marketingUpdatedAt")
LINES: Shape = {
    "nodes": {**_fields("id title variantTitle sku quantity currentQuantity vendor"), "discountedUnitPriceSet": MONEY},
    "pageInfo": _fields("hasNextPage endCursor"),
}
CUSTOMER: Shape = {
    **_fields("id createdAt updatedAt firstName lastName displayName locale tags state verifiedEmail numberOfOrders"),
    "amountSpent": _fields("amount currencyCode"),
    "dataSaleOptOut": None,
    "defaultEmailAddress": EMAIL,
    "defaultPhoneNumber": PHONE,
    "defaultAddress": _fields("firstName lastName company address1 address2 city provinceCode zip countryCodeV2 phone"),
}
ORDER: Shape = {
    **_fields("id name createdAt processedAt updatedAt cancelledAt cancelReason closedAt test confirmed sourceName"),
    **_fields("email phone customerLocale displayFinancialStatus displayFulfillmentStatus tags discountCodes"),
    "totalPriceSet": MONEY,
    "currentTotalPriceSet": MONEY,
    "totalRefundedSet": MONEY,
    "customer": {"id": None, "dataSaleOptOut": None, "defaultEmailAddress": EMAIL},
    "lineItems": LINES,
}
NODES: Mapping[protocol.Stream, Shape] = MappingProxyType(
    {protocol.Stream.CUSTOMERS: CUSTOMER, protocol.Stream.ORDERS: ORDER}
)
PAGE_INFO: Shape = _fields("hasNextPage endCursor")
COUNT: Shape = _fields("count precision")
PREFLIGHT: Shape = {
    "shop": _fields("id name myshopifyDomain"),
    "currentAppInstallation": {"accessScopes": _fields("handle")},
}


def selection(shape: Shape) -> str:
    """The shape as a GraphQL selection, on one line."""
    parts = (name + _arguments(name) + (f" {selection(inner)}" if inner else "") for name, inner in shape.items())
    return "{ " + " ".join(parts) + " }"


def _arguments(name: str) -> str:
    return f"(first: {LINES_PER_ORDER})" if name == "lineItems" else ""


def _page(stream: protocol.Stream) -> str:
    root = ROOTS[stream]
    return (
        f"query Vigil{root.title()}Page($first: Int!, $after: String, $query: String) {{ "
        f"{root}(first: $first, after: $after, query: $query, sortKey: UPDATED_AT, reverse: false) {{ "
        f"edges {{ node {selection(NODES[stream])} }} pageInfo {selection(PAGE_INFO)} }} }}"
    )


def _count(stream: protocol.Stream) -> str:
    root = ROOTS[stream]
    return (
        f"query Vigil{root.title()}Count($query: String, $probe: String) {{ "
        f"window: {root}Count(query: $query, limit: null) {selection(COUNT)} "
        f"probe: {root}Count(query: $probe, limit: 1) {selection(COUNT)} }}"
    )


def _reread(stream: protocol.Stream) -> str:
    return (
        f"query Vigil{ROOTS[stream].title()}Reread($ids: [ID!]!) {{ "
        f"nodes(ids: $ids) {{ ... on {TYPES[stream]} {selection(NODES[stream])} }} }}"
    )


PAGES: Mapping[protocol.Stream, str] = MappingProxyType({stream: _page(stream) for stream in protocol.Stream})
COUNTS: Mapping[protocol.Stream, str] = MappingProxyType({stream: _count(stream) for stream in protocol.Stream})
REREADS: Mapping[protocol.Stream, str] = MappingProxyType({stream: _reread(stream) for stream in protocol.Stream})
WHO = f"query VigilPreflight {selection(PREFLIGHT)}"
MORE_LINES = (
    "query VigilOrderLines($ids: [ID!]!, $first: Int!, $after: String) { nodes(ids: $ids) { ... on Order { id "
    f"lineItems(first: $first, after: $after) {selection(LINES)} }} }} }}"
)


def window_filter(window: protocol.Window) -> str:
    """The one filter form the search reads as meant: quoted, UTC with Z, whole seconds, an explicit AND.

    A fraction of a second widens the window: ``since`` is cut, ``until`` rounded up.
    """
    upper = f"updated_at:<'{_instant(_rounded_up(window.until))}'"
    if window.since is None:
        return upper
    return f"updated_at:>='{_instant(floor(window.since))}' AND {upper}"


def floor(instant: datetime) -> datetime:
    """The whole second at or before an aware instant, in UTC."""
    if instant.tzinfo is None:
        raise ValueError("a window's bounds need a time zone")
    return instant.astimezone(UTC).replace(microsecond=0)


def _rounded_up(instant: datetime) -> datetime:
    whole = floor(instant)
    return whole if whole == instant else whole + timedelta(seconds=1)


def _instant(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def page_variables(stream: protocol.Stream, window: protocol.Window, after: str | None) -> dict[str, Any]:
    return {"first": PAGE_SIZES[stream], "after": after, "query": window_filter(window)}


def count_variables(window: protocol.Window) -> dict[str, Any]:
    return {"query": window_filter(window), "probe": PROBE}


def gid(stream: protocol.Stream, id: str) -> str:
    """Shopify's global id of a record; ValueError for an id that is no decimal text."""
    if not (id.isascii() and id.isdigit()):
        raise ValueError("a record's id at Shopify is decimal text")
    return f"gid://shopify/{TYPES[stream]}/{id}"


def digest(stream: protocol.Stream, window: protocol.Window, version: str) -> str:
    """SHA-256 (hex) over all that a page cursor depends on: text with its sort, filter, page size, version."""
    parts = (version, PAGES[stream], window_filter(window), str(PAGE_SIZES[stream]))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
