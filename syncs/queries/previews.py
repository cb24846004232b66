"""What would happen, shown before anything is written (UX, P6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from syncs import words
from syncs.domain import rule as rules
from syncs.domain.lifecycle import SyncState
from syncs.errors import RuleInvalid
from syncs.models import Preview, Sync, Version
from syncs.queries import runs
from syncs.queries.runs import Reason
from syncs.queries.sync import sentences


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
    changes: tuple[FieldLine, ...]
    source: str
    destination: str
    is_unreadable: bool


def preview_page(preview: Preview, now: datetime) -> PreviewPage:
    """The page of a preview (with its relations, as `preview_for` gives it). No query."""
    result: Mapping[str, Any] = preview.result
    blocks = tuple(str(block) for block in result.get("blocks", ()))
    return PreviewPage(
        preview=preview,
        digest=preview.digest,
        grouped_digest=grouped(preview.digest[:12]),
        short=preview.digest[:12],
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
        source=_account(preview, "source"),
        destination=_account(preview, "destination"),
        is_unreadable=not preview.facts,
    )


def published_since_preview(sync: Sync, digest: str) -> Version | None:
    """The running version, when exactly ``digest`` was published after its newest preview: a second press of Publish.

    To publish the same rule again takes a fresh preview (PRODUCT 4.3).
    """
    version = sync.published
    if sync.state != SyncState.PUBLISHED or version is None or version.digest != digest:
        return None
    newer = sync.previews.filter(digest=digest, made_at__gt=version.published_at).exists()
    return None if newer else version


def grouped(digest: str) -> str:
    """A digest as people compare it: in groups of four."""
    return " ".join(digest[at : at + 4] for at in range(0, len(digest), 4))


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


def _changes(preview: Preview) -> tuple[FieldLine, ...]:
    """What differs from the published rule; nothing when none is published or one of both cannot be read."""
    version = preview.sync.published
    if version is None:
        return ()
    try:
        before, after = rules.parse(json.loads(version.document)), rules.parse(preview.rule)
    except RuleInvalid:
        return ()
    return tuple(FieldLine(one.field, _value(one.before), _value(one.after)) for one in rules.changes(before, after))


def _account(preview: Preview, side: str) -> str:
    facts = preview.facts.get(side)
    if not facts:
        end = preview.sync.source if side == "source" else preview.sync.destination
        return end.kind.capitalize()
    return f"{facts['kind'].capitalize()}: {facts.get('label') or facts['account']} ({facts['account']})"
