"""Where the merchant's pages live. Reading is GET; every act is a POST to its own address."""

from django.urls import path

from syncs import views
from syncs.views import versions
from syncs.views.schedule import schedule
from syncs.views.trace import trace_page

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
    path("w/<slug:slug>/trace/", trace_page, name="trace"),
    path("w/<slug:slug>/activity/", views.activity_page, name="activity"),
    path("w/<slug:slug>/activity/<int:entry_id>/", views.deed, name="deed"),
    path("w/<slug:slug>/syncs/<int:sync_id>/runs/", views.runs, name="runs"),
    path("w/<slug:slug>/syncs/<int:sync_id>/runs.csv", views.runs_csv, name="runs-csv"),
    path("w/<slug:slug>/syncs/<int:sync_id>/runs.json", views.runs_json, name="runs-json"),
    path("w/<slug:slug>/syncs/<int:sync_id>/consent/", views.consent_page, name="consent"),
    path("w/<slug:slug>/syncs/<int:sync_id>/consent.csv", views.consent_csv, name="consent-csv"),
    path("w/<slug:slug>/syncs/<int:sync_id>/recovery/", views.recovery_page, name="recovery"),
    path("w/<slug:slug>/syncs/<int:sync_id>/recovery/cursor/", views.cursor_plan, name="cursor-plan"),
    path("w/<slug:slug>/syncs/<int:sync_id>/recovery/cursor/reset/", views.cursor_reset, name="cursor-reset"),
    path("w/<slug:slug>/syncs/<int:sync_id>/recovery/lease/", views.take_over, name="take-over"),
    path("w/<slug:slug>/syncs/<int:sync_id>/recovery/retry/", views.records_retry, name="records-retry"),
    path("w/<slug:slug>/syncs/<int:sync_id>/recovery/set-aside/", views.set_aside, name="set-aside"),
    path("w/<slug:slug>/runs/<int:run_id>/run.json", views.run_json, name="run-json"),
    path("w/<slug:slug>/runs/<int:run_id>/records/", views.run_records, name="records"),
    path("w/<slug:slug>/runs/<int:run_id>/again/", views.run_again, name="run-again"),
    path("w/<slug:slug>/runs/<int:run_id>/retry/", views.retry_failed, name="retry-failed"),
    path("w/<slug:slug>/runs/<int:run_id>/cancel/", views.cancel, name="cancel"),
    path("w/<slug:slug>/syncs/new/", views.sync_new, name="sync-new"),
    path("w/<slug:slug>/connections/", views.connections_page, name="connections"),
    path("w/<slug:slug>/connections/new/", views.connection_new, name="connection-new"),
    path("w/<slug:slug>/connections/<int:connection_id>/", views.connection, name="connection"),
    path("w/<slug:slug>/connections/<int:connection_id>/test/", views.connection_test, name="connection-test"),
    path("w/<slug:slug>/connections/<int:connection_id>/next/", views.connection_next, name="connection-next"),
    path(
        "w/<slug:slug>/connections/<int:connection_id>/next/test/",
        views.connection_next_test,
        name="connection-next-test",
    ),
    path(
        "w/<slug:slug>/connections/<int:connection_id>/next/switch/", views.connection_switch, name="connection-switch"
    ),
    path(
        "w/<slug:slug>/connections/<int:connection_id>/next/drop/",
        views.connection_next_drop,
        name="connection-next-drop",
    ),
    path(
        "w/<slug:slug>/connections/<int:connection_id>/disconnect/",
        views.connection_disconnect,
        name="connection-disconnect",
    ),
    path("w/<slug:slug>/syncs/<int:sync_id>/schedule/", schedule, name="schedule"),
    path("w/<slug:slug>/syncs/<int:sync_id>/versions/", versions.versions_page, name="versions"),
    path("w/<slug:slug>/syncs/<int:sync_id>/versions/<int:number>/", versions.version, name="version"),
    path(
        "w/<slug:slug>/syncs/<int:sync_id>/versions/<int:number>/draft/", versions.version_draft, name="version-draft"
    ),
]
