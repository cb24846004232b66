"""What stands before every page for somebody who is logged in: idleness, the second factor, and viewing as merchant."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django.utils.translation import gettext as _

from syncs import queries, services
from syncs.domain.clock import Clock, SystemClock
from syncs.models import Workspace
from syncs.views import shell

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SEEN: Final = "seen"
"""In the session: when the person last did something, in seconds since 1970."""
SEEN_EVERY: Final = 60
"""Seconds between two notes of that: a note is a write."""
VIEW: Final = "view_as"
"""In the session: the workspace that is viewed as its merchant, and until when."""
POLL: Final = "fetch"
"""What a page that looks again by itself says of its request: no person did anything."""
CLOCK: Clock = SystemClock()

TO_PROVE: Final = frozenset(
    {"second-factor", "second-factor-begin", "second-factor-confirm", "second-step", "login", "logout"}
)
"""Pages for staff who have not proved their second factor."""
WHILE_VIEWING: Final = frozenset({"view-as", "stop-viewing", "login", "logout", "set_language"})
"""What may be pressed by somebody who views as merchant."""


def gate(request: HttpRequest) -> HttpResponse | None:
    """The answer that is given instead of the page; None lets it be shown."""
    user = request.user
    if not isinstance(user, User):
        return None
    return _idle(request, user) or _second_factor(request, user) or _viewing(request, user)


# --- Idleness ---------------------------------------------------------------------------------------------------------
def _idle(request: HttpRequest, user: User) -> HttpResponse | None:
    """Log out whoever did nothing for VIGIL_IDLE_MINUTES. A page that looks again by itself is nobody's deed."""
    if not settings.VIGIL_IDLE_MINUTES:
        return None
    now = int(CLOCK.now().timestamp())
    seen = request.session.get(SEEN, int(user.last_login.timestamp()) if user.last_login else now)
    if now - seen > settings.VIGIL_IDLE_MINUTES * 60:
        logout(request)
        messages.info(request, _("You were logged out because nothing was done for a while. Log in again to go on."))
        return redirect_to_login(request.get_full_path() if request.method in SAFE else "/")
    polls = request.headers.get("X-Requested-With") == POLL
    if now - seen >= SEEN_EVERY and not polls:
        request.session[SEEN] = now
    return None


# --- The second factor ------------------------------------------------------------------------------------------------
def is_staff(user: User) -> bool:
    return user.is_staff or user.is_superuser


def is_asked(user: User) -> bool:
    """Whether this person must have a second factor."""
    return bool(settings.VIGIL_STAFF_SECOND_FACTOR) and is_staff(user)


def _second_factor(request: HttpRequest, user: User) -> HttpResponse | None:
    """Staff prove it before they see anything, and set it up first where they have none (PRODUCT 10.1)."""
    if not is_asked(user) or shell.is_verified(user) or _name_of(request) in TO_PROVE:
        return None
    step = "second-step" if services.second_factor_of(user) is not None else "second-factor"
    going_to = request.get_full_path() if request.method in SAFE else "/"
    return redirect_to_login(going_to, resolve_url(step))


def _name_of(request: HttpRequest) -> str:
    """The address's name; "" for those of the admin, which have a room of names of their own."""
    match = request.resolver_match
    return match.url_name or "" if match is not None and not match.namespaces else ""


# --- Viewing as merchant ----------------------------------------------------------------------------------------------
def _viewing(request: HttpRequest, user: User) -> HttpResponse | None:
    """Hold whoever views as merchant to reading. In the admin they are themselves."""
    if VIEW not in request.session or _is_admin(request):
        return None
    viewing = _going_on(request, user)
    if viewing is None:
        del request.session[VIEW]
        messages.info(request, _("Viewing as merchant has ended."))
        return None
    queries.views_as(user, viewing)
    if request.method in SAFE or _name_of(request) in WHILE_VIEWING:
        return None
    sentence = _("You are viewing %(workspace)s as its merchant, so nothing can be changed. Stop viewing first.")
    return shell.refused(request, sentence % {"workspace": viewing.workspace}, 403)


def _is_admin(request: HttpRequest) -> bool:
    return request.resolver_match is not None and "admin" in request.resolver_match.namespaces


def _going_on(request: HttpRequest, user: User) -> queries.Viewing | None:
    """The view that the session names, unless its time is over or its permission is gone."""
    kept = request.session[VIEW]
    until = datetime.fromisoformat(kept["until"])
    if until <= queries.now() or not services.view_as_allowed(user):
        return None
    workspace = Workspace.objects.filter(pk=kept["workspace"]).first()
    return queries.Viewing(workspace, until, user.get_username()) if workspace is not None else None
