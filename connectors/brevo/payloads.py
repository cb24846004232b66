"""Writes -> Brevo requests. Pure, and unable to express a resubscription (PRODUCT 3.7).

A request is (method, path, params, body). Nothing here has a parameter for a flag, a merge or a new address; what is
built is checked once more by `refuse_resubscription` right before it leaves.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

from connectors import errors, protocol

BASE = "/v3"
READ_BACK_LIMIT = 100
EVENTS_LIMIT = 1000
EVENT_MARGIN = timedelta(hours=1)
KEY_PROPERTY = "vigil_key"
NO_PARAMS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it will leave. ``label`` names the endpoint for the counter, without ids."""

    method: str
    path: str
    label: str
    params: Mapping[str, str] = field(default_factory=lambda: NO_PARAMS)
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A contact as Brevo holds it now, with the address that `protocol.Contact` has no room for."""

    contact: protocol.Contact
    email: str | None


# --- The choke point --------------------------------------------------------------------------------------------


class ResubscriptionRefused(Exception):
    """A request that could lift somebody's "no", delete or merge a contact was about to leave: a fault of ours.

    Not a connector error: no run may go on after it, and nothing may be tried again.
    """


_ONLY_TRUE = frozenset({"emailblacklisted", "smsblacklisted", "whatsappblacklisted"})
_ONLY_FALSE = frozenset({"updateenabled"})
_NEVER = frozenset(
    {"smtpblacklistsender", "forcemerge", "emailblacklist", "smsblacklist", "consentgroupids", "contactproperties"}
)
_NEVER_PATHS = ("/contacts/import", "/contacts/batch", "/contacts/doubleoptinconfirmation")


def refuse_resubscription(method: str, path: str, params: Any, body: Any) -> None:
    """Raise ResubscriptionRefused for every request that could lift a "no"; called before each one leaves.

    Keys are compared without case and punctuation, at every depth. A block may be set (True), never lifted.
    """
    if method.strip().upper() == "DELETE":
        raise ResubscriptionRefused("deleting at Brevo forgets a block")
    plain = re.sub(r"/+", "/", unquote(unquote(path)).lower())
    if any(forbidden in plain for forbidden in _NEVER_PATHS):
        raise ResubscriptionRefused("this endpoint can subscribe people again")
    _refuse_in(params, inside_attributes=False)
    _refuse_in(body, inside_attributes=False)


def _refuse_in(value: Any, *, inside_attributes: bool) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_pair(_plain_key(key), item, inside_attributes)
    elif isinstance(value, bytes | bytearray | memoryview):
        raise ResubscriptionRefused("a body must be a structure that can be looked through")
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            _refuse_in(item, inside_attributes=inside_attributes)


def _refuse_pair(key: str, item: Any, inside_attributes: bool) -> None:
    if key in _NEVER:
        raise ResubscriptionRefused(f"{key} may not be sent")
    if key in _ONLY_TRUE and item is not True:
        raise ResubscriptionRefused(f"{key} may only be set")
    if key in _ONLY_FALSE and item is not False:
        raise ResubscriptionRefused(f"{key} may only be false")
    if inside_attributes and key == "email":
        raise ResubscriptionRefused("changing the address of a blocklisted contact subscribes it again")
    _refuse_in(item, inside_attributes=key == "attributes")


def _plain_key(key: Any) -> str:
    if not isinstance(key, str):
        raise ResubscriptionRefused("a key must be text")
    return "".join(character for character in key.lower() if character.isalnum())


# --- Contacts ---------------------------------------------------------------------------------------------------


def create_contact(write: protocol.Write) -> Request:
    """POST /contacts that fails if the contact exists."""
    body: dict[str, Any] = {"email": write.address, "ext_id": write.subject_id}
    found = attributes(write.attributes)
    if found:
        body["attributes"] = found
    if write.list_id is not None:
        body["listIds"] = [write.list_id]
    return Request("POST", f"{BASE}/contacts", "POST /contacts", body={**body, "updateEnabled": False})


def update_contact(write: protocol.Write, held: protocol.Contact, *, grant: bool) -> Request | None:
    """PUT of what there is to say, None for nothing. ``grant`` adds the list; the caller has decided that it may."""
    body: dict[str, Any] = {}
    found = attributes(write.attributes)
    if found:
        body["attributes"] = found
    if held.subject_id is None:
        body["ext_id"] = write.subject_id
    if grant and write.list_id is not None:
        body["listIds"] = [write.list_id]
    if not body:
        return None
    return Request(
        "PUT",
        f"{BASE}/contacts/{_segment(held.id)}",
        "PUT /contacts/{id}",
        MappingProxyType({"identifierType": "contact_id"}),
        body,
    )


def may_grant(write: protocol.Write, held: protocol.Contact) -> bool:
    """Whether this contact may be put on the list now: on it never was, or on newer consent than our last grant."""
    if write.list_id is None or write.list_id in held.lists or write.list_id in held.left_lists:
        return False
    if write.granted_at is None:
        return True
    return write.consent_at is not None and write.consent_at > write.granted_at


def take_off_list(write: protocol.Write) -> Request:
    """POST …/contacts/remove for one person, by Brevo's own id where we know it."""
    body: dict[str, Any] = {"extIds": [write.subject_id]}
    if write.destination_id is not None:
        body = {"ids": [int(write.destination_id)]}
    path = f"{BASE}/contacts/lists/{write.list_id}/contacts/remove"
    return Request("POST", path, "POST /contacts/lists/{id}/contacts/remove", body=body)


