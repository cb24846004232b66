"""Draft, preview, publish, pause: the only words for changing a sync (PRODUCT 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from connectors import registry
from connectors.errors import ConnectorError, Refused
from connectors.protocol import EffectKind, Stream
from syncs import words
from syncs.domain import rule as rules
from syncs.domain import schedule as schedules
from syncs.domain.lifecycle import Lane, Outcome, SyncState
from syncs.domain.mapping import Mapper
from syncs.domain.rule import Rule
from syncs.domain.widening import widenings
from syncs.engine import preview as previewing
from syncs.engine import publication
from syncs.engine.lease import Lease
from syncs.engine.outside import Connected, Outside
from syncs.engine.running import Facts, Running
from syncs.engine.sending import SUPERSEDED
from syncs.errors import DraftChanged, NameTaken, PublicationInvalid, RuleInvalid
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
    """A new draft. Raises RuleInvalid for a rule or a pair of ends that cannot be one, and NameTaken."""
    actor.require(workspace, Role.EDITOR)
    if {source.workspace_id, destination.workspace_id} != {workspace.pk}:
        raise RuleInvalid(_("Both connections of a sync belong to its workspace."))
    if (_side(source), _side(destination)) != (registry.SOURCE, registry.DESTINATION):
        raise RuleInvalid(_("A sync reads from a source and writes to a destination: choose one of each."))
    document = rules.document(rules.parse(rule))
    if workspace.syncs.filter(name=name).exists():
        raise NameTaken(_("This workspace has a sync %(name)s already: choose another name.") % {"name": name})
    sync = Sync.objects.create(
        workspace=workspace, name=name, source=source, destination=destination, draft=document, draft_by=actor.user
    )
    audit(actor, "sync.created", sync, workspace=workspace, after=document)
    return sync


def _side(connection: Connection) -> str:
    return next((kind.side for kind in registry.kinds() if kind.name == connection.kind), "")


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
        said = _(
            "%(who)s saved this draft at %(at)s while you were editing. "
            "Your text is kept here: compare, then save again."
        )
        raise DraftChanged(said % _saved_by(locked))
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


def _saved_by(sync: Sync) -> dict[str, str]:
    """Who saved the draft last and when, on the workspace's clock."""
    who = sync.draft_by.get_username() if sync.draft_by else _("Somebody else")
    return {"who": who, "at": _at(sync, sync.draft_at)}


def _at(sync: Sync, instant: datetime) -> str:
    return words.instant(instant, words.zone_of(sync.workspace.zone), database_now())


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
        result["blocks"].append(str(ANOTHER_TARGET))
    other = Sync.objects.filter(target=publication.target_of(rule, facts)).exclude(pk=sync.pk).first()
    if other is not None:
        same = other.workspace_id == sync.workspace_id
        name = f"'{other.name}'" if same else _("another workspace's sync")
        said = _("%(name)s already writes to this target. Two syncs may not share one: choose another.")
        result["blocks"].append(said % {"name": name})


