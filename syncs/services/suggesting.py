"""What a destination offers for the draft's form: its own attributes, asked for briefly, kept for a while (UX, P6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, cast

from django.core.cache import cache

from connectors import registry
from connectors.errors import ConnectorError
from syncs.models import Connection
from syncs.services import outside

PATIENCE: Final = 2.0
"""Seconds that a page waits for the vendor. Suggestions are a help, never a need."""

KEPT: Final = 300
"""Seconds that an answer is kept."""

KEPT_SILENCE: Final = 30
"""Seconds before a vendor that did not answer is asked again."""


def destination_attributes(connection: Connection) -> Mapping[str, str] | None:
    """The attributes (name -> type) that exist at ``connection``; None where they could not be had in time.

    Only a credential that was proved is used: a page that is merely looked at tries no new one. Where the vendor does
    not answer, what its last test told still helps. It changes nothing.
    """
    if connection.proved_at is None or connection.proved_fingerprint != connection.fingerprint:
        return None
    key = f"attributes:{connection.pk}:{connection.fingerprint}"
    missing: Mapping[str, str] = {}
    found = cast("Mapping[str, str] | None", cache.get(key, missing))
    if found is missing:
        found = _asked(connection)
        cache.set(key, found, KEPT if found is not None else KEPT_SILENCE)
    return found if found is not None else _told(connection)


def _told(connection: Connection) -> Mapping[str, str] | None:
    """What the last test of the connection was told; None where it never was."""
    found: Mapping[str, str] | None = (connection.last_test or {}).get("attributes")
    return found


def _asked(connection: Connection) -> Mapping[str, str] | None:
    try:
        return asyncio.run(_ask(connection.kind, connection.options, outside.secrets_of(connection)))
    except (ConnectorError, registry.SettingsRefused, TimeoutError):
        return None


async def _ask(kind: str, options: Mapping[str, object], secrets: Mapping[str, str]) -> Mapping[str, str]:
    end = registry.destination(kind, options, secrets)
    try:
        async with asyncio.timeout(PATIENCE):
            return dict(await end.attributes())
    finally:
        await end.close()
