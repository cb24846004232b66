"""When a sync runs: edited apart from what it may write, with its next starts shown before saving (PRODUCT 8.1)."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from syncs import queries, services, words
from syncs.domain import schedule as schedules
from syncs.forms import ScheduleForm
from syncs.models import Schedule, Sync
from syncs.models.workspaces import Role
from syncs.queries import Place
from syncs.queries.sync import clock_change, next_starts, schedule_of
from syncs.views import shell


@shell.page
@require_http_methods(["GET", "HEAD", "POST"])
def schedule(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The schedule in words, its next ten starts, and the form that changes it."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    kept = schedule_of(found) or _planned(found, schedules.DEFAULT_MINUTES, active=True)
    if request.method != "POST":
        form = ScheduleForm(initial=ScheduleForm.initially(kept.every_minutes, kept.active))
        return _page(request, place, found, form, kept)
    shell.require(place, Role.EDITOR)
    form = ScheduleForm(request.POST)
    if not form.is_valid():
        return _page(request, place, found, form, kept, status=422)
    asked = _planned(found, form.every_minutes, active=form.cleaned_data["active"])
    if "show" in request.POST:
        return _page(request, place, found, form, asked, is_asked=True)
    services.schedule_set(shell.actor(request), found, every_minutes=asked.every_minutes, active=asked.active)
    messages.success(request, _said(asked))
    return redirect("schedule", slug, found.pk)


def _said(asked: Schedule) -> str:
    if not asked.active:
        return _("The schedule plans no starts from now on. A person can still start a run.")
    return _("It runs %(often)s from now on. What it may write is unchanged.") % {
        "often": words.every(asked.every_minutes)
    }


def _planned(sync: Sync, every_minutes: int, *, active: bool) -> Schedule:
    """The schedule as it would be; it is not kept."""
    offset = int(schedules.spread_offset(sync.pk, every_minutes).total_seconds())
    return Schedule(sync=sync, every_minutes=every_minutes, offset_seconds=offset, active=active)


def _page(
    request: HttpRequest,
    place: Place,
    found: Sync,
    form: ScheduleForm,
    planned: Schedule,
    *,
    is_asked: bool = False,
    status: int = 200,
) -> HttpResponse:
    now = queries.now()
    shown = shell.context(
        place,
        now=now,
        sync=found,
        form=form,
        planned=planned,
        often=words.every(planned.every_minutes),
        starts=next_starts(planned, now),
        clock_change=clock_change(words.zone_of(place.workspace.zone), now),
        is_asked=is_asked,
    )
    return render(request, "merchant/schedule.html", shown, status=status)
