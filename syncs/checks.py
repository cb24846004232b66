"""Refuses unsafe settings at start, one sentence each, with an id that stays."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections

from syncs.domain import sealing

POSTGRES = 150_000


@register(Tags.security)
def keys(**kwargs: Any) -> list[CheckMessage]:
    """The two keys of an installation, as the code needs them."""
    found: list[CheckMessage] = []
    try:
        sealing.keyring(settings.VIGIL_CREDENTIAL_KEYS)
    except ValueError as error:
        found.append(Error(str(error), id="vigil.E001"))
    try:
        usable = len(bytes.fromhex(settings.VIGIL_EFFECT_KEY)) >= sealing.KEY_BYTES
    except ValueError:
        usable = False
    if not usable:
        found.append(Error("VIGIL_EFFECT_KEY is not 64 hexadecimal digits: set it so.", id="vigil.E002"))
    return found


@register(Tags.security)
def proxies(**kwargs: Any) -> list[CheckMessage]:
    """Log-ins are counted per address, so the address must be the person's and not the proxy's (PRODUCT 10.1)."""
    if settings.SECURE_PROXY_SSL_HEADER and not settings.VIGIL_PROXIES:
        text = "BEHIND_PROXY is set and VIGIL_PROXIES is not: set it to the number of your proxies."
        return [Warning(text, id="vigil.W009")]
    return []


@register()
def times(**kwargs: Any) -> list[CheckMessage]:
    """Durations that only work together."""
    found: list[CheckMessage] = []
    if settings.VIGIL_LEASE_RENEW_SECONDS * 2 > settings.VIGIL_LEASE_SECONDS:
        found.append(
            Error("A lease must last at least twice as long as the time between two renewals.", id="vigil.E003")
        )
    if settings.VIGIL_CALL_SECONDS * 2 > settings.VIGIL_LEASE_SECONDS:
        found.append(Error("A call must end within half a lease: lower VIGIL_CALL_SECONDS.", id="vigil.E004"))
    if settings.Q_CLUSTER["timeout"] <= settings.VIGIL_SLICE_SECONDS + settings.VIGIL_CALL_SECONDS:
        found.append(Error("A slice and its last call must end before the queue's timeout.", id="vigil.E005"))
    if settings.PRODUCTION and settings.VIGIL_RETRY_SCALE != 1:
        found.append(Warning("VIGIL_RETRY_SCALE is for tests: leave it out in production.", id="vigil.W006"))
    return found


@register()
def queue(**kwargs: Any) -> list[CheckMessage]:
    """django-q2 hands a task out again `retry` seconds after it was fetched, and fetches ahead (Case QUEUE-01)."""
    q = settings.Q_CLUSTER
    least = (q["timeout"] or 0) * (1 + (q["queue_limit"] + 1) / q["workers"])
    if not q["timeout"] or q["retry"] <= least:
        text = f"The queue's retry must be longer than {least:.0f} s, or a task is handed out twice while it runs."
        return [Error(text, id="vigil.E007")]
    return []


@register(Tags.database)
def postgres(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """The statements need PostgreSQL 15 (``NULLS NOT DISTINCT``)."""
    found: list[CheckMessage] = []
    for alias in databases or []:
        version = connections[alias].cursor().connection.info.server_version
        if version < POSTGRES:
            text = f"The database is PostgreSQL {version // 10_000}: Vigil needs 15 or newer."
            found.append(Error(text, id="vigil.E008"))
    return found
