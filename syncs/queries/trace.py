"""Where is this person, or this order? One search, answered in a sentence and then step by step (PRODUCT 9.2, UX P4).

The ledger holds no personal data: an address is looked for by its keyed hash, a record by the source's id. What is
searched for is never written down and never shown again but masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from connectors.protocol import EffectKind, Stream
from syncs import words
from syncs.domain import keys
from syncs.domain.lifecycle import DeliveryState, Lane, RunState, SyncState
from syncs.domain.sealing import SealBroken
from syncs.models import Coverage, Cursor, Delivery, Objection, Run, Suppression, Sync, Tombstone, Workspace
from syncs.queries.consent import evidence_pairs
from syncs.queries.timeline import Step
from syncs.words import Sign, Tone

MOST_ANSWERS: Final = 20
"""Records that one search answers for: a person may have many orders."""

NEAR: Final = 2000
"""Rows of the ledger on both sides of one in which the others of its page stand."""

KEY_SHOWN: Final = 12
"""Characters of a key that people see."""

QUOTE: Final = 300
"""Characters of another system's own text that a page quotes."""

LONGEST: Final = 320
"""Characters of an e-mail address, by its standard."""


class Where(StrEnum):
    """Where a person or order is found to be."""

    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    SET_ASIDE = "set_aside"
    UNDER_WAY = "under_way"
    DEFERRED = "deferred"
    REFUSED = "refused"
    WRITTEN = "written"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"
    NEVER_READ = "never_read"


OF_STATE: Final = {
    DeliveryState.CLAIMED: Where.UNDER_WAY,
    DeliveryState.SENDING: Where.UNDER_WAY,
    DeliveryState.IN_DOUBT: Where.IN_DOUBT,
    DeliveryState.WRITTEN: Where.WRITTEN,
    DeliveryState.REFUSED: Where.REFUSED,
    DeliveryState.FAILED: Where.FAILED,
    DeliveryState.DEFERRED: Where.DEFERRED,
    DeliveryState.SET_ASIDE: Where.SET_ASIDE,
    DeliveryState.SUPERSEDED: Where.SUPERSEDED,
}
OPEN_ENDED: Final = frozenset({Where.IN_DOUBT, Where.FAILED, Where.UNDER_WAY, Where.DEFERRED})
"""What another attempt will decide."""

_LOOK: Final = {
    Where.IN_DOUBT: (Tone.WARN, "warning"),
    Where.FAILED: (Tone.BAD, "failed"),
    Where.SET_ASIDE: (Tone.BAD, "warning"),
    Where.UNDER_WAY: (Tone.QUIET, "clock"),
    Where.DEFERRED: (Tone.WARN, "clock"),
    Where.REFUSED: (Tone.QUIET, "paused"),
    Where.WRITTEN: (Tone.OK, "done"),
    Where.SUPERSEDED: (Tone.QUIET, "open"),
    Where.FORGOTTEN: (Tone.QUIET, "open"),
    Where.NEVER_READ: (Tone.QUIET, "open"),
}


class NotSearchable(ValueError):
    """Nothing that a ledger without personal data can be searched for. The message says what to search for instead."""


class By(StrEnum):
    """What is searched for."""

    EMAIL = "email"
    PERSON = "person"
    ORDER = "order"
    ID = "id"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is searched for. ``value`` is not for eyes, ``shown`` is."""

    by: By
    value: str
    shown: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one record in one sync: a sentence, then its steps, oldest first."""

    sync: Sync
    record: str
    where: Where
    sentence: str
    at: datetime | None
    run: int | None
    steps: tuple[Step, ...]

    @property
    def sign(self) -> Sign:
        """How it is shown."""
        tone, shape = _LOOK[self.where]
        return Sign(_word(self.where), tone, shape)


@dataclass(frozen=True, slots=True)
class Trace:
    """All answers, the newest first; ``sentence`` is the one to read first. ``left_out``: there are more than these."""

    asked: Asked
    sentence: str
    answers: tuple[Answer, ...]
    left_out: bool


def _word(where: Where) -> str:
    if where is Where.UNDER_WAY:
        return _("under way")
    if where is Where.FORGOTTEN:
        return _("forgotten by the ledger")
    if where is Where.NEVER_READ:
        return _("never read")
    return str(words.RECORD_STATES.get(where.value, where.value))


