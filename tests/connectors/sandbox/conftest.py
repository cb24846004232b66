"""Running sandboxes for the tests of this room: one process per kind, put back to its start before each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors import sandbox
from tests.connectors.sandbox.callers import API_KEY, TOKEN, Brevo, Shopify, http_client

SHARED = Path(__file__).resolve().parents[4] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("The vendors' schemas and queries are not beside this repository (../shared).")
    return SHARED


@pytest.fixture(scope="session")
def _shopify() -> Iterator[Shopify]:
    with sandbox.serving("shopify", token=TOKEN) as served, http_client(served) as http:
        yield Shopify(served, http)


@pytest.fixture
def shopify(_shopify: Shopify) -> Shopify:
    _shopify.control("reset", {})
    return _shopify


@pytest.fixture(scope="session")
def _brevo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brevo]:
    state = tmp_path_factory.mktemp("brevo") / "state.sqlite"
    with sandbox.serving("brevo", api_key=API_KEY, state=state) as served, http_client(served) as http:
        yield Brevo(served, http)


@pytest.fixture
def brevo(_brevo: Brevo) -> Brevo:
    _brevo.control("reset", {})
    return _brevo
