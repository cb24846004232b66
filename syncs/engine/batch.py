"""One page on its way to the destination: judge, map, claim, send, settle (PRODUCT 2.3 to 2.7, 3.6 to 3.9).

`deliver` walks a page in one straight line and answers how every record of it is decided. Nothing is called before it
is claimed, nothing goes out before it is marked as *sending* in a committed statement, and after a lost lease, a cancel
or a new publication no further call starts: what is out is awaited and recorded as what it is.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from connectors.errors import ConnectorError, InDoubt, Passing, Refused, Rejected, Unreadable
from connectors.protocol import ConsentEvidence, Contact, EffectKind, Page, Record, Stream
from syncs.domain import consent, keys, limits
from syncs.domain.consent import Judgement
from syncs.domain.lifecycle import UNDECIDED, DeliveryState, Lane, RecordState, worst
from syncs.domain.mapping import Effect
from syncs.domain.rule import ORDER_REFUNDED
from syncs.engine import crash, ledger, leftovers, sending
from syncs.engine.database import Cursor
from syncs.engine.ledger import Claim, Memory, Objection, Refusal
from syncs.engine.running import Running
from syncs.engine.sending import Item

LOOK_AGE = timedelta(seconds=30)
"""The oldest a look at a person may be here. The connector may answer one out of the half minute before: sixty seconds
in all (PRODUCT 3.7)."""

GOOD = frozenset({RecordState.WRITTEN, RecordState.UNCHANGED, RecordState.ALREADY_DELIVERED})
"""States of an order after which its events may go out."""


@dataclass(slots=True)
class Decision:
    """What becomes of one record: its own state before any effect, its effects, and the evidence of a refusal.

    ``said_no`` is the code of the record's own "no", whatever others of the address say; ``holders`` are the objects
    that its address went to under other records.
    """

    record: Record
    key: str
    judgement: Judgement
    state: RecordState | None = None
    code: str = ""
    sentence: str = ""
    items: list[Item] = field(default_factory=list)
    older: bool = False
    said_no: str = ""
    said_yes: bool = False
    holders: tuple[str, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)

    def refuse(self, code: str, state: RecordState = RecordState.REFUSED) -> None:
        """Nothing of the record goes out; what was claimed and never sent is closed with its page."""
        self.dropped.update({item.object: "" for item in self.items if item.never_sent})
        self.state, self.code, self.items = state, code, []

    @property
    def final(self) -> RecordState:
        """The worst of its own state and its effects (PRODUCT 2.2). A withdrawal that landed leaves it refused."""
        effects = [item.state for item in self.items if not (item.withdraws and item.state in GOOD)]
        return worst([*([self.state] if self.state else []), *effects])

    @property
    def reason(self) -> str:
        """The code that goes with its final state."""
        return next((item.code for item in self.items if item.state is self.final and item.code), self.code)


@dataclass(frozen=True, slots=True)
class Tally:
    """How a page is decided. ``refusals`` are kept when the cursor moves over it, and the objections of the ``willing``
    records end; ``error`` says why it does not move."""

    states: Counter[RecordState]
    reasons: Counter[str]
    refusals: tuple[Refusal, ...]
    willing: tuple[str, ...]
    anew: tuple[str, ...]
    changed_addresses: tuple[str, ...]
    good_contacts: tuple[str, ...]
    dropped: Mapping[str, str]
    set_aside: tuple[tuple[str, str], ...]
    failed: tuple[str, ...]
    waiting: tuple[str, ...]
    looked: timedelta
    error: Exception | None

    @property
    def decided(self) -> bool:
        return not any(self.states[state] for state in UNDECIDED)


def evidence_of(said: ConsentEvidence | None) -> dict[str, Any] | None:
    """The consent evidence as it is stored: no personal data (PRODUCT 3.6)."""
    if said is None:
        return None
    return {
        "state": said.state,
        "level": said.level,
        "given_at": None if said.given_at is None else said.given_at.isoformat(),
        "valid_format": said.valid_format,
        "data_sale_opt_out": said.data_sale_opt_out,
        "field": said.field,
    }


async def deliver(running: Running, page: Page, *, after: str | None, read_no: int) -> Tally:
    """Deliver one page and say how every record of it is decided.

    Raises LeaseLost, Superseded, Cancelled or Paused when the run may not go on, Refused when the destination refuses
    the run. Everything that went out before is settled. Passing trouble comes back as `Tally.error`.
    """
    began = running.outside.clock.monotonic()
    decisions = await decide(running, page, after=after, read_no=read_no)
    await ledger.note_objections(
        running.outside.database, sync_id=running.facts.sync_id, objections=_objections(running, decisions)
    )
    await _look(running, decisions)
    await _name_withdrawn(running, decisions)
    await _claim(running, decisions, read_no)
    error = await _send(running, decisions)
    error = await _alike(running, decisions) or error or await leftovers.settle(running, decisions)
    looked = LOOK_AGE + timedelta(seconds=running.outside.clock.monotonic() - began)
    return tally(running, decisions, error, looked)


async def decide(running: Running, page: Page, *, after: str | None, read_no: int) -> list[Decision]:
    """Everything about a page that is decided without a call to another system. It writes nothing."""
    decisions = await judge(running, page, after)
    if running.stream is Stream.CUSTOMERS:
        await heed_objections(running, decisions)
    else:
        await heed_objections_of_shop(running, decisions)
    memories = await remember(running, decisions)
    await keep_out_suppressed(running, decisions)
    for decision in decisions:
        plan(running, decision, memories, read_no)
    return decisions


BREATH = 25
"""Records after which the runs of other shops in the same loop get their turn: a rule may make each one cost."""


async def judge(running: Running, page: Page, after: str | None) -> list[Decision]:
    """The consent verdict of every record, grouped by destination object (PRODUCT 2.7, 3.6).

    Raises Unreadable for a record that nothing true can be said about.
    """
    now, decisions = running.outside.clock.now(), []
    for number, record in enumerate(page.records):
        if number % BREATH == 0:
            await asyncio.sleep(0)
        decisions.append(_judged(running, record, after, now))
    _group(decisions, lambda decision: decision.record.id, older=True)
    if running.stream is Stream.CUSTOMERS:
        _group(decisions, lambda decision: decision.judgement.address)
    return decisions


def _judged(running: Running, record: Record, after: str | None, now: datetime) -> Decision:
    try:
        key = keys.delivery_key(
            sync_id=running.facts.sync_id,
            source=running.source_account,
            after=after,
            position=record.position,
            fields=record.fields,
        )
    except keys.NotCanonical:
        raise _beyond(record) from None
    judgement = consent.judge_subject(record.subject, now, running.policy)
    decision = Decision(record=record, key=key, judgement=judgement)
    decision.said_no = consent.objection(judgement)
    decision.said_yes = consent.says_yes(record.subject)
    if not running.mapper.keeps(record):
        decision.state = RecordState.FILTERED
    return decision


def _beyond(record: Record) -> Unreadable:
    """A number or an instant that no system can hold: the source's answer is not what it says it is."""
    what = f"Record {record.id[:60]} holds a number or an instant beyond what can be kept."
    sentence = f"{what} Correct it at the source."
    return Unreadable(sentence, code="record_beyond_limits")


