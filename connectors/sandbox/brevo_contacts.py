"""Contacts, lists and attributes of the sandbox Brevo.

It imitates what is dangerous about the vendor: a flag of `false` lifts a block, a changed address lifts it too, a
deletion forgets it, and a value of the wrong type is dropped with a success code. What no careful writer does is
logged as a violation and then carried out.
"""

import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

from connectors.sandbox import brevo_wire as wire
from connectors.sandbox.brevo_state import DEFAULT_FOLDER, Contact, Json, State, contact_of_row
from connectors.sandbox.brevo_wire import Answer, Asked, Refused

MAX_CONTACTS = 1000
MAX_IDS = 20
MAX_LISTS = 50
MAX_LIST_CALL = 150
DEFAULT_CONTACTS = 50
DEFAULT_LISTS_SHOWN = 10
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}\Z")
_CATEGORIES = ("normal", "transactional", "category", "calculated", "global")
_COLUMNS = {"email_id": "email", "contact_id": "id", "ext_id": "ext_id", "phone_id": "sms"}
_UNKEPT_TYPES = ("whatsapp_id", "landline_number_id")
_LIST_KEYS = {"emails": "email", "ids": "id", "extIds": "ext_id"}
_SUBJECTS = {"email": "email", "ext_id": "ext_id", "SMS": "SMS"}


# -- one contact -------------------------------------------------------------------------------------------------------


def create(state: State, asked: Asked) -> Answer:
    """POST /contacts: 201 {id}, 204 for an update, 400 for a contact there already."""
    body = asked.object()
    _log_forbidden(state, body, asked.place)
    email, ext_id = _email(body), wire.typed(body, "ext_id", str)
    attributes, sms = storable(state, body)
    if email is None and not ext_id and sms is None:
        raise wire.missing("email, ext_id or SMS")
    keys = {"email": email, "ext_id": ext_id, "SMS": sms}
    with state.change():
        found = _owners(state, keys)
        contact = _to_update(found, email) if wire.typed(body, "updateEnabled", bool) else None
        _settle_clashes(state, found, contact, body, asked.place)
        if contact is not None:
            _apply(state, contact, body, attributes, keys, asked.place)
            return Answer(204)
        made = state.add_contact(email, ext_id, sms)
        _apply(state, made, body, attributes, keys, asked.place)
        return Answer(201, {"id": made.id})


def update(state: State, asked: Asked) -> Answer:
    """PUT /contacts/{identifier}: 204, 400, 404."""
    body = asked.object()
    _log_forbidden(state, body, asked.place)
    attributes, sms = storable(state, body)
    email = _new_address(body)
    keys = {"email": email, "ext_id": wire.typed(body, "ext_id", str), "SMS": sms}
    with state.change():
        contact = find(state, asked)
        _settle_clashes(state, _owners(state, keys), contact, body, asked.place)
        if email is not None:
            # Documented by the vendor: a blocklisted contact whose address changes is resubscribed.
            contact.email, contact.email_blocked = email, False
        _apply(state, contact, body, attributes, keys, asked.place)
        for number in wire.whole_numbers(body, "unlinkListIds"):
            state.unlink(contact.id, number)
    return Answer(204)


def show(state: State, asked: Asked) -> Answer:
    """GET /contacts/{identifier}."""
    contact = find(state, asked)
    unsubscriptions = {"userUnsubscription": contact.unsubscriptions, "adminUnsubscription": []}
    statistics = {"unsubscriptions": unsubscriptions} if contact.unsubscriptions else {}
    return Answer(200, {**shown(state, [contact])[0], "statistics": statistics})


def remove(state: State, asked: Asked) -> Answer:
    """DELETE /contacts/{identifier}; the block is forgotten with the contact."""
    with state.change():
        contact = find(state, asked)
        if contact.email_blocked or contact.sms_blocked:
            state.violation("deleted a contact that was blocklisted", asked.place, contact.id)
        state.remove_contact(contact)
    return Answer(204)


