# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""What staff see and do (UX, section 3). Superusers see everything, other staff what Django's permissions give them.

What runs write is read-only. What a person saves here goes through `services`, which checks and audits it; what has no
service cannot be changed here. Sealed credentials are shown nowhere, and nothing counts the ledger.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import BinaryField, Count, DateTimeField, IntegerField, Model, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django_q.models import Failure, OrmQ, Success
from django_q.models import Schedule as QueueSchedule
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.paginator import InfinitePaginator

from connectors.protocol import EffectKind
from syncs import services, words
from syncs.domain.lifecycle import DeliveryState
from syncs.errors import VigilError
from syncs.models import (
    Attempt,
    AuditEntry,
    Connection,
    Coverage,
    Cursor,
    Delivery,
    Finding,
    Lease,
    Membership,
    Occurrence,
    Preview,
    Run,
    Schedule,
    Suppression,
    Sync,
    Tombstone,
    Version,
    Workspace,
)
from syncs.models.workspaces import Role

Column = Callable[[Any], "str | SafeString"]

EFFECT_KEY: Final = re.compile(r"[0-9a-f]{8,64}")
"""The beginning of an effect key that is long enough to look for."""


admin.site.site_header = admin.site.site_title = "Vigil"
admin.site.index_title = "Vigil"


# --- Columns ----------------------------------------------------------------------------------------------------------
def moment(name: str, label: str = "") -> Column:
    """A column with an instant in the workspace's zone, as the merchant sees it, and UTC on hover (Case UI-01)."""

    def shown(row: Any) -> str | SafeString:
        at: datetime | None = getattr(row, name)
        if at is None:
            return "-"
        utc = at.astimezone(UTC)
        hover = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
        text = words.dated(at, zone_of(row))
        return format_html('<time datetime="{}" title="{}">{}</time>', utc.isoformat(), hover, text)

    described: Column = admin.display(description=label or capfirst(name.replace("_", " ")), ordering=name)(shown)
    shown.__name__ = f"{name}_in_zone"
    return described


def zone_of(row: Any) -> tzinfo:
    """The zone of the workspace that a row belongs to, UTC where it belongs to none."""
    for path in ("workspace", "sync.workspace", "schedule.sync.workspace", "run.sync.workspace"):
        place = row
        for step in path.split("."):
            place = getattr(place, step, None)
        if isinstance(place, Workspace):
            return words.zone_of(place.zone)
    return words.zone_of(row.zone) if isinstance(row, Workspace) else UTC


@functools.cache
def columns_of(model: type[Model], left_out: tuple[str, ...]) -> tuple[Any, ...]:
    """Every field of ``model`` but ``left_out`` and what holds bytes; instants in the workspace's zone."""
    kept = [field for field in model._meta.fields if field.name not in left_out and not isinstance(field, BinaryField)]
    return tuple(moment(field.name) if isinstance(field, DateTimeField) else field.name for field in kept)


# --- Kinds of page ----------------------------------------------------------------------------------------------------
class Shown(ModelAdmin):
    """Rows that runs or services write: staff look, and change nothing."""

    left_out: tuple[str, ...] = ()
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return columns_of(self.model, self.left_out)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return columns_of(self.model, self.left_out)


class Uncounted(Shown):
    """Tables that grow for ever: they are paged without being counted."""

    paginator = InfinitePaginator


class Served(ModelAdmin):
    """Rows that staff may make through a service. What the service refuses is told in its own sentence."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = None

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            shown: HttpResponse = super().changeform_view(request, object_id, form_url, extra_context)
        except VigilError as error:
            messages.error(request, error.sentence)
            return HttpResponseRedirect(request.path)
        return shown


def actor_of(request: HttpRequest) -> services.Actor:
    """Who acts. Raises PermissionDenied for nobody."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return services.person(request.user)


def taken_over(row: Model, saved: Model) -> None:
    """The form's row stands for the one that the service saved."""
    row.pk = saved.pk
    row._state.adding = False


# --- Workspaces -------------------------------------------------------------------------------------------------------
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


def _number_of(rows: QuerySet[Any]) -> Coalesce:
    counted = rows.order_by().values("workspace").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


