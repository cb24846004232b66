"""What is asked of Shopify."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from connectors import protocol
from connectors.protocol import Stream
from connectors.shopify import queries
from tests.connectors.shopify.answers import SINCE, UNTIL, WINDOW

SCHEMAS = Path(__file__).resolve().parents[4] / "shared" / "api" / "schemas"
TEXTS = [*queries.PAGES.values(), *queries.COUNTS.values(), queries.WHO, queries.MORE_LINES]


@pytest.mark.parametrize("version", ["2026-07", "2026-10"])
def test_every_query_is_valid_in_the_vendors_schema(version: str) -> None:
    graphql = pytest.importorskip("graphql")
    path = SCHEMAS / f"shopify-admin-{version}.subset.graphql"
    if not path.is_file():
        pytest.skip("Shopify's schema is not beside this repository (../shared/api/schemas).")
    schema = graphql.build_schema(path.read_text(), assume_valid=True)

    assert [str(error) for text in TEXTS for error in graphql.validate(schema, graphql.parse(text))] == []


def test_no_query_can_change_anything() -> None:
    """PRODUCT 3.10."""
    assert all(text.startswith("query ") and "mutation" not in text for text in TEXTS)


def test_no_query_needs_more_than_the_minimal_scopes() -> None:
    for forbidden in ("sourceLocation", "product", "variant {", "marketingUnsubscribeUrl", "lastOrder"):
        assert all(forbidden not in text for text in TEXTS)


def test_the_filter_is_quoted_in_utc_with_an_explicit_and() -> None:
    assert queries.window_filter(WINDOW) == (
        "updated_at:>='2026-11-30T08:25:00Z' AND updated_at:<'2026-11-30T08:55:00Z'"
    )


def test_a_window_from_the_beginning_has_only_an_upper_bound() -> None:
    assert queries.window_filter(protocol.Window(None, UNTIL)) == "updated_at:<'2026-11-30T08:55:00Z'"


def test_a_fraction_of_a_second_widens_the_window() -> None:
    fraction = timedelta(microseconds=1)
    window = protocol.Window(SINCE + fraction, UNTIL + fraction)

    assert queries.window_filter(window) == (
        "updated_at:>='2026-11-30T08:25:00Z' AND updated_at:<'2026-11-30T08:55:01Z'"
    )


def test_another_time_zone_is_the_same_instant() -> None:
    """Case READ-05."""
    tokyo = timezone(timedelta(hours=9))

    assert queries.window_filter(protocol.Window(None, UNTIL.astimezone(tokyo))) == "updated_at:<'2026-11-30T08:55:00Z'"


def test_a_bound_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        queries.window_filter(protocol.Window(None, datetime(2026, 1, 1)))


def test_the_digest_binds_a_cursor_to_all_that_made_it() -> None:
    """Case READ-11."""
    one = queries.digest(Stream.CUSTOMERS, WINDOW, "2026-07")
    others = {
        queries.digest(Stream.ORDERS, WINDOW, "2026-07"),
        queries.digest(Stream.CUSTOMERS, protocol.Window(None, UNTIL), "2026-07"),
        queries.digest(Stream.CUSTOMERS, protocol.Window(SINCE, UNTIL + timedelta(seconds=1)), "2026-07"),
        queries.digest(Stream.CUSTOMERS, WINDOW, "2026-10"),
    }

    assert len(one) == 64 and int(one, 16) >= 0
    assert len(others) == 4 and one not in others
    assert one == queries.digest(Stream.CUSTOMERS, protocol.Window(SINCE, UNTIL.astimezone(UTC)), "2026-07")
