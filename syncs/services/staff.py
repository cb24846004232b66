"""What staff do across workspaces: act by their groups' permissions, pause many syncs at once, let them go on.

A sync that stands still goes on only when somebody publishes it again (PRODUCT 4.3, 6.1). Letting a pause's syncs go on
is therefore a fresh preview and a publication of each: the same digest as before, or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from connectors import registry
from connectors.errors import Refused
from connectors.protocol import Identity
from syncs.domain import credential
from syncs.domain.clock import SystemClock
from syncs.domain.lifecycle import SyncState
from syncs.errors import NotFound, VigilError
from syncs.models import AuditEntry, Connection, Sync, Workspace
from syncs.models.workspaces import RANK, Role
from syncs.services import connections, outside, publishing
from syncs.services.actors import Actor, database_now

if TYPE_CHECKING:
    from django.contrib.auth.models import User

GRANTS: Final[Mapping[Role, str]] = {
    Role.VIEWER: "syncs.view_sync",
    Role.OPERATOR: "syncs.operate_sync",
    Role.EDITOR: "syncs.edit_sync",
    Role.PUBLISHER: "syncs.publish_sync",
}
"""The permission that gives staff a role in every workspace; each includes the roles before it (PRODUCT 10.1)."""

PAUSED_MANY: Final = "workspaces.paused"
RESUMED_MANY: Final = "workspaces.resumed"
RESUME_SECONDS: Final = 20.0
"""How long one request publishes again: each preview asks two other systems. What is left is asked for again."""


@dataclass(frozen=True, slots=True)
class StaffActor(Actor):
    """A member of staff who comes through the admin: what no membership gives, their groups may."""

    def require(self, workspace: Workspace, role: Role) -> None:
        if self.user is None or not self.user.is_staff or not staff_may(self.user, role):
            Actor.require(self, workspace, role)


def staff_member(user: User) -> StaffActor:
    """The actor for somebody in the admin."""
    return StaffActor(user, user.get_username())


def staff_may(user: User, role: Role) -> bool:
    """Whether a permission gives ``role`` in every workspace."""
    fitting = (permission for given, permission in GRANTS.items() if RANK[given] >= RANK[role])
    return user.is_active and any(user.has_perm(permission) for permission in fitting)


# --- Pausing many -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PausePlan:
    """What pausing workspaces would do: the syncs that run now, and how many stand still anyway."""

    syncs: tuple[Sync, ...]
    still: int


def workspaces_pause_plan(actor: Actor, workspaces: Collection[Workspace]) -> PausePlan:
    """Look before pausing. It changes nothing."""
    for workspace in workspaces:
        actor.require(workspace, Role.OPERATOR)
    found = Sync.objects.filter(workspace__in=workspaces).select_related("workspace").order_by("workspace__name", "pk")
    running = tuple(sync for sync in found if sync.state == SyncState.PUBLISHED)
    return PausePlan(running, len(found) - len(running))


@transaction.atomic
def workspaces_pause(actor: Actor, workspaces: Collection[Workspace], *, reason: str) -> AuditEntry:
    """Pause every sync of ``workspaces`` that runs. The audit entry remembers which, so that they can go on together.

    What stands still already, drafts and edited syncs included, is left as it is.
    """
    for workspace in workspaces:
        actor.require(workspace, Role.OPERATOR)
    running = Sync.objects.select_for_update(of=("self",), no_key=True).select_related("workspace")
    rows = running.filter(workspace__in=workspaces, state=SyncState.PUBLISHED.value).order_by("pk")
    paused = [publishing.sync_pause(actor, row, reason=reason) for row in rows]
    names = ", ".join(sorted(str(workspace) for workspace in workspaces))
    return _remember(actor, PAUSED_MANY, names, {"syncs": [_paused(sync) for sync in paused]}, reason)


def _remember(actor: Actor, action: str, subject: str, after: dict[str, Any], reason: str) -> AuditEntry:
    return AuditEntry.objects.create(
        actor=actor.user,
        actor_label=actor.label,
        action=action,
        subject=subject[:200],
        after=after,
        reason=reason[:300],
        at=database_now(),
    )


def _paused(sync: Sync) -> dict[str, Any]:
    """How this very pause is known again: the instant it began, by the database's clock."""
    at = sync.paused_at
    return {"sync": sync.pk, "at": at.isoformat() if at else "", "revision": sync.draft_revision}


# --- Letting them go on -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Stopped:
    """What a pause of many stopped: what stands still by it today, and how many syncs have changed since."""

    pause: AuditEntry
    syncs: tuple[Sync, ...]
    changed: int


