"""Pages for what leads nowhere, is not allowed, or is our fault."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from syncs.views.shell import refused


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Any address that leads nowhere."""
    return refused(request, _("There is no page at this address. Go back to your workspaces."), 404)


def not_allowed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django itself refuses."""
    return refused(request, _("You may not do this. Ask a publisher of the workspace."), 403)


def broken(request: HttpRequest) -> HttpResponse:
    """Our fault: a page that needs no database."""
    return render(request, "500.html", status=500)
