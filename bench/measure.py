"""One measurement in a process of its own: the engine or the bare loop, with its time, CPU and peak memory."""

import asyncio
import json
import resource
import sys
import time
import uuid
from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402

from bench import doubles  # noqa: E402
from connectors.protocol import Destination, EffectKind, Window, Write  # noqa: E402
from syncs.domain import rule as rules  # noqa: E402
from syncs.domain.clock import SystemClock  # noqa: E402
from syncs.domain.lifecycle import Lane  # noqa: E402
from syncs.domain.mapping import Mapper  # noqa: E402
from syncs.engine import publication, worker  # noqa: E402
from syncs.engine.database import Database, parameters  # noqa: E402
from syncs.engine.outside import Connected, Outside, Terms  # noqa: E402
from syncs.models import Connection, Run, Sync, Version, Workspace  # noqa: E402
from syncs.services import runs, vigil  # noqa: E402
from syncs.services.actors import database_now  # noqa: E402

RULE = {
    "stream": "customers",
    "list_id": 7,
    "mapping": [{"to": "FIRSTNAME", "source": "firstName"}, {"to": "LASTNAME", "source": "lastName"}],
}
SECRET = bytes(range(32))


@dataclass(frozen=True, slots=True)
class Task:
    """What to measure: ``how`` engine or bare, over ``ends`` memory or http, ``syncs`` of ``records`` each."""

    how: str
    ends: str
    records: int
    latency: float
    syncs: int
    url: str


def destination(task: Task) -> Destination:
    return doubles.over_http(task.url) if task.ends == "http" else doubles.Waiting(task.latency)


def publish(number: int) -> Sync:
    """A published sync of the benchmark, with a list of its own."""
    workspace = Workspace.objects.create(name="Bench", slug=f"bench-{uuid.uuid4().hex[:12]}")
    ends = {}
    for side in ("source", "destination"):
        ends[side] = Connection.objects.create(workspace=workspace, name=side, kind="memory")
        ends[side].seal({"token": "token-of-a-bench"})
        ends[side].save()
    sync = Sync.objects.create(workspace=workspace, name="Bench", draft=RULE, **ends)
    rule = rules.parse({**RULE, "list_id": 7})
    facts = {
        "source": publication.facts_of("memory", doubles.Stock(0).identity),
        "destination": publication.facts_of("memory", doubles.Waiting(0).identity),
    }
    sides = [publication.connection_facts(facts[side]) for side in ("source", "destination")]
    sync.published = Version.objects.create(
        sync=sync,
        number=1,
        digest=rules.publication_digest(rule, *sides),
        digest_method=rules.DIGEST_METHOD,
        document=publication.document_text(rule),
        facts=facts,
        publisher_label="bench",
        published_at=database_now(),
    )
    sync.state, sync.target, sync.first_published_at = "published", f"bench:{sync.pk}", database_now()
    sync.save()
    return sync


class Identified:
    """The connector under measurement, with an identity that asks nobody."""

    def __init__(self, inner: Destination) -> None:
        self._inner = inner
        self.kind = "memory"
        self.traits = inner.traits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def identify(self) -> Any:
        return doubles.Waiting(0).identity


async def engine(task: Task, syncs: list[Sync]) -> None:
    """Every sync's run, driven by one worker in this loop."""

    async def connect(sync_id: int) -> Connected:
        return Connected(doubles.Stock(task.records), Identified(destination(task)), SECRET, "UTC")

    given = Outside(
        database=Database(parameters(settings.DATABASES["default"])),
        clock=SystemClock(),
        terms=replace(Terms(), slice=timedelta(hours=1), recount=timedelta(0)),
        connect=connect,
        effect_secret=SECRET,
        holder="bench:1:1",
        jitter=lambda: 0.0,
    )
    await worker.work(given)


async def bare(task: Task) -> None:
    """The same reads and calls, ten in flight, with nothing around them. The next page is read meanwhile too."""
    source, end = doubles.Stock(task.records), destination(task)
    mapper = Mapper(rules.parse(RULE), "1", prefix="memory")
    window = Window(None, source.identity.server_time)
    after: str | None = None
    writes: deque[Write] = deque()
    flying: set[asyncio.Task[Any]] = set()
    exhausted = False
    while writes or flying or not exhausted:
        if not writes and not exhausted:
            page = await source.read_page(rules.parse(RULE).stream, window, after)
            after, exhausted = page.next, page.next is None
            for record in page.records:
                assert record.subject is not None  # noqa: S101 - the stock makes no other
                effect = mapper.effects(record, record.subject.address)[0]
                writes.append(effect.write(effect_key=record.id))
        while writes and len(flying) < doubles.CONCURRENCY:
            flying.add(asyncio.create_task(end.write([writes.popleft()], by=time.monotonic() + 30)))
        done, flying = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
        for task_ in done:
            task_.result()
    await end.close()


def measure(task: Task) -> dict[str, Any]:
    """Run it and answer seconds, CPU seconds of this process, peak memory in MiB, and the runs' own durations."""
    started: list[Run] = []
    if task.how == "engine":
        syncs = [publish(number) for number in range(task.syncs)]
        started = [runs.run_start(vigil(), sync, lane=Lane.SCHEDULED) for sync in syncs]
    wall, cpu = time.perf_counter(), time.process_time()
    if task.how == "engine":
        asyncio.run(engine(task, syncs))
    else:
        asyncio.run(_all_bare(task))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    durations = []
    for run in started:
        run.refresh_from_db()
        assert (run.outcome, run.states) == ("succeeded", {"written": task.records}), run.error_sentence  # noqa: S101
        assert run.finished_at is not None and run.created_at is not None  # noqa: S101
        durations.append((run.finished_at - run.created_at).total_seconds())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": wall, "cpu": cpu, "peak_mib": peak, "durations": durations}


async def _all_bare(task: Task) -> None:
    await asyncio.gather(*[bare(task) for _ in range(task.syncs)])


assert EffectKind.CONTACT in doubles.Waiting(0).traits  # noqa: S101 - both sides send contacts

if __name__ == "__main__":
    print(json.dumps(measure(Task(**json.loads(sys.argv[1])))))
