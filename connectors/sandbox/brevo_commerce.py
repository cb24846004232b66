"""Events and orders of the sandbox Brevo.

Events are appended, the same one twice is kept twice. Orders are kept by their id. The vendor does not say what an
unknown person in either does; here the dangerous reading holds: an unknown address creates a contact, and that is
logged as a violation. An unknown ext_id or contact_id refuses an event and leaves an order without a contact.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from connectors.sandbox import brevo_contacts
from connectors.sandbox import brevo_wire as wire
from connectors.sandbox.brevo_state import Contact, Json, State, instant, iso
from connectors.sandbox.brevo_wire import Answer, Asked, Refused, RefusedBatch

MAX_EVENTS = 10_000
DEFAULT_EVENTS = 100
EVENTS_DAYS = 183
MAX_PROPERTIES = 50 * 1024
MAX_BATCH = 1000
MAX_BATCH_BYTES = 5 * 1024 * 1024
MAX_ORDERS = 100
DEFAULT_ORDERS = 50
_EVENT_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}\Z")
# A contact's number wins over every other identifier.
_IDENTIFIERS = ("contact_id", "email_id", "ext_id", "phone_id", "whatsapp_id", "landline_number_id")
_ORDER_TEXTS = ("id", "createdAt", "updatedAt", "status")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


# -- who ---------------------------------------------------------------------------------------------------------------


def _person(state: State, identifiers: Json, place: str) -> Contact | None:
    """The contact some identifiers name; an unknown address makes one."""
    for kind in _IDENTIFIERS:
        known = brevo_contacts.by_identifier(state, kind, identifiers[kind]) if identifiers.get(kind) else None
        if known is not None:
            return known
    email = wire.email_key(identifiers["email_id"]) if isinstance(identifiers.get("email_id"), str) else None
    if email is None:
        return None
    made = state.add_contact(email)
    state.violation("contact created by an order or event", place, made.id)
    return made


# -- events ------------------------------------------------------------------------------------------------------------


def add_event(state: State, asked: Asked) -> Answer:
    """POST /events: 204."""
    body = asked.object()
    with state.change():
        _keep_event(state, body, asked.place)
    return Answer(204)


def add_events(state: State, asked: Asked) -> Answer:
    """POST /events/batch: 202 when all were taken, 207 when some were, 400 when none was."""
    body = asked.json()
    events = body.get("events") if isinstance(body, dict) else None
    if not isinstance(events, list) or not events:
        raise RefusedBatch(_batch_report("failed", 0, [(0, "events is missing")]))
    problems: list[tuple[int, str]] = []
    with state.change():
        for place, event in enumerate(events):
            try:
                _keep_event(state, event, asked.place)
            except Refused as refused:
                problems.append((place, str(refused)))
    if not problems:
        message = "Batch accepted. Valid events have been added to the processing queue."
        return Answer(202, {"message": message, "count": len(events)})
    if len(problems) < len(events):
        return Answer(207, _batch_report("partiallyQueued", len(events), problems))
    raise RefusedBatch(_batch_report("failed", len(events), problems))


def _batch_report(status: str, total: int, problems: list[tuple[int, str]]) -> Json:
    by_message: dict[str, list[int]] = {}
    for place, message in problems:
        by_message.setdefault(message, []).append(place)
    return {
        "status": status,
        "total_events": total,
        "successful_events": max(0, total - len(problems)),
        "failed_events": len(problems) if total else 0,
        "errors": [{"eventIndex": places, "message": message} for message, places in by_message.items()],
    }


def _keep_event(state: State, event: Any, place: str) -> None:
    body = _checked_event(event)
    date = instant(body.get("event_date")) or state.now()
    updates, sms = brevo_contacts.storable(state, body, "contact_properties")
    contact = _person(state, body["identifiers"], place)
    if contact is None:
        raise wire.invalid("No contact was found for the identifiers")
    if updates or sms:
        contact.attributes.update(updates)
        state.save_contact(contact)
    kept = {key: body[key] for key in ("event_properties", "contact_properties", "object") if key in body}
    state.run(
        "INSERT INTO events (contact, name, date, body) VALUES (?, ?, ?, ?)",
        (contact.id, body["event_name"], date, json.dumps(kept)),
    )


def _checked_event(event: Any) -> Json:
    if not isinstance(event, dict):
        raise wire.invalid("event is invalid")
    name = event.get("event_name")
    if not name:
        raise wire.invalid("undefined event_name")
    if not isinstance(name, str) or not _EVENT_NAME.match(name):
        raise wire.invalid("invalid event_name")
    identifiers = wire.typed(event, "identifiers", dict)
    if not identifiers or not any(identifiers.get(kind) for kind in _IDENTIFIERS):
        raise wire.invalid("undefined identifiers")
    if "event_date" in event and instant(event["event_date"]) is None:
        raise wire.invalid("invalid event_date")
    properties = wire.typed(event, "event_properties", dict) or {}
    if len(json.dumps(properties)) > MAX_PROPERTIES:
        raise wire.invalid("event_properties is larger than 50 KB")
    return event


def events(state: State, asked: Asked) -> Answer:
    """GET /events: contact_id, event_name, startDate with endDate (else the last six months), limit, offset."""
    where, values = _wanted_events(state, asked)
    limit, offset = asked.whole("limit", DEFAULT_EVENTS, MAX_EVENTS), asked.whole("offset", 0)
    rows = state.run(
        f"SELECT contact, name, date, body FROM events WHERE {where} ORDER BY date DESC, id DESC LIMIT ? OFFSET ?",  # noqa: S608
        (*values, limit, offset),
    )
    found = [
        {"contact_id": contact, "event_name": name, "event_date": date, **json.loads(body)}
        for contact, name, date, body in rows
    ]
    count = state.number(f"SELECT count(*) FROM events WHERE {where}", *values)  # noqa: S608
    return Answer(200, {"events": found, "count": count})


def _wanted_events(state: State, asked: Asked) -> tuple[str, list[object]]:
    start, end = _span(state, asked)
    tests, values = ["date >= ?"], list[object]([start])
    if end is not None:
        tests.append("date <= ?")
        values.append(end)
    for column, wanted in (("contact", asked.numbers("contact_id")), ("name", asked.values("event_name"))):
        if wanted:
            tests.append(f"{column} IN ({','.join('?' * len(wanted))})")
            values += wanted
    return " AND ".join(tests), values


def _span(state: State, asked: Asked) -> tuple[str, str | None]:
    start, end = asked.since("startDate"), asked.since("endDate")
    if (start is None) != (end is None):
        raise wire.invalid("startDate and endDate are needed together")
    if start is None:
        oldest = datetime.fromtimestamp(state.clock(), UTC) - timedelta(days=EVENTS_DAYS)
        return iso(oldest), None
    whole_day = _DATE.match(asked.query["endDate"])
    return start, f"{asked.query['endDate']}T23:59:59.999Z" if whole_day else end


# -- orders ------------------------------------------------------------------------------------------------------------


def keep_order(state: State, asked: Asked) -> Answer:
    """POST /orders/status: created or updated by its id, and automations see it."""
    order = _checked_order(asked.object())
    with state.change():
        _keep_order(state, order, asked.place, triggers=1)
    return Answer(204)


def accept_orders(state: State, asked: Asked) -> Answer:
    """POST /orders/status/batch: kept as a batch now, carried out by `apply_batch` later."""
    body = asked.object()
    orders = wire.typed(body, "orders", list)
    if not orders:
        raise wire.missing("orders")
    if len(orders) > MAX_BATCH or len(asked.content) > MAX_BATCH_BYTES:
        raise wire.invalid(f"A batch holds at most {MAX_BATCH} orders and 5 MB")
    checked = [_checked_order(order) for order in orders]
    historical = wire.typed(body, "historical", bool)
    with state.change():
        made = state.run(
            "INSERT INTO batches (historical, orders) VALUES (?, ?)",
            (True if historical is None else historical, json.dumps(checked)),
        )
    return Answer(202, {"batchId": made.lastrowid, "count": len(checked)})


def waiting_batches(state: State) -> list[int]:
    """Batches that were accepted and not yet carried out, oldest first."""
    return [number for (number,) in state.run("SELECT id FROM batches WHERE orders IS NOT NULL ORDER BY id")]


def apply_batch(state: State, number: int) -> None:
    """Carries a batch out, once."""
    with state.change():
        row = state.run("SELECT historical, orders FROM batches WHERE id = ?", (number,)).fetchone()
        if row is None or row[1] is None:
            return
        for order in json.loads(row[1]):
            _keep_order(state, order, "POST /orders/status/batch", triggers=0 if row[0] else 1)
        state.run("UPDATE batches SET orders = NULL WHERE id = ?", (number,))


def _checked_order(order: Any) -> Json:
    if not isinstance(order, dict):
        raise wire.invalid("order is invalid")
    for name in (*_ORDER_TEXTS, "amount", "products"):
        if name not in order:
            raise wire.missing(name)
    for name in _ORDER_TEXTS:
        if not wire.typed(order, name, str):
            raise wire.invalid(f"{name} is invalid")
    for name in ("createdAt", "updatedAt"):
        if instant(order[name]) is None:
            raise wire.invalid(f"{name} is not a valid date-time")
    if not wire.is_number(order["amount"]):
        raise wire.invalid("amount is invalid")
    wire.typed(order, "identifiers", dict)
    for product in wire.typed(order, "products", list):
        _check_product(product)
    return order


def _check_product(product: Any) -> None:
    if not isinstance(product, dict) or not isinstance(product.get("productId"), str):
        raise wire.missing("productId")
    if not wire.is_number(product.get("price")):
        raise wire.missing("price")
    if not any(wire.is_number(product.get(name)) for name in ("quantity", "quantityFloat")):
        raise wire.missing("quantity")


def _keep_order(state: State, order: Json, place: str, triggers: int) -> None:
    contact = _person(state, order.get("identifiers") or {}, place)
    state.run(
        "INSERT INTO orders (id, contact, body, created_at, updated_at, triggers) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET contact = coalesce(excluded.contact, contact), body = excluded.body,"
        " created_at = excluded.created_at, updated_at = excluded.updated_at, triggers = triggers + excluded.triggers",
        (
            order["id"],
            contact.id if contact else None,
            json.dumps(order),
            instant(order["createdAt"]),
            instant(order["updatedAt"]),
            triggers,
        ),
    )


def orders(state: State, asked: Asked) -> Answer:
    """GET /orders: limit, offset, sort, modifiedSince, createdSince."""
    tests, values = ["1"], list[object]()
    for name, column in (("modifiedSince", "updated_at"), ("createdSince", "orders.created_at")):
        if (since := asked.since(name)) is not None:
            tests.append(f"{column} >= ?")
            values.append(since)
    where, order = " AND ".join(tests), "DESC" if asked.descending() else "ASC"
    rows = state.run(
        "SELECT body, contact, email FROM orders LEFT JOIN contacts ON contacts.id = contact"  # noqa: S608
        f" WHERE {where} ORDER BY orders.created_at {order}, place {order} LIMIT ? OFFSET ?",
        (*values, asked.whole("limit", DEFAULT_ORDERS, MAX_ORDERS), asked.whole("offset", 0)),
    )
    found = [_shown_order(json.loads(body), contact, email) for body, contact, email in rows]
    count = state.number(f"SELECT count(*) FROM orders WHERE {where}", *values)  # noqa: S608
    return Answer(200, {"orders": found, "count": count})


def _shown_order(body: Json, contact: int | None, email: str | None) -> Json:
    """The identifiers come back without the address, which stands beside them."""
    identifiers = {name: value for name, value in (body.get("identifiers") or {}).items() if name != "email_id"}
    known = {"contact_id": contact, "email": email}
    return {**body, "identifiers": identifiers, **{name: value for name, value in known.items() if value is not None}}


# -- everything, for tests ---------------------------------------------------------------------------------------------


def dump(state: State) -> Json:
    """The whole account."""
    contacts = state.contacts()
    kept_events = state.run("SELECT contact, name, date, body FROM events ORDER BY id")
    kept_orders = state.run("SELECT body, contact, triggers FROM orders ORDER BY place")
    return {
        "contacts": [
            {**shown, "ext_id": contact.ext_id}
            for shown, contact in zip(brevo_contacts.shown(state, contacts), contacts, strict=True)
        ],
        "orders": [
            {**json.loads(body), "contact_id": contact, "triggers": triggers} for body, contact, triggers in kept_orders
        ],
        "events": [
            {"contact_id": contact, "event_name": name, "event_date": date, **json.loads(body)}
            for contact, name, date, body in kept_events
        ],
        "violations": state.violations(),
    }
