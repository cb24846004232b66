"""What was published: the list, one version against another, and the way back through a draft (UX, P7)."""

from __future__ import annotations

import json
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from syncs import queries, services, words
from syncs.errors import NotFound, RuleInvalid
from syncs.forms import FromVersionForm
from syncs.models.workspaces import Role
from syncs.queries import versions as queried
from syncs.queries.sync import schedule_of
from syncs.views import shell

MOST_DIGITS: Final = 9
"""Of a version's number."""


@shell.page
@require_safe
def versions_page(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """All versions of a sync, newest first."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shown = shell.context(place, now=queries.now(), sync=found, page=queried.versions_page(found))
    return render(request, "merchant/versions.html", shown)


@shell.page
@require_safe
def version(request: HttpRequest, slug: str, sync_id: int, number: int) -> HttpResponse:
    """One version in words, against what is in force or another one."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    page = queried.version_page(found, number, _other(request))
    shown = shell.context(
        place,
        now=queries.now(),
        sync=found,
        page=page,
        schedule=(kept := schedule_of(found)),
        often=words.every(kept.every_minutes) if kept is not None else "",
        form=FromVersionForm(initial={"revision": found.draft_revision}),
    )
    return render(request, "merchant/version.html", shown)


def _other(request: HttpRequest) -> int | None:
    """The version that is asked for to compare with; None for the usual one."""
    text = request.GET.get("with", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise NotFound(_("There is no such version of this sync. Choose one from the list."))
    return int(text)


@shell.page
@require_POST
def version_draft(request: HttpRequest, slug: str, sync_id: int, number: int) -> HttpResponse:
    """Make the draft what a version says. It comes back only through preview and publication (PRODUCT 6.2)."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    shell.require(place, Role.EDITOR)
    wanted = queried.version_of(found, number)
    form = FromVersionForm(request.POST)
    if not form.is_valid():
        raise RuleInvalid(_("The form came without its fields. Load the page again, then press once more."))
    revision = form.cleaned_data["revision"]
    rule = json.loads(wanted.document)
    saved = services.sync_save_draft(shell.actor(request), found, rule=rule, revision=revision)
    if saved.draft_revision == revision:
        said = _("The draft says what version %(number)d says already. Preview it, then publish it.")
    else:
        said = _("The draft is what version %(number)d says. Nothing runs by it before it was previewed and published.")
    messages.success(request, said % {"number": number})
    return redirect("draft", slug, found.pk)
