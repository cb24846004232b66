# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""Runs and what belongs to them: read-only (UX, S5 and S7)."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from syncs import queries, words
from syncs.admin import columns, kinds, labels
from syncs.admin.columns import moment, plain, word, yes_or_no
from syncs.admin.kinds import OfSync, Shown, Uncounted, by_word
from syncs.domain.lifecycle import RunState
from syncs.models import Attempt, Beat, Coverage, Cursor, Lease, Occurrence, Run, Schedule
from syncs.queries import standing


class OverdueRuns(admin.SimpleListFilter):
    """Runs that are due and have not started."""

    title = _("due")
    parameter_name = "due"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("now", _("due and not started"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != "now":
            return queryset
        return queryset.filter(state=RunState.WAITING.value, due_after__lte=queries.now())


class FoundByRun(Uncounted):
    """Rows that are searched for by the number of a run, newest first."""

    searched_by: str
    search_help_text = _("A run's number.")
    ordering: ClassVar = ["-pk"]
    sortable_by: ClassVar[list[str]] = []

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        wanted = {self.searched_by: kinds.number_of(term) or 0}
        return (queryset.filter(**wanted) if term else queryset), False


@admin.register(Run)
class RunAdmin(FoundByRun):
    """Every execution, with its counters, its proof and its evidence."""

    list_display: ClassVar = [
        plain("id"),
        "sync",
        word("run", "lane"),
        word("run", "trigger"),
        word("run", "state"),
        word("run", "outcome"),
        word("run", "verdict"),
        plain("error_code"),
        moment("created_at"),
        moment("finished_at"),
    ]
    list_filter: ClassVar = [
        OverdueRuns,
        by_word("run", "state"),
        by_word("run", "outcome"),
        by_word("run", "lane"),
        by_word("run", "trigger"),
        OfSync,
    ]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["=id"]
    searched_by = "pk"


@admin.register(Attempt)
class AttemptAdmin(FoundByRun):
    """Every try of every run."""

    list_display: ClassVar = [
        "run",
        plain("number"),
        word("attempt", "outcome"),
        plain("worker"),
        plain("fence"),
        moment("started_at"),
        moment("ended_at"),
    ]
    list_filter: ClassVar = [by_word("attempt", "outcome")]
    list_select_related: ClassVar = ["run__sync__workspace"]
    search_fields: ClassVar = ["=run__id"]
    searched_by = "run"


@admin.register(Cursor)
class CursorAdmin(Shown):
    """How far each lane of each sync has read."""

    list_display: ClassVar = [
        "sync",
        word("cursor", "lane"),
        moment("watermark"),
        plain("rows"),
        plain("pages"),
        yes_or_no("exhausted"),
        moment("moved_at"),
    ]
    list_filter: ClassVar = [by_word("cursor", "lane"), OfSync]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["sync__name"]


@admin.register(Lease)
class LeaseAdmin(Shown):
    """Who owns which sync now."""

    left_out = ("token",)
    list_display: ClassVar = [
        "sync",
        plain("fence"),
        plain("holder"),
        "run",
        moment("renewed_at"),
        moment("expires_at"),
    ]
    list_select_related: ClassVar = ["sync__workspace", "run"]
    search_fields: ClassVar = ["sync__name", "holder"]


@admin.register(Coverage)
class CoverageAdmin(Uncounted):
    """Which stretches of source time were read by which run."""

    list_display: ClassVar = [
        "sync",
        word("coverage", "lane"),
        moment("since"),
        moment("until"),
        plain("records"),
        moment("proved_at"),
    ]
    list_filter: ClassVar = [by_word("coverage", "lane"), OfSync]
    list_select_related: ClassVar = ["sync__workspace"]
    ordering: ClassVar = ["-pk"]
    sortable_by: ClassVar[list[str]] = []


class OverdueSchedules(admin.SimpleListFilter):
    """Schedules whose next start lies behind: nobody has planned it."""

    title = _("due")
    parameter_name = "due"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("unplanned", _("overdue and not planned"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != "unplanned":
            return queryset
        return queryset.filter(active=True, next_for__lt=queries.now() - standing.LATE_AFTER)


@admin.register(Schedule)
class ScheduleAdmin(Shown):
    """When syncs run."""

    list_display: ClassVar = ["sync", plain("every_minutes"), yes_or_no("active"), moment("next_for")]
    list_filter: ClassVar = [OverdueSchedules, "active"]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["sync__name"]


@admin.register(Occurrence)
class OccurrenceAdmin(Uncounted):
    """Every due start and how it ended."""

    list_display: ClassVar = [
        "sync",
        moment("planned_for"),
        word("occurrence", "state"),
        "run",
        moment("decided_at"),
    ]
    list_filter: ClassVar = [by_word("occurrence", "state")]
    list_select_related: ClassVar = ["schedule__sync__workspace", "run"]
    ordering: ClassVar = ["-pk"]
    sortable_by: ClassVar[list[str]] = []

    @admin.display(description=labels.field("sync"))
    def sync(self, row: Occurrence) -> str:
        return str(row.schedule.sync)


@admin.register(Beat)
class BeatAdmin(Shown):
    """Which processes have shown lately that they live."""

    list_display: ClassVar = [plain("holder"), "what", moment("at"), "age"]
    ordering: ClassVar = ["-at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Beat]:
        found: QuerySet[Beat] = super().get_queryset(request)
        return found.annotate(asked_at=columns.asked_at())

    @admin.display(description=labels.field("kind"))
    def what(self, row: Beat) -> Any:
        return _("worker process") if row.kind == "worker" else _("end of a tick")

    @admin.display(description=_("Age"))
    def age(self, row: Any) -> str:
        return words.lasting(row.asked_at - row.at)
