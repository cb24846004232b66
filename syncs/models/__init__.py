"""State: what the house remembers. Each file begins with the question its tables answer."""

from syncs.models.beats import Beat
from syncs.models.findings import AuditEntry, Finding
from syncs.models.ledger import Delivery, Objection, Suppression, Tombstone
from syncs.models.runs import Attempt, Coverage, Cursor, Lease, Run
from syncs.models.syncs import Occurrence, Preview, Schedule, Sync, Version
from syncs.models.workspaces import Connection, Membership, Workspace

__all__ = [
    "Attempt",
    "AuditEntry",
    "Beat",
    "Connection",
    "Coverage",
    "Cursor",
    "Delivery",
    "Finding",
    "Lease",
    "Membership",
    "Objection",
    "Occurrence",
    "Preview",
    "Run",
    "Schedule",
    "Suppression",
    "Sync",
    "Tombstone",
    "Version",
    "Workspace",
]
