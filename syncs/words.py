"""Words for states, outcomes and codes: one list for pages, mails and whatever else people read (UX, sections 1 and 6).

Codes are stable; these are their English words, marked for translation. A tone says how good or bad something is, a
shape is the sign beside the word, so that no state is told by colour alone. "Refused" is ours and intended, "rejected"
is the destination's, "failed" is a fault: never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.utils import dateformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from syncs.domain.lifecycle import (
    DeliveryState,
    FindingState,
    Lane,
    OccurrenceState,
    Outcome,
    Phase,
    RecordState,
    RunState,
    SyncState,
    Trigger,
    Verdict,
)

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

Words = Mapping[str, "str | StrPromise"]


class Health(StrEnum):
    """The headline of a sync, from worst to best: the first that applies is its word (UX, section 1)."""

    PAUSED = "paused"
    FAILING = "failing"
    SILENT = "silent"
    UNPROVEN = "unproven"
    EDITED = "edited"
    RETRYING = "retrying"
    LATE = "late"
    HEALTHY = "healthy"
    WAITING = "waiting"
    DRAFT = "draft"


class Tone(StrEnum):
    """How good or bad something is: its colour."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Sign:
    """A state as people see it: its word, its colour and its shape (the name of a symbol on the page)."""

    word: str
    tone: Tone
    shape: str


HEALTH: Final[Words] = {
    Health.PAUSED: _lazy("Paused"),
    Health.FAILING: _lazy("Failing"),
    Health.SILENT: _lazy("Silent"),
    Health.UNPROVEN: _lazy("Unproven"),
    Health.EDITED: _lazy("Edited, not published"),
    Health.RETRYING: _lazy("Retrying"),
    Health.LATE: _lazy("Late"),
    Health.HEALTHY: _lazy("Healthy"),
    Health.WAITING: _lazy("Waiting"),
    Health.DRAFT: _lazy("Draft"),
}
_HEALTH_LOOK: Final[Mapping[str, tuple[Tone, str]]] = {
    Health.PAUSED: (Tone.BAD, "paused"),
    Health.FAILING: (Tone.BAD, "failed"),
    Health.SILENT: (Tone.BAD, "silent"),
    Health.UNPROVEN: (Tone.BAD, "warning"),
    Health.EDITED: (Tone.WARN, "edited"),
    Health.RETRYING: (Tone.WARN, "warning"),
    Health.LATE: (Tone.WARN, "clock"),
    Health.HEALTHY: (Tone.OK, "done"),
    Health.WAITING: (Tone.QUIET, "open"),
    Health.DRAFT: (Tone.QUIET, "edited"),
}

SYNC_STATES: Final[Words] = {
    SyncState.DRAFT: _lazy("draft"),
    SyncState.PUBLISHED: _lazy("published"),
    SyncState.EDITED: _lazy("edited, not published"),
    SyncState.PAUSED: _lazy("paused"),
}

OUTCOMES: Final[Words] = {
    Outcome.SUCCEEDED: _lazy("succeeded"),
    Outcome.FAILED: _lazy("failed"),
    Outcome.UNREADABLE: _lazy("unreadable"),
    Outcome.SHORT: _lazy("short"),
    Outcome.UNPROVEN: _lazy("unproven"),
    Outcome.LOST_LEASE: _lazy("lost its slot"),
    Outcome.COLLIDED: _lazy("collided"),
    Outcome.SUPERSEDED: _lazy("superseded"),
    Outcome.STOPPED: _lazy("stopped"),
    Outcome.CANCELLED: _lazy("cancelled"),
    Outcome.LIMIT: _lazy("stopped at its limit"),
    Outcome.INTERRUPTED: _lazy("interrupted"),
    Outcome.PARKED: _lazy("parked"),
    Outcome.YIELDED: _lazy("gave way"),
}
_OUTCOME_LOOK: Final[Mapping[str, tuple[Tone, str]]] = {
    Outcome.SUCCEEDED: (Tone.OK, "done"),
    Outcome.FAILED: (Tone.BAD, "failed"),
    Outcome.UNREADABLE: (Tone.BAD, "failed"),
    Outcome.SHORT: (Tone.BAD, "warning"),
    Outcome.UNPROVEN: (Tone.BAD, "warning"),
    Outcome.INTERRUPTED: (Tone.BAD, "failed"),
    Outcome.LOST_LEASE: (Tone.WARN, "warning"),
    Outcome.LIMIT: (Tone.WARN, "paused"),
}
_STILL: Final = (Tone.QUIET, "open")

