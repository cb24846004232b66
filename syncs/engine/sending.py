"""The calls of a page: as many in flight as the destination wants, each proved and marked before it goes out.

One `ledger.step` per wake-up settles what has landed, looks at lease, publication and cancel, and marks the next calls
as *sending*. A call carries the instant after which no byte of it may leave; that instant was taken before the look and
lies inside the lease, so no call outlives its owner (PRODUCT 3.2).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from connectors.errors import ConnectorError, InDoubt, Passing, Throttled
from connectors.protocol import Doubt, EffectKind, EffectTraits, Landing, Receipt, Write
from syncs.domain import limits, retry
from syncs.domain.lifecycle import DeliveryState, RecordState
from syncs.domain.mapping import Effect
from syncs.engine import crash, ledger
from syncs.engine.lease import lost
from syncs.engine.ledger import Claimed, Memory, Settlement, Stand
from syncs.engine.running import Running
from syncs.errors import Cancelled, Paused, Superseded

RUN_REFUSED = "run_refused"
LATE_LOOK = "late_look"
TOO_SLOW = "The database answers too slowly to prove the lease before a call. Look at its load."
WAIT_CODES = frozenset({"throttled", "too_early"})
SUPERSEDED = "Another version was published meanwhile. The run stopped before its next write."
STANDING = "The sync was paused or edited meanwhile. The run stopped before its next write."
CANCELLED = "The run was cancelled by a person. What was sent is recorded; the cursor stands after the last page."


@dataclass(slots=True)
class Item:
    """One effect on its way. ``withdraws`` marks taking a person off the list on behalf of a refused record."""

    effect: Effect
    object: str
    withdraws: bool = False
    state: RecordState = RecordState.NOT_YET_TRIED
    code: str = ""
    sentence: str = ""
    destination_id: str = ""
    memory: Memory | None = None
    claimed: Claimed | None = None
    write: Write | None = None
    marked: bool = False

    @property
    def open(self) -> bool:
        return self.state is RecordState.NOT_YET_TRIED

    @property
    def unsent_state(self) -> DeliveryState:
        """What a claim is whose call did not go out this time: an earlier call's doubt is not lifted by that."""
        doubted = self.claimed is not None and self.claimed.state is DeliveryState.IN_DOUBT
        return DeliveryState.IN_DOUBT if doubted else DeliveryState.CLAIMED

    @property
    def never_sent(self) -> bool:
        """Whether an open claim of it is known that no call was ever made for."""
        before = self.memory is not None and self.memory.open_state == DeliveryState.CLAIMED
        return before or (self.claimed is not None and self.claimed.state is DeliveryState.CLAIMED and not self.marked)

    @property
    def id(self) -> int:
        assert self.claimed is not None  # noqa: S101 - only claimed items are sent
        return self.claimed.id


LANDINGS: dict[Landing, tuple[DeliveryState, RecordState]] = {
    Landing.LANDED: (DeliveryState.WRITTEN, RecordState.WRITTEN),
    Landing.REFUSED: (DeliveryState.REFUSED, RecordState.REFUSED),
    Landing.REJECTED: (DeliveryState.FAILED, RecordState.FAILED),
    Landing.DEFERRED: (DeliveryState.DEFERRED, RecordState.DEFERRED),
    Landing.PASSING: (DeliveryState.CLAIMED, RecordState.NOT_YET_TRIED),
    Landing.IN_DOUBT: (DeliveryState.IN_DOUBT, RecordState.IN_DOUBT),
}
"""How an answer settles a claim, and what it makes of the effect. What passing trouble met was not stored."""


def rejected(running: Running) -> RecordState:
    """What a rejected record becomes with its page: set aside within the rule's budget, failed beyond it (4.4).

    Its ledger row is *failed* until the page is decided: set aside by an attempt that died, it would be nobody's error.
    """
    total = max(running.expected or running.facts.expected or 0, running.set_aside + 1)
    budget: limits.RejectBudget = running.rule.budget
    if not budget.allows(running.facts.set_aside + running.set_aside + 1, total):
        return RecordState.FAILED
    running.set_aside += 1
    return RecordState.SET_ASIDE


NO_WITHDRAWAL = frozenset({Landing.REJECTED, Landing.REFUSED, Landing.DEFERRED})


async def prove(running: Running) -> None:
    """Look at lease, publication and cancel before a call that writes nothing. Raises when the run may not go on."""
    refuse_to_go_on(running, await _step(running, [], [], timedelta(seconds=1)))


def refuse_to_go_on(running: Running, stand: Stand) -> None:
    """Raises LeaseLost, Cancelled, Superseded or Paused, whichever the look showed."""
    if not stand.held:
        raise lost(running.lease)
    if stand.cancelled:
        raise Cancelled(CANCELLED)
    if not stand.published:
        raise Superseded(SUPERSEDED)
    if stand.standing:
        raise Paused(STANDING)


