"""The recovery page of a sync: its cursors, its lease, the records that were not taken (PRODUCT 1.8, 4.4, 9.3)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from connectors.errors import ConnectorError
from syncs import queries, services, words
from syncs.domain.lifecycle import DeliveryState, Lane, SyncState
from syncs.errors import NotFound
from syncs.models import Delivery, Lease, Sync
from syncs.models.workspaces import Role
from syncs.queries import Place
from syncs.queries import recovery as queried
from syncs.views import shell
from syncs.views.asked import CursorForm, ReasonForm, RecordForm, ResetForm, RetryForm


@shell.page
@require_safe
def recovery_page(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """What can be mended, each with its act beside it."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    return _page(request, place, found)


def _page(request: HttpRequest, place: Place, found: Sync, *, status: int = 200, **forms: Form) -> HttpResponse:
    now = queries.now()
    lease = getattr(found, "lease", None)
    page = queried.recovery_page(found, now)
    shown: dict[str, Any] = {
        "cursor": CursorForm(),
        "reason": ReasonForm(),
        "retry": RetryForm(),
        "can_take_over": place.may_operate and _may_be_taken(lease, now),
        "can_run": place.may_operate and found.state == SyncState.PUBLISHED and page.open_run is None,
        **forms,
    }
    context = shell.context(place, now=now, sync=found, page=page, **shown)
    return render(request, "merchant/recovery.html", context, status=status)


def _may_be_taken(lease: Lease | None, now: datetime) -> bool:
    return lease is not None and lease.run_id is not None and services.lease_may_be_taken(lease, now)


@shell.page
@require_POST
def cursor_plan(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """What resetting a lane would read and send again (PRODUCT 1.8). It asks the source and changes nothing."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.OPERATOR)
    form = CursorForm(request.POST)
    if not form.is_valid():
        return _page(request, place, found, status=422, cursor=form)
    to, lane = form.instant(words.zone_of(place.workspace.zone)), Lane(form.cleaned_data["lane"])
    try:
        plan = services.cursor_plan(shell.actor(request), found, lane, to=to)
    except ConnectorError as error:
        form.add_error(None, error.sentence)
        return _page(request, place, found, status=502, cursor=form)
    reset = ResetForm(initial={"lane": lane.value, "to": to.isoformat() if to else ""})
    shown = shell.context(place, now=queries.now(), sync=found, plan=plan, lane=words.LANES[lane], form=reset)
    return render(request, "merchant/cursor.html", shown)


@shell.page
@require_POST
def cursor_reset(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Set a lane back, as it was previewed."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.PUBLISHER)
    form = ResetForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Nothing was set back: say why, and look at the preview again."))
        return redirect("recovery", slug, found.pk)
    given = form.cleaned_data
    services.cursor_reset(shell.actor(request), found, Lane(given["lane"]), to=given["to"], reason=given["reason"])
    messages.success(request, _("The cursor is set back. The next run of its lane reads from there."))
    return redirect("recovery", slug, found.pk)


@shell.page
@require_POST
def take_over(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Free the sync from a worker that is gone. Only when its lease has run out, or its death is proven."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.OPERATOR)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _page(request, place, found, status=422, reason=form)
    lease = services.lease_take_over(shell.actor(request), found, reason=form.cleaned_data["reason"])
    said = _("The sync is free under fence %(fence)d. Its run goes on within a minute.")
    messages.success(request, said % {"fence": lease.fence})
    return redirect("recovery", slug, found.pk)


@shell.page
@require_POST
def records_retry(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Try one record again, or all of one reason (PRODUCT 4.4)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.OPERATOR)
    form = RetryForm(request.POST)
    if not form.is_valid():
        return _page(request, place, found, status=422, retry=form)
    record, code = form.cleaned_data["record"], form.cleaned_data["code"]
    if record is None and not code:
        raise NotFound(_("Say which record, or all of which reason. Choose one from the list."))
    number = services.deliveries_retry(
        shell.actor(request),
        found,
        code=code,
        ids=[record] if record is not None else None,
        reason=form.cleaned_data["reason"],
    )
    messages.success(request, retried(number))
    return redirect("recovery", slug, found.pk)


def retried(number: int) -> str:
    """What asking for another try came to."""
    if number == 0:
        return _("No such record waits any more: nothing was changed.")
    said = ngettext(
        "%(n)s record is tried again by the next run.", "%(n)s records are tried again by the next run.", number
    )
    return said % {"n": f"{number:,}"}


@shell.page
@require_POST
def set_aside(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Set one rejected record aside, so that its page can go on (PRODUCT 4.4)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.OPERATOR)
    form = RecordForm(request.POST)
    if not form.is_valid():
        return _page(request, place, found, status=422, retry=form)
    rows = Delivery.objects.select_related("sync__workspace").filter(sync=found, pk=form.cleaned_data["record"])
    delivery = rows.filter(state=DeliveryState.FAILED.value).first()
    if delivery is None:
        raise NotFound(_("This record is not rejected any more. Look at the list again."))
    services.delivery_set_aside(shell.actor(request), delivery, reason=form.cleaned_data["reason"])
    messages.success(request, _("The record is set aside. The next run goes past it."))
    return redirect("recovery", slug, found.pk)
