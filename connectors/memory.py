"""A source and a destination in memory, with faults on demand: for tests of the engine and for the litmus.

Both keep plain state that a test may set and read, note every call, and behave like the real ones where an engine
could go wrong: the source pages by a key, the destination never lifts a "no", appends events without looking, and
answers for each write on its own.
"""

import hashlib
import inspect
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from connectors import errors, protocol
from connectors.protocol import EffectKind, Landing, Receipt, Stream, Write

KIND = "memory"
PAGE_SIZE = 250
REREAD_MOST = 250
MARK_LENGTH = 12
LEADS_BACK = "again"
GENESIS = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Called:
    """One call that was made: the method and its arguments."""

    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one call.

    ``error`` is raised before anything happens; with ``after`` the call takes effect first and its answer is lost.
    ``change`` gets the call's real answer and returns the one that is given instead (it may be a coroutine function:
    it can wait, so that a test stands inside the call). Neither: the call goes well.
    """

    error: errors.ConnectorError | None = None
    after: bool = False
    change: Callable[[Any], Any] | None = None


class _Scripted:
    """Notes calls and plays the faults queued for a method, first come first served."""

    def __init__(self) -> None:
        self.calls: list[Called] = []
        self.closed = False
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)

    def fail(self, method: str, *faults: Fault | errors.ConnectorError) -> None:
        """Queue faults for the next calls of ``method``; an error alone is raised before anything happens."""
        self._faults[method].extend(
            Fault(error=fault) if isinstance(fault, errors.ConnectorError) else fault for fault in faults
        )

    def called(self, method: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of ``method`` so far."""
        return [call.arguments for call in self.calls if call.method == method]

    async def close(self) -> None:
        self.closed = True

    async def _play(self, method: str, arguments: tuple[Any, ...], answer: Callable[[], Any]) -> Any:
        self.calls.append(Called(method, arguments))
        queue = self._faults[method]
        fault = queue.popleft() if queue else Fault()
        if fault.error is not None and not fault.after:
            raise fault.error
        given = answer()
        if fault.error is not None:
            raise fault.error
        if fault.change is None:
            return given
        changed = fault.change(given)
        return await changed if inspect.isawaitable(changed) else changed


# --- Source -----------------------------------------------------------------------------------------------------


def repeated_cursor(page: protocol.Page) -> protocol.Page:
    """For `Fault.change`: the page promises more behind a cursor that never changes."""
    return replace(page, next=LEADS_BACK)


def emptied(page: protocol.Page) -> protocol.Page:
    """For `Fault.change`: the page came back without its records and without more."""
    return replace(page, records=(), next=None)


def another_version(page: protocol.Page) -> protocol.Page:
    """For `Fault.change`: the vendor served another version than the one asked for."""
    return replace(page, version_served="memory-2")


def counted(records: int, *, exact: bool = True) -> Callable[[Any], protocol.Count]:
    """For `Fault.change`: the source's own count says this."""
    return lambda _: protocol.Count(records, exact)


def contradiction() -> errors.Unreadable:
    """What a real source raises for a page that promises more and names no cursor."""
    return errors.Unreadable("The source promises more pages and names no cursor.", code="page_contradiction")


