"""Draft, preview, publish, pause: the only words for changing a sync (PRODUCT 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from connectors.errors import ConnectorError
from syncs.domain import rule as rules
from syncs.domain import schedule as schedules
from syncs.domain.lifecycle import Lane, Outcome, SyncState
from syncs.domain.mapping import Mapper
from syncs.domain.rule import Rule
from syncs.engine import preview as previewing
from syncs.engine import publication
from syncs.engine.lease import Lease
from syncs.engine.outside import Connected, Outside
from syncs.engine.running import Facts, Running
from syncs.engine.sending import SUPERSEDED
from syncs.errors import DraftChanged, PublicationInvalid, RuleInvalid
from syncs.models import Connection, Finding, Preview, Schedule, Sync, Version, Workspace
from syncs.models.workspaces import Role
from syncs.services import outside, runs
from syncs.services.actors import Actor, audit, database_now


def _locked(sync: Sync) -> Sync:
    """The sync's row, locked for the transaction. No key of it changes: who refers to it need not wait."""
    rows = Sync.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("workspace", "draft_by", "published").get(pk=sync.pk)


PAUSED_BY_PERSON = "by_person"
DEFAULT_EVERY = schedules.DEFAULT_MINUTES


@transaction.atomic
def sync_create(
    actor: Actor,
    workspace: Workspace,
    *,
    name: str,
    source: Connection,
    destination: Connection,
    rule: Mapping[str, Any],
) -> Sync:
    """A new draft. Raises RuleInvalid for a rule that cannot be one."""
    actor.require(workspace, Role.EDITOR)
    if {source.workspace_id, destination.workspace_id} != {workspace.pk}:
        raise RuleInvalid("Both connections of a sync belong to its workspace.")
    document = rules.document(rules.parse(rule))
    sync = Sync.objects.create(
        workspace=workspace, name=name, source=source, destination=destination, draft=document, draft_by=actor.user
    )
    audit(actor, "sync.created", sync, workspace=workspace, after=document)
    return sync


@transaction.atomic
def sync_save_draft(actor: Actor, sync: Sync, *, rule: Mapping[str, Any], revision: int) -> Sync:
    """Save the draft that was made of ``revision``. A save that changes nothing is no change (Case PUB-10).

    A change of content puts a published sync out of work until it is published again (PRODUCT 6.3). Raises RuleInvalid,
    and DraftChanged when somebody else saved meanwhile: the caller keeps the text.
    """
    actor.require(sync.workspace, Role.EDITOR)
    document = rules.document(rules.parse(rule))
    locked = _locked(sync)
    if locked.draft_revision != revision:
        by = locked.draft_by.get_username() if locked.draft_by else "somebody else"
        raise DraftChanged(
            f"{by} saved this draft at {locked.draft_at:%H:%M} UTC while you were editing. "
            "Your text is kept here: compare, then save again."
        )
    if locked.draft == document:
        return locked
    before = locked.draft
    locked.draft, locked.draft_revision, locked.draft_by = document, revision + 1, actor.user
    locked.draft_at = database_now()
    if locked.state == SyncState.PUBLISHED:
        locked.state = SyncState.EDITED.value
    locked.save()
    audit(actor, "sync.draft_saved", locked, workspace=locked.workspace, before=before, after=document)
    return locked


def sync_preview(actor: Actor, sync: Sync) -> Preview:
    """Read real records now and keep what a run would do, for an hour (PRODUCT 6.1). It writes nothing elsewhere.

    A source that cannot be read makes a preview that says so and cannot be published.
    """
    actor.require(sync.workspace, Role.EDITOR)
    rule = rules.parse(sync.draft)
    facts, result = asyncio.run(_preview(sync, rule))
    _block_shared_target(sync, rule, facts, result)
    now = database_now()
    return Preview.objects.create(
        sync=sync,
        draft_revision=sync.draft_revision,
        digest=_digest(rule, facts) if facts else "",
        rule=rules.document(rule),
        facts=facts,
        result=result,
        publishable=bool(facts) and not result["blocks"],
        made_by=actor.user,
        made_at=now,
        valid_until=now + timedelta(minutes=settings.VIGIL_PREVIEW_MINUTES),
    )


def _digest(rule: Rule, facts: Mapping[str, Any]) -> str:
    source = publication.connection_facts(facts["source"])
    return rules.publication_digest(rule, source, publication.connection_facts(facts["destination"]))


