"""The pair in memory keeps the contract of the real ones."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

pytest.register_assert_rewrite("tests.connectors.contract.source", "tests.connectors.contract.destination")

from connectors import errors, memory  # noqa: E402
from connectors.protocol import ConsentEvidence, Landing, OrderLine, Receipt, Record, Stream, Subject, Write  # noqa: E402
from tests.connectors.brevo.answers import an_order, order_write  # noqa: E402
from tests.connectors.contract import destination, source  # noqa: E402
from tests.connectors.contract.destination import DestinationContract, Person, State  # noqa: E402
from tests.connectors.contract.source import PAGE, SourceContract  # noqa: E402

T = TypeVar("T")
READS = ("read_page", "count", "reread", "identify")
ASKS = ("identify", "attributes", "list_name", "look", "look_address", "find", "write")
PROOF = ConsentEvidence("SUBSCRIBED", "SINGLE_OPT_IN", source.START, True, False, "test")


def run(doing: Any, connector: Any) -> Any:
    async def done() -> Any:
        return await doing(connector)

    return asyncio.run(done())


@dataclass
class SourceRig:
    one: memory.MemorySource = field(default_factory=lambda: memory.MemorySource(page_size=PAGE))
    edge: timedelta = timedelta(0)

    def put(self, stream: Stream, number: int, at: datetime, *, name: str = "Ada", lines: int = 1) -> None:
        fields = {"id": str(number), "firstName": name}
        order = an_order(name=name, lines=(OrderLine("BO", 1, "1.00"),) * lines) if stream is Stream.ORDERS else None
        subject = Subject(str(number), f"c{number}@example.com", PROOF)
        self.one.put(Record(stream, str(number), 0, at, fields, subject, order))

    def remove(self, stream: Stream, number: int) -> None:
        rows = self.one.records[stream]
        rows.remove(next(record for record in rows if record.id == str(number)))

    def name_of(self, record: Record) -> str:
        return str(record.fields["firstName"])

    def run(self, doing: source.Doing[T]) -> T:
        return run(doing, self.one)

    def run_renewed(self, doing: source.Doing[T]) -> T:
        """There is no token; another object over the same records is as far as it goes."""
        again = memory.MemorySource(self.one.records, identity=self.one.identity, page_size=PAGE)
        return run(doing, again)

    def run_next_version(self, doing: source.Doing[T]) -> T:
        identity = replace(self.one.identity, version_asked="memory-2")
        return run(doing, memory.MemorySource(self.one.records, identity=identity, page_size=PAGE))

    def lose_scope(self, scope: str) -> None:
        held = tuple(name for name in self.one.identity.scopes if name != scope)
        self.one.identity = replace(self.one.identity, scopes=held)

    def refuse_token(self) -> None:
        self._each(errors.TokenRefused("The token is refused."))

    def throttle(self, wait: timedelta) -> None:
        self._each(errors.Throttled("Slower.", wait=wait))

    def _each(self, error: errors.ConnectorError) -> None:
        for method in READS:
            self.one.fail(method, error)


@dataclass
class DestinationRig:
    one: memory.MemoryDestination = field(
        default_factory=lambda: memory.MemoryDestination(lists={7: "Shop customers", 8: "Newsletter"})
    )

    def run(self, doing: destination.Doing[T]) -> T:
        return run(doing, self.one)

    def run_renewed(self, doing: destination.Doing[T]) -> T:
        return run(doing, self.one)

    def run_refused(self, doing: destination.Doing[T]) -> T:
        for method in ASKS:
            self.one.fail(method, errors.TokenRefused("The key is refused."))
        return run(doing, self.one)

    def state(self) -> State:
        return State(
            people=tuple(_person(held) for held in self.one.people.values()),
            orders={number: order.status for number, order in self.one.orders.items()},
            events=tuple((event.name, event.effect_key) for event in self.one.events),
            triggered=Counter(self.one.triggered),
            violations=tuple(self.one.violations),
        )

    def add(self, address: str, subject_id: str | None = None, **held: Any) -> str:
        return self.one.add_person(
            address,
            subject_id,
            blocklisted=held.get("blocked", False),
            lists=set(held.get("lists", ())),
            left_lists=set(held.get("left", ())),
        ).id

    def unsubscribe(self, address: str, list_id: int | None = None) -> None:
        person = self._held(address)
        if list_id is None:
            person.blocklisted = True
        else:
            person.lists.discard(list_id)
            person.left_lists.add(list_id)

    def take_off(self, address: str, list_id: int) -> None:
        self._held(address).lists.remove(list_id)

    def delete(self, address: str) -> None:
        self.one.delete(self._held(address))

    def lose_answer(self, write: Write, *, applied: bool) -> None:
        self._answer(write, Landing.IN_DOUBT, "in_doubt", applied=applied)

    def throttle(self, write: Write, wait: timedelta | None) -> None:
        self._answer(write, Landing.PASSING, "throttled", wait=wait)

    def write_unreachable(self, writes: Sequence[Write]) -> Sequence[Receipt]:
        for write in writes:
            self._answer(write, Landing.PASSING, "not_sent")
        return destination.write(self, *writes)

    def rejected_order(self, number: int, *, history: bool) -> Write:
        write = order_write(number, history=history)
        self._answer(write, Landing.REJECTED, "rejected")
        return write

    def _answer(self, write: Write, landing: Landing, code: str, *, applied: bool = False, **more: Any) -> None:
        self.one.answer_for(write.effect_key, Receipt("", landing, code, **more), applied=applied)

    def _held(self, address: str) -> memory.Person:
        held = self.one.person(address)
        assert held is not None
        return held


def _person(held: memory.Person) -> Person:
    return Person(
        held.id,
        held.address.lower(),
        held.subject_id,
        held.blocklisted,
        frozenset(held.lists),
        frozenset(held.left_lists),
        dict(held.attributes),
    )


class TestMemorySource(SourceContract):
    @pytest.fixture
    def rig(self) -> SourceRig:
        return SourceRig()


class TestMemoryDestination(DestinationContract):
    @pytest.fixture
    def rig(self) -> DestinationRig:
        return DestinationRig()
