"""A person in front of a window. Everything a test looks for on a page is named here, by role and by its words."""

from __future__ import annotations

import re
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import BrowserContext, Locator, Page, expect

from syncs import services
from syncs.models import Run, Sync
from tests import factories
from tests.browser.chromium import Listener, elsewhere

# --- Words on the pages -----------------------------------------------------------------------------------------------
OPEN_DRAFT: Final = re.compile(r"^(Open|Edit) the draft$")
SAVE_AND_PREVIEW: Final = "Save and preview"
SAVE: Final = "Save the draft"
PREVIEW_DRAFT: Final = "Preview the draft"
PUBLISH: Final = re.compile("^Publish exactly this")
IS_PUBLISHED: Final = re.compile(r"Version \d+ is published")
PUBLISHABLE: Final = "Can be published"
RUN_NOW: Final = "Run now"
PAUSE: Final = "Pause"
PAUSE_THIS: Final = "Pause this sync"
PAUSE_UPDATES: Final = "Pause updates"
LOG_IN: Final = "Log in"
WHY_PAUSED: Final = "Why is it paused?"
WHY_PUBLISHED: Final = re.compile("^Why")
USER: Final = "Username"
SECRET: Final = "Password"
FILTER: Final = re.compile("^Only records for which this holds")


def session(user: User) -> dict[str, str]:
    """The cookie of somebody who is logged in."""
    client = Client()
    client.force_login(user)
    return {settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value}


def address(sync: Sync, *more: object) -> str:
    return "/".join(["", "w", sync.workspace.slug, "syncs", str(sync.pk), *map(str, more), ""])


def drive(run: Run) -> Run:
    """Work as a worker does until ``run`` has ended."""
    elsewhere(lambda: _drive(run.pk))
    run.refresh_from_db()
    assert run.state == "finished", run.state
    return run


def _drive(run_id: int) -> None:
    for _ in range(60):
        services.tick()
        services.work()
        if Run.objects.get(pk=run_id).state == "finished":
            return


class Person:
    """Somebody in front of a window of their own."""

    def __init__(self, window: BrowserContext, origin: str) -> None:
        self.window, self._origin = window, origin
        self.page: Page = window.new_page()
        self._listener = Listener(self.page, origin)

    @property
    def faults(self) -> list[str]:
        return self._listener.faults

    def leaves(self) -> None:
        self.window.close()

    # --- Going about ------------------------------------------------------------------------------------------------
    def opens(self, path: str) -> None:
        answer = self.page.goto(path)
        assert answer is not None and answer.status == 200, (path, answer and answer.status)

    def speaks(self, language: str) -> None:
        """Choose the language as the buttons at every page's foot do."""
        cookie = {"name": settings.LANGUAGE_COOKIE_NAME, "value": language, "url": self._origin}
        self.window.add_cookies([cookie])  # type: ignore[list-item]

    def logs_in(self, name: str) -> None:
        self.opens("/login/")
        self.field(USER).fill(name)
        self.field(SECRET).fill(factories.PASSWORD)
        self.presses(LOG_IN)

    def presses(self, words: str | re.Pattern[str]) -> None:
        self.button(words).click()

    def follows(self, words: str | re.Pattern[str]) -> None:
        self.link(words).click()

    def writes(self, words: str | re.Pattern[str], text: str) -> None:
        self.field(words).fill(text)

    # --- Looking ----------------------------------------------------------------------------------------------------
    @property
    def main(self) -> Locator:
        return self.page.get_by_role("main")

    def button(self, words: str | re.Pattern[str]) -> Locator:
        return self.main.get_by_role("button", name=words, exact=True).first

    def link(self, words: str | re.Pattern[str]) -> Locator:
        return self.main.get_by_role("link", name=words, exact=True).first

    def field(self, words: str | re.Pattern[str]) -> Locator:
        return self.main.get_by_label(words, exact=True).first

    def sees(self, words: str | re.Pattern[str]) -> None:
        expect(self.main.get_by_text(words).first).to_be_visible()

    def sees_title(self, words: str) -> None:
        expect(self.page).to_have_title(re.compile(words, re.IGNORECASE))

    def counters(self) -> list[int]:
        """The counter line: how many were read, then what became of them."""
        line = self.main.locator("ul.eq").first.locator("b").all_inner_texts()
        return [int(text.replace(",", "")) for text in line]

    def says_read_is_the_sum(self) -> None:
        read, *parts = self.counters()
        assert read == sum(parts) > 0, (read, parts)
