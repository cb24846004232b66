"""The merchant's pages: thin shells over `queries` and `services` (UX, section 2).

A GET changes nothing. A POST calls one service, which checks the role; what it refuses is told in one sentence. What a
person may not know of is a 404, whether it exists or not (PRODUCT 10.1).
"""

from syncs.views.acts import cancel, pause, retry_failed, run_again, run_now
from syncs.views.connections import (
    connection,
    connection_disconnect,
    connection_new,
    connection_next,
    connection_next_drop,
    connection_next_test,
    connection_switch,
    connection_test,
    connections_page,
)
from syncs.views.drafts import draft, preview, previews, publish
from syncs.views.faults import broken, not_allowed, not_found
from syncs.views.new_sync import sync_new
from syncs.views.pages import (
    activity_page,
    consent_page,
    deed,
    index,
    run,
    run_records,
    runs,
    sync,
    workspace,
)
from syncs.views.recovery import cursor_plan, cursor_reset, records_retry, recovery_page, set_aside, take_over
from syncs.views.takeaway import consent_csv, run_json, runs_csv, runs_json

__all__ = [
    "activity_page",
    "broken",
    "cancel",
    "connection",
    "connection_disconnect",
    "connection_new",
    "connection_next",
    "connection_next_drop",
    "connection_next_test",
    "connection_switch",
    "connection_test",
    "connections_page",
    "consent_csv",
    "consent_page",
    "cursor_plan",
    "cursor_reset",
    "deed",
    "draft",
    "index",
    "not_allowed",
    "not_found",
    "pause",
    "preview",
    "previews",
    "publish",
    "records_retry",
    "recovery_page",
    "retry_failed",
    "run",
    "run_again",
    "run_json",
    "run_now",
    "run_records",
    "runs",
    "runs_csv",
    "runs_json",
    "set_aside",
    "sync",
    "sync_new",
    "take_over",
    "workspace",
]