def _effects(running: Running, decision: Decision) -> list[Item]:
    try:
        effects = running.mapper.effects(decision.record, decision.judgement.address)
    except (keys.NotCanonical, OverflowError):
        raise _beyond(decision.record) from None
    return [Item(effect=effect, object=object_of(effect)) for effect in effects]


def _group(decisions: Sequence[Decision], of: Any, *, older: bool = False) -> None:
    """Of several records of one object the last position counts, under the strictest consent of them all.

    What the filter leaves out has a say in the consent and none in the position. ``older`` marks the others as
    readings of the very same record.
    """
    groups: dict[str, list[Decision]] = {}
    for decision in decisions:
        name = of(decision)
        if decision.state in (None, RecordState.FILTERED) and name is not None:
            groups.setdefault(name, []).append(decision)
    for group in (group for group in groups.values() if len(group) > 1):
        strictest = consent.strictest([decision.judgement for decision in group])
        kept = [decision for decision in group if decision.state is None]
        for decision in kept[:-1]:
            decision.state, decision.older = RecordState.SUPERSEDED, older
        if not strictest.allowed:
            for decision in group:
                decision.judgement = strictest


async def heed_objections(running: Running, decisions: Sequence[Decision]) -> None:
    """The strictest consent of an address, also where its records stand on different pages (PRODUCT 2.7).

    Whose address another record has said "no" for is refused like that one; and whoever says "no" now takes off the
    list what went to that address before, under another record.
    """
    page = {d.record.id for d in decisions}
    telling = {d.record.id for d in decisions if d.judgement.address or not d.said_no}
    by_key: dict[str, list[Decision]] = {}
    for decision in decisions:
        if decision.judgement.address and (decision.said_no or decision.judgement.allowed):
            by_key.setdefault(address_key(running, decision.judgement.address), []).append(decision)
    objections, holders = await ledger.others_of_addresses(
        running.outside.database,
        sync_id=running.facts.sync_id,
        address_keys=sorted(by_key),
        telling=sorted(telling),
        page=sorted(page),
    )
    taken: set[str] = set()
    for key, group in by_key.items():
        code = objections.get(key)
        for decision in group:
            if code and decision.judgement.allowed:
                decision.judgement = replace(decision.judgement, allowed=False, code=code, withdrawn=True)
        # The last one: readings of one record that came before it go no further.
        objector = next((decision for decision in reversed(group) if decision.said_no and not decision.older), None)
        if objector is not None:
            objector.holders = tuple(name for name in holders.get(key, ()) if name not in taken)
            taken.update(objector.holders)