# --- What is searched for ---------------------------------------------------------------------------------------------
_GID: Final = re.compile(r"gid://shopify/(Customer|Order)/(\d{1,20})")
_ID: Final = re.compile(r"\d{1,20}")
_PHONE: Final = re.compile(r"\+[\d\s().-]{5,}")


def asked(text: str) -> Asked:
    """What somebody typed into the one box. Raises NotSearchable."""
    given = text.strip()
    if "@" in given:
        return by_email(given)
    if found := _GID.fullmatch(given):
        by = By.PERSON if found[1] == "Customer" else By.ORDER
        return Asked(by, found[2], found[2])
    if _PHONE.fullmatch(given):
        raise NotSearchable(_("The ledger keeps no phone numbers: search by e-mail address or by the source's id."))
    if _ID.fullmatch(given):
        return Asked(By.ID, given, given)
    if given:
        raise NotSearchable(_by_name())
    raise NotSearchable(_("Write an e-mail address, or the source's id of a customer or an order."))


def _by_name() -> str:
    return _(
        "The ledger keeps ids, not names: write an e-mail address, or the number at the end of the customer's or the "
        "order's address in the source's own pages."
    )


def by_email(text: str) -> Asked:
    """Raises NotSearchable for what has no @, or is longer than any address."""
    given = text.strip()
    if "@" not in given or len(given) > LONGEST:
        raise NotSearchable(_("That is no e-mail address: write one whole, such as ada@shop.example."))
    return Asked(By.EMAIL, given, masked(given))


def by_id(text: str, by: By) -> Asked:
    """A record by its id, plain or as the source spells it. Raises NotSearchable."""
    given = text.strip()
    found = asked(given) if _GID.fullmatch(given) else None
    if found is not None and by in (By.ID, found.by):
        return found
    if not _ID.fullmatch(given):
        raise NotSearchable(_by_name())
    return Asked(by, given, given)


def masked(address: str) -> str:
    """An address that its owner knows again and nobody else learns: "a•••@s•••.example"."""
    local, _at, domain = address.strip().rpartition("@")
    name, dot, last = domain.rpartition(".")
    return f"{local[:1]}•••@{(name or last)[:1]}•••{dot}{last if dot else ''}"


# --- The search -------------------------------------------------------------------------------------------------------
def trace(workspace: Workspace, what: Asked, now: datetime) -> Trace:
    """What became of a person or an order in every sync of ``workspace``, and of no other. It changes nothing.

    Raises NotSearchable when the workspace's key for addresses does not open.
    """
    related = ("source", "destination", "published", "schedule", "workspace")
    syncs = list(Sync.objects.filter(workspace=workspace).select_related(*related).order_by("name", "pk"))
    key = _address_key(workspace, what)
    found = _records(syncs, what, key)
    kept = found[:MOST_ANSWERS]
    zone = words.zone_of(workspace.zone)
    answers = [answer for sync, record in kept if (answer := _answer(sync, record, zone, now)) is not None]
    answers.sort(key=lambda one: one.at or datetime.min.replace(tzinfo=UTC), reverse=True)
    told = {answer.sync.pk for answer in answers}
    answers += [_never(sync, what, zone, now) for sync in _silent(syncs, what, told)]
    return Trace(what, _first(answers, key, workspace), tuple(answers), len(found) > len(kept))


def _address_key(workspace: Workspace, what: Asked) -> str:
    if what.by is not By.EMAIL:
        return ""
    try:
        return keys.address_key(workspace.address_secret(), what.value)
    except SealBroken:
        raise NotSearchable(
            _("This workspace's key for addresses does not open with VIGIL_CREDENTIAL_KEYS: put the old key back.")
        ) from None


def stream_of(sync: Sync) -> Stream:
    """What a sync reads."""
    return Stream(sync.draft.get("stream", Stream.CUSTOMERS.value))


def _kind(sync: Sync) -> EffectKind:
    return EffectKind.CONTACT if stream_of(sync) is Stream.CUSTOMERS else EffectKind.ORDER


def _fits(sync: Sync, what: Asked) -> bool:
    """Whether the sync reads what is asked for; an address is in both streams."""
    wanted = {By.PERSON: Stream.CUSTOMERS, By.ORDER: Stream.ORDERS}.get(what.by)
    return wanted is None or stream_of(sync) is wanted


