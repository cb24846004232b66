"""Where the merchant's pages live. Reading is GET; every act is a POST to its own address."""

from django.urls import path

from syncs import views

urlpatterns = [
    path("", views.index, name="index"),
    path("w/<slug:slug>/", views.workspace, name="workspace"),
    path("w/<slug:slug>/syncs/<int:sync_id>/", views.sync, name="sync"),
    path("w/<slug:slug>/syncs/<int:sync_id>/run/", views.run_now, name="run-now"),
    path("w/<slug:slug>/syncs/<int:sync_id>/pause/", views.pause, name="pause"),
    path("w/<slug:slug>/syncs/<int:sync_id>/draft/", views.draft, name="draft"),
    path("w/<slug:slug>/syncs/<int:sync_id>/preview/", views.previews, name="previews"),
    path("w/<slug:slug>/syncs/<int:sync_id>/preview/<int:preview_id>/", views.preview, name="preview"),
    path("w/<slug:slug>/syncs/<int:sync_id>/publish/", views.publish, name="publish"),
    path("w/<slug:slug>/runs/<int:run_id>/", views.run, name="run"),
]
