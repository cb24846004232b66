"""Pages that only show: workspace home, sync, its runs and consent, run, its records, activity (UX, P1 to P5, P9)."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from syncs import queries, words
from syncs.domain.lifecycle import SyncState
from syncs.errors import NotFound
from syncs.forms import PauseForm
from syncs.models import Sync
from syncs.queries import Place, activity, consent, records
from syncs.views import shell
from syncs.views.asked import ActivityForm, ReasonForm, RunsForm

POLL_SECONDS = 10
"""How often a page with a run at work is looked at again, at most (UX, section 7)."""


@shell.page
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The person's workspaces; straight to the only one."""
    places = queries.workspaces_for(shell.person(request))
    if len(places) == 1:
        return redirect("workspace", places[0].workspace.slug)
    return render(request, "merchant/workspaces.html", {"places": places})


@shell.page
@require_safe
def workspace(request: HttpRequest, slug: str) -> HttpResponse:
    """A workspace's first page (UX, P1)."""
    place, now = queries.workspace_for(shell.person(request), slug), queries.now()
    home = queries.home(place.workspace, now)
    shown = shell.context(place, now=now, home=home, at_home=True, poll=POLL_SECONDS if home.is_live else 0)
    return render(request, "merchant/home.html", shown)


@shell.page
@require_safe
def sync(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The sync page (UX, P2)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    return sync_page(request, place, found)


def sync_page(
    request: HttpRequest, place: Place, found: Sync, pause: PauseForm | None = None, status: int = 200
) -> HttpResponse:
    now = queries.now()
    can_pause = found.state in (SyncState.PUBLISHED, SyncState.EDITED)
    page = queries.sync_page(found, now)
    shown = shell.context(
        place,
        now=now,
        sync=found,
        page=page,
        pause=pause or PauseForm(),
        filter=RunsForm(),
        poll=POLL_SECONDS if page.is_running else 0,
        can_run=place.may_operate and found.state == SyncState.PUBLISHED,
        can_pause=place.may_operate and can_pause,
    )
    return render(request, "merchant/sync.html", shown, status=status)


@shell.page
@require_safe
def runs(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """All runs of a sync, filtered (UX, P2.7)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    now, form = queries.now(), RunsForm(request.GET)
    asked = form.asked(words.zone_of(place.workspace.zone))
    shown = shell.context(
        place,
        now=now,
        sync=found,
        list=queries.run_list(found, asked, now),
        filter=form,
        asked=query_of(request),
        is_later=asked.before is not None,
    )
    return render(request, "merchant/runs.html", shown)


def query_of(request: HttpRequest) -> str:
    """The filter as it stands in the address, without the place in the list."""
    given = request.GET.copy()
    given.pop("before", None)
    return given.urlencode()


@shell.page
@require_safe
def run(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """A run's page (UX, P3)."""
    place, found = queries.run_for(shell.person(request), slug, run_id)
    now = queries.now()
    page = queries.run_page(found, now)
    shown = shell.context(
        place,
        now=now,
        sync=found.sync,
        page=page,
        reason=ReasonForm(),
        stop=ReasonForm(auto_id="stop_%s"),
        poll=POLL_SECONDS if page.is_open else 0,
        can_run=place.may_operate and not page.is_open and found.sync.state == SyncState.PUBLISHED,
    )
    return render(request, "merchant/run.html", shown)


@shell.page
@require_safe
def run_records(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """The records that a number of a run stands for (UX, P2.4)."""
    place, found = queries.run_for(shell.person(request), slug, run_id)
    after = number_of(request.GET.get("after", ""))
    state, reason = request.GET.get("state", ""), request.GET.get("reason", "")
    page = records.records_page(found, state[:24], reason=reason[:60], after=after)
    shown = shell.context(place, now=queries.now(), sync=found.sync, page=page, is_later=after > 0)
    return render(request, "merchant/records.html", shown)


MOST_DIGITS = 18
"""Of a row's number."""


def number_of(text: str) -> int:
    """A row's number out of an address; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0


@shell.page
@require_safe
def consent_page(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Who was refused and why, for a week (UX, P5)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    now = queries.now()
    shown = shell.context(place, now=now, sync=found, page=consent.consent_page(found, now))
    return render(request, "merchant/consent.html", shown)


@shell.page
@require_safe
def activity_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Who did what in a workspace (UX, P9)."""
    place = queries.workspace_for(shell.person(request), slug)
    form = ActivityForm(request.GET)
    asked = form.asked(words.zone_of(place.workspace.zone))
    shown = _activity(place, activity.activity(place.workspace, asked), filter=form, asked=query_of(request))
    return render(request, "merchant/activity.html", shown)


@shell.page
@require_safe
def deed(request: HttpRequest, slug: str, entry_id: int) -> HttpResponse:
    """One deed at its permanent address."""
    place = queries.workspace_for(shell.person(request), slug)
    found = activity.entry(place.workspace, entry_id)
    if found is None:
        raise NotFound(_("There is no such entry in this workspace. Choose one from its activity."))
    return render(request, "merchant/activity.html", _activity(place, activity.Activity((found,), "", 1), single=True))


def _activity(place: Place, shown: activity.Activity, **more: Any) -> dict[str, Any]:
    return shell.context(place, now=queries.now(), activity=shown, at_activity=True, **more)
