"""The merchant's pages: thin shells over `queries` and `services` (UX, section 2).

A GET changes nothing. A POST calls one service, which checks the role; what it refuses is told in one sentence. What a
person may not know of is a 404, whether it exists or not (PRODUCT 10.1).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from syncs import queries, services, words
from syncs.domain import rule as rules
from syncs.domain.lifecycle import SyncState
from syncs.errors import DraftChanged, NotFound, PermissionMissing, PublicationInvalid, RuleInvalid, VigilError
from syncs.forms import Draft, PauseForm, PublishForm
from syncs.models import Sync, Workspace
from syncs.models.workspaces import Role
from syncs.queries import Place

View = Callable[..., HttpResponse]

MOST_DIGITS: Final = 19
"""Of a row's number."""

STATUS: Final[dict[type[VigilError], int]] = {
    PermissionMissing: 403,
    NotFound: 404,
    DraftChanged: 409,
    PublicationInvalid: 409,
    RuleInvalid: 422,
}


def page(view: View) -> View:
    """A page for people who are logged in; what Vigil refuses becomes a page with its sentence."""

    @functools.wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except VigilError as error:
            return refused(request, error.sentence, STATUS.get(type(error), 400))

    guarded: View = never_cache(login_required(shown))
    return guarded


def refused(request: HttpRequest, sentence: str, status: int) -> HttpResponse:
    """One sentence that says what to do, and a way back."""
    titles = {403: _("Not allowed"), 404: _("Not found"), 409: _("Not done"), 422: _("Not a rule")}
    shown = {"title": titles.get(status, _("Not done")), "sentence": sentence, "status": status}
    return render(request, "merchant/message.html", shown, status=status)


def person(request: HttpRequest) -> User:
    """Who is logged in. `page` has seen to it that somebody is."""
    user = request.user
    if not isinstance(user, User):
        raise NotFound(_("Log in to see this page."))
    return user


def _actor(request: HttpRequest) -> services.Actor:
    return services.person(person(request))


def _context(place: Place, **more: Any) -> dict[str, Any]:
    return {"place": place, "workspace": place.workspace, "zone": words.zone_of(place.workspace.zone), **more}


def _require(place: Place, role: Role) -> None:
    """For pages that only serve an act; the act itself is checked by its service."""
    if not place.may(role):
        raise PermissionMissing(
            _("This needs the role %(role)s in %(workspace)s. Ask one of its publishers.")
            % {"role": role.value, "workspace": place.workspace}
        )


@page
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The person's workspaces; straight to the only one."""
    places = queries.workspaces_for(person(request))
    if len(places) == 1:
        return redirect("workspace", places[0].workspace.slug)
    return render(request, "merchant/workspaces.html", {"places": places})


@page
@require_safe
def workspace(request: HttpRequest, slug: str) -> HttpResponse:
    """A workspace's first page (UX, P1)."""
    place, now = queries.workspace_for(person(request), slug), queries.now()
    shown = _context(place, now=now, home=queries.home(place.workspace, now), at_home=True)
    return render(request, "merchant/home.html", shown)