RUN_STATES: Final[Words] = {
    RunState.WAITING: _lazy("waiting"),
    RunState.RUNNING: _lazy("running"),
    RunState.PARKED: _lazy("parked"),
    RunState.FINISHED: _lazy("finished"),
}

PHASES: Final[Words] = {
    Phase.PROVING: _lazy("proving"),
    Phase.READING: _lazy("reading"),
    Phase.WRITING: _lazy("writing"),
    Phase.CLOSING: _lazy("closing"),
}

VERDICTS: Final[Words] = {
    Verdict.OPEN: _lazy("not judged yet"),
    Verdict.PROVEN: _lazy("proved"),
    Verdict.PROVEN_QUIET: _lazy("proved, nothing new"),
    Verdict.SHORT: _lazy("short"),
    Verdict.UNREADABLE: _lazy("unreadable"),
    Verdict.UNPROVEN: _lazy("unproven"),
}

RECORD_STATES: Final[Words] = {
    RecordState.WRITTEN: _lazy("written"),
    RecordState.ALREADY_DELIVERED: _lazy("already delivered"),
    RecordState.UNCHANGED: _lazy("unchanged"),
    RecordState.SUPERSEDED: _lazy("superseded"),
    RecordState.FILTERED: _lazy("filtered"),
    RecordState.REFUSED: _lazy("refused"),
    RecordState.DEFERRED: _lazy("deferred"),
    RecordState.SET_ASIDE: _lazy("set aside"),
    RecordState.IN_DOUBT: _lazy("in doubt"),
    RecordState.FAILED: _lazy("failed"),
    RecordState.NOT_YET_TRIED: _lazy("not yet tried"),
}
"""In the order in which a page names them."""

PREVIEW_STATES: Final[Words] = {
    "create": _lazy("would be created"),
    "update": _lazy("would be updated"),
    **RECORD_STATES,
}

DELIVERY_STATES: Final[Words] = {
    DeliveryState.CLAIMED: _lazy("claimed, not sent"),
    DeliveryState.SENDING: _lazy("going out"),
    DeliveryState.IN_DOUBT: _lazy("in doubt"),
    DeliveryState.WRITTEN: _lazy("written"),
    DeliveryState.REFUSED: _lazy("refused"),
    DeliveryState.FAILED: _lazy("failed"),
    DeliveryState.DEFERRED: _lazy("deferred"),
    DeliveryState.SET_ASIDE: _lazy("set aside"),
    DeliveryState.SUPERSEDED: _lazy("superseded"),
}

OCCURRENCE_STATES: Final[Words] = {
    OccurrenceState.DUE: _lazy("due"),
    OccurrenceState.HELD: _lazy("held"),
    OccurrenceState.EXECUTED: _lazy("executed"),
    OccurrenceState.EXECUTED_LATE: _lazy("executed late"),
    OccurrenceState.SKIPPED_LATE: _lazy("skipped: too late"),
    OccurrenceState.COLLIDED: _lazy("collided"),
    OccurrenceState.DISCARDED: _lazy("not started: nothing was published"),
}

LANES: Final[Words] = {
    Lane.SCHEDULED: _lazy("scheduled"),
    Lane.MANUAL: _lazy("manual"),
    Lane.RECONCILE: _lazy("reconcile"),
}

TRIGGERS: Final[Words] = {
    Trigger.SCHEDULE: _lazy("the schedule"),
    Trigger.PERSON: _lazy("a person"),
}

