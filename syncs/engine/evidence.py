"""Collects what shows that a read was real; `syncs.domain.evidence` judges it (PRODUCT 5.2)."""

import asyncio

from connectors.protocol import Count
from syncs.domain import evidence
from syncs.domain.evidence import Evidence
from syncs.engine.cursor import Read
from syncs.engine.running import Running


def gather(running: Running, read: Read, after: Count | None) -> Evidence:
    """The evidence of an exhausted read. What proved itself wrong on the way has already raised."""
    return Evidence(
        identity_ok=True,
        scopes_missing=running.scopes_missing,
        version_asked=running.proof.get("version_asked") or running.facts.version_asked,
        version_served=running.version_served,
        count_before=read.counted,
        count_after=after,
        rows_seen=read.rows,
        structure_ok=True,
        problems=(),
        exhausted=read.exhausted,
    )


async def prove_read(running: Running, read: Read) -> Evidence:
    """Count again after the read; once more a minute later when it came out short."""
    found = gather(running, read, await running.connected.source.count(running.stream, read.window))
    if not evidence.wants_recount(found):
        return found
    await _wait(running)
    return gather(running, read, await running.connected.source.count(running.stream, read.window))


async def _wait(running: Running) -> None:
    clock = running.outside.clock
    until = clock.monotonic() + running.outside.terms.recount.total_seconds()
    while (left := until - clock.monotonic()) > 0:
        running.lease.require(clock)
        await asyncio.sleep(min(left, 1.0))
