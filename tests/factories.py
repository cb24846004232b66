"""Rows for tests, each with sensible values; what a test is about it says itself. Names and slugs count up."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection as database

from syncs.domain import keys
from syncs.domain import rule as rules
from syncs.domain.lifecycle import (
    DeliveryState,
    Lane,
    OccurrenceState,
    Outcome,
    Phase,
    RunState,
    SyncState,
    Trigger,
    Verdict,
)
from syncs.engine import publication
from syncs.models import (
    Attempt,
    AuditEntry,
    Connection,
    Cursor,
    Delivery,
    Finding,
    Lease,
    Membership,
    Occurrence,
    Preview,
    Run,
    Schedule,
    Sync,
    Tombstone,
    Version,
    Workspace,
)
from syncs.models.workspaces import Role

PASSWORD = "correct horse battery staple"
NOW = datetime(2026, 10, 8, 12, 5, tzinfo=UTC)
"""Thursday, 14:05 in Berlin."""

CUSTOMERS: Mapping[str, Any] = {
    "stream": "customers",
    "list_id": 12,
    "mapping": [{"to": "FIRSTNAME", "source": "firstName"}, {"to": "LASTNAME", "source": "lastName"}],
}
ORDERS: Mapping[str, Any] = {"stream": "orders", "events": ["order_placed"]}

SOURCE_ACCOUNT, DESTINATION_ACCOUNT = "gid://shopify/Shop/1", "company-1"
FACTS: Mapping[str, Any] = {
    "source": {"kind": "shopify", "account": SOURCE_ACCOUNT, "scopes": ["read_customers"], "label": "ACME Shop"},
    "destination": {"kind": "brevo", "account": DESTINATION_ACCOUNT, "scopes": [], "label": "ACME"},
}

_number = itertools.count(1)


def user(name: str = "", **more: Any) -> User:
    return User.objects.create_user(name or f"person-{next(_number)}", password=PASSWORD, **more)


def superuser(name: str = "") -> User:
    return User.objects.create_superuser(name or f"root-{next(_number)}", password=PASSWORD)


def workspace(name: str = "ACME", *, zone: str = "Europe/Berlin") -> Workspace:
    number = next(_number)
    return Workspace.objects.create(name=name, slug=f"{name.lower().replace(' ', '-')[:40]}-{number}", zone=zone)


def member(of: Workspace, role: Role = Role.VIEWER, name: str = "") -> User:
    """A person with a role in a workspace."""
    person = user(name)
    Membership.objects.create(workspace=of, user=person, role=role.value)
    return person


def connection(
    of: Workspace, kind: str = "shopify", *, secrets: Mapping[str, str] | None = None, **more: Any
) -> Connection:
    made = Connection.objects.create(
        workspace=of,
        name=more.pop("name", f"{kind} {next(_number)}"),
        kind=kind,
        options=more.pop("options", {"domain": "acme.myshopify.com"} if kind == "shopify" else {}),
        **more,
    )
    made.seal(secrets or {"token" if kind == "shopify" else "api_key": "not-a-real-credential"})
    made.save()
    return made


def next_credential(
    of: Connection, *, account: str = SOURCE_ACCOUNT, scopes: Sequence[str] = ("read_customers",)
) -> Connection:
    """Fill the slot of the credential to come, and prove it at `NOW`."""
    of.seal_next({"token" if of.kind == "shopify" else "api_key": "the-next-credential"})
    of.next_at = NOW
    of.next_test = {
        "at": NOW.isoformat(),
        "ok": True,
        "checks": [],
        "wanted": [],
        "given": sorted(scopes),
        "account": account,
        "label": "ACME Shop",
    }
    of.save()
    return of


def sync(of: Workspace | None = None, *, rule: Mapping[str, Any] = CUSTOMERS, name: str = "", **more: Any) -> Sync:
    """A draft."""
    place = of or workspace()
    return Sync.objects.create(
        workspace=place,
        name=name or f"Customers to newsletter {next(_number)}",
        source=more.pop("source", None) or connection(place, "shopify"),
        destination=more.pop("destination", None) or connection(place, "brevo"),
        draft=rules.document(rules.parse(rule)),
        **more,
    )


def digest(of: Sync, facts: Mapping[str, Any] = FACTS) -> str:
    """The digest of the sync's draft with ``facts``."""
    ends = [
        rules.ConnectionFacts(facts[side]["kind"], facts[side]["account"], tuple(facts[side]["scopes"]))
        for side in ("source", "destination")
    ]
    return rules.publication_digest(rules.parse(of.draft), *ends)


def version(of: Sync, *, at: datetime = NOW - timedelta(days=5), publisher: User | None = None) -> Version:
    return Version.objects.create(
        sync=of,
        number=of.versions.count() + 1,
        digest=digest(of),
        digest_method=rules.DIGEST_METHOD,
        document=keys.canonical(of.draft).decode(),
        facts=dict(FACTS),
        publisher=publisher,
        publisher_label=publisher.get_username() if publisher else "Vigil",
        published_at=at,
    )