FINDING_STATES: Final[Words] = {
    FindingState.OPEN: _lazy("open"),
    FindingState.ACKNOWLEDGED: _lazy("acknowledged"),
    FindingState.SNOOZED: _lazy("snoozed"),
    FindingState.RESOLVED: _lazy("resolved"),
}

REFUSALS: Final[Words] = {
    "no_customer": _lazy("the order names no customer"),
    "no_address": _lazy("no e-mail address"),
    "not_subscribed": _lazy("never subscribed to marketing"),
    "unsubscribed": _lazy("unsubscribed at the source"),
    "pending": _lazy("the opt-in was never confirmed"),
    "invalid": _lazy("the source calls the consent invalid"),
    "redacted": _lazy("erased at the source"),
    "state_unknown": _lazy("a consent state that we do not know"),
    "level_unknown": _lazy("no opt-in level that proves consent"),
    "no_date": _lazy("subscribed, but not since when"),
    "date_in_future": _lazy("subscribed at a time that lies ahead"),
    "malformed_address": _lazy("not a valid e-mail address"),
    "address_unsupported": _lazy("an address that the destination cannot take"),
    "data_sale_opt_out": _lazy("opted out of the sale of personal data"),
    "destination_unsubscribed": _lazy("unsubscribed at the destination"),
    "destination_blocklisted": _lazy("blocklisted at the destination"),
    "suppressed": _lazy("on the suppression list: never created again"),
    "address_changed": _lazy("the address changed at the source"),
}
"""Every reason to refuse a person. Refusing is intended: nothing was guessed (PRODUCT 3.6)."""

_SOURCE_SAYS_SO: Final = _lazy("The source says so. Nothing to do.")
_DESTINATION_SAYS_SO: Final = _lazy("The destination's no wins. Nothing to do.")
_ASK: Final = _lazy("Ask these people to confirm once.")

REFUSAL_ADVICE: Final[Words] = {
    "no_customer": _lazy("Nothing to do: an order without a customer goes nowhere."),
    "no_address": _lazy("Nothing to do, or complete the record at the source."),
    "not_subscribed": _SOURCE_SAYS_SO,
    "unsubscribed": _SOURCE_SAYS_SO,
    "pending": _lazy("The source has sent the confirmation. Nothing to do."),
    "invalid": _SOURCE_SAYS_SO,
    "redacted": _SOURCE_SAYS_SO,
    "state_unknown": _lazy("Tell your operator the field named in the samples."),
    "level_unknown": _lazy("Check the form or app that wrote it."),
    "no_date": _ASK,
    "date_in_future": _lazy("Correct the date at the source."),
    "malformed_address": _lazy("Correct the address at the source."),
    "address_unsupported": _lazy("Ask these people for another address."),
    "data_sale_opt_out": _lazy("Your rule refuses them. Nothing to do."),
    "destination_unsubscribed": _DESTINATION_SAYS_SO,
    "destination_blocklisted": _DESTINATION_SAYS_SO,
    "suppressed": _DESTINATION_SAYS_SO,
    "address_changed": _ASK,
}
"""What a shop can do about a refusal, where there is anything to do."""

_TEST: Final = _lazy("Test the connection and renew its credential.")
PUBLISH_AGAIN: Final = _lazy("Open the draft, preview it and publish again.")
_NOTHING: Final = _lazy("Nothing to do: Vigil goes on by itself.")
_AGAIN: Final = _lazy("Run it again; if it repeats, test the connection.")

