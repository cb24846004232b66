"""Why do we say healthy, or not? The eight parts of a sync's health: word, evidence, age (UX, section 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from syncs import words
from syncs.domain import credential
from syncs.domain.lifecycle import FAILURES, PROVEN, DeliveryState, Outcome, SyncState, Verdict
from syncs.models import Connection, Run, Sync, Version
from syncs.queries.standing import COUNTED, SILENT_AFTER, Facts, is_late
from syncs.queries.strip import Strip
from syncs.queries.sums import Sums
from syncs.words import Sign, Tone

ASKED_AGAIN: Final = timedelta(hours=1)
"""A proof of a connection is asked for again after this (PRODUCT 5.2)."""

WORST: Final = (Tone.BAD, Tone.WARN, Tone.QUIET, Tone.OK)

CONNECTION_CODES: Final = frozenset(
    {"token_refused", "scope_missing", "wrong_account", "credential_unreadable", "ip_refused", "protected_data_denied"}
)
"""Error codes that are a connection's fault."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of health. ``at``: since when it is so, or when it was last seen to be."""

    name: str
    sign: Sign
    evidence: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Known:
    """What the parts are judged by: all of it is loaded already."""

    facts: Facts
    rows: Sequence[Run]
    sums: Sums
    strip: Strip | None
    now: datetime
    zone: tzinfo

    @property
    def sync(self) -> Sync:
        return self.facts.sync

    def at(self, instant: datetime) -> str:
        return words.instant(instant, self.zone, self.now)


def parts(known: Known) -> tuple[Part, ...]:
    """All eight, the worst first; in their own order among equals."""
    return tuple(sorted(_all(known), key=lambda part: WORST.index(part.sign.tone)))


def _all(known: Known) -> Iterator[Part]:
    yield _runs(known)
    yield _freshness(known)
    yield _proof(known)
    yield _deliveries(known)
    yield _consent(known)
    yield _connections(known)
    yield _version(known)
    yield _schedule(known)


def _ok(word: str) -> Sign:
    return Sign(word, Tone.OK, "done")


def _warn(word: str) -> Sign:
    return Sign(word, Tone.WARN, "warning")


def _none(word: str) -> Sign:
    return Sign(word, Tone.QUIET, "open")


def _runs(known: Known) -> Part:
    counted = [run for run in known.rows if run.outcome in COUNTED]
    last = known.facts.last
    if last is None:
        return Part(_("Runs"), _none(_("None yet")), _("No run has ended yet"), None)
    in_a_row = next((n for n, run in enumerate(counted) if run.outcome not in FAILURES), len(counted))
    if in_a_row > 1:
        sign = Sign(_("%(n)d failed in a row") % {"n": in_a_row}, Tone.BAD, "failed")
    else:
        sign = words.run_sign(outcome=last.outcome, verdict="", states=last.states)
    well = sum(run.outcome == Outcome.SUCCEEDED for run in counted)
    said = ngettext("%(well)d of the last run", "%(well)d of the last %(n)d runs succeeded", len(counted))
    return Part(_("Runs"), sign, said % {"well": well, "n": len(counted)}, last.finished_at)


def _freshness(known: Known) -> Part:
    fresh = known.sync.fresh_as_of
    limit = _("Limit: 24 hours without a success")
    if fresh is None:
        said = _("Set by the first proved run of the schedule") if known.sync.first_published_at else limit
        return Part(_("Freshness"), _none(_("Not yet")), said, None)
    if known.now - fresh > SILENT_AFTER:
        return Part(_("Freshness"), Sign(known.at(fresh), Tone.BAD, "silent"), limit, fresh)
    return Part(_("Freshness"), _ok(known.at(fresh)), limit, fresh)


def _proof(known: Known) -> Part:
    last = known.facts.last
    if last is None:
        return Part(_("Read proof"), _none(_("None yet")), _("No read has been judged yet"), None)
    seen, before = last.evidence.get("rows_seen"), last.evidence.get("count_after") or last.evidence.get("count_before")
    said = ""
    if seen is not None and before:
        said = _("%(counted)s counted, %(read)s read") % {
            "counted": f"{int(before.get('records', 0)):,}",
            "read": f"{int(seen):,}",
        }
    word = str(words.VERDICTS.get(last.verdict, last.verdict))
    if last.verdict in PROVEN:
        return Part(_("Read proof"), _ok(word), said, last.finished_at)
    if last.verdict == Verdict.OPEN:
        return Part(_("Read proof"), _none(_("not reached")), _("The read did not come to its end"), last.finished_at)
    return Part(_("Read proof"), Sign(word, Tone.BAD, "warning"), said, last.finished_at)


