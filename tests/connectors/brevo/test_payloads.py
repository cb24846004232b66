"""What can be said to Brevo, and what cannot."""

import dataclasses
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import errors, http, protocol
from connectors.brevo import payloads
from connectors.brevo.payloads import ResubscriptionRefused, refuse_resubscription
from connectors.protocol import EffectKind, Write
from tests.connectors.brevo.answers import (
    ADDRESS,
    DAY,
    SUBJECT,
    an_order,
    contact_write,
    event_write,
    held,
    known,
    order_write,
    withdrawal,
)

SPEC = Path(__file__).resolve().parents[4] / "shared" / "api" / "schemas" / "brevo-openapi-strict-subset.yaml"


# --- the choke point --------------------------------------------------------------------------------------------

FORBIDDEN: list[Any] = [
    {"emailBlacklisted": False},
    {"emailBlacklisted": None},
    {"emailBlacklisted": 0},
    {"emailBlacklisted": 1},
    {"emailBlacklisted": "true"},
    {"EMAILBLACKLISTED": False},
    {"email_blacklisted": False},
    {"email-Blacklisted ": False},
    {"smsBlacklisted": False},
    {"whatsappBlacklisted": False},
    {"smtpBlacklistSender": []},
    {"smtpBlacklistSender": ["a@example.com"]},
    {"forceMerge": True},
    {"forceMerge": False},
    {"attributes": {"EMAIL": "b@example.com"}},
    {"attributes": {"email": "b@example.com"}},
    {"ATTRIBUTES": {"eMail": "b@example.com"}},
    {"emailBlacklist": False},
    {"smsBlacklist": True},
    {"consentGroupIds": [1]},
    {"contact_properties": {"A": 1}},
    {"contactProperties": {}},
    {"updateEnabled": True},
    {"updateEnabled": None},
    {"orders": [{"id": "1"}, {"metaInfo": {"deep": [{"forceMerge": True}]}}]},
    [{"emailBlacklisted": False}],
    ({"emailBlacklisted": False},),
    {1: "a key that is no text"},
    b'{"emailBlacklisted":false}',
    {"body": b"hidden"},
]


@pytest.mark.parametrize("body", FORBIDDEN, ids=repr)
def test_no_body_that_could_lift_a_no_gets_through(body: Any) -> None:
    """Case CONS-01."""
    with pytest.raises(ResubscriptionRefused):
        refuse_resubscription("POST", "/v3/contacts", {}, body)


@pytest.mark.parametrize("body", FORBIDDEN, ids=repr)
def test_nor_when_it_is_hidden_in_parameters_or_deeper(body: Any) -> None:
    with pytest.raises(ResubscriptionRefused):
        refuse_resubscription("PUT", "/v3/contacts/21", {"x": [body]}, None)
    with pytest.raises(ResubscriptionRefused):
        refuse_resubscription("PUT", "/v3/contacts/21", {}, {"a": {"b": [[{"c": body}]]}})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v3/contacts/21"),
        ("delete", "/v3/contacts/21"),
        (" Delete", "/v3/contacts/21"),
        ("POST", "/v3/contacts/import"),
        ("POST", "/v3/contacts/batch"),
        ("POST", "/v3/Contacts//Import/"),
        ("POST", "/v3/contacts/%69mport"),
        ("POST", "/v3/contacts/%2569mport"),
        ("POST", "/v3/contacts%2Fimport"),
        ("POST", "/v3/contacts/doubleOptinConfirmation"),
        ("POST", "/v3/contacts/doubleoptinconfirmation?x=1"),
    ],
)
def test_no_call_that_could_subscribe_again_gets_through(method: str, path: str) -> None:
    """Case CONS-12."""
    with pytest.raises(ResubscriptionRefused):
        refuse_resubscription(method, path, {}, None)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"emailBlacklisted": True},
        {"smsBlacklisted": True, "attributes": {"FIRSTNAME": "Ada"}},
        {"email": "a@example.com", "updateEnabled": False},
        {"unlinkListIds": [7]},
    ],
)
def test_a_block_may_be_set_and_ordinary_writes_pass(body: Any) -> None:
    refuse_resubscription("PUT", "/v3/contacts/21", {"identifierType": "contact_id"}, body)


def test_a_breach_is_no_error_of_a_connector() -> None:
    assert not issubclass(ResubscriptionRefused, errors.ConnectorError)


