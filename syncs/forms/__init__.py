"""What people fill in on a merchant's pages (UX, P6).

What the forms let through is checked by `syncs.domain.rule` and the services alone; their sentences are shown at the
fields they are about.
"""

from syncs.forms.acts import REASON_LIMIT, FromVersionForm, PauseForm, PublishForm, ScheduleForm
from syncs.forms.draft import CUT_SHORT, EVENTS, KINDS, SPARE_ROWS, Draft, FieldForm, RuleForm

__all__ = [
    "CUT_SHORT",
    "EVENTS",
    "KINDS",
    "REASON_LIMIT",
    "SPARE_ROWS",
    "Draft",
    "FieldForm",
    "FromVersionForm",
    "PauseForm",
    "PublishForm",
    "RuleForm",
    "ScheduleForm",
]
