"""Accounts at other systems: their credentials, sealed, and what the vendor says of them (PRODUCT 10.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction

from connectors import registry
from connectors.protocol import Identity
from syncs.models import Connection, Workspace
from syncs.models.workspaces import Role
from syncs.services import outside
from syncs.services.actors import Actor, audit, database_now


@transaction.atomic
def connection_create(
    actor: Actor, workspace: Workspace, *, name: str, kind: str, options: Mapping[str, Any], secrets: Mapping[str, str]
) -> Connection:
    """A new connection with its credential sealed. Raises ValueError (one sentence) for options that cannot work."""
    actor.require(workspace, Role.EDITOR)
    _check(kind, options, secrets)
    connection = Connection.objects.create(workspace=workspace, name=name, kind=kind, options=dict(options))
    connection.seal(secrets)
    connection.save()
    audit(actor, "connection.created", connection, workspace=workspace, after={"kind": kind, "options": dict(options)})
    return connection


@transaction.atomic
def connection_update(
    actor: Actor,
    connection: Connection,
    *,
    options: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Connection:
    """Change what is no secret, rotate the credential, or both.

    The same account with the same scopes needs no new publication; each run proves that it still is (PRODUCT 6.3).
    """
    actor.require(connection.workspace, Role.EDITOR)
    locked = Connection.objects.select_for_update().get(pk=connection.pk)
    before = dict(locked.options)
    if options is not None:
        locked.options = dict(options)
        # Another address may be another account: it is proved anew before the next write.
        locked.proved_fingerprint = ""
    _check(locked.kind, locked.options, secrets if secrets is not None else locked.secrets())
    if secrets is not None:
        locked.seal(secrets)
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


def connection_test(actor: Actor, connection: Connection) -> Identity:
    """Ask the vendor who the credential belongs to and what it may do, and keep the answer. Raises ConnectorError."""
    actor.require(connection.workspace, Role.OPERATOR)
    identity = asyncio.run(_identify(connection))
    connection.account, connection.label = identity.account, identity.label
    connection.scopes = sorted(set(identity.scopes))
    connection.proved_at, connection.proved_fingerprint = database_now(), connection.fingerprint
    connection.save(update_fields=["account", "label", "scopes", "proved_at", "proved_fingerprint"])
    return identity


async def _identify(connection: Connection) -> Identity:
    end = registry.end(connection.kind, connection.options, outside.secrets_of(connection))
    try:
        return await end.identify()
    finally:
        await end.close()