async def heed_objections_of_shop(running: Running, decisions: Sequence[Decision]) -> None:
    """An order goes out only for somebody who passes now (PRODUCT 3.9): also not for whose address another customer of
    the shop has said "no"."""
    keys_of = {id(d): address_key(running, d.judgement.address) for d in decisions if d.judgement.allowed}
    rows = await ledger.objections_of_shop(
        running.outside.database, sync_id=running.facts.sync_id, address_keys=sorted(set(keys_of.values()))
    )
    for decision in decisions if rows else ():
        subject = decision.record.subject
        no = next(
            (row["code"] for row in rows
             if row["address_key"] == keys_of.get(id(decision)) and subject and row["record"] != subject.id),
            None,
        )  # fmt: skip
        if no and decision.judgement.allowed:
            decision.judgement = replace(decision.judgement, allowed=False, code=no)


def destination_no(running: Running, contact: Contact | None) -> str | None:
    """The destination's "no" to what this sync writes; orders heed every list that our syncs put people on."""
    lists = (running.rule.list_id,) if running.rule.list_id is not None else (*running.lists, None)
    found = (consent.destination_side(contact, list_id, suppressed=False) for list_id in lists)
    return next((no for no in found if no), None)


def contact_object(record: Record) -> str:
    return f"{EffectKind.CONTACT}:{record.id}"


def object_of(effect: Effect) -> str:
    """The ledger's name for what an effect is about; taking a person off the list is about their contact."""
    kind = EffectKind.CONTACT if effect.kind is EffectKind.WITHDRAWAL else effect.kind
    return f"{kind}:{effect.natural_id}"


async def remember(running: Running, decisions: Sequence[Decision]) -> dict[str, Memory]:
    objects: set[str] = set()
    for number, decision in enumerate(decisions):
        if number % BREATH == 0:
            await asyncio.sleep(0)
        if decision.older:
            continue
        if decision.state is None and decision.judgement.allowed:
            decision.items = _effects(running, decision)
            objects.update(item.object for item in decision.items)
        elif running.stream is Stream.CUSTOMERS:
            objects.update((contact_object(decision.record), *decision.holders))
    return await ledger.remember(
        running.outside.database,
        sync_id=running.facts.sync_id,
        objects=sorted(objects),
        changed_at=running.facts.changed_at,
    )


def address_key(running: Running, address: str | None) -> str:
    return keys.address_key(running.connected.address_secret, address) if address else ""


async def keep_out_suppressed(running: Running, decisions: Sequence[Decision]) -> None:
    """Erased and destination-deleted people are never created again (PRODUCT 3.7)."""
    allowed = [decision for decision in decisions if decision.items]
    by_key = {id(decision): address_key(running, decision.judgement.address) for decision in allowed}
    suppressed = await ledger.suppressed(
        running.outside.database, workspace_id=running.facts.workspace_id, address_keys=sorted(set(by_key.values()))
    )
    for decision in allowed:
        if by_key[id(decision)] in suppressed:
            decision.refuse(consent.SUPPRESSED)


