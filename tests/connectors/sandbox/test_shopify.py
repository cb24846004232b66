"""A local Shopify over real HTTP."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from connectors import sandbox
from connectors.sandbox import shopify as server
from tests.connectors.sandbox.callers import TOKEN, Shopify, customer, http_client, write_shop

PAGE = """query Page($first: Int!, $after: String, $query: String) {
  customers(first: $first, after: $after, query: $query, sortKey: UPDATED_AT) {
    edges { cursor node { id updatedAt } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }"""
ALWAYS = "updated_at:>='2020-01-01T00:00:00Z' AND updated_at:<'2030-01-01T00:00:00Z'"


def _pages(shopify: Shopify, first: int, query: str | None) -> list[list[str]]:
    pages: list[list[str]] = []
    after = None
    while True:
        found = shopify.ask(PAGE, first=first, after=after, query=query)["data"]["customers"]
        pages.append([edge["node"]["id"] for edge in found["edges"]])
        if not found["pageInfo"]["hasNextPage"]:
            return pages
        after = found["pageInfo"]["endCursor"]


def _error(body: dict[str, Any]) -> tuple[str, str]:
    [error] = body["errors"]
    return error["extensions"]["code"], error["message"]


def _all(shopify: Shopify) -> list[str]:
    return [gid for page in _pages(shopify, 250, ALWAYS) for gid in page]


# -- paging ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [ALWAYS, None])
def test_small_pages_give_every_customer_once_in_order_of_change(shopify: Shopify, query: str | None) -> None:
    pages = _pages(shopify, 37, query)
    assert [len(page) for page in pages] == [37] * 13 + [19]
    assert [gid for page in pages for gid in page] == _all(shopify)
    assert len(set(_all(shopify))) == 500


def test_a_page_edge_inside_a_tie_loses_and_doubles_nobody(shopify: Shopify) -> None:
    for number in range(1, 6):
        shopify.control("upsert", {"kind": "customer", "node": customer(number, "2026-11-20T10:00:00Z")})
    window = "updated_at:>='2026-11-20T10:00:00Z' AND updated_at:<'2026-11-20T10:00:01Z'"
    assert _pages(shopify, 2, window) == [
        ["gid://shopify/Customer/1", "gid://shopify/Customer/2"],
        ["gid://shopify/Customer/3", "gid://shopify/Customer/4"],
        ["gid://shopify/Customer/5"],
    ]


def test_a_cursor_is_a_position_in_the_form_of_its_store(shopify: Shopify) -> None:
    places = []
    for query in (ALWAYS, None):
        edges = shopify.ask(PAGE, first=1, query=query)["data"]["customers"]["edges"]
        places.append(json.loads(base64.b64decode(edges[0]["cursor"])))
    assert places[0]["last_id"] == places[1]["last_id"]
    assert isinstance(places[0]["last_value"], int)
    assert places[1]["last_value"].endswith(".000000")


def test_a_cursor_of_another_query_is_refused(shopify: Shopify) -> None:
    cursor = shopify.ask(PAGE, first=1, query=ALWAYS)["data"]["customers"]["pageInfo"]["endCursor"]
    body = shopify.ask(PAGE, first=1, after=cursor, query="updated_at:>='2026-01-01T00:00:00Z'")
    assert (_error(body), body["data"]) == (("BAD_REQUEST", "Invalid cursor for current pagination sort."), None)
    assert _error(shopify.ask(PAGE, first=1, after="nonsense", query=ALWAYS)) == ("BAD_REQUEST", "Malformed cursor")


def test_a_customer_that_changes_while_paging_is_seen_later_and_not_lost(shopify: Shopify) -> None:
    known = _all(shopify)
    first = shopify.ask(PAGE, first=250, query=ALWAYS)["data"]["customers"]
    shopify.control("upsert", {"kind": "customer", "node": {"id": known[300], **_times("2026-11-29T00:00:00Z")}})
    after = first["pageInfo"]["endCursor"]
    second = shopify.ask(PAGE, first=250, after=after, query=ALWAYS)["data"]["customers"]
    rest = [edge["node"]["id"] for edge in second["edges"]]
    assert rest == [*known[250:300], *known[301:], known[300]]


def _times(updated: str) -> dict[str, str]:
    return {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": updated}


def test_an_empty_window_is_a_consistent_empty_page(shopify: Shopify) -> None:
    body = shopify.ask(
        PAGE, first=3, query="updated_at:>='2026-11-30T08:25:00Z' AND updated_at:<'2026-11-30T08:55:00Z'"
    )
    assert body == {
        "data": {
            "customers": {
                "edges": [],
                "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None},
            }
        },
        "extensions": {
            "cost": {
                "requestedQueryCost": 4,
                "actualQueryCost": 2,
                "throttleStatus": {"maximumAvailable": 2000, "currentlyAvailable": 1998, "restoreRate": 100},
            }
        },
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "you must provide one of first or last"),
        ("(first: 251)", "first must be between 1 and 250"),
        ("(last: 5)", "this sandbox pages forward only: use first and after"),
        ("(first: 5, sortKey: NAME)", "this sandbox does not sort by NAME"),
    ],
)
def test_a_page_that_cannot_be_served_is_refused(shopify: Shopify, arguments: str, message: str) -> None:
    body = shopify.ask(f"{{ customers{arguments} {{ nodes {{ id }} }} }}")
    assert (_error(body), body["data"]) == (("BAD_REQUEST", message), None)


# -- search and counts -------------------------------------------------------------------------------------------------


def test_an_ignored_filter_shows_only_in_the_warnings(shopify: Shopify) -> None:
    body = shopify.ask("query ($q: String) { customersCount(query: $q) { count precision } }", q="email:a@example.com")
    assert body["data"] == {"customersCount": {"count": 500, "precision": "EXACT"}}
    assert body["extensions"]["search"] == [
        {
            "path": ["customersCount"],
            "query": "email:a@example.com",
            "parsed": {"field": "email", "match_all": "a@example.com"},
            "warnings": [
                {"field": "email", "message": "Invalid search field for this query.", "code": "invalid_field"}
            ],
        }
    ]


def test_a_count_above_its_limit_is_only_a_floor(shopify: Shopify) -> None:
    text = "{ few: ordersCount(limit: 10) { count precision } all: ordersCount(limit: null) { count precision } }"
    assert shopify.ask(text)["data"] == {
        "few": {"count": 10, "precision": "AT_LEAST"},
        "all": {"count": 1000, "precision": "EXACT"},
    }


def test_a_count_and_a_page_agree_about_a_window(shopify: Shopify) -> None:
    window = "updated_at:>='2026-09-01T00:00:00Z' AND updated_at:<'2026-10-01T00:00:00Z'"
    count = shopify.ask("query ($q: String) { customersCount(query: $q) { count } }", q=window)
    seen = [gid for page in _pages(shopify, 20, window) for gid in page]
    assert 0 < len(seen) == count["data"]["customersCount"]["count"]


def test_a_missing_value_is_an_internal_error(shopify: Shopify) -> None:
    body = shopify.ask(PAGE, first=1, query="updated_at:>")
    assert (_error(body)[0], body["data"]) == ("INTERNAL_SERVER_ERROR", None)


# -- who may read ------------------------------------------------------------------------------------------------------


def test_a_wrong_token_gets_a_text_where_a_list_is_expected(shopify: Shopify) -> None:
    text = "[API] Invalid API key or access token (unrecognized login or wrong password)"
    answer = shopify.post({"query": "{ shop { id } }"}, token="shpat_other")
    assert (answer.status_code, answer.json()) == (401, {"errors": text})
    shopify.control("token", {"valid": False})
    assert shopify.post({"query": "{ shop { id } }"}).status_code == 401
    shopify.control("token", {"valid": True})
    assert shopify.post({"query": "{ shop { id } }"}).status_code == 200


def test_a_missing_scope_empties_the_whole_answer(shopify: Shopify) -> None:
    """Case READ-13."""
    shopify.control("scopes", {"scopes": ["read_orders"]})
    body = shopify.ask(PAGE, first=3, query=ALWAYS)
    assert body["data"] is None
    [error] = body["errors"]
    assert error == {
        "message": "Access denied for customers field. Required access: `read_customers` access scope.",
        "locations": [{"line": 2, "column": 3}],
        "path": ["customers"],
        "extensions": {
            "code": "ACCESS_DENIED",
            "documentation": "https://shopify.dev/api/usage/access-scopes",
            "requiredAccess": "`read_customers` access scope.",
        },
    }


def test_without_the_scope_the_customer_of_an_order_is_null_beside_an_error(shopify: Shopify) -> None:
    shopify.control("scopes", {"scopes": ["write_orders", "read_all_orders"]})
    body = shopify.ask("{ orders(first: 2, sortKey: ID) { nodes { name customer { id } } } }")
    assert body["data"]["orders"]["nodes"] == [
        {"name": "#1001", "customer": None},
        {"name": "#1002", "customer": None},
    ]
    assert [error["path"] for error in body["errors"]] == [["orders", "nodes", 1, "customer"]]


def test_older_orders_are_just_absent_without_read_all_orders(tmp_path: Path) -> None:
    """Case READ-12: the wall stands sixty days back."""
    orders = [
        {"id": f"gid://shopify/Order/{n}", "createdAt": created, "updatedAt": "2026-11-01T00:00:00Z"}
        for n, created in ((1, "2026-09-30T23:59:59Z"), (2, "2026-10-01T00:00:01Z"))
    ]
    folder = write_shop(tmp_path / "shop", [], orders)
    now = datetime(2026, 11, 30, tzinfo=UTC).timestamp()
    query = '{ orders(first: 5) { nodes { id } } ordersCount { count } order(id: "gid://shopify/Order/1") { id } }'

    async def ask(scopes: list[str]) -> Any:
        application = server.app(TOKEN, folder, scopes=scopes, clock=lambda: now)
        async with TestClient(TestServer(application)) as client:
            headers = {"X-Shopify-Access-Token": TOKEN}
            answer = await client.post("/admin/api/2026-10/graphql.json", json={"query": query}, headers=headers)
            return (await answer.json())["data"]

    second = {"id": "gid://shopify/Order/2"}
    assert asyncio.run(ask(["read_orders"])) == {
        "orders": {"nodes": [second]},
        "ordersCount": {"count": 1},
        "order": None,
    }
    everything = asyncio.run(ask(["read_orders", "read_all_orders"]))
    assert everything["ordersCount"] == {"count": 2}


def test_the_preflight_says_who_the_token_is(shopify: Shopify) -> None:
    text = "{ shop { myshopifyDomain ianaTimezone } currentAppInstallation { accessScopes { handle } } }"
    assert shopify.ask(text)["data"] == {
        "shop": {"myshopifyDomain": "demo-shop.myshopify.com", "ianaTimezone": "Europe/London"},
        "currentAppInstallation": {
            "accessScopes": [{"handle": "read_customers"}, {"handle": "read_orders"}, {"handle": "read_all_orders"}]
        },
    }


def test_another_domain_is_another_shop(shopify: Shopify) -> None:
    with sandbox.serving("shopify", token=TOKEN, domain="other.myshopify.com") as other, http_client(other) as http:
        found = Shopify(other, http).ask("{ shop { id name myshopifyDomain } }")["data"]["shop"]
    assert found["name"] == "Other"
    assert found["id"] != shopify.ask("{ shop { id } }")["data"]["shop"]["id"]


# -- versions, errors, wire --------------------------------------------------------------------------------------------


def test_an_expired_version_is_served_by_another_and_an_unknown_one_is_not_found(shopify: Shopify) -> None:
    versions = {}
    for asked in ("2026-07", "2025-04", "2031-01"):
        answer = shopify.post({"query": "{ shop { id } }"}, version=asked)
        versions[asked] = (answer.status_code, answer.headers.get("X-Shopify-API-Version"))
    assert versions == {"2026-07": (200, "2026-07"), "2025-04": (200, "2026-01"), "2031-01": (404, None)}
    shopify.control("version", {"served": "2026-04"})
    assert shopify.post({"query": "{ shop { id } }"}).headers["X-Shopify-API-Version"] == "2026-04"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"query": "{ shop { id "}, "PARSE_ERROR"),
        ({"query": "{ shop { secret } }"}, "undefinedField"),
        ({"query": '{ customers(first: "ten") { nodes { id } } }'}, "argumentLiteralsIncompatible"),
        ({"query": PAGE, "variables": {"first": None}}, "INVALID_VARIABLE"),
    ],
)
def test_a_wrong_query_has_errors_and_no_data(shopify: Shopify, body: Any, code: str) -> None:
    answer = shopify.post(body)
    assert answer.status_code == 200
    assert [error["extensions"]["code"] for error in answer.json()["errors"]] == [code]
    assert "data" not in answer.json()


def test_a_query_over_a_thousand_points_is_refused(shopify: Shopify) -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    lines = "lineItems(first: 250) { nodes { id product { id } } }"
    text = " ".join(f"{name}: orders(first: 250) {{ nodes {{ {lines} }} }}" for name in names)
    [error] = shopify.ask(f"{{ {text} }}")["errors"]
    assert error["extensions"]["code"] == "MAX_COST_EXCEEDED"
    assert error["extensions"]["cost"] > error["extensions"]["maxCost"] == 1000


def test_the_bucket_runs_dry_only_when_it_is_enforced() -> None:
    text = "{ " + " ".join(f"c{n}: customersCount {{ count }}" for n in range(99)) + " }"
    with sandbox.serving("shopify", token=TOKEN, throttle=True) as served, http_client(served) as http:
        bodies = [Shopify(served, http).ask(text) for _ in range(3)]
    assert [_error(body) for body in bodies if "errors" in body] == [("THROTTLED", "Throttled")]
    assert "data" not in bodies[2] and bodies[2]["extensions"]["cost"]["actualQueryCost"] is None


def test_big_numbers_travel_as_text(shopify: Shopify) -> None:
    number = 9_007_199_254_740_993
    shopify.control("upsert", {"kind": "customer", "node": customer(number, numberOfOrders=18)})
    text = "query ($id: ID!) { customer(id: $id) { legacyResourceId numberOfOrders } }"
    assert shopify.ask(text, id=f"gid://shopify/Customer/{number}")["data"]["customer"] == {
        "legacyResourceId": str(number),
        "numberOfOrders": "18",
    }


def test_nodes_keep_their_places_and_what_is_gone_is_null(shopify: Shopify) -> None:
    known = _all(shopify)[:2]
    assert shopify.control("node", {"id": known[0]}, method="DELETE") == {"removed": True}
    text = "query ($ids: [ID!]!) { nodes(ids: $ids) { __typename ... on Customer { id } } }"
    found = shopify.ask(text, ids=[*known, "gid://shopify/Product/1"])
    assert found["data"]["nodes"] == [None, {"__typename": "Customer", "id": known[1]}, None]
    assert "errors" not in found


def test_the_lines_of_an_order_are_paged(shopify: Shopify) -> None:
    lines = [{"id": f"gid://shopify/LineItem/{n}", "title": "Line", "quantity": n} for n in range(1, 4)]
    order = {"id": "gid://shopify/Order/7", **_times("2026-11-02T00:00:00Z"), "lineItems": {"nodes": lines}}
    shopify.control("upsert", {"kind": "order", "node": order})
    text = """query ($after: String) { order(id: "gid://shopify/Order/7") { lineItems(first: 2, after: $after) {
      nodes { quantity } pageInfo { hasNextPage endCursor } } } }"""
    first = shopify.ask(text)["data"]["order"]["lineItems"]
    second = shopify.ask(text, after=first["pageInfo"]["endCursor"])["data"]["order"]["lineItems"]
    assert [first["nodes"], second["nodes"]] == [[{"quantity": 1}, {"quantity": 2}], [{"quantity": 3}]]
    assert [first["pageInfo"]["hasNextPage"], second["pageInfo"]["hasNextPage"]] == [True, False]


def test_text_that_is_no_utf_8_still_travels_as_json(shopify: Shopify) -> None:
    shopify.control("upsert", {"kind": "customer", "node": customer(5, firstName="\ud83d", lastName="Ünal")})
    text = '{ customer(id: "gid://shopify/Customer/5") { firstName lastName } }'
    assert shopify.ask(text)["data"]["customer"] == {"firstName": "\ud83d", "lastName": "Ünal"}


# -- the control door --------------------------------------------------------------------------------------------------


def test_the_control_door_opens_only_for_its_key(shopify: Shopify) -> None:
    answer = shopify.http.get("/_control/summary", headers={"X-Control-Key": "guess"})
    assert (answer.status_code, answer.json()) == (403, {"error": "Send the control key in the header X-Control-Key."})


def test_the_summary_counts_the_calls_of_the_vendor_api_alone(shopify: Shopify) -> None:
    shopify.ask("{ shop { id } }")
    assert shopify.control("summary") == {"customers": 500, "orders": 1000, "requests": 1}


@pytest.mark.parametrize(
    ("path", "payload", "says"),
    [
        ("upsert", {"kind": "product", "node": {}}, 'Set kind to "customer" or "order".'),
        ("upsert", {"kind": "order", "node": {}}, "The node has no id: correct it."),
        ("upsert", {"kind": "order", "node": "x"}, "The node is not a JSON object: correct it."),
        ("scopes", {"scopes": "read_orders"}, 'Set scopes to a list of names, for example ["read_customers"].'),
        ("token", {}, "Set valid to true or false."),
        (
            "version",
            {"served": "1999-01"},
            "Set served to one of 2026-01, 2026-04, 2026-07, 2026-10, or null for none.",
        ),
        ("scopes", [], "Send a JSON object."),
    ],
)
def test_a_control_request_that_makes_no_sense_is_told_what_to_do(
    shopify: Shopify, path: str, payload: Any, says: str
) -> None:
    with pytest.raises(ValueError) as refused:
        shopify.control(path, payload)
    assert str(refused.value) == says


# -- the vendor's own queries ------------------------------------------------------------------------------------------

_LEFT_OUT = ("bulk", "merge", "events")


@pytest.mark.parametrize("version", ["2026-07", "2026-10"])
def test_every_query_of_the_reference_runs_without_an_error(shared: Path, shopify: Shopify, version: str) -> None:
    scopes = ["read_customers", "read_orders", "read_all_orders", "read_locations", "read_products"]
    shopify.control("scopes", {"scopes": scopes})
    known = _all(shopify)[:2]
    variables = {
        "first": 250, "query": ALWAYS, "customersQuery": ALWAYS, "ordersQuery": ALWAYS, "id": known[0], "ids": known,
    }  # fmt: skip
    ran = []
    for path in sorted((shared / "api/shopify-queries").glob("*.graphql")):
        if any(word in path.stem for word in _LEFT_OUT) or (path.stem.endswith("2026_10") and version != "2026-10"):
            continue
        body = shopify.ask(path.read_text(), version, **variables)
        assert "errors" not in body and "search" not in body["extensions"], path.stem
        ran.append(path.stem)
    assert len(ran) == (10 if version == "2026-07" else 11)