def stopped_by(pause: AuditEntry) -> Stopped:
    """The syncs whose last pause is ``pause`` and whose draft is the one of then. Raises NotFound for another entry."""
    if pause.action != PAUSED_MANY or not isinstance(pause.after, dict):
        raise NotFound(_("There is no such pause. Choose one from the list of pauses."))
    then = {row["sync"]: row for row in pause.after["syncs"]}
    related = ("workspace", "published", "source", "destination")
    found = Sync.objects.filter(pk__in=list(then), state=SyncState.PAUSED.value).select_related(*related)
    still = tuple(sync for sync in found.order_by("workspace__name", "pk") if _paused(sync) == then[sync.pk])
    return Stopped(pause, still, len(then) - len(still))


@dataclass(frozen=True, slots=True)
class Resumed:
    """How it went with one sync: published again, or the sentence that says why not."""

    sync: Sync
    published: bool
    sentence: str


def workspaces_resume(actor: Actor, pause: AuditEntry, *, reason: str) -> tuple[Resumed, ...]:
    """Publish again exactly what ``pause`` stopped, each after a fresh preview of the same digest (PRODUCT 4.3, 6.2).

    Whose preview shows another digest, or may not be published, stays paused and says why. Raises PermissionMissing
    before anything is read where the actor may not publish.
    """
    stopped = stopped_by(pause)
    for sync in stopped.syncs:
        actor.require(sync.workspace, Role.PUBLISHER)
    clock = SystemClock()
    until = clock.monotonic() + RESUME_SECONDS
    done = tuple(
        _resume(actor, sync, reason) if clock.monotonic() < until else Resumed(sync, False, _left())
        for sync in stopped.syncs
    )
    went_on = [one.sync.pk for one in done if one.published]
    _remember(actor, RESUMED_MANY, pause.subject, {"pause": pause.pk, "syncs": went_on}, reason)
    return done


def _left() -> str:
    return _("Not tried yet: this took too long. Let the rest go on once more.")


def _resume(actor: Actor, sync: Sync, reason: str) -> Resumed:
    try:
        return _publish_again(actor, sync, reason)
    except VigilError as error:
        return Resumed(sync, False, error.sentence)


def _publish_again(actor: Actor, sync: Sync, reason: str) -> Resumed:
    preview = publishing.sync_preview(actor, sync)
    published = sync.published
    if preview.result.get("blocks"):
        return Resumed(sync, False, " ".join(str(block) for block in preview.result["blocks"]))
    if published is None or preview.digest != published.digest:
        said = _("The preview is not what was published: its rule or its connections changed. Publish it by hand.")
        return Resumed(sync, False, said)
    with transaction.atomic():
        locked = Sync.objects.select_for_update(of=("self",), no_key=True).get(pk=sync.pk)
        if (locked.state, locked.paused_at) != (SyncState.PAUSED, sync.paused_at):
            return Resumed(sync, False, _("Somebody else changed it meanwhile."))
        publishing.sync_publish(actor, sync, digest=preview.digest, reason=reason)
    return Resumed(sync, True, _("Published again."))


def pause_of(entry_id: int) -> AuditEntry:
    """A pause of many by its number. Raises NotFound."""
    found = AuditEntry.objects.filter(pk=entry_id, action=PAUSED_MANY).first()
    if found is None:
        raise NotFound(_("There is no such pause. Choose one from the list of pauses."))
    return found


def latest_pauses(most: int = 20) -> tuple[Stopped, ...]:
    """The newest pauses of many with what still stands by them."""
    # They belong to no workspace, and those entries are few: the index of workspaces finds them.
    found = AuditEntry.objects.filter(workspace=None, action=PAUSED_MANY).order_by("-at")[:most]
    return tuple(stopped_by(one) for one in found)


# --- Connections ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Checked:
    """What the vendor said of a credential: whose it is, the scopes given, wanted and missing, and those too many."""

    identity: Identity
    wanted: tuple[str, ...]
    missing: tuple[str, ...]
    too_many: tuple[str, ...]


def connection_check(actor: Actor, connection: Connection) -> Checked:
    """Test a connection and compare its scopes with what reading needs (PRODUCT 3.10). Raises ConnectorError."""
    try:
        identity = connections.connection_test(actor, connection)
    except registry.SettingsRefused as error:
        raise Refused(str(error)) from None
    given = set(identity.scopes)
    wanted = _wanted(connection)
    writing = set(credential.writing(given)) if wanted else set()
    return Checked(identity, *(tuple(sorted(one)) for one in (wanted, wanted - given, writing)))


def _wanted(connection: Connection) -> set[str]:
    """What a source cannot do without, over all its streams; nothing where the kind names no scopes."""
    if not any(kind.name == connection.kind and kind.side == registry.SOURCE for kind in registry.kinds()):
        return set()
    source = registry.source(connection.kind, connection.options, outside.secrets_of(connection))
    return {scope for scopes in source.traits.needs.values() for scope in scopes}
