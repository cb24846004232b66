"""Connections: their list, one of them, making, testing, rotating in two slots, disconnecting (UX, P10 and S10)."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from connectors.errors import ConnectorError
from syncs import queries, services
from syncs.errors import NameTaken, NotFound, PublicationInvalid
from syncs.models import Connection, Sync
from syncs.models.workspaces import Role
from syncs.queries import Place
from syncs.queries import connections as queried
from syncs.views import shell
from syncs.views.connection_forms import ConnectionForm, DisconnectForm, SecretsForm, SwitchForm, kind_of


@shell.page
@require_safe
def connections_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Every account that is connected."""
    place = queries.workspace_for(shell.person(request), slug)
    lines = queried.connections_of(place.workspace)
    shown = shell.context(place, now=queries.now(), lines=lines, labels=_labels(), at_connections=True)
    return render(request, "merchant/connections.html", shown)


def _labels() -> dict[str, str]:
    return {kind.name: kind.label for kind in services.connection_kinds()}


@shell.page
@require_safe
def connection(request: HttpRequest, slug: str, connection_id: int) -> HttpResponse:
    """One account: who it is, what it may do, its two slots."""
    place, found = queried.connection_for(shell.person(request), slug, connection_id)
    return _page(request, place, found)


def _page(request: HttpRequest, place: Place, found: Connection, *, status: int = 200, **more: Any) -> HttpResponse:
    kind = kind_of(found.kind)
    shown: dict[str, Any] = {
        "connection": found,
        "page": queried.connection_page(found),
        "label": kind.label if kind else found.kind,
        "options": [(one.label, found.options[one.name]) for one in _options(kind) if found.options.get(one.name)],
        "secrets": SecretsForm(kind) if kind else None,
        "switch": SwitchForm(),
        "at_connections": True,
        **more,
    }
    context = shell.context(place, now=queries.now(), **shown)
    return render(request, "merchant/connection.html", context, status=status)


def _options(kind: Any) -> list[Any]:
    return [one for one in kind.fields if not one.secret] if kind else []