def _records(syncs: list[Sync], what: Asked, key: str) -> list[tuple[Sync, str]]:
    """Sync and record id of everything that may be meant, the newest of the ledger first."""
    fitting = {sync.pk: sync for sync in syncs if _fits(sync, what)}
    if what.by is not By.EMAIL:
        return [(sync, what.value) for sync in fitting.values()]
    found: dict[tuple[int, str], None] = {}
    rows = Delivery.objects.filter(sync__in=list(fitting), address_key=key).order_by("-id")
    for sync_id, record, name in rows.values_list("sync_id", "record", "object")[: MOST_ANSWERS * 10]:
        found[sync_id, record or _id_of(name)] = None
    known = Tombstone.objects.filter(sync__in=list(fitting), address_key=key, object__startswith="contact:")
    for sync_id, name in known.values_list("sync_id", "object")[:MOST_ANSWERS]:
        found[sync_id, _id_of(name)] = None
    objecting = Objection.objects.filter(sync__in=list(fitting), address_key=key)
    for sync_id, record in objecting.values_list("sync_id", "record")[:MOST_ANSWERS]:
        found[sync_id, record] = None
    return [(fitting[sync_id], record) for sync_id, record in found]


def _id_of(name: str) -> str:
    return name.partition(":")[2]


def _silent(syncs: list[Sync], what: Asked, told: set[int]) -> list[Sync]:
    """Syncs that know nothing, where that is worth a line: a bare id that was found elsewhere is not theirs."""
    if what.by is By.ID and told:
        return []
    return [sync for sync in syncs if sync.pk not in told and _fits(sync, what)]


def _first(answers: list[Answer], key: str, workspace: Workspace) -> str:
    said = answers[0].sentence if answers else _("This workspace has no sync that could have read it.")
    if key and Suppression.objects.filter(workspace=workspace, address_key=key).exists():
        return f"{said} {_('The address is on the suppression list: it is never created again.')}"
    return said


# --- One record -------------------------------------------------------------------------------------------------------
def _answer(sync: Sync, record: str, zone: tzinfo, now: datetime) -> Answer | None:
    """What became of ``record``; None where the sync remembers nothing of it. At most five queries."""
    name = f"{_kind(sync)}:{record}"
    row = Delivery.objects.filter(sync=sync, object=name).select_related("run").order_by("-id").first()
    stone = Tombstone.objects.filter(sync=sync, object=name).first()
    if row is not None:
        where = OF_STATE[DeliveryState(row.state)]
        due = _next_attempt(sync) if where in OPEN_ENDED else None
        sentence = _sentence(sync, row, where, due, zone, now)
        steps = (*_steps(row), *_ahead(row, where, due), *_forgets(row), *_remembered(sync, stone))
        return Answer(sync, record, where, sentence, row.settled_at or row.claimed_at, row.run_id, steps)
    if stone is not None:
        sentence = _forgotten(sync, stone, zone)
        return Answer(sync, record, Where.FORGOTTEN, sentence, stone.settled_at, None, tuple(_remembered(sync, stone)))
    no = Objection.objects.filter(sync=sync, record=record).first()
    return None if no is None else _objected(sync, record, no, zone)


def _names(sync: Sync) -> dict[str, str]:
    return {"source": sync.source.kind.capitalize(), "destination": sync.destination.kind.capitalize()}


def _sentence(sync: Sync, row: Delivery, where: Where, due: datetime | None, zone: tzinfo, now: datetime) -> str:
    named = {
        **_names(sync),
        "at": words.dated(row.settled_at or row.sending_at or row.claimed_at, zone),
        "run": row.run_id or 0,
        "reason": words.refusal(row.code),
        "said": row.sentence[:QUOTE],
    }
    again = "" if due is None else " " + _("It is tried again at %(at)s.") % {"at": words.instant(due, zone, now)}
    match where:
        case Where.REFUSED:
            return _("Refused on %(at)s: %(reason)s.") % named
        case Where.WRITTEN if row.kind == EffectKind.WITHDRAWAL:
            return _("Taken off the list at %(destination)s on %(at)s.") % named
        case Where.WRITTEN:
            return _("Written to %(destination)s on %(at)s.") % named
        case Where.IN_DOUBT:
            said = _("In doubt since %(at)s: %(destination)s did not answer in time. It may have saved it.")
            return said % named + again
        case Where.FAILED:
            return _("Rejected by %(destination)s on %(at)s: %(said)s") % named + again
        case Where.SET_ASIDE:
            return _("Set aside on %(at)s, after %(destination)s rejected it: %(said)s") % named
        case Where.DEFERRED:
            return _("Waits since %(at)s for its contact, which is not at %(destination)s yet.") % named + again
        case Where.UNDER_WAY:
            return _("Under way since %(at)s: claimed, and not settled yet.") % named + again
        case _:
            said = _("Superseded on %(at)s: a later reading of it counts, or nothing of it was wanted any more.")
            return said % named


