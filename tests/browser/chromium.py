"""The system's Chromium: where it is, how it is started, and a window that hears everything a page says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import pytest
from django.db import connections
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, sync_playwright

Result = TypeVar("Result")

NAMES: Final = ("chromium", "chromium-browser")
NO_BROWSER: Final = (
    "No Chromium was found: install the package chromium, or set VIGIL_CHROMIUM to the path of its program."
)
NO_AXE: Final = (
    "axe-core was not found: run `npm pack axe-core`, unpack it, and set VIGIL_AXE to the path of its axe.min.js."
)
PATIENCE_MS: Final = 10_000
"""How long a page may take to show what is waited for."""


def path() -> str:
    """The program, or "" when there is none."""
    named = os.environ.get("VIGIL_CHROMIUM", "")
    return named or next((found for name in NAMES if (found := shutil.which(name))), "")


def missing(sentence: str) -> None:
    """Skip the test; where every change is judged (CI=true) fail it, so that the hole shows."""
    if os.environ.get("CI", "") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def axe_source() -> str:
    """The text of axe-core; without it the test is skipped."""
    file = Path(os.environ.get("VIGIL_AXE") or "/nowhere")
    if not file.is_file():
        missing(NO_AXE)
    return file.read_text(encoding="utf-8")


@contextmanager
def started() -> Iterator[Browser]:
    """A browser without a window. Its loop stays in this thread until the end: no other test may run meanwhile."""
    with sync_playwright() as playwright:
        browser = _launched(playwright)
        try:
            yield browser
        finally:
            browser.close()
            # While a thread has a loop, Django's connection is another one than the thread's own.
            connections.close_all()


def _launched(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=path(), args=["--no-sandbox", "--disable-dev-shm-usage"])


def elsewhere(work: Callable[[], Result]) -> Result:
    """Do ``work`` in a thread without the browser's loop, where it may run one of its own. Closes its connections."""

    def done() -> Result:
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(done).result()


def window(browser: Browser, *, cookies: Mapping[str, str], origin: str, **options: Any) -> BrowserContext:
    """A person's window: 1280 x 800 in English and light colours, unless ``options`` say otherwise."""
    given = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", "locale": "en-GB", **options}
    made = browser.new_context(base_url=origin, reduced_motion="reduce", **given)
    made.set_default_timeout(PATIENCE_MS)
    made.add_cookies([{"name": name, "value": value, "url": origin} for name, value in cookies.items()])
    return made


class Listener:
    """Hears what must never be: other hosts, errors on the console, what the policy forbids, files that are missing."""

    def __init__(self, page: Page, origin: str) -> None:
        self.faults: list[str] = []
        self._host = urlsplit(origin).netloc
        self._main = page.main_frame
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("response", lambda answer: self._answer(answer.request, answer.status))

    def _console(self, message: ConsoleMessage) -> None:
        # Files that are missing are heard below; a page that says no (409, 422) is said on the console too.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.netloc != self._host:
            self.faults.append(f"another host: {request.url}")

    def _answer(self, request: Request, status: int) -> None:
        if status >= 500 or (status >= 400 and not request.is_navigation_request()):
            self.faults.append(f"{status}: {request.url}")