def published(of: Workspace | None = None, *, at: datetime = NOW - timedelta(days=5), **more: Any) -> Sync:
    """A published sync with its schedule."""
    made = sync(of, **more)
    made.published = version(made, at=at)
    made.state = SyncState.PUBLISHED.value
    made.changed_at = made.first_published_at = at
    made.target = f"brevo:{DESTINATION_ACCOUNT}:{made.pk}"
    made.save()
    Schedule.objects.create(sync=made, every_minutes=15, next_for=NOW + timedelta(minutes=10))
    return made


def healthy(of: Workspace | None = None, **more: Any) -> Sync:
    """A published sync whose last run five minutes ago was proved: 250 = 28 + 4 + 218."""
    made = published(of, **more)
    ended = NOW - timedelta(minutes=5)
    run(
        made,
        states={"written": 28, "unchanged": 4, "refused": 218},
        refusals={"no_date": 200, "unsubscribed": 18},
        ended=ended,
    )
    Sync.objects.filter(pk=made.pk).update(last_success_at=ended, fresh_as_of=ended)
    made.refresh_from_db()
    return made


def run(
    of: Sync,
    outcome: Outcome = Outcome.SUCCEEDED,
    *,
    verdict: Verdict = Verdict.PROVEN,
    ended: datetime = NOW - timedelta(minutes=5),
    lasted: timedelta = timedelta(seconds=31),
    **more: Any,
) -> Run:
    """A finished run."""
    values: dict[str, Any] = {
        "state": RunState.FINISHED.value,
        "outcome": outcome.value,
        "verdict": verdict.value,
        "created_at": ended - lasted,
        "started_at": ended - lasted,
        "finished_at": ended,
        "evidence": evidence() if outcome is Outcome.SUCCEEDED else {},
        "proof": receipt(of),
    }
    return _run(of, **{**values, **more})


def open_run(of: Sync, state: RunState = RunState.WAITING, *, created: datetime = NOW, **more: Any) -> Run:
    """A waiting or running run. A running one has a fresh lease."""
    started = created if state is RunState.RUNNING else None
    made = _run(of, state=state.value, created_at=created, started_at=started, **more)
    if state is RunState.RUNNING:
        lease(made, renewed=created)
    return made


def _run(of: Sync, **more: Any) -> Run:
    values: dict[str, Any] = {
        "version": of.published,
        "lane": Lane.SCHEDULED.value,
        "trigger": Trigger.SCHEDULE.value,
        "phase": Phase.READING.value,
        "due_after": more["created_at"],
    }
    return Run.objects.create(sync=of, **{**values, **more})


def lease(of: Run, *, renewed: datetime = NOW, term: timedelta = timedelta(minutes=15)) -> Lease:
    return Lease.objects.create(
        sync=of.sync,
        run=of,
        token=uuid.uuid4(),
        fence=1,
        holder="host/boot/space:1:1",
        acquired_at=renewed,
        renewed_at=renewed,
        expires_at=renewed + term,
    )


def attempt(of: Run, number: int = 1, outcome: Outcome | None = Outcome.SUCCEEDED, **more: Any) -> Attempt:
    values: dict[str, Any] = {
        "worker": "host/boot/space:1:1",
        "fence": number,
        "started_at": of.started_at or of.created_at,
        "ended_at": of.finished_at,
        "outcome": outcome.value if outcome else "",
        "pages": 1,
    }
    return Attempt.objects.create(run=of, number=number, **{**values, **more})


def occurrence(of: Run, planned: datetime, state: OccurrenceState = OccurrenceState.EXECUTED) -> Occurrence:
    return Occurrence.objects.create(
        schedule=of.sync.schedule, planned_for=planned, state=state.value, run=of, decided_at=planned
    )


def evidence(read: int = 250, sentence: str = "") -> dict[str, Any]:
    counted = {"records": read, "exact": True}
    return {
        "identity_ok": True,
        "scopes_missing": [],
        "version_asked": "2026-07",
        "version_served": "2026-07",
        "count_before": counted,
        "count_after": counted,
        "rows_seen": read,
        "structure_ok": True,
        "problems": [],
        "exhausted": True,
        "sentence": sentence
        or f"Shopify counts {read} customers, this read delivered {read}. The read is proven complete.",
    }


def receipt(of: Sync) -> dict[str, Any]:
    if of.published is None:
        return {}
    return {
        "version": of.published.number,
        "digest": of.published.digest,
        "publisher": of.published.publisher_label,
        "source": SOURCE_ACCOUNT,
        "destination": DESTINATION_ACCOUNT,
        "proved_at": NOW.isoformat(),
    }