def find(state: State, asked: Asked) -> Contact:
    """The contact a path names; raises the vendor's 400 or 404."""
    identifier = asked.path["identifier"]
    kind = asked.query.get("identifierType") or ("email_id" if "@" in identifier else "contact_id")
    if kind not in (*_COLUMNS, *_UNKEPT_TYPES):
        raise wire.invalid("identifierType is invalid")
    if kind == "contact_id" and not (identifier.isascii() and identifier.isdigit()):
        raise wire.invalid("Invalid identifier: an e-mail address or an id is needed, or identifierType")
    contact = by_identifier(state, kind, identifier)
    if contact is None:
        raise wire.not_found("Contact does not exist")
    return contact


def by_identifier(state: State, kind: str, identifier: object) -> Contact | None:
    """The contact with an identifier of `kind` (email_id, contact_id, ext_id, phone_id)."""
    if kind not in _COLUMNS:
        return None
    if kind == "email_id":
        identifier = str(identifier).lower()
    if kind == "phone_id":
        identifier = wire.phone_key(identifier)
    if kind == "contact_id":
        identifier = int(str(identifier)) if str(identifier).isascii() and str(identifier).isdigit() else None
    return None if identifier is None else state.contact(_COLUMNS[kind], identifier)


def shown(state: State, contacts: list[Contact]) -> list[Json]:
    """Contacts as the vendor shows them."""
    lists = state.memberships(contact.id for contact in contacts)
    return [_shown(contact, *lists[contact.id]) for contact in contacts]


def _shown(contact: Contact, on: list[int], left: list[int]) -> Json:
    kept = {"SMS": contact.sms, "EXT_ID": contact.ext_id}
    return {
        "id": contact.id,
        **({"email": contact.email} if contact.email else {}),
        "emailBlacklisted": contact.email_blocked,
        "smsBlacklisted": contact.sms_blocked,
        "whatsappBlacklisted": False,
        "createdAt": contact.created_at,
        "modifiedAt": contact.modified_at,
        "listIds": on,
        "listUnsubscribed": left,
        "attributes": {**contact.attributes, **{name: value for name, value in kept.items() if value is not None}},
    }


# -- the steps of a write ----------------------------------------------------------------------------------------------


def _log_forbidden(state: State, body: Json, place: str) -> None:
    """Logs what a writer must not be able to say, whether or not the request is then refused."""
    for flag in ("emailBlacklisted", "smsBlacklisted"):
        if body.get(flag) is False:
            state.violation(f"{flag} false", place)
    if body.get("forceMerge") is True:
        state.violation("forceMerge", place)
    attributes = body.get("attributes")
    if isinstance(attributes, dict) and "EMAIL" in attributes:
        state.violation("attributes.EMAIL", place)


def _email(body: Json) -> str | None:
    address = wire.typed(body, "email", str)
    if address is None:
        return None
    key = wire.email_key(address)
    if key is None:
        raise wire.invalid("email is not valid in request body")
    return key


def _new_address(body: Json) -> str | None:
    return _email({"email": body["attributes"]["EMAIL"]}) if "EMAIL" in body.get("attributes", {}) else None


def _owners(state: State, keys: dict[str, str | None]) -> dict[str, Contact]:
    """Which contact holds each of the keys now."""
    columns = {"email": "email", "ext_id": "ext_id", "SMS": "sms"}
    found = {name: state.contact(columns[name], value) for name, value in keys.items() if value}
    return {name: contact for name, contact in found.items() if contact is not None}


def _to_update(found: dict[str, Contact], email: str | None) -> Contact | None:
    """An address decides alone; only without one do the other keys name a contact."""
    return found.get("email") if email else found.get("ext_id") or found.get("SMS")