def plan(running: Running, decision: Decision, memories: dict[str, Memory], read_no: int) -> None:
    """Decide what can be decided without a call, and prepare the rest."""
    memory = memories.get(contact_object(decision.record))
    if decision.state is None and not decision.judgement.allowed:
        decision.refuse(decision.judgement.code)
    if decision.state is not None:
        if memory is not None and not decision.older and running.stream is Stream.CUSTOMERS:
            _leave(running, decision, memory, read_no)
        for name in decision.holders:
            _withdraw(running, decision, memories[name], read_no)
        return
    if running.stream is Stream.CUSTOMERS and memory is not None and _address_changed(running, decision, memory):
        decision.refuse(consent.ADDRESS_CHANGED)
        _withdraw(running, decision, memory, read_no)
        return
    decision.items = [item for item in decision.items if _wanted(running, decision.record, item)]
    for item in decision.items:
        _compare(running, decision, item, memories[item.object], read_no)


def _leave(running: Running, decision: Decision, memory: Memory, read_no: int) -> None:
    """Take a person off the list whose record goes no further: refused, filtered, or another one's of the same address.

    Whoever may be on it through us counts, a write in doubt included. A claim that was never sent is closed.
    """
    if memory.may_be_granted and consent.must_leave(decision.judgement, granted=True):
        _withdraw(running, decision, memory, read_no)
    elif memory.open_state == DeliveryState.CLAIMED:
        decision.dropped[memory.object] = ""


def _withdraw(running: Running, decision: Decision, memory: Memory, read_no: int) -> None:
    """Take a person off the list; the record is undecided until that worked (PRODUCT 3.8)."""
    effect = running.mapper.withdrawal(memory.object.removeprefix(f"{EffectKind.CONTACT}:"))
    item = Item(effect=effect, object=object_of(effect), withdraws=True)
    decision.items.append(item)
    _compare(running, decision, item, memory, read_no)


def _address_changed(running: Running, decision: Decision, memory: Memory) -> bool:
    known = memory.known_address_key
    return bool(known) and known != address_key(running, decision.judgement.address)


def is_history(running: Running, record: Record) -> bool:
    """Whether an order was placed before the sync was first published: it starts no automation (PRODUCT 1.4)."""
    first = running.facts.first_published_at
    return record.order is not None and first is not None and record.order.placed_at < first


def _wanted(running: Running, record: Record, item: Item) -> bool:
    """Events of the past go out only when a person reads history and the rule says so (PRODUCT 1.4).

    A cancellation has a time of its own. A refund has not: the order's last change may be anything, so of an order from
    before the first publication it counts as past.
    """
    first, at = running.facts.first_published_at, item.effect.event_at
    if item.effect.kind is not EffectKind.EVENT or at is None or first is None:
        return True
    own_time = item.effect.event_name != ORDER_REFUNDED
    if at >= first and (own_time or not is_history(running, record)):
        return True
    return running.facts.lane is Lane.MANUAL and running.rule.history_events


def _is_sent_again(running: Running, item: Item, memory: Memory) -> bool:
    """Whether a forced run sends what is unchanged: once per run, and no event ever twice (PRODUCT 2.2, 2.5)."""
    created, settled = running.facts.created_at, memory.settled_at
    return running.facts.force and not item.effect.append and settled is not None and settled < created


def _compare(running: Running, decision: Decision, item: Item, memory: Memory, read_no: int) -> None:
    """What the ledger remembers of the object may decide the effect: unchanged, superseded, or rejected before."""
    item.memory = memory
    delivered = memory.seq > 0 and (item.effect.append or memory.payload_digest == item.effect.digest)
    if delivered and memory.open_digest is None and not _is_sent_again(running, item, memory):
        again = memory.delivery_key == decision.key
        item.state = RecordState.ALREADY_DELIVERED if again else RecordState.UNCHANGED
    elif memory.read_no > read_no:
        item.state = RecordState.SUPERSEDED
    elif item.withdraws:
        return
    elif memory.open_digest is None and memory.rejected_digest == item.effect.digest:
        decided = memory.rejected_state == RecordState.SET_ASIDE
        item.state = RecordState.SET_ASIDE if decided else sending.rejected(running)
        item.code, item.sentence = memory.rejected_code or "", memory.rejected_sentence or ""


