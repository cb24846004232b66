"""A local Brevo over real HTTP: the main paths, and the traps that go with them."""

import time
from typing import Any

import httpx
import pytest

from tests.connectors.sandbox.callers import API_KEY, Brevo

ADA = {
    "email": "Ada@Example.com",
    "ext_id": "shopify:s1:77",
    "attributes": {"FIRSTNAME": "Ada", "SMS": "+44 7700 900123"},
    "listIds": [7],
}


def _contact(brevo: Brevo, identifier: str = "ada@example.com", **query: Any) -> dict[str, Any]:
    shown = brevo.get(f"/contacts/{identifier}", **query)
    assert isinstance(shown, dict)
    return shown


def _order(number: str = "o1", **more: Any) -> dict[str, Any]:
    return {
        "id": number, "createdAt": "2026-11-01T10:00:00Z", "updatedAt": "2026-11-02T10:00:00Z", "status": "paid",
        "amount": 12.5, "products": [{"productId": "p1", "quantity": 2, "price": 6.25}], **more,
    }  # fmt: skip


def _event(**more: Any) -> dict[str, Any]:
    return {"event_name": "order_placed", "identifiers": {"contact_id": 1}, **more}


# -- contacts ----------------------------------------------------------------------------------------------------------


def test_a_contact_is_created_updated_and_shown(brevo: Brevo) -> None:
    assert brevo.post("/contacts", ADA) == (201, {"id": 1})
    assert brevo.post("/contacts", {**ADA, "attributes": {"LASTNAME": "Fenn"}, "updateEnabled": True}) == (204, None)
    shown = _contact(brevo)
    assert shown == {
        "id": 1, "email": "ada@example.com", "emailBlacklisted": False, "smsBlacklisted": False,
        "whatsappBlacklisted": False, "createdAt": shown["createdAt"], "modifiedAt": shown["modifiedAt"],
        "listIds": [7], "listUnsubscribed": [], "statistics": {},
        "attributes": {"FIRSTNAME": "Ada", "LASTNAME": "Fenn", "SMS": "447700900123", "EXT_ID": "shopify:s1:77"},
    }  # fmt: skip
    assert brevo.violations() == []


@pytest.mark.parametrize(
    ("identifier", "query"),
    [
        ("ADA@example.com", {}),
        ("1", {}),
        ("1", {"identifierType": "contact_id"}),
        ("shopify:s1:77", {"identifierType": "ext_id"}),
        ("+447700900123", {"identifierType": "phone_id"}),
        ("ada@example.com", {"identifierType": "email_id"}),
    ],
)
def test_a_contact_is_found_by_each_of_its_identifiers(brevo: Brevo, identifier: str, query: Any) -> None:
    brevo.post("/contacts", ADA)
    assert _contact(brevo, httpx.URL("/").copy_with(path=f"/{identifier}").raw_path.decode()[1:], **query)["id"] == 1


