"""What would happen, shown before anything is written (UX, P6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from connectors.protocol import Stream
from syncs import words
from syncs.domain import rule as rules
from syncs.domain.lifecycle import RecordState, SyncState
from syncs.domain.rule import Rule
from syncs.domain.widening import Widening, Widens, widenings
from syncs.errors import RuleInvalid
from syncs.models import Preview, Sync, Version
from syncs.queries import runs, versions
from syncs.queries.runs import Reason
from syncs.queries.sync import sentences
from syncs.queries.versions import SHORT, Difference, grouped


@dataclass(frozen=True, slots=True)
class FieldLine:
    """One mapped field: what the destination holds and what it would hold, both masked."""

    to: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One record of the sample, by the source's id."""

    id: str
    word: str
    state: str
    reason: str
    fields: tuple[FieldLine, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many records would end in one state."""

    state: str
    word: str
    number: int


@dataclass(frozen=True, slots=True)
class PreviewPage:
    """All that a preview's page shows. ``obstacles`` are why it cannot be published now; none: it can."""

    preview: Preview
    digest: str
    grouped_digest: str
    short: str
    read: int
    counted: str
    read_at: datetime | None
    tallies: tuple[Tally, ...]
    refusals: tuple[Reason, ...]
    rows: tuple[SampleRow, ...]
    blocks: tuple[str, ...]
    notes: tuple[str, ...]
    obstacles: tuple[str, ...]
    sentences: tuple[str, ...]
    changes: tuple[Difference, ...]
    widens: tuple[str, ...]
    """Where it reaches further than what is published now: asked about before it is published."""
    begins: tuple[str, ...]
    """What a first publication begins; nothing is asked about it."""
    unknowns: tuple[str, ...]
    """Cannot preview, because ..."""
    calls: tuple[str, ...]
    never: tuple[str, ...]
    """What will not happen."""
    source: str
    destination: str
    scopes: str
    is_unreadable: bool


def preview_page(preview: Preview, now: datetime) -> PreviewPage:
    """The page of a preview (with its relations, as `preview_for` gives it). No query."""
    result: Mapping[str, Any] = preview.result
    blocks = tuple(str(block) for block in result.get("blocks", ()))
    rule = _rule(preview)
    return PreviewPage(
        preview=preview,
        digest=preview.digest,
        grouped_digest=grouped(preview.digest[:SHORT]),
        short=preview.digest[:SHORT],
        read=int(result.get("read", 0)),
        counted=_counted(result),
        read_at=runs.instant_of(result.get("read_at")),
        tallies=_tallies(result.get("states", {})),
        refusals=runs.reasons(result.get("refusals", {})),
        rows=tuple(_row(row) for row in result.get("rows", ())),
        blocks=blocks,
        notes=tuple(str(note) for note in result.get("notes", ())),
        obstacles=_obstacles(preview, blocks, now),
        sentences=sentences(preview.rule),
        changes=_changes(preview),
        widens=widens(preview),
        begins=_first_reach(preview, rule),
        unknowns=_unknowns(preview, rule) if preview.facts else (),
        calls=_calls(result),
        never=_never(preview, rule) if rule else (),
        source=_account(preview, "source"),
        destination=_account(preview, "destination"),
        scopes=", ".join(preview.facts.get("source", {}).get("scopes", ())),
        is_unreadable=not preview.facts,
    )


def _rule(preview: Preview) -> Rule | None:
    try:
        return rules.parse(preview.rule)
    except RuleInvalid:
        return None


def published_since_preview(sync: Sync, digest: str) -> Version | None:
    """The running version, when exactly ``digest`` was published after its newest preview: a second press of Publish.

    To publish the same rule again takes a fresh preview (PRODUCT 4.3).
    """
    version = sync.published
    if sync.state != SyncState.PUBLISHED or version is None or version.digest != digest:
        return None
    newer = sync.previews.filter(digest=digest, made_at__gt=version.published_at).exists()
    return None if newer else version


def preview_of(sync: Sync, digest: str) -> Preview | None:
    """The newest preview of ``digest`` with its relations; None where there is none."""
    related = ("sync__workspace", "sync__source", "sync__destination", "sync__published", "sync__draft_by", "made_by")
    return sync.previews.select_related(*related).filter(digest=digest).order_by("-made_at").first()


def _counted(result: Mapping[str, Any]) -> str:
    if "counted" not in result:
        return ""
    number = f"{int(result['counted']):,}"
    return number if result.get("counted_exact") else _("at least %(number)s") % {"number": number}


def _tallies(states: Mapping[str, int]) -> tuple[Tally, ...]:
    """Refusals first: what will not be sent matters most to whoever decides."""
    named: dict[str, str] = {state: str(word) for state, word in words.PREVIEW_STATES.items()}
    ordered = ["refused", *(state for state in named if state != "refused"), *(s for s in states if s not in named)]
    return tuple(Tally(s, named.get(s, s.replace("_", " ")), int(states[s])) for s in ordered if states.get(s))


def _row(row: Mapping[str, Any]) -> SampleRow:
    state, reason = str(row.get("state", "")), str(row.get("reason", ""))
    return SampleRow(
        id=str(row.get("id", "")),
        word=str(words.PREVIEW_STATES.get(state, state)),
        state=state,
        reason=words.refusal(reason) if reason else "",
        fields=tuple(
            FieldLine(str(one.get("to", "")), _value(one.get("old")), _value(one.get("new")))
            for one in row.get("fields", ())
        ),
    )


def _value(text: Any) -> str:
    return _("nothing") if text is None else str(text)


def _obstacles(preview: Preview, blocks: tuple[str, ...], now: datetime) -> tuple[str, ...]:
    sync = preview.sync
    zone = words.zone_of(sync.workspace.zone)
    found = list(blocks)
    version = sync.published
    if version is not None and version.digest == preview.digest and version.published_at >= preview.made_at:
        found.append(_("This is published already, as version %(number)d.") % {"number": version.number})
    if preview.draft_revision != sync.draft_revision:
        named = {
            "who": sync.draft_by.get_username() if sync.draft_by else _("somebody"),
            "at": words.instant(sync.draft_at, zone, now),
        }
        found.append(_("Changed by %(who)s at %(at)s since this preview. Preview it again.") % named)
    if preview.valid_until <= now:
        at = words.instant(preview.valid_until, zone, now)
        found.append(_("This preview was valid until %(at)s. Preview the draft again.") % {"at": at})
    if not found and not preview.publishable:
        found.append(_("This preview cannot be published. Preview the draft again."))
    return tuple(found)


def _changes(preview: Preview) -> tuple[Difference, ...]:
    """What differs from the published rule and its connections; nothing when none is published."""
    version = preview.sync.published
    if version is None or not preview.facts:
        return ()
    told = versions.differences(json.loads(version.document), preview.rule)
    return (*told, *versions.end_differences(version.facts, preview.facts))


def _account(preview: Preview, side: str) -> str:
    facts = preview.facts.get(side)
    if not facts:
        end = preview.sync.source if side == "source" else preview.sync.destination
        return end.kind.capitalize()
    return versions.account(facts)


# --- What reaches further ---------------------------------------------------------------------------------------------
FURTHER: Final[words.Words] = {
    Widens.LIST: _lazy("Contacts are put on another list: %(names)s."),
    Widens.EVENTS: _lazy("These events are sent anew: %(names)s."),
    Widens.FILTER_GONE: _lazy("All records are taken: the filter is gone."),
    Widens.FILTER_CHANGED: _lazy("Another filter may take records that were left out before."),
    Widens.TEST_ORDERS: _lazy("Test orders are read too."),
    Widens.HISTORY_EVENTS: _lazy("Events of the time before the first publication are sent too."),
    Widens.CONSENT: _lazy("Weaker consent counts: single opt-in as well as confirmed opt-in."),
    Widens.DATA_SALE: _lazy("People who opted out of the sale of their data are not refused any more."),
    Widens.REJECTIONS: _lazy("More records that the destination rejects are set aside before a run stops."),
}
"""A way to reach further in words; those of fields count them."""


def widens(preview: Preview) -> tuple[str, ...]:
    """Where publishing reaches further than what is published now, in words; nothing where nothing is to be asked."""
    version, rule = preview.sync.published, _rule(preview)
    if rule is None or version is None or not preview.facts:
        return ()
    try:
        before = rules.parse(json.loads(version.document))
    except RuleInvalid:
        return (_("What is published now cannot be compared with this, so all of it counts as new."),)
    return tuple(_further(one) for one in widenings(before, rule))


def _further(one: Widening) -> str:
    if one.how is Widens.FIELDS:
        return _fields_told(one.names)
    if one.how is Widens.VALUES:
        said = ngettext(
            "A field is filled with another value: %(names)s.",
            "Fields are filled with other values: %(names)s.",
            len(one.names),
        )
        return said % {"names": ", ".join(one.names)}
    return str(FURTHER[one.how]) % {"names": ", ".join(str(versions.EVENTS.get(name, name)) for name in one.names)}


def _fields_told(names: tuple[str, ...]) -> str:
    said = ngettext("A field is written anew: %(names)s.", "Fields are written anew: %(names)s.", len(names))
    return said % {"names": ", ".join(names)}


def _first_reach(preview: Preview, rule: Rule | None) -> tuple[str, ...]:
    """What a first publication begins; nothing where something is published already."""
    if rule is None or preview.sync.published is not None or not preview.facts:
        return ()
    destination = _account(preview, "destination")
    if rule.stream is Stream.ORDERS:
        told = [_("Orders and events go to %(destination)s for the first time.") % {"destination": destination}]
    else:
        named = {"list": _list_name(preview, rule), "destination": destination}
        told = [_("List %(list)s at %(destination)s gets contacts of this sync for the first time.") % named]
        number = _counted(preview.result)
        if number:
            told.append(_("It reads %(number)s customers, from the beginning.") % {"number": number})
    names = tuple(field.to for field in rule.mapping)
    return (*told, _fields_told(names)) if names else tuple(told)


def _list_name(preview: Preview, rule: Rule) -> str:
    name = preview.result.get("list_name")
    return f"{rule.list_id} ({name})" if name else str(rule.list_id)


# --- What is not known, what it costs, what stays out ----------------------------------------------------------------
def _unknowns(preview: Preview, rule: Rule | None) -> tuple[str, ...]:
    """What a preview cannot say, each with its reason (PRODUCT 6.1)."""
    result = preview.result
    read, counted = int(result.get("read", 0)), int(result.get("counted", 0))
    told = [str(one) for one in result.get("unknown", ())]
    if counted > read:
        said = ngettext(
            "Cannot preview the other %(n)s record, because a preview reads the first page only.",
            "Cannot preview the other %(n)s records, because a preview reads the first page only.",
            counted - read,
        )
        told.append(said % {"n": f"{counted - read:,}"})
    if rule is not None and rule.stream is Stream.ORDERS:
        told.append(_("Cannot preview whether an order is there already, because that is asked only when it is sent."))
        if rule.events and not rule.history_events:
            told.append(_("Cannot preview which events will be sent, because only those after publishing are."))
    return tuple(told)


def _calls(result: Mapping[str, Any]) -> tuple[str, ...]:
    """About how many calls a whole read costs, against the limits there are (PRODUCT 6.1)."""
    calls = result.get("calls")
    if not calls:
        return ()
    source, destination = int(calls["source"]), int(calls["destination"])
    reads = ngettext("About %(n)s call to read all.", "About %(n)s calls to read all.", source)
    writes = ngettext(
        "About %(n)s call to write what the sample lets expect.",
        "About %(n)s calls to write what the sample lets expect.",
        destination,
    )
    return (
        reads % {"n": f"{source:,}"},
        writes % {"n": f"{destination:,}"},
        _("No limit of calls is set for this sync; the vendors' own limits make a run wait, not fail."),
    )


def _never(preview: Preview, rule: Rule) -> tuple[str, ...]:
    """What will not happen, however the rule is published."""
    refused = int(preview.result.get("states", {}).get(RecordState.REFUSED.value, 0))
    told = [_("Nothing is ever written back to the source.")]
    if refused:
        said = ngettext(
            "The %(n)s refused record of this sample is not sent.",
            "The %(n)s refused records of this sample are not sent.",
            refused,
        )
        told.append(said % {"n": f"{refused:,}"})
    told.append(_("Nobody who left, was blocked or was erased at the destination is written again."))
    return (*told, *_never_of_orders(preview, rule), *_never_of_old(preview))


def _never_of_orders(preview: Preview, rule: Rule) -> list[str]:
    if rule.stream is not Stream.ORDERS:
        return []
    told = []
    if preview.sync.first_published_at is None:
        told.append(
            _("Orders of the time before publishing are not sent, unless they change or a person starts a run.")
        )
    if not rule.history_events:
        told.append(_("No event is sent for what happened before the first publication."))
    if not rule.include_test_orders:
        told.append(_("Test orders are not sent."))
    return told


def _never_of_old(preview: Preview) -> list[str]:
    """A changed mapping leaves old records untouched (PRODUCT 1.4)."""
    version = preview.sync.published
    if version is None:
        return []
    if not _changes(preview):
        return []
    return [_("What was written already stays as it is until it changes at the source, or a backfill sends it.")]