@admin.register(Workspace)
class WorkspaceAdmin(Served):
    """The merchants. A new one gets its own key for address hashes; name, slug and zone stay as they are."""

    form = WorkspaceForm
    list_display: ClassVar = ["name", "slug", "zone", "syncs", "open_findings", "pages", moment("created_at")]
    search_fields: ClassVar = ["name", "slug"]
    ordering: ClassVar = ["name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workspace]:
        here = {"workspace": OuterRef("pk")}
        found: QuerySet[Workspace] = super().get_queryset(request)
        return found.annotate(
            number_of_syncs=_number_of(Sync.objects.filter(**here)),
            number_of_findings=_number_of(Finding.objects.filter(**here, resolved_at=None)),
        )

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return ["name", "slug", "zone"] if obj is None else ["name", "slug", "zone", "pages"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return [] if obj is None else ["name", "slug", "zone", "pages"]

    @admin.display(description=_("Syncs"), ordering="number_of_syncs")
    def syncs(self, row: Any) -> int:
        number: int = row.number_of_syncs
        return number

    @admin.display(description=_("Open findings"), ordering="number_of_findings")
    def open_findings(self, row: Any) -> int:
        number: int = row.number_of_findings
        return number

    @admin.display(description=_("Merchant's page"))
    def pages(self, row: Workspace) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("workspace", args=[row.slug]), _("Open"))

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: bool) -> None:
        made = services.workspace_create(actor_of(request), name=obj.name, slug=obj.slug, zone=obj.zone)
        taken_over(obj, made)


