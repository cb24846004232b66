"""Workspaces and their people: made by services, paused together, resumed as they were."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from syncs.admin import workspaces
from syncs.models import AuditEntry, Membership, Sync, Workspace
from syncs.services import publishing
from tests import factories
from tests.factories import NOW
from tests.syncs.admin.cast import browser, of_group, staff, url


def test_a_workspace_is_made_by_its_service(sync: Sync, root: Client) -> None:
    answer = root.post(url(Workspace, "add"), {"name": "New shop", "slug": "new-shop", "zone": "Asia/Kolkata"})
    assert answer.status_code == 302
    made = Workspace.objects.get(slug="new-shop")
    assert len(made.address_secret()) == 32
    written = AuditEntry.objects.get(action="workspace.created")
    assert (written.actor_label, written.workspace) == ("root", made)


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", ""])
def test_a_zone_that_is_none_is_told(sync: Sync, root: Client, zone: str) -> None:
    answer = root.post(url(Workspace, "add"), {"name": "New", "slug": "new", "zone": zone})
    assert answer.status_code == 200
    assert not Workspace.objects.filter(slug="new").exists()


def test_a_workspace_stays_as_it_is(sync: Sync, root: Client) -> None:
    answer = root.post(url(Workspace, "change", sync.workspace.pk), {"name": "x", "slug": "x", "zone": "UTC"})
    assert answer.status_code == 403
    sync.workspace.refresh_from_db()
    assert sync.workspace.name == "ACME"


def test_the_list_of_workspaces_counts_syncs_and_open_findings(sync: Sync, root: Client) -> None:
    factories.sync(sync.workspace)
    factories.finding(sync, "version_drift", resolved_at=NOW)
    with CaptureQueriesContext(connection):
        row = admin.site._registry[Workspace].get_queryset(root.get(url(Workspace, "changelist")).wsgi_request).get()
    assert (row.number_of_syncs, row.number_of_findings) == (2, 1)


def test_a_membership_is_made_and_changed_by_its_service(sync: Sync, root: Client) -> None:
    person = factories.user("bo")
    posted = {"workspace": sync.workspace.pk, "user": person.pk, "role": "viewer"}
    assert root.post(url(Membership, "add"), posted).status_code == 302
    made = Membership.objects.get(user=person)
    assert root.post(url(Membership, "change", made.pk), {"role": "publisher"}).status_code == 302
    made.refresh_from_db()
    assert made.role == "publisher"
    added = AuditEntry.objects.filter(action="member.added", subject="bo").order_by("pk")
    assert [(entry.actor_label, entry.after) for entry in added] == [
        ("root", {"role": "viewer"}),
        ("root", {"role": "publisher"}),
    ]


def test_what_a_service_refuses_is_told_and_not_done(sync: Sync) -> None:
    """Django's permission opens the form; the workspace's own role decides."""
    client = browser(staff("add_membership", "view_membership", "view_user", "view_workspace"))
    person = factories.user("bo")
    posted = {"workspace": sync.workspace.pk, "user": person.pk, "role": "publisher"}
    answer = client.post(url(Membership, "add"), posted, follow=True)
    assert "This needs the role publisher in ACME. Ask one of its publishers." in answer.content.decode()
    assert not Membership.objects.filter(user=person).exists()


# --- Many at once ----------------------------------------------------------------------------------------------------
def posted(*workspaces: Workspace, **more: Any) -> dict[str, Any]:
    return {"action": "pause_all", "_selected_action": [one.pk for one in workspaces], **more}


def test_pausing_many_shows_the_count_and_wants_a_reason_first(sync: Sync, root: Client) -> None:
    other = factories.healthy(factories.workspace("Other"))
    factories.sync(other.workspace)
    address = url(Workspace, "changelist")
    html = root.post(address, posted(sync.workspace, other.workspace)).content.decode()
    assert "2 syncs run now and will be paused. 1 sync stands still already and stays as it is." in html
    assert "Pause 2 syncs" in html
    refused = root.post(address, posted(sync.workspace, other.workspace, confirmed="yes", reason="  "))
    assert refused.status_code == 422
    assert set(Sync.objects.values_list("state", flat=True)) == {"published", "draft"}
    done = root.post(address, posted(sync.workspace, other.workspace, confirmed="yes", reason="Moves."), follow=True)
    assert "2 syncs are paused." in done.content.decode()
    assert set(Sync.objects.values_list("state", flat=True)) == {"paused", "draft"}
    entry = AuditEntry.objects.get(action="workspaces.paused")
    assert (entry.actor_label, entry.subject, entry.reason) == ("root", "ACME, Other", "Moves.")


def test_where_nothing_runs_nothing_can_be_paused(sync: Sync, root: Client) -> None:
    Sync.objects.update(state="edited")
    answer = root.post(url(Workspace, "changelist"), posted(sync.workspace, confirmed="yes", reason="x"))
    assert "There is nothing to do here now." in answer.content.decode()
    assert not AuditEntry.objects.filter(action="workspaces.paused").exists()


def test_a_pause_is_lifted_by_publishing_again_what_it_stopped(
    sync: Sync, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "sync_preview", lambda actor, of: factories.preview(of, by=actor.user))
    root.post(url(Workspace, "changelist"), posted(sync.workspace, confirmed="yes", reason="Moves."))
    entry = AuditEntry.objects.get(action="workspaces.paused")
    listed = root.get("/admin/syncs/workspace/pauses/").content.decode()
    assert "1 sync still stands still by it." in listed
    address = f"/admin/syncs/workspace/pauses/?pause={entry.pk}"
    asked = root.get(address).content.decode()
    assert "A paused sync goes on only when it is published again." in asked
    assert "Publish 1 sync again" in asked
    done = root.post(address, {"confirmed": "yes", "reason": "Moved."}, follow=True).content.decode()
    assert "1 sync is published again." in done
    sync.refresh_from_db()
    assert (sync.state, sync.versions.count()) == ("published", 2)


@pytest.mark.parametrize("number", ["0", "x", "9" * 30, "1"])
def test_a_pause_that_is_none_is_not_found(sync: Sync, root: Client, number: str) -> None:
    assert root.get("/admin/syncs/workspace/pauses/", {"pause": number}).status_code == 404


def test_who_may_only_operate_sees_pauses_and_lifts_none(sync: Sync) -> None:
    client = browser(of_group("Vigil operators"))
    client.post(url(Workspace, "changelist"), posted(sync.workspace, confirmed="yes", reason="Moves."))
    entry = AuditEntry.objects.get(action="workspaces.paused")
    assert (
        "Publishing again needs somebody who may publish."
        in client.get("/admin/syncs/workspace/pauses/").content.decode()
    )
    address = f"/admin/syncs/workspace/pauses/?pause={entry.pk}"
    assert client.post(address, {"confirmed": "yes", "reason": "x"}).status_code == 403
    sync.refresh_from_db()
    assert sync.state == "paused"


# --- The list and the page -------------------------------------------------------------------------------------------
def listed(root: Client, **asked: str) -> set[str]:
    html = root.get(url(Workspace, "changelist"), asked).content.decode()
    return {one.name for one in Workspace.objects.all() if f">{one.name}</a>" in html}


def test_workspaces_are_found_by_health_and_by_the_account_of_a_shop(sync: Sync, root: Client) -> None:
    other = factories.healthy(factories.workspace("Other"))
    Sync.objects.filter(pk=other.pk).update(state="paused", paused_at=NOW)
    other.source.options, other.source.label = {"domain": "other-shop.myshopify.com"}, "The other shop"
    other.source.save()
    assert listed(root) == {"ACME", "Other"}
    assert (listed(root, health="paused"), listed(root, health="healthy")) == ({"Other"}, {"ACME"})
    assert listed(root, health="silent") == set()
    assert listed(root, q="other-shop") == listed(root, q="the other") == {"Other"}
    assert listed(root, q="acme") == {"ACME"}


def test_a_workspaces_page_shows_its_health_people_and_activity(sync: Sync, root: Client) -> None:
    factories.audit(sync, reason="Because.")
    html = root.get(url(Workspace, "change", sync.workspace.pk)).content.decode()
    for said in ("Healthy", "Running on time.", "ada: editor", "published, Customers to newsletter", "(Because.)"):
        assert said in html
    assert sync.source.name in html


def test_the_view_as_the_merchant_is_offered_to_who_may_and_where_it_exists(
    sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, offer = url(Workspace, "change", sync.workspace.pk), 'action="/view-as/"'
    monkeypatch.setattr(workspaces, "_view_as", lambda row: "/view-as/")
    assert offer in browser(of_group("Vigil support")).get(address).content.decode()
    assert offer not in browser(of_group("Vigil viewers")).get(address).content.decode()
    monkeypatch.setattr(workspaces, "_view_as", lambda row: "")
    other = factories.user("more", is_staff=True)
    other.groups.set(Group.objects.filter(name="Vigil support"))
    assert "View as merchant" not in browser(other).get(address).content.decode()
