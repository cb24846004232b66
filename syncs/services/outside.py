"""Picks what the engine is given: the real clock, the real connectors, the settings' durations."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.db import connections

from connectors import registry
from connectors.errors import Refused
from connectors.protocol import EffectTraits
from syncs.domain.clock import SystemClock
from syncs.domain.sealing import SealBroken
from syncs.engine.database import Database, parameters
from syncs.engine.outside import Connected, Outside, Terms
from syncs.models import Connection, Sync, Workspace

T = TypeVar("T")


def holder() -> str:
    """Names this process for good: where pids are counted, the pid, and when it started."""
    return holder_of(os.getpid())


def holder_of(pid: int) -> str:
    return f"{_house()}:{pid}:{_started(pid)}"


def _house() -> str:
    """The host, its boot and its space of process ids: the same pid elsewhere is another process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        boot, space = "", ""
    return f"{socket.gethostname()}/{boot}/{space}"


def _started(pid: int) -> str:
    """The process's start in the kernel's ticks; "" when there is no such process, or it is dead and unwaited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


def is_proven_dead(name: str) -> bool:
    """Whether the holder ``name`` was a process of this very host and boot, and is no more (PRODUCT 3.1)."""
    house, _, rest = name.rpartition(":")[0].rpartition(":")
    started = name.rpartition(":")[2]
    if house != _house() or not rest.isdigit() or not started:
        return False
    return _started(int(rest)) != started


def terms() -> Terms:
    return Terms(
        lease=timedelta(seconds=settings.VIGIL_LEASE_SECONDS),
        renew=timedelta(seconds=settings.VIGIL_LEASE_RENEW_SECONDS),
        slice=timedelta(seconds=settings.VIGIL_SLICE_SECONDS),
        recount=timedelta(seconds=settings.VIGIL_RECOUNT_SECONDS),
        identity=timedelta(seconds=settings.VIGIL_IDENTITY_SECONDS),
        retry_scale=settings.VIGIL_RETRY_SCALE,
        runs=settings.VIGIL_RUNS_PER_WORKER,
    )


def outside() -> Outside:
    """A new one per event loop: its connections are opened there and closed with it."""
    return Outside(
        database=Database(parameters(settings.DATABASES["default"] | {"NAME": _database_name()})),
        clock=SystemClock(),
        terms=terms(),
        connect=connect,
        effect_secret=bytes.fromhex(settings.VIGIL_EFFECT_KEY),
        holder=holder(),
        jitter=random.random,
    )


def _database_name() -> str:
    """The name Django uses now: a test database's, in tests."""
    name: str = connections["default"].settings_dict["NAME"]
    return name


async def connect(sync_id: int) -> Connected:
    """Both ends of a sync, from its connections. Raises Refused when a credential does not open."""
    return await asyncio.to_thread(_in_thread, lambda: connect_sync(Sync.objects.get(pk=sync_id)))


def _in_thread(call: Callable[[], T]) -> T:
    """Run ``call`` and close the connections it opened: they belong to this thread, which is not ours to keep."""
    try:
        return call()
    finally:
        connections.close_all()


def connect_sync(sync: Sync) -> Connected:
    """Open the connectors of a sync. They connect at their first call. Raises Refused."""
    destination = registry.destination(sync.destination.kind, sync.destination.options, secrets_of(sync.destination))
    destination.traits = {kind: _bounded(traits) for kind, traits in destination.traits.items()}
    return Connected(
        source=registry.source(sync.source.kind, sync.source.options, secrets_of(sync.source)),
        destination=destination,
        address_secret=_address_secret(sync.workspace),
        zone=sync.workspace.zone,
        fingerprints=(sync.source.fingerprint, sync.destination.fingerprint),
    )


def _address_secret(workspace: Workspace) -> bytes:
    try:
        return workspace.address_secret()
    except SealBroken as error:
        raise Refused(str(error), code="credential_unreadable") from None


def _bounded(traits: EffectTraits) -> EffectTraits:
    """The connector's own deadlines cut to this installation's, and its time for an append to show."""
    call = timedelta(seconds=settings.VIGIL_CALL_SECONDS)
    settle = timedelta(seconds=settings.VIGIL_SETTLE_SECONDS)
    return replace(traits, deadline=min(traits.deadline, call), settle=settle if traits.settle else traits.settle)


def secrets_of(connection: Connection) -> dict[str, str]:
    """The credential. Raises Refused: without it no run can do anything, and a person must act."""
    try:
        return connection.secrets()
    except SealBroken as error:
        raise Refused(str(error), code="credential_unreadable") from None


NOBODY = uuid.UUID(int=0)
"""The token of no acquisition: a rehearsal holds no lease."""
