"""Draft, preview, publish (UX, P6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from connectors.protocol import Stream
from syncs import queries, services, words
from syncs.domain.lifecycle import SyncState
from syncs.errors import DraftChanged, PublicationInvalid, RuleInvalid
from syncs.forms import Draft, PublishForm, pickers
from syncs.models import Preview, Sync, Version, Workspace
from syncs.models.workspaces import Role
from syncs.queries import Place, versions
from syncs.queries import previews as previewed
from syncs.queries.sync import next_starts, schedule_of
from syncs.views import shell

MOST_DIGITS: Final = 4
"""Of a row's number in the mapping."""


@shell.page
@require_http_methods(["GET", "HEAD", "POST"])
def draft(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The rule as a form. Saving keeps what was typed, whatever is wrong with it (UX, P6)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.EDITOR)
    attributes = _attributes(found)
    if request.method != "POST":
        form = Draft(found.draft, found.draft_revision, attributes=attributes)
        return _draft_page(request, place, found, form)
    if "add" in request.POST or "remove" in request.POST:
        form = Draft.reshaped(found.draft, request.POST, without=_removed(request), attributes=attributes)
        return _draft_page(request, place, found, form)
    return _save(request, place, found, Draft(found.draft, found.draft_revision, request.POST, attributes=attributes))


def _attributes(sync: Sync) -> Mapping[str, str] | None:
    """What the destination has to write to; None where it could not tell. Fields of orders are free."""
    if sync.draft.get("stream") != Stream.CUSTOMERS:
        return None
    return services.destination_attributes(sync.destination)


def _removed(request: HttpRequest) -> int | None:
    """The row whose button was pressed; None for the one that brings another."""
    text = request.POST.get("remove", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def _save(request: HttpRequest, place: Place, found: Sync, form: Draft) -> HttpResponse:
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
    typed = mine.document()
    theirs = queries.sync_for(shell.person(request), place.workspace.slug, found.pk)
    kept = Draft.kept(theirs.draft, theirs.draft_revision, request.POST, _attributes(theirs))
    return _draft_page(request, place, theirs, kept, conflict=changed.sentence, mine=typed, status=409)


def _draft_page(
    request: HttpRequest,
    place: Place,
    found: Sync,
    form: Draft,
    *,
    conflict: str = "",
    mine: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    now = queries.now()
    live = found.published
    shown = shell.context(
        place,
        now=now,
        sync=found,
        draft=form,
        conflict=conflict,
        differences=versions.differences(found.draft, mine) if mine is not None else (),
        unpublished=versions.differences(json.loads(live.document), found.draft) if live is not None else (),
        flow=f"{found.source.kind.capitalize()} → {found.destination.kind.capitalize()}",
        suggestions=pickers.source_fields(found.source.kind, form.stream),
        suggestions_id=pickers.SOURCE_LIST,
        attributes_id=pickers.TARGET_LIST,
        attributes=pickers.attribute_words(form.attributes or {}),
        schedule=(kept := schedule_of(found)),
        often=words.every(kept.every_minutes) if kept is not None else "",
        starts=next_starts(kept, now)[:1] if found.state == SyncState.PUBLISHED else (),
    )
    return render(request, "merchant/draft.html", shown, status=status)


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
    return _preview_page(request, place, found, PublishForm())


def _preview_page(
    request: HttpRequest, place: Place, found: Preview, form: PublishForm, *, status: int = 200
) -> HttpResponse:
    now = queries.now()
    shown = shell.context(place, now=now, sync=found.sync, page=queries.preview_page(found, now), form=form)
    return render(request, "merchant/preview.html", shown, status=status)


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
    if version is not None:
        _say_published(request, version, by_me=version.publisher_id == shell.person(request).pk)
        return redirect("sync", slug, found.pk)
    try:
        version = services.sync_publish(
            shell.actor(request), found, digest=digest, reason=reason, widening_confirmed=form.cleaned_data["confirm"]
        )
    except PublicationInvalid as refused:
        seen = previewed.preview_of(found, digest) if refused.code == services.UNCONFIRMED else None
        if seen is None:
            raise
        form.ask_again()
        return _preview_page(request, place, seen, form, status=422)
    _say_published(request, version, by_me=True)
    return redirect("sync", slug, found.pk)


def _say_published(request: HttpRequest, version: Version, *, by_me: bool) -> None:
    named = {"number": version.number, "digest": version.digest[: versions.SHORT], "who": version.publisher_label}
    if by_me:
        said = _("Version %(number)d is published (%(digest)s). Runs follow the schedule from now on.")
    else:
        said = _("%(who)s published exactly this before you, as version %(number)d (%(digest)s). Nothing was changed.")
    messages.success(request, said % named)
