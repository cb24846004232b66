"""What the engine is given: clock, database, connectors, durations and keys. It picks none of them itself."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from connectors.protocol import Destination, Source
from syncs.domain.clock import Clock
from syncs.engine.database import Database


@dataclass(frozen=True, slots=True)
class Terms:
    """The engine's durations and limits, each a setting with the product's default."""

    lease: timedelta = timedelta(minutes=15)
    renew: timedelta = timedelta(minutes=5)
    slice: timedelta = timedelta(minutes=1)
    recount: timedelta = timedelta(seconds=60)
    identity: timedelta = timedelta(hours=1)
    look: timedelta = timedelta(seconds=1)
    retry_scale: float = 1.0
    runs: int = 50
    grace: timedelta = timedelta(seconds=20)


@dataclass(slots=True)
class Connected:
    """Both ends of one sync, ready to be used. ``fingerprints`` are of the credentials that were opened for them."""

    source: Source
    destination: Destination
    address_secret: bytes
    zone: str
    fingerprints: tuple[str, str] | None = None

    async def close(self) -> None:
        await self.source.close()
        await self.destination.close()


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything the engine needs from outside itself.

    ``connect`` opens both connectors of a sync by its id; it may raise `connectors.errors.Refused`. ``holder`` names
    this process for good: host, pid and the pid's start. ``jitter`` gives fractions in [0, 1).
    """

    database: Database
    clock: Clock
    terms: Terms
    connect: Callable[[int], Awaitable[Connected]]
    effect_secret: bytes
    holder: str
    jitter: Callable[[], float]
