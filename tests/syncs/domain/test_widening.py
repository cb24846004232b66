"""What reaches further than before is named, and nothing else is."""

from typing import Any

import pytest

from syncs.domain import rule as rules
from syncs.domain.widening import Widening, Widens, widenings

CUSTOMERS: dict[str, Any] = {
    "stream": "customers",
    "list_id": 7,
    "mapping": [{"to": "FIRSTNAME", "source": "firstName"}],
    "filter": "contains(tags, 'vip')",
    "consent": "confirmed",
    "refuse_data_sale_opt_out": True,
    "on_rejected": "set_aside",
    "ratio": "0.05",
    "cap": 20,
}
ORDERS: dict[str, Any] = {"stream": "orders", "events": ["order_placed"]}


def found(before: dict[str, Any], **changes: Any) -> tuple[Widening, ...]:
    return widenings(rules.parse(before), rules.parse({**before, **changes}))


@pytest.mark.parametrize(
    ("before", "changes", "expected"),
    [
        (CUSTOMERS, {"list_id": 8}, Widening(Widens.LIST, ("8",))),
        (
            CUSTOMERS,
            {"mapping": [*CUSTOMERS["mapping"], {"to": "CITY", "source": "defaultAddress.city"}]},
            Widening(Widens.FIELDS, ("CITY",)),
        ),
        (CUSTOMERS, {"mapping": [{"to": "firstname", "source": "note"}]}, Widening(Widens.VALUES, ("firstname",))),
        (CUSTOMERS, {"filter": None}, Widening(Widens.FILTER_GONE)),
        (CUSTOMERS, {"filter": "tags"}, Widening(Widens.FILTER_CHANGED)),
        (CUSTOMERS, {"consent": "confirmed_or_single"}, Widening(Widens.CONSENT)),
        (CUSTOMERS, {"refuse_data_sale_opt_out": False}, Widening(Widens.DATA_SALE)),
        (CUSTOMERS, {"ratio": "0.06"}, Widening(Widens.REJECTIONS)),
        (CUSTOMERS, {"cap": 21, "ratio": "0.01"}, Widening(Widens.REJECTIONS)),
        (ORDERS, {"on_rejected": "set_aside"}, Widening(Widens.REJECTIONS)),
        (ORDERS, {"events": ["order_placed", "order_refunded"]}, Widening(Widens.EVENTS, ("order_refunded",))),
        (ORDERS, {"include_test_orders": True}, Widening(Widens.TEST_ORDERS)),
        (ORDERS, {"history_events": True}, Widening(Widens.HISTORY_EVENTS)),
    ],
)
def test_each_way_to_reach_further_is_named(
    before: dict[str, Any], changes: dict[str, Any], expected: Widening
) -> None:
    assert found(before, **changes) == (expected,)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (CUSTOMERS, {}),
        (CUSTOMERS, {"mapping": []}),
        (CUSTOMERS, {"mapping": [{"to": "FIRSTNAME", "source": "firstName", "kind": "number"}]}),
        ({**CUSTOMERS, "filter": None}, {"filter": "tags"}),
        ({**CUSTOMERS, "consent": "confirmed_or_single"}, {"consent": "confirmed"}),
        ({**CUSTOMERS, "refuse_data_sale_opt_out": False}, {"refuse_data_sale_opt_out": True}),
        (CUSTOMERS, {"on_rejected": "stop", "ratio": None, "cap": None}),
        (CUSTOMERS, {"ratio": "0.01", "cap": 3}),
        (ORDERS, {"events": []}),
        ({**ORDERS, "include_test_orders": True, "history_events": True}, {"include_test_orders": False}),
    ],
)
def test_what_reaches_no_further_is_not_asked_about(before: dict[str, Any], changes: dict[str, Any]) -> None:
    assert found(before, **changes) == ()
