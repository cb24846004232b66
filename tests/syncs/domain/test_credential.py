"""Another credential stands for the same only with the same account and the same scopes (PRODUCT 6.3)."""

import pytest

from syncs.domain.credential import Difference, difference, writing

KNOWN = {"account": "1", "scopes": ["read_customers", "read_orders"]}


@pytest.mark.parametrize(
    ("account", "scopes", "expected", "is_enough"),
    [
        ("1", ["read_orders", "read_customers"], Difference(False, (), ()), True),
        ("2", ["read_orders", "read_customers"], Difference(True, (), ()), False),
        ("1", ["read_orders"], Difference(False, ("read_customers",), ()), False),
        ("1", ["read_customers", "read_orders", "write_x"], Difference(False, (), ("write_x",)), True),
    ],
)
def test_what_differs_is_named_exactly(account: str, scopes: list[str], expected: Difference, is_enough: bool) -> None:
    found = difference(account, scopes, KNOWN)
    assert (found, found.is_enough) == (expected, is_enough)
    assert found.is_none is (expected == Difference(False, (), ()))


def test_where_nothing_was_proved_nothing_differs() -> None:
    assert difference("1", ["read_orders"], {"account": "", "scopes": []}).is_none


def test_only_scopes_that_write_are_too_much() -> None:
    assert writing(["write_orders", "read_orders", "write_a"]) == ("write_a", "write_orders")
