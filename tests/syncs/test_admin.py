"""What staff see and do: everything read-only but what a service can do, no secret anywhere, no count of the ledger."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from syncs.domain.lifecycle import DeliveryState
from syncs.models import (
    AuditEntry,
    Connection,
    Coverage,
    Delivery,
    Finding,
    Membership,
    Schedule,
    Suppression,
    Sync,
    Workspace,
)
from syncs.models.workspaces import Role
from tests import factories
from tests.factories import NOW

ROOT = Path(__file__).resolve().parents[2]
OURS = list(apps.get_app_config("syncs").get_models())
SERVED = {Workspace, Membership}
SECRET = "shpat_staff_must_never_see_this"


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def sync(db: None) -> Sync:
    """One row of every table."""
    factories.clock_stands_at()
    place = factories.workspace()
    made = factories.healthy(place, source=factories.connection(place, secrets={"token": SECRET}))
    run = made.runs.get()
    factories.attempt(run)
    factories.occurrence(run, NOW)
    factories.lease(run)
    factories.preview(made)
    factories.delivery(run, "contact:1001", DeliveryState.REFUSED, code="no_date")
    factories.delivery(run, "contact:1002")
    factories.tombstone(made, "contact:1002")
    factories.cursor(made)
    factories.finding(made)
    factories.audit(made)
    factories.member(place, Role.EDITOR, "ada")
    Suppression.objects.create(workspace=place, address_key="f" * 64, reason="redacted", seen_at=NOW)
    Coverage.objects.create(sync=made, lane="scheduled", run=run, until=NOW, records=250, proved_at=NOW)
    return made


def browser(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def root(db: None) -> Client:
    return browser(factories.superuser("root"))


def staff(*permissions: str) -> User:
    person = factories.user("staff", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return person


def url(model: Any, page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


# --- Every table ------------------------------------------------------------------------------------------------------
def test_every_table_of_ours_is_shown() -> None:
    assert set(OURS) <= set(admin.site._registry)


@pytest.mark.parametrize("model", OURS)
def test_lists_and_rows_open_and_hold_no_secret(sync: Sync, root: Client, model: Any) -> None:
    row = model.objects.first()
    assert row is not None
    for address in (url(model, "changelist"), url(model, "changelist") + "?q=1001", url(model, "change", row.pk)):
        answer = root.get(address)
        html = answer.content.decode()
        assert answer.status_code == 200, address
        assert SECRET not in html
        assert "sealed" not in html.lower()
        assert Connection.objects.first().fingerprint not in html


@pytest.mark.parametrize("model", [model for model in OURS if model not in SERVED])
def test_what_has_no_service_is_read_only(sync: Sync, root: Client, model: Any) -> None:
    row = model.objects.first()
    before = list(model.objects.values())
    assert root.get(url(model, "add")).status_code == 403
    assert root.post(url(model, "add"), {}).status_code == 403
    assert root.post(url(model, "change", row.pk), {"name": "mine", "state": "published"}).status_code == 403
    assert root.get(url(model, "delete", row.pk)).status_code == 403
    assert root.post(url(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert root.post(url(model, "changelist"), chosen).status_code != 500
    assert list(model.objects.values()) == before


@pytest.mark.parametrize("model", sorted(SERVED, key=lambda model: model.__name__))
def test_nothing_is_deleted_here(sync: Sync, root: Client, model: Any) -> None:
    row = model.objects.first()
    assert root.post(url(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("model", OURS)
def test_a_list_takes_as_many_queries_for_many_rows_as_for_one(sync: Sync, root: Client, model: Any) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            root.get(url(model, "changelist"))
        return len(queries)

    asked()
    for_one = asked()
    for number in range(3):
        other = factories.healthy(factories.workspace(f"Other {number}"))
        run = other.runs.get()
        factories.attempt(run)
        factories.occurrence(run, NOW)
        factories.lease(run)
        factories.preview(other)
        factories.delivery(run, f"contact:{number}")
        factories.tombstone(other, "contact:1")
        factories.cursor(other)
        factories.finding(other)
        factories.audit(other)
        factories.member(other.workspace)
        Suppression.objects.create(workspace=other.workspace, address_key="f" * 64, reason="redacted", seen_at=NOW)
        Coverage.objects.create(sync=other, lane="scheduled", run=run, until=NOW, records=1, proved_at=NOW)
    assert asked() == for_one


# --- The ledger -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["delivery", "tombstone", "run", "auditentry", "occurrence", "suppression"])
def test_big_tables_are_never_counted(sync: Sync, root: Client, name: str) -> None:
    address = reverse(f"admin:syncs_{name}_changelist")
    with CaptureQueriesContext(connection) as queries:
        assert root.get(address).status_code == 200
        assert root.get(address + "?q=contact:1001").status_code == 200
    assert not [one["sql"] for one in queries if "count(" in one["sql"].lower()]


@pytest.mark.parametrize(
    ("term", "found"),
    [("1001", ["contact:1001"]), ("contact:1002", ["contact:1002"]), ("contact:100", []), ("nobody", [])],
)
def test_the_ledger_is_searched_by_record(sync: Sync, root: Client, term: str, found: list[str]) -> None:
    html = root.get(url(Delivery, "changelist"), {"q": term}).content.decode()
    assert [name for name in ("contact:1001", "contact:1002") if f">{name}</a>" in html] == found


def test_a_written_effect_is_found_by_the_beginning_of_its_key(sync: Sync, root: Client) -> None:
    key = Delivery.objects.get(object="contact:1002").effect_key
    html = root.get(url(Delivery, "changelist"), {"q": key[:12]}).content.decode()
    assert ">contact:1002</a>" in html
    assert ">contact:1001</a>" not in html


@pytest.mark.parametrize("term", ["contact:1001", "1001", "abcdef0123456789"])
def test_a_search_of_the_ledger_is_answered_by_an_index(sync: Sync, root: Client, term: str) -> None:
    """On a table that is worth an index; the small one of a test is read whole, and rightly."""
    with CaptureQueriesContext(connection) as queries:
        root.get(url(Delivery, "changelist"), {"q": term})
    statement = next(one["sql"] for one in queries if 'FROM "syncs_delivery"' in one["sql"])
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = on")
        cursor.execute(f"EXPLAIN {statement.replace('%', '%%')}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Seq Scan on syncs_delivery" not in plan
    assert "delivery_by_object" in plan or "delivery_written_once" in plan, plan


# --- What staff may make ----------------------------------------------------------------------------------------------
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


# --- People -----------------------------------------------------------------------------------------------------------
def test_people_and_groups_wear_the_theme(sync: Sync, root: Client) -> None:
    for model in (User, Group):
        assert type(admin.site._registry[model]).__module__ == "syncs.admin"
        assert root.get(url(model, "changelist")).status_code == 200
    assert root.get(url(User, "add")).status_code == 200


def test_members_and_strangers_do_not_come_in(sync: Sync) -> None:
    for person in (User.objects.get(username="ada"), factories.user("stranger")):
        assert browser(person).get("/admin/").status_code == 302
    assert Client().get("/admin/").status_code == 302


def test_staff_see_what_their_permissions_name(sync: Sync) -> None:
    client = browser(staff("view_sync"))
    assert client.get(url(Sync, "changelist")).status_code == 200
    assert client.get(url(Connection, "changelist")).status_code == 403
    assert client.get(url(Finding, "change", Finding.objects.get().pk)).status_code == 403


def test_staff_make_nobody_mightier(sync: Sync) -> None:
    person = staff("change_user", "view_user")
    client = browser(person)
    posted = {"username": "staff", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    client.post(url(User, "change", person.pk), posted)
    person.refresh_from_db()
    assert not person.is_superuser
    mighty = factories.superuser("mighty")
    before = mighty.password
    assert client.post(url(User, "change", mighty.pk), {"username": "mine"}).status_code == 403
    new = {"password1": "another good phrase", "password2": "another good phrase"}
    client.post(reverse("admin:auth_user_password_change", args=[mighty.pk]), new)
    mighty.refresh_from_db()
    assert (mighty.username, mighty.password) == ("mighty", before)


# --- Ways to the merchant's pages -------------------------------------------------------------------------------------
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


# --- The queue, times, settings ---------------------------------------------------------------------------------------
def test_nothing_here_unpickles_a_task() -> None:
    """Pickles are code: the queue's own pages are closed."""
    assert not [model for model in admin.site._registry if model._meta.app_label == "django_q"]


