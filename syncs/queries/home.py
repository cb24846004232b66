"""A workspace at a glance: what needs a person first, then every sync (UX, P1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from syncs import words
from syncs.domain.lifecycle import RecordState
from syncs.models import Finding, Run, Sync, Workspace
from syncs.queries import runs, standing
from syncs.queries.sync import flow, still_since, with_relations
from syncs.words import Health, Sign

FINDINGS_SHOWN: Final = 10

TOLD_BY_HEADLINE: Final = ("paused", "run_failed")
"""Findings that a sync's own headline already says."""

WELL: Final = frozenset({Health.HEALTHY, Health.WAITING, Health.DRAFT})


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


def home(workspace: Workspace, now: datetime) -> Home:
    """The workspace at ``now``. At most four queries, however many syncs it has."""
    syncs = list(_syncs(workspace))
    ids = {one for sync in syncs for one in (sync.open_run_id, sync.last_run_id) if one is not None}  # type: ignore[attr-defined]
    found = {run.pk: run for run in with_relations().filter(pk__in=ids)} if ids else {}
    still = still_since(syncs)
    lines = sorted((_line(sync, found, still.get(sync.pk), now) for sync in syncs), key=_worst_first)
    findings = Finding.objects.filter(workspace=workspace, resolved_at=None).exclude(code__in=TOLD_BY_HEADLINE)
    return Home(
        sentence=_sentence(lines, now),
        sign=lines[0].sign if lines else None,
        lines=tuple(lines),
        unwell=tuple(line for line in lines if not line.is_well),
        findings=tuple(findings.select_related("sync").order_by("-opened_at", "-pk")[:FINDINGS_SHOWN]),
    )


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
        )
    )


def _line(sync: Sync, found: dict[int, Run], still: datetime | None, now: datetime) -> Line:
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
