"""Draft, preview, publish (UX, P6)."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from syncs import queries, services
from syncs.domain import rule as rules
from syncs.errors import DraftChanged, PublicationInvalid, RuleInvalid
from syncs.forms import Draft, PublishForm
from syncs.models import Sync, Workspace
from syncs.models.workspaces import Role
from syncs.queries import Place
from syncs.views import shell


@shell.page
@require_http_methods(["GET", "HEAD", "POST"])
def draft(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The rule as a form. Saving keeps what was typed, whatever is wrong with it (UX, P6)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.EDITOR)
    if request.method != "POST":
        return _draft_page(request, place, found, Draft(found.draft, found.draft_revision))
    form = Draft(found.draft, found.draft_revision, request.POST)
    if not form.is_valid():
        return _draft_page(request, place, found, form, status=422)
    try:
        saved = services.sync_save_draft(shell.actor(request), found, rule=form.document(), revision=form.revision)
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
    theirs = queries.sync_for(shell.person(request), place.workspace.slug, found.pk)
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
    shown = shell.context(
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


@shell.page
@require_POST
def previews(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Make a preview of the saved draft. It reads the source now and writes nothing there or at the destination."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.EDITOR)
    return _preview(request, place.workspace, found)


def _preview(request: HttpRequest, workspace: Workspace, found: Sync) -> HttpResponse:
    made = services.sync_preview(shell.actor(request), found)
    return redirect("preview", workspace.slug, found.pk, made.pk)


@shell.page
@require_safe
def preview(request: HttpRequest, slug: str, sync_id: int, preview_id: int) -> HttpResponse:
    """What the draft would do, and the button that publishes exactly that (UX, P6)."""
    place, found = queries.preview_for(shell.person(request), slug, sync_id, preview_id)
    now = queries.now()
    shown = shell.context(place, now=now, sync=found.sync, page=queries.preview_page(found, now), form=PublishForm())
    return render(request, "merchant/preview.html", shown)


@shell.page
@require_POST
def publish(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Publish exactly the digest that was posted (PRODUCT 6.2)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.PUBLISHER)
    form = PublishForm(request.POST)
    if not form.is_valid():
        raise PublicationInvalid(_("No whole digest was sent. Open the preview again and publish from there."))
    digest, reason = form.cleaned_data["digest"], form.cleaned_data["reason"]
    version = queries.published_since_preview(found, digest)
    version = version or services.sync_publish(shell.actor(request), found, digest=digest, reason=reason)
    said = _("Version %(number)d is published (%(digest)s). Runs follow the schedule from now on.")
    messages.success(request, said % {"number": version.number, "digest": version.digest[:12]})
    return redirect("sync", slug, found.pk)
