"""A new sync: from where, to where, and what; then on to its draft (UX, P1 and P6)."""

from __future__ import annotations

from django.contrib import messages
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from syncs import queries, services
from syncs.errors import RuleInvalid
from syncs.models import Sync
from syncs.models.workspaces import Role
from syncs.queries import Place
from syncs.queries import connections as queried
from syncs.views import shell
from syncs.views.connection_forms import NewSyncForm

SOURCE, DESTINATION = "source", "destination"


@shell.page
@require_http_methods(["GET", "HEAD", "POST"])
def sync_new(request: HttpRequest, slug: str) -> HttpResponse:
    """Make a draft. Nothing is sent until it was previewed and published."""
    place = queries.workspace_for(shell.person(request), slug)
    shell.require(place, Role.EDITOR)
    form = _form(place, request.POST if request.method == "POST" else None)
    made = _made(request, place, form) if form.is_bound and form.is_valid() else None
    if made is None:
        context = shell.context(place, now=queries.now(), form=form, lacks=_lacks(form))
        return render(request, "merchant/sync_new.html", context, status=422 if form.is_bound else 200)
    messages.success(request, _("The draft is made. Say what it may write, then preview it."))
    return redirect("draft", slug, made.pk)


def _form(place: Place, posted: dict[str, str] | None) -> NewSyncForm:
    of_side = {
        side: queried.ends_of(place.workspace, [kind.name for kind in services.connection_kinds() if kind.side == side])
        for side in (SOURCE, DESTINATION)
    }
    taken = Sync.objects.filter(workspace=place.workspace).values_list("name", flat=True)
    return NewSyncForm(of_side[SOURCE], of_side[DESTINATION], taken, posted)


def _lacks(form: NewSyncForm) -> bool:
    """Whether an end is not connected yet."""
    return not all(form.fields[side].choices for side in (SOURCE, DESTINATION))  # type: ignore[attr-defined]


def _made(request: HttpRequest, place: Place, form: NewSyncForm) -> Sync | None:
    """The draft; None when the form says why there is none."""
    given = form.cleaned_data
    ends = {side: form.ends[given[side]] for side in (SOURCE, DESTINATION)}
    try:
        return services.sync_create(shell.actor(request), place.workspace, name=given["name"], rule=form.rule(), **ends)
    except RuleInvalid as invalid:
        form.add_error("list_id" if invalid.field == "list_id" else None, invalid.sentence)
    except IntegrityError:
        form.add_error("name", _("This workspace has a sync of that name already: choose another name."))
    return None