def preview(of: Sync, *, by: User | None = None, made: datetime | None = None, **more: Any) -> Preview:
    """A preview of the sync's draft that may be published."""
    if of.published is not None:
        # It goes on as what it was published for; any other target would be another sync.
        target = publication.target_of(rules.parse(of.draft), dict(FACTS))
        if not Sync.objects.filter(target=target).exclude(pk=of.pk).exists():
            of.target = target
            of.save(update_fields=["target"])
    at = made or NOW - timedelta(minutes=2)
    values: dict[str, Any] = {
        "draft_revision": of.draft_revision,
        "digest": digest(of),
        "rule": of.draft,
        "facts": dict(FACTS),
        "result": result(),
        "publishable": True,
        "made_by": by,
        "made_at": at,
        "valid_until": at + timedelta(hours=1),
    }
    return Preview.objects.create(sync=of, **{**values, **more})


def result(**more: Any) -> dict[str, Any]:
    """What a preview found: 5 read = 2 created + 1 updated + 2 refused."""
    found: dict[str, Any] = {
        "source": "ACME Shop",
        "destination": "ACME",
        "read_at": NOW.isoformat(),
        "counted": 5942,
        "counted_exact": True,
        "read": 5,
        "states": {"create": 2, "update": 1, "refused": 2},
        "refusals": {"no_date": 1, "unsubscribed": 1},
        "rows": [
            {"id": "11", "state": "refused", "reason": "no_date", "fields": []},
            {"id": "12", "state": "refused", "reason": "unsubscribed", "fields": []},
            {"id": "13", "state": "update", "reason": "", "fields": [{"to": "FIRSTNAME", "old": "A••", "new": "B••"}]},
            {"id": "14", "state": "create", "reason": "", "fields": [{"to": "FIRSTNAME", "old": None, "new": "C•••"}]},
            {"id": "15", "state": "create", "reason": "", "fields": [{"to": "FIRSTNAME", "old": None, "new": "D••"}]},
        ],
        "blocks": [],
        "notes": [],
    }
    return found | more


def delivery(of: Run, name: str, state: DeliveryState = DeliveryState.WRITTEN, **more: Any) -> Delivery:
    ended = state not in (DeliveryState.CLAIMED, DeliveryState.SENDING, DeliveryState.IN_DOUBT)
    values: dict[str, Any] = {
        "run": of,
        "lane": of.lane,
        "kind": name.partition(":")[0],
        "effect_key": keys.digest({"effect": name}),
        "delivery_key": keys.digest({"delivery": name}),
        "payload_digest": keys.digest({"payload": name}),
        "seq": 1,
        "read_no": 1,
        "fence": 1,
        "claimed_at": NOW,
        "settled_at": NOW if ended else None,
    }
    return Delivery.objects.create(sync=of.sync, object=name, state=state.value, **{**values, **more})


def tombstone(of: Sync, name: str) -> Tombstone:
    return Tombstone.objects.create(
        sync=of, object=name, seq=1, payload_digest="0" * 64, delivery_key="1" * 64, read_no=1, settled_at=NOW
    )


def cursor(of: Sync, watermark: datetime = NOW) -> Cursor:
    return Cursor.objects.create(sync=of, lane=Lane.SCHEDULED.value, watermark=watermark)


def finding(of: Sync, code: str = "run_failed", sentence: str = "The last run failed.", **more: Any) -> Finding:
    values: dict[str, Any] = {"opened_at": NOW, "seen_at": NOW}
    return Finding.objects.create(workspace=of.workspace, sync=of, code=code, sentence=sentence, **{**values, **more})


def audit(
    of: Sync, action: str = "sync.published", *, who: str = "Vigil", at: datetime = NOW, **more: Any
) -> AuditEntry:
    return AuditEntry.objects.create(
        workspace=of.workspace, actor_label=who, action=action, subject=str(of)[:200], at=at, **more
    )


def clock_stands_at(at: datetime = NOW) -> None:
    """Move the database's clock, for the transaction of a test that is rolled back."""
    with database.cursor() as cursor_:
        cursor_.execute("UPDATE vigil_clock SET shift = %s - clock_timestamp()", [at])


def posted_draft(of: Sync, **changes: str) -> dict[str, Any]:
    """What a browser sends when the draft's form is saved, with line ends as browsers write them."""
    document = of.draft
    rows = [*document["mapping"], {"to": "", "source": "", "kind": "text"}]
    posted: dict[str, Any] = {
        "revision": str(of.draft_revision),
        "filter": document["filter"] or "",
        "consent": document["consent"],
        "on_rejected": document["on_rejected"],
        "ratio": document["ratio"] or "",
        "cap": "" if document["cap"] is None else str(document["cap"]),
        "mapping-TOTAL_FORMS": str(len(rows)),
        "mapping-INITIAL_FORMS": str(len(rows) - 1),
    }
    for name in ("refuse_data_sale_opt_out", "history_events", "include_test_orders"):
        if document[name]:
            posted[name] = "on"
    if document["stream"] == "customers":
        posted["list_id"] = str(document["list_id"])
    else:
        posted["events"] = document["events"]
    for index, row in enumerate(rows):
        posted |= {f"mapping-{index}-{name}": value for name, value in row.items()}
    posted |= changes
    return {name: text.replace("\n", "\r\n") if isinstance(text, str) else text for name, text in posted.items()}