async def _step(running: Running, settle: Sequence[Settlement], send: Sequence[int], call: timedelta) -> Stand:
    return await ledger.step(
        running.outside.database,
        running.lease,
        run_id=running.facts.run_id,
        version_id=running.facts.version_id,
        workspace_id=running.facts.workspace_id,
        settle=settle,
        send=send,
        call=call,
    )


async def settle(running: Running, settlements: Sequence[Settlement]) -> None:
    """Settle claims outside of a pipeline."""
    await _step(running, settlements, [], timedelta(seconds=1))


async def send(running: Running, kind: EffectKind, items: Sequence[Item]) -> Exception | None:
    """Send the claimed ``items`` of one kind. Fresh ones first, then what is in doubt, once it can be asked about.

    Answers the passing error that ended it early, None when every item was tried. Raises what ends the run.
    """
    if not items:
        return None
    fresh = [item for item in items if item.claimed and item.claimed.state is DeliveryState.CLAIMED]
    doubts = [item for item in items if item.claimed and item.claimed.state is DeliveryState.IN_DOUBT]
    error = await Pipeline(running, kind, fresh).run()
    if error is not None or not doubts:
        return error
    unsettled = await settle_doubts(running, kind, doubts)
    return await Pipeline(running, kind, unsettled).run()


async def settle_doubts(running: Running, kind: EffectKind, doubts: Sequence[Item]) -> list[Item]:
    """Wait until no earlier call can be out any more, then ask about appends; what is left is to be sent again.

    A repeat of an idempotent write has no second effect, so it is simply sent again; an append that nobody can look
    for is sent again too, and counted where people see it (PRODUCT 2.4).
    """
    traits = running.connected.destination.traits[kind]
    left = max(item.claimed.seconds_left for item in doubts if item.claimed)
    await pause(running, left if traits.idempotent else left + traits.settle.total_seconds())
    if traits.idempotent:
        return list(doubts)
    if not traits.findable:
        running.possible_duplicates += len(doubts)
        return list(doubts)
    await prove(running)
    asked = [_doubt(item) for item in doubts]
    by = running.outside.clock.monotonic() + traits.deadline.total_seconds()
    found = await running.connected.destination.find(asked, by=by)
    landed = [item for item in doubts if item.claimed and item.claimed.effect_key in found]
    await settle(running, [Settlement(item.id, DeliveryState.WRITTEN) for item in landed])
    for item in landed:
        item.state = RecordState.WRITTEN
    return [item for item in doubts if item.open]


async def pause(running: Running, seconds: float) -> None:
    """Wait without holding up other runs, looking each second whether the run still may go on."""
    until = running.outside.clock.monotonic() + seconds
    while (left := until - running.outside.clock.monotonic()) > 0:
        running.lease.require(running.outside.clock)
        await asyncio.sleep(min(left, running.outside.terms.look.total_seconds()))


def _doubt(item: Item) -> Doubt:
    claimed, write = item.claimed, item.write
    assert claimed is not None and write is not None and claimed.sending_at is not None  # noqa: S101 - it was sending
    return Doubt(
        effect_key=claimed.effect_key,
        id=write.id,
        event_name=write.event_name or "",
        subject_id=write.subject_id,
        destination_id=write.destination_id,
        event_at=claimed.event_at or claimed.sending_at,
        sent_at=claimed.sending_at,
    )


@dataclass(slots=True)
class Call:
    """Writes that go out together. ``looked_at`` and ``by``, monotonic, are of the look that marked them."""

    items: list[Item]
    looked_at: float = 0.0
    by: float = 0.0


SETTLE_GROUP = 50
"""Landed effects that are worth a statement of their own; a second's worth is, too."""
AHEAD = 4
"""Calls marked ahead, as a multiple of those in flight: a call that lands is followed at once, and one statement serves
a group of them. What is marked and has not left when a process dies is in doubt, though nothing of it was sent."""


