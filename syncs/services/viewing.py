"""Staff look at a workspace as its merchant sees it (UX, S3): reading only, for a while, and the merchant sees that."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.db import transaction
from django.utils.translation import gettext as _

from syncs.errors import PermissionMissing
from syncs.models import Workspace
from syncs.services.actors import Actor, audit, database_now

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PERMISSION: Final = "syncs.view_as_merchant"
VIEWED: Final = "workspace.viewed"
LASTS: Final = timedelta(minutes=60)
"""How long a view goes on when nobody ends it."""


def view_as_allowed(user: User) -> bool:
    """Whether ``user`` may look at a workspace as its merchant: staff with the permission, and superusers."""
    return user.is_active and (user.is_staff or user.is_superuser) and user.has_perm(PERMISSION)


@transaction.atomic
def view_as_start(actor: Actor, workspace: Workspace, reason: str) -> datetime:
    """Begin to look; until when. It is in the workspace's activity before the first page is shown.

    Raises PermissionMissing.
    """
    if actor.user is None or not view_as_allowed(actor.user):
        raise PermissionMissing(_("Looking at a workspace as its merchant needs its own permission. Ask an admin."))
    until = database_now() + LASTS
    audit(actor, VIEWED, workspace, workspace=workspace, after={"until": until.isoformat()}, reason=reason)
    return until
