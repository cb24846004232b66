"""The silent mis-readings of Shopify's search."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from connectors.sandbox import search
from connectors.sandbox.shop import Nodes, Row, milliseconds

TORONTO = ZoneInfo("America/Toronto")
WINDOW = "updated_at:>='2026-11-30T08:25:00Z' AND updated_at:<'2026-11-30T08:55:00Z'"


def _read(text: str | None, grammar: search.Grammar = search.CUSTOMERS, counting: bool = False) -> search.Search:
    return search.read(text, grammar, TORONTO, Nodes("Customer"), counting)


def _row(updated: str, number: int = 1, email: str | None = None) -> Row:
    moment = milliseconds(updated)
    return Row(number, moment, moment, moment, email, None)


def _warned(found: search.Search) -> list[tuple[str, str]]:
    return [(warning["field"], warning["code"]) for warning in found.warnings]


def test_a_quoted_window_is_read_as_it_stands_and_warns_of_nothing() -> None:
    found = _read(WINDOW)
    assert found.warnings == ()
    assert found.parsed == {
        "and": [
            {"field": "updated_at", "range_gte": "2026-11-30T08:25:00Z"},
            {"field": "updated_at", "range_lte": "2026-11-30T08:55:00Z"},
        ]
    }
    assert [found.matches(_row(f"2026-11-30T08:{time}Z")) for time in ("24:59", "25:00", "54:59", "55:01")] == [
        False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("sign", [">", ">=", "<", "<="])
def test_a_comparator_always_includes_its_own_edge(sign: str) -> None:
    assert _read(f"updated_at:{sign}'2026-11-30T08:25:00Z'").matches(_row("2026-11-30T08:25:00Z"))


def test_an_unquoted_time_is_cut_at_its_colon_and_read_in_the_zone_of_the_shop() -> None:
    found = _read("updated_at:>=2026-11-30T08:25:45Z")
    assert found.parsed == {
        "and": [
            {"field": "updated_at", "range_gte": "2026-11-30T08:00:00-05:00"},
            {"field": "25", "match_all": "45Z"},
        ]
    }
    assert found.warnings == (
        {"field": "25", "message": "Invalid search field for this query.", "code": "invalid_field"},
    )
    assert not found.matches(_row("2026-11-30T12:59:59Z"))
    assert found.matches(_row("2026-11-30T13:00:00Z"))


def test_an_unknown_field_is_ignored_and_everything_comes_back() -> None:
    found = _read("vigil_probe:1")
    assert found.matches(_row("2026-01-01T00:00:00Z"))
    assert _warned(found) == [("vigil_probe", "invalid_field")]
    assert found.parsed == {"field": "vigil_probe", "match_all": "1"}


def test_a_count_of_customers_knows_neither_addresses_nor_bare_words() -> None:
    found = _read("email:a@example.com", search.CUSTOMERS_COUNT, counting=True)
    assert (_warned(found), found.matches(_row("2026-01-01T00:00:00Z"))) == ([("email", "invalid_field")], True)
    assert _warned(_read("ada", search.CUSTOMERS_COUNT, counting=True)) == [("default", "missing_named_field")]


def test_a_value_that_is_no_time_or_number_is_ignored_with_a_warning() -> None:
    assert _warned(_read("updated_at:>='soon' AND id:first")) == [
        ("updated_at", "invalid_value"),
        ("id", "invalid_value"),
    ]


def test_a_comparator_without_a_value_is_an_internal_error() -> None:
    with pytest.raises(search.EmptyValue):
        _read("updated_at:>")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("id:1", {1}),
        ("id:>=2", {2, 3}),
        ("id:1 OR id:3", {1, 3}),
        ("(id:1 OR id:2) AND email:two@example.com", {2}),
        ('email:"TWO@example.com"', {2}),
        ("id:1 id:2", set[int]()),
        (None, {1, 2, 3}),
        ("  ", {1, 2, 3}),
    ],
)
def test_terms_are_joined(text: str | None, numbers: set[int]) -> None:
    rows = [_row("2026-01-01T00:00:00Z", n, f"{name}@example.com") for n, name in enumerate(("one", "two", "six"), 1)]
    found = _read(text)
    assert {row.number for row in rows if found.matches(row)} == numbers


def test_a_time_without_a_comparator_is_a_whole_day_of_the_shop() -> None:
    found = _read("updated_at:2026-11-30")
    edges = ("2026-11-30T04:59:59Z", "2026-11-30T05:00:00Z", "2026-12-01T04:59:59Z", "2026-12-01T05:00:00Z")
    assert [found.matches(_row(edge)) for edge in edges] == [False, True, True, False]


def test_the_bounds_of_a_window_spare_a_scan() -> None:
    bounds: Any = _read(WINDOW).bounds
    assert bounds == {"updated_at": (milliseconds("2026-11-30T08:25:00Z"), milliseconds("2026-11-30T08:55:00Z"))}
    assert _read(f"({WINDOW}) OR id:1").bounds == {}
