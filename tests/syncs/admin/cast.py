"""What the admin's tests share: whose browser it is, which tables are ours, how a page is addressed."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from syncs.models import Membership, Workspace
from tests import factories

OURS = list(apps.get_app_config("syncs").get_models())
SERVED = {Workspace, Membership}
SECRET = "shpat_staff_must_never_see_this"


def browser(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def staff(*permissions: str, name: str = "staff") -> User:
    """Somebody of the staff with exactly these permissions."""
    person = factories.user(name, is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return person


def of_group(name: str) -> User:
    """Somebody of the staff in exactly this group."""
    person = factories.user(name.replace(" ", "-").lower(), is_staff=True)
    person.groups.set([Group.objects.get(name=name)])
    return person


def url(model: Any, page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)
