"""Logging in, the second step, and what a person sets up for themselves (PRODUCT 10.1; UX, section 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import django_otp
import segno
from django import forms
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from syncs import queries, services
from syncs.errors import NotFound, PermissionMissing
from syncs.views import gates, shell
from syncs.views.asked import ReasonForm

PENDING: Final = "second_step"
"""In the session between both steps: whose password was right, and when."""
STEP_LASTS: Final = timedelta(minutes=10)
"""How long the second step waits."""
QR_SCALE: Final = 5


class CodeForm(forms.Form):
    """A code of the device, or a recovery code; as it is shown, blanks and hyphens included."""

    code = forms.CharField(
        max_length=40,
        label=_lazy("Code"),
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}
        ),
        error_messages={"required": _lazy("Enter the code that your device shows.")},
    )

    def refuse(self, tried: services.Tried) -> None:
        """Tell at the field why the code was not taken."""
        self.add_error("code", _too_soon(tried.wait) if tried.wait is not None else _wrong())


def _wrong() -> str:
    return _("This code is wrong, or was used before. Wait for the next one, then enter that.")


def _too_soon(wait: timedelta) -> str:
    seconds = max(1, math.ceil(wait.total_seconds()))
    said = ngettext(
        "The last code was wrong. Wait %(n)d second, then enter a new one.",
        "The last code was wrong. Wait %(n)d seconds, then enter a new one.",
        seconds,
    )
    return said % {"n": seconds}


# --- The first step ---------------------------------------------------------------------------------------------------
class LogInForm(AuthenticationForm):
    """Nobody's name is longer than a name may be: such a one is not asked about, and not written down."""

    def clean(self) -> dict[str, Any]:
        if len(self.cleaned_data.get("username", "")) > NAME_LIMIT:
            raise self.get_invalid_login_error()
        return super().clean()


NAME_LIMIT: Final = 150


class LogIn(LoginView):
    """The password. Whoever has a second factor is logged in only after it."""

    redirect_authenticated_user = True
    form_class = LogInForm

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        if services.second_factor_of(user) is None:
            return super().form_valid(form)
        # Who sat here before has nothing to do with what follows.
        self.request.session.flush()
        self.request.session[PENDING] = {
            "user": user.pk,
            "backend": user.backend,
            "at": queries.now().isoformat(),
        }
        return redirect_to_login(self.get_redirect_url(), resolve_url("second-step"))


def locked_out(
    request: HttpRequest, response: HttpResponse | None, credentials: Mapping[str, Any] | None
) -> HttpResponse:
    """Instead of any answer to somebody who failed too often: when to try again. The same for names that nobody has."""
    at, now = services.free_at(request, credentials), queries.now()
    seconds = max(1, math.ceil((at - now).total_seconds()))
    minutes = math.ceil(seconds / 60)
    said = ngettext(
        "Too many log-ins failed from here. Try again in %(n)d minute, at %(at)s UTC.",
        "Too many log-ins failed from here. Try again in %(n)d minutes, at %(at)s UTC.",
        minutes,
    )
    answer = shell.refused(request, said % {"n": minutes, "at": f"{at:%H:%M}"}, 429)
    answer.headers["Retry-After"] = str(seconds)
    return answer


@require_safe
def admin_login(request: HttpRequest) -> HttpResponse:
    """The admin's own page for logging in is ours. Who is logged in and sent here may not see the admin."""
    if request.user.is_authenticated:
        return shell.refused(request, _("This page is for staff. Ask an admin if you need it."), 403)
    going_to = request.GET.get("next", "")
    return redirect_to_login(going_to or resolve_url("admin:index"))


# --- The second step --------------------------------------------------------------------------------------------------
@sensitive_post_parameters("code")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def second_step(request: HttpRequest) -> HttpResponse:
    """The code, after the password. A wrong one counts as a wrong password does."""
    pending = _pending(request)
    if pending is None:
        return redirect_to_login(_next(request))
    user, backend = pending
    form = CodeForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return _step_page(request, form)
    if not services.log_in_allowed(request, user):
        return locked_out(request, None, {"username": user.get_username()})
    tried = services.second_factor_try(user, form.cleaned_data["code"])
    if tried.device is None:
        if tried.wait is None:
            services.log_in_failed(request, user)
        form.refuse(tried)
        return _step_page(request, form)
    request.session.pop(PENDING, None)
    login(request, user, backend=backend)
    django_otp.login(request, tried.device)
    return HttpResponseRedirect(_next(request))


def _pending(request: HttpRequest) -> tuple[User, str] | None:
    """Whose second step it is: who just gave their password, or somebody logged in who has not proved theirs."""
    if isinstance(request.user, User):
        waits = not shell.is_verified(request.user) and services.second_factor_of(request.user) is not None
        return (request.user, request.session["_auth_user_backend"]) if waits else None
    kept = request.session.get(PENDING)
    if kept is None or datetime.fromisoformat(kept["at"]) + STEP_LASTS < queries.now():
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    return (user, kept["backend"]) if user is not None else None


def _step_page(request: HttpRequest, form: CodeForm) -> HttpResponse:
    status = 422 if form.is_bound else 200
    return render(request, "registration/code.html", {"form": form, "next": _next(request)}, status=status)


def _next(request: HttpRequest) -> str:
    """Where the person was going, if it is ours; else to their workspaces."""
    going_to = request.POST.get("next", request.GET.get("next", ""))
    ours = url_has_allowed_host_and_scheme(going_to, {request.get_host()}, require_https=request.is_secure())
    return going_to if ours else resolve_url("index")


