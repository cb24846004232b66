"""What a person presses on a page: each a POST that calls one service."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from syncs import queries, services
from syncs.domain.lifecycle import DeliveryState, RunState
from syncs.forms import PauseForm
from syncs.models.workspaces import Role
from syncs.views import pages, recovery, shell
from syncs.views.asked import ReasonForm

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


RETRIED_AT_ONCE: Final = 1000
"""Failed records of a run that one press asks to try again."""


@shell.page
@require_POST
def run_again(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """Run the sync of a run again, as a person."""
    place, found = queries.run_for(shell.person(request), slug, run_id)
    shell.require(place, Role.OPERATOR)
    started = services.run_start(shell.actor(request), found.sync, seen=found.pk)
    return redirect("run", slug, started.pk)


@shell.page
@require_POST
def retry_failed(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """Ask for another try of what failed in a run, and of what it set aside."""
    place, found = queries.run_for(shell.person(request), slug, run_id)
    shell.require(place, Role.OPERATOR)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for error in form.errors["reason"]))
        return redirect("run", slug, found.pk)
    states = [DeliveryState.FAILED.value, DeliveryState.SET_ASIDE.value]
    ids = list(found.deliveries.filter(state__in=states).values_list("pk", flat=True)[:RETRIED_AT_ONCE])
    number = services.deliveries_retry(shell.actor(request), found.sync, ids=ids, reason=form.cleaned_data["reason"])
    messages.success(request, recovery.retried(number))
    return redirect("run", slug, found.pk)


@shell.page
@require_POST
def cancel(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """Ask a run to stop. It stops before its next write, at a clean place."""
    place, found = queries.run_for(shell.person(request), slug, run_id)
    shell.require(place, Role.OPERATOR)
    if found.state == RunState.FINISHED:
        messages.success(request, _("This run has ended already: there was nothing to stop."))
        return redirect("run", slug, found.pk)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(error) for error in form.errors["reason"]))
        return redirect("run", slug, found.pk)
    services.run_cancel(shell.actor(request), found, reason=form.cleaned_data["reason"])
    messages.success(request, _("The run was asked to stop. It stops before its next write."))
    return redirect("run", slug, found.pk)
