# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""What people should know, and who did what (UX, S11)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from syncs.admin import kinds, labels
from syncs.admin.columns import moment, plain, word
from syncs.admin.kinds import Shown, Uncounted, by_word
from syncs.models import AuditEntry, Finding

MOST_EXPORTED: Final = 100_000
"""Entries in one file, the newest; more are had by filtering."""

ACTORS_OF: Final = 1000
"""Of how many of the newest entries the actors are offered as a filter."""


class StillOpen(admin.SimpleListFilter):
    """Findings that are not resolved, whatever people said about them."""

    title = _("resolved")
    parameter_name = "open"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("not resolved")), ("0", _("resolved"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Finding]) -> QuerySet[Finding]:
        if self.value() not in ("0", "1"):
            return queryset
        return queryset.filter(resolved_at__isnull=self.value() == "1")


@admin.register(Finding)
class FindingAdmin(Shown):
    """What people should know."""

    list_display: ClassVar = [
        plain("code"),
        "workspace",
        "sync",
        word("finding", "state"),
        plain("sentence"),
        moment("opened_at"),
        moment("resolved_at"),
    ]
    list_filter: ClassVar = [StillOpen, by_word("finding", "state"), "code"]
    list_select_related: ClassVar = ["workspace", "sync"]
    search_fields: ClassVar = ["code", "sentence", "workspace__name", "sync__name"]
    ordering: ClassVar = ["-opened_at"]


class ByActor(admin.SimpleListFilter):
    """Who did it: those of the newest entries are offered, anybody's number may stand in the address."""

    title = labels.field("actor_label")
    parameter_name = "by"
    vigil = "vigil"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        newest = AuditEntry.objects.order_by("-pk").values("actor")[:ACTORS_OF]
        wanted = kinds.number_of(request.GET.get(self.parameter_name, ""))
        people = User.objects.filter(pk__in=newest) | User.objects.filter(pk=wanted or 0)
        named = people.order_by("username").values_list("pk", "username")
        return [(self.vigil, _("Vigil, or somebody at a shell")), *((str(pk), name) for pk, name in named)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        value = self.value() or ""
        number = kinds.number_of(value)
        if value == self.vigil:
            return queryset.filter(actor=None)
        return queryset if number is None else queryset.filter(actor=number)


@admin.register(AuditEntry)
class AuditEntryAdmin(Uncounted):
    """Who did what, when and why. Append-only: the database refuses changes."""

    left_out = ("actor",)
    list_display: ClassVar = [
        moment("at"),
        plain("actor_label"),
        plain("action"),
        plain("subject"),
        "workspace",
        plain("reason"),
    ]
    list_filter: ClassVar = [ByActor, "action"]
    list_select_related: ClassVar = ["workspace"]
    search_fields: ClassVar = ["subject", "actor_label"]
    ordering: ClassVar = ["-pk"]
    sortable_by: ClassVar[list[str]] = []
    actions_list: ClassVar = ["export"]

    @action(description=_("Export as CSV"), url_path="export", icon="download")
    def export(self, request: HttpRequest) -> HttpResponseBase:
        """What the list shows under its filters, newest first, as one file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = self.get_changelist_instance(request).get_queryset(request)
        rows = found.select_related("workspace")[:MOST_EXPORTED]
        lines = _csv(HEADINGS, (_cells(entry) for entry in rows.iterator(chunk_size=1000)))
        answer = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
        answer.headers["Content-Disposition"] = 'attachment; filename="vigil-audit.csv"'
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer


HEADINGS: Final = ("number", "at", "who", "action", "subject", "workspace", "reason", "before", "after")


def _cells(entry: AuditEntry) -> tuple[str, ...]:
    return (
        str(entry.pk),
        entry.at.isoformat(),
        entry.actor_label,
        entry.action,
        entry.subject,
        entry.workspace.slug if entry.workspace else "",
        entry.reason,
        _document(entry.before),
        _document(entry.after),
    )


def _document(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


class _Line:
    """What `csv` writes to: it answers with the line instead of keeping it."""

    def write(self, text: str) -> str:
        return text


FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def _csv(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Lines of a CSV file. A cell that a spreadsheet would take for a formula is made text (PRODUCT 10.4)."""
    writer = csv.writer(_Line())
    yield writer.writerow(headings)
    for row in rows:
        yield writer.writerow([f"'{cell}" if cell.startswith(FORMULA) else cell for cell in row])
