"""Accounts at other systems: their credentials, sealed, and what the vendor says of them (PRODUCT 3.10, 6.3, 10.2).

A credential is rotated in two slots: the next one is entered and tested beside the current one, then both are switched
at once. What a sync was published for is compared with what the next one answered, so that nothing runs with another
account or other scopes than a person published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from connectors import registry
from connectors.errors import ConnectorError, Refused
from connectors.protocol import Identity
from syncs.domain import credential
from syncs.domain.lifecycle import SYNC_MOVES, SyncState, move
from syncs.domain.sealing import SealBroken
from syncs.errors import NameTaken, NotFound, PublicationInvalid
from syncs.models import Connection, Preview, Sync, Workspace, syncs
from syncs.models.workspaces import Role
from syncs.services import outside, publishing
from syncs.services.actors import Actor, audit, database_now


def connection_kinds() -> tuple[registry.Kind, ...]:
    """What can be connected here. The sandbox's address is asked for only where sandboxes are allowed."""
    return tuple(_shown(kind) for kind in registry.kinds())


def _shown(kind: registry.Kind) -> registry.Kind:
    fields = tuple(one for one in kind.fields if one.name != registry.BASE_URL or settings.VIGIL_ALLOW_LOOPBACK)
    return registry.Kind(kind.name, kind.label, kind.side, fields, kind.hosts, kind.make)


# --- Making and changing ----------------------------------------------------------------------------------------------
@transaction.atomic
def connection_create(
    actor: Actor, workspace: Workspace, *, name: str, kind: str, options: Mapping[str, Any], secrets: Mapping[str, str]
) -> Connection:
    """A new connection with its credential sealed.

    Raises ValueError (one sentence) for options that cannot work, and NameTaken.
    """
    actor.require(workspace, Role.PUBLISHER)
    _check(kind, options, secrets)
    if workspace.connections.filter(name=name).exists():
        raise NameTaken(_("This workspace has a connection %(name)s already: choose another name.") % {"name": name})
    connection = Connection(workspace=workspace, name=name, kind=kind, options=_tidy(options))
    connection.save()
    connection.seal(secrets)
    connection.entered_at = database_now()
    connection.save()
    after = {"kind": kind, "options": connection.options}
    audit(actor, "connection.created", connection, workspace=workspace, after=after)
    return connection


