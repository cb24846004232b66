"""A real shop's two years, paged through."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors import sandbox
from tests.connectors.sandbox.callers import TOKEN, Shopify, http_client

ALWAYS = "updated_at:>='2009-01-01T00:00:00Z' AND updated_at:<'2012-01-01T00:00:00Z'"


@pytest.fixture(scope="module")
def retail(shared: Path) -> Iterator[Shopify]:
    folder = shared / "data/online-retail-2"
    with sandbox.serving("shopify", token=TOKEN, shop=folder) as served, http_client(served) as http:
        yield Shopify(served, http)


@pytest.mark.parametrize(("root", "total"), [("customers", 5942), ("orders", 19959)])
def test_every_record_is_paged_through_exactly_once(retail: Shopify, shared: Path, root: str, total: int) -> None:
    query = (shared / f"api/shopify-queries/{root}_page.graphql").read_text()
    seen: list[str] = []
    times: list[str] = []
    after = None
    while True:
        body = retail.ask(query, first=250, after=after, query=ALWAYS)
        assert "errors" not in body
        found = body["data"][root]
        seen += [edge["node"]["id"] for edge in found["edges"]]
        times += [edge["node"]["updatedAt"] for edge in found["edges"]]
        if not found["pageInfo"]["hasNextPage"]:
            break
        after = found["pageInfo"]["endCursor"]
    assert (len(seen), len(set(seen))) == (total, total)
    assert times == sorted(times)
