"""Raw Shopify nodes -> records with consent evidence. Pure; raises Unreadable for what cannot be believed.

A key the query asked for is either there or the answer is unreadable: nothing is defaulted (PRODUCT 5.1).
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NoReturn

from connectors import errors, protocol
from connectors.shopify import queries

CONSENT_FIELD = "defaultEmailAddress"
REDACTION_ROWS = 5
NAME_LIMIT = 255
"""Characters of an order's name. It is only shown; what tells orders apart is the id, which is never cut."""
_GID = re.compile(r"gid://shopify/(\w+)/(\d{1,20})(?:\?.*)?")
_AMOUNT = re.compile(r"-?\d+(\.\d+)?")


def record(stream: protocol.Stream, node: Any, position: int) -> protocol.Record:
    """One node of a page as a record."""
    require(node, queries.NODES[stream], queries.TYPES[stream])
    orders = stream is protocol.Stream.ORDERS
    return protocol.Record(
        stream=stream,
        id=decimal_id(node["id"], queries.TYPES[stream]),
        position=position,
        updated_at=_optional_instant(node, "updatedAt"),
        fields=node,
        subject=_order_subject(node["customer"]) if orders else _subject(node),
        order=_order(node) if orders else None,
    )


def require(value: Any, shape: queries.Shape, where: str) -> None:
    """Raise Unreadable unless ``value`` is an object with every key of the shape, all the way down."""
    if not isinstance(value, Mapping):
        _refuse(f"{where} is no object")
    if not shape.keys() <= value.keys():
        _refuse(f"{where} lacks {', '.join(sorted(shape.keys() - value.keys()))}")
    for name, inner in shape.items():
        if inner is not None and value[name] is not None:
            _require_each(value[name], inner, f"{where}.{name}")


def _require_each(value: Any, shape: queries.Shape, where: str) -> None:
    for item in value if isinstance(value, list) else (value,):
        require(item, shape, where)


def decimal_id(gid: Any, kind: str) -> str:
    """The number of a global id of the given type, as text."""
    found = _GID.fullmatch(gid) if isinstance(gid, str) else None
    if found is None or found[1] != kind:
        _refuse(f"the id of a {kind} is of another kind")
    return found[2]


def consent(owner: Mapping[str, Any]) -> protocol.ConsentEvidence:
    """What Shopify says about mailing this customer, word for word."""
    found = owner[CONSENT_FIELD] or {}
    opted_out = owner["dataSaleOptOut"]
    if not isinstance(opted_out, bool):
        _refuse("dataSaleOptOut is neither true nor false")
    return protocol.ConsentEvidence(
        state=_word(found, "marketingState"),
        level=_word(found, "marketingOptInLevel"),
        given_at=_consent_instant(found.get("marketingUpdatedAt")),
        valid_format=_flag(found, "validFormat"),
        data_sale_opt_out=opted_out,
        field=CONSENT_FIELD,
    )


def _subject(owner: Mapping[str, Any]) -> protocol.Subject:
    found = owner[CONSENT_FIELD] or {}
    return protocol.Subject(
        id=decimal_id(owner["id"], "Customer"), address=_word(found, "emailAddress"), consent=consent(owner)
    )


def _order_subject(customer: Any) -> protocol.Subject | None:
    return None if customer is None else _subject(customer)


def _order(node: Mapping[str, Any]) -> protocol.Order:
    amount, currency = _money(node["currentTotalPriceSet"], "currentTotalPriceSet")
    refunded, _ = _money(node["totalRefundedSet"], "totalRefundedSet")
    return protocol.Order(
        name=_text(node, "name")[:NAME_LIMIT],
        status=_status(node),
        amount=amount,
        currency=currency,
        created_at=_instant(node, "createdAt"),
        updated_at=_instant(node, "updatedAt"),
        lines=_lines(node["lineItems"]),
        placed_at=_instant(node, "processedAt"),
        cancelled_at=_optional_instant(node, "cancelledAt"),
        refunded_total=refunded if Decimal(refunded) > 0 else None,
        test=_required_flag(node, "test"),
    )


def _status(node: Mapping[str, Any]) -> str:
    """``cancelled`` where it was, else Shopify's financial status in lower case, ``unknown`` where it has none."""
    if node["cancelledAt"] is not None:
        return "cancelled"
    return (_word(node, "displayFinancialStatus") or "unknown").lower()


