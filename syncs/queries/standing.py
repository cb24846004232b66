"""Is it healthy, since when, and what must be done? The headline of a sync and its one banner (UX, 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from django.utils.translation import gettext as _

from syncs import words
from syncs.domain.lifecycle import FAILURES, Outcome, RunState, SyncState
from syncs.domain.retry import MAX_ATTEMPTS
from syncs.models import Lease, Run, Schedule, Sync
from syncs.words import Health, Tone

SILENT_AFTER: Final = timedelta(hours=24)
"""Exactly this long is still fine (PRODUCT 5.3)."""

STILL_AFTER: Final = timedelta(hours=24)
"""A once published sync that stands still for this long says that withdrawals are not carried (PRODUCT 3.8)."""

LATE_AFTER: Final = timedelta(minutes=2)
"""The planner looks every minute: what has not started after two of its rounds is late."""

NO_SIGN_AFTER: Final = timedelta(minutes=11)
"""A lease is renewed every five minutes: two missed renewals are no sign of life (Case UI-02)."""

COUNTED: Final = frozenset({*FAILURES, Outcome.SUCCEEDED, Outcome.LIMIT})
"""Outcomes that say how a sync is doing; a collision or a cancelled run says nothing."""

UNPROVEN: Final = frozenset({Outcome.SHORT, Outcome.UNPROVEN})
"""Outcomes of a read that ended and could not be proved."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a headline is judged by. ``last`` is the last finished run that counts, ``still_since`` when a sync that
    was published once began to stand still."""

    sync: Sync
    open_run: Run | None
    last: Run | None
    still_since: datetime | None = None

    @property
    def schedule(self) -> Schedule | None:
        return getattr(self.sync, "schedule", None)

    @property
    def lease(self) -> Lease | None:
        return getattr(self.sync, "lease", None)

    @property
    def next_for(self) -> datetime | None:
        """When the next run is planned; None where none is."""
        if self.open_run is not None and self.open_run.state == RunState.WAITING:
            return self.open_run.due_after
        if self.sync.state != SyncState.PUBLISHED or self.schedule is None or not self.schedule.active:
            return None
        return self.schedule.next_for

    @property
    def last_since_change(self) -> Run | None:
        """The last run that counts, unless something was published after it (PRODUCT 4.3)."""
        changed = self.sync.changed_at
        return self.last if self.last and (changed is None or self.last.created_at >= changed) else None


@dataclass(frozen=True, slots=True)
class Banner:
    """What happened, what to do, what is safe and what is not. The worst thing only; ``more`` names the others."""

    tone: Tone
    title: str
    lead: str
    todo: tuple[str, ...]
    safe: tuple[str, ...]
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """A sync's headline, its sentence and its banner, if something is wrong."""

    health: Health
    sentence: str
    banner: Banner | None

    @property
    def sign(self) -> words.Sign:
        return words.health(self.health)


def headline(facts: Facts, now: datetime) -> Health:
    """The worst thing that is true of a sync, in the order of UX 1."""
    return applying(facts, now)[0]


def applying(facts: Facts, now: datetime) -> tuple[Health, ...]:
    """Everything that is true of a sync, worst first; at least one."""
    state = SyncState(facts.sync.state)
    if state is SyncState.DRAFT:
        return (Health.DRAFT,)
    last = Outcome(facts.last_since_change.outcome) if facts.last_since_change else None
    truths = {
        Health.PAUSED: state is SyncState.PAUSED,
        Health.FAILING: last in FAILURES - UNPROVEN,
        Health.SILENT: state is SyncState.PUBLISHED and silent_for(facts, now) > SILENT_AFTER,
        Health.UNPROVEN: last in UNPROVEN,
        Health.EDITED: state is SyncState.EDITED,
        Health.RETRYING: is_retrying(facts),
        Health.LATE: is_late(facts, now),
        Health.HEALTHY: _succeeded_lately(facts, now),
        Health.WAITING: True,
    }
    return tuple(code for code, true in truths.items() if true)


def silent_for(facts: Facts, now: datetime) -> timedelta:
    """How long there was no successful run, at most since the last publication: before it none could start."""
    since = max((at for at in (facts.sync.last_success_at, facts.sync.changed_at) if at), default=now)
    return now - since


def _succeeded_lately(facts: Facts, now: datetime) -> bool:
    at = facts.sync.last_success_at
    return at is not None and now - at <= SILENT_AFTER


def is_retrying(facts: Facts) -> bool:
    run = facts.open_run
    return run is not None and run.state == RunState.WAITING and run.failures > 0


def is_late(facts: Facts, now: datetime) -> bool:
    """Planned and not started, or started and without a sign of life."""
    if no_sign_since(facts.open_run, facts.lease, now) is not None:
        return True
    planned = facts.next_for
    return planned is not None and now - planned > LATE_AFTER