def _tidy(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in the one spelling that is kept."""
    kept = dict(options)
    if "domain" in kept:
        kept["domain"] = registry.shop_domain(kept["domain"])
    return kept


@transaction.atomic
def connection_update(
    actor: Actor,
    connection: Connection,
    *,
    options: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Connection:
    """Change what is no secret, replace the credential at once, or both.

    The same account with the same scopes needs no new publication; each run proves that it still is (PRODUCT 6.3).
    """
    actor.require(connection.workspace, Role.PUBLISHER)
    locked = _locked(connection)
    before = dict(locked.options)
    if options is not None:
        locked.options = dict(options)
        # Another address may be another account: it is proved anew before the next write.
        locked.proved_fingerprint = ""
    _check(locked.kind, locked.options, secrets if secrets is not None else locked.secrets())
    if secrets is not None:
        locked.seal(secrets)
        locked.entered_at, locked.disconnected_at, locked.last_test = database_now(), None, None
    locked.save()
    audit(
        actor,
        "connection.rotated" if secrets is not None else "connection.changed",
        locked,
        workspace=locked.workspace,
        before={"options": before},
        after={"options": dict(locked.options)},
    )
    return locked


def _check(kind: str, options: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
    """Raises registry's error for what no connector could be made of."""
    if options.get(registry.BASE_URL) and not settings.VIGIL_ALLOW_LOOPBACK:
        raise registry.SettingsRefused(
            "A sandbox address is for trials only: leave it out, or set VIGIL_ALLOW_LOOPBACK."
        )
    registry.end(kind, options, secrets)


def _locked(connection: Connection) -> Connection:
    """The connection's row, locked for the transaction. Before the rows of its syncs, always."""
    rows = Connection.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("workspace").get(pk=connection.pk)


# --- Testing ----------------------------------------------------------------------------------------------------------
def connection_test(actor: Actor, connection: Connection) -> Identity:
    """Ask the vendor who the credential belongs to and what it may do, and keep the answer with its checks.

    Raises ConnectorError, after it was kept that the test failed.
    """
    actor.require(connection.workspace, Role.OPERATOR)
    fingerprint = connection.fingerprint
    try:
        identity = asyncio.run(_identify(connection.kind, connection.options, outside.secrets_of(connection)))
        wanted = _wanted(connection.kind, connection.options, outside.secrets_of(connection))
    except (ConnectorError, registry.SettingsRefused) as error:
        refused = _refusal(error)
        _keep_test(actor, connection, fingerprint, None, [_failed(connection.kind, refused)], ())
        raise refused from None
    checks = _checks(connection, identity, wanted)
    _keep_test(actor, connection, fingerprint, identity, checks, wanted, attributes=_attributes_now(connection))
    return identity


def _attributes_now(connection: Connection) -> dict[str, str]:
    """What a destination's fields are called, name -> type: a draft picks from them. Empty where it does not say."""
    if _is_source(connection.kind):
        return {}
    try:
        return asyncio.run(_attributes(connection.kind, connection.options, outside.secrets_of(connection)))
    except ConnectorError:
        return {}


async def _attributes(kind: str, options: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, str]:
    end = registry.destination(kind, options, secrets)
    try:
        return dict(await end.attributes())
    finally:
        await end.close()


async def _identify(kind: str, options: Mapping[str, Any], secrets: Mapping[str, str]) -> Identity:
    end = registry.end(kind, options, secrets)
    try:
        return await end.identify()
    finally:
        await end.close()


def _refusal(error: ConnectorError | registry.SettingsRefused) -> ConnectorError:
    return error if isinstance(error, ConnectorError) else Refused(str(error))


def _wanted(kind: str, options: Mapping[str, Any], secrets: Mapping[str, str]) -> tuple[str, ...]:
    """What a source cannot do without, over all its streams; nothing where the kind names no scopes."""
    if not _is_source(kind):
        return ()
    needs = registry.source(kind, options, secrets).traits.needs
    return tuple(sorted({scope for scopes in needs.values() for scope in scopes}))


def _is_source(kind: str) -> bool:
    return any(one.name == kind and one.side == registry.SOURCE for one in registry.kinds())


@transaction.atomic
def _keep_test(
    actor: Actor,
    connection: Connection,
    fingerprint: str,
    identity: Identity | None,
    checks: list[dict[str, Any]],
    wanted: Iterable[str],
    *,
    attributes: Mapping[str, str] | None = None,
) -> None:
    """Keep a test of the credential with ``fingerprint``. One that was replaced meanwhile proves nothing."""
    locked = _locked(connection)
    if locked.fingerprint == fingerprint:
        test = _test(checks, identity, wanted)
        locked.last_test = {**test, **_known_attributes(locked, attributes, test["at"])}
        if identity is not None:
            locked.account, locked.label = identity.account, identity.label
            locked.scopes = sorted(set(identity.scopes))
            locked.proved_at, locked.proved_fingerprint = database_now(), fingerprint
        locked.save()
        for name in ("account", "label", "scopes", "proved_at", "proved_fingerprint", "last_test"):
            setattr(connection, name, getattr(locked, name))
    after = {"ok": _is_well(checks), "checks": {one["name"]: one["ok"] for one in checks}}
    audit(actor, "connection.tested", locked, workspace=locked.workspace, after=after)


def _test(checks: list[dict[str, Any]], identity: Identity | None, wanted: Iterable[str]) -> dict[str, Any]:
    given = sorted(set(identity.scopes)) if identity is not None else []
    return {
        "at": database_now().isoformat(),
        "ok": _is_well(checks),
        "checks": checks,
        "wanted": sorted(wanted),
        "given": given,
    }


def _known_attributes(connection: Connection, attributes: Mapping[str, str] | None, at: str) -> dict[str, Any]:
    """The attributes that were told now, or the last time: a test that fails forgets none of them."""
    if attributes:
        return {"attributes": dict(attributes), "attributes_at": at}
    before = connection.last_test or {}
    return {name: before[name] for name in ("attributes", "attributes_at") if name in before}


def _is_well(checks: Iterable[Mapping[str, Any]]) -> bool:
    """Whether nothing is bad. What is only too much is a warning (PRODUCT 3.10)."""
    return all(one["ok"] or one["tone"] == "warn" for one in checks)


def _checks(connection: Connection, identity: Identity, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """What a test found, each with its verdict. ``named`` holds the names its sentence was made with."""
    vendor = _label(connection.kind)
    found = [_check_of("answers", True, vendor=vendor, label=identity.label, account=identity.account)]
    wrong = [sync.name for sync, known in syncs.published_for(connection) if identity.account != known["account"]]
    if wrong:
        found.append(_check_of("account", False, syncs=", ".join(wrong)))
    if wanted:
        found += _scope_checks(set(wanted), identity.scopes)
    if identity.version_asked and identity.version_served:
        same = identity.version_asked == identity.version_served
        named = {"asked": identity.version_asked, "served": identity.version_served}
        found.append(_check_of("version", same, tone="warn", **named))
    return found


def _scope_checks(wanted: set[str], given: Iterable[str]) -> list[dict[str, Any]]:
    lacking, writing = sorted(wanted - set(given)), credential.writing(given)
    return [
        _check_of("scopes", not lacking, scopes=", ".join(lacking or sorted(wanted))),
        _check_of("read_only", not writing, tone="warn", scopes=", ".join(writing)),
    ]


SENTENCES: Final[Mapping[tuple[str, bool], str]] = {
    ("answers", True): "{vendor} answers: {label} ({account}).",
    ("account", True): "It is the account of the credential in use.",
    ("account", False): "It belongs to another account than the one that was published for {syncs}.",
    ("scopes", True): "All scopes that are wanted are given: {scopes}.",
    ("scopes", False): "It lacks {scopes}. Grant it at the vendor, then test again.",
    ("read_only", True): "It can only read.",
    ("read_only", False): "This token can write ({scopes}); give it read-only scopes.",
    ("version", True): "API version {served} is served, as asked.",
    ("version", False): "API version {asked} was asked for and {served} is served.",
    ("same_account", True): "It belongs to the same account as the one in use.",
    ("same_account", False): "It belongs to {label} ({account}), the one in use to {known_label} ({known}).",
    ("same_scopes", True): "It has the same scopes as the one in use.",
    ("same_scopes", False): "It lacks {scopes}, which the one in use has.",
    ("more_scopes", False): "It has {scopes} beyond the one in use.",
}
"""What a check says in English; pages say it in the reader's language by its name and its verdict."""


def _check_of(name: str, ok: bool, *, tone: str = "bad", **named: str) -> dict[str, Any]:
    """A check as it is kept: its name, verdict, sentence, how bad it is, and the names in it. No personal data."""
    sentence = SENTENCES[name, ok].format(**named)
    return {"name": name, "ok": ok, "sentence": sentence, "tone": "ok" if ok else tone, "named": named}


def _failed(kind: str, error: ConnectorError) -> dict[str, Any]:
    """The connectors' own sentence: it says what to do."""
    named = {"vendor": _label(kind), "code": error.code}
    return {"name": "answers", "ok": False, "sentence": error.sentence, "tone": "bad", "named": named}


def _label(kind: str) -> str:
    return next((one.label for one in registry.kinds() if one.name == kind), kind)


# --- Two slots --------------------------------------------------------------------------------------------------------
@transaction.atomic
def connection_next_set(actor: Actor, connection: Connection, *, secrets: Mapping[str, str]) -> Connection:
    """Enter the credential to come, beside the one in use. Raises ValueError (one sentence) for what is none."""
    actor.require(connection.workspace, Role.PUBLISHER)
    locked = _locked(connection)
    _check(locked.kind, locked.options, secrets)
    locked.seal_next(secrets)
    locked.next_at = database_now()
    locked.save()
    audit(actor, "connection.next_entered", locked, workspace=locked.workspace)
    return locked


def connection_next_test(actor: Actor, connection: Connection) -> bool:
    """Ask the vendor about the credential to come; True when it may take over without a new publication.

    Raises NotFound when there is none, and ConnectorError after it was kept that the test failed.
    """
    actor.require(connection.workspace, Role.PUBLISHER)
    _require_next(connection)
    slot = bytes(connection.next_sealed)
    try:
        secrets = _next_secrets(connection)
        identity = asyncio.run(_identify(connection.kind, connection.options, secrets))
        wanted = _wanted(connection.kind, connection.options, secrets)
    except (ConnectorError, registry.SettingsRefused) as error:
        refused = _refusal(error)
        _keep_next_test(actor, connection, slot, None, [_failed(connection.kind, refused)], ())
        raise refused from None
    checks = _next_checks(connection, identity, wanted)
    _keep_next_test(actor, connection, slot, identity, checks, wanted)
    return all(one["ok"] or one["name"] in ("read_only", "version") for one in checks)


def _require_next(connection: Connection) -> None:
    if not connection.next_sealed:
        raise NotFound(_("There is no next credential. Enter it first, then test it."))


def _next_secrets(connection: Connection) -> dict[str, str]:
    try:
        return connection.next_secrets()
    except SealBroken as error:
        raise Refused(str(error), code="credential_unreadable") from None


def _next_checks(connection: Connection, identity: Identity, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """The checks of any credential, and how it differs from the one in use."""
    named = {"label": identity.label, "account": identity.account}
    found = [_check_of("answers", True, vendor=_label(connection.kind), **named)]
    found += _scope_checks(set(wanted), identity.scopes) if wanted else []
    if not connection.account:
        return found
    known = {"account": connection.account, "scopes": connection.scopes}
    differs = credential.difference(identity.account, identity.scopes, known)
    whose = {**named, "known_label": connection.label, "known": connection.account}
    found.append(_check_of("same_account", not differs.account, **(whose if differs.account else {})))
    found.append(_check_of("same_scopes", not differs.lacking, scopes=", ".join(differs.lacking)))
    if differs.more:
        found.append(_check_of("more_scopes", False, tone="warn", scopes=", ".join(differs.more)))
    return found


@transaction.atomic
def _keep_next_test(
    actor: Actor,
    connection: Connection,
    slot: bytes,
    identity: Identity | None,
    checks: list[dict[str, Any]],
    wanted: Iterable[str],
) -> None:
    """Keep a test of what was in ``slot``. What was entered meanwhile is another seal, and not proved by it."""
    locked = _locked(connection)
    if bytes(locked.next_sealed) == slot:
        proved = {"account": identity.account, "label": identity.label} if identity is not None else {}
        locked.next_test = {**_test(checks, identity, wanted), **proved}
        locked.save(update_fields=["next_test"])
    after = {"ok": _is_well(checks), "checks": {one["name"]: one["ok"] for one in checks}}
    audit(actor, "connection.next_tested", locked, workspace=locked.workspace, after=after)


@transaction.atomic
def connection_switch(actor: Actor, connection: Connection, *, confirmed: bool = False) -> tuple[Sync, ...]:
    """Let the credential to come take over; the old one is dropped. The syncs that stand still by it are answered.

    With the same account and scopes every publication stands (PRODUCT 6.3). Otherwise a person has ``confirmed`` that
    the syncs published for the old ones stand still until they are published again. Runs under way find the other
    credential at their next start and start again with it.

    Raises NotFound without a next credential, PublicationInvalid when it was not proved or needs to be confirmed.
    """
    actor.require(connection.workspace, Role.PUBLISHER)
    locked = _locked(connection)
    _require_next(locked)
    tested = _proved_next(locked)
    known = {"account": locked.account, "scopes": locked.scopes}
    differs = credential.difference(tested["account"], tested["given"], known)
    still = syncs.standing_still(locked)
    if (still or not differs.is_none) and not confirmed:
        raise PublicationInvalid(_needs_publication(differs))
    before = {"account": locked.account, "scopes": locked.scopes, "key": locked.key_id}
    _take_over(locked, tested)
    after = {"account": locked.account, "scopes": locked.scopes, "key": locked.key_id}
    after["syncs"] = [sync.pk for sync in still]
    audit(actor, "connection.switched", locked, workspace=locked.workspace, before=before, after=after)
    for sync in still:
        _must_publish(actor, sync, locked)
    return still


def _proved_next(connection: Connection) -> dict[str, Any]:
    """The test that proves the credential to come, as young as a run would believe it (PRODUCT 5.2)."""
    tested = connection.next_test or {}
    if not tested.get("account"):
        raise PublicationInvalid(_("The next credential was not proved. Test it, then switch."))
    age = (database_now() - _instant(tested["at"])).total_seconds()
    if not 0 <= age <= settings.VIGIL_IDENTITY_SECONDS:
        raise PublicationInvalid(_("The test of the next credential is too old. Test it again, then switch."))
    return tested


def _needs_publication(differs: credential.Difference) -> str:
    if differs.account:
        return _(
            "The next credential belongs to another account, so it needs a new publication. "
            "Confirm that the syncs stand still until they are published again."
        )
    return _(
        "The next credential has other scopes than those that were published, so it needs a new publication. "
        "Confirm that the syncs stand still until they are published again."
    )


def _take_over(locked: Connection, tested: Mapping[str, Any]) -> None:
    try:
        secrets = locked.next_secrets()
    except SealBroken as error:
        raise PublicationInvalid(str(error)) from None
    kept = _known_attributes(locked, None, "") if locked.account == tested["account"] else {}
    locked.seal(secrets)
    locked.entered_at, locked.disconnected_at = locked.next_at, None
    locked.account, locked.label, locked.scopes = tested["account"], tested["label"], tested["given"]
    locked.proved_at, locked.proved_fingerprint = _instant(tested["at"]), locked.fingerprint
    locked.last_test = {name: tested[name] for name in ("at", "ok", "checks", "wanted", "given")} | kept
    locked.drop_next()
    locked.save()


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _must_publish(actor: Actor, sync: Sync, connection: Connection) -> None:
    """Put a published sync to edited, as a changed rule would: whoever had seen a preview sees another one."""
    locked = _locked_sync(sync)
    if locked.state != SyncState.PUBLISHED:
        return
    locked.state = move(SYNC_MOVES, SyncState(locked.state), SyncState.EDITED).value
    locked.draft_revision, locked.draft_by, locked.draft_at = locked.draft_revision + 1, actor.user, database_now()
    locked.save()
    reason = f"{connection.name}: another account or other scopes."
    audit(actor, "sync.must_publish", locked, workspace=locked.workspace, reason=reason)


def _locked_sync(sync: Sync) -> Sync:
    rows = Sync.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("workspace").get(pk=sync.pk)


@transaction.atomic
def connection_next_drop(actor: Actor, connection: Connection) -> Connection:
    """Forget the credential to come. Raises NotFound when there is none."""
    actor.require(connection.workspace, Role.PUBLISHER)
    locked = _locked(connection)
    _require_next(locked)
    locked.drop_next()
    locked.save()
    audit(actor, "connection.next_dropped", locked, workspace=locked.workspace)
    return locked


# --- Disconnecting ----------------------------------------------------------------------------------------------------
@transaction.atomic
def connection_disconnect(actor: Actor, connection: Connection, *, reason: str = "") -> tuple[Sync, ...]:
    """Wipe the credentials of a connection and pause the syncs that use it, which are answered.

    The row stays: what was delivered refers to it. A run that is going on stops before its next write. Raises NotFound
    when it is disconnected already.
    """
    actor.require(connection.workspace, Role.PUBLISHER)
    locked = _locked(connection)
    if locked.disconnected_at is not None:
        raise NotFound(_("This connection holds no credential any more. Nothing was changed."))
    locked.wipe()
    locked.disconnected_at = database_now()
    locked.save()
    stopped = tuple(_pause(actor, sync, locked) for sync in syncs.stopped_without(locked))
    # What was previewed with it cannot be published any more.
    valid = Preview.objects.filter(sync__in=syncs.syncs_of(locked), valid_until__gt=locked.disconnected_at)
    valid.update(valid_until=locked.disconnected_at)
    after = {"syncs": [sync.pk for sync in stopped]}
    audit(actor, "connection.disconnected", locked, workspace=locked.workspace, after=after, reason=reason)
    return stopped


def _pause(actor: Actor, sync: Sync, connection: Connection) -> Sync:
    locked = _locked_sync(sync)
    if locked.state not in (SyncState.PUBLISHED, SyncState.EDITED):
        return locked
    locked.state = move(SYNC_MOVES, SyncState(locked.state), SyncState.PAUSED).value
    locked.paused_at, locked.pause_code = database_now(), publishing.PAUSED_BY_PERSON
    locked.pause_sentence = f"{actor.label} disconnected {connection.name}."[:500]
    locked.save()
    audit(actor, "sync.paused", locked, workspace=locked.workspace, reason=locked.pause_sentence)
    return locked