def to_look_for(running: Running, decisions: Sequence[Decision]) -> list[Decision]:
    """Records with effects that go out only for people the destination holds (PRODUCT 3.9)."""
    traits = running.connected.destination.traits
    return [d for d in decisions if any(item.open and traits[item.effect.kind].looks for item in d.items)]


async def _look(running: Running, decisions: Sequence[Decision]) -> None:
    asking = to_look_for(running, decisions)
    if asking:
        await sending.prove(running)
        await look(running, asking)


async def _contacts(running: Running, asking: Sequence[Decision]) -> Mapping[str, Contact | None]:
    """What the destination holds now about the people of ``asking``, by external id; the look's time is kept."""
    contacts = await running.connected.destination.look(
        sorted({item.effect.subject_id for d in asking for item in d.items})
    )
    running.looked_at = running.outside.clock.monotonic()
    return contacts


async def look(running: Running, asking: Sequence[Decision]) -> None:
    """Ask the destination about the people of ``asking``; who is missing or has said "no" there gets nothing."""
    contacts = await _contacts(running, asking)
    for decision in asking:
        _meet(running, decision, contacts.get(decision.items[0].effect.subject_id))


def _meet(running: Running, decision: Decision, contact: Contact | None) -> None:
    no = destination_no(running, contact)
    if no:
        decision.refuse(no)
    elif contact is None:
        decision.refuse("contact_missing", RecordState.DEFERRED)
    else:
        for item in decision.items:
            item.destination_id = contact.id


async def _name_withdrawn(running: Running, decisions: Sequence[Decision]) -> None:
    """Whom a withdrawal is about, where an earlier write may have landed at a contact that does not bear our id.

    That call was cut off before it could tell; the address still leads there.
    """
    unnamed = [
        (address, item)
        for decision in decisions
        if (address := decision.judgement.address)
        for item in decision.items
        if item.withdraws and _is_unnamed(item)
    ]
    if not unnamed:
        return
    await sending.prove(running)
    contacts = await running.connected.destination.look_address(sorted({address for address, _ in unnamed}))
    for address, item in unnamed:
        contact = contacts.get(address)
        if contact is not None:
            item.destination_id = contact.id


def _is_unnamed(item: Item) -> bool:
    memory = item.memory
    return item.open and memory is not None and memory.may_have_landed and not memory.destination_id


async def _claim(running: Running, decisions: Sequence[Decision], read_no: int) -> None:
    """Claim all open effects of the page in one statement."""
    open_items = [(decision, item) for decision in decisions for item in decision.items if item.open]
    claims = [_claim_for(running, decision, item) for decision, item in open_items]
    crash.here("before_claim")
    claimed = await ledger.claim(
        running.outside.database,
        running.lease,
        claims,
        run_id=running.facts.run_id,
        lane=running.facts.lane.value,
        read_no=read_no,
    )
    crash.here("after_claim")
    for decision, item in open_items:
        item.claimed = claimed[item.object]
        item.write = _write_for(running, decision, item)


def _claim_for(running: Running, decision: Decision, item: Item) -> Claim:
    effect, memory = item.effect, item.memory
    assert memory is not None  # noqa: S101 - plan() compared every item
    subject = decision.record.subject
    return Claim(
        object=item.object,
        kind=effect.kind,
        append=effect.append,
        effect_key=keys.effect_key(
            running.outside.effect_secret,
            sync_id=running.facts.sync_id,
            target=running.target,
            kind=effect.kind,
            natural_id=effect.natural_id,
            seq=memory.seq + 1,
            payload_digest=effect.digest,
        ),
        delivery_key=decision.key,
        payload_digest=effect.digest,
        seq=memory.seq + 1,
        record=decision.record.id,
        address_key=memory.known_address_key if item.withdraws else address_key(running, decision.judgement.address),
        destination_id=item.destination_id or memory.destination_id,
        event_name=effect.event_name or "",
        event_at=effect.event_at,
        evidence=evidence_of(subject.consent if subject else None),
    )


def _write_for(running: Running, decision: Decision, item: Item) -> Any:
    memory, claimed, subject = item.memory, item.claimed, decision.record.subject
    assert memory is not None and claimed is not None  # noqa: S101 - claimed just before
    given_at: datetime | None = subject.consent.given_at if subject else None
    return item.effect.write(
        effect_key=claimed.effect_key,
        # A withdrawal alone is no sign that there ever was a contact.
        known=bool(memory.granted_at or memory.destination_id),
        destination_id=item.destination_id or memory.destination_id or None,
        consent_at=given_at,
        granted_at=memory.granted_at,
        history=is_history(running, decision.record),
    )


