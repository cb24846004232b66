"""Where a sandbox shop comes from."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from connectors.sandbox import invented, shop
from connectors.sandbox.shop import Shop, ShopUnreadable

NODE = {"id": "gid://shopify/Customer/1", "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-02T00:00:00Z"}
ADDRESS = re.compile(r"[@.]example\.(com|org|net)$")


def _folder(tmp_path: Path, customers: bytes, orders: bytes = b"") -> Path:
    (tmp_path / "customers.jsonl").write_bytes(customers)
    (tmp_path / "orders.jsonl").write_bytes(orders)
    return tmp_path


def _line(**changes: Any) -> bytes:
    node = {key: value for key, value in {**NODE, **changes}.items() if value is not ...}
    return json.dumps(node).encode() + b"\n"


@pytest.mark.parametrize(
    ("customers", "says"),
    [
        (_line() + _line()[:40], "customers.jsonl line 2 is not whole JSON: the file may be cut off, write it again."),
        (b"[1]\n", "customers.jsonl line 1 is not a JSON object: correct that line."),
        (_line(id=...), "customers.jsonl line 1 has no id: correct that line."),
        (
            _line(id="gid://shopify/Order/1"),
            "customers.jsonl line 1 has an id that is not gid://shopify/Customer/<number>: correct that line.",
        ),
        (
            _line(id=17),
            "customers.jsonl line 1 has an id that is not gid://shopify/Customer/<number>: correct that line.",
        ),
        (_line(updatedAt=...), "customers.jsonl line 1 has no updatedAt: correct that line."),
        (
            _line(updatedAt="yesterday"),
            "customers.jsonl line 1 has a updatedAt that is not an ISO 8601 time: correct that line.",
        ),
        (
            _line().replace(b"Customer", b"Cust\xffomer"),
            "customers.jsonl line 1 is not UTF-8: write the file in UTF-8.",
        ),
        (
            _line() + b"\n" + _line(),
            "customers.jsonl line 3 repeats an id that an earlier line has: keep one of them.",
        ),
    ],
)
def test_a_line_that_cannot_be_used_is_named_in_one_sentence(tmp_path: Path, customers: bytes, says: str) -> None:
    with pytest.raises(ShopUnreadable) as refused:
        shop.load(_folder(tmp_path, customers))
    assert str(refused.value) == says


def test_a_folder_or_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ShopUnreadable, match=r"does not exist: name a folder that holds customers\.jsonl"):
        shop.load(tmp_path / "nowhere")
    (tmp_path / "customers.jsonl").touch()
    with pytest.raises(ShopUnreadable, match=r"has neither orders\.jsonl nor orders\.jsonl\.gz: put one there"):
        shop.load(tmp_path)


@pytest.mark.parametrize("broken", [b"no gzip at all", gzip.compress(_line() * 500, mtime=0)[:60]])
def test_a_broken_gzip_file_is_named(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / "customers.jsonl.gz").write_bytes(broken)
    with pytest.raises(ShopUnreadable, match=r"customers\.jsonl\.gz is not a whole gzip file: copy it again\."):
        shop.load(tmp_path)


def test_what_the_schema_demands_and_a_node_lacks_is_filled_in(tmp_path: Path) -> None:
    price = shop.money("2.50", "EUR")
    order = {
        "id": "gid://shopify/Order/9", "createdAt": NODE["createdAt"], "updatedAt": NODE["updatedAt"],
        "lineItems": {"nodes": [{"id": "gid://shopify/LineItem/3", "quantity": 4, "originalUnitPriceSet": price}]},
    }  # fmt: skip
    loaded = shop.load(_folder(tmp_path, _line(), json.dumps(order).encode()))
    customer, kept = loaded.customers.node(1), loaded.orders.node(9)
    assert customer is not None and kept is not None
    assert customer["dataSaleOptOut"] is False
    assert kept["lineItems"]["nodes"][0]["currentQuantity"] == 4
    assert kept["lineItems"]["nodes"][0]["discountedUnitPriceSet"] == price
    assert kept["processedAt"] == NODE["createdAt"]


def test_nodes_stay_in_order_when_they_are_replaced_and_removed() -> None:
    known = Shop()
    for number in (3, 1, 2):
        known.put("Customer", {**NODE, "id": f"gid://shopify/Customer/{number}"})
    assert [number for _, number in known.customers.in_order("updated_at")] == [1, 2, 3]
    known.put("Customer", {**NODE, "updatedAt": "2026-03-01T00:00:00Z"})
    assert known.customers.remove(2) is True
    assert known.customers.remove(2) is False
    assert [number for _, number in known.customers.in_order("updated_at")] == [3, 1]


def _nodes(kept: shop.Nodes) -> list[dict[str, Any]]:
    return [node for row in kept.rows() if (node := kept.node(row.number))]


def test_the_invented_shop_is_the_same_every_time() -> None:
    first, second, other = (invented.generated_shop(seed) for seed in (1, 1, 2))
    assert (len(first.customers), len(first.orders)) == (500, 1000)
    assert _nodes(first.customers) == _nodes(second.customers) and _nodes(first.orders) == _nodes(second.orders)
    assert _nodes(first.customers) != _nodes(other.customers)


def test_nothing_in_the_invented_shop_lies_in_the_future_or_can_reach_anybody() -> None:
    made = invented.generated_shop()
    everything = [*_nodes(made.customers), *_nodes(made.orders)]
    text = json.dumps(everything)
    times = re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    assert max(times) <= invented.SHOP_ENDS.strftime("%Y-%m-%dT%H:%M:%SZ")
    emails = [
        node["defaultEmailAddress"]["emailAddress"] for node in _nodes(made.customers) if node["defaultEmailAddress"]
    ]
    emails += [node["email"] for node in _nodes(made.orders) if node["email"]]
    assert [email for email in emails if not ADDRESS.search(email.lower())] == []
    phones = [
        node["defaultPhoneNumber"]["phoneNumber"] for node in _nodes(made.customers) if node["defaultPhoneNumber"]
    ]
    assert phones and all(re.fullmatch(r"\+447700900\d{3}", phone) for phone in phones)


def test_the_invented_shop_has_every_consent_and_every_odd_shape() -> None:
    made = invented.generated_shop()
    customers, orders = _nodes(made.customers), _nodes(made.orders)
    emails = [node["defaultEmailAddress"] for node in customers if node["defaultEmailAddress"]]
    assert {email["marketingState"] for email in emails} == {
        "SUBSCRIBED", "NOT_SUBSCRIBED", "UNSUBSCRIBED", "PENDING", "INVALID",
    }  # fmt: skip
    subscribed = [email for email in emails if email["marketingState"] == "SUBSCRIBED"]
    assert {email["marketingOptInLevel"] for email in subscribed} == {
        "SINGLE_OPT_IN", "CONFIRMED_OPT_IN", "UNKNOWN", None,
    }  # fmt: skip
    assert {email["marketingUpdatedAt"] is None for email in subscribed} == {True, False}
    assert any(not email["validFormat"] for email in emails)
    assert any(not email["emailAddress"].partition("@")[0].isascii() for email in emails)
    assert any(not email["emailAddress"].partition("@")[2].isascii() for email in emails)
    assert any(not node["firstName"] and not node["defaultEmailAddress"] for node in customers)
    assert {node["locale"] for node in customers} >= {"en", "de", "el", "uk", "ar", "he", "hi", "ja", "ko", "zh-CN"}
    assert {node["displayFinancialStatus"] for node in orders} == {"PAID", "PENDING", "REFUNDED", "PARTIALLY_REFUNDED"}
    assert {bool(node["cancelledAt"]) for node in orders} == {bool(node["refunds"]) for node in orders} == {True, False}
    assert {node["customer"] is None for node in orders} == {node["test"] for node in orders} == {True, False}
