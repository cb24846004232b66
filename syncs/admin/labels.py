"""What tables and columns are called in the admin. One list, so that all of it can be translated.

The models' own names stay what they are in code; nothing of this reaches the database or a migration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from django.apps import apps
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

TABLES: Final[Mapping[str, tuple[StrPromise, StrPromise]]] = {
    "attempt": (_("attempt"), _("attempts")),
    "auditentry": (_("audit entry"), _("audit log")),
    "beat": (_("sign of life"), _("signs of life")),
    "connection": (_("connection"), _("connections")),
    "coverage": (_("stretch that was read"), _("coverage")),
    "cursor": (_("cursor"), _("cursors")),
    "delivery": (_("delivery"), _("deliveries")),
    "finding": (_("finding"), _("findings")),
    "lease": (_("lease"), _("leases")),
    "membership": (_("membership"), _("memberships")),
    "objection": (_("objection"), _("objections")),
    "occurrence": (_("planned start"), _("planned starts")),
    "preview": (_("preview"), _("previews")),
    "run": (_("run"), _("runs")),
    "schedule": (_("schedule"), _("schedules")),
    "suppression": (_("suppressed person"), _("suppressed people")),
    "sync": (_("sync"), _("syncs")),
    "tombstone": (_("tombstone"), _("tombstones")),
    "version": (_("published version"), _("published versions")),
    "workspace": (_("workspace"), _("workspaces")),
}
"""One and many of each."""

FIELDS: Final[Mapping[str, StrPromise]] = {
    "account": _("Account"),
    "acquired_at": _("Acquired"),
    "action": _("Action"),
    "active": _("Active"),
    "actor": _("Account of who did it"),
    "actor_label": _("Who"),
    "address_key": _("Hash of the address"),
    "after": _("After"),
    "anchor": _("Earlier page cursor"),
    "append": _("A repeat would be seen twice"),
    "at": _("When"),
    "before": _("Before"),
    "call_ends_at": _("Its call has ended by"),
    "calls": _("Calls"),
    "cancel_asked_at": _("Asked to stop"),
    "cancel_asked_by": _("Asked to stop by"),
    "changed_at": _("Changed"),
    "claimed_at": _("Claimed"),
    "code": _("Code"),
    "counted": _("Counted by the source"),
    "counted_exact": _("Counted exactly"),
    "created_at": _("Made"),
    "deaths": _("Starts without progress"),
    "decided_at": _("Decided"),
    "delivery_key": _("Delivery key"),
    "destination": _("Destination"),
    "destination_id": _("Id at the destination"),
    "digest": _("Digest"),
    "digest_method": _("Method of the digest"),
    "document": _("Rule"),
    "draft": _("Draft"),
    "draft_at": _("Draft saved"),
    "draft_by": _("Draft saved by"),
    "draft_revision": _("Revision of the draft"),
    "due_after": _("Due"),
    "effect_key": _("Effect key"),
    "ended_at": _("Ended"),
    "error_code": _("Error code"),
    "error_sentence": _("Error"),
    "event_at": _("Time of the event"),
    "event_name": _("Event"),
    "every_minutes": _("Minutes between two starts"),
    "evidence": _("Evidence"),
    "exhausted": _("Read to its end"),
    "expected": _("Expected records"),
    "expires_at": _("Runs out"),
    "facts": _("Connections as published"),
    "failures": _("Failed attempts"),
    "fence": _("Fencing number"),
    "finished_at": _("Ended"),
    "first_published_at": _("First published"),
    "force": _("Sends again what is unchanged"),
    "fresh_as_of": _("Fresh as of"),
    "granted": _("Put on the list"),
    "granted_at": _("Put on the list"),
    "holder": _("Held by"),
    "id": _("Number"),
    "kind": _("Kind"),
    "label": _("Known as"),
    "lane": _("Lane"),
    "last_success_at": _("Last success"),
    "made_at": _("Made"),
    "made_by": _("Made by"),
    "moved_at": _("Moved"),
    "name": _("Name"),
    "next_for": _("Next start"),
    "number": _("Number"),
    "object": _("Object"),
    "offset_seconds": _("Seconds after the full interval"),
    "opened_at": _("Opened"),
    "options": _("Settings"),
    "outcome": _("Outcome"),
    "pages": _("Pages"),
    "pause_code": _("Code of the pause"),
    "pause_sentence": _("Why it is paused"),
    "paused_at": _("Paused"),
    "payload_digest": _("Digest of what is written"),
    "phase": _("Phase"),
    "planned_for": _("Planned for"),
    "possible_duplicates": _("Possible duplicates"),
    "proof": _("Receipt"),
    "proved_at": _("Proved"),
    "publishable": _("May be published"),
    "published": _("Published version"),
    "published_at": _("Published"),
    "publisher_label": _("Published by"),
    "query_digest": _("Digest of the query"),
    "read_no": _("Number of the read"),
    "reason": _("Reason"),
    "record": _("Record"),
    "records": _("Records"),
    "refusals": _("Refused, by reason"),
    "renewed_at": _("Renewed"),
    "resolved_at": _("Resolved"),
    "result": _("What it would do"),
    "retried": _("Tried again"),
    "role": _("Role"),
    "rows": _("Records in the open read"),
    "rule": _("Rule"),
    "run": _("Run"),
    "schedule": _("Schedule"),
    "scopes": _("Scopes"),
    "seen_at": _("Last seen"),
    "sending_at": _("Going out"),
    "sentence": _("What happened"),
    "seq": _("Sequence"),
    "settled_at": _("Settled"),
    "since": _("Since"),
    "slices": _("Slices"),
    "slug": _("Place in addresses"),
    "source": _("Source"),
    "started_at": _("Started"),
    "started_by": _("Started by"),
    "state": _("State"),
    "states": _("Records by state"),
    "subject": _("About"),
    "sync": _("Sync"),
    "target": _("Target"),
    "trigger": _("Started by"),
    "unsettled": _("Not yet decided"),
    "until": _("Until"),
    "user": _("Person"),
    "valid_until": _("Valid until"),
    "verdict": _("Verdict"),
    "version": _("Version"),
    "watermark": _("Read up to"),
    "withdrawn_at": _("Taken off the list"),
    "worker": _("Worker"),
    "workspace": _("Workspace"),
    "yield_asked_at": _("Asked to give way"),
    "zone": _("Time zone"),
}
"""Heading of a column. What is not here shows the field's own name."""


def field(name: str) -> str | StrPromise:
    """The heading of a field."""
    return FIELDS.get(name) or str(capfirst(name.replace("_", " ")))


def name_tables() -> None:
    """Call the tables of ours by their translated names, in this process."""
    for model in apps.get_app_config("syncs").get_models():
        named = TABLES.get(str(model._meta.model_name))
        if named is not None:
            model._meta.verbose_name, model._meta.verbose_name_plural = named