def _settle_clashes(state: State, found: dict[str, Contact], contact: Contact | None, body: Json, place: str) -> None:
    """Refuses keys that belong to another contact; with forceMerge the other one is deleted."""
    clashes = {name: other for name, other in found.items() if contact is None or other.id != contact.id}
    if not clashes:
        return
    if body.get("forceMerge") is True:
        for other in {other.id: other for other in clashes.values()}.values():
            state.remove_contact(other)
        return
    verb = "create" if contact is None else "update"
    first = next(iter(clashes))
    raise Refused(
        400,
        _duplicate_code(),
        f"Unable to {verb} contact, {_SUBJECTS[first]} is already associated with another Contact",
        metadata={"duplicate_identifiers": list(clashes)},
    )


def _alternating() -> Callable[[], str]:
    """The vendor answers the same text now with one code, now with the other."""
    codes = ["invalid_parameter", "duplicate_parameter"]

    def code() -> str:
        codes.reverse()
        return codes[0]

    return code


_duplicate_code = _alternating()


def _apply(
    state: State, contact: Contact, body: Json, attributes: Json, keys: dict[str, str | None], place: str
) -> None:
    contact.attributes.update(attributes)
    contact.ext_id = keys["ext_id"] or contact.ext_id
    contact.sms = keys["SMS"] or contact.sms
    email_flag, sms_flag = (wire.typed(body, flag, bool) for flag in ("emailBlacklisted", "smsBlacklisted"))
    contact.email_blocked = contact.email_blocked if email_flag is None else email_flag
    contact.sms_blocked = contact.sms_blocked if sms_flag is None else sms_flag
    for number in wire.whole_numbers(body, "listIds"):
        if not state.has_list(number):
            raise wire.invalid("Invalid list ID passed in listIds")
        state.join(contact.id, number, place)
    state.save_contact(contact)


def storable(state: State, body: Json, name: str = "attributes") -> tuple[Json, str | None]:
    """(the attributes that will really be kept, the phone number). An unknown name or a value of the wrong type is
    dropped without a word."""
    given = wire.typed(body, name, dict) or {}
    if any(value is None for value in given.values()):
        raise wire.invalid("Attribute values must not be null")
    sms = wire.phone_key(given["SMS"]) if "SMS" in given else None
    if "SMS" in given and sms is None:
        raise wire.invalid("Invalid phone number")
    known = state.attributes()
    kept = {name: _kept(known[name], value) for name, value in given.items() if name in known}
    return {name: value for name, value in kept.items() if value is not None and name not in ("SMS", "EXT_ID")}, sms


def _kept(attribute: Json, value: Any) -> Any:
    """The value as it is stored, None when it is dropped."""
    if attribute["category"] == "category":
        return _category(attribute, value)
    if attribute["category"] not in ("normal", "transactional"):
        return None
    if attribute.get("type") == "multiple-choice":
        options = attribute.get("multiCategoryOptions", [])
        return value if isinstance(value, list) and all(item in options for item in value) else None
    fits = _FITS.get(attribute.get("type", "text"))
    return value if fits is not None and fits(value) else None


def _category(attribute: Json, value: Any) -> int | None:
    """The number of the option named by its number or its label."""
    for option in attribute.get("enumeration", ()):
        if not isinstance(value, bool) and value in (option["value"], option["label"]):
            return int(option["value"])
    return None


def _is_day(value: Any) -> bool:
    if not isinstance(value, str) or not _DAY.match(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


_FITS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "user": lambda value: isinstance(value, str),
    "float": wire.is_number,
    "id": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "date": _is_day,
}


# -- many contacts -----------------------------------------------------------------------------------------------------


