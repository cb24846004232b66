"""What a draft would do, through the very code of a run, writing nothing (PRODUCT 6.1).

Real source records are read now and judged, mapped and compared as a run would; the destination is asked about the same
people. What cannot be known is said as *cannot preview, because ...*; what must not be published is named in `blocks`.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from connectors.errors import ConnectorError
from connectors.protocol import Contact, Count, Identity, Page, Stream, Window
from syncs.domain import consent, credential
from syncs.domain.lifecycle import RecordState
from syncs.engine import batch, publication
from syncs.engine.batch import Decision
from syncs.engine.running import Running

SAMPLE = 20
"""Rows shown, refusals first; values of people are masked."""


@dataclass(slots=True)
class Preview:
    """The result as plain JSON's parts. ``blocks`` are sentences; publishing is possible only when there is none."""

    source: Identity
    destination: Identity
    read_at: datetime
    counted: Count
    states: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    rows: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    read: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "source": self.source.label,
            "destination": self.destination.label,
            "read_at": self.read_at.isoformat(),
            "counted": self.counted.records,
            "counted_exact": self.counted.exact,
            "read": self.read,
            "states": dict(self.states),
            "refusals": dict(self.refusals),
            "rows": self.rows,
            "blocks": self.blocks,
            "notes": self.notes,
        }


async def preview(running: Running, source: Identity, destination: Identity) -> Preview:
    """Read the first page that a run would read, and say what would become of it. Raises `connectors.errors`."""
    traits = running.connected.source.traits
    window = Window(None, (source.server_time - traits.settle).replace(microsecond=0))
    counted = await running.connected.source.count(running.stream, window)
    page = await running.connected.source.read_page(running.stream, window, None)
    shown = Preview(source, destination, source.server_time, counted, read=len(page.records))
    await _find_blocks(running, shown, source)
    if counted.records and not page.records:
        shown.blocks.append(f"The source counts {counted.records} records and shows none. Test the connection.")
    for decision, contact in await _decide(running, page):
        _note(running, shown, decision, contact)
    _find_notes(running, shown)
    shown.rows = _sample(shown.rows)
    return shown


def _sample(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some rows of every outcome, refusals first: the many must not hide the few."""
    by_state: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_state.setdefault(row["state"], []).append(row)
    order = sorted(by_state, key=lambda state: (state != RecordState.REFUSED.value, state))
    share = max(1, SAMPLE // max(1, len(order)))
    chosen = [row for state in order for row in by_state[state][:share]]
    rest = [row for state in order for row in by_state[state][share:]]
    return sorted([*chosen, *rest[: SAMPLE - len(chosen)]], key=lambda row: order.index(row["state"]))


def _find_notes(running: Running, shown: Preview) -> None:
    """What is allowed and probably not meant: a filter that lets nobody through, a field that is always empty."""
    if shown.read and shown.states[RecordState.FILTERED.value] == shown.read:
        shown.notes.append(
            f"The filter lets none of these {shown.read} records through. "
            "Numbers that the source gives as text are compared as text."
        )
    written = [row for row in shown.rows if row["state"] in ("create", "update")]
    filled = {field["to"] for row in written for field in row["fields"]}
    for one in running.rule.mapping:
        if written and one.to not in filled:
            shown.notes.append(f"{one.to} was empty in all {len(written)} records that would be written. Is it meant?")


async def _find_blocks(running: Running, shown: Preview, source: Identity) -> None:
    missing = publication.missing_scopes(running.connected.source, running.stream, list(source.scopes))
    if missing:
        shown.blocks.append(f"The source credential lacks {', '.join(missing)}. Grant it, then preview again.")
    end = running.connected.destination
    if running.rule.list_id is not None and await end.list_name(running.rule.list_id) is None:
        shown.blocks.append(f"List {running.rule.list_id} does not exist at the destination. Choose another list.")
    if running.stream is Stream.CUSTOMERS:
        there = set(await end.attributes())
        lacking = [one.to for one in running.rule.mapping if one.to not in there]
        shown.blocks += [
            f"The destination has no attribute '{name}'. Create it there or map another." for name in lacking
        ]
    excess = credential.writing(source.scopes)
    if excess:
        shown.notes.append(f"The source credential can write ({', '.join(excess)}). Give it read-only scopes.")


async def _decide(running: Running, page: Page) -> list[tuple[Decision, Contact | None]]:
    decisions = await batch.decide(running, page, after=None, read_no=2**62)
    asking = batch.to_look_for(running, decisions)
    if asking:
        await batch.look(running, asking)
    return await _meet_contacts(running, decisions)


async def _meet_contacts(running: Running, decisions: list[Decision]) -> list[tuple[Decision, Contact | None]]:
    """Contacts are looked up by address: whether they would be created, updated or refused by the destination's no."""
    if running.stream is not Stream.CUSTOMERS:
        return [(decision, None) for decision in decisions]
    asked = {d.judgement.address for d in decisions if d.judgement.address and any(item.open for item in d.items)}
    contacts = await running.connected.destination.look_address(sorted(asked))
    pairs: list[tuple[Decision, Contact | None]] = []
    for decision in decisions:
        contact = contacts.get(decision.judgement.address) if decision.judgement.address in asked else None
        no = consent.destination_side(contact, running.rule.list_id, suppressed=False)
        if no:
            decision.refuse(no)
        pairs.append((decision, contact))
    return pairs


def _note(running: Running, shown: Preview, decision: Decision, contact: Contact | None) -> None:
    state = decision.final
    word = state.value
    if state is RecordState.NOT_YET_TRIED:
        word = "update" if contact is not None else "create"
    shown.states[word] += 1
    if state is RecordState.REFUSED:
        shown.refusals[decision.reason] += 1
    shown.rows.append(
        {"id": decision.record.id, "state": word, "reason": decision.reason, "fields": _fields(decision, contact)}
    )


def _fields(decision: Decision, contact: Contact | None) -> list[dict[str, Any]]:
    """Old -> new per mapped field; text of people is masked (PRODUCT 10.1)."""
    if not decision.items:
        return []
    new = decision.items[0].effect.attributes or {}
    old = contact.attributes if contact is not None else {}
    return [{"to": name, "old": mask(old.get(name)), "new": mask(value)} for name, value in new.items()]


def mask(value: Any) -> str | None:
    """The first character and how long it is; enough to recognise one's own data, not to learn somebody's."""
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= 1 else f"{text[0]}{'•' * min(len(text) - 1, 8)}"


def unreadable(error: ConnectorError) -> dict[str, Any]:
    """The result of a preview that could not be made, and why."""
    return {"blocks": [error.sentence], "code": error.code, "states": {}, "refusals": {}, "rows": [], "notes": []}
