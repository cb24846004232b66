"""The door for writes: the only way in which shells change state.

Here the real clock and the real connectors are picked; here permissions are checked and audit entries written, in the
transaction of the change they tell of (PRODUCT 9.3, 10.1).
"""

from syncs.services.actors import Actor, person, vigil
from syncs.services.connections import connection_create, connection_test, connection_update
from syncs.services.publishing import (
    PAUSED_BY_PERSON,
    schedule_set,
    sync_create,
    sync_pause,
    sync_preview,
    sync_publish,
    sync_save_draft,
)
from syncs.services.recovery import CursorPlan, cursor_plan, cursor_reset, deliveries_retry, delivery_set_aside
from syncs.services.runs import leases_free_dead, run_cancel, run_start, tick, work
from syncs.services.workspaces import member_add, workspace_create

__all__ = [
    "PAUSED_BY_PERSON",
    "Actor",
    "CursorPlan",
    "connection_create",
    "connection_test",
    "connection_update",
    "cursor_plan",
    "cursor_reset",
    "deliveries_retry",
    "delivery_set_aside",
    "leases_free_dead",
    "member_add",
    "person",
    "run_cancel",
    "run_start",
    "schedule_set",
    "sync_create",
    "sync_pause",
    "sync_preview",
    "sync_publish",
    "sync_save_draft",
    "tick",
    "vigil",
    "work",
    "workspace_create",
]