def index(state: State, asked: Asked) -> Answer:
    """GET /contacts: limit, offset, sort, modifiedSince, createdSince, ids, listIds."""
    for name in ("filter", "segmentId"):
        if name in asked.query:
            raise wire.invalid(f"This sandbox does not serve {name}")
    where, values = _wanted(asked)
    limit, offset = asked.whole("limit", DEFAULT_CONTACTS, MAX_CONTACTS), asked.whole("offset", 0)
    order = "DESC" if asked.descending() else "ASC"
    rows = state.run(
        f"SELECT * FROM contacts WHERE {where} ORDER BY id {order} LIMIT ? OFFSET ?",  # noqa: S608
        (*values, limit, offset),
    ).fetchall()
    count = state.number(f"SELECT count(*) FROM contacts WHERE {where}", *values)  # noqa: S608
    return Answer(200, {"contacts": shown(state, [contact_of_row(row) for row in rows]), "count": count})


def _wanted(asked: Asked) -> tuple[str, list[object]]:
    tests, values = ["1"], list[object]()
    for name, column in (("modifiedSince", "modified_at"), ("createdSince", "created_at")):
        if (since := asked.since(name)) is not None:
            tests.append(f"{column} >= ?")
            values.append(since)
    ids = asked.numbers("ids")
    if len(ids) > MAX_IDS:
        raise wire.invalid(f"ids exceeds max value of {MAX_IDS}")
    if ids:
        tests.append(f"id IN ({','.join('?' * len(ids))})")
        values += ids
    if lists := asked.numbers("listIds"):
        marks = ",".join("?" * len(lists))
        tests.append(f"id IN (SELECT contact FROM members WHERE has_left = 0 AND list IN ({marks}))")  # noqa: S608
        values += lists
    return " AND ".join(tests), values


def refuse_import(state: State, asked: Asked) -> Answer:
    """POST /contacts/import is not imitated; that somebody tried to lift blocks with it is logged all the same."""
    body = asked.object()
    for flag in ("emailBlacklist", "smsBlacklist"):
        if body.get(flag) is False:
            state.violation(f"{flag} false in import", asked.place)
    raise Refused(400, "bad_request", "This sandbox does not import contacts")


# -- lists -------------------------------------------------------------------------------------------------------------


_LIST = "SELECT id, name, folder, (SELECT count(*) FROM members WHERE list = lists.id AND has_left = 0) FROM lists"


def _shown_list(number: int, name: str, folder: int, members: int) -> dict[str, Any]:
    """A list on the wire; two of the three totals are always 0, as at the vendor."""
    return {
        "id": number,
        "name": name,
        "folderId": folder,
        "uniqueSubscribers": members,
        "totalSubscribers": 0,
        "totalBlacklisted": 0,
    }


def lists(state: State, asked: Asked) -> Answer:
    """GET /contacts/lists."""
    limit, offset = asked.whole("limit", DEFAULT_LISTS_SHOWN, MAX_LISTS), asked.whole("offset", 0)
    order = "DESC" if asked.descending() else "ASC"
    rows = state.run(f"{_LIST} ORDER BY id {order} LIMIT ? OFFSET ?", (limit, offset))
    found = [_shown_list(*row) for row in rows]
    return Answer(200, {"lists": found, "count": state.number("SELECT count(*) FROM lists")})


def show_list(state: State, asked: Asked) -> Answer:
    """GET /contacts/lists/{id}."""
    row = state.run(f"{_LIST} WHERE id = ?", (_list_number(state, asked),)).fetchone()
    return Answer(200, {**_shown_list(*row), "createdAt": "2026-01-01T00:00:00.000Z", "dynamicList": False})


def add_list(state: State, asked: Asked) -> Answer:
    """POST /contacts/lists; a name may come twice."""
    body = asked.object()
    name, folder = wire.typed(body, "name", str), wire.typed(body, "folderId", int)
    if not name:
        raise wire.missing("name")
    if folder is None:
        raise wire.missing("folderId")
    if folder != DEFAULT_FOLDER:
        raise wire.invalid("Folder ID does not exist")
    with state.change():
        made = state.run("INSERT INTO lists (name, folder) VALUES (?, ?)", (name, folder))
    return Answer(201, {"id": made.lastrowid})


