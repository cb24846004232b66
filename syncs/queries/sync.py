"""Everything a sync's page shows, in few queries (UX, P2)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

from django.db.models import Count, QuerySet, Window
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from syncs import words
from syncs.domain import schedule as schedules
from syncs.domain.lifecycle import PROVEN, RecordState, RunState, SyncState, Verdict
from syncs.models import AuditEntry, Finding, Run, Schedule, Sync, Version
from syncs.queries import consent, parts, runs, standing, strip, sums
from syncs.queries.rule import sentences as sentences
from syncs.queries.runs import OPEN, Counters, Reason, RunRow, with_relations

RUNS_SHOWN: Final = 50
FINDINGS_SHOWN: Final = 10
AUDIT_SHOWN: Final = 10
ROWS_SHOWN: Final = 15
STARTS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class FindingLine:
    """Something true that a person should know."""

    code: str
    sentence: str
    opened_at: datetime


@dataclass(frozen=True, slots=True)
class Deed:
    """Who did what, when and why."""

    at: datetime
    who: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """The version that runs prove: its rule in words, and who decided it."""

    number: int
    digest: str
    publisher: str
    at: datetime
    reason: str
    sentences: tuple[str, ...]

    @property
    def short(self) -> str:
        return self.digest[:12]


@dataclass(frozen=True, slots=True)
class SyncPage:
    """All that a sync's page shows. ``last`` is the last finished run that counts; ``counted_run`` the newest
    one with records."""

    sync: Sync
    standing: standing.Standing
    flow: str
    last: RunRow | None
    last_at: datetime | None
    next_for: datetime | None
    schedule: str
    schedule_active: bool
    proof_sentence: str
    proof_sign: words.Sign | None
    counters: Counters | None
    counted_run: RunRow | None
    refusals: tuple[Reason, ...]
    runs: tuple[RunRow, ...]
    newest_run: int
    published: Published | None
    draft_sentences: tuple[str, ...]
    draft_differs: bool
    preview: int | None
    findings: tuple[FindingLine, ...]
    findings_total: int
    deeds: tuple[Deed, ...]
    is_running: bool
    parts: tuple[parts.Part, ...]
    strip: strip.Strip | None
    consent: consent.Consent | None
    limits: tuple[Limit, ...]
    starts: tuple[datetime, ...]
    clock_change: str
    progress: Progress | None

    @property
    def last_read_nothing(self) -> bool:
        """Whether the counter line is of an earlier run than the last one."""
        return self.last is not None and self.counted_run is not None and self.counted_run.id != self.last.id

    @property
    def shown_runs(self) -> tuple[RunRow, ...]:
        return self.runs[:ROWS_SHOWN]


@dataclass(frozen=True, slots=True)
class Limit:
    """What a sync may do at most, and how much of it is used."""

    name: str
    used: str
    most: str


@dataclass(frozen=True, slots=True)
class Progress:
    """A run that is going on: what it has done of what the source counted. ``width`` in percent, None unknown."""

    run: int
    sentence: str
    width: float | None


def sync_page(sync: Sync, now: datetime) -> SyncPage:
    """The page of ``sync`` (with its relations, as `sync_for` gives it) at ``now``. At most seven queries."""
    rows = tuple(latest(sync))
    facts = facts_of(sync, rows)
    found = sums.sums(sync, now)
    drawn = strip.strip(sync, now, known_since=found.schedule_set_at)
    zone = words.zone_of(sync.workspace.zone)
    known = parts.Known(facts, rows, found, drawn, now, zone)
    starts = next_starts(schedule_of(sync), now)
    shown = [runs.row(run, sync, now) for run in rows]
    row_of = {run.pk: row for run, row in zip(rows, shown, strict=True)}
    counted = next((run for run in rows if run.states or run.unsettled), facts.last)
    last = facts.last
    schedule = facts.schedule
    open_findings, total = _findings(sync)
    return SyncPage(
        sync=sync,
        standing=standing.judge(facts, now, zone),
        flow=flow(sync),
        last=_row(last, row_of, sync, now),
        last_at=last.finished_at if last else None,
        next_for=facts.next_for,
        schedule=words.every(schedule.every_minutes) if schedule else "",
        schedule_active=bool(schedule and schedule.active),
        proof_sentence=proof_sentence(last),
        proof_sign=proof_sign(last),
        counters=runs.counters(runs.totals(counted)) if counted else None,
        counted_run=_row(counted, row_of, sync, now),
        refusals=runs.reasons(counted.refusals) if counted else (),
        runs=tuple(shown),
        newest_run=max((run.pk for run in rows), default=0),
        published=published(sync.published),
        draft_sentences=sentences(sync.draft),
        draft_differs=sync.published is None or json.loads(sync.published.document) != sync.draft,
        preview=found.preview,
        findings=tuple(FindingLine(one.code, one.sentence, one.opened_at) for one in open_findings),
        findings_total=total,
        deeds=_deeds(sync),
        is_running=facts.open_run is not None and facts.open_run.state == RunState.RUNNING,
        parts=parts.parts(known),
        strip=drawn,
        consent=consent.consent(sync, found) if found.read else None,
        limits=limits(sync, found, counted),
        starts=starts,
        clock_change=clock_change(zone, now),
        progress=progress(facts.open_run),
    )


def schedule_of(sync: Sync) -> Schedule | None:
    return getattr(sync, "schedule", None)


def next_starts(schedule: Schedule | None, now: datetime) -> tuple[datetime, ...]:
    """The next ten starts, from the rule alone (PRODUCT 8.1)."""
    if schedule is None or not schedule.active:
        return ()
    every = schedules.Every(schedule.every_minutes, timedelta(seconds=schedule.offset_seconds))
    first = schedules.next_start(every, now)
    return tuple(first + every.step * number for number in range(STARTS_SHOWN))


CHANGE_WITHIN: Final = timedelta(days=14)


def clock_change(zone: tzinfo, now: datetime) -> str:
    """What a change of the clock within two weeks means for an interval; "" when there is none."""
    before = now.astimezone(zone).utcoffset()
    for day in range(1, CHANGE_WITHIN.days + 1):
        at = now + timedelta(days=day)
        after = at.astimezone(zone).utcoffset()
        if after != before and before is not None and after is not None:
            named = {"day": formats.date_format(at.astimezone(zone), "j F")}
            if after < before:
                return _("About %(day)s the clock goes back. An interval goes on evenly: none is left out.") % named
            return _("About %(day)s the clock goes forward. An interval goes on evenly: none is left out.") % named
    return ""


def progress(run: Run | None) -> Progress | None:
    """How far the open run is; None unless it is running."""
    if run is None or run.state != RunState.RUNNING:
        return None
    done = sum(runs.totals(run).values())
    phase = str(words.PHASES.get(run.phase, run.phase))
    if not run.expected:
        said = ngettext(
            "Running: %(phase)s. %(done)s record so far.", "Running: %(phase)s. %(done)s records so far.", done
        )
        return Progress(run.pk, said % {"phase": phase, "done": f"{done:,}"}, None)
    said = _("Running: %(phase)s. %(done)s of %(all)s records.")
    named = {"phase": phase, "done": f"{done:,}", "all": f"{run.expected:,}"}
    return Progress(run.pk, said % named, round(min(done * 100 / run.expected, 100.0), 2))


def limits(sync: Sync, found: sums.Sums, run: Run | None) -> tuple[Limit, ...]:
    """What the rule allows at most, and what was used (UX, P2.12)."""
    document = json.loads(sync.published.document) if sync.published else sync.draft
    written = sum(days[0] for state, days in found.states.items() if state == RecordState.WRITTEN)
    last = runs.totals(run).get(RecordState.WRITTEN, 0) if run else 0
    none = _("no limit is set")
    shown = [
        Limit(_("Writes of the latest run"), f"{last:,}", none),
        Limit(_("Writes of 24 hours"), f"{written:,}", none),
    ]
    if document.get("on_rejected") == "set_aside" and document.get("cap") is not None:
        aside = runs.totals(run).get(RecordState.SET_ASIDE, 0) if run else 0
        shown.append(Limit(_("Set aside of the latest run"), f"{aside:,}", f"{int(document['cap']):,}"))
    else:
        shown.append(Limit(_("Rejected records"), "0", _("none: the first one stops the run")))
    return tuple(shown)


def _row(run: Run | None, row_of: dict[int, RunRow], sync: Sync, now: datetime) -> RunRow | None:
    if run is None:
        return None
    return row_of.get(run.pk) or runs.row(run, sync, now)


def latest(sync: Sync) -> QuerySet[Run]:
    return with_relations().filter(sync=sync).order_by("-created_at", "-pk")[:RUNS_SHOWN]


def facts_of(sync: Sync, rows: tuple[Run, ...]) -> standing.Facts:
    """What the headline is judged by. Asks again only when none of the latest runs counts."""
    ended = sorted((run for run in rows if run.outcome in standing.COUNTED), key=_ended_at, reverse=True)
    last = ended[0] if ended else None
    if last is None and len(rows) == RUNS_SHOWN:
        counted = with_relations().filter(sync=sync, outcome__in=sorted(standing.COUNTED))
        last = counted.order_by("-created_at", "-pk").first()
    open_run = next((run for run in rows if run.state in OPEN), None)
    return standing.Facts(sync, open_run, last, still_since([sync]).get(sync.pk))


def _ended_at(run: Run) -> tuple[datetime, int]:
    return run.finished_at or run.created_at, run.pk


def still_since(syncs: Sequence[Sync]) -> dict[int, datetime]:
    """Since when syncs that were published once stand still, by id. The first draft saved since publishing begins it.

    One query when there is an edited one among them (all of one workspace), none otherwise.
    """
    still = {sync.pk: sync.paused_at for sync in syncs if sync.state == SyncState.PAUSED and sync.paused_at}
    edited = {sync.name: sync for sync in syncs if sync.state == SyncState.EDITED}
    still |= {sync.pk: sync.draft_at for sync in edited.values()}
    if edited:
        saved = AuditEntry.objects.filter(action="sync.draft_saved", subject__in=list(edited))
        of_workspace = saved.filter(workspace_id=syncs[0].workspace_id, at__gte=_earliest_change(edited.values()))
        for subject, at in of_workspace.order_by("-at").values_list("subject", "at"):
            sync = edited[subject]
            if sync.changed_at is None or at >= sync.changed_at:
                still[sync.pk] = at
    return still


def _earliest_change(syncs: Iterable[Sync]) -> datetime:
    return min(sync.changed_at or sync.draft_at for sync in syncs)


def flow(sync: Sync) -> str:
    """From where to where, in one line."""
    document = json.loads(sync.published.document) if sync.published else sync.draft
    what = _("list %(number)s") % {"number": document["list_id"]} if document.get("list_id") else _("orders and events")
    return f"{sync.source.kind.capitalize()} → {sync.destination.kind.capitalize()}, {what}"


def proof_sentence(run: Run | None) -> str:
    if run is None:
        return _("No read has been judged yet.")
    if run.verdict == Verdict.OPEN:
        return _("The read did not come to its end, so there was nothing to prove.")
    return str(run.evidence.get("sentence", "") or run.error_sentence)


def proof_sign(run: Run | None) -> words.Sign | None:
    """How the read proof of a run is shown."""
    if run is None:
        return None
    word = str(words.VERDICTS.get(run.verdict, run.verdict))
    if run.verdict in PROVEN:
        return words.Sign(word, words.Tone.OK, "done")
    if run.verdict == Verdict.OPEN:
        return words.Sign(_("not reached"), words.Tone.QUIET, "open")
    return words.Sign(word, words.Tone.BAD, "warning")


def published(version: Version | None) -> Published | None:
    if version is None:
        return None
    return Published(
        number=version.number,
        digest=version.digest,
        publisher=version.publisher_label,
        at=version.published_at,
        reason=version.reason,
        sentences=sentences(json.loads(version.document)),
    )


def _findings(sync: Sync) -> tuple[list[Finding], int]:
    """The newest open ones, and how many there are."""
    found = sync.findings.filter(resolved_at=None).annotate(total=Window(Count("*"))).order_by("-opened_at", "-pk")
    shown: list[Any] = list(found[:FINDINGS_SHOWN])
    return shown, shown[0].total if shown else 0


def _audit(sync: Sync) -> QuerySet[AuditEntry]:
    """Entries are kept by the sync's name within its workspace; connections and members have actions of their own."""
    here = AuditEntry.objects.filter(workspace_id=sync.workspace_id, subject=str(sync)[:200])
    return here.filter(action__in=sorted(words.ACTIONS))


def _deeds(sync: Sync) -> tuple[Deed, ...]:
    entries = _audit(sync).order_by("-at", "-pk")[:AUDIT_SHOWN]
    return tuple(
        Deed(one.at, one.actor_label, str(words.ACTIONS.get(one.action, one.action)), one.reason) for one in entries
    )