def get_contact(identifier: str, kind: str) -> Request:
    """GET /contacts/{identifier}; ``kind`` is contact_id, ext_id or email_id."""
    return Request(
        "GET",
        f"{BASE}/contacts/{_segment(identifier)}",
        "GET /contacts/{id}",
        MappingProxyType({"identifierType": kind}),
    )


def get_known(write: protocol.Write) -> Request:
    """GET of the person a write is about, by Brevo's own id where we know it."""
    if write.destination_id is not None:
        return get_contact(write.destination_id, "contact_id")
    return get_contact(write.subject_id, "ext_id")


def _segment(identifier: str) -> str:
    return quote(identifier, safe="")


def attributes(mapped: protocol.Json) -> dict[str, Any]:
    """The mapped values as Brevo takes them. What is empty at the source is left out, never sent as empty."""
    return {name: _value(name, value) for name, value in mapped.items() if not _blank(value)}


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value == [] or value == ()


def _value(name: str, value: Any) -> Any:
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal) and value.is_finite():
        return value
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return list(value)
    raise errors.Rejected(
        f"Brevo takes no value of this kind for {name}: map it to text, a number, a date or true and false.",
        code="attribute_unsupported",
    )


def contact(body: Any) -> Held:
    """A contact out of Brevo's answer; Unreadable when a flag we must know is missing: it is never assumed."""
    if not isinstance(body, Mapping):
        raise _unreadable("it is no contact")
    blocked, kept = body.get("emailBlacklisted"), body.get("attributes")
    if not isinstance(blocked, bool) or not _whole(body.get("id")) or not isinstance(kept, Mapping):
        raise _unreadable("a contact lacks its id, its attributes or whether it is blocklisted")
    email = body.get("email")
    ext_id = body.get("ext_id") or body.get("extId") or kept.get("EXT_ID")
    found = protocol.Contact(
        id=str(body["id"]),
        subject_id=str(ext_id) if ext_id else None,
        blocklisted=blocked,
        left_lists=_lists(body.get("listUnsubscribed") or []),
        lists=_lists(body.get("listIds")),
        attributes=MappingProxyType({name: value for name, value in kept.items() if name != "EXT_ID"}),
    )
    return Held(found, email.lower() if isinstance(email, str) else None)