def no_sign_since(run: Run | None, lease: Lease | None, now: datetime) -> datetime | None:
    """Since when a run that calls itself running has shown no sign of life; None while it does (Case UI-02)."""
    if run is None or run.state != RunState.RUNNING:
        return None
    mine = lease is not None and lease.run_id == run.pk
    seen = lease.renewed_at if mine and lease is not None else run.started_at or run.created_at
    expired = mine and lease is not None and lease.expires_at <= now
    return seen if expired or now - seen > NO_SIGN_AFTER else None


def takeover_at(lease: Lease | None, now: datetime) -> datetime:
    """When a run without a sign of life is taken over: at the planner's next round after its lease has ended."""
    ends = max(lease.expires_at, now) if lease is not None else now
    return ends.replace(second=0, microsecond=0) + timedelta(minutes=1)


def judge(facts: Facts, now: datetime, zone: tzinfo) -> Standing:
    """The headline with its sentence and its banner. The failures that paused a sync are told by its pause."""
    speaker = Speaker(facts, now, zone)
    true = applying(facts, now)
    worst = true[0]
    told = true[:1] if worst is Health.PAUSED else true
    banners = [BANNERS[code](speaker) for code in told if code in BANNERS]
    first = banners[0] if banners else None
    if first is not None and len(banners) > 1:
        more = tuple(f"{other.title} {other.lead}" for other in banners[1:])
        first = Banner(first.tone, first.title, first.lead, first.todo, first.safe, more)
    return Standing(worst, SENTENCES[worst](speaker), first)


@dataclass(frozen=True, slots=True)
class Speaker:
    """Facts with the clock they are told by."""

    facts: Facts
    now: datetime
    zone: tzinfo

    @property
    def sync(self) -> Sync:
        return self.facts.sync

    @property
    def last_error(self) -> str:
        run = self.facts.last
        return run.error_sentence if run is not None else ""

    def at(self, instant: datetime | None) -> str:
        return words.instant(instant, self.zone, self.now) if instant is not None else _("an unknown time")

    def ends(self) -> dict[str, str]:
        """What the two systems are called."""
        return {
            "source": self.sync.source.kind.capitalize(),
            "destination": self.sync.destination.kind.capitalize(),
            "fresh": self.at(self.sync.fresh_as_of),
        }


def _fresh(told: Speaker) -> str:
    if told.sync.fresh_as_of is None:
        return ""
    return " " + _("%(destination)s shows %(source)s as of %(fresh)s.") % told.ends()


def _paused(told: Speaker) -> str:
    return _("Paused since %(at)s. Nothing is lost.") % {"at": told.at(told.sync.paused_at)} + _fresh(told)


def _failing(told: Speaker) -> str:
    last = told.facts.last
    return _("The last run failed at %(at)s. Nothing is lost: the next one goes on at the same place.") % {
        "at": told.at(last.finished_at if last else None)
    }


def _silent(told: Speaker) -> str:
    length = words.lasting(silent_for(told.facts, told.now))
    said = _("No successful run for %(length)s (limit 24 hours).") % {"length": length}
    if told.sync.last_success_at is None:
        return said + " " + _("There was never one.")
    return said + " " + _("Last success: %(at)s.") % {"at": told.at(told.sync.last_success_at)}


def _unproven(told: Speaker) -> str:
    return _("The last read could not be proved, so it moved nothing.") + _fresh(told)


def _edited(told: Speaker) -> str:
    return _("The draft was changed. Nothing runs until it is published again.") + _fresh(told)


def _retrying(told: Speaker) -> str:
    run = told.facts.open_run
    said = _("Attempt %(number)d of %(most)d failed. The next one starts at %(at)s.")
    if is_late(told.facts, told.now):
        said = _("Attempt %(number)d of %(most)d failed. The next one was due at %(at)s and has not started.")
    return said % {
        "number": run.failures if run else 0,
        "most": MAX_ATTEMPTS,
        "at": told.at(told.facts.next_for),
    }


def _late(told: Speaker) -> str:
    seen = no_sign_since(told.facts.open_run, told.facts.lease, told.now)
    if seen is None:
        return _("The run planned for %(at)s has not started.") % {"at": told.at(told.facts.next_for)} + _fresh(told)
    return _("No sign of life of the run since %(at)s. Another worker takes it over at %(then)s.") % {
        "at": told.at(seen),
        "then": told.at(takeover_at(told.facts.lease, told.now)),
    }


def _healthy(told: Speaker) -> str:
    """A run of a person proves that the sync works; how fresh it is, only the schedule's own runs say (1.3)."""
    if told.sync.fresh_as_of is not None:
        return _("Running on time.") + _fresh(told)
    said = _("The run that a person started is proved (%(at)s).") % {"at": told.at(told.sync.last_success_at)}
    if told.facts.next_for is None:
        return said + " " + _("No scheduled run is planned yet.")
    return said + " " + _("The first scheduled run is planned for %(at)s.") % {"at": told.at(told.facts.next_for)}


