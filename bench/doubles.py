"""Ends for the benchmark: a source that makes records as they are asked for, and destinations that only take time."""

import asyncio
import hashlib
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from aiohttp import web

from connectors import memory, registry
from connectors.memory import MemoryDestination, MemorySource
from connectors.protocol import (
    ConsentEvidence,
    Count,
    Destination,
    EffectKind,
    EffectTraits,
    Landing,
    Page,
    Receipt,
    Record,
    Stream,
    Subject,
    Window,
    Write,
)

PAGE = 250
CONCURRENCY = 10
GIVEN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SAID = ConsentEvidence("SUBSCRIBED", "SINGLE_OPT_IN", GIVEN, True, False, "bench")


class Stock(MemorySource):
    """``size`` customers who may be mailed, made page by page: memory stays flat whatever the size."""

    def __init__(self, size: int) -> None:
        super().__init__(page_size=PAGE)
        self.size = size

    async def count(self, stream: Stream, window: Window) -> Count:
        return Count(self.size, exact=True)

    async def read_page(self, stream: Stream, window: Window, after: str | None) -> Page:
        first = int(after or 0)
        last = min(first + PAGE, self.size)
        records = tuple(_customer(number, number - first) for number in range(first, last))
        return Page(records, str(last) if last < self.size else None, "bench-1")

    def query_digest(self, stream: Stream, window: Window) -> str:
        return hashlib.sha256(f"{stream} {self.size}".encode()).hexdigest()


def _customer(number: int, position: int) -> Record:
    at = GIVEN + timedelta(seconds=number)
    name = f"Name {number}"
    fields = {
        "id": str(number),
        "firstName": name,
        "lastName": "Bench",
        "updatedAt": at.isoformat(),
        "tags": ["a", "b"],
    }
    subject = Subject(str(number), f"c{number}@shop.example", SAID)
    return Record(Stream.CUSTOMERS, str(number), position, at, fields, subject)


class Waiting(MemoryDestination):
    """Takes every write after ``latency`` seconds and keeps nothing but a count."""

    def __init__(self, latency: float) -> None:
        super().__init__()
        self.latency = latency
        self.taken = 0
        self.traits: Mapping[EffectKind, EffectTraits] = memory.some_traits(concurrency=CONCURRENCY)

    async def write(self, writes: Sequence[Write], *, by: float) -> Sequence[Receipt]:
        await asyncio.sleep(self.latency)
        self.taken += len(writes)
        return [Receipt(w.effect_key, Landing.LANDED, destination_id="1", grants=True) for w in writes]


def over_http(url: str) -> Destination:
    """The real Brevo connector against `serve`."""
    return registry.destination("brevo", {"base_url": url}, {"api_key": "xkeysib-of-a-bench"})


async def serve(latency: float) -> None:
    """Answers every POST /v3/contacts with 201 after ``latency`` seconds; prints its port and stays."""

    async def take(request: web.Request) -> web.Response:
        await request.read()
        if latency:
            await asyncio.sleep(latency)
        return web.Response(status=201, body=b'{"id":1}', content_type="application/json")

    app = web.Application()
    app.router.add_post("/v3/contacts", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