@dataclass(slots=True)
class Pipeline:
    """Items of one kind on their way, in calls of at most `EffectTraits.batch`.

    ``waiting`` is claimed, ``ready`` is marked as *sending*, ``flying`` is out. One step at a time runs beside the
    flying calls; a mark whose look is older than a second is made again before its call may go.
    """

    running: Running
    kind: EffectKind
    items: Sequence[Item]
    waiting: deque[Call] = field(default_factory=deque)
    ready: deque[Call] = field(default_factory=deque)
    flying: dict["asyncio.Task[list[Receipt]]", Call] = field(default_factory=dict)
    stepping: "asyncio.Task[Stand] | None" = None
    marking: list[Call] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    stepped_at: float = 0.0
    passing_in_a_row: int = 0
    waits_in_a_row: int = 0
    late_in_a_row: int = 0
    not_before: float = 0.0
    ending: Exception | None = None
    error: Exception | None = None

    @property
    def traits(self) -> EffectTraits:
        return self.running.connected.destination.traits[self.kind]

    def _now(self) -> float:
        return self.running.outside.clock.monotonic()

    async def run(self) -> Exception | None:
        """Send everything. Answers the passing error that ended it early; raises what ends the run."""
        size = self.traits.batch
        self.waiting.extend(Call(list(self.items[at : at + size])) for at in range(0, len(self.items), size))
        try:
            while self._is_busy():
                await self._advance()
        except BaseException:
            await self._abandon()
            raise
        if self.ending is not None and self.ending is not self.error:
            raise self.ending
        return self.error

    def _is_busy(self) -> bool:
        if self.ending is not None:
            self._take_back()
        unsent = self.waiting or self.ready
        return bool(self.flying or self.stepping or self.settlements or (unsent and self.ending is None))

    def _take_back(self) -> None:
        """The run is ending: what is marked and has not left goes back to claimed. It was never sent."""
        for call in (*self.ready, *self.waiting):
            self.settlements += [Settlement(item.id, item.unsent_state) for item in call.items if item.marked]
        self.ready.clear()
        self.waiting.clear()

    async def _abandon(self) -> None:
        """The run cannot go on at all: no call of it stays out unwatched. Their claims stay *sending*: in doubt."""
        tasks = [*self.flying, *([self.stepping] if self.stepping else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _advance(self) -> None:
        self._depart()
        if self.stepping is None and self._wants_step():
            self._start_step()
        tasks: list[asyncio.Task[Any]] = [*self.flying, *([self.stepping] if self.stepping else [])]
        if not tasks:
            await pause(self.running, self.not_before - self._now())
            return
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task is self.stepping:
                self._stepped(task.result())
            else:
                crash.here("after_call")
                self._land(self.flying.pop(task), task.result())

    def _is_fresh(self, call: Call) -> bool:
        return self._now() - call.looked_at <= self.running.outside.terms.look.total_seconds()

    def _depart(self) -> None:
        """Start ready calls whose look is fresh and whose whole time the lease covers."""
        while self.ready and self.ending is None and len(self.flying) < self.traits.concurrency:
            call = self.ready[0]
            if self._now() < self.not_before or not self._is_fresh(call):
                return
            if not self.running.lease.covers(self.running.outside.clock, call.by - self._now()):
                self.ending = lost(self.running.lease)
                return
            crash.here("before_call")
            self.ready.popleft()
            self.flying[asyncio.create_task(self._call(call))] = call

    def _wants_step(self) -> bool:
        """Calls are running out, enough has landed, or what has landed is a second old."""
        due = self._now() - self.stepped_at > self.running.outside.terms.look.total_seconds()
        if self.settlements and (len(self.settlements) >= SETTLE_GROUP or not self.flying or due):
            return True
        if self.ending is not None or self._now() < self.not_before:
            return False
        fresh = sum(map(self._is_fresh, self.ready))
        return fresh <= self.traits.concurrency // 2 and bool(self.waiting or len(self.ready) > fresh)

    def _start_step(self) -> None:
        """Settle all that has landed and mark the next calls, stale ones again, in one statement beside the calls."""
        calls = self._to_mark()
        settle, self.settlements = self.settlements, []
        self.marking, self.stepped_at = calls, self._now()
        ids = [item.id for call in calls for item in call.items]
        self.stepping = asyncio.create_task(_step(self.running, settle, ids, self.traits.deadline))

    def _to_mark(self) -> list[Call]:
        if self.ending is not None or self._now() < self.not_before:
            return []
        stale = [call for call in self.ready if not self._is_fresh(call)]
        self.ready = deque(call for call in self.ready if self._is_fresh(call))
        room = self.traits.concurrency * (1 + AHEAD) - len(self.flying) - len(self.ready) - len(stale)
        return stale + [self.waiting.popleft() for _ in range(min(max(room, 0), len(self.waiting)))]

    def _stepped(self, stand: Stand) -> None:
        """What the database allowed may go; what it did not, stays claimed, and says why the run ends."""
        calls, self.marking, self.stepping = self.marking, [], None
        crash.here("after_settle")
        self._count_late(calls)
        if self.ending is None:
            try:
                refuse_to_go_on(self.running, stand)
            except Exception as error:
                self.ending = error
        by = self.stepped_at + self.traits.deadline.total_seconds()
        for call in calls:
            for item in call.items:
                item.marked = item.marked or item.id in stand.sending
            whole = all(item.id in stand.sending for item in call.items)
            if not whole and self.ending is None:
                self.ending = lost(self.running.lease)
            call.looked_at, call.by = self.stepped_at, by
            self.ready.append(call)

    def _count_late(self, calls: Sequence[Call]) -> None:
        """A step that takes longer than a look may be old lets no call go: five in a row end the page."""
        if not calls:
            return
        late = self._now() - self.stepped_at > self.running.outside.terms.look.total_seconds()
        self.late_in_a_row = self.late_in_a_row + 1 if late else 0
        if self.late_in_a_row >= retry.PASSING_IN_A_ROW:
            self.error = Passing(TOO_SLOW, code=LATE_LOOK)
            self.ending = self.ending or self.error

    async def _call(self, call: Call) -> list[Receipt]:
        """One call. The look before it must be fresh: a process that slept in between does not call."""
        writes = [item.write for item in call.items if item.write is not None]
        if not self._is_fresh(call):
            return [Receipt(write.effect_key, Landing.PASSING, code=LATE_LOOK) for write in writes]
        try:
            return list(await self.running.connected.destination.write(writes, by=call.by))
        except InDoubt as error:
            return [Receipt(w.effect_key, Landing.IN_DOUBT, error.code, error.sentence) for w in writes]
        except Throttled as error:
            return [Receipt(w.effect_key, Landing.PASSING, error.code, error.sentence, wait=error.wait) for w in writes]
        except Passing as error:
            return [Receipt(w.effect_key, Landing.PASSING, error.code, error.sentence) for w in writes]
        except ConnectorError as error:
            self.ending = self.ending or error
            return [Receipt(w.effect_key, Landing.PASSING, RUN_REFUSED, error.sentence) for w in writes]
        except Exception as error:
            # A fault of ours inside a call: nobody knows whether it was stored, and the run ends with that fault.
            self.ending = self.ending or error
            return [Receipt(w.effect_key, Landing.IN_DOUBT, "internal_fault") for w in writes]

    def _land(self, call: Call, receipts: Sequence[Receipt]) -> None:
        again: list[Item] = []
        for item, receipt in zip(call.items, receipts, strict=True):
            if receipt.landing is not Landing.PASSING:
                self.passing_in_a_row = self.waits_in_a_row = 0
            elif self._pass(item, receipt):
                again.append(item)
                continue
            self._settle(item, receipt)
        if again:
            # They stay marked as sending until they are marked again: nothing of them was stored.
            self.waiting.appendleft(Call(again))

    def _settle(self, item: Item, receipt: Receipt) -> None:
        delivery, state = LANDINGS[receipt.landing]
        delivery = item.unsent_state if delivery is DeliveryState.CLAIMED else delivery
        item.marked = False
        if receipt.landing is not Landing.PASSING:
            item.state = state
        item.code, item.sentence = receipt.code, receipt.sentence
        if item.withdraws and receipt.landing in NO_WITHDRAWAL:
            # Bound by no budget, and undecided until it worked (PRODUCT 3.8).
            delivery, item.state = DeliveryState.FAILED, RecordState.FAILED
        elif receipt.landing is Landing.REJECTED:
            item.state = rejected(self.running)
        self.settlements.append(
            Settlement(
                id=item.id,
                state=delivery,
                code=receipt.code,
                sentence=receipt.sentence,
                destination_id=receipt.destination_id or "",
                granted=receipt.grants,
                suppress=receipt.suppress,
                unknown=item.unsent_state is DeliveryState.IN_DOUBT and not item.effect.append,
            )
        )

    def _pass(self, item: Item, receipt: Receipt) -> bool:
        """Whether the item is tried again in this attempt: only after a wait the vendor asked for (PRODUCT 4.1)."""
        if receipt.code == RUN_REFUSED:
            return False
        if receipt.code == LATE_LOOK:
            return True
        if receipt.code in WAIT_CODES or receipt.wait is not None:
            return self._wait_for_vendor(receipt)
        self.passing_in_a_row += 1
        item.state = RecordState.FAILED
        self.error = Passing(receipt.sentence, code=receipt.code or None)
        if self.passing_in_a_row >= retry.PASSING_IN_A_ROW:
            self.ending = self.ending or self.error
        return False

    def _wait_for_vendor(self, receipt: Receipt) -> bool:
        now = self.running.outside.clock.monotonic()
        if now >= self.not_before:
            self.waits_in_a_row += 1
        short = retry.is_inline(receipt.wait) and self.waits_in_a_row <= retry.PASSING_IN_A_ROW
        if short and receipt.wait is not None:
            self.not_before = max(self.not_before, now + receipt.wait.total_seconds())
            return True
        self.error = Throttled(receipt.sentence, wait=receipt.wait)
        self.ending = self.ending or self.error
        return False
