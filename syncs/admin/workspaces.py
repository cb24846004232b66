# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""Workspaces and their people (UX, S2 and S3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, Exists, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.decorators import action
from unfold.views import ChangeList

from syncs import queries, services, words
from syncs.admin import columns, kinds, labels
from syncs.admin.columns import moment, plain
from syncs.admin.kinds import ByHeadline, Question, Served
from syncs.errors import NotFound
from syncs.models import AuditEntry, Connection, Finding, Membership, Sync, Workspace
from syncs.models.workspaces import Role
from syncs.queries import watch

DEEDS_SHOWN: Final = 10
LINES_SHOWN: Final = 100
VIEW_AS: Final = "syncs.view_as_merchant"


class WorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Workspace
        fields: ClassVar = ["name", "slug", "zone"]

    def clean_zone(self) -> str:
        zone: str = self.cleaned_data["zone"]
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValidationError(_("No such time zone: write it as Europe/Berlin or UTC.")) from None
        return zone


class WorstHealth(ByHeadline):
    """Workspaces by the worst of their syncs."""

    def chosen(self, queryset: QuerySet[Workspace], headline: str) -> QuerySet[Workspace]:
        return watch.with_worst(queryset, headline, queries.now())


class SummedUp(ChangeList):
    """A page of workspaces with what stands beside each, in as many queries for fifty as for one."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)  # type: ignore[has-type]
        found = watch.summaries(rows, queries.now()) if rows else {}
        for row in rows:
            row.summary = found[row.pk]
        self.result_list = rows


def _number_of(rows: QuerySet[Any]) -> Coalesce:
    counted = rows.order_by().values("workspace").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


@dataclass(frozen=True, slots=True)
class Line:
    """One sync on a workspace's page."""

    pk: int
    name: str
    sign: str | SafeString
    sentence: str


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody did."""

    at: str | SafeString
    said: str


@dataclass(frozen=True, slots=True)
class Overview:
    """What a workspace's page shows above its fields."""

    home: queries.Home
    lines: tuple[Line, ...]
    connections: tuple[Connection, ...]
    members: tuple[Membership, ...]
    deeds: tuple[Deed, ...]
    view_as: str