ADVICE: Final[Words] = {
    "token_refused": _TEST,
    "scope_missing": _TEST,
    "ip_refused": _lazy("Allow the address of this server in the destination's settings."),
    "protected_data_denied": _lazy("Give the shop's app access to protected customer data."),
    "wrong_account": PUBLISH_AGAIN,
    "version_mismatch": PUBLISH_AGAIN,
    "rule_invalid": PUBLISH_AGAIN,
    "credential_unreadable": _lazy("Enter the connection's credential again: our keys do not open it."),
    "list_missing": _lazy("Choose a list that exists, in the draft."),
    "rejected_alike": _lazy("Check the list and the mapping in the draft."),
    "rejected": _lazy("Correct the record at the source, or set rejected records aside in the draft."),
    "in_doubt": _lazy("Nothing to do: what is in doubt is settled first at the next attempt, with the same key."),
    "not_tried": _NOTHING,
    "interrupted": _NOTHING,
    "unavailable": _NOTHING,
    "throttled": _NOTHING,
    "superseded": _lazy("Nothing to do: the next run follows the newer version."),
    "collision": _lazy("Wait for the other run to end, then run it again if you still need to."),
    "lost_lease": _lazy("Nothing to do: the run goes on under a new lease. What was sent is known by its keys."),
    "cancelled": _lazy("Run it again when you want to: it goes on where it stopped."),
    "paused": PUBLISH_AGAIN,
    "worker_died": _lazy("Look at the worker's log, then run it again."),
    "read_short": _lazy("Test the connection: the source counted more than it delivered."),
    "read_unproven": _lazy("Test the connection: a read that cannot be proved moves nothing."),
}
"""What to do, by error code; a code that is not here says `_AGAIN`."""

ACTIONS: Final[Words] = {
    "sync.created": _lazy("created the sync"),
    "sync.draft_saved": _lazy("saved the draft"),
    "sync.published": _lazy("published"),
    "sync.paused": _lazy("paused the sync"),
    "sync.must_publish": _lazy("changed a connection, so that the sync must be published again"),
    "schedule.set": _lazy("changed the schedule"),
    "run.started": _lazy("started a run"),
    "run.cancelled": _lazy("cancelled a run"),
    "backfill.started": _lazy("started a backfill"),
    "cursor.reset": _lazy("moved a cursor back"),
    "deliveries.retried": _lazy("asked to try records again"),
    "delivery.set_aside": _lazy("set a record aside"),
    "lease.taken_over": _lazy("freed the sync from a worker that was gone"),
}
"""What was done to a sync. Deeds about connections, members and workspaces stand below."""

OTHER_ACTIONS: Final[Words] = {
    "workspace.created": _lazy("created the workspace"),
    "workspace.viewed": _lazy("looked at the workspace as the merchant sees it"),
    "connection.created": _lazy("connected an account"),
    "connection.changed": _lazy("changed a connection"),
    "connection.rotated": _lazy("rotated a credential"),
    "connection.tested": _lazy("tested a connection"),
    "connection.next_entered": _lazy("entered the next credential of a connection"),
    "connection.next_tested": _lazy("tested the next credential of a connection"),
    "connection.next_dropped": _lazy("dropped the next credential of a connection"),
    "connection.switched": _lazy("switched a connection to its next credential"),
    "connection.disconnected": _lazy("disconnected an account"),
    "workspaces.paused": _lazy("paused the syncs of several workspaces"),
    "workspaces.resumed": _lazy("published syncs again that were paused together"),
    "member.added": _lazy("added a member"),
    "second_factor.set_up": _lazy("set up a second factor"),
    "second_factor.codes_renewed": _lazy("made new recovery codes"),
    "second_factor.removed": _lazy("removed a second factor"),
    "second_factor.reset": _lazy("reset somebody's second factor"),
}
"""What was done in a workspace besides. A deed that is not here is shown by its code."""


def health(code: Health) -> Sign:
    """How a headline is shown."""
    tone, shape = _HEALTH_LOOK[code]
    return Sign(str(HEALTH[code]), tone, shape)


def run_sign(*, outcome: str, verdict: str, states: Mapping[str, int], stopped_by: str = "") -> Sign:
    """How a finished run is shown. One that left records behind is never plain "succeeded" (Case UI-03)."""
    tone, shape = _OUTCOME_LOOK.get(outcome, _STILL)
    word = str(OUTCOMES.get(outcome, outcome))
    if outcome == Outcome.CANCELLED and stopped_by:
        word = _("cancelled by %(name)s") % {"name": stopped_by}
    left = left_behind(states)
    if outcome == Outcome.SUCCEEDED and left:
        return Sign(f"{word}, {left}", Tone.WARN, "warning")
    if outcome == Outcome.SUCCEEDED and verdict == Verdict.PROVEN_QUIET:
        return Sign(_("succeeded, nothing new (proved)"), Tone.OK, "quiet")
    return Sign(word, tone, shape)