@admin.register(Membership)
class MembershipAdmin(Served):
    """Who belongs to which workspace, and what they may do there."""

    list_display: ClassVar = ["user", "workspace", "role"]
    list_filter: ClassVar = ["role"]
    list_select_related: ClassVar = ["user", "workspace"]
    search_fields: ClassVar = ["user__username", "workspace__name"]
    autocomplete_fields: ClassVar = ["user", "workspace"]
    fields: ClassVar = ["workspace", "user", "role"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return [] if obj is None else ["workspace", "user"]

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        taken_over(obj, services.member_add(actor_of(request), obj.workspace, obj.user, Role(obj.role)))


@admin.register(Connection)
class ConnectionAdmin(Shown):
    """Accounts at other systems, as the vendor last described them. Credentials are never shown."""

    left_out = ("sealed", "key_id", "fingerprint", "proved_fingerprint")
    list_display: ClassVar = ["name", "kind", "workspace", "account", "label", moment("proved_at")]
    list_filter: ClassVar = ["kind"]
    list_select_related: ClassVar = ["workspace"]
    search_fields: ClassVar = ["name", "account", "label", "workspace__name"]


# --- Syncs ------------------------------------------------------------------------------------------------------------
@admin.register(Sync)
class SyncAdmin(Shown):
    """Syncs across workspaces. Drafts, previews and publications are made on the merchant's pages."""

    list_display: ClassVar = [
        "name",
        "workspace",
        "state",
        "source",
        "destination",
        moment("last_success_at"),
        moment("fresh_as_of"),
        moment("paused_at"),
    ]
    list_filter: ClassVar = ["state"]
    list_select_related: ClassVar = ["workspace", "source", "destination"]
    search_fields: ClassVar = ["name", "workspace__name"]
    actions_detail: ClassVar = ["open_page", "open_draft", "open_preview"]

    @action(description=_("Sync page"), url_path="page")
    def open_page(self, request: HttpRequest, object_id: int) -> HttpResponse:
        return self._to(request, object_id, "sync")

    @action(description=_("Draft and preview"), url_path="draft")
    def open_draft(self, request: HttpRequest, object_id: int) -> HttpResponse:
        return self._to(request, object_id, "draft")

    @action(description=_("Publish the latest preview"), url_path="preview")
    def open_preview(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """The page that publishes needs the digest of a preview: without one the draft comes first."""
        known = self.get_object(request, quote(object_id))
        latest = Preview.objects.filter(sync=known).order_by("-made_at").first() if known is not None else None
        return self._to(request, object_id, "preview", latest.pk) if latest else self._to(request, object_id, "draft")

    def _to(self, request: HttpRequest, object_id: int, page: str, *more: int) -> HttpResponse:
        row = self.get_object(request, quote(object_id))
        if row is None or not self.has_view_permission(request, row):
            raise PermissionDenied
        return redirect(page, row.workspace.slug, row.pk, *more)


@admin.register(Version)
class VersionAdmin(Shown):
    """What was published, for ever; the database refuses changes."""

    left_out = ("publisher",)
    list_display: ClassVar = ["sync", "number", "short", "publisher_label", moment("published_at"), "reason"]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["sync__name", "digest"]

    @admin.display(description=_("Digest"))
    def short(self, row: Version) -> str:
        return row.digest[:12]


@admin.register(Preview)
class PreviewAdmin(Shown):
    """What drafts would have done; values are masked."""

    list_display: ClassVar = ["sync", "draft_revision", "short", "publishable", "made_by", moment("made_at")]
    list_filter: ClassVar = ["publishable"]
    list_select_related: ClassVar = ["sync__workspace", "made_by"]
    search_fields: ClassVar = ["sync__name"]

    @admin.display(description=_("Digest"))
    def short(self, row: Preview) -> str:
        return row.digest[:12] or "-"


@admin.register(Schedule)
class ScheduleAdmin(Shown):
    """When syncs run."""

    list_display: ClassVar = ["sync", "every_minutes", "active", moment("next_for")]
    list_filter: ClassVar = ["active"]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["sync__name"]


@admin.register(Occurrence)
class OccurrenceAdmin(Uncounted):
    """Every due start and how it ended."""

    list_display: ClassVar = ["sync", moment("planned_for"), "state", "run", moment("decided_at")]
    list_filter: ClassVar = ["state"]
    list_select_related: ClassVar = ["schedule__sync__workspace", "run"]
    ordering: ClassVar = ["-pk"]

    @admin.display(description=_("Sync"))
    def sync(self, row: Occurrence) -> str:
        return str(row.schedule.sync)


# --- Runs -------------------------------------------------------------------------------------------------------------
@admin.register(Run)
class RunAdmin(Uncounted):
    """Every execution, with its counters, its proof and its evidence."""

    list_display: ClassVar = [
        "id",
        "sync",
        "lane",
        "trigger",
        "state",
        "outcome",
        "verdict",
        "error_code",
        moment("created_at"),
        moment("finished_at"),
    ]
    list_filter: ClassVar = ["state", "outcome", "lane", "trigger"]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["=id"]
    ordering: ClassVar = ["-pk"]


@admin.register(Attempt)
class AttemptAdmin(Uncounted):
    """Every try of every run."""

    list_display: ClassVar = ["run", "number", "outcome", "worker", "fence", moment("started_at"), moment("ended_at")]
    list_filter: ClassVar = ["outcome"]
    list_select_related: ClassVar = ["run__sync__workspace"]
    search_fields: ClassVar = ["=run__id"]
    ordering: ClassVar = ["-pk"]


@admin.register(Cursor)
class CursorAdmin(Shown):
    """How far each lane of each sync has read."""

    list_display: ClassVar = ["sync", "lane", moment("watermark"), "rows", "pages", "exhausted", moment("moved_at")]
    list_filter: ClassVar = ["lane"]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["sync__name"]


@admin.register(Lease)
class LeaseAdmin(Shown):
    """Who owns which sync now."""

    left_out = ("token",)
    list_display: ClassVar = ["sync", "fence", "holder", "run", moment("renewed_at"), moment("expires_at")]
    list_select_related: ClassVar = ["sync__workspace", "run"]
    search_fields: ClassVar = ["sync__name", "holder"]


@admin.register(Coverage)
class CoverageAdmin(Uncounted):
    """Which stretches of source time were read by which run."""

    list_display: ClassVar = ["sync", "lane", moment("since"), moment("until"), "records", moment("proved_at")]
    list_filter: ClassVar = ["lane"]
    list_select_related: ClassVar = ["sync__workspace"]
    ordering: ClassVar = ["-pk"]


# --- Ledger -----------------------------------------------------------------------------------------------------------
class LedgerAdmin(Uncounted):
    """Tables of millions of rows: every search is answered by an index, or not offered."""

    search_fields: ClassVar = ["object"]
    list_select_related: ClassVar = ["sync__workspace"]
    ordering: ClassVar = ["-pk"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(self.found_by(term)) if term else queryset), False

    def found_by(self, term: str) -> Q:
        """The object by its whole name, or by its id under any kind. The index begins with the sync, so it is named."""
        names = [term] if ":" in term else [f"{kind}:{term}" for kind in EffectKind]
        return Q(sync__in=Sync.objects.values("pk"), object__in=names)


@admin.register(Delivery)
class DeliveryAdmin(LedgerAdmin):
    """Every effect's way to the destination."""

    list_display: ClassVar = [
        "object",
        "sync",
        "state",
        "code",
        "short_key",
        "run",
        moment("claimed_at"),
        moment("settled_at"),
    ]
    list_filter: ClassVar = ["state", "kind"]
    list_select_related: ClassVar = ["sync__workspace", "run"]
    search_help_text = _("A record's id, its whole name (contact:13085), or the beginning of a written effect key.")

    @admin.display(description=_("Delivery key"))
    def short_key(self, row: Delivery) -> str:
        return row.delivery_key[:12]

    def found_by(self, term: str) -> Q:
        by_name = super().found_by(term)
        if not EFFECT_KEY.fullmatch(term) or term.isdigit():
            return by_name
        written = Q(state=DeliveryState.WRITTEN.value, effect_key__gte=term, effect_key__lt=f"{term}g")
        return written


@admin.register(Tombstone)
class TombstoneAdmin(LedgerAdmin):
    """What is remembered of every object for good."""

    list_display: ClassVar = [
        "object",
        "sync",
        "seq",
        "destination_id",
        moment("granted_at"),
        moment("withdrawn_at"),
        moment("settled_at"),
    ]
    search_help_text = _("A record's id, or its whole name (contact:13085).")


@admin.register(Suppression)
class SuppressionAdmin(Uncounted):
    """People who are never created again, as keyed hashes."""

    list_display: ClassVar = ["workspace", "short_key", "reason", moment("seen_at")]
    list_filter: ClassVar = ["reason"]
    list_select_related: ClassVar = ["workspace"]
    ordering: ClassVar = ["-pk"]

    @admin.display(description=_("Hash"))
    def short_key(self, row: Suppression) -> str:
        return row.address_key[:12]


# --- Findings and deeds -----------------------------------------------------------------------------------------------
@admin.register(Finding)
class FindingAdmin(Shown):
    """What people should know."""

    list_display: ClassVar = [
        "code",
        "workspace",
        "sync",
        "state",
        "sentence",
        moment("opened_at"),
        moment("resolved_at"),
    ]
    list_filter: ClassVar = ["state", "code"]
    list_select_related: ClassVar = ["workspace", "sync"]
    search_fields: ClassVar = ["code", "sentence", "workspace__name", "sync__name"]
    ordering: ClassVar = ["-opened_at"]


@admin.register(AuditEntry)
class AuditEntryAdmin(Uncounted):
    """Who did what, when and why. Append-only: the database refuses changes."""

    left_out = ("actor",)
    list_display: ClassVar = [moment("at"), "actor_label", "action", "subject", "workspace", "reason"]
    list_filter: ClassVar = ["action"]
    list_select_related: ClassVar = ["workspace"]
    search_fields: ClassVar = ["subject", "actor_label"]
    ordering: ClassVar = ["-pk"]


# --- People -----------------------------------------------------------------------------------------------------------
admin.site.unregister(User)
admin.site.unregister(Group)

MIGHT: Final = ("is_staff", "is_superuser", "groups", "user_permissions")
"""What makes somebody mightier: only superusers hand it out."""


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """People who log in. Staff who are no superusers make nobody mightier and touch no superuser."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Whoever sets a password can log in as that person: superusers only."""
        if not request.user.is_superuser:
            raise PermissionDenied
        return super().user_change_password(request, id, form_url)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        fields = tuple(super().get_readonly_fields(request, obj))
        return fields if request.user.is_superuser else (*fields, *MIGHT)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)


def _may_touch(request: HttpRequest, person: Any) -> bool:
    return bool(request.user.is_superuser) or not getattr(person, "is_superuser", False)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """Sets of permissions for staff: superusers only, since whoever may change one could make themselves mightier."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


# The queue's own pages would unpickle what is stored, and pickles are code. Rows decide, not tasks: nothing is missed.
for queued in (Success, Failure, OrmQ, QueueSchedule):
    admin.site.unregister(queued)