def add_members(state: State, asked: Asked) -> Answer:
    """POST /contacts/lists/{id}/contacts/add: who is on it already counts as a failure."""
    place = asked.place
    return _change_members(
        state, asked, lambda contact, number: state.join(contact, number, place), "Contact already in list"
    )


def remove_members(state: State, asked: Asked) -> Answer:
    """POST /contacts/lists/{id}/contacts/remove; all:true empties the list."""
    body = asked.object()
    if body.get("all") is not True:
        return _change_members(state, asked, state.unlink, "Contact already removed from list")
    with state.change():
        state.run("DELETE FROM members WHERE list = ? AND has_left = 0", (_list_number(state, asked),))
    return Answer(201, {"contacts": {"processId": 1}})


def _list_number(state: State, asked: Asked) -> int:
    text = asked.path["list"]
    if not (text.isascii() and text.isdigit()):
        raise wire.invalid("List ID is invalid")
    if not state.has_list(int(text)):
        raise wire.not_found("List ID does not exist")
    return int(text)


def _change_members(state: State, asked: Asked, change: Callable[[int, int], bool], failed: str) -> Answer:
    key, identifiers = _identifiers(asked.object())
    success: list[str | int] = []
    failure: list[str | int] = []
    with state.change():
        number = _list_number(state, asked)
        for identifier in identifiers:
            sought = str(identifier).lower() if key == "emails" else identifier
            contact = state.contact(_LIST_KEYS[key], sought)
            done = contact is not None and change(contact.id, number)
            (success if done else failure).append(identifier)
        if not success:
            raise wire.invalid(f"{failed} and/or does not exist")
        _touch(state, success, key)
    return Answer(201, {"contacts": {"success": success, "failure": failure}})


def _identifiers(body: Json) -> tuple[str, list[str | int]]:
    """The one of emails, ids, extIds that was sent."""
    sent = [key for key in _LIST_KEYS if key in body]
    if len(sent) != 1:
        raise wire.invalid("Exactly one of emails, ids or extIds is needed")
    kind = int if sent[0] == "ids" else str
    identifiers = wire.typed(body, sent[0], list)
    if not all(isinstance(item, kind) and not isinstance(item, bool) for item in identifiers):
        raise wire.invalid(f"{sent[0]} is invalid")
    if not 0 < len(identifiers) <= MAX_LIST_CALL:
        raise wire.invalid(f"{sent[0]} should be between 1 and {MAX_LIST_CALL}")
    return sent[0], identifiers


def _touch(state: State, identifiers: Iterable[str | int], key: str) -> None:
    column, now = _LIST_KEYS[key], state.now()
    for identifier in identifiers:
        sought = str(identifier).lower() if key == "emails" else identifier
        state.run(f"UPDATE contacts SET modified_at = ? WHERE {column} = ?", (now, sought))  # noqa: S608


# -- attributes --------------------------------------------------------------------------------------------------------


def attributes(state: State, asked: Asked) -> Answer:
    """GET /contacts/attributes."""
    return Answer(200, {"attributes": [{"name": name, **body} for name, body in state.attributes().items()]})


def add_attribute(state: State, asked: Asked) -> Answer:
    """POST /contacts/attributes/{category}/{name}: 201, 400 when it exists."""
    body, category = asked.object(), asked.path["category"]
    name = asked.path["name"].upper()
    if category not in _CATEGORIES or not _ATTRIBUTE_NAME.match(name):
        raise wire.invalid("Attribute category or name is invalid")
    if name in state.attributes() or name == "EMAIL":
        raise wire.invalid("Attribute name must be unique")
    if category == "normal" and body.get("type") not in (*_FITS, "multiple-choice"):
        raise wire.invalid("type is invalid")
    kept: Json = {key: body[key] for key in ("type", "enumeration", "multiCategoryOptions") if key in body}
    with state.change():
        state.add_attribute(name, category, kept)
    return Answer(201)