# --- Making -----------------------------------------------------------------------------------------------------------
@sensitive_post_parameters()
@shell.page
@require_http_methods(["GET", "HEAD", "POST"])
def connection_new(request: HttpRequest, slug: str) -> HttpResponse:
    """Choose a kind, fill in what it declares. It is tested as soon as it is saved."""
    place = queries.workspace_for(shell.person(request), slug)
    shell.require(place, Role.PUBLISHER)
    kind = kind_of((request.POST if request.method == "POST" else request.GET).get("kind", ""))
    if kind is None:
        return _new_page(request, place, None, 422 if request.method == "POST" else 200)
    form = ConnectionForm(kind, request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return _new_page(request, place, form, 422 if request.method == "POST" else 200)
    made = _made(request, place, form)
    if made is None:
        return _new_page(request, place, form, 422)
    _test(request, made)
    return redirect("connection", slug, made.pk)


def _made(request: HttpRequest, place: Place, form: ConnectionForm) -> Connection | None:
    """The new connection; None when the form says why there is none."""
    given = {"name": form.cleaned_data["name"], "kind": form.kind.name}
    try:
        return services.connection_create(
            shell.actor(request), place.workspace, options=form.options(), secrets=form.secrets(), **given
        )
    except NameTaken as taken:
        form.add_error("name", taken.sentence)
    except ValueError as refused:
        form.refuse(str(refused))
    return None


def _new_page(request: HttpRequest, place: Place, form: ConnectionForm | None, status: int) -> HttpResponse:
    shown = {"form": form, "kinds": services.connection_kinds(), "at_connections": True}
    context = shell.context(place, now=queries.now(), **shown)
    return render(request, "merchant/connection_new.html", context, status=status)


# --- Testing ----------------------------------------------------------------------------------------------------------
@shell.page
@require_POST
def connection_test(request: HttpRequest, slug: str, connection_id: int) -> HttpResponse:
    """Ask the vendor, and show what it said."""
    place, found = queried.connection_for(shell.person(request), slug, connection_id)
    shell.require(place, Role.OPERATOR)
    _test(request, found)
    return redirect("connection", slug, found.pk)


def _test(request: HttpRequest, found: Connection) -> None:
    try:
        identity = services.connection_test(shell.actor(request), found)
    except ConnectorError as error:
        messages.error(request, _("The test failed: %(sentence)s") % {"sentence": error.sentence})
        return
    messages.success(request, _("Tested: %(label)s answers. See the list below.") % {"label": identity.label})


# --- Two slots --------------------------------------------------------------------------------------------------------
@sensitive_post_parameters()
@shell.page
@require_POST
def connection_next(request: HttpRequest, slug: str, connection_id: int) -> HttpResponse:
    """Enter the next credential beside the one in use, and test it at once."""
    place, found = queried.connection_for(shell.person(request), slug, connection_id)
    shell.require(place, Role.PUBLISHER)
    form = SecretsForm(_known_kind(found), request.POST)
    if not form.is_valid():
        return _page(request, place, found, status=422, secrets=form)
    try:
        filled = services.connection_next_set(shell.actor(request), found, secrets=form.secrets())
    except ValueError as refused:
        form.refuse(str(refused))
        return _page(request, place, found, status=422, secrets=form)
    _test_next(request, filled)
    return redirect("connection", slug, found.pk)


def _known_kind(found: Connection) -> Any:
    kind = kind_of(found.kind)
    if kind is None:
        raise NotFound(_("Nothing here speaks to this system any more."))
    return kind


@shell.page
@require_POST
def connection_next_test(request: HttpRequest, slug: str, connection_id: int) -> HttpResponse:
    """Ask the vendor about the next credential."""
    place, found = queried.connection_for(shell.person(request), slug, connection_id)
    shell.require(place, Role.PUBLISHER)
    _test_next(request, found)
    return redirect("connection", slug, found.pk)


def _test_next(request: HttpRequest, found: Connection) -> None:
    try:
        same = services.connection_next_test(shell.actor(request), found)
    except ConnectorError as error:
        messages.error(request, _("The next credential does not work: %(sentence)s") % {"sentence": error.sentence})
        return
    if same:
        messages.success(request, _("The next credential stands for the same. Switch to it when you like."))
    else:
        messages.error(request, _("The next credential differs from the one in use. See the list below."))


@shell.page
@require_POST
def connection_switch(request: HttpRequest, slug: str, connection_id: int) -> HttpResponse:
    """Let the next credential take over."""
    place, found = queried.connection_for(shell.person(request), slug, connection_id)
    shell.require(place, Role.PUBLISHER)
    form = SwitchForm(request.POST)
    confirmed = form.is_valid() and form.cleaned_data["confirm"]
    try:
        still = services.connection_switch(shell.actor(request), found, confirmed=confirmed)
    except PublicationInvalid as refused:
        form.add_error("confirm", refused.sentence)
        return _page(request, place, found, status=409, switch=form)
    messages.success(request, _switched(still))
    return redirect("connection", slug, found.pk)


def _switched(still: tuple[Sync, ...]) -> str:
    if not still:
        return _("Switched. The old credential is dropped here; revoke it at the vendor once no run is going on.")
    said = ngettext(
        "Switched. %(names)s stands still until it is published again.",
        "Switched. %(names)s stand still until they are published again.",
        len(still),
    )
    return said % {"names": ", ".join(sync.name for sync in still)}


@shell.page
@require_POST
def connection_next_drop(request: HttpRequest, slug: str, connection_id: int) -> HttpResponse:
    """Forget the next credential."""
    place, found = queried.connection_for(shell.person(request), slug, connection_id)
    shell.require(place, Role.PUBLISHER)
    services.connection_next_drop(shell.actor(request), found)
    messages.success(request, _("The next credential is dropped. The one in use was not touched."))
    return redirect("connection", slug, found.pk)


# --- Disconnecting ----------------------------------------------------------------------------------------------------
@shell.page
@require_http_methods(["GET", "HEAD", "POST"])
def connection_disconnect(request: HttpRequest, slug: str, connection_id: int) -> HttpResponse:
    """What it would stop, and the name to type."""
    place, found = queried.connection_for(shell.person(request), slug, connection_id)
    shell.require(place, Role.PUBLISHER)
    form = DisconnectForm(found.name, request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        shown = {"connection": found, "page": queried.connection_page(found), "form": form, "at_connections": True}
        context = shell.context(place, now=queries.now(), **shown)
        return render(request, "merchant/disconnect.html", context, status=422 if form.is_bound else 200)
    reason = form.cleaned_data["reason"]
    stopped = services.connection_disconnect(shell.actor(request), found, reason=reason)
    messages.success(request, _disconnected(stopped))
    return redirect("connection", slug, found.pk)


def _disconnected(stopped: tuple[Sync, ...]) -> str:
    if not stopped:
        return _("Disconnected. The credential is wiped; no sync was working with it.")
    said = ngettext(
        "Disconnected. The credential is wiped, and %(n)d sync is paused.",
        "Disconnected. The credential is wiped, and %(n)d syncs are paused.",
        len(stopped),
    )
    return said % {"n": len(stopped)}
