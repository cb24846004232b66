"""Where a sandbox shop's customers and orders come from: a folder of JSON lines, or invented ones.

A node is kept as the bytes it came as, beside a small index; it is parsed when it is served, so that twenty thousand
orders stay small. Nodes have the keys of the Shopify Admin GraphQL API; what they lack and its schema demands is
filled in when they are served.
"""

import bisect
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Node = dict[str, Any]
Kind = Literal["Customer", "Order"]
SortKey = Literal["id", "updated_at", "created_at", "processed_at"]

DEFAULT_CURRENCY = "GBP"

_GID = re.compile(r"gid://shopify/(Customer|Order)/([1-9][0-9]{0,18})\Z")
_FILES: dict[Kind, str] = {"Customer": "customers.jsonl", "Order": "orders.jsonl"}


class ShopUnreadable(Exception):
    """A shop that cannot be loaded; its text is one sentence that says what to do and quotes no content."""


class NodeUnusable(ValueError):
    """One node that cannot be kept; its text says what is wrong with it and quotes no content."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a node without parsing it. Times are milliseconds since 1970, UTC."""

    number: int
    updated_at: int
    created_at: int
    processed_at: int
    email: str | None
    customer: int | None

    def key(self, sort: SortKey) -> tuple[int, int]:
        return (self.number if sort == "id" else int(getattr(self, sort)), self.number)


class Nodes:
    """All nodes of one kind, found by number or in the order of a sort key."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.changes = 0
        self._raw: dict[int, bytes] = {}
        self._rows: dict[int, Row] = {}
        self._sorted: dict[SortKey, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, number: int) -> bool:
        return number in self._rows

    def rows(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def row(self, number: int) -> Row | None:
        return self._rows.get(number)

    def node(self, number: int) -> Node | None:
        """The node as it is served, or None when there is none with this number."""
        raw = self._raw.get(number)
        return None if raw is None else _COMPLETE[self.kind](json.loads(raw), number)

    def in_order(self, sort: SortKey) -> list[tuple[int, int]]:
        """(value, number) of every node, ascending; the list is this object's own and must not be changed."""
        if sort not in self._sorted:
            self._sorted[sort] = sorted(row.key(sort) for row in self._rows.values())
        return self._sorted[sort]

    def put(self, node: Node, raw: bytes) -> Row:
        """Adds a node or replaces the one with its id; raises NodeUnusable."""
        row = _row_of(self.kind, node)
        self.remove(row.number)
        self._rows[row.number], self._raw[row.number] = row, raw
        for sort, keys in self._sorted.items():
            bisect.insort(keys, row.key(sort))
        self.changes += 1
        return row

    def remove(self, number: int) -> bool:
        row = self._rows.pop(number, None)
        if row is None:
            return False
        del self._raw[number]
        for sort, keys in self._sorted.items():
            del keys[bisect.bisect_left(keys, row.key(sort))]
        self.changes += 1
        return True


@dataclass(slots=True)
class Shop:
    """The customers and orders of one shop."""

    customers: Nodes = field(default_factory=lambda: Nodes("Customer"))
    orders: Nodes = field(default_factory=lambda: Nodes("Order"))

    def nodes(self, kind: Kind) -> Nodes:
        return self.customers if kind == "Customer" else self.orders

    def put(self, kind: Kind, node: Node) -> Row:
        """Adds or replaces a node; raises NodeUnusable."""
        return self.nodes(kind).put(node, json.dumps(node, separators=(",", ":")).encode())


def split_gid(gid: object) -> tuple[Kind, int] | None:
    """("Order", 17) of "gid://shopify/Order/17"; None for anything else."""
    found = _GID.match(gid) if isinstance(gid, str) else None
    if found is None:
        return None
    return ("Customer" if found[1] == "Customer" else "Order", int(found[2]))