def _block_shared_target(sync: Sync, rule: Rule, facts: dict[str, Any], result: dict[str, Any]) -> None:
    if not facts:
        return
    if _moves(sync, rule, facts):
        result["blocks"].append(ANOTHER_TARGET)
    other = Sync.objects.filter(target=publication.target_of(rule, facts)).exclude(pk=sync.pk).first()
    if other is not None:
        same = other.workspace_id == sync.workspace_id
        name = f"'{other.name}'" if same else "another workspace's sync"
        result["blocks"].append(f"{name} already writes to this target. Two syncs may not share one: choose another.")


ANOTHER_TARGET = (
    "This sync was published for another list, destination account or shop. What it remembers of people belongs to "
    "that one: make a new sync for this one, and pause this."
)


def _moves(sync: Sync, rule: Rule, facts: dict[str, Any]) -> bool:
    """Whether a published sync would change its target or its shop. Its tombstones, grants and cursors are of the old
    one: people would be withdrawn from the wrong list, and a new account would be taken for delivered."""
    if sync.published is None:
        return False
    before = sync.published.facts["source"]["account"]
    return sync.target != publication.target_of(rule, facts) or before != facts["source"]["account"]


async def _preview(sync: Sync, rule: Rule) -> tuple[dict[str, Any], dict[str, Any]]:
    given = outside.outside()
    try:
        connected = await outside.connect(sync.pk)
    except ConnectorError as error:
        await given.database.close()
        return {}, previewing.unreadable(error)
    try:
        source = await connected.source.identify()
        destination = await connected.destination.identify()
        facts = {
            "source": publication.facts_of(connected.source.kind, source),
            "destination": publication.facts_of(connected.destination.kind, destination),
        }
        running = _rehearsal(sync, rule, given, connected, facts)
        shown = await previewing.preview(running, source, destination)
        return facts, shown.document()
    except ConnectorError as error:
        return {}, previewing.unreadable(error)
    finally:
        await connected.close()
        await given.database.close()


def _rehearsal(sync: Sync, rule: Rule, given: Outside, connected: Connected, facts: dict[str, Any]) -> Running:
    """A run that will never write: it holds no lease, so every claim and call of it would be refused."""
    nobody = Lease(sync_id=sync.pk, token=outside.NOBODY, fence=0, term=timedelta(0), deadline=0.0, lost=True)
    now = given.clock.now()
    known = Facts(
        run_id=0,
        lane=Lane.SCHEDULED,
        failures=0,
        attempt_id=0,
        sync_id=sync.pk,
        sync_name=sync.name,
        workspace_id=sync.workspace_id,
        changed_at=sync.changed_at,
        first_published_at=sync.first_published_at,
        version_id=0,
        version_number=0,
        digest="",
        document="",
        publisher="",
        version_facts=facts,
        source={},
        destination={},
        set_aside=0,
        expected=None,
        version_asked=None,
        force=False,
        created_at=now,
        now=now,
    )
    account = facts["source"]["account"].rsplit("/", 1)[-1]
    return Running(
        outside=given,
        facts=known,
        lease=nobody,
        connected=connected,
        rule=rule,
        mapper=Mapper(rule, account, prefix=facts["source"]["kind"], zone=publication.zone_of(connected.zone)),
        policy=rule.policy,
        target=publication.target_of(rule, facts),
        ending=asyncio.Event(),
    )


