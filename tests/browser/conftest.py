"""A browser, a server with the merchant's and staff's pages, two sandbox vendors, and people in front of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from syncs.models import Sync, Workspace
from tests import factories
from tests.browser import chromium, house, people

SHORT = {"VIGIL_CALL_SECONDS": 2.0, "VIGIL_SETTLE_SECONDS": 0.2, "VIGIL_RECOUNT_SECONDS": 0.0, "VIGIL_RETRY_SCALE": 0.0}
"""What a run waits for, shortened."""


@pytest.fixture(scope="module")
def chrome(django_db_setup: None) -> Iterator[Browser]:
    """One browser for the tests of a file: its event loop is in this thread, and must be gone before other tests."""
    if not chromium.path():
        chromium.missing(chromium.NO_BROWSER)
    with pytest.MonkeyPatch.context() as patch:
        # The loop only waits for the browser; rows are read between its turns.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        with chromium.started() as browser:
            yield browser


@pytest.fixture(scope="module")
def origin(chrome: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the pages are."""
    files: Path = tmp_path_factory.mktemp("static")
    with override_settings(STATIC_ROOT=str(files), **SHORT):
        server = LiveServer("localhost")
        yield server.url
        server.stop()


@pytest.fixture
def sits(chrome: Browser, origin: str) -> Iterator[Callable[..., people.Person]]:
    """``sits("mara")``: the person in front of a window, logged in unless ``user=None``. Every page is listened to."""
    seated: list[people.Person] = []

    def sit(user: Any = None, **options: Any) -> people.Person:
        cookies = people.session(user) if user is not None else {}
        person = people.Person(chromium.window(chrome, cookies=cookies, origin=origin, **options), origin)
        seated.append(person)
        return person

    yield sit
    faults = [fault for person in seated for fault in person.faults]
    for person in seated:
        person.leaves()
    assert faults == []


# --- What the people of the journeys find -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def vendors() -> Iterator[dict[str, str]]:
    """Where the two sandbox vendors are, by their kind."""
    with house.vendors() as addresses:
        yield addresses


@pytest.fixture
def place(transactional_db: None) -> Workspace:
    return factories.workspace()


@pytest.fixture
def draft(place: Workspace, vendors: dict[str, str]) -> Sync:
    """A sync between two sandbox vendors of which nothing was published."""
    options = {"domain": house.DOMAIN, "base_url": vendors["shopify"]}
    source = factories.connection(place, "shopify", options=options)
    destination = factories.connection(place, "brevo", options={"base_url": vendors["brevo"]})
    rule = {**factories.CUSTOMERS, "list_id": 7}
    return factories.sync(place, name="Newsletter", source=source, destination=destination, rule=rule)