def _lines(connection: Any) -> tuple[protocol.OrderLine, ...]:
    """What is left of the order's lines (``currentQuantity``); of an order that is gone altogether, what it had.

    A line that was taken out wholly is left out: amount and lines then tell the same. A line without a sku goes by
    its own number, so that two lines without one are not taken for the same product.
    """
    nodes = line_nodes(connection)
    ordered = [_count(node, "quantity") for node in nodes]
    left = [_count(node, "currentQuantity") for node in nodes]
    shown = left if any(number > 0 for number in left) else ordered
    return tuple(_line(node, number) for node, number in zip(nodes, shown, strict=True) if number > 0)


def _line(node: Mapping[str, Any], quantity: int) -> protocol.OrderLine:
    price, _ = _money(node["discountedUnitPriceSet"], "discountedUnitPriceSet")
    sku = (_word(node, "sku") or "").strip() or decimal_id(node["id"], "LineItem")
    return protocol.OrderLine(sku=sku, quantity=quantity, price=price)


def line_nodes(connection: Any) -> list[Any]:
    """The line items of a connection; Unreadable when it is none."""
    if not isinstance(connection, Mapping) or not isinstance(connection.get("nodes"), list):
        _refuse("lineItems is no connection")
    nodes: list[Any] = connection["nodes"]
    for node in nodes:
        require(node, queries.LINES["nodes"] or {}, "lineItems.nodes")
    return nodes


def look_redacted(stream: protocol.Stream, nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a whole page lacks every protected field: Shopify blanks them without saying so (PRODUCT 5.1).

    One sparse row is normal (somebody known by phone only, a sale over the counter), five of five are not. Orders
    without a customer are left aside: a shop may sell over the counter only.
    """
    rows = [node for node in nodes if stream is protocol.Stream.CUSTOMERS or node["customer"] is not None]
    return len(rows) >= REDACTION_ROWS and not any(_shows_a_person(stream, row) for row in rows)


def _shows_a_person(stream: protocol.Stream, row: Mapping[str, Any]) -> bool:
    if stream is protocol.Stream.ORDERS:
        return bool(row["email"] or row["phone"] or _inside(row["customer"]["defaultEmailAddress"], "emailAddress"))
    address = row["defaultAddress"] or {}
    reached = _inside(row["defaultEmailAddress"], "emailAddress") or _inside(row["defaultPhoneNumber"], "phoneNumber")
    return bool(reached or row["firstName"] or row["lastName"] or any(address.values()))


def _inside(owner: Any, name: str) -> Any:
    return owner[name] if owner else None


def _money(bag: Any, where: str) -> tuple[str, str]:
    money = bag["shopMoney"] if isinstance(bag, Mapping) else None
    if not isinstance(money, Mapping):
        _refuse(f"{where} holds no money")
    amount, currency = money["amount"], money["currencyCode"]
    if not isinstance(amount, str) or not _AMOUNT.fullmatch(amount) or not isinstance(currency, str) or not currency:
        _refuse(f"{where} holds no amount of money")
    return amount, currency


def _count(node: Mapping[str, Any], name: str) -> int:
    value = node[name]
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(f"{name} is no whole number")
    return value


def _text(node: Mapping[str, Any], name: str) -> str:
    value = node[name]
    if not isinstance(value, str):
        _refuse(f"{name} is no text")
    return value


def _word(node: Mapping[str, Any], name: str) -> str | None:
    value = node.get(name)
    if value is not None and not isinstance(value, str):
        _refuse(f"{name} is no text")
    return value or None


def _flag(node: Mapping[str, Any], name: str) -> bool | None:
    value = node.get(name)
    if value is not None and not isinstance(value, bool):
        _refuse(f"{name} is neither true nor false")
    return value


def _required_flag(node: Mapping[str, Any], name: str) -> bool:
    value = _flag(node, name)
    if value is None:
        _refuse(f"{name} is missing")
    return value


def _instant(node: Mapping[str, Any], name: str) -> datetime:
    value = _optional_instant(node, name)
    if value is None:
        _refuse(f"{name} is missing")
    return value


def _optional_instant(node: Mapping[str, Any], name: str) -> datetime | None:
    value = _word(node, name)
    if value is None:
        return None
    instant = _parsed(value)
    if instant is None:
        _refuse(f"{name} is no instant")
    return instant


def _consent_instant(value: Any) -> datetime | None:
    """When consent was given; None for what is no instant: without a usable time there is no proof (PRODUCT 3.6)."""
    if value is not None and not isinstance(value, str):
        _refuse("marketingUpdatedAt is no text")
    return _parsed(value) if value else None


def _parsed(value: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None


def _refuse(what: str) -> NoReturn:
    raise errors.Unreadable(f"Shopify's answer cannot be believed: {what}. Nothing of it was used.")
