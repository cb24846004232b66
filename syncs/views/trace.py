"""Where is this person? One box, one sentence, then the steps (UX, P4; PRODUCT 9.2).

The search is a POST, so that nobody's address gets into an address of a page, a log or a history; and what was typed is
shown again masked only. It changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_http_methods

from syncs import queries
from syncs.queries import Place
from syncs.queries import trace as traced
from syncs.views import shell

LONGEST: Final = 400


class TraceForm(forms.Form):
    """Who, or what. A value that was sent is never put into the page again."""

    asked = forms.CharField(
        max_length=LONGEST,
        label=_lazy("E-mail address, or the source's id of a customer or an order"),
        help_text=_lazy("It is turned into a keyed hash and looked for in the ledger, which keeps no personal data."),
        error_messages={"required": _lazy("Write an e-mail address, or the source's id of a customer or an order.")},
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
    )


@shell.page
@require_http_methods(["GET", "HEAD", "POST"])
def trace_page(request: HttpRequest, slug: str) -> HttpResponse:
    """The box, and what was found."""
    place = queries.workspace_for(shell.person(request), slug)
    if request.method != "POST":
        return _page(request, place, TraceForm())
    form = TraceForm(request.POST)
    if not form.is_valid():
        return _page(request, place, _emptied(form), status=422)
    now = queries.now()
    try:
        found = traced.trace(place.workspace, traced.asked(form.cleaned_data["asked"]), now)
    except traced.NotSearchable as error:
        form.add_error("asked", str(error))
        return _page(request, place, _emptied(form), status=422)
    return _page(request, place, TraceForm(), found=found)


def _emptied(form: TraceForm) -> TraceForm:
    """The form with its errors and without what was typed."""
    form.data = {}
    return form


def _page(
    request: HttpRequest, place: Place, form: TraceForm, *, found: traced.Trace | None = None, status: int = 200
) -> HttpResponse:
    shown: dict[str, Any] = shell.context(place, now=queries.now(), form=form, found=found, at_trace=True)
    return render(request, "merchant/trace.html", shown, status=status)
