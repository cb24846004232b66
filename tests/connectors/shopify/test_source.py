"""Whether what Shopify answers is believed."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from connectors import errors, protocol
from connectors.protocol import Stream
from connectors.shopify import source
from tests.connectors.shopify.answers import (
    DOMAIN,
    HEADERS,
    TOKEN,
    UNTIL,
    WINDOW,
    Shop,
    customer,
    line,
    order,
    page,
    refused,
    warning,
)

EXAMPLES = Path(__file__).resolve().parents[4] / "shared" / "api" / "shopify-examples.json"


def failing(shop: Shop, **options: Any) -> errors.ConnectorError:
    with pytest.raises(errors.ConnectorError) as caught:
        shop.read(**options)
    assert TOKEN not in caught.value.sentence and "example.com" not in caught.value.sentence
    return caught.value


# --- pages ------------------------------------------------------------------------------------------------------


def test_a_page_is_read_with_its_cursor_and_the_version_served() -> None:
    shop = Shop(page(customer(1), customer(2), more=True, end="k1"))

    read = shop.read()

    assert ([record.id for record in read.records], [record.position for record in read.records]) == (
        ["1", "2"],
        [0, 1],
    )
    assert (read.next, read.version_served) == ("k1", "2026-07")


def test_a_question_goes_to_the_shop_with_token_and_the_switch_for_warnings() -> None:
    shop = Shop(page())

    shop.read(after="k1")

    asked = shop.asked[0]
    assert str(asked.url) == f"https://{DOMAIN}/admin/api/2026-07/graphql.json"
    assert (asked.method, asked.headers["x-shopify-access-token"]) == ("POST", TOKEN)
    assert asked.headers["shopify-search-query-debug"] == "1"
    assert shop.variables() == {
        "first": 250,
        "after": "k1",
        "query": "updated_at:>='2026-11-30T08:25:00Z' AND updated_at:<'2026-11-30T08:55:00Z'",
    }


def test_orders_come_a_hundred_at_a_time() -> None:
    shop = Shop(page(order(1), stream=Stream.ORDERS))

    read = shop.read(Stream.ORDERS)

    assert (shop.variables()["first"], [record.id for record in read.records]) == (100, ["1"])


def test_an_empty_page_in_the_middle_is_read_on() -> None:
    """Case READ-09."""
    assert Shop(page(more=True, end="k2")).read(after="k1").next == "k2"


def test_a_last_page_with_a_cursor_is_the_end() -> None:
    """Case READ-08."""
    assert Shop(page(customer(), end="k1")).read().next is None


def test_an_empty_cursor_is_a_cursor() -> None:
    """Case READ-15."""
    shop = Shop(page(customer(), more=True, end=""))

    assert shop.read().next == ""


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (page(customer(), more=True, end=None), None),
        (page(more=True, end=None), None),
        (page(more=True, end="k1"), "k1"),
        (page(customer(), more=True, end="k1"), "k1"),
        (page(customer(), more=False, end="k1"), "k1"),
    ],
)
def test_a_page_that_contradicts_itself_is_unreadable(body: Any, after: str | None) -> None:
    """Cases READ-06, READ-08."""
    error = failing(Shop(body), after=after)

    assert (type(error), error.code) == (errors.Unreadable, "page_contradiction")


@pytest.mark.parametrize(
    "body",
    [
        [],
        "x",
        None,
        {},
        {"data": None},
        {"data": []},
        {"data": {}},
        {"data": {"customers": None}},
        {"data": {"customers": {"edges": [], "pageInfo": None}}},
        {"data": {"customers": {"edges": None, "pageInfo": {"hasNextPage": False, "endCursor": None}}}},
        {"data": {"customers": {"edges": [{}], "pageInfo": {"hasNextPage": False, "endCursor": None}}}},
        {"data": {"customers": {"edges": [], "pageInfo": {"hasNextPage": False}}}},
        {"data": {"customers": {"edges": [], "pageInfo": {"endCursor": None}}}},
        page(more="no"),
        page(end=5),
        page(None),
        page(customer(id="gid://shopify/Order/1")),
        page(order(1)),
        page(customer(), search="x"),
        {"errors": [], **page(customer())},
        {"errors": None, **page(customer())},
        {"errors": "[API] something", **page(customer())},
        {"errors": ["x"], **page(customer())},
        {"errors": [{"message": "odd"}], **page(customer())},
    ],
)
def test_an_answer_of_another_shape_is_unreadable(body: Any) -> None:
    assert type(failing(Shop(body))) is errors.Unreadable


def test_a_record_from_before_the_window_says_that_the_filter_was_not_applied() -> None:
    error = failing(Shop(page(customer(1), customer(2, updatedAt="2026-11-30T08:24:59Z"))))

    assert (type(error), error.code) == (errors.Unreadable, "outside_window")


@pytest.mark.parametrize("updated_at", ["2026-11-30T08:25:00Z", "2026-11-30T08:55:00Z", "2026-11-30T09:20:00Z", None])
def test_a_record_at_the_edge_or_fresher_than_its_index_is_read(updated_at: str | None) -> None:
    assert len(Shop(page(customer(updatedAt=updated_at))).read().records) == 1


def test_a_window_from_the_beginning_takes_old_records() -> None:
    window = protocol.Window(None, UNTIL)

    assert len(Shop(page(customer(updatedAt="2001-01-01T00:00:00Z"))).read(window=window).records) == 1


def test_records_out_of_order_are_read() -> None:
    shop = Shop(page(customer(1, updatedAt="2026-11-30T08:40:00Z"), customer(2, updatedAt="2026-11-30T08:30:00Z")))

    assert [record.id for record in shop.read().records] == ["1", "2"]


def test_a_page_that_shows_nobody_is_unreadable() -> None:
    blank = {"firstName": None, "lastName": None, "defaultEmailAddress": None}

    error = failing(Shop(page(*(customer(n, **blank) for n in range(5)))))

    assert (type(error), error.code) == (errors.Unreadable, "redacted")


def test_a_warning_about_the_filter_is_no_empty_shop() -> None:
    error = failing(Shop(page(search=[warning("customers")])))

    assert (type(error), error.code) == (errors.Unreadable, "search_warning")


def test_a_search_without_a_warning_is_believed() -> None:
    quiet = {"path": ["customers"], "query": "x", "parsed": {}, "warnings": []}

    assert Shop(page(customer(), search=[quiet])).read().records != ()


def test_a_version_that_is_not_named_is_told_as_such() -> None:
    assert Shop(page(), headers={}).read().version_served == ""


def test_numbers_are_never_floats() -> None:
    shop = Shop(json.dumps(page(customer(numberOfOrders="@"))).replace('"@"', "3.50").encode())

    assert str(shop.read().records[0].fields["numberOfOrders"]) == "3.50"


# --- orders with many lines -------------------------------------------------------------------------------------


def more_lines(*lines: Any, number: int = 1, end: str | None = None) -> dict[str, Any]:
    paging = {"hasNextPage": end is not None, "endCursor": end}
    node = {"id": f"gid://shopify/Order/{number}", "lineItems": {"nodes": list(lines), "pageInfo": paging}}
    return {"data": {"nodes": [node]}}


def test_an_order_with_more_lines_than_fit_is_read_whole() -> None:
    first = page(order(1, lines=[line(1)], more_lines="l1"), order(2), stream=Stream.ORDERS)
    shop = Shop(first, more_lines(line(2), end="l2"), more_lines(line(3)))

    read = shop.read(Stream.ORDERS)

    assert [[found.sku for found in record.order.lines] for record in read.records if record.order] == [
        ["BO-1", "BO-2", "BO-3"],
        ["BO-1"],
    ]
    assert [shop.variables(n)["after"] for n in (1, 2)] == ["l1", "l2"]
    assert shop.variables(1)["ids"] == ["gid://shopify/Order/1"]


@pytest.mark.parametrize(
    "answer",
    [
        more_lines(line(2), end="l1"),
        more_lines(line(2), number=2),
        {"data": {"nodes": [None]}},
        {"data": {"nodes": []}},
        {"data": {"nodes": [{"id": "gid://shopify/Order/1"}]}},
    ],
)
def test_lines_that_cannot_be_read_to_the_end_make_the_page_unreadable(answer: Any) -> None:
    first = page(order(1, more_lines="l1"), stream=Stream.ORDERS)

    assert isinstance(failing(Shop(first, answer), stream=Stream.ORDERS), errors.Unreadable)


# --- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (refused("THROTTLED", "slow down"), errors.Throttled, "throttled"),
        (refused("INTERNAL_SERVER_ERROR"), errors.Passing, "unavailable"),
        (refused("MAX_COST_EXCEEDED", cost=1203, maxCost=1000), errors.Refused, "query_too_costly"),
        (refused("PARSE_ERROR"), errors.Refused, "query_refused"),
        (refused("undefinedField", "name 'throttled' is unknown"), errors.Refused, "query_refused"),
        (refused("INVALID_VARIABLE"), errors.Refused, "query_refused"),
        (refused("argumentLiteralsIncompatible"), errors.Refused, "query_refused"),
        (refused("BAD_REQUEST", "Malformed cursor"), errors.CursorStale, "cursor_stale"),
        (refused("BAD_REQUEST", "Invalid cursor for current pagination sort."), errors.CursorStale, "cursor_stale"),
        (refused("BAD_REQUEST", "you must provide one of first or last"), errors.Refused, "query_refused"),
        (refused("SOMETHING_NEW", "Throttled"), errors.Unreadable, "unreadable"),
        (refused(""), errors.Unreadable, "unreadable"),
    ],
)
def test_an_error_at_200_ends_as_its_row_says(body: Any, kind: type[Exception], code: str) -> None:
    """Case HTTP-03."""
    error = failing(Shop(body), after="k1")

    assert (type(error), error.code) == (kind, code)


def test_data_beside_an_error_is_not_used() -> None:
    partial = {**page(order(1, customer=None), stream=Stream.ORDERS), "errors": refused("ACCESS_DENIED")["errors"]}

    assert isinstance(failing(Shop(partial), stream=Stream.ORDERS), errors.ScopeMissing)


def test_what_stays_outranks_what_passes() -> None:
    both = refused("THROTTLED")
    both["errors"] += refused("ACCESS_DENIED", requiredAccess="`read_customers` access scope.")["errors"]

    assert isinstance(failing(Shop(both)), errors.ScopeMissing)


@pytest.mark.parametrize(
    ("requested", "available", "rate", "wait"),
    [(206, 20, 50, 3.72), (90, 41, 100, 1.0), (10, 500, 100, 1.0)],
)
def test_the_wait_is_the_missing_points_over_the_rate(requested: int, available: int, rate: int, wait: float) -> None:
    """Case HTTP-03."""
    status = {"maximumAvailable": 1000, "currentlyAvailable": available, "restoreRate": rate}
    body = refused("THROTTLED")
    body["extensions"]["cost"] = {"requestedQueryCost": requested, "throttleStatus": status}

    error = failing(Shop(body))

    assert isinstance(error, errors.Throttled)
    assert error.wait == timedelta(seconds=wait)


@pytest.mark.parametrize("extensions", [{}, {"cost": None}, {"cost": {"requestedQueryCost": 5}}, {"cost": "x"}])
def test_throttling_without_figures_names_no_wait(extensions: Any) -> None:
    error = failing(Shop({"errors": refused("THROTTLED")["errors"], "extensions": extensions}))

    assert isinstance(error, errors.Throttled)
    assert error.wait is None


def test_a_missing_scope_is_named() -> None:
    """Case READ-13."""
    error = failing(Shop(refused("ACCESS_DENIED", requiredAccess="`read_customers` access scope.")))

    assert (type(error), error.code) == (errors.ScopeMissing, "scope_missing")
    assert "read_customers" in error.sentence


def test_a_denied_approval_is_another_thing_than_a_missing_scope() -> None:
    error = failing(Shop(refused("ACCESS_DENIED", "This app is not approved to access the Customer object.")))

    assert (type(error), error.code) == (errors.ScopeMissing, "protected_data_denied")
    assert "approv" in error.sentence


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, errors.Refused),
        (401, errors.TokenRefused),
        (402, errors.Refused),
        (403, errors.Refused),
        (404, errors.Refused),
        (423, errors.Refused),
        (429, errors.Throttled),
        (430, errors.Refused),
        (503, errors.Passing),
        (540, errors.Passing),
    ],
)
def test_a_status_other_than_200_ends_as_its_row_says(status: int, kind: type[Exception]) -> None:
    shop = Shop({"errors": "[API] no"}, status=status, headers={"location": "https://other.example/"})

    assert type(failing(shop)) is kind


EXPECTED = {
    "access_denied_customers": errors.ScopeMissing,
    "edges_empty_has_next": errors.Unreadable,
    "http_200_html": errors.Passing,
    "http_401": errors.TokenRefused,
    "http_402": errors.Refused,
    "http_403": errors.Refused,
    "http_404": errors.Refused,
    "http_423": errors.Refused,
    "http_429": errors.Throttled,
    "http_430": errors.Refused,
    "http_503": errors.Passing,
    "internal_error": errors.Passing,
    "invalid_cursor": errors.CursorStale,
    "max_cost": errors.Refused,
    "pcd_fields_denied_partial": errors.ScopeMissing,
    "pcd_object_denied": errors.ScopeMissing,
    "throttled": errors.Throttled,
    "customers_empty_unquoted_time": errors.Unreadable,
    "customers_empty_true": None,
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_recorded_answer_ends_as_expected(name: str) -> None:
    if not EXAMPLES.is_file():
        pytest.skip("Shopify's recorded answers are not beside this repository (../shared/api).")
    example = json.loads(EXAMPLES.read_text())[name]
    body = b"<html>down</html>" if example["body"] is None else example["body"]
    shop = Shop(body, status=example["status"], headers=example["headers"])

    kind = EXPECTED[name]

    if kind is None:
        assert shop.read().records == ()
    else:
        assert type(failing(shop)) is kind


# --- counts -----------------------------------------------------------------------------------------------------


def counted(count: Any = 3, precision: Any = "EXACT", **extensions: Any) -> dict[str, Any]:
    found = {"window": {"count": count, "precision": precision}, "probe": {"count": 1, "precision": "AT_LEAST"}}
    return {"data": found, "extensions": {"search": [warning("probe", "vigil_probe")], **extensions}}


def count(shop: Shop, stream: Stream = Stream.CUSTOMERS) -> protocol.Count:
    return shop.run(lambda one: one.count(stream, WINDOW))


@pytest.mark.parametrize("stream", list(Stream))
@pytest.mark.parametrize(("precision", "exact"), [("EXACT", True), ("AT_LEAST", False), ("NEW", False)])
def test_a_count_is_for_the_same_filter_and_says_whether_it_is_exact(
    stream: Stream, precision: str, exact: bool
) -> None:
    shop = Shop(counted(precision=precision))

    assert count(shop, stream) == protocol.Count(3, exact)
    shop.bodies = [page(stream=stream)]
    shop.read(stream)
    assert shop.variables(0)["query"] == shop.variables(1)["query"]


def test_a_count_whose_wrong_filter_brings_no_warning_proves_nothing() -> None:
    """PRODUCT 5.2: the warning detector is itself proven."""
    with pytest.raises(errors.Unreadable) as caught:
        count(Shop(counted(search=[])))

    assert caught.value.code == "detector_blind"


def test_a_count_whose_filter_was_ignored_is_not_believed() -> None:
    with pytest.raises(errors.Unreadable) as caught:
        count(Shop(counted(search=[warning("probe", "vigil_probe"), warning("window", "email")])))

    assert caught.value.code == "search_warning"


@pytest.mark.parametrize("number", [None, "3", -1, True, 1.5])
def test_a_count_that_is_no_number_is_unreadable(number: Any) -> None:
    with pytest.raises(errors.Unreadable):
        count(Shop(counted(number)))


@pytest.mark.parametrize("data", [{"probe": {}}, {"window": None, "probe": {}}, {"window": {"count": 1}, "probe": {}}])
def test_a_count_that_is_missing_is_unreadable(data: Any) -> None:
    with pytest.raises(errors.Unreadable):
        count(Shop({**counted(), "data": data}))


# --- identity ---------------------------------------------------------------------------------------------------


def preflight(**changes: Any) -> dict[str, Any]:
    shop = {"id": "gid://shopify/Shop/92891250994", "name": "Linden Goods", "myshopifyDomain": DOMAIN}
    scopes = [{"handle": "read_orders"}, {"handle": "read_customers"}]
    return {"data": {"shop": shop, "currentAppInstallation": {"accessScopes": scopes}, **changes}}


def identify(shop: Shop) -> protocol.Identity:
    return shop.run(lambda one: one.identify())


def test_the_shop_says_who_it_is_and_what_the_token_may_do() -> None:
    assert identify(Shop(preflight(), headers={**HEADERS, "x-shopify-api-version": "2026-10"})) == protocol.Identity(
        account="92891250994",
        label=DOMAIN,
        scopes=("read_customers", "read_orders"),
        server_time=datetime(2026, 11, 30, 8, 57, tzinfo=UTC),
        version_asked="2026-07",
        version_served="2026-10",
    )


@pytest.mark.parametrize(
    "body",
    [
        preflight(shop=None),
        preflight(shop={"id": "gid://shopify/Shop/1"}),
        preflight(currentAppInstallation=None),
        preflight(currentAppInstallation={}),
        {"data": {}},
    ],
)
def test_an_identity_that_is_not_whole_is_unreadable(body: Any) -> None:
    with pytest.raises(errors.Unreadable):
        identify(Shop(body))


def test_an_identity_without_a_clock_is_unreadable() -> None:
    with pytest.raises(errors.Unreadable):
        identify(Shop(preflight(), headers={}))


# --- the class --------------------------------------------------------------------------------------------------


def test_the_source_offers_what_the_protocol_says_and_nothing_that_writes() -> None:
    """PRODUCT 3.10."""
    offered = {name for name in vars(source.ShopifySource) if not name.startswith("_")}

    assert offered == {"identify", "count", "read_page", "reread", "query_digest", "close"}


def test_the_traits_are_shopifys() -> None:
    expected = protocol.SourceTraits(
        page_size=250,
        settle=timedelta(minutes=2),
        overlap=timedelta(minutes=10),
        needs={
            Stream.CUSTOMERS: frozenset({"read_customers"}),
            Stream.ORDERS: frozenset({"read_orders", "read_customers"}),
        },
        starts_with_history=frozenset({Stream.CUSTOMERS}),
    )

    assert expected == source.TRAITS


def test_it_is_a_source() -> None:
    client = source.client(DOMAIN, TOKEN, transport=httpx.MockTransport(Shop(page())))
    one: protocol.Source = source.ShopifySource(client)

    assert one.kind == "shopify"
    assert one.query_digest(Stream.CUSTOMERS, WINDOW) != one.query_digest(Stream.ORDERS, WINDOW)