@transaction.atomic
def sync_publish(actor: Actor, sync: Sync, *, digest: str, reason: str = "") -> Version:
    """Publish exactly what was previewed under ``digest`` (PRODUCT 6.2). Also how a paused sync goes on (4.3).

    Raises DraftChanged when the draft is another one than previewed, PublicationInvalid when there is no preview of
    this digest that may be published now.
    """
    actor.require(sync.workspace, Role.PUBLISHER)
    locked = _locked(sync)
    preview = _publishable(locked, digest)
    rule = rules.parse(locked.draft)
    if _digest(rule, preview.facts) != digest:
        raise PublicationInvalid("The draft is not what was previewed. Preview it again, then publish.")
    if _moves(locked, rule, preview.facts):
        raise PublicationInvalid(ANOTHER_TARGET)
    now = database_now()
    version = Version.objects.create(
        sync=locked,
        number=locked.versions.count() + 1,
        digest=digest,
        digest_method=rules.DIGEST_METHOD,
        document=publication.document_text(rule),
        facts=preview.facts,
        publisher=actor.user,
        publisher_label=actor.label,
        published_at=now,
        reason=reason[:300],
    )
    before = locked.published.digest if locked.published else None
    locked.published, locked.state, locked.changed_at = version, SyncState.PUBLISHED.value, now
    locked.target = publication.target_of(rule, preview.facts)
    locked.first_published_at = locked.first_published_at or now
    locked.paused_at, locked.pause_code, locked.pause_sentence = None, "", ""
    try:
        with transaction.atomic():
            locked.save()
    except IntegrityError:
        raise PublicationInvalid(
            "Another sync already writes to this target. Two syncs may not share one: choose another list."
        ) from None
    runs.end_waiting(locked, Outcome.SUPERSEDED, SUPERSEDED)
    _plan_from(locked, now)
    Finding.objects.filter(sync=locked, code__in=["paused", "run_failed"], resolved_at=None).update(
        state="resolved", resolved_at=now
    )
    audit(
        actor,
        "sync.published",
        locked,
        workspace=locked.workspace,
        before={"digest": before},
        after={"digest": digest, "version": version.number},
        reason=reason,
    )
    return version


def _publishable(sync: Sync, digest: str) -> Preview:
    found = sync.previews.filter(digest=digest).order_by("-made_at").first() if digest else None
    if found is None:
        raise PublicationInvalid("No preview of this sync has that digest. Preview the draft, then publish its digest.")
    if found.draft_revision != sync.draft_revision:
        by = sync.draft_by.get_username() if sync.draft_by else "somebody"
        raise DraftChanged(f"Changed by {by} at {sync.draft_at:%H:%M} UTC since this preview. Preview it again.")
    if not found.publishable:
        raise PublicationInvalid(f"This preview cannot be published: {' '.join(found.result['blocks'])}")
    if found.valid_until <= database_now():
        raise PublicationInvalid(
            f"This preview was valid until {found.valid_until:%H:%M} UTC. Preview the draft again."
        )
    return found


def _plan_from(sync: Sync, now: Any) -> None:
    """The schedule plans from now on; a new one gets its own place in the minute."""
    offset = schedules.spread_offset(sync.pk, DEFAULT_EVERY)
    schedule, _ = Schedule.objects.get_or_create(
        sync=sync, defaults={"every_minutes": DEFAULT_EVERY, "offset_seconds": int(offset.total_seconds())}
    )
    schedule.next_for = _next(schedule, now)
    schedule.save(update_fields=["next_for"])


def _next(schedule: Schedule, now: Any) -> Any:
    every = schedules.Every(schedule.every_minutes, timedelta(seconds=schedule.offset_seconds))
    return schedules.next_start(every, now)


@transaction.atomic
def schedule_set(actor: Actor, sync: Sync, *, every_minutes: int, active: bool = True) -> Schedule:
    """When a sync runs: edited and audited apart from what it may write (PRODUCT 8.1). Raises ValueError."""
    actor.require(sync.workspace, Role.EDITOR)
    offset = int(schedules.spread_offset(sync.pk, every_minutes).total_seconds())
    schedules.Every(every_minutes, timedelta(seconds=offset))
    schedule, _ = Schedule.objects.update_or_create(
        sync=sync, defaults={"every_minutes": every_minutes, "offset_seconds": offset, "active": active}
    )
    schedule.next_for = _next(schedule, database_now()) if sync.published_id else None
    schedule.save(update_fields=["next_for"])
    audit(
        actor,
        "schedule.set",
        sync,
        workspace=sync.workspace,
        after={"every_minutes": every_minutes, "active": active},
    )
    return schedule


@transaction.atomic
def sync_pause(actor: Actor, sync: Sync, *, reason: str) -> Sync:
    """Stand still until somebody publishes again. A run that is going on stops before its next write."""
    actor.require(sync.workspace, Role.OPERATOR)
    locked = _locked(sync)
    if locked.state not in (SyncState.PUBLISHED, SyncState.EDITED):
        raise PublicationInvalid(f"Only a published sync can be paused; this one is {locked.state}.")
    locked.state, locked.paused_at = SyncState.PAUSED.value, database_now()
    locked.pause_code, locked.pause_sentence = PAUSED_BY_PERSON, f"Paused by {actor.label}: {reason}"[:500]
    locked.save()
    audit(actor, "sync.paused", locked, workspace=locked.workspace, reason=reason)
    return locked
