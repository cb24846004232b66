# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""Kinds of page: shown, shown without being counted, made by a service; and the page that asks before it acts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator
from unfold.widgets import UnfoldAdminTextareaWidget

from connectors.errors import ConnectorError
from syncs import services, words
from syncs.admin import columns, labels
from syncs.errors import VigilError
from syncs.models import Sync
from syncs.models.workspaces import Role

REASON_LIMIT: Final = 300
MOST_DIGITS: Final = 19
"""Of a row's number."""


def number_of(text: str) -> int | None:
    """A row's number out of an address; None for anything else that stands there."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else None


# --- Filters ---------------------------------------------------------------------------------------------------------
def by_word(model: str, name: str) -> type[admin.SimpleListFilter]:
    """A filter over the states of a column, in words. What is no state of it is as if nothing was chosen."""

    class ByWord(admin.SimpleListFilter):
        title = labels.field(name)
        parameter_name = name

        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
            return [(str(code), str(said)) for code, said in columns.WORDS[model, name].items()]

        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            value = self.value()
            return queryset.filter(**{name: value}) if value in dict(columns.WORDS[model, name]) else queryset

    return ByWord


class ByHeadline(admin.SimpleListFilter):
    """By a headline; a subclass says of whose. What is no headline is as if nothing was chosen."""

    title = _("Health")
    parameter_name = "health"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(str(code), said) for code, said in words.HEALTH.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return self.chosen(queryset, str(value)) if value in set(words.Health) else queryset

    def chosen(self, queryset: QuerySet[Any], headline: str) -> QuerySet[Any]:
        raise NotImplementedError


class OfSync(admin.SimpleListFilter):
    """One sync's rows, by its number. Offered only while it is chosen: there may be thousands."""

    title = labels.field("sync")
    parameter_name = "sync"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        number = number_of(request.GET.get("sync", ""))
        found = Sync.objects.filter(pk=number).select_related("workspace").first() if number is not None else None
        return [(str(found.pk), f"{found} ({found.workspace})")] if found else []

    def has_output(self) -> bool:
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        number = number_of(self.value() or "")
        return queryset if number is None else queryset.filter(sync=number)


# --- Kinds of page ---------------------------------------------------------------------------------------------------
class Kept(ModelAdmin):
    """Common to all: nothing is deleted here, nothing is counted twice."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    actions: Any = None

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        """Run, pause, test, retry."""
        return may(request, Role.OPERATOR)

    def has_edit_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return may(request, Role.EDITOR)

    def has_publish_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return may(request, Role.PUBLISHER)

    def row_for(self, request: HttpRequest, object_id: Any) -> Any:
        """The row that an act is about. Raises PermissionDenied for who may not see it, Http404 where there is none."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, quote(object_id))
        if row is None:
            raise Http404
        return row


class Shown(Kept):
    """Rows that runs or services write: staff look, and change nothing."""

    left_out: tuple[str, ...] = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return columns.columns_of(self.model, self.left_out)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return columns.columns_of(self.model, self.left_out)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Links to other rows are labelled as columns are; what the code says of a field is for who reads code."""
        linked = [field.name for field in self.model._meta.fields if field.is_relation]
        kwargs |= {"help_texts": dict.fromkeys(linked, ""), "labels": {name: labels.field(name) for name in linked}}
        return super().get_form(request, obj, change, **kwargs)


class Uncounted(Shown):
    """Tables that grow for ever: they are paged without being counted."""

    paginator = InfinitePaginator


class Served(Kept):
    """Rows that staff may make through a service. What the service refuses is told in its own sentence."""

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


# --- Who acts --------------------------------------------------------------------------------------------------------
def user_of(request: HttpRequest) -> User:
    """Who is logged in. Raises PermissionDenied for nobody."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user


def actor_of(request: HttpRequest) -> services.StaffActor:
    """Who acts, with what their groups allow. Raises PermissionDenied for nobody."""
    return services.staff_member(user_of(request))


def may(request: HttpRequest, role: Role) -> bool:
    """Whether a permission gives whoever asks ``role`` in every workspace."""
    return services.staff_may(user_of(request), role)


def taken_over(row: Model, saved: Model) -> None:
    """The form's row stands for the one that the service saved."""
    row.pk = saved.pk
    row._state.adding = False


# --- Asking first ----------------------------------------------------------------------------------------------------
class ReasonForm(forms.Form):
    """Why somebody does what cannot be undone by a click; it is kept in the audit log."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=REASON_LIMIT,
        help_text=_("It is kept in the audit log, and the workspace's people see it."),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
    )


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked before an act: its title, what will happen, the button. ``rows`` are what it is about."""

    title: str
    sentences: tuple[str, ...]
    button: str
    reason: bool = True
    dangerous: bool = False
    possible: bool = True
    heading: str = ""
    rows: tuple[Any, ...] = ()
    hidden: Mapping[str, Sequence[str]] | None = None


def ask(
    model_admin: ModelAdmin, request: HttpRequest, question: Question, back: str, act: Callable[[str], str]
) -> HttpResponse:
    """Shows ``question``; confirmed, calls ``act`` with the reason and tells the sentence it answers.

    A GET changes nothing. What Vigil or a vendor refuses is told in its own sentence, on the page it came from.
    """
    confirmed = request.method == "POST" and "confirmed" in request.POST
    form = ReasonForm(request.POST if confirmed else None)
    if not confirmed or not question.possible or (question.reason and not form.is_valid()):
        shown = {
            **model_admin.admin_site.each_context(request),
            "opts": model_admin.model._meta,
            "title": question.title,
            "question": question,
            "form": form,
            "back": back,
        }
        return TemplateResponse(request, "admin/ask.html", shown, status=422 if confirmed else 200)
    try:
        said = act(form.cleaned_data["reason"] if question.reason else "")
    except (VigilError, ConnectorError) as error:
        messages.error(request, error.sentence)
    else:
        messages.success(request, said)
    return HttpResponseRedirect(back)
