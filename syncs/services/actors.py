"""Who acts, and what they may do (PRODUCT 10.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.utils.translation import gettext as _

from syncs.errors import PermissionMissing
from syncs.models import AuditEntry, Membership, Workspace
from syncs.models.workspaces import Role

if TYPE_CHECKING:
    from datetime import datetime

    from django.contrib.auth.models import User


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, or Vigil itself (``user`` None): an operator at a shell acts as Vigil and is named so."""

    user: User | None
    label: str

    def require(self, workspace: Workspace, role: Role) -> None:
        """Raises PermissionMissing unless this actor has ``role`` in ``workspace``. Staff admins have every role.

        Whoever looks at a workspace as its merchant changes nothing meanwhile, not even what their own role allows.
        """
        if getattr(self.user, "viewing", None) is not None:
            raise PermissionMissing(
                _("You are viewing as the merchant, so nothing can be changed. Stop viewing first.")
            )
        if self.user is None or (self.user.is_active and self.user.is_superuser):
            return
        membership = Membership.objects.filter(workspace=workspace, user=self.user).first()
        if not self.user.is_active or membership is None or not membership.may(role):
            raise PermissionMissing(f"This needs the role {role.value} in {workspace}. Ask one of its publishers.")


def person(user: User) -> Actor:
    """The actor for somebody who is logged in."""
    return Actor(user, user.get_username())


def vigil(label: str = "Vigil") -> Actor:
    """Vigil itself, or an operator at a shell."""
    return Actor(None, label)


def database_now() -> datetime:
    """The database's clock, which decides between machines (PRODUCT 3.1)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT vigil_now()")
        row = cursor.fetchone()
    now: datetime = row[0]
    return now


def audit(
    actor: Actor,
    action: str,
    subject: object,
    *,
    workspace: Workspace | None,
    before: Any = None,
    after: Any = None,
    reason: str = "",
) -> None:
    """Write down who did what, in the caller's transaction. Never a secret, an address or a payload."""
    AuditEntry.objects.create(
        workspace=workspace,
        actor=actor.user,
        actor_label=actor.label,
        action=action,
        subject=str(subject)[:200],
        before=before,
        after=after,
        reason=reason[:300],
        at=database_now(),
    )
