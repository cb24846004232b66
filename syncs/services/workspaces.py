"""Workspaces and their people."""

from __future__ import annotations

import zoneinfo
from typing import TYPE_CHECKING

from django.db import transaction

from syncs.errors import NameTaken, ZoneUnknown
from syncs.models import Membership, Workspace
from syncs.models.workspaces import Role
from syncs.services.actors import Actor, audit

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@transaction.atomic
def workspace_create(actor: Actor, *, name: str, slug: str, zone: str = "UTC") -> Workspace:
    """A new workspace with its own key for address hashes. Raises NameTaken, or ZoneUnknown for no IANA time zone."""
    if zone not in zoneinfo.available_timezones():
        raise ZoneUnknown(f"There is no time zone '{zone}': name one such as Europe/Berlin.")
    if Workspace.objects.filter(slug=slug).exists():
        raise NameTaken(f"There is a workspace '{slug}' already: choose another name for its address.")
    workspace = Workspace.objects.create(name=name, slug=slug, zone=zone)
    audit(actor, "workspace.created", workspace, workspace=workspace, after={"slug": slug, "zone": zone})
    return workspace


@transaction.atomic
def member_add(actor: Actor, workspace: Workspace, user: User, role: Role) -> Membership:
    """Give ``user`` a role in ``workspace``, or another one."""
    actor.require(workspace, Role.PUBLISHER)
    membership, _ = Membership.objects.update_or_create(workspace=workspace, user=user, defaults={"role": role.value})
    audit(actor, "member.added", user.get_username(), workspace=workspace, after={"role": role.value})
    return membership
