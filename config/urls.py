"""Where pages live: staff under ``/admin/``, everybody else's at the root."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

handler403 = "syncs.views.not_allowed"
handler404 = "syncs.views.not_found"
handler500 = "syncs.views.broken"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("", include("syncs.urls")),
]