def _lists(value: Any) -> frozenset[int]:
    if not isinstance(value, list) or not all(_whole(item) for item in value):
        raise _unreadable("a contact's lists cannot be read")
    return frozenset(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# --- Orders and events ------------------------------------------------------------------------------------------


def post_order(write: protocol.Write) -> Request:
    """POST /orders/status, which automations see."""
    return Request("POST", f"{BASE}/orders/status", "POST /orders/status", body=order_body(write))


def post_history(writes: Sequence[protocol.Write]) -> Request:
    """POST /orders/status/batch that starts no automation."""
    body = {"orders": [order_body(write) for write in writes], "historical": True}
    return Request("POST", f"{BASE}/orders/status/batch", "POST /orders/status/batch", body=body)


def get_orders(since: datetime, offset: int) -> Request:
    """A page of the orders modified at or after ``since``, newest first."""
    params = {"modifiedSince": instant(since), "limit": str(READ_BACK_LIMIT), "offset": str(offset), "sort": "desc"}
    return Request("GET", f"{BASE}/orders", "GET /orders", params)


def order_body(write: protocol.Write) -> dict[str, Any]:
    order = _order(write)
    return {
        "id": order_id(write),
        "createdAt": instant(order.created_at),
        "updatedAt": instant(order.updated_at),
        "status": order.status,
        "amount": Decimal(order.amount),
        "storeId": store_id(write),
        "identifiers": {"ext_id": write.subject_id},
        "products": [
            {"productId": line.sku, "quantity": line.quantity, "price": Decimal(line.price)} for line in order.lines
        ],
        "metaInfo": {"name": order.name, "currency": order.currency},
    }


def order_id(write: protocol.Write) -> str:
    """The order's id in an account that may take several shops: the subject's prefix and the order's own id."""
    prefix = write.subject_id.rpartition(":")[0]
    return f"{prefix}:{write.id}" if prefix else write.id


def store_id(write: protocol.Write) -> str:
    """The shop's part of ``shopify:<shop>:<customer>``."""
    return write.subject_id.rpartition(":")[0].partition(":")[2] or write.subject_id


def updated_at(write: protocol.Write) -> datetime:
    """The order's own time of change, as exact as it goes over the wire."""
    return _milliseconds(_order(write).updated_at)


def orders_seen(body: Any) -> list[tuple[str, datetime]]:
    """(id, updatedAt) of each order on a page of GET /orders."""
    listed = body.get("orders") if isinstance(body, Mapping) else None
    if not isinstance(listed, list):
        raise _unreadable("its page holds no orders")
    return [(str(item.get("id")), parsed(item.get("updatedAt"))) for item in listed if isinstance(item, Mapping)]


def post_event(write: protocol.Write) -> Request:
    """POST /events by contact id or ext_id: an address could create a contact (PRODUCT 3.9)."""
    identifiers: dict[str, Any] = {"ext_id": write.subject_id}
    if write.destination_id is not None:
        identifiers = {"contact_id": int(write.destination_id)}
    body: dict[str, Any] = {
        "event_name": write.event_name,
        "identifiers": identifiers,
        "event_properties": {**attributes(write.attributes), KEY_PROPERTY: write.effect_key},
    }
    if write.event_at is not None:
        body["event_date"] = instant(write.event_at)
    return Request("POST", f"{BASE}/events", "POST /events", body=body)


def get_events(event_name: str, doubts: Sequence[protocol.Doubt], offset: int) -> Request:
    """A page of the events of one name around the instants of the doubts."""
    instants = [doubt.event_at for doubt in doubts]
    people = {doubt.destination_id for doubt in doubts}
    only = next(iter(people)) if len(people) == 1 else None
    params = {
        "event_name": event_name,
        "startDate": instant(min(instants) - EVENT_MARGIN),
        "endDate": instant(max(instants) + EVENT_MARGIN),
        "limit": str(EVENTS_LIMIT),
        "offset": str(offset),
        **({"contact_id": only} if only is not None else {}),
    }
    return Request("GET", f"{BASE}/events", "GET /events", params)


def events_seen(body: Any) -> list[str]:
    """The effect key of each event on a page of GET /events, "" for one that is not ours."""
    listed = body.get("events") if isinstance(body, Mapping) else None
    if not isinstance(listed, list):
        raise _unreadable("its page holds no events")
    return [_key(item) for item in listed]


def _key(event: Any) -> str:
    properties = event.get("event_properties") if isinstance(event, Mapping) else None
    return str(properties.get(KEY_PROPERTY, "")) if isinstance(properties, Mapping) else ""


def instant(value: datetime) -> str:
    """An aware instant as Brevo writes them: UTC, milliseconds, Z."""
    if value.tzinfo is None:
        raise ValueError("an instant for Brevo needs a time zone")
    return _milliseconds(value).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(value: datetime) -> datetime:
    value = value.astimezone(UTC)
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def parsed(value: Any) -> datetime:
    """An instant out of an answer."""
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _unreadable("an order has no readable time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _order(write: protocol.Write) -> protocol.Order:
    if write.order is None:
        raise ValueError("a write of an order needs the order")
    return write.order


def _unreadable(what: str) -> errors.Unreadable:
    return errors.Unreadable(f"Brevo's answer cannot be believed: {what}. Nothing of it was used.")