@given(
    st.recursive(
        st.just({"emailBlacklisted": False}),
        lambda inner: st.one_of(st.lists(inner, min_size=1), st.dictionaries(st.text(), inner, min_size=1)),
        max_leaves=8,
    )
)
def test_a_lifted_block_is_found_at_any_depth(body: Any) -> None:
    with pytest.raises(ResubscriptionRefused):
        refuse_resubscription("POST", "/v3/contacts", {}, body)


def test_a_write_has_no_field_that_could_lift_a_no() -> None:
    """PRODUCT 3.7: who adds a field must think of it here."""
    assert [field.name for field in dataclasses.fields(Write)] == [
        "kind",
        "id",
        "effect_key",
        "subject_id",
        "address",
        "attributes",
        "list_id",
        "known",
        "destination_id",
        "consent_at",
        "granted_at",
        "order",
        "event_name",
        "event_at",
        "history",
    ]


# --- contacts ---------------------------------------------------------------------------------------------------


def test_an_unknown_contact_is_created_or_the_call_fails() -> None:
    request = payloads.create_contact(contact_write())

    assert (request.method, request.path) == ("POST", "/v3/contacts")
    assert request.body == {
        "email": ADDRESS,
        "ext_id": SUBJECT,
        "attributes": {"FIRSTNAME": "Ada"},
        "listIds": [7],
        "updateEnabled": False,
    }


def test_no_payload_sets_a_flag_in_either_direction() -> None:
    """Case CONS-07."""
    contact = payloads.contact(held(attributes={"EXT_ID": None})).contact
    requests = [
        payloads.create_contact(contact_write()),
        payloads.update_contact(known(), contact, grant=True),
        payloads.take_off_list(withdrawal()),
        payloads.post_order(order_write()),
        payloads.post_event(event_write()),
    ]

    assert all("lacklist" not in str(request and request.body) for request in requests)


def test_empty_values_are_left_out() -> None:
    """Case DELIV-11."""
    empty = {"SMS": None, "LASTNAME": "", "CITY": "  ", "TAGS": [], "FIRSTNAME": "Ada", "ORDERS": 0, "VIP": False}

    assert payloads.attributes(empty) == {"FIRSTNAME": "Ada", "ORDERS": 0, "VIP": False}


def test_nothing_but_empty_values_is_no_attributes_at_all() -> None:
    assert "attributes" not in (payloads.create_contact(contact_write(attributes={"A": None})).body or {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Ada", '"Ada"'),
        (5, "5"),
        (True, "true"),
        (Decimal("231.10"), "231.10"),
        (date(2026, 9, 1), '"2026-09-01"'),
        (datetime(2026, 9, 1, 10, tzinfo=UTC), '"2026-09-01T10:00:00.000Z"'),
        (["a", "b"], '["a","b"]'),
        (("a",), '["a"]'),
    ],
)
def test_a_value_goes_out_as_brevo_takes_it(value: Any, text: str) -> None:
    assert http.encode(payloads.attributes({"A": value})) == f'{{"A":{text}}}'.encode()


@pytest.mark.parametrize("value", [1.5, {"a": 1}, [1], Decimal("NaN"), object()])
def test_a_value_brevo_cannot_take_rejects_the_record(value: Any) -> None:
    with pytest.raises(errors.Rejected) as caught:
        payloads.attributes({"TOTAL": value})

    assert (caught.value.code, "TOTAL" in caught.value.sentence) == ("attribute_unsupported", True)


def updated(write: Write, **changes: Any) -> Any:
    contact = payloads.contact(held(**changes)).contact
    request = payloads.update_contact(write, contact, grant=payloads.may_grant(write, contact))
    return request and (request.method, request.path, dict(request.params), request.body)


def test_an_update_holds_only_what_there_is_to_say() -> None:
    """Case DELIV-12 a."""
    assert updated(known()) == (
        "PUT",
        "/v3/contacts/21",
        {"identifierType": "contact_id"},
        {"attributes": {"FIRSTNAME": "Ada"}},
    )


def test_nothing_to_say_is_no_call() -> None:
    assert updated(known(attributes={})) is None


def test_an_external_id_is_set_once() -> None:
    nobody = {"attributes": {"EXT_ID": None}}

    assert updated(known(attributes={}), **nobody)[3] == {"ext_id": SUBJECT}
    assert updated(known(attributes={}), attributes={"EXT_ID": "another"}) is None


LATER = DAY + timedelta(days=1)


