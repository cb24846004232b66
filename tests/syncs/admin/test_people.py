"""Who comes in, who sees what, and that nobody makes anybody mightier."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from syncs.models import Connection, Finding, Sync
from tests import factories
from tests.syncs.admin.cast import browser, staff, url


def test_people_and_groups_wear_the_theme(sync: Sync, root: Client) -> None:
    for model in (User, Group):
        assert type(admin.site._registry[model]).__module__ == "syncs.admin.people"
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
