"""Staff view a workspace as its merchant: reading only, for an hour, in the merchant's sight (UX, S3 and section 6)."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from syncs import services
from syncs.errors import PermissionMissing
from syncs.models import AuditEntry, Sync, Workspace
from syncs.models.workspaces import Role
from syncs.services import viewing
from syncs.views import gates
from tests import factories

REASON = "They asked why a run was refused."


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def sync(db: None) -> Sync:
    factories.clock_stands_at()
    return factories.healthy()


def support(name: str = "grace") -> User:
    """Staff who may view as merchant, and nothing else."""
    person = factories.user(name, is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_as_merchant"))
    return person


def browser(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def viewer(sync: Sync, person: User | None = None) -> Client:
    client = browser(person or support())
    answer = client.post(f"/w/{sync.workspace.slug}/view-as/", {"reason": REASON})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/w/{sync.workspace.slug}/")
    return client


def home(sync: Sync) -> str:
    return f"/w/{sync.workspace.slug}/"


def page(sync: Sync) -> str:
    return f"{home(sync)}syncs/{sync.pk}/"


def state() -> tuple[Any, ...]:
    return (AuditEntry.objects.count(), *Sync.objects.order_by("pk").values_list("state", "draft_revision"))


def test_the_merchants_own_pages_are_shown_with_a_banner_that_names_the_member_of_staff(sync: Sync) -> None:
    client = viewer(sync)
    for path in (home(sync), page(sync), f"{home(sync)}runs/{sync.runs.get().pk}/", f"{home(sync)}activity/"):
        answer = client.get(path)
        text = answer.content.decode()
        assert answer.status_code == 200
        assert "You are viewing ACME as the merchant sees it. Nothing can be changed." in text
        assert "This view is in their activity log." in text
        assert "Viewed by grace, at most until 13:05 UTC." in text


def test_the_merchant_reads_who_looked_and_why(sync: Sync) -> None:
    viewer(sync)
    entry = AuditEntry.objects.get(action="workspace.viewed")
    assert (entry.workspace, entry.actor_label, entry.reason) == (sync.workspace, "grace", REASON)
    merchant = browser(factories.member(sync.workspace))
    text = merchant.get(f"{home(sync)}activity/").content.decode()
    assert "grace" in text and REASON in text


def test_others_see_no_banner(sync: Sync) -> None:
    viewer(sync)
    assert 'id="viewing"' not in browser(factories.member(sync.workspace)).get(home(sync)).content.decode()


def test_nothing_can_be_changed_by_anybody_who_views(sync: Sync) -> None:
    """A superuser and a publisher of the workspace view with less than they have."""
    publisher = support("pia")
    services.member_add(services.vigil(), sync.workspace, publisher, Role.PUBLISHER)
    acts = {
        "run/": {},
        "pause/": {"reason": "No."},
        "draft/": factories.posted_draft(sync, list_id="13"),
        "publish/": {},
    }
    for person in (support(), publisher, factories.superuser("root")):
        client = viewer(sync, person)
        before = state()
        for act, posted in acts.items():
            answer = client.post(page(sync) + act, posted)
            assert answer.status_code == 403
            assert "You are viewing ACME as its merchant, so nothing can be changed." in answer.content.decode()
        for method in (client.put, client.patch, client.delete):
            assert method(page(sync)).status_code == 403
        assert client.post("/account/second-factor/begin/").status_code == 403
        assert client.get(page(sync) + "draft/").status_code == 403
        assert state() == before


def test_no_service_acts_for_somebody_who_views(sync: Sync) -> None:
    """Were a page to forget, the service would not."""
    root = factories.superuser("root")
    client = viewer(sync, root)
    asked = client.get(page(sync)).wsgi_request
    with pytest.raises(PermissionMissing, match="viewing as the merchant"):
        services.sync_pause(services.person(asked.user), sync, reason="No.")  # type: ignore[arg-type]


def test_only_that_workspace_is_seen(sync: Sync) -> None:
    other = factories.healthy(factories.workspace("Other"))
    for person in (support(), factories.superuser("root"), factories.member(other.workspace, name="otto")):
        if person.username == "otto":
            person.is_staff = True
            person.save()
            person.user_permissions.add(Permission.objects.get(codename="view_as_merchant"))
        client = viewer(sync, person)
        assert client.get(home(other)).status_code == 404
        assert client.get(page(other)).status_code == 404
        assert client.get("/").headers["Location"] == home(sync)


def test_a_button_ends_it(sync: Sync) -> None:
    client = viewer(sync)
    answer = client.post("/viewing/stop/")
    assert answer.headers["Location"] == f"/admin/syncs/workspace/{sync.workspace.pk}/change/"
    assert client.get(home(sync)).status_code == 404
    assert client.post("/viewing/stop/").status_code == 404


def test_logging_out_ends_it(sync: Sync) -> None:
    person = support()
    client = viewer(sync, person)
    assert client.post("/logout/").status_code == 302
    client.force_login(person)
    assert client.get(home(sync)).status_code == 404


def test_it_ends_by_itself_after_an_hour(sync: Sync) -> None:
    client = viewer(sync)
    factories.clock_stands_at(factories.NOW + viewing.LASTS - timedelta(seconds=5))
    assert client.get(home(sync)).status_code == 200
    factories.clock_stands_at(factories.NOW + viewing.LASTS + timedelta(seconds=5))
    assert client.get(home(sync)).status_code == 404
    assert gates.VIEW not in client.session


def test_it_ends_when_the_permission_is_taken_away(sync: Sync) -> None:
    person = support()
    client = viewer(sync, person)
    person.user_permissions.clear()
    assert client.get(home(sync)).status_code == 404


def test_another_browser_of_the_same_person_views_nothing(sync: Sync) -> None:
    person = support()
    viewer(sync, person)
    assert browser(person).get(home(sync)).status_code == 404


def test_in_the_admin_staff_are_themselves(sync: Sync) -> None:
    client = viewer(sync, factories.superuser("root"))
    assert client.get("/admin/").status_code == 200
    asked = client.get("/admin/").wsgi_request
    assert getattr(asked.user, "viewing", None) is None


def test_one_view_goes_over_into_another(sync: Sync) -> None:
    other = factories.healthy(factories.workspace("Other"))
    client = viewer(sync)
    client.post(f"{home(other)}view-as/", {"reason": REASON})
    assert "You are viewing Other as the merchant" in client.get(home(other)).content.decode()
    assert client.get(home(sync)).status_code == 404
    assert AuditEntry.objects.filter(action="workspace.viewed").count() == 2


def test_without_a_reason_it_does_not_begin(sync: Sync) -> None:
    client = browser(support())
    answer = client.post(f"{home(sync)}view-as/", {"reason": " "})
    assert (answer.status_code, "Say why you view as merchant" in answer.content.decode()) == (422, True)
    assert not AuditEntry.objects.filter(action="workspace.viewed").exists()
    assert client.get(home(sync)).status_code == 404


def test_a_get_begins_nothing(sync: Sync) -> None:
    assert browser(support()).get(f"{home(sync)}view-as/").status_code == 405


def test_who_may_not_view_learns_nothing(sync: Sync) -> None:
    """Staff without the permission, somebody with it who is no staff, a stranger, a member."""
    no_staff = support("nick")
    no_staff.is_staff = False
    no_staff.save()
    cast = (
        (factories.user("clerk", is_staff=True), 404),
        (no_staff, 404),
        (factories.user("stranger"), 404),
        (factories.member(sync.workspace, Role.PUBLISHER), 403),
    )
    for person, status in cast:
        client = browser(person)
        before = state()
        assert client.post(f"{home(sync)}view-as/", {"reason": REASON}).status_code == status
        assert state() == before
        assert gates.VIEW not in client.session
    assert browser(support("greta")).post("/w/no-such-place/view-as/", {"reason": REASON}).status_code == 404


def test_staff_who_do_not_view_are_strangers_as_before(sync: Sync) -> None:
    assert browser(support()).get(home(sync)).status_code == 404


def test_the_admins_page_has_the_button_for_who_may(sync: Sync) -> None:
    person = support()
    person.user_permissions.add(Permission.objects.get(codename="view_workspace"))
    text = browser(person).get(f"/admin/syncs/workspace/{sync.workspace.pk}/change/").content.decode()
    assert f'action="{home(sync)}view-as/"' in text


def test_a_workspace_that_is_gone_is_not_viewed(sync: Sync) -> None:
    place = factories.workspace("Gone")
    client = browser(support())
    client.post(f"/w/{place.slug}/view-as/", {"reason": REASON})
    Workspace.objects.filter(pk=place.pk).delete()
    assert client.get(f"/w/{place.slug}/").status_code == 404


def test_the_end_is_named_when_it_begins(sync: Sync) -> None:
    until = services.view_as_start(services.person(support()), sync.workspace, REASON)
    assert abs(until - (factories.NOW + viewing.LASTS)) < timedelta(seconds=30)
    entry = AuditEntry.objects.get(action="workspace.viewed")
    assert datetime.fromisoformat(entry.after["until"]) == until
