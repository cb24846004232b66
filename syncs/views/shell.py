"""What every page of the merchant's shares: who may see it, and one sentence for what is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from syncs import services, words
from syncs.errors import (
    Collided,
    DraftChanged,
    NotFound,
    PermissionMissing,
    PublicationInvalid,
    RuleInvalid,
    VigilError,
)
from syncs.models.workspaces import Role
from syncs.queries import Place

View = Callable[..., HttpResponse]

STATUS: Final[dict[type[VigilError], int]] = {
    PermissionMissing: 403,
    NotFound: 404,
    Collided: 409,
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
    titles = {403: _("Not allowed"), 404: _("Not found"), 409: _("Not done"), 422: _("Not a rule"), 429: _("Too often")}
    shown = {"title": titles.get(status, _("Not done")), "sentence": sentence, "status": status}
    return render(request, "merchant/message.html", shown, status=status)


def person(request: HttpRequest) -> User:
    """Who is logged in. `page` has seen to it that somebody is."""
    user = request.user
    if not isinstance(user, User):
        raise NotFound(_("Log in to see this page."))
    return user


def is_verified(user: User) -> bool:
    """Whether this log-in went through the second step."""
    verified: Callable[[], bool] | None = getattr(user, "is_verified", None)
    return verified is not None and bool(verified())


def actor(request: HttpRequest) -> services.Actor:
    return services.person(person(request))


def context(place: Place, **more: Any) -> dict[str, Any]:
    return {"place": place, "workspace": place.workspace, "zone": words.zone_of(place.workspace.zone), **more}


def require(place: Place, role: Role) -> None:
    """For pages that only serve an act; the act itself is checked by its service."""
    if not place.may(role):
        raise PermissionMissing(
            _("This needs the role %(role)s in %(workspace)s. Ask one of its publishers.")
            % {"role": role.value, "workspace": place.workspace}
        )
