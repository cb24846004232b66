"""Staff begin and end looking at a workspace as its merchant sees it (UX, S3)."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from syncs import queries, services
from syncs.errors import NotFound
from syncs.models import Workspace
from syncs.views import gates, shell
from syncs.views.asked import ReasonForm


@shell.page
@require_POST
def view_as(request: HttpRequest, slug: str) -> HttpResponse:
    """Begin. Whoever may not learns no more than any page tells them."""
    user = shell.person(request)
    workspace = Workspace.objects.filter(slug=slug).first()
    if workspace is None or not services.view_as_allowed(user):
        workspace = queries.workspace_for(user, slug).workspace
    form = ReasonForm(request.POST)
    if services.view_as_allowed(user) and not form.is_valid():
        return shell.refused(request, _("Say why you view as merchant: the merchant reads it in the activity."), 422)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    until = services.view_as_start(services.person(user), workspace, reason)
    request.session[gates.VIEW] = {"workspace": workspace.pk, "until": until.isoformat()}
    return redirect("workspace", workspace.slug)


@shell.page
@require_POST
def stop(request: HttpRequest) -> HttpResponse:
    """End, and go back to where it began."""
    viewing = queries.viewing_of(shell.person(request))
    request.session.pop(gates.VIEW, None)
    if viewing is None:
        raise NotFound(_("You are not viewing a workspace as its merchant. Go back to your workspaces."))
    messages.success(request, _("You view %(workspace)s no more.") % {"workspace": viewing.workspace})
    return redirect("admin:syncs_workspace_change", viewing.workspace.pk)
