"""What people come for, in a real browser under the real policy: from a draft to a proven run, and after a pause."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from syncs.models import Sync, Workspace
from syncs.models.workspaces import Role
from tests import factories
from tests.browser import people
from tests.browser.people import Person, address

Sits = Callable[..., Person]


def _publishes(person: Person, sync: Sync, reason: str) -> None:
    """From the preview that is open."""
    person.sees(people.PUBLISHABLE)
    person.says_read_is_the_sum()
    person.writes(people.WHY_PUBLISHED, reason)
    person.presses(people.PUBLISH)
    person.sees(people.IS_PUBLISHED)
    sync.refresh_from_db()
    assert sync.published is not None
    person.sees(f"Version {sync.published.number} is published ({sync.published.digest[:12]}).")


def test_a_publisher_goes_from_the_draft_to_a_page_that_shows_a_proven_run(
    sits: Sits, place: Workspace, draft: Sync
) -> None:
    """PRODUCT 6.1 to 6.4, 9.1."""
    factories.member(place, Role.PUBLISHER, "mara")
    mara = sits()
    mara.logs_in("mara")
    mara.follows("Newsletter")
    mara.sees("Nothing runs yet.")

    mara.follows(people.OPEN_DRAFT)
    mara.writes(people.FILTER, "firstName")
    mara.presses(people.SAVE_AND_PREVIEW)
    _publishes(mara, draft, "Autumn.")
    assert (draft.state, draft.draft["filter"]) == ("published", "firstName")

    mara.presses(people.RUN_NOW)
    mara.sees_title("^Waiting")
    run = people.drive(draft.runs.get())
    assert (run.outcome, run.verdict) == ("succeeded", "proven")

    mara.page.reload()
    mara.sees_title("^Succeeded")
    mara.says_read_is_the_sum()
    mara.opens(address(draft))
    mara.says_read_is_the_sum()
    mara.sees("Version")
    mara.sees("Autumn.")


def test_of_two_editors_the_second_is_told_by_whom_and_keeps_the_text(
    sits: Sits, place: Workspace, draft: Sync
) -> None:
    """Case PUB-05, PRODUCT 6.5."""
    ada, bo = (sits(factories.member(place, Role.EDITOR, name)) for name in ("ada", "bo"))
    for person in (ada, bo):
        person.opens(address(draft, "draft"))
    bo.writes(people.FILTER, "lastName")
    bo.presses(people.SAVE)
    bo.sees("The draft is saved.")

    ada.writes(people.FILTER, "contains(tags, 'vip')")
    ada.presses(people.SAVE)
    ada.sees("bo saved this draft at")
    expect(ada.field(people.FILTER)).to_have_value("contains(tags, 'vip')")
    draft.refresh_from_db()
    assert (draft.draft_revision, draft.draft["filter"]) == (2, "lastName")


def test_a_pause_has_a_reason_and_ends_with_a_preview_and_a_publication(
    sits: Sits, place: Workspace, draft: Sync
) -> None:
    """PRODUCT 4.6, 6.1."""
    mara = sits(factories.member(place, Role.PUBLISHER, "mara"))
    mara.opens(address(draft))
    mara.presses(people.PREVIEW_DRAFT)
    _publishes(mara, draft, "First.")

    mara.opens(address(draft))
    mara.follows(people.PAUSE)
    mara.writes(people.WHY_PAUSED, "The shop moves.")
    mara.presses(people.PAUSE_THIS)
    mara.sees("Paused by mara: The shop moves.")
    mara.sees_title("^Paused")
    expect(mara.button(people.RUN_NOW)).to_have_count(0)

    mara.opens(address(draft))
    mara.presses(people.PREVIEW_DRAFT)
    _publishes(mara, draft, "It has moved.")
    assert (draft.state, draft.versions.count()) == ("published", 2)
    mara.opens(address(draft))
    expect(mara.button(people.RUN_NOW)).to_be_visible()


FOCUS = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const style = getComputedStyle(at), box = at.getBoundingClientRect();
  const inView = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const marked = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== "none";
  return { name: `${at.tagName} ${at.name || at.textContent.trim().slice(0, 40)}`, shown: inView && marked };
}"""
MOST_STOPS = 120