class MemorySource(_Scripted):
    """Records held per stream, read in pages by (updated_at, id). Set `records`, `identity`, `page_size` freely."""

    def __init__(
        self,
        records: Mapping[Stream, Iterable[protocol.Record]] | None = None,
        *,
        identity: protocol.Identity | None = None,
        page_size: int = PAGE_SIZE,
        settle: timedelta = timedelta(0),
        overlap: timedelta = timedelta(0),
    ) -> None:
        super().__init__()
        self.kind: str = KIND
        self.records: dict[Stream, list[protocol.Record]] = {stream: [] for stream in Stream}
        for stream, held in (records or {}).items():
            self.records[stream].extend(held)
        self.identity = identity or an_identity(("read_customers", "read_orders"))
        self.page_size = page_size
        self.traits = protocol.SourceTraits(
            page_size=page_size,
            settle=settle,
            overlap=overlap,
            needs=MappingProxyType(
                {
                    Stream.CUSTOMERS: frozenset({"read_customers"}),
                    Stream.ORDERS: frozenset({"read_orders", "read_customers"}),
                }
            ),
            starts_with_history=frozenset({Stream.CUSTOMERS}),
        )

    def put(self, record: protocol.Record) -> None:
        """Add a record, in place of one with the same id."""
        held = self.records[record.stream]
        held[:] = [other for other in held if other.id != record.id] + [record]

    async def identify(self) -> protocol.Identity:
        identity: protocol.Identity = await self._play("identify", (), lambda: self.identity)
        return identity

    async def count(self, stream: Stream, window: protocol.Window) -> protocol.Count:
        def answer() -> protocol.Count:
            self._demand(stream)
            return protocol.Count(len(self._inside(stream, window)), exact=True)

        found: protocol.Count = await self._play("count", (stream, window), answer)
        return found

    async def read_page(self, stream: Stream, window: protocol.Window, after: str | None) -> protocol.Page:
        def answer() -> protocol.Page:
            return self._page(stream, window, after)

        page: protocol.Page = await self._play("read_page", (stream, window, after), answer)
        return page

    async def reread(self, stream: Stream, ids: Sequence[str]) -> Sequence[protocol.Record | None]:
        if len(ids) > REREAD_MOST:
            raise ValueError(f"at most {REREAD_MOST} records are read again at once")

        def answer() -> list[protocol.Record | None]:
            self._demand(stream)
            held = {record.id: record for record in self.records[stream]}
            found = [held.get(id) for id in ids]
            return [record and replace(record, position=position) for position, record in enumerate(found)]

        again: Sequence[protocol.Record | None] = await self._play("reread", (stream, tuple(ids)), answer)
        return again

    def query_digest(self, stream: Stream, window: protocol.Window) -> str:
        bounds = (
            None if bound is None else bound.astimezone(UTC).isoformat() for bound in (window.since, window.until)
        )
        text = "|".join(map(str, (stream, *bounds, self.page_size, self.identity.version_asked)))
        return hashlib.sha256(text.encode()).hexdigest()

    def _page(self, stream: Stream, window: protocol.Window, after: str | None) -> protocol.Page:
        self._demand(stream)
        mark = self.query_digest(stream, window)[:MARK_LENGTH]
        place = _place(after, mark)
        rest = [record for record in self._inside(stream, window) if place is None or _key(record) > place]
        page = rest[: self.page_size]
        following = f"{mark} {_key(page[-1])}" if len(rest) > len(page) else None
        numbered = tuple(replace(record, position=position) for position, record in enumerate(page))
        return protocol.Page(numbered, following, self.identity.version_served or "")

    def _demand(self, stream: Stream) -> None:
        missing = sorted(self.traits.needs[stream] - set(self.identity.scopes))
        if missing:
            raise errors.ScopeMissing(f"The token lacks the scope {' and '.join(missing)}: grant it, then try again.")

    def _inside(self, stream: Stream, window: protocol.Window) -> list[protocol.Record]:
        inside = (record for record in self.records[stream] if _is_inside(record, window))
        return sorted(inside, key=_key)


def _place(after: str | None, mark: str) -> str | None:
    """The key a cursor stands for; CursorStale for the cursor of another query."""
    if after is None or after == LEADS_BACK:
        return after
    made_under, _, place = after.partition(" ")
    if made_under != mark:
        raise errors.CursorStale("The page cursor was made under another query; the window is read again.")
    return place


def _is_inside(record: protocol.Record, window: protocol.Window) -> bool:
    at = record.updated_at
    return at is None or ((window.since is None or at >= window.since) and at < window.until)


