"""Claims that are still open, of records that are decided otherwise by now (PRODUCT 2.4).

An event was out when the answer was lost; before its next attempt its person left, or the rule changed. Nothing of it
goes out any more, and nothing would ever settle it: it would be in doubt for good, and if it had landed, a later change
of the order would send it again. So the destination is asked, and the row is closed as what it is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from connectors.errors import InDoubt, Passing
from connectors.protocol import Contact, Doubt, EffectKind, Stream
from syncs.domain.lifecycle import UNDECIDED, DeliveryState, RecordState
from syncs.engine import ledger, sending
from syncs.engine.database import Row
from syncs.engine.ledger import Settlement
from syncs.engine.running import Running

if TYPE_CHECKING:
    from syncs.engine.batch import Decision

MAY_HAVE_LANDED = "An earlier call may have landed. Nothing was sent again."


async def settle(running: Running, decisions: "Sequence[Decision]") -> Exception | None:
    """Close what earlier readings of decided records left open. Answers the passing error that keeps it open.

    A contact that must come off the list is no leftover: its withdrawal takes the claim over.
    """
    decided = {d.record.id: d for d in decisions if not d.older and d.final not in UNDECIDED}
    left = await ledger.take_open(
        running.outside.database, running.lease, run_id=running.facts.run_id, records=sorted(decided)
    )
    for row in (row for row in left if row["state"] == DeliveryState.CLAIMED):
        decision = decided[row["record"]]
        decision.dropped.setdefault(row["object"], _code(decision))
    rows = [row for row in left if row["state"] != DeliveryState.CLAIMED]
    if not rows:
        return None
    settlements = _contacts if running.stream is Stream.CUSTOMERS else _orders
    try:
        await sending.settle(running, await settlements(running, rows, decided))
    except (Passing, InDoubt) as error:
        return error
    return None


async def _contacts(running: Running, rows: Sequence[Row], decided: "dict[str, Decision]") -> list[Settlement]:
    """Whether the person is on the list, the destination says. Without an address to ask by it stays in doubt: if the
    write landed, a later "no" must still find that it may have."""
    asked = {row["id"]: decided[row["record"]].judgement.address for row in rows}
    addresses = sorted({address for address in asked.values() if address})
    if not addresses:
        return []
    await sending.pause(running, max(row["seconds_left"] for row in rows))
    await sending.prove(running)
    found = await running.connected.destination.look_address(addresses)
    return [
        _contact_settlement(running, row, decided[row["record"]], found.get(address))
        for row in rows
        if (address := asked[row["id"]])
    ]


def _contact_settlement(running: Running, row: Row, decision: "Decision", contact: "Contact | None") -> Settlement:
    if contact is not None and running.rule.list_id in contact.lists:
        return Settlement(row["id"], DeliveryState.WRITTEN, destination_id=contact.id, granted=True)
    code = _code(decision)
    state = DeliveryState.REFUSED if code else DeliveryState.SUPERSEDED
    return Settlement(row["id"], state, code, unknown=True)


async def _orders(running: Running, rows: Sequence[Row], decided: "dict[str, Decision]") -> list[Settlement]:
    landed = await _landed(running, rows, decided)
    return [_settlement(row, decided[row["record"]], landed) for row in rows]


async def _landed(running: Running, rows: Sequence[Row], decided: "dict[str, Decision]") -> frozenset[str]:
    """The effect keys among the appends of ``rows`` that the destination holds, once no call of them can be out."""
    appends = [row for row in rows if row["append"]]
    traits = running.connected.destination.traits[EffectKind.EVENT]
    if not appends or not traits.findable:
        return frozenset()
    await sending.pause(running, max(row["seconds_left"] for row in appends) + traits.settle.total_seconds())
    await sending.prove(running)
    by = running.outside.clock.monotonic() + traits.deadline.total_seconds()
    asked = [_doubt(running, row, decided[row["record"]]) for row in appends]
    return frozenset(await running.connected.destination.find(asked, by=by))


def _doubt(running: Running, row: Row, decision: "Decision") -> Doubt:
    subject = decision.record.subject
    return Doubt(
        effect_key=row["effect_key"],
        id=row["object"].partition(":")[2],
        event_name=row["event_name"],
        subject_id=running.mapper.subject_id(subject.id) if subject else "",
        destination_id=row["destination_id"] or None,
        event_at=row["event_at"] or row["sending_at"],
        sent_at=row["sending_at"],
    )


def _settlement(row: Row, decision: "Decision", landed: frozenset[str]) -> Settlement:
    if row["effect_key"] in landed:
        return Settlement(row["id"], DeliveryState.WRITTEN)
    code = _code(decision)
    state = DeliveryState.REFUSED if code else DeliveryState.SUPERSEDED
    sentence = "" if row["append"] else MAY_HAVE_LANDED
    return Settlement(row["id"], state, code, sentence, unknown=not row["append"])


def _code(decision: "Decision") -> str:
    return decision.reason if decision.final is RecordState.REFUSED else ""