def _tabs_to(person: Person, target: object) -> None:
    """Press Tab until ``target`` has the focus; wherever the focus is on the way, it can be seen."""
    wanted = target.element_handle()  # type: ignore[attr-defined]
    for _ in range(MOST_STOPS):
        person.page.keyboard.press("Tab")
        at = person.page.evaluate(FOCUS)
        assert at is None or at["shown"], f"the focus cannot be seen: {at['name']}"
        if wanted.evaluate("one => one === document.activeElement"):
            return
    pytest.fail(f"the keyboard does not reach {target}")


def _enters(person: Person, target: object) -> None:
    """Tab to a link or a button and press Enter: the next page is there afterwards."""
    _tabs_to(person, target)
    with person.page.expect_navigation():
        person.page.keyboard.press("Enter")


def test_the_whole_way_can_be_gone_with_the_keyboard_alone(sits: Sits, place: Workspace, draft: Sync) -> None:
    """UX, section 7: every action by keyboard, the focus always visible."""
    factories.member(place, Role.PUBLISHER, "mara")
    mara = sits()
    mara.opens("/login/")
    keys = mara.page.keyboard
    _tabs_to(mara, mara.field(people.USER))
    keys.type("mara")
    _tabs_to(mara, mara.field(people.SECRET))
    keys.type(factories.PASSWORD)
    with mara.page.expect_navigation():
        keys.press("Enter")
    _enters(mara, mara.link("Newsletter"))
    _enters(mara, mara.link(people.OPEN_DRAFT))
    _tabs_to(mara, mara.field(people.FILTER))
    keys.type("firstName")
    _enters(mara, mara.button(people.SAVE_AND_PREVIEW))
    mara.sees(people.PUBLISHABLE)
    _tabs_to(mara, mara.field(people.WHY_PUBLISHED))
    keys.type("By keyboard.")
    _enters(mara, mara.button(people.PUBLISH))
    _enters(mara, mara.button(people.RUN_NOW))
    run = people.drive(draft.runs.get())
    draft.refresh_from_db()
    assert (run.outcome, run.version.reason, draft.draft["filter"]) == ("succeeded", "By keyboard.", "firstName")
    mara.page.reload()
    mara.sees_title("^Succeeded")
    keys.press("Tab")
    skip = mara.page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    keys.press("Enter")
    expect(mara.main).to_be_focused()


def test_a_working_runs_page_renews_itself_until_updates_are_paused(sits: Sits, place: Workspace, draft: Sync) -> None:
    """UX, section 7: polite, at most every 10 seconds, with a switch. Time passes in the window alone."""
    mara = sits(factories.member(place, Role.PUBLISHER, "mara"))
    mara.opens(address(draft))
    mara.presses(people.PREVIEW_DRAFT)
    _publishes(mara, draft, "To be looked at.")
    run = factories.open_run(draft, created=draft.changed_at)
    mara.page.clock.install()
    mara.opens(f"/w/{place.slug}/runs/{run.pk}/")
    mara.sees_title("^Waiting")
    switch = mara.button(people.PAUSE_UPDATES)

    mara.presses(people.PAUSE_UPDATES)
    expect(switch).to_have_attribute("aria-pressed", "true")
    people.drive(run)
    asked: list[str] = []
    mara.page.on("request", lambda request: asked.append(request.url))
    mara.page.clock.run_for(35_000)
    assert asked == []
    mara.sees_title("^Waiting")

    mara.presses(people.PAUSE_UPDATES)
    mara.page.clock.run_for(11_000)
    mara.sees_title("^Succeeded")
    mara.says_read_is_the_sum()
    assert len(asked) == 1