@admin.register(Workspace)
class WorkspaceAdmin(Served):
    """The merchants. A new one gets its own key for address hashes; name, slug and zone stay as they are."""

    form = WorkspaceForm
    list_display: ClassVar = [
        plain("name"),
        "health",
        "states",
        "last_success",
        "open_findings",
        "written",
        "pages",
    ]
    list_filter: ClassVar = [WorstHealth]
    search_fields: ClassVar = ["name", "slug"]
    search_help_text = _("Name, place in addresses, or account of a shop (acme.myshopify.com).")
    ordering: ClassVar = ["name"]
    actions: ClassVar = ["pause_all"]
    actions_list: ClassVar = ["pauses"]
    change_form_outer_before_template = "admin/workspace.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workspace]:
        here = {"workspace": OuterRef("pk")}
        found: QuerySet[Workspace] = super().get_queryset(request)
        return found.annotate(
            number_of_syncs=_number_of(Sync.objects.filter(**here)),
            number_of_findings=_number_of(Finding.objects.filter(**here, resolved_at=None)),
        )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        # The page for choosing a workspace elsewhere needs no health.
        return SummedUp

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        for term in search_term.split():
            shops = Connection.objects.filter(workspace=OuterRef("pk")).filter(
                Q(account__icontains=term) | Q(label__icontains=term) | Q(options__domain__icontains=term)
            )
            queryset = queryset.filter(Q(name__icontains=term) | Q(slug__icontains=term) | Exists(shops))
        return queryset, False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return ["name", "slug", "zone"] if obj is None else self.get_readonly_fields(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return [] if obj is None else [plain("name"), plain("slug"), plain("zone"), moment("created_at"), "pages"]

    # --- Columns ------------------------------------------------------------------------------------------------------
    @admin.display(description=_("Health"))
    def health(self, row: Any) -> str | SafeString:
        return columns.sign(words.health(row.summary.worst) if row.summary.worst else None)

    @admin.display(description=_("Syncs"), ordering="number_of_syncs")
    def states(self, row: Any) -> str:
        parts = (f"{words.HEALTH[health]}: {number}" for health, number in row.summary.states.items())
        return ", ".join(parts) or _now("none")

    @admin.display(description=labels.field("last_success_at"))
    def last_success(self, row: Any) -> str | SafeString:
        return columns.instant(row.summary.last_success_at, columns.zone_of(row))

    @admin.display(description=_("Open findings"), ordering="number_of_findings")
    def open_findings(self, row: Any) -> int:
        number: int = row.number_of_findings
        return number

    @admin.display(description=_("Written today"))
    def written(self, row: Any) -> int:
        number: int = row.summary.written
        return number

    @admin.display(description=_("Merchant's page"))
    def pages(self, row: Workspace) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("workspace", args=[row.slug]), _("Open"))

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: bool) -> None:
        made = services.workspace_create(kinds.actor_of(request), name=obj.name, slug=obj.slug, zone=obj.zone)
        kinds.taken_over(obj, made)

    # --- One workspace ------------------------------------------------------------------------------------------------
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id) if object_id else None
        shown = dict(extra_context or {})
        if row is not None and self.has_view_permission(request, row):
            now = queries.now()
            shown |= {"overview": self._overview(request, row, now), "reason_form": kinds.ReasonForm()}
        return super().changeform_view(request, object_id, form_url, shown)

    def _overview(self, request: HttpRequest, row: Workspace, now: Any) -> Overview:
        sees = {
            name: request.user.has_perm(f"syncs.view_{name}") for name in ("connection", "membership", "auditentry")
        }
        deeds = row.audit.order_by("-at", "-pk")[:DEEDS_SHOWN] if sees["auditentry"] else ()
        members = row.memberships.select_related("user").order_by("user__username") if sees["membership"] else ()
        home = queries.home(row, now)
        return Overview(
            home=home,
            lines=tuple(Line(one.sync.pk, one.sync.name, columns.sign(one.sign), one.sentence) for one in home.lines),
            connections=tuple(row.connections.order_by("name")) if sees["connection"] else (),
            members=tuple(members),
            deeds=tuple(_deed(one, columns.zone_of(row)) for one in deeds),
            view_as=_view_as(row) if request.user.has_perm(VIEW_AS) else "",
        )

    # --- Many at once -------------------------------------------------------------------------------------------------
    @admin.action(description=_("Pause all syncs of the chosen workspaces"), permissions=["operate"])
    def pause_all(self, request: HttpRequest, chosen: QuerySet[Workspace]) -> HttpResponse:
        """The count first, then the reason, then the pause (UX, S2)."""
        actor, workspaces = kinds.actor_of(request), list(chosen)
        plan = services.workspaces_pause_plan(actor, workspaces)
        back = reverse("admin:syncs_workspace_changelist")

        def pause(reason: str) -> str:
            entry = services.workspaces_pause(actor, workspaces, reason=reason)
            number = len((entry.after or {}).get("syncs", ()))
            said = ngettext("%(n)d sync is paused.", "%(n)d syncs are paused.", number) % {"n": number}
            return said + " " + _now("Let exactly these go on under Pauses.")

        return kinds.ask(self, request, _pause_question(request, workspaces, plan), back, pause)

    @action(description=_("Pauses"), url_path="pauses", permissions=["operate"])
    def pauses(self, request: HttpRequest) -> HttpResponse:
        """Every pause of many, and what still stands still by it; with a number, the page that lets it go on."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if "pause" in request.GET:
            return self._resume(request, request.GET["pause"])
        shown = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,
            "title": _("Pauses"),
            "pauses": services.latest_pauses(),
            "may_publish": kinds.may(request, Role.PUBLISHER),
            "now": queries.now(),
        }
        return TemplateResponse(request, "admin/pauses.html", shown)

    def _resume(self, request: HttpRequest, number: str) -> HttpResponse:
        if not kinds.may(request, Role.PUBLISHER):
            raise PermissionDenied
        try:
            stopped = services.stopped_by(services.pause_of(kinds.number_of(number) or 0))
        except NotFound as error:
            raise Http404(error.sentence) from None

        def resume(reason: str) -> str:
            done = services.workspaces_resume(kinds.actor_of(request), stopped.pause, reason=reason)
            for one in done:
                if not one.published:
                    messages.warning(request, f"{one.sync} ({one.sync.workspace}): {one.sentence}")
            number = sum(one.published for one in done)
            return ngettext("%(n)d sync is published again.", "%(n)d syncs are published again.", number) % {
                "n": number
            }

        back = reverse("admin:syncs_workspace_pauses")
        return kinds.ask(self, request, _resume_question(stopped), back, resume)


def _pause_question(request: HttpRequest, workspaces: list[Workspace], plan: services.PausePlan) -> Question:
    number = len(plan.syncs)
    counted = ngettext("%(n)d sync runs now and will be paused.", "%(n)d syncs run now and will be paused.", number) % {
        "n": number
    }
    still = ngettext(
        "%(n)d sync stands still already and stays as it is.",
        "%(n)d syncs stand still already and stay as they are.",
        plan.still,
    ) % {"n": plan.still}
    of = ngettext("Of %(n)d workspace:", "Of %(n)d workspaces:", len(workspaces)) % {"n": len(workspaces)}
    safe = _now("A run that is going on stops before its next write. Cursors stay where they are.")
    carried = _now("While they are paused, withdrawals are not carried to the destinations.")
    after = _now("Nothing starts them again by itself: each is published again, under Pauses or by its own people.")
    return Question(
        title=_now("Pause all syncs of the chosen workspaces"),
        sentences=(f"{of} {counted} {still if plan.still else ''}".strip(), safe, carried, after),
        button=ngettext("Pause %(n)d sync", "Pause %(n)d syncs", number) % {"n": number},
        dangerous=True,
        possible=number > 0,
        heading=_now("What will be paused"),
        rows=_some(f"{sync.workspace}: {sync}" for sync in plan.syncs),
        hidden={
            "action": ["pause_all"],
            "_selected_action": request.POST.getlist("_selected_action"),
            "select_across": [request.POST.get("select_across", "0")],
        },
    )


def _some(lines: Iterable[str]) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    found = list(lines)
    more = len(found) - LINES_SHOWN
    if more <= 0:
        return tuple(found)
    return (*found[:LINES_SHOWN], ngettext("and %(n)d more", "and %(n)d more", more) % {"n": more})


def _resume_question(stopped: services.Stopped) -> Question:
    number = len(stopped.syncs)
    still = ngettext(
        "%(n)d sync still stands still by this pause.", "%(n)d syncs still stand still by this pause.", number
    ) % {"n": number}
    changed = ngettext(
        "%(n)d other was changed since and is left alone.",
        "%(n)d others were changed since and are left alone.",
        stopped.changed,
    ) % {"n": stopped.changed}
    how = _now(
        "A paused sync goes on only when it is published again. Each of these is previewed now, which reads its "
        "source, and is published only when the preview has the very digest that was published before."
    )
    else_ = _now("What cannot be published so stays paused, and says why.")
    return Question(
        title=_now("Let paused syncs go on"),
        sentences=(f"{still} {changed if stopped.changed else ''}".strip(), how, else_),
        button=ngettext("Publish %(n)d sync again", "Publish %(n)d syncs again", number) % {"n": number},
        possible=number > 0,
        heading=_now("What will be published again"),
        rows=_some(
            f"{sync.workspace}: {sync} ({sync.published.digest[:12] if sync.published else '-'})"
            for sync in stopped.syncs
        ),
    )


def _deed(entry: AuditEntry, zone: tzinfo) -> Deed:
    what = words.ACTIONS.get(entry.action, entry.action)
    said = f"{entry.actor_label}: {what}, {entry.subject}"
    return Deed(columns.instant(entry.at, zone), f"{said} ({entry.reason})" if entry.reason else said)


def _view_as(row: Workspace) -> str:
    """Where the view as the merchant begins; "" in an installation without it."""
    try:
        return reverse("view-as", args=[row.slug])
    except NoReverseMatch:
        return ""


@admin.register(Membership)
class MembershipAdmin(Served):
    """Who belongs to which workspace, and what they may do there."""

    list_display: ClassVar = ["user", "workspace", plain("role")]
    list_filter: ClassVar = ["role"]
    list_select_related: ClassVar = ["user", "workspace"]
    search_fields: ClassVar = ["user__username", "workspace__name"]
    autocomplete_fields: ClassVar = ["user", "workspace"]
    fields: ClassVar = ["workspace", "user", "role"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return [] if obj is None else ["workspace", "user"]

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        kinds.taken_over(obj, services.member_add(kinds.actor_of(request), obj.workspace, obj.user, Role(obj.role)))
