"""What a person presses on a page: each a POST that calls one service."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from syncs import queries, services
from syncs.forms import PauseForm
from syncs.models.workspaces import Role
from syncs.views import pages, shell

MOST_DIGITS: Final = 19
"""Of a row's number."""


@shell.page
@require_POST
def run_now(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Start a run. The second press of a double click leads to the run of the first (Case LEASE-06)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.OPERATOR)
    seen = request.POST.get("seen", "")
    is_number = seen.isascii() and seen.isdigit() and len(seen) < MOST_DIGITS
    started = services.run_start(shell.actor(request), found, seen=int(seen) if is_number else None)
    return redirect("run", slug, started.pk)


@shell.page
@require_POST
def pause(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Let a sync stand still until somebody publishes again."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.OPERATOR)
    form = PauseForm(request.POST)
    if not form.is_valid():
        return pages.sync_page(request, place, found, pause=form, status=422)
    services.sync_pause(shell.actor(request), found, reason=form.cleaned_data["reason"])
    messages.success(request, _("Paused. Nothing starts it again by itself: publish it when it may go on."))
    return redirect("sync", slug, found.pk)
