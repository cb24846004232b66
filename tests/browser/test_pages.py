"""Every page of a house in its main states: what axe finds, what a phone shows, what is left without JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from syncs.admin import labels
from syncs.domain.lifecycle import SyncState
from tests.browser import chromium, house, people
from tests.browser.house import House
from tests.browser.people import Person, address

Sits = Callable[..., Person]
WIDTHS = {1280: 800, 390: 844}
NARROW = {"width": 320, "height": 640}
GRAVE = ("serious", "critical")
AXE = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } });
  return found.violations.map(one => ({
    id: one.id, impact: one.impact,
    nodes: one.nodes.map(node => [node.target.join(" "), node.any.concat(node.all).map(c => c.message).join(" ")]),
  }));
}"""
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = [...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > width + 1);
  return [`${document.documentElement.scrollWidth} px`, ...wide.slice(0, 5).map(one => one.outerHTML.slice(0, 120))];
}"""


@pytest.fixture
def home(transactional_db: None, origin: str, vendors: dict[str, str]) -> Iterator[House]:
    with house.clock_at_now():
        yield house.build(vendors)


def _faults(person: Person, pages: Mapping[str, str], source: str, widths: tuple[int, ...] = (1280,)) -> str:
    """What axe calls serious or critical, one line for each kind on each page."""
    found = []
    for name, path in pages.items():
        person.opens(path)
        person.page.evaluate(source)
        for width in widths:
            person.page.set_viewport_size({"width": width, "height": WIDTHS[width]})
            found += [f"{name}, {width} px: {fault}" for fault in _grave(person.page)]
    return "\n".join(found)


def _grave(page: Page) -> list[str]:
    return [
        f"{one['id']} ({one['impact']}) {len(one['nodes'])} x, such as {one['nodes'][0]}"
        for one in page.evaluate(AXE)
        if one["impact"] in GRAVE
    ]


# --- axe --------------------------------------------------------------------------------------------------------------
def test_axe_finds_nothing_grave_on_any_merchant_page(sits: Sits, home: House) -> None:
    """UX, section 7."""
    source = chromium.axe_source()
    pages = home.merchant_pages()
    assert set(pages) >= {
        "workspace",
        "sync",
        "draft",
        "preview",
        "run",
        "trace",
        "activity",
        "deed",
        "runs",
        "consent",
    }
    assert _faults(sits(home.mara, bypass_csp=True), pages, source) == ""


def test_axe_finds_nothing_grave_in_any_state(sits: Sits, home: House) -> None:
    source = chromium.axe_source()
    assert _faults(sits(home.mara, bypass_csp=True), home.states(), source) == ""


def test_axe_finds_nothing_grave_at_the_door(sits: Sits, home: House) -> None:
    source = chromium.axe_source()
    assert _faults(sits(bypass_csp=True), {"log-in": "/login/"}, source, (1280, 390)) == ""


def test_axe_finds_nothing_grave_in_staffs_admin(sits: Sits, home: House) -> None:
    source = chromium.axe_source()
    pages = {"watch": reverse("admin:index")}
    pages |= {table: reverse(f"admin:syncs_{table}_changelist") for table in labels.TABLES if table in MAIN_LISTS}
    assert set(pages) == {"watch", *MAIN_LISTS}
    assert _faults(sits(home.root, bypass_csp=True), pages, source) == ""


MAIN_LISTS = ("workspace", "connection", "sync", "version", "run", "delivery", "finding", "auditentry")


@pytest.mark.parametrize("language", ["en", "de", "hi"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_grave_in_any_language_colour_and_width(
    sits: Sits, home: House, colours: str, language: str
) -> None:
    source = chromium.axe_source()
    for user, pages in ((home.mara, home.main_pages()), (home.root, {"watch": reverse("admin:index")})):
        person = sits(user, bypass_csp=True, color_scheme=colours)
        person.speaks(language)
        assert _faults(person, pages, source, (1280, 390)) == ""
        assert person.page.locator("html").get_attribute("lang") == language


# --- Phones -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("language", ["de", "hi"])
def test_nothing_has_to_be_moved_sideways_on_the_narrowest_phone(sits: Sits, home: House, language: str) -> None:
    """UX, section 7: reflow at 320 px; the languages with the longest words and the highest letters."""
    mara = sits(home.mara, viewport=NARROW)
    mara.speaks(language)
    found = {}
    for name, path in {**home.merchant_pages(), **home.states()}.items():
        mara.opens(path)
        found[name] = mara.page.evaluate(TOO_WIDE)
    assert {name: wide for name, wide in found.items() if wide} == {}


# --- Without JavaScript -----------------------------------------------------------------------------------------------
def test_every_page_can_be_read_and_a_sync_paused_without_javascript(sits: Sits, home: House) -> None:
    """UX, section 7: every read, and pause."""
    mara = sits(home.mara, java_script_enabled=False)
    for path in home.merchant_pages().values():
        mara.opens(path)
        expect(mara.page.get_by_role("heading", level=1)).to_be_visible()
        assert len(mara.main.inner_text()) > 40, path

    sync = home.syncs["waiting"]
    mara.opens(address(sync))
    mara.follows(people.PAUSE)
    mara.writes(people.WHY_PAUSED, "No scripts here.")
    mara.presses(people.PAUSE_THIS)
    mara.sees("Paused by mara: No scripts here.")
    sync.refresh_from_db()
    assert sync.state == SyncState.PAUSED


def test_numbers_of_a_working_run_can_be_had_without_javascript(sits: Sits, home: House) -> None:
    mara = sits(home.mara, java_script_enabled=False)
    mara.opens(home.run("running"))
    expect(mara.page.get_by_role("button", name=people.PAUSE_UPDATES)).to_be_hidden()
    home.runs["running"].states = {"written": 1300, "unchanged": 80}
    home.runs["running"].save(update_fields=["states"])
    mara.follows("Load again for newer numbers")
    assert mara.counters()[0] == 1380