@pytest.mark.parametrize(
    ("changes", "lists", "left", "may"),
    [
        ({}, [], [], True),
        ({"consent_at": None}, [], [], True),
        ({"list_id": None}, [], [], False),
        ({}, [7], [], False),
        ({}, [], [7], False),
        ({"granted_at": DAY}, [], [], False),
        ({"granted_at": LATER}, [], [], False),
        ({"granted_at": DAY, "consent_at": LATER}, [], [], True),
        ({"granted_at": DAY, "consent_at": LATER}, [], [7], False),
        ({"granted_at": DAY, "consent_at": None}, [], [], False),
    ],
)
def test_a_list_is_granted_only_on_newer_consent(changes: Any, lists: Any, left: Any, may: bool) -> None:
    contact = payloads.contact(held(listIds=lists, listUnsubscribed=left)).contact

    assert payloads.may_grant(known(**changes), contact) is may


def test_a_withdrawal_takes_one_person_off_one_list() -> None:
    by_id, by_subject = payloads.take_off_list(withdrawal()), payloads.take_off_list(withdrawal(destination_id=None))

    assert (by_id.method, by_id.path) == ("POST", "/v3/contacts/lists/7/contacts/remove")
    assert (by_id.body, by_subject.body) == ({"ids": [21]}, {"extIds": [SUBJECT]})


def test_an_identifier_stays_one_segment_of_the_path() -> None:
    assert payloads.get_contact("a/../b@example.com?x", "email_id").path == "/v3/contacts/a%2F..%2Fb%40example.com%3Fx"


def test_a_contact_is_read_with_its_no() -> None:
    found = payloads.contact(held(emailBlacklisted=True, listIds=[7, 9], listUnsubscribed=[3], email="Ada@Example.com"))

    assert found.email == ADDRESS
    assert found.contact == protocol.Contact(
        id="21",
        subject_id=SUBJECT,
        blocklisted=True,
        left_lists=frozenset({3}),
        lists=frozenset({7, 9}),
        attributes={"FIRSTNAME": "Ada"},
    )


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {**held(), "emailBlacklisted": None},
        {**held(), "emailBlacklisted": "no"},
        {**held(), "id": "21"},
        {**held(), "id": None},
        {**held(), "attributes": None},
        {**held(), "listIds": None},
        {**held(), "listIds": ["7"]},
        {**held(), "listUnsubscribed": "7"},
    ],
)
def test_a_contact_whose_no_cannot_be_read_is_unreadable(body: Any) -> None:
    with pytest.raises(errors.Unreadable):
        payloads.contact(body)


@pytest.mark.parametrize("missing", ["emailBlacklisted", "id", "attributes", "listIds"])
def test_no_key_of_a_contact_is_assumed(missing: str) -> None:
    with pytest.raises(errors.Unreadable):
        payloads.contact({name: value for name, value in held().items() if name != missing})


# --- orders and events ------------------------------------------------------------------------------------------


def test_an_order_goes_out_by_external_id_with_exact_numbers() -> None:
    request = payloads.post_order(order_write(1494))

    assert (request.method, request.path) == ("POST", "/v3/orders/status")
    assert http.encode(request.body) == (
        b'{"id":"shopify:linden:1494","createdAt":"2026-11-30T08:00:00.000Z",'
        b'"updatedAt":"2026-11-30T08:01:00.001Z","status":"paid","amount":55.10,"storeId":"linden",'
        b'"identifiers":{"ext_id":"shopify:linden:77"},'
        b'"products":[{"productId":"BO-50","quantity":2,"price":27.55}],'
        b'"metaInfo":{"name":"#1494","currency":"EUR"}}'
    )


def test_history_starts_no_automation() -> None:
    request = payloads.post_history([order_write(1, history=True), order_write(2, history=True)])

    assert (request.method, request.path) == ("POST", "/v3/orders/status/batch")
    assert request.body is not None and request.body["historical"] is True
    assert [order["id"] for order in request.body["orders"]] == ["shopify:linden:1", "shopify:linden:2"]


def test_two_shops_with_the_same_order_number_do_not_meet() -> None:
    one, other = order_write(1), order_write(1, subject_id="shopify:other:5")

    assert payloads.order_id(one) != payloads.order_id(other)
    assert (payloads.store_id(one), payloads.store_id(other)) == ("linden", "other")


def test_an_event_carries_its_key_and_names_the_person_by_number() -> None:
    assert payloads.post_event(event_write()).body == {
        "event_name": "order_placed",
        "identifiers": {"contact_id": 21},
        "event_properties": {"order": "#1494", "vigil_key": "beef"},
        "event_date": "2026-11-30T08:00:00.000Z",
    }


def test_an_event_without_a_number_names_the_person_by_external_id() -> None:
    """PRODUCT 3.9: never by an address."""
    body = payloads.post_event(event_write(destination_id=None)).body

    assert body is not None and body["identifiers"] == {"ext_id": SUBJECT}


