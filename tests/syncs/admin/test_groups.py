"""Staff by Django's groups: what each may see and do, neither link nor page of anything else (PRODUCT 10.1)."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from syncs import services
from syncs.models import AuditEntry, Connection, Delivery, Finding, Membership, Run, Sync, Workspace
from syncs.models.workspaces import Role
from tests import factories
from tests.syncs.admin.cast import OURS, browser, of_group, url

migration: Any = importlib.import_module("syncs.migrations.0007_staff")
GROUPS = ("Vigil viewers", "Vigil operators", "Vigil support", "Vigil admins")
ACTS = ("run", "pause", "cancel", "unlock", "make-preview")


@pytest.fixture(autouse=True)
def _groups(db: None) -> None:
    """As the migration makes them, also after a test that emptied every table."""
    migration.make_groups(apps, None)


def test_the_groups_are_there_and_named() -> None:
    assert set(Group.objects.filter(name__startswith="Vigil").values_list("name", flat=True)) == set(GROUPS)


def test_every_permission_of_a_group_is_one_that_django_knows() -> None:
    """A misspelt one would be made by the migration and mean nothing."""
    known = {f"{verb}_{model._meta.model_name}" for model in apps.get_models() for verb in ("add", "change", "view")}
    known |= {name for model in OURS for name, _text in model._meta.permissions}
    given = Permission.objects.filter(group__name__in=GROUPS)
    assert {one.codename for one in given} - known == set()
    assert {one.content_type.app_label for one in given} == {"syncs", "auth"}


def test_what_somebody_changed_in_a_group_stays() -> None:
    group = Group.objects.get(name="Vigil viewers")
    group.permissions.clear()
    migration.make_groups(apps, None)
    assert group.permissions.count() == 0


@pytest.mark.parametrize(
    ("group", "role"),
    [
        ("Vigil viewers", Role.VIEWER),
        ("Vigil operators", Role.OPERATOR),
        ("Vigil support", Role.VIEWER),
        ("Vigil admins", Role.PUBLISHER),
    ],
)
def test_a_group_gives_exactly_this_role_in_every_workspace(group: str, role: Role) -> None:
    person = of_group(group)
    ranked = list(Role)
    assert [services.staff_may(person, one) for one in ranked] == [
        ranked.index(one) <= ranked.index(role) for one in ranked
    ]
    assert person.has_perm("syncs.view_as_merchant") is (group in ("Vigil support", "Vigil admins"))


@pytest.mark.parametrize("group", GROUPS)
def test_no_group_lets_anybody_make_somebody_mightier(sync: Sync, group: str) -> None:
    person = of_group(group)
    client = browser(person)
    for codename in ("add_group", "change_group", "delete_user", "add_permission", "change_permission"):
        assert not person.has_perm(f"auth.{codename}")
    client.post(url(User, "change", person.pk), {"username": "x", "is_superuser": "on", "is_staff": "on"})
    person.refresh_from_db()
    assert (person.is_superuser, [one.name for one in person.groups.all()]) == (False, [group])


@pytest.mark.parametrize("group", GROUPS)
def test_neither_link_nor_page_without_the_permission(sync: Sync, group: str) -> None:
    person = of_group(group)
    client = browser(person)
    linked = client.get("/admin/").content.decode()
    for model in OURS:
        address, may = url(model, "changelist"), person.has_perm(f"syncs.view_{model._meta.model_name}")
        expected = 200 if may else 403
        assert client.get(address).status_code == expected
        assert client.get(url(model, "change", model.objects.first().pk)).status_code == expected
        assert (f'href="{address}"' in linked) is may


def buttons(client: Client, sync: Sync) -> set[str]:
    html = client.get(url(Sync, "change", sync.pk)).content.decode()
    return {act for act in ACTS if f"/admin/syncs/sync/{sync.pk}/{act}/" in html}


def test_buttons_are_there_for_who_may_press_them_while_they_can_do_something(sync: Sync) -> None:
    assert buttons(browser(of_group("Vigil viewers")), sync) == set()
    assert buttons(browser(of_group("Vigil support")), sync) == set()
    assert buttons(browser(of_group("Vigil operators")), sync) == {"run", "pause"}
    admins = browser(of_group("Vigil admins"))
    assert buttons(admins, sync) == {"run", "pause", "make-preview"}
    factories.open_run(sync, created=factories.NOW)
    assert buttons(admins, sync) == {"run", "pause", "cancel", "make-preview"}


def counted() -> list[int]:
    return [model.objects.count() for model in (AuditEntry, Run, Membership, Workspace, Connection, Finding, Delivery)]


@pytest.mark.parametrize("group", ["Vigil viewers", "Vigil support"])
def test_who_only_looks_changes_nothing_by_address_either(sync: Sync, group: str) -> None:
    client, before = browser(of_group(group)), (counted(), Sync.objects.values().get())
    for act in ACTS:
        path = f"/admin/syncs/sync/{sync.pk}/{act}/"
        assert client.get(path).status_code == 403
        assert client.post(path, {"confirmed": "yes", "reason": "x"}).status_code == 403
    assert client.get("/admin/syncs/workspace/pauses/").status_code == 403
    chosen = {"action": "pause_all", "_selected_action": [sync.workspace_id], "confirmed": "yes", "reason": "x"}
    client.post(url(Workspace, "changelist"), chosen)
    assert client.post(f"/admin/syncs/connection/{sync.source_id}/test/", {"confirmed": "yes"}).status_code == 403
    assert (
        client.post(f"/admin/syncs/preview/{sync.previews.get().pk}/publish/", {"confirmed": "yes"}).status_code == 403
    )
    assert (counted(), Sync.objects.values().get()) == before