def _deliveries(known: Known) -> Part:
    doubt = known.sums.open.get(DeliveryState.IN_DOUBT)
    left = [
        f"{tally.number:,} {words.DELIVERY_STATES[state]}"
        for state, tally in known.sums.left.items()
        if tally.number and state in words.DELIVERY_STATES
    ]
    if doubt is not None and doubt.number:
        said = _("They are settled first, with the same key")
        return Part(_("Deliveries"), _warn(_("%(n)s in doubt") % {"n": f"{doubt.number:,}"}), said, doubt.since)
    if left:
        since = min((tally.since for tally in known.sums.left.values() if tally.since), default=None)
        stuck = any(state != DeliveryState.DEFERRED for state in known.sums.left)
        sign = _warn(left[0]) if stuck else _none(left[0])
        return Part(_("Deliveries"), sign, ", ".join([*left[1:], _("none in doubt")]), since)
    return Part(
        _("Deliveries"), _ok(_("None in doubt")), _("Nothing is set aside or waits"), known.sync.last_success_at
    )


def _consent(known: Known) -> Part:
    still = known.facts.still_since
    if known.sync.first_published_at is None:
        return Part(_("Consent"), _none(_("Nothing sent yet")), _("The filter judges every record before it"), None)
    if still is not None:
        return Part(_("Consent"), _warn(_("Not carried")), _("Withdrawals wait while it stands still"), still)
    gone = known.sums.withdrawn
    if not gone.number:
        said = _("No withdrawal in 7 days")
        return Part(_("Consent"), _ok(_("Carried")), said, known.sync.last_success_at)
    said = ngettext("%(n)s withdrawal in 7 days", "%(n)s withdrawals in 7 days", gone.number) % {
        "n": f"{gone.number:,}"
    }
    if gone.longest is not None:
        said += ", " + _("slowest took %(length)s") % {"length": words.lasting(gone.longest)}
    return Part(_("Consent"), _ok(_("Carried")), said, gone.since)


def _connections(known: Known) -> Part:
    both = (known.sync.source, known.sync.destination)
    said = ". ".join(f"{one.kind.capitalize()}: {one.label or one.name}" for one in both)
    proved = [one.proved_at for one in both if one.proved_at is not None]
    at = min(proved) if len(proved) == len(both) else None
    last = known.facts.last
    if last is not None and last.error_code in CONNECTION_CODES:
        return Part(_("Connections"), Sign(_("Refused"), Tone.BAD, "failed"), last.error_sentence, last.finished_at)
    if can_write(known.sync.source):
        said = _("The source's token can write; give it read-only scopes")
        return Part(_("Connections"), _warn(_("Too many scopes")), said, at)
    if at is None or any(one.proved_fingerprint != one.fingerprint for one in both):
        return Part(_("Connections"), _none(_("Not proved yet")), said, at)
    return Part(_("Connections"), _ok(_("Both answer")), said, at)


def can_write(source: Connection) -> bool:
    """Whether a source's credential may do more than read (PRODUCT 3.10)."""
    return bool(credential.writing(source.scopes))


def _version(known: Known) -> Part:
    version: Version | None = known.sync.published
    if version is None:
        return Part(_("Published version"), _none(_("None")), _("Preview the draft, then publish it"), None)
    short = version.digest[:12]
    named = {"number": version.number, "digest": short}
    if known.sync.state == SyncState.EDITED:
        said = _("Version %(number)d is published; the draft differs") % named
        return Part(_("Published version"), _warn(_("Edited since")), said, known.sync.draft_at)
    proved = next((run for run in known.rows if run.version_id == version.pk and run.verdict in PROVEN), None)
    if proved is None:
        return Part(_("Published version"), _none(_("v%(number)d") % named), short, version.published_at)
    said = _("%(digest)s at every run") % named
    return Part(_("Published version"), _ok(_("v%(number)d proved") % named), said, proved.finished_at)


def _schedule(known: Known) -> Part:
    schedule = known.facts.schedule
    if schedule is None:
        return Part(_("Schedule"), _none(_("None yet")), _("Publishing starts it"), None)
    if known.sync.state in (SyncState.PAUSED, SyncState.EDITED):
        sign = Sign(_("Stands still"), Tone.BAD if known.sync.state == SyncState.PAUSED else Tone.WARN, "paused")
        return Part(_("Schedule"), sign, _("Goes on when a person publishes"), known.facts.still_since)
    if not schedule.active:
        return Part(_("Schedule"), _none(_("Off")), words.every(schedule.every_minutes), None)
    every = words.every(schedule.every_minutes)
    if is_late(known.facts, known.now):
        return Part(_("Schedule"), Sign(_("Late"), Tone.WARN, "clock"), every, known.facts.next_for)
    left_out = _left_out(known.strip)
    if left_out:
        said = ngettext("%(n)d start left out in 48 hours", "%(n)d starts left out in 48 hours", left_out)
        return Part(_("Schedule"), _warn(_("Left out some")), said % {"n": left_out}, None)
    return Part(_("Schedule"), _ok(_("On time")), every, known.sync.last_success_at)


def _left_out(strip: Strip | None) -> int:
    return sum(kind.number for kind in strip.kinds if kind.sign.shape == "miss") if strip else 0
