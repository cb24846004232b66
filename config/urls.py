"""Where pages live: staff under ``/admin/``, everybody else's at the root."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path
from django.views.i18n import set_language
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from syncs.views import account, viewing

handler403 = "syncs.views.not_allowed"
handler404 = "syncs.views.not_found"
handler500 = "syncs.views.broken"

# Their own pages would show keys, and let staff make a second factor for somebody else.
for kind in (TOTPDevice, StaticDevice):
    if admin.site.is_registered(kind):
        admin.site.unregister(kind)

urlpatterns = [
    # One door: the admin's own would know neither the second step nor how often somebody failed.
    path("admin/login/", account.admin_login, name="admin-login"),
    path("admin/", admin.site.urls),
    path("login/", account.LogIn.as_view(), name="login"),
    path("login/code/", account.second_step, name="second-step"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("account/", account.account, name="account"),
    path("account/second-factor/", account.second_factor, name="second-factor"),
    path("account/second-factor/begin/", account.second_factor_begin, name="second-factor-begin"),
    path("account/second-factor/confirm/", account.second_factor_confirm, name="second-factor-confirm"),
    path("account/second-factor/codes/", account.recovery_codes, name="recovery-codes"),
    path("account/second-factor/remove/", account.second_factor_remove, name="second-factor-remove"),
    path("account/second-factors/", account.second_factors, name="second-factors"),
    path("account/second-factors/<int:user_id>/reset/", account.second_factor_reset, name="second-factor-reset"),
    path("w/<slug:slug>/view-as/", viewing.view_as, name="view-as"),
    path("viewing/stop/", viewing.stop, name="stop-viewing"),
    path("language/", set_language, name="set_language"),
    path("", include("syncs.urls")),
]