@page
@require_safe
def sync(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The sync page (UX, P2)."""
    place, found = queries.place_of_sync(person(request), slug, sync_id)
    return _sync_page(request, place, found)


def _sync_page(
    request: HttpRequest, place: Place, found: Sync, pause: PauseForm | None = None, status: int = 200
) -> HttpResponse:
    now = queries.now()
    can_pause = found.state in (SyncState.PUBLISHED, SyncState.EDITED)
    shown = _context(
        place,
        now=now,
        sync=found,
        page=queries.sync_page(found, now),
        pause=pause or PauseForm(),
        can_run=place.may_operate and found.state == SyncState.PUBLISHED,
        can_pause=place.may_operate and can_pause,
    )
    return render(request, "merchant/sync.html", shown, status=status)


@page
@require_safe
def run(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """A run's page (UX, P3)."""
    place, found = queries.run_for(person(request), slug, run_id)
    now = queries.now()
    return render(
        request, "merchant/run.html", _context(place, now=now, sync=found.sync, page=queries.run_page(found, now))
    )


@page
@require_POST
def run_now(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Start a run. The second press of a double click leads to the run of the first (Case LEASE-06)."""
    place, found = queries.place_of_sync(person(request), slug, sync_id)
    _require(place, Role.OPERATOR)
    seen = request.POST.get("seen", "")
    is_number = seen.isascii() and seen.isdigit() and len(seen) < MOST_DIGITS
    started = services.run_start(_actor(request), found, seen=int(seen) if is_number else None)
    return redirect("run", slug, started.pk)


@page
@require_POST
def pause(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Let a sync stand still until somebody publishes again."""
    place, found = queries.place_of_sync(person(request), slug, sync_id)
    _require(place, Role.OPERATOR)
    form = PauseForm(request.POST)
    if not form.is_valid():
        return _sync_page(request, place, found, pause=form, status=422)
    services.sync_pause(_actor(request), found, reason=form.cleaned_data["reason"])
    messages.success(request, _("Paused. Nothing starts it again by itself: publish it when it may go on."))
    return redirect("sync", slug, found.pk)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def draft(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The rule as a form. Saving keeps what was typed, whatever is wrong with it (UX, P6)."""
    place, found = queries.place_of_sync(person(request), slug, sync_id)
    _require(place, Role.EDITOR)
    if request.method != "POST":
        return _draft_page(request, place, found, Draft(found.draft, found.draft_revision))
    form = Draft(found.draft, found.draft_revision, request.POST)
    if not form.is_valid():
        return _draft_page(request, place, found, form, status=422)
    try:
        saved = services.sync_save_draft(_actor(request), found, rule=form.document(), revision=form.revision)
    except RuleInvalid as invalid:
        form.refuse(invalid)
        return _draft_page(request, place, found, form, status=422)
    except DraftChanged as changed:
        return _conflict(request, place, found, form, changed)
    return _after_save(request, place, saved, changed=saved.draft_revision != form.revision)


def _after_save(request: HttpRequest, place: Place, saved: Sync, *, changed: bool) -> HttpResponse:
    if "preview" in request.POST:
        return _preview(request, place.workspace, saved)
    said = _("The draft is saved. Preview it, then publish it.") if changed else _("Nothing was changed.")
    messages.success(request, said)
    return redirect("draft", place.workspace.slug, saved.pk)


def _conflict(request: HttpRequest, place: Place, found: Sync, mine: Draft, changed: DraftChanged) -> HttpResponse:
    """Somebody saved first: their draft is shown beside the text, which is kept and may be saved over it now."""
    theirs = queries.sync_for(person(request), place.workspace.slug, found.pk)
    kept = Draft.kept(theirs.draft, theirs.draft_revision, request.POST)
    return _draft_page(request, place, theirs, kept, conflict=changed.sentence, mine=mine.document(), status=409)


def _draft_page(
    request: HttpRequest,
    place: Place,
    found: Sync,
    form: Draft,
    *,
    conflict: str = "",
    mine: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    shown = _context(
        place,
        now=queries.now(),
        sync=found,
        draft=form,
        conflict=conflict,
        differences=_differences(found.draft, mine) if mine is not None else (),
        flow=f"{found.source.kind.capitalize()} → {found.destination.kind.capitalize()}",
    )
    return render(request, "merchant/draft.html", shown, status=status)


def _differences(theirs: dict[str, Any], mine: dict[str, Any]) -> list[rules.Change]:
    """Their draft against what was typed; nothing to compare where one of both is no rule."""
    try:
        return rules.changes(rules.parse(theirs), rules.parse(mine))
    except RuleInvalid:
        return []


@page
@require_POST
def previews(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Make a preview of the saved draft. It reads the source now and writes nothing there or at the destination."""
    place, found = queries.place_of_sync(person(request), slug, sync_id)
    _require(place, Role.EDITOR)
    return _preview(request, place.workspace, found)


def _preview(request: HttpRequest, workspace: Workspace, found: Sync) -> HttpResponse:
    made = services.sync_preview(_actor(request), found)
    return redirect("preview", workspace.slug, found.pk, made.pk)


@page
@require_safe
def preview(request: HttpRequest, slug: str, sync_id: int, preview_id: int) -> HttpResponse:
    """What the draft would do, and the button that publishes exactly that (UX, P6)."""
    place, found = queries.preview_for(person(request), slug, sync_id, preview_id)
    now = queries.now()
    shown = _context(place, now=now, sync=found.sync, page=queries.preview_page(found, now), form=PublishForm())
    return render(request, "merchant/preview.html", shown)


@page
@require_POST
def publish(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Publish exactly the digest that was posted (PRODUCT 6.2)."""
    place, found = queries.place_of_sync(person(request), slug, sync_id)
    _require(place, Role.PUBLISHER)
    form = PublishForm(request.POST)
    if not form.is_valid():
        raise PublicationInvalid(_("No whole digest was sent. Open the preview again and publish from there."))
    digest, reason = form.cleaned_data["digest"], form.cleaned_data["reason"]
    version = queries.published_since_preview(found, digest)
    version = version or services.sync_publish(_actor(request), found, digest=digest, reason=reason)
    said = _("Version %(number)d is published (%(digest)s). Runs follow the schedule from now on.")
    messages.success(request, said % {"number": version.number, "digest": version.digest[:12]})
    return redirect("sync", slug, found.pk)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Any address that leads nowhere."""
    return refused(request, _("There is no page at this address. Go back to your workspaces."), 404)


def not_allowed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django itself refuses."""
    return refused(request, _("You may not do this. Ask a publisher of the workspace."), 403)


def broken(request: HttpRequest) -> HttpResponse:
    """Our fault: a page that needs no database."""
    return render(request, "500.html", status=500)