ANOTHER_TARGET = _lazy(
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
    except (ConnectorError, registry.SettingsRefused) as error:
        await given.database.close()
        return {}, previewing.unreadable(error if isinstance(error, ConnectorError) else Refused(str(error)))
    try:
        source = await connected.source.identify()
        destination = await connected.destination.identify()
        facts = {
            "source": publication.facts_of(connected.source.kind, source),
            "destination": publication.facts_of(connected.destination.kind, destination),
        }
        running = _rehearsal(sync, rule, given, connected, facts)
        shown = await previewing.preview(running, source, destination)
        found = shown.document()
        found["calls"] = _calls(connected, rule, shown)
        if rule.list_id is not None:
            found["list_name"] = await connected.destination.list_name(rule.list_id)
        return facts, found
    except ConnectorError as error:
        return {}, previewing.unreadable(error)
    finally:
        await connected.close()
        await given.database.close()


LOOKS: Final = 1
"""Calls that ask for one person's present state before a write: a known contact, or the customer of an order."""


def _calls(connected: Connected, rule: Rule, shown: previewing.Preview) -> dict[str, int]:
    """About how many calls a whole read costs at either end, if all records are like the sample (PRODUCT 6.1)."""
    pages = -(-max(shown.counted.records, shown.read) // connected.source.traits.page_size)
    share = max(shown.counted.records, shown.read) / shown.read if shown.read else 0.0
    created, updated = shown.states["create"] * share, shown.states["update"] * share
    if rule.stream is Stream.CUSTOMERS:
        calls = created + updated * (1 + LOOKS)
    else:
        batch = connected.destination.traits[EffectKind.ORDER].batch
        calls = (created + updated) * (LOOKS + len(rule.events) + 1 / batch)
    return {"source": pages, "destination": round(calls)}


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
def sync_publish(
    actor: Actor, sync: Sync, *, digest: str, reason: str = "", widening_confirmed: bool = False
) -> Version:
    """Publish exactly what was previewed under ``digest`` (PRODUCT 6.2). Also how a paused sync goes on (4.3).

    What reaches further than the version before is published only with ``widening_confirmed``: a person was told how.

    Raises DraftChanged when the draft is another one than previewed, PublicationInvalid when there is no preview of
    this digest that may be published now; its code is `UNCONFIRMED` when nothing but the confirmation is missing.
    """
    actor.require(sync.workspace, Role.PUBLISHER)
    locked = _locked(sync)
    preview = _publishable(locked, digest)
    rule = rules.parse(locked.draft)
    if _digest(rule, preview.facts) != digest:
        raise PublicationInvalid(_("The draft is not what was previewed. Preview it again, then publish."))
    if _moves(locked, rule, preview.facts):
        raise PublicationInvalid(str(ANOTHER_TARGET))
    if not widening_confirmed:
        _ask_about_widening(locked, rule)
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
            _("Another sync already writes to this target. Two syncs may not share one: choose another list.")
        ) from None
    # The schedule before its runs, as the planner locks them: two orders would deadlock when a start comes due now.
    list(Schedule.objects.select_for_update().filter(sync=locked))
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


UNCONFIRMED: Final = "widening_unconfirmed"
"""The code of what lacks nothing but a confirmation."""


def _ask_about_widening(sync: Sync, rule: Rule) -> None:
    """Raises PublicationInvalid unless ``rule`` reaches no further than what is published. The first one is asked for
    by nothing but its preview: there is nothing yet that it could exceed."""
    if sync.published is None:
        return
    try:
        further = bool(widenings(publication.read_document(sync.published.document), rule))
    except RuleInvalid:
        further = True
    if further:
        said = _(
            "This reaches further than version %(number)d, which is published now. Nothing was published: look at what "
            "the preview says about it, confirm it, then publish."
        )
        raise PublicationInvalid(said % {"number": sync.published.number}, code="widening_unconfirmed")


def _publishable(sync: Sync, digest: str) -> Preview:
    found = sync.previews.filter(digest=digest).order_by("-made_at").first() if digest else None
    if found is None:
        said = _("No preview of this sync has that digest. Preview the draft, then publish its digest.")
        raise PublicationInvalid(said)
    if found.draft_revision != sync.draft_revision:
        said = _("Changed by %(who)s at %(at)s since this preview. Preview it again.")
        raise DraftChanged(said % _saved_by(sync))
    if not found.publishable:
        said = _("This preview cannot be published: %(why)s")
        raise PublicationInvalid(said % {"why": " ".join(found.result["blocks"])})
    if found.valid_until <= database_now():
        said = _("This preview was valid until %(at)s. Preview the draft again.")
        raise PublicationInvalid(said % {"at": _at(sync, found.valid_until)})
    return found


def _plan_from(sync: Sync, now: Any) -> None:
    """The schedule plans from now on; a new one gets its own place in the minute."""
    offset = schedules.spread_offset(sync.pk, DEFAULT_EVERY)
    schedule, _made = Schedule.objects.get_or_create(
        sync=sync, defaults={"every_minutes": DEFAULT_EVERY, "offset_seconds": int(offset.total_seconds())}
    )
    schedule.next_for = _next(schedule, now)
    schedule.save(update_fields=["next_for"])


def _next(schedule: Schedule, now: Any) -> Any:
    every = schedules.Every(schedule.every_minutes, timedelta(seconds=schedule.offset_seconds))
    return schedules.next_start(every, now)


@transaction.atomic
def schedule_set(actor: Actor, sync: Sync, *, every_minutes: int, active: bool = True) -> Schedule:
    """When a sync runs: edited and audited apart from what it may write (PRODUCT 8.1). Raises ValueError.

    A setting that is the one there is changes nothing: the grid of starts stays as it was.
    """
    actor.require(sync.workspace, Role.EDITOR)
    offset = int(schedules.spread_offset(sync.pk, every_minutes).total_seconds())
    schedules.Every(every_minutes, timedelta(seconds=offset))
    locked = _locked(sync)
    before = Schedule.objects.filter(sync=locked).first()
    if before is not None and (before.every_minutes, before.active) == (every_minutes, active):
        return before
    schedule, _made = Schedule.objects.update_or_create(
        sync=locked, defaults={"every_minutes": every_minutes, "offset_seconds": offset, "active": active}
    )
    schedule.next_for = _next(schedule, database_now()) if locked.published_id else None
    schedule.save(update_fields=["next_for"])
    audit(
        actor,
        "schedule.set",
        locked,
        workspace=locked.workspace,
        before={"every_minutes": before.every_minutes, "active": before.active} if before is not None else None,
        after={"every_minutes": every_minutes, "active": active},
    )
    return schedule


@transaction.atomic
def sync_pause(actor: Actor, sync: Sync, *, reason: str) -> Sync:
    """Stand still until somebody publishes again. A run that is going on stops before its next write."""
    actor.require(sync.workspace, Role.OPERATOR)
    locked = _locked(sync)
    if locked.state not in (SyncState.PUBLISHED, SyncState.EDITED):
        named = {"state": words.SYNC_STATES[SyncState(locked.state)]}
        raise PublicationInvalid(_("Only a published sync can be paused; this one is %(state)s.") % named)
    locked.state, locked.paused_at = SyncState.PAUSED.value, database_now()
    locked.pause_code, locked.pause_sentence = PAUSED_BY_PERSON, f"Paused by {actor.label}: {reason}"[:500]
    locked.save()
    audit(actor, "sync.paused", locked, workspace=locked.workspace, reason=reason)
    return locked