def milliseconds(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time; without an offset it is UTC. Raises ValueError."""
    when = datetime.fromisoformat(text)
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


_NAME_ONE = "name a folder that holds customers.jsonl and orders.jsonl (each may end in .gz)."


def load(folder: Path) -> Shop:
    """A shop from `customers.jsonl[.gz]` and `orders.jsonl[.gz]` in `folder`; raises ShopUnreadable."""
    try:
        is_there = folder.is_dir()
    except OSError as problem:
        raise ShopUnreadable(f"The shop folder cannot be opened ({problem.strerror}): {_NAME_ONE}") from None
    if not is_there:
        raise ShopUnreadable(f"The shop folder {folder} does not exist: {_NAME_ONE}")
    shop = Shop()
    for kind, name in _FILES.items():
        _load_file(shop.nodes(kind), _file(folder, name))
    return shop


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise ShopUnreadable(f"The shop folder {folder} has neither {name} nor {name}.gz: put one there.")


def _load_file(nodes: Nodes, path: Path) -> None:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for count, line in enumerate(lines, 1):
                if line.strip():
                    _load_line(nodes, line, f"{path.name} line {count}")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ShopUnreadable(f"{path} is not a whole gzip file: copy it again.") from None
    except OSError as problem:
        raise ShopUnreadable(f"{path} cannot be read ({problem.strerror}): make it readable.") from None


def _load_line(nodes: Nodes, line: bytes, where: str) -> None:
    try:
        node = json.loads(line)
    except UnicodeDecodeError:
        raise ShopUnreadable(f"{where} is not UTF-8: write the file in UTF-8.") from None
    except (ValueError, RecursionError):
        raise ShopUnreadable(f"{where} is not whole JSON: the file may be cut off, write it again.") from None
    try:
        known = len(nodes)
        nodes.put(node, line.strip())
    except NodeUnusable as problem:
        raise ShopUnreadable(f"{where} {problem}: correct that line.") from None
    if len(nodes) == known:
        raise ShopUnreadable(f"{where} repeats an id that an earlier line has: keep one of them.")


def _row_of(kind: Kind, node: object) -> Row:
    if not isinstance(node, dict):
        raise NodeUnusable("is not a JSON object")
    if node.get("id") is None:
        raise NodeUnusable("has no id")
    identity = split_gid(node["id"])
    if identity is None or identity[0] != kind:
        raise NodeUnusable(f"has an id that is not gid://shopify/{kind}/<number>")
    created_at = _time_of(node, "createdAt")
    processed_at = _time_of(node, "processedAt") if node.get("processedAt") else created_at
    updated_at = _time_of(node, "updatedAt")
    return Row(identity[1], updated_at, created_at, processed_at, _email_of(kind, node), _owner_of(node))


def _time_of(node: Node, key: str) -> int:
    value = node.get(key)
    if value is None:
        raise NodeUnusable(f"has no {key}")
    try:
        return milliseconds(value)
    except (TypeError, ValueError):
        raise NodeUnusable(f"has a {key} that is not an ISO 8601 time") from None


def _email_of(kind: Kind, node: Node) -> str | None:
    holder = node.get("defaultEmailAddress") if kind == "Customer" else node
    email = holder.get("emailAddress" if kind == "Customer" else "email") if isinstance(holder, dict) else None
    return email.lower() if isinstance(email, str) else None


def _owner_of(node: Node) -> int | None:
    customer = node.get("customer")
    identity = split_gid(customer.get("id")) if isinstance(customer, dict) else None
    return identity[1] if identity else None


# -- what the schema demands and a node may lack ----------------------------------------------------------------------

_CUSTOMER_DEFAULTS: Node = {
    "dataSaleOptOut": False, "displayName": "", "locale": "en", "numberOfOrders": "0", "state": "DISABLED", "tags": [],
    "taxExempt": False, "verifiedEmail": False, "amountSpent": {"amount": "0.0", "currencyCode": DEFAULT_CURRENCY},
}  # fmt: skip
_ORDER_DEFAULTS: Node = {
    "closed": False, "confirmed": True, "customerAcceptsMarketing": False, "discountCodes": [],
    "displayFulfillmentStatus": "UNFULFILLED", "refunds": [], "tags": [], "test": False,
    "currencyCode": DEFAULT_CURRENCY, "presentmentCurrencyCode": DEFAULT_CURRENCY,
}  # fmt: skip
_NEVER: Node = {"state": "NEVER_SUBSCRIBED", "optInLevel": None, "updatedAt": None, "collectedFrom": None}


def money(amount: str, currency: str = DEFAULT_CURRENCY) -> Node:
    """A MoneyBag with the same money on both sides."""
    one = {"amount": amount, "currencyCode": currency}
    return {"shopMoney": one, "presentmentMoney": one}


def _complete_customer(node: Node, number: int) -> Node:
    email, phone, address = (node.get(f"default{part}") for part in ("EmailAddress", "PhoneNumber", "Address"))
    return {
        "__typename": "Customer",
        "legacyResourceId": str(number),
        **_CUSTOMER_DEFAULTS,
        **node,
        "defaultEmailAddress": {"validFormat": True, **email} if email else None,
        "defaultPhoneNumber": _complete_phone(phone) if phone else None,
        "defaultAddress": _complete_address(address, number, "CustomerAddress") if address else None,
    }


def _complete_phone(phone: Node) -> Node:
    state = phone.get("marketingState", "NOT_SUBSCRIBED")
    consent = {
        "state": "NEVER_SUBSCRIBED" if state == "NOT_SUBSCRIBED" else state,
        "optInLevel": phone.get("marketingOptInLevel"),
        "updatedAt": phone.get("marketingUpdatedAt"),
        "collectedFrom": phone.get("marketingCollectedFrom"),
    }
    return {"marketingState": state, "smsMarketingConsent": consent, "whatsAppMarketingConsent": _NEVER, **phone}


def _complete_address(address: Node, number: int, model: str) -> Node:
    return {"id": f"gid://shopify/MailingAddress/{number}?model_name={model}", **address}


def _complete_order(node: Node, number: int) -> Node:
    currency = node.get("currencyCode", DEFAULT_CURRENCY)
    total = node.get("totalPriceSet") or money("0.0", currency)
    address = node.get("shippingAddress")
    lines = node.get("lineItems") or {}
    return {
        "__typename": "Order",
        "legacyResourceId": str(number),
        "name": f"#{number}",
        "number": number,
        "processedAt": node.get("createdAt"),
        "totalPriceSet": total,
        "currentTotalPriceSet": total,
        "totalRefundedSet": money("0.0", currency),
        **_ORDER_DEFAULTS,
        **node,
        "shippingAddress": _complete_address(address, number, "Address") if address else None,
        "lineItems": {**lines, "nodes": [_complete_line(line) for line in lines.get("nodes", ())]},
    }


def _complete_line(line: Node) -> Node:
    quantity = line.get("quantity", 1)
    price = line.get("originalUnitPriceSet") or line.get("discountedUnitPriceSet") or money("0.0")
    return {
        "quantity": quantity,
        "currentQuantity": quantity,
        "originalUnitPriceSet": price,
        "discountedUnitPriceSet": price,
        **line,
    }


_COMPLETE: dict[Kind, Callable[[Node, int], Node]] = {"Customer": _complete_customer, "Order": _complete_order}
