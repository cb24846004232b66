"""Workspaces and their people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from syncs.models import Membership, Workspace
from syncs.models.workspaces import Role
from syncs.services.actors import Actor, audit

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@transaction.atomic
def workspace_create(actor: Actor, *, name: str, slug: str, zone: str = "UTC") -> Workspace:
    """A new workspace with its own key for address hashes."""
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