def test_times_are_the_workspaces_here_too(sync: Sync, root: Client) -> None:
    """Case UI-01: the same instant reads the same for staff and for the merchant."""
    Schedule.objects.update(next_for="2026-10-25T00:30:00Z")
    for address in (url(Schedule, "changelist"), url(Schedule, "change", Schedule.objects.get().pk)):
        html = root.get(address).content.decode()
        assert "25 Oct 2026 02:30 CEST</time>" in html
        assert 'title="2026-10-25 00:30:00 UTC"' in html


def test_the_admin_has_a_policy_of_its_own(sync: Sync, root: Client) -> None:
    policy = root.get("/admin/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy


@pytest.mark.parametrize(("arguments", "environment"), [([], "test"), (["--deploy"], "production")])
def test_the_checks_are_clean(arguments: list[str], environment: str, django_db_blocker: Any) -> None:
    """In production with its keys set there is no warning left."""
    keys = {
        "VIGIL_ENV": environment,
        "SECRET_KEY": "a-long-and-random-looking-key-0123456789-abcdefghijklmnopqrstuvwxyz",
        "VIGIL_CREDENTIAL_KEYS": "one:" + "ab" * 32,
        "VIGIL_EFFECT_KEY": "cd" * 32,
        "ALLOWED_HOSTS": "vigil.example",
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", *arguments],
        cwd=ROOT,
        env={**os.environ, **keys},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "System check identified no issues (0 silenced).")
    assert done.stderr == ""