def test_a_mapped_attribute_cannot_replace_the_key() -> None:
    body = payloads.post_event(event_write(attributes={"vigil_key": "x"})).body

    assert body is not None and body["event_properties"] == {"vigil_key": "beef"}


def doubt(key: str, minutes: int = 0, person: str | None = "21") -> protocol.Doubt:
    at = DAY + timedelta(minutes=minutes)
    return protocol.Doubt(key, "1", "order_placed", SUBJECT, person, at, at)


@pytest.mark.parametrize(("people", "only"), [(["21", "21"], "21"), (["21", "22"], None), (["21", None], None)])
def test_doubts_are_looked_up_in_one_window(people: list[str | None], only: str | None) -> None:
    doubts = [doubt("a", 0, people[0]), doubt("b", 30, people[1])]

    params = dict(payloads.get_events("order_placed", doubts, 0).params)

    assert params == {
        "event_name": "order_placed",
        "startDate": "2026-11-30T07:00:00.000Z",
        "endDate": "2026-11-30T09:30:00.000Z",
        "limit": "1000",
        "offset": "0",
        **({"contact_id": only} if only else {}),
    }


@pytest.mark.parametrize("body", [None, [], {}, {"events": None}])
def test_a_list_of_events_of_another_shape_is_unreadable(body: Any) -> None:
    with pytest.raises(errors.Unreadable):
        payloads.events_seen(body)


@pytest.mark.parametrize("body", [None, {}, {"orders": {}}, {"orders": [{"id": "1", "updatedAt": "x"}]}])
def test_a_list_of_orders_of_another_shape_is_unreadable(body: Any) -> None:
    with pytest.raises(errors.Unreadable):
        payloads.orders_seen(body)


def test_an_instant_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        payloads.instant(datetime(2026, 1, 1))


# --- the vendor's own description -------------------------------------------------------------------------------

CONTACT = payloads.contact(held(attributes={"EXT_ID": None}, listIds=[])).contact
REQUESTS = [
    payloads.create_contact(contact_write(attributes={"A": Decimal("1.5"), "B": True, "C": ["x"]})),
    payloads.create_contact(contact_write(attributes={}, list_id=None)),
    payloads.update_contact(known(), CONTACT, grant=True),
    payloads.take_off_list(withdrawal()),
    payloads.take_off_list(withdrawal(destination_id=None)),
    payloads.get_contact(ADDRESS, "email_id"),
    payloads.get_contact("21", "contact_id"),
    payloads.get_contact(SUBJECT, "ext_id"),
    payloads.post_order(order_write()),
    payloads.post_order(order_write(order=an_order(lines=()))),
    payloads.post_history([order_write(1), order_write(2)]),
    payloads.get_orders(DAY, 100),
    payloads.post_event(event_write()),
    payloads.post_event(event_write(destination_id=None, attributes={"total": Decimal("12.50")})),
]


class Described:
    """A request in the form the description's reader wants."""

    host_url = "https://api.brevo.com"
    content_type = "application/json"

    def __init__(self, request: payloads.Request) -> None:
        from openapi_core.datatypes import RequestParameters
        from werkzeug.datastructures import Headers, ImmutableMultiDict

        self.path = request.path
        self.method = request.method.lower()
        self.body = None if request.body is None else http.encode(request.body)
        query = ImmutableMultiDict(list(request.params.items()))
        self.parameters = RequestParameters(query=query, header=Headers({"api-key": "k"}), cookie=ImmutableMultiDict())


@pytest.fixture(scope="module")
def description() -> Any:
    openapi_core = pytest.importorskip("openapi_core")
    yaml = pytest.importorskip("yaml")
    if not SPEC.is_file():
        pytest.skip("Brevo's description is not beside this repository (../shared/api/schemas).")
    return openapi_core.OpenAPI.from_dict(yaml.safe_load(SPEC.read_text()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.label)
def test_every_request_is_one_the_vendor_describes(description: Any, request_: payloads.Request) -> None:
    description.validate_request(Described(request_))


def test_parameters_survive_the_query_string() -> None:
    params = payloads.get_orders(DAY, 100).params

    assert dict(parse_qsl("modifiedSince=2026-11-30T08%3A00%3A00.000Z&limit=100&offset=100&sort=desc")) == dict(params)


def test_the_kinds_of_effects_are_all_served() -> None:
    from connectors.brevo import destination

    assert set(destination.traits()) == set(EffectKind)