def outcome_tone(outcome: str) -> Tone:
    """How good or bad an outcome is."""
    return _OUTCOME_LOOK.get(outcome, _STILL)[0]


LEFT_BEHIND: Final = (RecordState.SET_ASIDE, RecordState.FAILED, RecordState.IN_DOUBT, RecordState.NOT_YET_TRIED)


def left_behind(states: Mapping[str, int]) -> str:
    """What a run did not bring home: "3 set aside, 1 in doubt"; "" when there is none."""
    return ", ".join(f"{states[state]:,} {RECORD_STATES[state]}" for state in LEFT_BEHIND if states.get(state))


def refusal(code: str) -> str:
    """Why a record was refused, in words; a destination's own code is shown as it is."""
    return str(REFUSALS.get(code) or code.replace("_", " ") or _("no reason was kept"))


def refusal_advice(code: str) -> str:
    """What a shop can do about a reason to refuse."""
    return str(REFUSAL_ADVICE.get(code) or _("Look at the samples."))


def deed(action: str) -> str:
    """What was done, in words; by its code where there are none."""
    return str(ACTIONS.get(action) or OTHER_ACTIONS.get(action) or action)


def advice(code: str) -> str:
    """What to do about an error code; "" when there is no error."""
    return str(ADVICE.get(code, _AGAIN)) if code else ""


def every(minutes: int) -> str:
    """An interval in words."""
    if minutes % (24 * 60) == 0:
        return ngettext("every day", "every %(days)d days", minutes // 1440) % {"days": minutes // 1440}
    if minutes % 60 == 0:
        return ngettext("every hour", "every %(hours)d hours", minutes // 60) % {"hours": minutes // 60}
    return ngettext("every minute", "every %(minutes)d minutes", minutes) % {"minutes": minutes}


def zone_of(name: str) -> tzinfo:
    """The time zone ``name``, UTC where there is none by that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def instant(at: datetime, zone: tzinfo, now: datetime) -> str:
    """An instant on the workspace's clock with the zone's name, so that 02:30 that comes twice is two (Case UI-01).

    Today's have no date.
    """
    today = at.astimezone(zone).date() == now.astimezone(zone).date()
    return _local("H:i", at, zone) if today else dated(at, zone)


def dated(at: datetime, zone: tzinfo) -> str:
    """The same with its date, for lists that span days."""
    return _local("j M Y H:i", at, zone)


def _local(form: str, at: datetime, zone: tzinfo) -> str:
    """Django's own letter for a zone's name is silent in the hour that comes twice: the very one that needs it."""
    local = at.astimezone(zone)
    return f"{dateformat.format(local, form)} {local.tzname()}"


ROUNDED_UP: Final = timedelta(seconds=59)
"""What is ahead by 9 minutes and 50 seconds is 10 minutes ahead."""


def lasting(length: timedelta) -> str:
    """A length of time in the largest unit of which there are two: "26 hours", "90 minutes"."""
    seconds = max(int(length.total_seconds()), 0)
    if seconds < 120:
        return ngettext("%(n)d second", "%(n)d seconds", seconds) % {"n": seconds}
    if seconds < 2 * 3600:
        return ngettext("%(n)d minute", "%(n)d minutes", seconds // 60) % {"n": seconds // 60}
    if seconds < 2 * 86400:
        return ngettext("%(n)d hour", "%(n)d hours", seconds // 3600) % {"n": seconds // 3600}
    return ngettext("%(n)d day", "%(n)d days", seconds // 86400) % {"n": seconds // 86400}


def relative(at: datetime, now: datetime) -> str:
    """How far an instant is from now: "4 minutes ago", "in 10 minutes"."""
    if at > now:
        ahead = at - now
        return _("in %(length)s") % {"length": lasting(ahead if ahead < ROUNDED_UP * 2 else ahead + ROUNDED_UP)}
    return _("%(length)s ago") % {"length": lasting(now - at)}
