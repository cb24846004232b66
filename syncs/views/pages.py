"""Pages that only show: workspace home, sync, run (UX, P1 to P3)."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from syncs import queries
from syncs.domain.lifecycle import SyncState
from syncs.forms import PauseForm
from syncs.models import Sync
from syncs.queries import Place
from syncs.views import shell


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
    shown = shell.context(place, now=now, home=queries.home(place.workspace, now), at_home=True)
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
    shown = shell.context(
        place,
        now=now,
        sync=found,
        page=queries.sync_page(found, now),
        pause=pause or PauseForm(),
        can_run=place.may_operate and found.state == SyncState.PUBLISHED,
        can_pause=place.may_operate and can_pause,
    )
    return render(request, "merchant/sync.html", shown, status=status)


@shell.page
@require_safe
def run(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """A run's page (UX, P3)."""
    place, found = queries.run_for(shell.person(request), slug, run_id)
    now = queries.now()
    return render(
        request, "merchant/run.html", shell.context(place, now=now, sync=found.sync, page=queries.run_page(found, now))
    )