ORDER_OF_KINDS = (EffectKind.WITHDRAWAL, EffectKind.CONTACT, EffectKind.ORDER, EffectKind.EVENT)


async def _send(running: Running, decisions: Sequence[Decision]) -> Exception | None:
    """Send what is claimed, kind by kind: an event goes out only after its order landed."""
    for kind in ORDER_OF_KINDS:
        if kind is EffectKind.EVENT:
            await _before_events(running, decisions)
        items = [item for decision in decisions for item in decision.items if item.open and item.effect.kind is kind]
        error = await sending.send(running, kind, items)
        if error is not None:
            return error
    return None


async def _before_events(running: Running, decisions: Sequence[Decision]) -> None:
    """An event goes out only after its order landed, and for a person who was looked at within the minute.

    The events of an order that is decided otherwise are decided with it; those of an undecided one wait.
    """
    for decision in decisions:
        order = next((item for item in decision.items if item.effect.kind is EffectKind.ORDER), None)
        if order is None or order.state in GOOD:
            continue
        for item in decision.items:
            if item.open and item.effect.kind is EffectKind.EVENT:
                item.state, item.code = order.state, order.code
                if order.state not in UNDECIDED:
                    decision.dropped[item.object] = item.code if order.state is RecordState.REFUSED else ""
    age = running.outside.clock.monotonic() - running.looked_at
    asking = [d for d in decisions if any(item.open and item.effect.kind is EffectKind.EVENT for item in d.items)]
    if asking and age > LOOK_AGE.total_seconds():
        await sending.prove(running)
        await _look_again(running, asking)


async def _look_again(running: Running, asking: Sequence[Decision]) -> None:
    contacts = await _contacts(running, asking)
    for decision in asking:
        for item in (item for item in decision.items if item.open):
            contact = contacts.get(item.effect.subject_id)
            no = destination_no(running, contact)
            if no or contact is None:
                item.state, item.code = RecordState.REFUSED, no or consent.SUPPRESSED
                decision.dropped[item.object] = item.code


def _rejected(decisions: Sequence[Decision]) -> list[Item]:
    """What the destination rejected of this page, now or in an attempt that did not decide it."""
    return [
        item
        for decision in decisions
        for item in decision.items
        if item.state in (RecordState.FAILED, RecordState.SET_ASIDE)
        if item.claimed is not None or (item.memory and item.memory.rejected_state == RecordState.FAILED)
    ]


async def _alike(running: Running, decisions: Sequence[Decision]) -> Exception | None:
    """Five records of a page rejected alike, and none landed, are an error of the run: nothing is set aside.

    What an attempt that died had rejected counts; a dead letter of a page that was decided does not.
    """
    rejected = [item for item in _rejected(decisions) if item.code and item.effect.kind is not EffectKind.EVENT]
    landed = sum(item.state is RecordState.WRITTEN for decision in decisions for item in decision.items)
    code = limits.alike([item.code for item in rejected], landed=landed)
    if code is None:
        return None
    name = running.connected.destination.kind.capitalize()
    first = next((item.sentence for item in rejected if item.sentence), "")
    text = f"{name} rejected {len(rejected)} records of one page alike ({code}): {first}"
    return Refused(f"{text} Check the list and the mapping, then publish again.", code="rejected_alike")


def tally(
    running: Running, decisions: Sequence[Decision], error: Exception | None, looked: timedelta = timedelta(0)
) -> Tally:
    """Count the page, and name the error that keeps the cursor where it is, if there is one."""
    states = Counter(decision.final for decision in decisions)
    refused = [decision for decision in decisions if decision.final in (RecordState.REFUSED, RecordState.DEFERRED)]
    return Tally(
        states=states,
        reasons=Counter(decision.reason for decision in refused if decision.final is RecordState.REFUSED),
        refusals=tuple(_refusal(running, decision) for decision in refused if not _has_row(decision)),
        willing=_willing(running, decisions),
        anew=tuple({d.record.id for d in decisions if not _is_remembered(d)}),
        good_contacts=_good_contacts(running, decisions),
        dropped={name: code for decision in decisions for name, code in decision.dropped.items()},
        set_aside=tuple(
            (item.object, item.effect.digest) for item in _rejected(decisions) if item.state is RecordState.SET_ASIDE
        ),
        failed=tuple(d.record.id for d in decisions if d.final is RecordState.FAILED),
        waiting=tuple(d.record.id for d in decisions if d.final in UNDECIDED - {RecordState.FAILED}),
        looked=looked,
        changed_addresses=tuple(d.record.id for d in refused if d.reason == consent.ADDRESS_CHANGED),
        error=error or _undecided(running, decisions, states),
    )