def test_an_identifier_that_is_neither_address_nor_number_needs_its_type(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    assert brevo.call("GET", "/contacts/shopify:s1:77")[0] == 400


def test_an_unknown_contact_is_not_found(brevo: Brevo) -> None:
    gone = (404, {"code": "document_not_found", "message": "Contact does not exist"})
    assert brevo.call("GET", "/contacts/nobody@example.com") == gone
    assert brevo.call("PUT", "/contacts/nobody@example.com", {"attributes": {}}) == gone
    assert brevo.call("DELETE", "/contacts/17") == gone


def test_a_second_creation_is_refused_with_either_code(brevo: Brevo) -> None:
    brevo.post("/contacts", {"email": "ada@example.com"})
    answers = [brevo.post("/contacts", {"email": "ADA@example.com"}) for _ in range(2)]
    assert {body["code"] for _, body in answers} == {"duplicate_parameter", "invalid_parameter"}
    assert [(status, body["message"], body["metadata"]) for status, body in answers] == [
        (
            400,
            "Unable to create contact, email is already associated with another Contact",
            {"duplicate_identifiers": ["email"]},
        )
    ] * 2


@pytest.mark.parametrize(
    ("body", "identifiers"),
    [
        ({"email": "bob@example.com", "ext_id": "shopify:s1:77"}, ["ext_id"]),
        ({"email": "bob@example.com", "attributes": {"SMS": "00447700900123"}}, ["SMS"]),
        (
            {"email": "cid@example.com", "ext_id": "shopify:s1:77", "attributes": {"SMS": "447700900123"}},
            ["ext_id", "SMS"],
        ),
    ],
)
def test_a_key_of_another_contact_is_refused_and_nothing_changes(brevo: Brevo, body: Any, identifiers: Any) -> None:
    """Case DELIV-13."""
    brevo.post("/contacts", ADA)
    brevo.post("/contacts", {"email": "bob@example.com"})
    before = brevo.dump()
    status, refused = brevo.post("/contacts", {**body, "updateEnabled": True})
    assert (status, refused["metadata"]) == (400, {"duplicate_identifiers": identifiers})
    assert brevo.dump() == before


def test_an_attribute_that_is_unknown_or_of_the_wrong_type_is_dropped_with_success(brevo: Brevo) -> None:
    """Case DELIV-18."""
    given = {
        "FIRSTNAME": 7, "firstname": "Ada", "NOM": "Fenn", "ORDER_COUNT": "3", "TOTAL_SPENT": 12.5, "COUNTRY": "GB",
        "CREATED_AT": "01/02/2026", "EXT_ID": "x",
    }  # fmt: skip
    assert brevo.post("/contacts", {"email": "ada@example.com", "attributes": given})[0] == 201
    assert _contact(brevo)["attributes"] == {"TOTAL_SPENT": 12.5, "COUNTRY": "GB"}
    assert brevo.call("PUT", "/contacts/1", {"attributes": {"CREATED_AT": "2026-02-01", "ORDER_COUNT": True}})[0] == 204
    assert _contact(brevo)["attributes"] == {"TOTAL_SPENT": 12.5, "COUNTRY": "GB", "CREATED_AT": "2026-02-01"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"email": "no address"},
        {"email": "jürgen@example.com"},
        {"email": "ada@bücher.example.com"},
        {"email": '"ada shop"@example.com'},
        {"email": "a..b@example.com"},
        {"email": "x" * 65 + "@example.com"},
        {"email": "ada@example.com", "listIds": ["7"]},
        {"email": "ada@example.com", "listIds": [99]},
        {"email": "ada@example.com", "attributes": {"FIRSTNAME": None}},
        {"email": "ada@example.com", "attributes": {"SMS": "call me"}},
        {"email": "ada@example.com", "emailBlacklisted": "no"},
        {"email": "ada@example.com", "ext_id": "\ud83d"},
        {"email": "ada@example.com", "listIds": [2**70]},
        [],
    ],
)
def test_a_contact_that_cannot_be_taken_is_refused_and_leaves_no_trace(brevo: Brevo, body: Any) -> None:
    """Case DATA-05: what Brevo cannot take."""
    status, refused = brevo.post("/contacts", body)
    assert (status, sorted(refused)) == (400, ["code", "message"])
    assert brevo.control("summary")["contacts"] == 0


def test_who_has_only_a_number_gets_an_address_that_is_none(brevo: Brevo) -> None:
    brevo.post("/contacts", {"attributes": {"SMS": "+447700900123"}})
    brevo.post("/contacts", {"ext_id": "e2"})
    assert [contact.get("email") for contact in brevo.dump()["contacts"]] == ["447700900123@mailin-sms.com", None]


