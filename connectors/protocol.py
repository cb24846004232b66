"""The values that cross a connector's border, and what a source and a destination promise.

A source reads and has no method that could write (PRODUCT 3.10). A destination takes writes that cannot express a
resubscription: no type here has a field for it (PRODUCT 3.7). Connectors know nothing of syncs, settings or models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

Json = Mapping[str, Any]


class Stream(StrEnum):
    """Which kind of record a sync reads."""

    CUSTOMERS = "customers"
    ORDERS = "orders"


class EffectKind(StrEnum):
    """What the destination is to see once (PRODUCT 2.2)."""

    CONTACT = "contact"
    WITHDRAWAL = "withdrawal"
    ORDER = "order"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class ConsentEvidence:
    """What the source says about the permission to mail one person. Holds no personal data.

    ``state`` and ``level`` are the vendor's own words, None when the source gave none. ``given_at`` is when the state
    was set; None when the source does not know. ``valid_format`` is the source's own verdict on the address.
    ``field`` names where it was read, for people who ask.
    """

    state: str | None
    level: str | None
    given_at: datetime | None
    valid_format: bool | None
    data_sale_opt_out: bool
    field: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The person a record is about. ``id`` is the source's own id as text; ``address`` as the source spells it."""

    id: str
    address: str | None
    consent: ConsentEvidence


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One line of an order: ``sku`` is the product id at the destination; ``price`` decimal text, per piece."""

    sku: str
    quantity: int
    price: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order as a destination needs it. Money is decimal text in ``currency``, never a float."""

    name: str
    status: str
    amount: str
    currency: str
    created_at: datetime
    updated_at: datetime
    lines: tuple[OrderLine, ...]
    placed_at: datetime
    cancelled_at: datetime | None
    refunded_total: str | None
    test: bool


@dataclass(frozen=True, slots=True)
class Record:
    """One thing read. ``fields`` is the source's JSON node as read (numbers as text or Decimal, never float).

    ``id`` is the source's id as decimal text. ``subject`` is None where the record names no person (an order without
    a customer). ``order`` is set for the orders stream only. ``position`` is the index on its page.
    """

    stream: Stream
    id: str
    position: int
    updated_at: datetime | None
    fields: Json
    subject: Subject | None
    order: Order | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of source time a read covers: ``since`` inclusive (None: from the beginning), ``until`` exclusive."""

    since: datetime | None
    until: datetime


@dataclass(frozen=True, slots=True)
class Page:
    """What one request read. ``next`` is the cursor to go on from, None when the read is exhausted."""

    records: tuple[Record, ...]
    next: str | None
    version_served: str


@dataclass(frozen=True, slots=True)
class Count:
    """The source's own count for a window. ``exact`` is False when the source only says "at least"."""

    records: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a credential belongs to and what it may do (PRODUCT 5.2, 6.2).

    ``account`` is the vendor's stable id of shop or account, ``label`` the name people know. ``server_time`` is the
    vendor's own clock at the answer. ``version_served`` is None where the vendor does not version its answers.
    """

    account: str
    label: str
    scopes: tuple[str, ...]
    server_time: datetime
    version_asked: str | None = None
    version_served: str | None = None


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """What an engine must know to read a source well.

    ``settle`` is how long the source's index may lag: a read ends that long before now. ``overlap`` is how far a read
    reaches back before the last watermark (PRODUCT 1.5). ``needs`` maps a stream to the scopes it cannot do without.
    """

    page_size: int
    settle: timedelta
    overlap: timedelta
    needs: Mapping[Stream, frozenset[str]]
    starts_with_history: frozenset[Stream]


class Source(Protocol):
    """Reads pages. Every method raises `connectors.errors`: Passing, Refused or Unreadable, and nothing else."""

    kind: str
    traits: SourceTraits

    async def identify(self) -> Identity:
        """Ask the vendor who this credential is, fresh."""
        ...

    async def count(self, stream: Stream, window: Window) -> Count:
        """The source's own count for exactly the filter that `read_page` uses."""
        ...

    async def read_page(self, stream: Stream, window: Window, after: str | None) -> Page:
        """The page behind cursor ``after`` (None: the first), ascending by (updated_at, id). Raises CursorStale."""
        ...

    async def reread(self, stream: Stream, ids: Sequence[str]) -> Sequence[Record | None]:
        """Fresh records by id, in the order asked; None where the source holds none any more. At most 250 ids."""
        ...

    def query_digest(self, stream: Stream, window: Window) -> str:
        """Binds a page cursor to the exact query that made it (PRODUCT 1.7)."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Write:
    """One effect on its way to the destination. It has no field that could lift anybody's "no" (PRODUCT 3.7).

    ``effect_key`` (hex) is what the destination may use to recognise a repeat. ``id`` is the natural id within its
    kind. ``subject_id`` is the destination's external id of the person. ``address`` is set for contacts only, in the
    form the destination compares (lower case, punycode domain). ``destination_id`` and ``known`` come from what was
    delivered before: a known contact is read before it is updated and never created again.
    ``consent_at`` is when the source's consent was given: a list membership is granted only on newer consent than
    ``granted_at``, the last grant of ours.
    ``history`` marks what must not start automations at the destination.
    """

    kind: EffectKind
    id: str
    effect_key: str
    subject_id: str
    address: str | None = None
    attributes: Json = field(default_factory=dict)
    list_id: int | None = None
    known: bool = False
    destination_id: str | None = None
    consent_at: datetime | None = None
    granted_at: datetime | None = None
    order: Order | None = None
    event_name: str | None = None
    event_at: datetime | None = None
    history: bool = False


class Landing(StrEnum):
    """How one write ended, as far as its answer shows."""

    LANDED = "landed"
    REFUSED = "refused"
    REJECTED = "rejected"
    DEFERRED = "deferred"
    PASSING = "passing"
    IN_DOUBT = "in_doubt"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer for one write, by its effect key.

    ``code`` names the reason for everything but LANDED. ``sentence`` is for people (no address, no secret).
    ``wait`` is how long the vendor asked us to wait, for PASSING. ``suppress`` asks for an entry in the suppression
    store (somebody deleted or erased this person at the destination). ``grants`` is True when the write put the
    person on the list.
    """

    effect_key: str
    landing: Landing
    code: str = ""
    sentence: str = ""
    destination_id: str | None = None
    wait: timedelta | None = None
    suppress: bool = False
    grants: bool = False


