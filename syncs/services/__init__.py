"""The door for writes: the only way in which shells change state.

Here the real clock and the real connectors are picked; here permissions are checked and audit entries written, in the
transaction of the change they tell of (PRODUCT 9.3, 10.1).
"""

from syncs.services.accounts import (
    Begun,
    Holder,
    SecondFactor,
    Tried,
    recovery_codes_renew,
    second_factor_begin,
    second_factor_begun,
    second_factor_confirm,
    second_factor_of,
    second_factor_remove,
    second_factor_reset,
    second_factor_try,
    second_factors,
)
from syncs.services.actors import Actor, person, vigil
from syncs.services.backfill import BackfillPlan, RangeRefused, backfill_plan, backfill_start
from syncs.services.beats import beat, beats_forget
from syncs.services.connections import connection_create, connection_test, connection_update
from syncs.services.foreground import Seen, run_drive
from syncs.services.pruning import ledger_age, ledger_prune, ledger_prune_plan
from syncs.services.publishing import (
    PAUSED_BY_PERSON,
    schedule_set,
    sync_create,
    sync_pause,
    sync_preview,
    sync_publish,
    sync_save_draft,
)
from syncs.services.recovery import (
    CursorPlan,
    cursor_plan,
    cursor_reset,
    deliveries_retry,
    delivery_set_aside,
    lease_may_be_taken,
    lease_take_over,
)
from syncs.services.runs import leases_free_dead, run_cancel, run_start, tick, work
from syncs.services.staff import (
    Checked,
    PausePlan,
    Resumed,
    StaffActor,
    Stopped,
    connection_check,
    latest_pauses,
    pause_of,
    staff_may,
    staff_member,
    stopped_by,
    workspaces_pause,
    workspaces_pause_plan,
    workspaces_resume,
)
from syncs.services.throttling import free_at, log_in_allowed, log_in_failed
from syncs.services.viewing import view_as_allowed, view_as_start
from syncs.services.workspaces import member_add, workspace_create

__all__ = [
    "PAUSED_BY_PERSON",
    "Actor",
    "BackfillPlan",
    "Begun",
    "Checked",
    "CursorPlan",
    "Holder",
    "PausePlan",
    "RangeRefused",
    "Resumed",
    "SecondFactor",
    "Seen",
    "StaffActor",
    "Stopped",
    "Tried",
    "backfill_plan",
    "backfill_start",
    "beat",
    "beats_forget",
    "connection_check",
    "connection_create",
    "connection_test",
    "connection_update",
    "cursor_plan",
    "cursor_reset",
    "deliveries_retry",
    "delivery_set_aside",
    "free_at",
    "latest_pauses",
    "lease_may_be_taken",
    "lease_take_over",
    "leases_free_dead",
    "ledger_age",
    "ledger_prune",
    "ledger_prune_plan",
    "log_in_allowed",
    "log_in_failed",
    "member_add",
    "pause_of",
    "person",
    "recovery_codes_renew",
    "run_cancel",
    "run_drive",
    "run_start",
    "schedule_set",
    "second_factor_begin",
    "second_factor_begun",
    "second_factor_confirm",
    "second_factor_of",
    "second_factor_remove",
    "second_factor_reset",
    "second_factor_try",
    "second_factors",
    "staff_may",
    "staff_member",
    "stopped_by",
    "sync_create",
    "sync_pause",
    "sync_preview",
    "sync_publish",
    "sync_save_draft",
    "tick",
    "view_as_allowed",
    "view_as_start",
    "vigil",
    "work",
    "workspace_create",
    "workspaces_pause",
    "workspaces_pause_plan",
    "workspaces_resume",
]
