"""Raw nodes as records."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from connectors import errors, protocol
from connectors.protocol import OrderLine, Stream
from connectors.shopify import queries, records
from tests.connectors.shopify.answers import EMAIL, customer, line, money, order


def read(node: Any, stream: Stream = Stream.CUSTOMERS) -> protocol.Record:
    return records.record(stream, node, 4)


def read_order(**changes: Any) -> protocol.Order:
    made = read(order(**changes), Stream.ORDERS).order
    assert made is not None
    return made


def refusal(node: Any, stream: Stream = Stream.CUSTOMERS) -> errors.Unreadable:
    with pytest.raises(errors.Unreadable) as caught:
        read(node, stream)
    assert "example.com" not in caught.value.sentence
    return caught.value


def test_a_customer_becomes_a_record_with_its_consent() -> None:
    node = customer(9103666479337)

    assert read(node) == protocol.Record(
        stream=Stream.CUSTOMERS,
        id="9103666479337",
        position=4,
        updated_at=datetime(2026, 11, 30, 8, 31, 5, tzinfo=UTC),
        fields=node,
        subject=protocol.Subject(
            id="9103666479337",
            address="Mara.Lind@example.com",
            consent=protocol.ConsentEvidence(
                state="SUBSCRIBED",
                level="CONFIRMED_OPT_IN",
                given_at=datetime(2026, 11, 30, 8, 31, 4, tzinfo=UTC),
                valid_format=True,
                data_sale_opt_out=False,
                field="defaultEmailAddress",
            ),
        ),
    )


def test_a_customer_without_an_address_has_no_consent_state() -> None:
    """Case CONS-02."""
    subject = read(customer(defaultEmailAddress=None, dataSaleOptOut=True)).subject

    assert subject is not None and subject.address is None
    assert subject.consent == protocol.ConsentEvidence(None, None, None, None, True, "defaultEmailAddress")


@pytest.mark.parametrize("state", ["NOT_SUBSCRIBED", "REDACTED", "SOMETHING_NEW"])
def test_a_consent_state_is_passed_on_word_for_word(state: str) -> None:
    """Case CONS-03."""
    subject = read(customer(defaultEmailAddress={**EMAIL, "marketingState": state})).subject

    assert subject is not None and subject.consent.state == state


@pytest.mark.parametrize("given", [None, "", "2026-09-01", "2026-09-01T08:00:00", "soon"])
def test_a_consent_date_that_is_no_instant_is_none(given: str | None) -> None:
    """Case CONS-11."""
    subject = read(customer(defaultEmailAddress={**EMAIL, "marketingUpdatedAt": given})).subject

    assert subject is not None and subject.consent.given_at is None


def test_a_record_without_a_time_is_read() -> None:
    """Case READ-14."""
    assert read(customer(updatedAt=None)).updated_at is None


def test_an_offset_is_read_as_the_same_instant() -> None:
    """Case READ-05."""
    assert read(customer(updatedAt="2026-11-30T10:31:05+02:00")).updated_at == datetime(
        2026, 11, 30, 8, 31, 5, tzinfo=UTC
    )


def paths(shape: queries.Shape, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, inner in shape.items():
        found += [(*prefix, name), *(paths(inner, (*prefix, name)) if inner else [])]
    return found


def without(node: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    node = copy.deepcopy(node)
    inner: Any = node
    for name in path[:-1]:
        inner = inner[name][0] if isinstance(inner[name], list) else inner[name]
    del inner[path[-1]]
    return node


FULL_CUSTOMER = customer(
    defaultPhoneNumber=dict.fromkeys(queries.PHONE, "x"),
    defaultAddress=dict.fromkeys(queries.CUSTOMER["defaultAddress"] or (), "x"),
)


@pytest.mark.parametrize("path", paths(queries.CUSTOMER), ids=".".join)
def test_every_key_asked_for_of_a_customer_must_be_there(path: tuple[str, ...]) -> None:
    assert path[-1] in refusal(without(FULL_CUSTOMER, path)).sentence


@pytest.mark.parametrize("path", paths(queries.ORDER), ids=".".join)
def test_every_key_asked_for_of_an_order_must_be_there(path: tuple[str, ...]) -> None:
    assert path[-1] in refusal(without(order(), path), Stream.ORDERS).sentence


@pytest.mark.parametrize(
    "node",
    [
        None,
        [],
        "x",
        customer(id="gid://shopify/Order/1"),
        customer(id="gid://shopify/Customer/x"),
        customer(id=1),
        customer(updatedAt="yesterday"),
        customer(updatedAt="2026-11-30T08:31:05"),
        customer(updatedAt=5),
        customer(dataSaleOptOut=None),
        customer(dataSaleOptOut="no"),
        customer(defaultEmailAddress="x"),
        customer(defaultEmailAddress={**EMAIL, "emailAddress": 5}),
        customer(defaultEmailAddress={**EMAIL, "validFormat": "yes"}),
        customer(defaultEmailAddress={**EMAIL, "marketingUpdatedAt": 5}),
    ],
)
def test_a_customer_of_another_shape_is_unreadable(node: Any) -> None:
    refusal(node)


@pytest.mark.parametrize(
    "node",
    [
        customer(),
        order(id="gid://shopify/Customer/1"),
        order(name=None),
        order(createdAt=None),
        order(test=None),
        order(currentTotalPriceSet=None),
        order(currentTotalPriceSet={"shopMoney": None}),
        order(currentTotalPriceSet=money("1e3")),
        order(currentTotalPriceSet=money("NaN")),
        order(lineItems=None),
        order(lines=[line(1, quantity="2")]),
        order(lines=[line(1, currentQuantity=True)]),
        order(lines=[line(1, id="gid://shopify/Order/1", sku="")]),
        order(customer={"id": "gid://shopify/Order/9", "dataSaleOptOut": False, "defaultEmailAddress": None}),
    ],
)
def test_an_order_of_another_shape_is_unreadable(node: Any) -> None:
    refusal(node, Stream.ORDERS)


def test_an_order_becomes_a_record_with_its_customer() -> None:
    record = read(order(1494), Stream.ORDERS)

    assert (record.id, record.subject and record.subject.id) == ("1494", "9")
    assert record.order == protocol.Order(
        name="#1494",
        status="paid",
        amount="55.0",
        currency="EUR",
        created_at=datetime(2026, 11, 30, 8, 30, 59, tzinfo=UTC),
        updated_at=datetime(2026, 11, 30, 8, 31, 2, tzinfo=UTC),
        lines=(OrderLine("BO-1", 2, "27.50"),),
        placed_at=datetime(2026, 11, 30, 8, 30, 58, tzinfo=UTC),
        cancelled_at=None,
        refunded_total=None,
        test=False,
    )


def test_a_name_longer_than_anybody_shows_is_cut_and_the_order_stays_the_same() -> None:
    """An event of more than 50 KB would be refused; what tells orders apart is the id."""
    long = "#" + "9" * 1_000_000
    found = records.record(protocol.Stream.ORDERS, order(name=long), 0)
    usual = records.record(protocol.Stream.ORDERS, order(), 0)
    assert found.order is not None and found.order.name == long[: records.NAME_LIMIT]
    assert (found.id, len(found.order.name)) == (usual.id, 255)


def test_an_order_without_a_customer_names_nobody() -> None:
    """Case CONS-02."""
    assert read(order(customer=None), Stream.ORDERS).subject is None


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "paid"),
        ({"displayFinancialStatus": "PARTIALLY_REFUNDED"}, "partially_refunded"),
        ({"displayFinancialStatus": None}, "unknown"),
        ({"cancelledAt": "2026-11-30T09:00:00Z", "displayFinancialStatus": "REFUNDED"}, "cancelled"),
    ],
)
def test_the_status_is_the_cancellation_or_the_financial_state(changes: dict[str, Any], status: str) -> None:
    assert read_order(**changes).status == status


@pytest.mark.parametrize(("refunded", "expected"), [("0.0", None), ("0", None), ("12.50", "12.50")])
def test_the_refunded_total_is_there_only_above_nothing(refunded: str, expected: str | None) -> None:
    assert read_order(totalRefundedSet=money(refunded)).refunded_total == expected


def test_a_line_without_a_sku_goes_by_its_own_number() -> None:
    lines = [line(7, sku=None), line(8, sku=" "), line(9, sku="A")]

    assert [found.sku for found in read_order(lines=lines).lines] == ["7", "8", "A"]


def test_lines_show_what_is_left_of_the_order() -> None:
    lines = [line(1, quantity=3, currentQuantity=1), line(2, quantity=1, currentQuantity=0)]

    assert [(found.sku, found.quantity) for found in read_order(lines=lines).lines] == [("BO-1", 1)]


def test_an_order_of_which_nothing_is_left_shows_what_it_had() -> None:
    lines = [line(1, quantity=3, currentQuantity=0), line(2, quantity=1, currentQuantity=0)]

    assert [(found.sku, found.quantity) for found in read_order(lines=lines).lines] == [("BO-1", 3), ("BO-2", 1)]


BLANK = {"firstName": None, "lastName": None, "defaultEmailAddress": None}


@pytest.mark.parametrize(
    ("nodes", "redacted"),
    [
        ([customer(n, **BLANK) for n in range(5)], True),
        ([customer(n, **BLANK) for n in range(4)], False),
        ([*(customer(n, **BLANK) for n in range(5)), customer(6)], False),
        ([*(customer(n, **BLANK) for n in range(5)), customer(6, **BLANK | {"firstName": "A"})], False),
        ([customer(n, **BLANK, defaultPhoneNumber=dict.fromkeys(queries.PHONE, "+49")) for n in range(5)], False),
        ([customer(n, **BLANK, defaultAddress={"city": None}) for n in range(5)], True),
        ([customer(n, **BLANK, defaultAddress={"city": "Leeds"}) for n in range(5)], False),
        ([customer(n, **BLANK | {"defaultEmailAddress": {**EMAIL, "emailAddress": ""}}) for n in range(5)], True),
    ],
)
def test_a_page_of_five_or_more_that_shows_nobody_was_blanked(nodes: list[Any], redacted: bool) -> None:
    assert records.look_redacted(Stream.CUSTOMERS, nodes) is redacted


BLANK_BUYER = {"id": "gid://shopify/Customer/9", "dataSaleOptOut": False, "defaultEmailAddress": None}


@pytest.mark.parametrize(
    ("changes", "redacted"),
    [
        ({"customer": BLANK_BUYER, "email": None}, True),
        ({"customer": BLANK_BUYER, "email": "a@example.com"}, False),
        ({"customer": None, "email": None}, False),
    ],
)
def test_orders_are_blanked_when_their_customers_are(changes: dict[str, Any], redacted: bool) -> None:
    assert records.look_redacted(Stream.ORDERS, [order(n, **changes) for n in range(5)]) is redacted
