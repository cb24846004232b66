"""What does this person know of? Every page begins here (PRODUCT 10.1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import connection
from django.utils.translation import gettext as _

from syncs.errors import NotFound
from syncs.models import Membership, Preview, Run, Sync, Workspace
from syncs.models.workspaces import RANK, Role

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NO_WORKSPACE = "There is no such workspace, or you are not a member of it. Ask one of its publishers to add you."
NO_SYNC = "There is no such sync in this workspace. Choose one from the workspace's list."
NO_RUN = "There is no such run in this workspace. Choose one from its sync's list."
NO_PREVIEW = "There is no such preview of this sync. Preview the draft again."


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace and what the person who looks may do there."""

    workspace: Workspace
    role: Role
    viewed_by: str = ""
    """The member of staff who looks at it as its merchant; "" for everybody else."""

    def may(self, role: Role) -> bool:
        """Whether the person's role includes ``role``."""
        return RANK[self.role] >= RANK[role]

    @property
    def may_operate(self) -> bool:
        return self.may(Role.OPERATOR)

    @property
    def may_edit(self) -> bool:
        return self.may(Role.EDITOR)

    @property
    def may_publish(self) -> bool:
        return self.may(Role.PUBLISHER)


@dataclass(frozen=True, slots=True)
class Viewing:
    """A member of staff looks at a workspace as its merchant sees it, until then (UX, S3)."""

    workspace: Workspace
    until: datetime
    by: str


def views_as(user: User, viewing: Viewing) -> None:
    """For this request ``user`` sees one workspace, as a viewer of it, and may change nothing."""
    user.viewing = viewing  # type: ignore[attr-defined]


def viewing_of(user: User) -> Viewing | None:
    """What `views_as` said of this very object."""
    found: Viewing | None = getattr(user, "viewing", None)
    return found


def viewed_place(viewing: Viewing) -> Place:
    """Less than any of the person's own roles: what the merchant's least member sees."""
    return Place(viewing.workspace, Role.VIEWER, viewed_by=viewing.by)


def now() -> datetime:
    """The database's clock: what pages measure ages by, since it wrote the times they show."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT vigil_now()")
        row = cursor.fetchone()
    at: datetime = row[0]
    return at


def workspaces_for(user: User) -> tuple[Place, ...]:
    """The workspaces a person belongs to, by name; all of them for a superuser, and one for whoever views as it."""
    if (viewing := viewing_of(user)) is not None:
        return (viewed_place(viewing),)
    if user.is_superuser:
        return tuple(Place(workspace, Role.PUBLISHER) for workspace in Workspace.objects.order_by("name", "pk"))
    memberships = Membership.objects.filter(user_id=user.pk).select_related("workspace")
    return tuple(Place(one.workspace, Role(one.role)) for one in memberships.order_by("workspace__name", "pk"))


def workspace_for(user: User, slug: str) -> Place:
    """One workspace. Raises NotFound for strangers, whether it exists or not."""
    if (viewing := viewing_of(user)) is not None:
        if viewing.workspace.slug != slug:
            raise NotFound(_("You are viewing another workspace as its merchant. Stop viewing it, then open this one."))
        return viewed_place(viewing)
    if user.is_superuser:
        workspace = Workspace.objects.filter(slug=slug).first()
        if workspace is not None:
            return Place(workspace, Role.PUBLISHER)
    member = Membership.objects.filter(user_id=user.pk, workspace__slug=slug).select_related("workspace").first()
    if member is None:
        raise NotFound(NO_WORKSPACE)
    return Place(member.workspace, Role(member.role))


def sync_for(user: User, slug: str, sync_id: int) -> Sync:
    """A sync of a workspace the person belongs to. Raises NotFound."""
    return place_of_sync(user, slug, sync_id)[1]


def place_of_sync(user: User, slug: str, sync_id: int) -> tuple[Place, Sync]:
    """The same with the person's place beside it. Raises NotFound."""
    place = workspace_for(user, slug)
    related = ("workspace", "source", "destination", "published", "draft_by", "schedule", "lease")
    sync = Sync.objects.select_related(*related).filter(workspace=place.workspace, pk=sync_id).first()
    if sync is None:
        raise NotFound(NO_SYNC)
    return place, sync


def run_for(user: User, slug: str, run_id: int) -> tuple[Place, Run]:
    """A run of a workspace the person belongs to. Raises NotFound."""
    place = workspace_for(user, slug)
    related = ("sync__workspace", "sync__source", "sync__destination", "sync__lease", "version", "started_by")
    run = Run.objects.select_related(*related, "occurrence").filter(sync__workspace=place.workspace, pk=run_id).first()
    if run is None:
        raise NotFound(NO_RUN)
    return place, run


def preview_for(user: User, slug: str, sync_id: int, preview_id: int) -> tuple[Place, Preview]:
    """A preview of a sync of a workspace the person belongs to. Raises NotFound."""
    place = workspace_for(user, slug)
    related = ("sync__workspace", "sync__source", "sync__destination", "sync__published", "sync__draft_by", "made_by")
    found = Preview.objects.select_related(*related).filter(pk=preview_id, sync_id=sync_id)
    preview = found.filter(sync__workspace=place.workspace).first()
    if preview is None:
        raise NotFound(NO_PREVIEW)
    return place, preview