def _objections(running: Running, decisions: Sequence[Decision]) -> tuple[Objection, ...]:
    """The "no" of each customer that has an address. One without keeps what was known of it."""
    if running.stream is not Stream.CUSTOMERS:
        return ()
    said = {
        d.record.id: Objection(d.record.id, address_key(running, d.judgement.address), d.said_no)
        for d in decisions
        if d.said_no and d.judgement.address
    }
    return tuple(said.values())


def _is_remembered(decision: Decision) -> bool:
    """Whether a dead letter of an earlier reading still stands for it: nothing was tried anew."""
    return decision.older or any(i.state is RecordState.SET_ASIDE and i.claimed is None for i in decision.items)


def _willing(running: Running, decisions: Sequence[Decision]) -> tuple[str, ...]:
    """Customers whose record says "yes", in every reading of it on the page. Nothing less lifts what they said before:
    neither a word that we do not know, nor one that has merely gone."""
    if running.stream is not Stream.CUSTOMERS:
        return ()
    unwilling = {decision.record.id for decision in decisions if not decision.said_yes}
    return tuple(sorted({decision.record.id for decision in decisions} - unwilling))


async def keep(connection: Cursor, running: Running, tally: Tally, read_no: int) -> None:
    """Keep what a decided page leaves behind, in the transaction that moves over it."""
    await ledger.close_outlived(connection, running.lease, tally.anew, read_no=read_no)
    await ledger.note_refused(
        connection,
        running.lease,
        tally.refusals,
        run_id=running.facts.run_id,
        lane=running.facts.lane.value,
        read_no=read_no,
        looked=tally.looked,
    )
    await ledger.drop_objections(connection, sync_id=running.facts.sync_id, willing=tally.willing)
    await ledger.drop(connection, running.lease, tally.dropped)
    await ledger.set_aside(connection, running.lease, tally.set_aside)


def _good_contacts(running: Running, decisions: Sequence[Decision]) -> tuple[str, ...]:
    if running.stream is not Stream.CUSTOMERS:
        return ()
    return tuple(decision.record.id for decision in decisions if decision.final in GOOD)


def _has_row(decision: Decision) -> bool:
    """Whether the destination's own refusal has already been settled in the ledger."""
    return any(item.claimed is not None and not item.withdraws for item in decision.items)


def _refusal(running: Running, decision: Decision) -> Refusal:
    subject, record = decision.record.subject, decision.record
    kind = EffectKind.CONTACT if record.stream is Stream.CUSTOMERS else EffectKind.ORDER
    return Refusal(
        object=f"{kind}:{record.id}",
        kind=kind,
        delivery_key=decision.key,
        state=DeliveryState(decision.final.value),
        code=decision.reason,
        evidence=evidence_of(subject.consent if subject else None),
        address_key=address_key(running, decision.judgement.address),
        subject=subject.id if subject else "",
        record=record.id,
    )


def _undecided(running: Running, decisions: Sequence[Decision], states: Counter[RecordState]) -> ConnectorError | None:
    failed = [d for d in decisions if d.final is RecordState.FAILED]
    name = running.connected.destination.kind.capitalize()
    if failed:
        first = next((i.sentence for d in failed for i in d.items if i.sentence), "")
        which = ", ".join(d.record.id for d in failed[:3])
        return Rejected(f"{name} rejected {len(failed)} of {len(decisions)} records ({which}): {first}")
    if states[RecordState.IN_DOUBT]:
        count = states[RecordState.IN_DOUBT]
        return InDoubt(f"{name} did not answer in time for {count} records. It may have saved them.")
    if states[RecordState.NOT_YET_TRIED]:
        return Passing(f"{states[RecordState.NOT_YET_TRIED]} records of the page were not tried.", code="not_tried")
    return None
