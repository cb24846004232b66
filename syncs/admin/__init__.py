# The theme ships no types.
# mypy: disable-error-code="import-untyped"
"""What staff see and do (UX, section 3). Superusers see everything, other staff what Django's permissions give them.

What runs write is read-only. What a person saves or presses here goes through `services`, which checks and audits it;
what has no service cannot be changed here. Sealed credentials are shown nowhere, and nothing counts the ledger.
"""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from django_q.models import Failure, OrmQ, Schedule, Success

from syncs.admin import (
    columns,
    connections,
    findings,
    kinds,
    labels,
    ledger,
    navigation,
    people,
    runs,
    syncs,
    watch,
    workspaces,
)

__all__ = [
    "columns",
    "connections",
    "findings",
    "kinds",
    "labels",
    "ledger",
    "navigation",
    "people",
    "runs",
    "syncs",
    "watch",
    "workspaces",
]

admin.site.site_header = admin.site.site_title = "Vigil"
admin.site.index_title = _("Watch")
labels.name_tables()

# The queue's own pages would unpickle what is stored, and pickles are code. Rows decide, not tasks: nothing is missed.
for queued in (Success, Failure, OrmQ, Schedule):
    admin.site.unregister(queued)
