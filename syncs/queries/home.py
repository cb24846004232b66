"""A workspace at a glance: what needs a person first, then every sync (UX, P1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

from django.db import connection
from django.db.models import Exists, OuterRef, Subquery
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from syncs import words
from syncs.domain.lifecycle import FAILURES, Outcome, RecordState, RunState, Verdict
from syncs.models import Connection, Finding, Preview, Run, Sync, Workspace
from syncs.queries import runs, standing
from syncs.queries.runs import with_relations
from syncs.queries.sync import flow, still_since
from syncs.words import Health, Sign

FINDINGS_SHOWN: Final = 10

TOLD_BY_HEADLINE: Final = ("paused", "run_failed")
"""Findings that a sync's own headline already says."""

WELL: Final = frozenset({Health.HEALTHY, Health.WAITING, Health.DRAFT})


@dataclass(frozen=True, slots=True)
class DayCell:
    """One day of a sync: the shape of the worst that happened, and what went wrong in numbers."""

    label: str
    shape: str
    runs: int
    wrong: str


@dataclass(frozen=True, slots=True)
class Task:
    """One step of setting up."""

    word: str
    done: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One sync in the list."""

    sync: Sync
    health: Health
    sign: Sign
    sentence: str
    banner: standing.Banner | None
    flow: str
    last: Sign | None
    last_at: datetime | None
    last_run: int | None
    next_for: datetime | None
    refused: int
    in_doubt: int
    week: tuple[DayCell, ...] = ()
    is_running: bool = False

    @property
    def week_words(self) -> str:
        """The seven days in words, what went wrong only."""
        wrong = [day for day in self.week if day.wrong]
        if not any(day.runs for day in self.week):
            return _("no run")
        return ", ".join(f"{day.label}: {day.wrong}" for day in wrong) or _("none failed")

    @property
    def is_well(self) -> bool:
        return self.health in WELL


@dataclass(frozen=True, slots=True)
class Home:
    """A workspace's first page: the one sentence, what is wrong, all syncs worst first, other open findings."""

    sentence: str
    sign: Sign | None
    lines: tuple[Line, ...]
    unwell: tuple[Line, ...]
    findings: tuple[Finding, ...]
    past: tuple[Finding, ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether a run is going on, so that the page is worth looking at again."""
        return any(line.is_running for line in self.lines)

    @property
    def going(self) -> str:
        """Which syncs a run of is going on."""
        names = ", ".join(line.sync.name for line in self.lines if line.is_running)
        return _("Running now: %(names)s.") % {"names": names} if names else ""


def home(workspace: Workspace, now: datetime) -> Home:
    """The workspace at ``now``. At most six queries, however many syncs it has."""
    syncs = list(_syncs(workspace))
    ids = {one for sync in syncs for one in (sync.open_run_id, sync.last_run_id) if one is not None}  # type: ignore[attr-defined]
    found = {run.pk: run for run in with_relations().filter(pk__in=ids)} if ids else {}
    still = still_since(syncs)
    weeks = _weeks(syncs, workspace, now)
    judged = (_line(sync, found, still.get(sync.pk), weeks.get(sync.pk, ()), now) for sync in syncs)
    lines = sorted(judged, key=_worst_first)
    findings = Finding.objects.filter(workspace=workspace, resolved_at=None).exclude(code__in=TOLD_BY_HEADLINE)
    return Home(
        sentence=_sentence(lines, now),
        sign=lines[0].sign if lines else None,
        lines=tuple(lines),
        unwell=tuple(line for line in lines if not line.is_well),
        findings=tuple(findings.select_related("sync").order_by("-opened_at", "-pk")[:FINDINGS_SHOWN]),
        past=_past(workspace, now),
        tasks=_tasks(syncs, workspace),
    )


def _past(workspace: Workspace, now: datetime) -> tuple[Finding, ...]:
    """What was a finding in the last seven days, open or not."""
    found = Finding.objects.filter(workspace=workspace, opened_at__gte=now - WEEK).select_related("sync")
    return tuple(found.order_by("-opened_at", "-pk")[:FINDINGS_SHOWN])


def _tasks(syncs: list[Sync], workspace: Workspace) -> tuple[Task, ...]:
    """The way to the first proved run; nothing once there was one."""
    if any(sync.last_success_at for sync in syncs):
        return ()
    kinds = [sync.source for sync in syncs] + [sync.destination for sync in syncs]
    connected = bool(kinds) or Connection.objects.filter(workspace=workspace).exists()
    return (
        Task(_("Connect a shop and an account to send to"), connected),
        Task(_("Make a sync and say what it may write"), bool(syncs)),
        Task(_("Preview it: your own records, nothing written"), any(sync.has_preview for sync in syncs)),  # type: ignore[attr-defined]
        Task(_("Publish exactly what you saw"), any(sync.published_id for sync in syncs)),
        Task(_("Watch the first run to its proof"), False),
    )


WEEK: Final = timedelta(days=7)
WEEK_OF: Final = """
SELECT r.sync_id, (r.created_at AT TIME ZONE %(zone)s)::date AS day, r.outcome, r.verdict, count(*)
FROM syncs_sync s CROSS JOIN LATERAL (
    SELECT sync_id, created_at, outcome, verdict FROM syncs_run
    WHERE sync_id = s.id AND created_at >= %(since)s AND outcome <> ''
) r
WHERE s.workspace_id = %(workspace)s
GROUP BY 1, 2, 3, 4
"""


def _weeks(syncs: list[Sync], workspace: Workspace, now: datetime) -> dict[int, tuple[DayCell, ...]]:
    """Seven days of every sync, today the last, by the workspace's calendar. One query."""
    if not syncs:
        return {}
    zone = words.zone_of(workspace.zone)
    today = now.astimezone(zone).date()
    days = [today - timedelta(days=number) for number in reversed(range(WEEK.days))]
    since = datetime.combine(days[0], time(), tzinfo=zone)
    found: dict[tuple[int, date], list[tuple[str, str, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(WEEK_OF, {"zone": str(zone), "since": since, "workspace": workspace.pk})
        for sync_id, day, outcome, verdict, number in cursor.fetchall():
            found.setdefault((sync_id, day), []).append((outcome, verdict, number))
    return {sync.pk: tuple(_day(day, found.get((sync.pk, day), [])) for day in days) for sync in syncs}


def _day(day: date, outcomes: list[tuple[str, str, int]]) -> DayCell:
    label = formats.date_format(day, "D j M")
    failed = sum(number for outcome, _verdict, number in outcomes if outcome in FAILURES)
    runs_ = sum(number for _outcome, _verdict, number in outcomes)
    if failed:
        return DayCell(label, "fail", runs_, _("%(n)d failed") % {"n": failed})
    proved = {verdict for outcome, verdict, _number in outcomes if outcome == Outcome.SUCCEEDED}
    if proved:
        return DayCell(label, "quiet" if proved == {Verdict.PROVEN_QUIET} else "ok", runs_, "")
    return DayCell(label, "other" if runs_ else "plan", runs_, "")


def _syncs(workspace: Workspace) -> list[Sync]:
    """Syncs with the ids of their open run and of the last one that counts, each by the index of runs."""
    counted = Run.objects.filter(sync=OuterRef("pk"), outcome__in=sorted(standing.COUNTED))
    unfinished = Run.objects.filter(sync=OuterRef("pk"), state__in=runs.OPEN)
    related = ("workspace", "source", "destination", "published", "draft_by", "schedule", "lease")
    found = Sync.objects.filter(workspace=workspace).select_related(*related)
    return list(
        found.annotate(
            open_run_id=Subquery(unfinished.values("pk")[:1]),
            last_run_id=Subquery(counted.order_by("-created_at", "-pk").values("pk")[:1]),
            has_preview=Exists(Preview.objects.filter(sync=OuterRef("pk"))),
        )
    )


def _line(sync: Sync, found: dict[int, Run], still: datetime | None, week: tuple[DayCell, ...], now: datetime) -> Line:
    last = found.get(sync.last_run_id)  # type: ignore[attr-defined]
    open_run = found.get(sync.open_run_id)  # type: ignore[attr-defined]
    facts = standing.Facts(sync, open_run, last, still)
    judged = standing.judge(facts, now, words.zone_of(sync.workspace.zone))
    newest = open_run or last
    return Line(
        sync=sync,
        health=judged.health,
        sign=judged.sign,
        sentence=judged.sentence,
        banner=judged.banner,
        flow=flow(sync),
        last=runs.sign(last, None, now) if last else None,
        last_at=last.finished_at if last else None,
        last_run=last.pk if last else None,
        next_for=facts.next_for,
        refused=runs.totals(last).get(RecordState.REFUSED, 0) if last else 0,
        in_doubt=runs.totals(newest).get(RecordState.IN_DOUBT, 0) if newest else 0,
        week=week,
        is_running=open_run is not None and open_run.state == RunState.RUNNING,
    )


def _worst_first(line: Line) -> tuple[int, str]:
    return list(Health).index(line.health), line.sync.name.casefold()


def _sentence(lines: list[Line], now: datetime) -> str:
    if not lines:
        return _(
            "No sync yet. A sync copies customers or orders one way, from Shopify to Brevo, "
            "and shows you everything before it writes."
        )
    unwell = [line for line in lines if not line.is_well]
    if unwell:
        return f"{unwell[0].sync.name}: {unwell[0].sentence}"
    return _well(lines, now)


def _well(lines: list[Line], now: datetime) -> str:
    healthy = sum(line.health is Health.HEALTHY for line in lines)
    if healthy == 0:
        return _("Nothing has run yet.")
    if healthy == len(lines):
        said = ngettext("The one sync is healthy.", "All %(n)d syncs are healthy.", healthy) % {"n": healthy}
    else:
        said = _("%(n)d of %(all)d syncs are healthy, the others have not run yet.") % {"n": healthy, "all": len(lines)}
    proved = max((line.sync.last_success_at for line in lines if line.sync.last_success_at), default=None)
    if proved is None:
        return said
    return said + " " + _("Last proved read %(when)s.") % {"when": words.relative(proved, now)}