# --- One's own account ------------------------------------------------------------------------------------------------
@shell.page
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    """Who is logged in, where they belong, and how they prove who they are."""
    user = shell.person(request)
    shown = {
        "places": queries.workspaces_for(user),
        "factor": services.second_factor_of(user),
        "is_asked": gates.is_asked(user),
        "may_reset": user.is_superuser,
    }
    return render(request, "registration/account.html", shown)


@shell.page
@require_safe
def second_factor(request: HttpRequest) -> HttpResponse:
    """Set up a device, or see the one that is there."""
    return _factor_page(request, CodeForm())


def _factor_page(request: HttpRequest, form: CodeForm) -> HttpResponse:
    user = shell.person(request)
    begun = services.second_factor_begun(user)
    shown = {
        "form": form,
        "factor": services.second_factor_of(user),
        "begun": begun,
        "qr": _qr(begun) if begun is not None else "",
        "is_asked": gates.is_asked(user),
        "next": _next(request),
    }
    return render(request, "registration/second_factor.html", shown, status=422 if form.is_bound else 200)


def _qr(begun: services.Begun) -> SafeString:
    """The QR code as SVG in the page itself: nothing of the key goes through an address."""
    made = segno.make(begun.address, error="m", micro=False)
    # It holds numbers and names of colours only.
    return SafeString(made.svg_inline(scale=QR_SCALE, dark="#000", light="#fff"))


@sensitive_post_parameters("code")
@shell.page
@require_POST
def second_factor_begin(request: HttpRequest) -> HttpResponse:
    """A new key. Who has a device already proves it once more: an open page alone must not replace it."""
    if services.second_factor_of(shell.person(request)) is not None and (form := _unproven(request)) is not None:
        return _factor_page(request, form)
    services.second_factor_begin(shell.actor(request))
    return redirect_to_login(_next(request), resolve_url("second-factor"))


@sensitive_post_parameters("code")
@shell.page
@require_POST
def second_factor_confirm(request: HttpRequest) -> HttpResponse:
    """The first code of the new device. Its recovery codes are shown now and never again."""
    form = CodeForm(request.POST)
    if services.second_factor_begun(shell.person(request)) is None:
        raise NotFound(_("No device is being set up. Begin on the page of your account."))
    if not form.is_valid():
        return _factor_page(request, form)
    tried, codes = services.second_factor_confirm(shell.actor(request), form.cleaned_data["code"])
    if tried.device is None:
        form.refuse(tried)
        return _factor_page(request, form)
    request.session.cycle_key()
    django_otp.login(request, tried.device)
    return _codes_page(request, codes)


@sensitive_post_parameters("code")
@shell.page
@require_POST
def recovery_codes(request: HttpRequest) -> HttpResponse:
    """New recovery codes instead of those before."""
    if (form := _unproven(request)) is not None:
        return _factor_page(request, form)
    return _codes_page(request, services.recovery_codes_renew(shell.actor(request)))


@sensitive_post_parameters("code")
@shell.page
@require_POST
def second_factor_remove(request: HttpRequest) -> HttpResponse:
    """Do without again. Staff cannot, where they are asked for it."""
    if gates.is_asked(shell.person(request)):
        raise PermissionMissing(_("Staff need a second factor here. Set up another device instead."))
    if (form := _unproven(request)) is not None:
        return _factor_page(request, form)
    services.second_factor_remove(shell.actor(request))
    messages.success(request, _("You log in with your password alone from now on."))
    return redirect("account")


def _codes_page(request: HttpRequest, codes: tuple[str, ...]) -> HttpResponse:
    return render(request, "registration/recovery_codes.html", {"codes": codes, "next": _next(request)})


def _unproven(request: HttpRequest) -> CodeForm | None:
    """The form with what is wrong with the posted code; None when the code is right, and used up."""
    user = shell.person(request)
    if services.second_factor_of(user) is None:
        raise NotFound(_("You have set up no second factor. Begin on the page of your account."))
    form = CodeForm(request.POST)
    if form.is_valid():
        tried = services.second_factor_try(user, form.cleaned_data["code"])
        if tried.device is not None:
            return None
        form.refuse(tried)
    return form


# --- For somebody who lost theirs -------------------------------------------------------------------------------------
@shell.page
@require_safe
def second_factors(request: HttpRequest) -> HttpResponse:
    """Who has a second factor. Superusers only."""
    shown = {"holders": services.second_factors(shell.actor(request)), "reason": ReasonForm()}
    return render(request, "registration/second_factors.html", shown)


@shell.page
@require_POST
def second_factor_reset(request: HttpRequest, user_id: int) -> HttpResponse:
    """Somebody lost their device: they set up another one at their next log-in."""
    holders = services.second_factors(shell.actor(request))
    user = next((one.user for one in holders if one.user.pk == user_id and one.factor is not None), None)
    if user is None:
        raise NotFound(_("This person has no second factor. Choose one from the list."))
    form = ReasonForm(request.POST)
    if not form.is_valid():
        messages.error(request, str(form.errors["reason"][0]))
        return redirect("second-factors")
    services.second_factor_reset(shell.actor(request), user, reason=form.cleaned_data["reason"])
    said = _("%(name)s logs in with the password alone once, and sets up another device then.")
    messages.success(request, said % {"name": user.get_username()})
    return redirect("second-factors")