@dataclass(frozen=True, slots=True)
class Contact:
    """What the destination holds about a person now: its id, its "no", its lists, and the mapped attributes."""

    id: str
    subject_id: str | None
    blocklisted: bool
    left_lists: frozenset[int]
    lists: frozenset[int]
    attributes: Json


@dataclass(frozen=True, slots=True)
class Doubt:
    """An append that may have landed: what is needed to find it again. ``at`` bounds the look-up from below."""

    effect_key: str
    id: str
    event_name: str
    subject_id: str
    destination_id: str | None
    event_at: datetime
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class EffectTraits:
    """How a destination takes one kind of effect.

    ``batch`` is the most writes in one call, ``concurrency`` the most calls in flight, ``deadline`` the total time of
    one `write` including its read-back. ``idempotent`` says whether a repeat has no second effect; what is not is
    looked up before it is sent again, not before ``settle`` has passed (PRODUCT 2.4). ``looks`` says that the engine
    asks for the person's present state before it decides (orders and events, PRODUCT 3.9). ``findable`` says whether
    `find` can see it; what is neither idempotent nor findable is sent again and counted as a possible duplicate.
    """

    batch: int
    concurrency: int
    deadline: timedelta
    idempotent: bool
    settle: timedelta
    looks: bool
    findable: bool = True


class Destination(Protocol):
    """Takes writes. Raises `connectors.errors` only: Refused ends the run, Passing is tried again later."""

    kind: str
    traits: Mapping[EffectKind, EffectTraits]

    async def identify(self) -> Identity: ...

    async def attributes(self) -> Mapping[str, str]:
        """Attribute name -> type, for every contact attribute that exists at the destination."""
        ...

    async def list_name(self, list_id: int) -> str | None:
        """The list's name, None when it does not exist."""
        ...

    async def look(self, subject_ids: Sequence[str]) -> Mapping[str, Contact | None]:
        """The present state by external id, at most 60 s old; None where the destination holds nobody."""
        ...

    async def look_address(self, addresses: Sequence[str]) -> Mapping[str, Contact | None]:
        """The present state by address (previews)."""
        ...

    async def write(self, writes: Sequence[Write], *, by: float) -> Sequence[Receipt]:
        """Deliver writes of one kind, at most `traits[kind].batch`. One receipt per write, in order.

        ``by`` is a `time.monotonic()` instant: no byte leaves the house after it. Raises Refused when the destination
        refuses the run; what it raised for was not stored, unless the error is InDoubt.
        """
        ...

    async def find(self, doubts: Sequence[Doubt], *, by: float) -> frozenset[str]:
        """The effect keys among ``doubts`` that the destination holds: one windowed read, not one per doubt."""
        ...

    async def close(self) -> None: ...