def _key(record: protocol.Record) -> str:
    at = (record.updated_at or GENESIS).astimezone(UTC)
    return f"{at.isoformat(timespec='microseconds')} {record.id:0>20}"


def an_identity(scopes: tuple[str, ...] = (), *, account: str = "1", label: str = "Memory") -> protocol.Identity:
    """Who a pair in memory says it is; its clock is this process's."""
    return protocol.Identity(
        account=account,
        label=label,
        scopes=scopes,
        server_time=datetime.now(UTC),
        version_asked="memory-1",
        version_served="memory-1",
    )


# --- Destination ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Person:
    """A contact as the destination keeps it. A test may change every field, as people at the vendor do."""

    id: str
    subject_id: str | None
    address: str
    attributes: dict[str, Any] = field(default_factory=dict)
    lists: set[int] = field(default_factory=set)
    left_lists: set[int] = field(default_factory=set)
    blocklisted: bool = False

    def seen(self) -> protocol.Contact:
        return protocol.Contact(
            id=self.id,
            subject_id=self.subject_id,
            blocklisted=self.blocklisted,
            left_lists=frozenset(self.left_lists),
            lists=frozenset(self.lists),
            attributes=MappingProxyType(dict(self.attributes)),
        )


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it was appended; the same one twice is here twice."""

    name: str
    subject_id: str
    at: datetime | None
    effect_key: str
    properties: Mapping[str, Any]


def lost(code: str = "in_doubt") -> errors.InDoubt:
    """An answer that never came."""
    return errors.InDoubt("No answer came; the write may have been stored.", code=code)


class MemoryDestination(_Scripted):
    """Contacts, lists, orders and events of one account, with a vendor's consent rules.

    `violations` holds what must never happen: somebody deleted who is created again, an order or event for somebody
    who is blocklisted. `answer_for` queues a receipt for a single effect key; faults queue for whole calls.
    """

    def __init__(
        self,
        *,
        lists: Mapping[int, str] | None = None,
        attributes: Mapping[str, str] | None = None,
        identity: protocol.Identity | None = None,
        traits: Mapping[EffectKind, protocol.EffectTraits] | None = None,
    ) -> None:
        super().__init__()
        self.kind: str = KIND
        self.lists: dict[int, str] = dict(lists if lists is not None else {7: "Newsletter"})
        self.attribute_types: dict[str, str] = dict(attributes if attributes is not None else {"FIRSTNAME": "text"})
        self.identity = identity or an_identity(("contacts:write",), account="acme", label="Acme")
        self.traits = traits or some_traits()
        self.people: dict[str, Person] = {}
        self.orders: dict[str, protocol.Order] = {}
        self.triggered: list[str] = []
        self.events: list[Event] = []
        self.violations: list[str] = []
        self._receipts: dict[str, deque[tuple[Receipt, bool]]] = defaultdict(deque)
        self._made = 0
        self._deleted: set[str] = set()

    # -- what a test sets up -----------------------------------------------------------------------------------------

    def add_person(self, address: str, subject_id: str | None = None, **fields: Any) -> Person:
        """Somebody who is simply there."""
        self._made += 1
        person = Person(str(self._made), subject_id, address, **fields)
        self.people[person.id] = person
        return person

    def answer_for(self, effect_key: str, receipt: Receipt, *, applied: bool = False) -> None:
        """The next write of ``effect_key`` gets this receipt; ``applied`` says whether it takes effect as well."""
        self._receipts[effect_key].append((receipt, applied))

    def person(self, address: str) -> Person | None:
        """Who has this address."""
        return next((person for person in self.people.values() if person.address.lower() == address.lower()), None)

    def delete(self, person: Person) -> None:
        """Somebody at the vendor deletes a contact: its block is forgotten with it."""
        del self.people[person.id]
        self._deleted.add(person.address.lower())

    # -- the protocol ------------------------------------------------------------------------------------------------

    async def identify(self) -> protocol.Identity:
        identity: protocol.Identity = await self._play("identify", (), lambda: self.identity)
        return identity

    async def attributes(self) -> Mapping[str, str]:
        found: Mapping[str, str] = await self._play("attributes", (), lambda: dict(self.attribute_types))
        return found

    async def list_name(self, list_id: int) -> str | None:
        name: str | None = await self._play("list_name", (list_id,), lambda: self.lists.get(list_id))
        return name

    async def look(self, subject_ids: Sequence[str]) -> Mapping[str, protocol.Contact | None]:
        def answer() -> dict[str, protocol.Contact | None]:
            return {subject_id: _seen(self._subject(subject_id)) for subject_id in subject_ids}

        found: Mapping[str, protocol.Contact | None] = await self._play("look", (tuple(subject_ids),), answer)
        return found

    async def look_address(self, addresses: Sequence[str]) -> Mapping[str, protocol.Contact | None]:
        def answer() -> dict[str, protocol.Contact | None]:
            return {address: _seen(self.person(address)) for address in addresses}

        found: Mapping[str, protocol.Contact | None] = await self._play("look_address", (tuple(addresses),), answer)
        return found

    async def write(self, writes: Sequence[Write], *, by: float) -> Sequence[Receipt]:
        if len({write.kind for write in writes}) > 1 or any(len(writes) > self.traits[w.kind].batch for w in writes):
            raise ValueError("write takes writes of one kind, at most as many as the traits say")

        def answer() -> list[Receipt]:
            if time.monotonic() >= by:
                return [_late(write) for write in writes]
            return [self._written(write) for write in writes]

        receipts: Sequence[Receipt] = await self._play("write", (tuple(writes),), answer)
        return receipts

    async def find(self, doubts: Sequence[protocol.Doubt], *, by: float) -> frozenset[str]:
        def answer() -> frozenset[str]:
            return frozenset(doubt.effect_key for doubt in doubts) & {event.effect_key for event in self.events}

        found: frozenset[str] = await self._play("find", (tuple(doubts),), answer)
        return found

    # -- what writes do ----------------------------------------------------------------------------------------------

    def _written(self, write: Write) -> Receipt:
        queued = self._receipts[write.effect_key]
        if not queued:
            return self._apply(write)
        receipt, applied = queued.popleft()
        if applied:
            self._apply(write)
        return replace(receipt, effect_key=write.effect_key)

    def _apply(self, write: Write) -> Receipt:
        if write.kind is EffectKind.CONTACT:
            return self._contact(write)
        if write.kind is EffectKind.WITHDRAWAL:
            return self._withdrawal(write)
        if write.kind is EffectKind.ORDER:
            return self._order(write)
        return self._event(write)

    def _contact(self, write: Write) -> Receipt:
        held = (
            self._known(write) if write.known else self._subject(write.subject_id) or self.person(write.address or "")
        )
        if held is not None:
            return self._update(write, held)
        if write.known:
            receipt = _refused(write, "suppressed", write.destination_id)
            return replace(receipt, suppress=True)
        if (write.address or "").lower() in self._deleted:
            self.violations.append(f"{write.id} was deleted and created again")
        self._require_list(write.list_id)
        made = self.add_person(write.address or "", write.subject_id, attributes=_filled(write.attributes))
        self._join(made, write.list_id)
        return Receipt(write.effect_key, Landing.LANDED, destination_id=made.id, grants=write.list_id is not None)

    def _update(self, write: Write, held: Person) -> Receipt:
        code = self._no(write, held)
        if code is not None:
            return _refused(write, code, held.id)
        member = write.list_id in held.lists
        grant = write.list_id is not None and not member and _newer(write)
        if grant:
            self._require_list(write.list_id)
        held.attributes.update(_filled(write.attributes))
        held.subject_id = held.subject_id or write.subject_id
        if grant:
            self._join(held, write.list_id)
        left_off = write.list_id is not None and not member and not grant
        return Receipt(
            write.effect_key,
            Landing.LANDED,
            code="left_off_list" if left_off else "",
            destination_id=held.id,
            grants=grant or (member and write.granted_at is None),
        )

    def _no(self, write: Write, held: Person) -> str | None:
        if write.list_id in held.left_lists:
            return "destination_unsubscribed"
        if held.blocklisted:
            return "destination_blocklisted"
        return None if held.address.lower() == (write.address or "").lower() else "address_changed"

    def _join(self, person: Person, list_id: int | None) -> None:
        if list_id is not None:
            person.lists.add(list_id)

    def _require_list(self, list_id: int | None) -> None:
        if list_id is not None and list_id not in self.lists:
            raise _list_missing()

    def _withdrawal(self, write: Write) -> Receipt:
        self._require_list(write.list_id)
        held = self._known(write)
        if held is not None and write.list_id is not None:
            held.lists.discard(write.list_id)
        return Receipt(
            write.effect_key,
            Landing.LANDED,
            destination_id=held.id if held else write.destination_id,
            suppress=held is None and write.known,
        )

    def _order(self, write: Write) -> Receipt:
        if write.order is None:
            raise ValueError("a write of an order needs the order")
        self._watch(write)
        self.orders[write.id] = write.order
        if not write.history:
            self.triggered.append(write.id)
        return Receipt(write.effect_key, Landing.LANDED)

    def _event(self, write: Write) -> Receipt:
        if self._known(write) is None:
            return Receipt(write.effect_key, Landing.REJECTED, "rejected", "The destination knows no such contact.")
        self._watch(write)
        properties = MappingProxyType(_filled(write.attributes))
        self.events.append(
            Event(write.event_name or "", write.subject_id, write.event_at, write.effect_key, properties)
        )
        return Receipt(write.effect_key, Landing.LANDED, destination_id=write.destination_id)

    def _watch(self, write: Write) -> None:
        person = self._known(write)
        if person is not None and person.blocklisted:
            self.violations.append(f"{write.kind} {write.id} for somebody blocklisted")

    def _subject(self, subject_id: str) -> Person | None:
        return next((person for person in self.people.values() if person.subject_id == subject_id), None)

    def _known(self, write: Write) -> Person | None:
        if write.destination_id is not None:
            return self.people.get(write.destination_id)
        return self._subject(write.subject_id)


def some_traits(**changes: Any) -> Mapping[EffectKind, protocol.EffectTraits]:
    """Traits as the real destination has them, without its waits; ``changes`` apply to every kind."""
    contact = protocol.EffectTraits(
        batch=1, concurrency=10, deadline=timedelta(seconds=30), idempotent=True, settle=timedelta(0), looks=False
    )
    kinds = {
        EffectKind.CONTACT: contact,
        EffectKind.WITHDRAWAL: contact,
        EffectKind.ORDER: replace(contact, batch=100, concurrency=2, looks=True),
        EffectKind.EVENT: replace(contact, idempotent=False, looks=True),
    }
    return MappingProxyType({kind: replace(traits, **changes) for kind, traits in kinds.items()})


def _seen(person: Person | None) -> protocol.Contact | None:
    return None if person is None else person.seen()


def _filled(attributes: protocol.Json) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def _newer(write: Write) -> bool:
    if write.granted_at is None:
        return True
    return write.consent_at is not None and write.consent_at > write.granted_at


def _list_missing() -> errors.Refused:
    return errors.Refused("The list does not exist any more: choose another one.", code="list_missing")


def _late(write: Write) -> Receipt:
    sentence = "The deadline had passed; nothing was sent."
    return Receipt(write.effect_key, Landing.PASSING, "not_sent", sentence, write.destination_id)


def _refused(write: Write, code: str, destination_id: str | None) -> Receipt:
    sentence = "The destination's own no stands."
    return Receipt(write.effect_key, Landing.REFUSED, code, sentence, destination_id)