def _forgotten(sync: Sync, stone: Tombstone, zone: tzinfo) -> str:
    days = settings.VIGIL_LEDGER_DAYS
    said = ngettext(
        "Delivered to %(destination)s, last on %(at)s. Over %(n)d day ago: the ledger has forgotten the steps.",
        "Delivered to %(destination)s, last on %(at)s. Over %(n)d days ago: the ledger has forgotten the steps.",
        days,
    )
    return said % {**_names(sync), "at": words.dated(stone.settled_at, zone), "n": days}


def _objected(sync: Sync, record: str, no: Objection, zone: tzinfo) -> Answer:
    named = {"at": words.dated(no.seen_at, zone), "reason": words.refusal(no.code)}
    said = _("Refused since %(at)s: %(reason)s. The ledger has forgotten the rest.") % named
    step = Step(no.seen_at, _('Its "no" is remembered'), named["reason"])
    return Answer(sync, record, Where.REFUSED, said, no.seen_at, None, (step,))


def _next_attempt(sync: Sync) -> datetime | None:
    """When a run looks at it next; None where nothing is planned."""
    run = Run.objects.filter(sync=sync, state=RunState.WAITING.value).first()
    if run is not None:
        return run.due_after
    schedule = getattr(sync, "schedule", None)
    if sync.state != SyncState.PUBLISHED or schedule is None or not schedule.active:
        return None
    planned: datetime | None = schedule.next_for
    return planned


# --- Its steps --------------------------------------------------------------------------------------------------------
def _steps(row: Delivery) -> Iterator[Step]:
    """The reading, the consent decision, and what became of each of its effects."""
    lane = str(words.LANES.get(row.lane, row.lane))
    by = _("by run %(run)d, %(lane)s lane") % {"run": row.run_id, "lane": lane} if row.run_id else lane
    reading = _("reading %(key)s") % {"key": row.delivery_key[:KEY_SHOWN]}
    yield Step(row.claimed_at, _("Read"), f"{by}, {reading}")
    yield from _decided(row)
    for effect in _effects(row):
        yield from _sent(effect)


def _forgets(row: Delivery) -> Iterator[Step]:
    if row.settled_at is not None:
        kept = row.settled_at + timedelta(days=settings.VIGIL_LEDGER_DAYS)
        yield Step(kept, _("The ledger forgets this"), _("not before an open read of its lane has ended"))


def _decided(row: Delivery) -> Iterator[Step]:
    said = "; ".join(f"{name}: {value}" for name, value in evidence_pairs(row.evidence))
    if row.state == DeliveryState.REFUSED:
        yield Step(row.claimed_at, _("Refused: %(reason)s") % {"reason": words.refusal(row.code)}, said)
        yield Step(None, _("What can be done"), words.refusal_advice(row.code))
    elif said:
        yield Step(row.claimed_at, _("Consent looked at"), said)


def _effects(row: Delivery) -> list[Delivery]:
    """Everything that this reading of the record was to show the destination. A page is claimed in one statement, so
    they stand close together: the ledger is not walked for them."""
    near = Delivery.objects.filter(pk__range=(row.pk - NEAR, row.pk + NEAR), sync=row.sync_id)
    same = near.filter(delivery_key=row.delivery_key).exclude(effect_key="")
    return list(same.order_by("id")[:MOST_ANSWERS])