def _waiting(told: Speaker) -> str:
    if told.facts.open_run is not None and told.facts.open_run.state == RunState.RUNNING:
        return _("The first run since publishing is going on.") + _fresh(told)
    if told.facts.next_for is None:
        return _("Published, and no run is planned: the schedule is off. Start one with Run now.")
    if told.facts.last is None:
        return _("No run yet. The first is planned for %(at)s.") % {"at": told.at(told.facts.next_for)}
    return _("No run since publishing. The next is planned for %(at)s.") % {"at": told.at(told.facts.next_for)}


def _draft(told: Speaker) -> str:
    return _("Nothing runs yet. Preview the draft, then publish exactly what you saw.")


SENTENCES: Final[Mapping[Health, Callable[[Speaker], str]]] = {
    Health.PAUSED: _paused,
    Health.FAILING: _failing,
    Health.SILENT: _silent,
    Health.UNPROVEN: _unproven,
    Health.EDITED: _edited,
    Health.RETRYING: _retrying,
    Health.LATE: _late,
    Health.HEALTHY: _healthy,
    Health.WAITING: _waiting,
    Health.DRAFT: _draft,
}


def _cursor_stands(told: Speaker) -> str:
    if told.sync.fresh_as_of is None:
        return _("Nothing is lost: the cursor stands.")
    return _("Nothing is lost: the cursor stands at %(fresh)s.") % told.ends()


def _withdrawals(told: Speaker) -> tuple[str, ...]:
    """What a sync that was published once must say while it stands still (PRODUCT 3.8)."""
    if told.sync.first_published_at is None:
        return ()
    since = told.sync.last_success_at or told.sync.first_published_at
    named = {"since": told.at(since), "destination": told.ends()["destination"]}
    said = _("Withdrawals since %(since)s are not carried to %(destination)s while it stands still.") % named
    still = told.facts.still_since
    if still is not None and told.now - still > STILL_AFTER:
        said += " " + _("It has stood still for %(length)s.") % {"length": words.lasting(told.now - still)}
    return (said,)


def _publish_steps(first: str) -> tuple[str, ...]:
    steps = _("Open the draft and look at a fresh preview."), _("Publish exactly that.")
    return steps if first == str(words.PUBLISH_AGAIN) else (first, *steps)


def _banner_paused(told: Speaker) -> Banner:
    sync, at = told.sync, told.at(told.sync.paused_at)
    by_person = sync.pause_code == "by_person"
    title = _("Paused since %(at)s.") if by_person else _("Paused after failed runs in a row, since %(at)s.")
    first = _("Settle what it was paused for.") if by_person else words.advice(sync.pause_code)
    lead = f"{sync.pause_sentence} " + _("Nothing starts it again by itself.")
    safe = (_cursor_stands(told), *_withdrawals(told))
    return Banner(Tone.BAD, title % {"at": at}, lead.strip(), _publish_steps(first), safe)


def _banner_failing(told: Speaker) -> Banner:
    last = told.facts.last
    at = told.at(last.finished_at if last else None)
    title = _("The last run failed at %(at)s and has no attempt left.") % {"at": at}
    todo = [words.advice(last.error_code if last else "")]
    if told.facts.next_for is not None:
        todo.append(_("Otherwise wait: the next run starts at %(at)s.") % {"at": told.at(told.facts.next_for)})
    return Banner(Tone.BAD, title, told.last_error, tuple(one for one in todo if one), (_cursor_stands(told),))


def _banner_silent(told: Speaker) -> Banner:
    todo = (_("Look at the sync's latest runs."), _("Press Run now, or ask staff whether a worker is running."))
    return Banner(Tone.BAD, _silent(told), told.last_error, todo, (_cursor_stands(told),))


def _banner_unproven(told: Speaker) -> Banner:
    last = told.facts.last
    title = _("The last read could not be proved.")
    safe = (_("Nothing of it was believed."), _cursor_stands(told))
    return Banner(Tone.BAD, title, told.last_error, (words.advice(last.error_code if last else ""),), safe)


def _banner_edited(told: Speaker) -> Banner:
    sync = told.sync
    who = sync.draft_by.get_username() if sync.draft_by else _("Somebody")
    lead = _("%(who)s saved the draft at %(at)s. It stands still until it is published again.") % {
        "who": who,
        "at": told.at(sync.draft_at),
    }
    todo = (_("Open the draft and look at a preview."), _("Publish exactly that."))
    return Banner(Tone.WARN, _("Edited, not published."), lead, todo, (_cursor_stands(told), *_withdrawals(told)))


def _banner_retrying(told: Speaker) -> Banner:
    run = told.facts.open_run
    todo = words.advice(run.error_code if run else "")
    safe = (_("Nothing is lost: the next attempt goes on at the same place."),)
    return Banner(Tone.WARN, (run.error_sentence if run else "") or _retrying(told), "", (todo,) if todo else (), safe)


BANNERS: Final[Mapping[Health, Callable[[Speaker], Banner]]] = {
    Health.PAUSED: _banner_paused,
    Health.FAILING: _banner_failing,
    Health.SILENT: _banner_silent,
    Health.UNPROVEN: _banner_unproven,
    Health.EDITED: _banner_edited,
    Health.RETRYING: _banner_retrying,
}
