"""`script/screenshots FOLDER`: every page of a house in its main states, in each theme, language and width, as PNG.

Needs ``DATABASE_URL``; it makes a database of its own beside that one and removes it again.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import django

from local import postgres

THEMES: Final = ("light", "dark")
LANGUAGES: Final = ("en", "de", "hi")
WIDTHS: Final = {"desktop": (1280, 800), "phone": (390, 844)}
STAFF_LISTS: Final = ("workspace", "connection", "sync", "run", "delivery", "finding", "auditentry")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0; 1 with one sentence when there is no browser or no PostgreSQL."""
    parser = argparse.ArgumentParser(prog="script/screenshots", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("folder", type=Path, help="where the pictures go; it is made if need be")
    parser.add_argument("--only", default="", metavar="TEXT", help="only pages whose name holds this text")
    given = parser.parse_args(arguments)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    try:
        with _database_url():
            django.setup()
            # Addresses that only take orders say no while the pages are looked for.
            logging.getLogger("django.request").setLevel(logging.ERROR)
            return _taken(given.folder, given.only)
    except postgres.PostgresUnavailable as error:
        print(error, file=sys.stderr)
        return 1


@contextmanager
def _database_url() -> Iterator[None]:
    if os.environ.get("DATABASE_URL"):
        yield
        return
    with postgres.temporary() as server:
        server.ensure_database()
        os.environ["DATABASE_URL"] = server.url()
        yield


def _taken(folder: Path, only: str) -> int:
    # Only now is Django set up, and they need it.
    from django.db import connections
    from django.test.utils import override_settings, setup_databases, setup_test_environment, teardown_databases
    from pytest_django.live_server_helper import LiveServer

    from tests.browser import chromium, house

    if not chromium.path():
        print(chromium.NO_BROWSER, file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    try:
        with (
            tempfile.TemporaryDirectory() as files,
            override_settings(STATIC_ROOT=files),
            house.vendors() as addresses,
            house.clock_at_now(),
        ):
            home = house.build(addresses)
            server = LiveServer("localhost")
            try:
                number = _pictures(home, server.url, folder, only)
            finally:
                server.stop()
    finally:
        connections.close_all()
        teardown_databases(made, verbosity=0)
    print(f"{number} pictures are in {folder}.", file=sys.stderr)
    return 0


def _pictures(home: object, origin: str, folder: Path, only: str) -> int:
    from django.urls import reverse

    from tests.browser import chromium, people
    from tests.browser.house import House

    assert isinstance(home, House)
    staff = {"staff-watch": reverse("admin:index")}
    staff |= {f"staff-{name}": reverse(f"admin:syncs_{name}_changelist") for name in STAFF_LISTS}
    rooms = (
        ({}, {"log-in": reverse("login")}),
        (people.session(home.mara), {**home.merchant_pages(), **home.states()}),
        (people.session(home.root), staff),
    )
    number = 0
    with chromium.started() as browser:
        for theme, language, (device, size) in itertools.product(THEMES, LANGUAGES, WIDTHS.items()):
            for cookies, pages in rooms:
                wanted = {name: path for name, path in pages.items() if only in name}
                shown = {**cookies, "django_language": language}
                viewport = {"width": size[0], "height": size[1]}
                window = chromium.window(browser, cookies=shown, origin=origin, color_scheme=theme, viewport=viewport)
                number += _of_window(window, wanted, folder, f"{device}-{theme}-{language}")
                window.close()
    return number


def _of_window(window: object, pages: Mapping[str, str], folder: Path, variant: str) -> int:
    from playwright.sync_api import BrowserContext

    from tests import factories

    assert isinstance(window, BrowserContext)
    page = window.new_page()
    for name, path in pages.items():
        factories.clock_stands_at()
        page.goto(path)
        page.screenshot(path=folder / f"{name}-{variant}.png", full_page=True)
    return len(pages)


if __name__ == "__main__":
    sys.exit(main())