def _sent(effect: Delivery) -> Iterator[Step]:
    what = effect.event_name or effect.kind
    named = {"what": what, "key": effect.effect_key[:KEY_SHOWN], "n": effect.calls}
    yield Step(effect.claimed_at, _("Claimed: %(what)s") % named, _("key %(key)s") % named)
    if effect.sending_at is not None:
        calls = ngettext("%(n)d call so far", "%(n)d calls so far", effect.calls) % named
        yield Step(effect.sending_at, _("Called for: %(what)s") % named, calls)
    word = str(words.DELIVERY_STATES.get(effect.state, effect.state))
    details = [words.refusal(effect.code)] if effect.code else []
    details += [effect.sentence[:QUOTE]] if effect.sentence else []
    details += [_("id %(id)s there") % {"id": effect.destination_id}] if effect.destination_id else []
    if effect.settled_at is not None:
        tone = _LOOK[OF_STATE[DeliveryState(effect.state)]][0]
        ended = _("Settled: %(what)s %(word)s") % {**named, "word": word}
        yield Step(effect.settled_at, ended, ", ".join(details), tone)
    elif effect.state == DeliveryState.IN_DOUBT:
        yield Step(None, _("No answer: %(what)s") % named, _("it is in doubt, and settled first by the next attempt"))


def _ahead(row: Delivery, where: Where, due: datetime | None) -> Iterator[Step]:
    if where not in OPEN_ENDED:
        return
    if due is None:
        yield Step(None, _("Next attempt"), _("none is planned: the sync runs, or stands still until it is published"))
    else:
        yield Step(due, _("Next attempt"))


def _remembered(sync: Sync, stone: Tombstone | None) -> Iterator[Step]:
    """What is known for good."""
    if stone is None:
        return
    named = {**_names(sync), "n": stone.seq, "id": stone.destination_id}
    times = ngettext("%(n)d delivery in all", "%(n)d deliveries in all", stone.seq) % named
    there = ", " + _("id %(id)s there") % named if stone.destination_id else ""
    yield Step(stone.settled_at, _("Last delivered to %(destination)s") % named, f"{times}{there}")
    if stone.withdrawn_at is not None and (stone.granted_at is None or stone.withdrawn_at >= stone.granted_at):
        yield Step(stone.withdrawn_at, _("Taken off the list at %(destination)s") % named)


# --- Why there is nothing ---------------------------------------------------------------------------------------------
def _never(sync: Sync, what: Asked, zone: tzinfo, now: datetime) -> Answer:
    record = "" if what.by is By.EMAIL else what.value
    return Answer(sync, record, Where.NEVER_READ, _why_not(sync, zone, now), None, None, ())


def _why_not(sync: Sync, zone: tzinfo, now: datetime) -> str:
    first = sync.first_published_at
    if first is None:
        return _("Never read: this sync was never published, so it has read nothing.")
    covered = list(Coverage.objects.filter(sync=sync).order_by("until").values_list("since", "until", "proved_at"))
    if not covered:
        return _unfinished(sync)
    reach = max(until for _since, until, _proved in covered)
    named = {**_names(sync), "since": words.dated(first, zone), "until": words.dated(reach, zone)}
    if all(since is not None for since, _until, _proved in covered):
        return (
            _(
                "Never read. It was not changed at %(source)s since the sync started (%(since)s), or the rule leaves "
                "it out. A backfill would include it."
            )
            % named
        )
    said = (
        _(
            "No trace. Everything that %(source)s changed before %(until)s was read, so it is not there under this "
            "name, the rule leaves it out, or a later record of the same address stands for it."
        )
        % named
    )
    if now - min(proved for _since, _until, proved in covered) <= timedelta(days=settings.VIGIL_LEDGER_DAYS):
        return said
    days = settings.VIGIL_LEDGER_DAYS
    gone = ngettext(
        "Whoever was refused more than %(n)d day ago leaves no trace either: the ledger has forgotten it.",
        "Whoever was refused more than %(n)d days ago leaves no trace either: the ledger has forgotten it.",
        days,
    )
    return f"{said} {gone % {'n': days}}"


def _unfinished(sync: Sync) -> str:
    cursor = Cursor.objects.filter(sync=sync, until__isnull=False).order_by("-rows").first()
    if cursor is None:
        return _("Never read: no run of this sync has read anything yet.")
    counted = "?" if cursor.counted is None else f"{cursor.counted:,}"
    named = {"rows": f"{cursor.rows:,}", "counted": counted, "lane": str(words.LANES[Lane(cursor.lane)])}
    return _("Not read yet: the first read (%(lane)s lane) stands after %(rows)s of %(counted)s records.") % named
