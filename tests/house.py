"""A house to test the engine in: one workspace, one sync, connectors in memory, the real database.

`House.run` drives due runs as a worker would, with the terms a test asks for; `House.child` does the same in a child
process that a test may crash at a named point, against sandbox vendors.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings

from connectors.memory import MemoryDestination, MemorySource
from connectors.protocol import ConsentEvidence, Order, OrderLine, Record, Stream, Subject
from syncs.domain import rule as rules
from syncs.domain.clock import SystemClock
from syncs.domain.lifecycle import Lane
from syncs.engine import publication, worker
from syncs.engine.database import Database, parameters
from syncs.engine.outside import Connected, Outside, Terms
from syncs.models import Connection, Cursor, Delivery, Run, Sync, Tombstone, Version, Workspace
from syncs.services import runs, vigil
from syncs.services.actors import database_now

GIVEN_AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
EARLIER = datetime(2026, 2, 1, 12, 0, tzinfo=UTC)
SECRET = bytes(range(32))
QUICK = Terms(
    lease=timedelta(seconds=60),
    renew=timedelta(seconds=20),
    slice=timedelta(seconds=20),
    recount=timedelta(seconds=0),
    retry_scale=0.0,
)
CONTACTS = {"stream": "customers", "list_id": 7, "mapping": [{"to": "FIRSTNAME", "source": "firstName"}]}
ORDERS = {"stream": "orders", "events": ["order_placed"], "history_events": True}


def consent(state: str | None = "SUBSCRIBED", level: str | None = "SINGLE_OPT_IN", **changes: Any) -> ConsentEvidence:
    said: dict[str, Any] = {"given_at": GIVEN_AT, "valid_format": True, "data_sale_opt_out": False, "field": "test"}
    return ConsentEvidence(state=state, level=level, **{**said, **changes})


def customer(
    number: int,
    name: str = "Ada",
    *,
    address: str | None = "",
    updated_at: datetime | None = None,
    said: ConsentEvidence | None = None,
) -> Record:
    """A customer who may be mailed, unless ``said`` says otherwise. ``address`` "" stands for one of their own."""
    own = f"c{number}@shop.example" if address == "" else address
    at = updated_at or EARLIER + timedelta(seconds=number)
    return Record(
        stream=Stream.CUSTOMERS,
        id=str(number),
        position=0,
        updated_at=at,
        fields={"id": str(number), "firstName": name, "updatedAt": at.isoformat()},
        subject=Subject(str(number), own, said or consent()),
    )


def order(
    number: int, of: int | None = 1, *, amount: str = "12.50", updated_at: datetime | None = None, **changes: Any
) -> Record:
    """An order of customer ``of`` (None: nobody)."""
    at = updated_at or EARLIER + timedelta(hours=1, seconds=number)
    facts: dict[str, Any] = {
        "name": f"#{number}",
        "status": "paid",
        "amount": amount,
        "currency": "EUR",
        "created_at": EARLIER,
        "updated_at": at,
        "lines": (OrderLine("sku-1", 1, amount),),
        "placed_at": EARLIER,
        "cancelled_at": None,
        "refunded_total": None,
        "test": False,
    }
    return Record(
        stream=Stream.ORDERS,
        id=str(number),
        position=0,
        updated_at=at,
        fields={"id": str(number), "amount": amount, "updatedAt": at.isoformat()},
        subject=None if of is None else Subject(str(of), f"c{of}@shop.example", consent()),
        order=Order(**{**facts, **changes}),
    )


@dataclass
class House:
    """One published sync between a source and a destination in memory."""

    source: MemorySource
    destination: MemoryDestination
    sync: Sync
    terms: Terms = QUICK
    clock: SystemClock = field(default_factory=SystemClock)
    holder: str = "test:1:1"
    at: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(seconds=2))

    def soon(self) -> datetime:
        """An instant that the next run's window covers and the last one's did not."""
        return self.at + timedelta(seconds=30)

    @classmethod
    def build(cls, rule: Mapping[str, Any] = CONTACTS, *, page_size: int = 5, name: str = "Contacts") -> "House":
        """A workspace, two connections and a sync with ``rule``, published."""
        source, destination = MemorySource(page_size=page_size), MemoryDestination()
        workspace = Workspace.objects.create(name="Test", slug=f"test-{name.lower()}")
        ends = {}
        for kind, label in (("source", "Shop"), ("destination", "Mail")):
            end = Connection.objects.create(workspace=workspace, name=f"{label}", kind="memory", options={})
            end.seal({"token": "token-of-a-test"})
            end.save()
            ends[kind] = end
        document = rules.document(rules.parse(rule))
        sync = Sync.objects.create(workspace=workspace, name=name, draft=document, **ends)
        house = cls(source, destination, sync)
        house.publish()
        return house

    def publish(self, rule: Mapping[str, Any] | None = None) -> Version:
        """Publish the draft, or ``rule``, as `services.sync_publish` does, without a preview."""
        if rule is not None:
            self.sync.draft = rules.document(rules.parse(rule))
        parsed = rules.parse(self.sync.draft)
        facts = {
            "source": publication.facts_of("memory", self.source.identity),
            "destination": publication.facts_of("memory", self.destination.identity),
        }
        sides = [publication.connection_facts(facts[side]) for side in ("source", "destination")]
        now = database_now()
        version = Version.objects.create(
            sync=self.sync,
            number=self.sync.versions.count() + 1,
            digest=rules.publication_digest(parsed, *sides),
            digest_method=rules.DIGEST_METHOD,
            document=publication.document_text(parsed),
            facts=facts,
            publisher_label="a test",
            published_at=now,
        )
        self.sync.published, self.sync.state, self.sync.changed_at = version, "published", now
        self.sync.first_published_at = self.sync.first_published_at or now
        self.sync.target = publication.target_of(parsed, facts)
        self.sync.save()
        return version

    def outside(self, **changes: Any) -> Outside:
        async def connect(sync_id: int) -> Connected:
            return Connected(self.source, self.destination, SECRET, "UTC")

        given: dict[str, Any] = {
            "database": Database(parameters(settings.DATABASES["default"])),
            "clock": self.clock,
            "terms": self.terms,
            "connect": connect,
            "effect_secret": SECRET,
            "holder": self.holder,
            "jitter": lambda: 0.0,
        }
        return Outside(**{**given, **changes})

    def start(self, lane: Lane = Lane.SCHEDULED) -> Run:
        """A person starts a run, a minute of the source's time after the last one; the queue is not asked."""
        self.at += timedelta(minutes=1)
        self.source.identity = replace(self.source.identity, server_time=self.at)
        return runs.run_start(vigil(), self.sync, lane=lane)

    def work(self, **changes: Any) -> list[int]:
        """Drive what is due in this process, as one poke would."""
        return asyncio.run(worker.work(self.outside(**changes)))

    def run(self, lane: Lane = Lane.SCHEDULED, *, times: int = 12) -> Run:
        """Start a run and drive it to its end, through all its attempts and slices."""
        run = self.start(lane)
        for _ in range(times):
            run.refresh_from_db()
            if run.state == "finished":
                break
            self.work()
        run.refresh_from_db()
        return run

    def start_forced(self, lane: Lane) -> Run:
        """A run that sends again what is unchanged, driven to its end."""
        self.at += timedelta(minutes=1)
        self.source.identity = replace(self.source.identity, server_time=self.at)
        run = runs.run_start(vigil(), self.sync, lane=lane, force=True)
        self.work()
        run.refresh_from_db()
        return run

    def cursor(self, lane: Lane = Lane.SCHEDULED) -> Cursor:
        return Cursor.objects.get(sync=self.sync, lane=lane.value)

    def deliveries(self, **conditions: Any) -> list[Delivery]:
        return list(Delivery.objects.filter(sync=self.sync, **conditions).order_by("id"))

    def tombstones(self) -> dict[str, int]:
        """Object -> how many effects of it were settled."""
        return dict(Tombstone.objects.filter(sync=self.sync).values_list("object", "seq"))

    def states(self) -> dict[str, int]:
        """Deliveries by state."""
        counted: dict[str, int] = {}
        for delivery in self.deliveries():
            counted[delivery.state] = counted.get(delivery.state, 0) + 1
        return counted
