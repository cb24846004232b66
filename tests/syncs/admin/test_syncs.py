"""What is done to a sync: named buttons that ask first, and ways to the merchant's pages."""

from __future__ import annotations

import pytest
from django.test import Client

from syncs import services
from syncs.models import AuditEntry, Lease, Run, Sync
from tests import factories
from tests.factories import NOW
from tests.syncs.admin.cast import browser, of_group, staff


@pytest.mark.parametrize(("action", "leads_to"), [("page", ""), ("draft", "draft/"), ("preview", "preview/{preview}/")])
def test_a_syncs_actions_lead_to_the_merchants_pages(sync: Sync, root: Client, action: str, leads_to: str) -> None:
    answer = root.get(f"/admin/syncs/sync/{sync.pk}/{action}/")
    page = f"/w/{sync.workspace.slug}/syncs/{sync.pk}/" + leads_to.format(preview=sync.previews.get().pk)
    assert (answer.status_code, answer.headers["Location"]) == (302, page)


def test_without_a_preview_the_draft_comes_first(sync: Sync, root: Client) -> None:
    other = factories.sync()
    answer = root.get(f"/admin/syncs/sync/{other.pk}/preview/")
    assert answer.headers["Location"] == f"/w/{other.workspace.slug}/syncs/{other.pk}/draft/"


def test_staff_without_the_permission_do_not_learn_the_way(sync: Sync) -> None:
    assert browser(staff("view_connection")).get(f"/admin/syncs/sync/{sync.pk}/page/").status_code == 403


# --- Acts ------------------------------------------------------------------------------------------------------------
YES = {"confirmed": "yes", "reason": "The shop moves."}


def path(sync: Sync, act: str) -> str:
    return f"/admin/syncs/sync/{sync.pk}/{act}/"


@pytest.mark.parametrize("act", ["run", "pause", "cancel", "unlock", "make-preview"])
def test_looking_at_a_button_changes_nothing(sync: Sync, root: Client, act: str) -> None:
    before = everything()
    assert root.get(path(sync, act)).status_code == 200
    assert root.post(path(sync, act), {"reason": "not confirmed"}).status_code == 200
    assert everything() == before


def everything() -> list[object]:
    counted = [model.objects.count() for model in (Run, AuditEntry)]
    return [Sync.objects.values().get(), Lease.objects.values().get(), *counted]


def test_a_run_is_started_and_cancelled_by_buttons(sync: Sync) -> None:
    client = browser(of_group("Vigil operators"))
    answer = client.post(path(sync, "run"), YES, follow=True).content.decode()
    run = Run.objects.latest("pk")
    assert f"Run {run.pk} is on its way." in answer
    assert (run.trigger, run.state, run.started_by.username) == ("person", "waiting", "vigil-operators")
    assert f"Cancel run {run.pk}" in client.get(path(sync, "cancel")).content.decode()
    client.post(path(sync, "cancel"), YES)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "cancelled")


def test_pausing_wants_a_reason(sync: Sync, root: Client) -> None:
    assert root.post(path(sync, "pause"), {"confirmed": "yes"}).status_code == 422
    assert Sync.objects.get().state == "published"
    root.post(path(sync, "pause"), YES)
    paused = Sync.objects.get()
    assert (paused.state, paused.pause_sentence) == ("paused", "Paused by root: The shop moves.")


def test_what_cannot_be_done_now_offers_no_button(sync: Sync, root: Client) -> None:
    Sync.objects.update(state="edited")
    answer = root.post(path(sync, "run"), YES)
    assert "There is nothing to do here now." in answer.content.decode()
    assert Run.objects.count() == 1


def test_a_lease_that_runs_is_not_unlocked_and_one_that_is_over_is(sync: Sync, root: Client) -> None:
    shown = root.get(path(sync, "unlock")).content.decode()
    assert "Held under fencing number 1 by host/boot/space:1:1, until 2026-10-08 12:20:00 UTC." in shown
    assert root.post(path(sync, "unlock"), YES).status_code == 422
    assert Lease.objects.get().fence == 1
    Lease.objects.update(expires_at=NOW)
    assert 'type="submit"' in root.get(path(sync, "unlock")).content.decode()
    answer = root.post(path(sync, "unlock"), YES, follow=True)
    assert "The lease is free. Its fencing number is 2 now." in answer.content.decode()
    assert (Lease.objects.get().fence, Lease.objects.get().run) == (2, None)


def test_staff_publish_exactly_what_was_previewed(sync: Sync) -> None:
    client, preview = browser(of_group("Vigil admins")), sync.previews.get()
    address = f"/admin/syncs/preview/{preview.pk}/publish/"
    asked = client.get(address).content.decode()
    assert f"Publish exactly this ({preview.digest[:12]})" in asked
    assert "1 subscribed, but not since when" in asked
    answer = client.post(address, YES, follow=True).content.decode()
    assert f"Version 2 is published ({preview.digest[:12]})." in answer
    sync.refresh_from_db()
    assert (sync.published.digest, sync.published.publisher_label) == (preview.digest, "vigil-admins")


def test_a_preview_of_an_older_draft_is_refused_in_words(sync: Sync, root: Client) -> None:
    preview = sync.previews.get()
    Sync.objects.update(draft_revision=2)
    answer = root.post(f"/admin/syncs/preview/{preview.pk}/publish/", YES, follow=True)
    assert "since this preview. Preview it again." in answer.content.decode()
    assert sync.versions.count() == 1


def test_a_preview_is_made_as_the_member_of_staff(sync: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(services, "sync_preview", lambda actor, of: made.append((actor.label, of.pk)))
    browser(of_group("Vigil admins")).post(path(sync, "make-preview"), YES)
    assert made == [("vigil-admins", sync.pk)]


def test_who_is_no_member_is_led_to_the_preview_here(sync: Sync) -> None:
    """The merchant's pages are for members and superusers."""
    answer = browser(of_group("Vigil admins")).get(path(sync, "preview"))
    assert answer.headers["Location"] == f"/admin/syncs/preview/{sync.previews.get().pk}/change/"


def test_a_sync_that_is_none_is_not_found(sync: Sync, root: Client) -> None:
    for number in ("999999", "9" * 40, "x"):
        assert root.get(f"/admin/syncs/sync/{number}/pause/").status_code == 404


def test_the_page_says_how_it_is(sync: Sync, root: Client) -> None:
    html = root.get(f"/admin/syncs/sync/{sync.pk}/change/").content.decode()
    assert "Running on time." in html
    assert "Held under fencing number 1" in html
    assert f"/admin/syncs/delivery/?sync={sync.pk}" in html