def test_an_update_moves_lists_and_keys(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    change = {"ext_id": "e9", "listIds": [8], "unlinkListIds": [7], "emailBlacklisted": True}
    assert brevo.call("PUT", "/contacts/ada@example.com", change) == (204, None)
    shown = _contact(brevo, "e9", identifierType="ext_id")
    assert (shown["listIds"], shown["listUnsubscribed"], shown["emailBlacklisted"]) == ([8], [], True)
    assert brevo.violations() == []


def test_contacts_are_paged_newest_first_and_filtered(brevo: Brevo) -> None:
    for number in range(1, 6):
        brevo.post("/contacts", {"email": f"p{number}@example.com", "listIds": [7] if number % 2 else []})

    def ids(**query: Any) -> tuple[list[int], int]:
        found = brevo.get("/contacts", **query)
        return [contact["id"] for contact in found["contacts"]], found["count"]

    assert ids() == ([5, 4, 3, 2, 1], 5)
    assert ids(limit=2, offset=1, sort="asc") == ([2, 3], 5)
    assert ids(ids="2,4") == ([4, 2], 2)
    assert ids(listIds=7, sort="asc") == ([1, 3, 5], 3)
    moved = _contact(brevo, "p5@example.com")["modifiedAt"]
    time.sleep(0.002)
    brevo.call("PUT", "/contacts/2", {"attributes": {"COUNTRY": "GB"}})
    assert 2 in ids(modifiedSince=moved)[0] and 1 not in ids(modifiedSince=_contact(brevo, "2")["modifiedAt"])[0]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": 1001}, "out_of_range"),
        ({"limit": "many"}, "invalid_parameter"),
        ({"sort": "up"}, "invalid_parameter"),
        ({"modifiedSince": "yesterday"}, "invalid_parameter"),
        ({"ids": ",".join(map(str, range(1, 23)))}, "invalid_parameter"),
        ({"filter": 'equals(COUNTRY,"GB")'}, "invalid_parameter"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(brevo: Brevo, query: Any, code: str) -> None:
    status, body = brevo.call("GET", "/contacts", **query)
    assert (status, body["code"]) == (400, code)


# -- what no careful writer does ---------------------------------------------------------------------------------------


def _opted_out(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    brevo.control("unsubscribe", {"email": "ada@example.com"})


def test_a_person_who_unsubscribes_is_shown_as_such(brevo: Brevo) -> None:
    """Case CONS-01."""
    _opted_out(brevo)
    shown = _contact(brevo)
    assert (shown["emailBlacklisted"], shown["listIds"], shown["listUnsubscribed"]) == (True, [7], [])
    [event] = shown["statistics"]["unsubscriptions"]["userUnsubscription"]
    assert event == {"campaignId": 3, "eventTime": shown["modifiedAt"], "ip": "192.0.2.1"}
    brevo.control("unsubscribe", {"email": "ada@example.com", "list_id": 7})
    shown = _contact(brevo)
    assert (shown["listIds"], shown["listUnsubscribed"]) == ([], [7])


def test_a_write_without_a_flag_leaves_the_block_alone(brevo: Brevo) -> None:
    _opted_out(brevo)
    brevo.post("/contacts", {"email": "ada@example.com", "attributes": {"LASTNAME": "Fenn"}, "updateEnabled": True})
    brevo.call("PUT", "/contacts/1", {"attributes": {"COUNTRY": "GB"}})
    assert _contact(brevo)["emailBlacklisted"] is True
    assert brevo.violations() == []


def test_a_flag_of_false_lifts_the_block_and_is_a_violation(brevo: Brevo) -> None:
    _opted_out(brevo)
    brevo.call("PUT", "/contacts/1", {"emailBlacklisted": False, "smsBlacklisted": False})
    assert _contact(brevo)["emailBlacklisted"] is False
    assert brevo.violations() == ["emailBlacklisted false", "smsBlacklisted false"]


def test_a_changed_address_lifts_the_block_and_is_a_violation(brevo: Brevo) -> None:
    _opted_out(brevo)
    assert brevo.call("PUT", "/contacts/1", {"attributes": {"EMAIL": "new@example.com"}})[0] == 204
    assert _contact(brevo, "new@example.com")["emailBlacklisted"] is False
    assert brevo.violations() == ["attributes.EMAIL"]


def test_a_deletion_forgets_the_block_and_is_a_violation(brevo: Brevo) -> None:
    """Case CONS-08."""
    _opted_out(brevo)
    assert brevo.call("DELETE", "/contacts/1") == (204, None)
    assert brevo.post("/contacts", ADA) == (201, {"id": 2})
    assert _contact(brevo)["emailBlacklisted"] is False
    assert brevo.violations() == ["deleted a contact that was blocklisted"]


def test_a_forced_merge_deletes_the_other_contact_and_is_a_violation(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    brevo.post("/contacts", {"email": "bob@example.com"})
    body = {"ext_id": "shopify:s1:77", "forceMerge": True}
    assert brevo.call("PUT", "/contacts/bob@example.com", body)[0] == 204
    assert [contact["id"] for contact in brevo.dump()["contacts"]] == [2]
    assert brevo.violations() == ["forceMerge"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/contacts", {"email": "ada@example.com", "listIds": [7], "updateEnabled": True}),
        ("PUT", "/contacts/1", {"listIds": [7]}),
        ("POST", "/contacts/lists/7/contacts/add", {"ids": [1]}),
    ],
)
def test_who_left_a_list_is_put_back_on_it_and_that_is_a_violation(
    brevo: Brevo, method: str, path: str, body: Any
) -> None:
    brevo.post("/contacts", ADA)
    brevo.control("unsubscribe", {"email": "ada@example.com", "list_id": 7})
    assert brevo.call(method, path, body)[0] < 300
    shown = _contact(brevo)
    assert (shown["listIds"], shown["listUnsubscribed"]) == ([7], [])
    assert brevo.violations() == ["re-added to a list the person left"]


def test_an_import_that_would_lift_blocks_is_a_violation_though_nothing_is_imported(brevo: Brevo) -> None:
    assert brevo.post("/contacts/import", {"emailBlacklist": False, "jsonBody": []})[0] == 400
    assert brevo.violations() == ["emailBlacklist false in import"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/events", {"event_name": "order_placed", "identifiers": {"email_id": "new@example.com"}}),
        ("/orders/status", _order(identifiers={"email_id": "new@example.com"})),
    ],
)
def test_an_unknown_address_in_an_order_or_event_creates_a_contact_and_is_a_violation(
    brevo: Brevo, path: str, body: Any
) -> None:
    assert brevo.post(path, body) == (204, None)
    assert [contact["email"] for contact in brevo.dump()["contacts"]] == ["new@example.com"]
    [violation] = brevo.dump()["violations"]
    assert (violation["kind"], violation["where"], violation["contact_id"]) == (
        "contact created by an order or event",
        f"POST {path}",
        1,
    )


# -- lists and attributes ----------------------------------------------------------------------------------------------


def test_lists_are_shown_without_their_dropped_totals(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    assert brevo.post("/contacts/lists", {"name": "New", "folderId": 1}) == (201, {"id": 9})
    assert brevo.get("/contacts/lists", limit=2, offset=1) == {
        "count": 3,
        "lists": [
            {
                "id": number, "name": name, "folderId": 1, "uniqueSubscribers": members, "totalSubscribers": 0,
                "totalBlacklisted": 0,
            }
            for number, name, members in ((8, "Newsletter", 0), (7, "Shop customers", 1))
        ],
    }  # fmt: skip


def test_adding_to_a_list_tells_who_was_on_it_already_or_is_unknown(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    brevo.post("/contacts", {"email": "bob@example.com"})
    path = "/contacts/lists/7/contacts/add"
    emails = ["bob@example.com", "ada@example.com", "x@example.com"]
    assert brevo.post(path, {"emails": emails}) == (
        201,
        {"contacts": {"success": ["bob@example.com"], "failure": ["ada@example.com", "x@example.com"]}},
    )
    assert brevo.post(path, {"emails": emails}) == (
        400,
        {"code": "invalid_parameter", "message": "Contact already in list and/or does not exist"},
    )


def test_removing_from_a_list_is_no_opt_out(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    path = "/contacts/lists/7/contacts/remove"
    assert brevo.post(path, {"extIds": ["shopify:s1:77"]})[0] == 201
    assert brevo.post(path, {"extIds": ["shopify:s1:77"]})[0] == 400
    shown = _contact(brevo)
    assert (shown["listIds"], shown["listUnsubscribed"]) == ([], [])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/contacts/lists/99/contacts/add", {"ids": [1]}, 404),
        ("/contacts/lists/7/contacts/add", {"ids": [1], "emails": ["a@example.com"]}, 400),
        ("/contacts/lists/7/contacts/add", {"ids": ["1"]}, 400),
        ("/contacts/lists/7/contacts/add", {"ids": list(range(1, 152))}, 400),
        ("/contacts/lists/7/contacts/add", {}, 400),
        ("/contacts/lists", {"name": "New", "folderId": 44}, 400),
        ("/contacts/lists", {"folderId": 1}, 400),
    ],
)
def test_a_list_call_that_cannot_be_carried_out_is_refused(brevo: Brevo, path: str, body: Any, status: int) -> None:
    brevo.post("/contacts", ADA)
    assert brevo.post(path, body)[0] == status


def test_attributes_are_listed_and_made_once(brevo: Brevo) -> None:
    options = {"enumeration": [{"value": 1, "label": "Gold"}, {"value": 2, "label": "Silver"}]}
    assert brevo.post("/contacts/attributes/category/TIER", options) == (201, None)
    assert brevo.post("/contacts/attributes/category/TIER", options)[0] == 400
    assert brevo.post("/contacts/attributes/normal/VIP", {"type": "boolean"})[0] == 201
    choices = {"type": "multiple-choice", "multiCategoryOptions": ["red", "blue"]}
    assert brevo.post("/contacts/attributes/normal/COLOURS", choices)[0] == 201
    assert brevo.get("/contacts/attributes")["attributes"] == [
        {"name": "FIRSTNAME", "category": "normal", "type": "text"},
        {"name": "LASTNAME", "category": "normal", "type": "text"},
        {"name": "SMS", "category": "normal", "type": "text"},
        {"name": "EXT_ID", "category": "normal", "type": "text"},
        {"name": "LANGUAGE", "category": "normal", "type": "text"},
        {"name": "COUNTRY", "category": "normal", "type": "text"},
        {"name": "ORDER_COUNT", "category": "normal", "type": "float"},
        {"name": "TOTAL_SPENT", "category": "normal", "type": "float"},
        {"name": "CREATED_AT", "category": "normal", "type": "date"},
        {"name": "TIER", "category": "category", **options},
        {"name": "VIP", "category": "normal", "type": "boolean"},
        {"name": "COLOURS", "category": "normal", **choices},
    ]
    given = {"TIER": "Silver", "VIP": 1, "COLOURS": ["red"]}
    brevo.post("/contacts", {"email": "ada@example.com", "attributes": given})
    assert _contact(brevo)["attributes"] == {"TIER": 2, "COLOURS": ["red"]}


# -- events and orders -------------------------------------------------------------------------------------------------


def test_the_same_event_twice_is_kept_twice_and_counted(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    for number in ("o1", "o1", "o2"):
        assert brevo.post("/events", _event(event_properties={"order_id": number})) == (204, None)
    brevo.post("/events", _event(event_name="order_refunded", event_properties={"id": "r1"}))
    brevo.post("/events", _event(event_name="order_refunded", event_properties={"id": "r1"}))
    brevo.post("/events", _event(event_name="login"))
    brevo.post("/events", _event(event_name="login"))
    summary = brevo.control("summary")
    assert (summary["events"], summary["duplicate_events"]) == (7, 2)


def test_events_are_found_by_contact_name_and_date(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    brevo.post("/contacts", {"email": "bob@example.com"})
    for contact, name, date in (
        (1, "placed", "2026-11-01T10:00:00Z"),
        (1, "paid", "2026-11-02T12:00:00+02:00"),
        (2, "placed", "2026-11-02T23:30:00Z"),
        (1, "placed", "2011-01-01T00:00:00Z"),
    ):
        event = {"event_name": name, "identifiers": {"contact_id": contact}, "event_date": date}
        assert brevo.post("/events", event)[0] == 204

    def dates(**query: Any) -> list[str]:
        found = brevo.get("/events", **query)
        assert found["count"] >= len(found["events"])
        return [event["event_date"] for event in found["events"]]

    first, paid, other = "2026-11-01T10:00:00.000Z", "2026-11-02T10:00:00.000Z", "2026-11-02T23:30:00.000Z"
    assert dates() == [other, paid, first]
    assert dates(contact_id=1) == [paid, first]
    assert dates(contact_id=1, event_name="placed") == [first]
    assert dates(startDate="2026-11-02", endDate="2026-11-02") == [other, paid]
    assert dates(startDate="2011-01-01", endDate="2026-11-01", limit=1) == [first]
    assert dates(limit=1, offset=1) == [paid]
    assert brevo.call("GET", "/events", startDate="2026-11-01")[0] == 400


@pytest.mark.parametrize(
    "event",
    [
        {"identifiers": {"contact_id": 1}},
        _event(event_name="order placed"),
        _event(identifiers={}),
        _event(identifiers={"contact_id": 99}),
        _event(identifiers={"ext_id": "unknown"}),
        _event(event_date="soon"),
        _event(event_properties={"text": "x" * 60_000}),
    ],
)
def test_an_event_that_cannot_be_taken_is_refused(brevo: Brevo, event: Any) -> None:
    brevo.post("/contacts", ADA)
    assert brevo.post("/events", event)[0] == 400
    assert (brevo.control("summary")["events"], brevo.violations()) == (0, [])


def test_the_number_of_a_contact_wins_over_an_address(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    brevo.post("/events", _event(identifiers={"email_id": "other@example.com", "contact_id": 1}))
    assert [event["contact_id"] for event in brevo.dump()["events"]] == [1]
    assert brevo.violations() == []


def test_a_batch_of_events_may_be_taken_in_part_and_says_so_with_a_success_code(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    good, bad = _event(), {"identifiers": {"contact_id": 1}}
    message = "Batch accepted. Valid events have been added to the processing queue."
    assert brevo.post("/events/batch", {"events": [good, good]}) == (202, {"message": message, "count": 2})
    report = {"total_events": 3, "successful_events": 1, "failed_events": 2}
    errors = [{"eventIndex": [0, 2], "message": "undefined event_name"}]
    assert brevo.post("/events/batch", {"events": [bad, good, bad]}) == (
        207,
        {"status": "partiallyQueued", **report, "errors": errors},
    )
    status, body = brevo.post("/events/batch", {"events": [bad]})
    assert (status, body["status"], body["failed_events"]) == (400, "failed", 1)
    assert brevo.post("/events/batch", [good])[0] == 400
    assert brevo.control("summary")["events"] == 3


def test_an_order_is_kept_by_its_id_and_seen_by_automations_each_time(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    known = {"identifiers": {"ext_id": "shopify:s1:77"}}
    assert brevo.post("/orders/status", _order(**known)) == (204, None)
    assert brevo.post("/orders/status", _order(status="refunded", **known)) == (204, None)
    assert brevo.dump()["orders"] == [{**_order(status="refunded", **known), "contact_id": 1, "triggers": 2}]
    assert brevo.get("/orders") == {
        "count": 1,
        "orders": [{**_order(status="refunded", **known), "contact_id": 1, "email": "ada@example.com"}],
    }


def test_an_order_of_an_unknown_ext_id_has_no_contact(brevo: Brevo) -> None:
    assert brevo.post("/orders/status", _order(identifiers={"ext_id": "unknown"}))[0] == 204
    assert brevo.dump()["orders"][0]["contact_id"] is None
    assert (brevo.violations(), brevo.control("summary")["contacts"]) == ([], 0)


@pytest.mark.parametrize(
    "order",
    [
        {key: value for key, value in _order().items() if key != "products"},
        _order(amount="12.50"),
        _order(createdAt="last week"),
        _order(products=[{"productId": "p1", "price": 1}]),
        _order(products=[{"quantity": 1, "price": 1}]),
        _order(id=""),
    ],
)
def test_an_order_that_cannot_be_taken_is_refused_alone_and_in_a_batch(brevo: Brevo, order: Any) -> None:
    assert brevo.post("/orders/status", order)[0] == 400
    assert brevo.post("/orders/status/batch", {"orders": [order]})[0] == 400
    assert brevo.control("summary")["orders"] == 0


def test_orders_are_paged_and_filtered_by_their_own_times(brevo: Brevo) -> None:
    for day in (3, 1, 2):
        created, updated = f"2026-11-0{day}T00:00:00Z", f"2026-11-1{day}T00:00:00Z"
        brevo.post("/orders/status", _order(f"o{day}", createdAt=created, updatedAt=updated))

    def ids(**query: Any) -> list[str]:
        return [order["id"] for order in brevo.get("/orders", **query)["orders"]]

    assert ids() == ["o3", "o2", "o1"]
    assert ids(sort="asc", limit=1, offset=1) == ["o2"]
    assert ids(modifiedSince="2026-11-12T00:00:00Z") == ["o3", "o2"]
    assert ids(createdSince="2026-11-03T01:00:00+01:00") == ["o3"]
    assert brevo.call("GET", "/orders", limit=101)[0] == 400


@pytest.mark.parametrize(("more", "triggers"), [({}, 0), ({"historical": True}, 0), ({"historical": False}, 1)])
def test_a_batch_of_orders_lands_later_and_history_triggers_nothing(brevo: Brevo, more: Any, triggers: int) -> None:
    orders = [_order("o1"), _order("o2")]
    status, body = brevo.post("/orders/status/batch", {"orders": orders, **more})
    assert (status, body["count"]) == (202, 2)
    deadline = time.monotonic() + 5
    while brevo.control("summary")["orders"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [order["triggers"] for order in brevo.dump()["orders"]] == [triggers, triggers]


# -- the door ----------------------------------------------------------------------------------------------------------


def test_without_the_right_key_nothing_is_served(brevo: Brevo) -> None:
    url = f"{brevo.served.url}/v3/account"
    missing = httpx.get(url, trust_env=False)
    wrong = httpx.get(url, headers={"api-key": "other"}, trust_env=False)
    assert (missing.status_code, missing.json()) == (
        401,
        {"code": "unauthorized", "message": "authentication not found in headers"},
    )
    assert (wrong.status_code, wrong.json()) == (401, {"code": "unauthorized", "message": "Key not found"})


def test_every_answer_carries_a_request_id_of_its_own(brevo: Brevo) -> None:
    answers = [brevo.http.get("/v3/account"), brevo.http.get("/v3/contacts/nobody@example.com")]
    ids = {answer.headers["sib-request-id"] for answer in answers}
    assert len(ids) == 2


def test_paths_and_methods_that_are_not_there_are_told_in_json(brevo: Brevo) -> None:
    assert brevo.call("GET", "/nothing") == (404, {"code": "document_not_found", "message": "Not found"})
    assert brevo.call("POST", "/contacts/batch", {}) == (
        405,
        {"code": "method_not_allowed", "message": "Method not allowed"},
    )
    answer = brevo.http.post("/v3/contacts", content=b"{", headers={"api-key": API_KEY})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


def test_a_seeded_contact_is_simply_there(brevo: Brevo) -> None:
    seed = {
        "email": "ada@example.com", "ext_id": "e1", "attributes": {"FIRSTNAME": "Ada"}, "listIds": [7],
        "listUnsubscribed": [8], "emailBlacklisted": True,
    }  # fmt: skip
    assert brevo.control("contacts", seed) == {"id": 1}
    shown = _contact(brevo)
    assert (shown["emailBlacklisted"], shown["listIds"], shown["listUnsubscribed"]) == (True, [7], [8])
    assert brevo.violations() == []
    with pytest.raises(
        ValueError, match="The address is unusable, or it, the ext_id or the number is taken: correct it"
    ):
        brevo.control("contacts", seed)


def test_the_summary_counts_everything(brevo: Brevo) -> None:
    brevo.post("/contacts", ADA)
    assert brevo.control("summary") == {
        "contacts": 1, "list_members": {"7": 1, "8": 0}, "orders": 0, "events": 0, "duplicate_events": 0,
        "violations": 0, "requests": 1,
    }  # fmt: skip


@pytest.mark.parametrize("body", [{"email": "nobody@example.com"}, {"email": "ada@example.com", "list_id": 99}])
def test_an_opt_out_of_nobody_or_of_no_list_is_told(brevo: Brevo, body: Any) -> None:
    brevo.post("/contacts", ADA)
    with pytest.raises(ValueError, match=r"create (it|the contact) first"):
        brevo.control("unsubscribe", body)
