"""What the demo shows: a workspace with two connections and two published syncs, and their runs.

Everything that changes goes through `syncs.services`, as the demo's user. Imported only once Django is set up.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import NotSupportedError, OperationalError, connection

from local.house import Unusable
from local.show import FAILED, UNREADABLE
from syncs import queries, services
from syncs.domain.lifecycle import Lane, Outcome, RecordState, RunState, SyncState
from syncs.domain.sealing import SealBroken
from syncs.errors import PublicationInvalid
from syncs.models import Connection, Lease, Run, Sync, Workspace
from syncs.models.workspaces import Role
from syncs.services import outside

OLDEST_POSTGRES = 150000
LIST = 7
SLUG = "demo"
NAME = "Demo"
CONTACTS_RULE: Mapping[str, Any] = {
    "stream": "customers",
    "list_id": LIST,
    "mapping": [
        {"to": "FIRSTNAME", "source": "firstName"},
        {"to": "LASTNAME", "source": "lastName"},
        {"to": "LANGUAGE", "source": "locale"},
        {"to": "COUNTRY", "source": "defaultAddress.countryCodeV2"},
        {"to": "ORDER_COUNT", "source": "numberOfOrders", "kind": "number"},
        {"to": "TOTAL_SPENT", "source": "amountSpent.amount", "kind": "number"},
    ],
}
ORDERS_RULE: Mapping[str, Any] = {"stream": "orders", "events": ["order_placed"], "history_events": True}
POKE_SECONDS = 2.0
"""A run that is due for so long, and on nobody's list, may have lost its poke with a killed worker."""
HANG_SECONDS = 15.0
"""Tasks or due runs that wait so long while nothing runs: the cluster hangs with all its processes alive."""
SHOWN = (
    RecordState.WRITTEN,
    RecordState.ALREADY_DELIVERED,
    RecordState.UNCHANGED,
    RecordState.SUPERSEDED,
    RecordState.FILTERED,
    RecordState.REFUSED,
    RecordState.DEFERRED,
    RecordState.SET_ASIDE,
    RecordState.IN_DOUBT,
    RecordState.FAILED,
    RecordState.NOT_YET_TRIED,
)
LATE_SECONDS = 60.0
"""A lease renewed so much later than it should be: its worker lives and does nothing any more."""
UNACKNOWLEDGED = 3
ACKNOWLEDGE_SECONDS = 120.0
"""So many tasks fetched so long ago and never reported done, while nothing runs: the queue's monitor is gone."""


# --- Setting it up ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Vendors:
    """The sandboxes as connections need them: addresses, which change at every start, and what opens them."""

    domain: str
    shopify_url: str
    shopify_token: str
    brevo_url: str
    brevo_key: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The demo workspace. Customers come first: an order goes out only for a contact that is there."""

    actor: services.Actor
    contacts: Sync
    orders: Sync

    @property
    def plan(self) -> tuple[tuple[Sync, Lane], ...]:
        """What the demo runs, in this order: history of orders goes out only when a person asks (PRODUCT 1.4)."""
        return ((self.contacts, Lane.SCHEDULED), (self.orders, Lane.MANUAL))


def require_database(*, named: bool) -> None:
    """Raises Unusable unless the database answers and is a PostgreSQL that Vigil runs on.

    ``named``: a person named it in DATABASE_URL. Of the demo's own one that does not answer OperationalError is raised.
    """
    try:
        connection.ensure_connection()
        version = connection.cursor().connection.info.server_version
    except (OperationalError, ValueError):
        if not named:
            raise
        raise Unusable("DATABASE_URL names a database that does not answer: start it, or correct it.") from None
    except NotSupportedError:
        version = 0
    if version < OLDEST_POSTGRES:
        raise Unusable("DATABASE_URL names a PostgreSQL that is too old: Vigil needs 15 or newer.")


def is_new() -> bool:
    """Whether no demo was ever set up in this database."""
    return not Workspace.objects.filter(slug=SLUG).exists()


def prepare(user_name: str, password: str, vendors: Vendors) -> Stage:
    """Makes the workspace or finds it again. Raises Unusable."""
    workspace = _workspace()
    actor = services.person(_user(workspace, user_name, password))
    shop = _connection(
        actor,
        workspace,
        "Shop",
        "shopify",
        {"domain": vendors.domain, "base_url": vendors.shopify_url},
        {"token": vendors.shopify_token},
    )
    brevo = _connection(
        actor, workspace, "Brevo", "brevo", {"base_url": vendors.brevo_url}, {"api_key": vendors.brevo_key}
    )
    return Stage(
        actor=actor,
        contacts=_sync(actor, workspace, "Contacts", shop, brevo, CONTACTS_RULE),
        orders=_sync(actor, workspace, "Orders", shop, brevo, ORDERS_RULE),
    )


def _workspace() -> Workspace:
    found = Workspace.objects.filter(slug=SLUG).first()
    if found is None:
        return services.workspace_create(services.vigil("Demo"), name=NAME, slug=SLUG)
    try:
        found.address_secret()
    except SealBroken:
        raise Unusable(
            "The demo in this database was made with other keys than those in demo-keys: "
            "restore that file, use --reset, or name another database."
        ) from None
    return found


def _user(workspace: Workspace, name: str, password: str) -> User:
    user, made = User.objects.get_or_create(username=name, defaults={"is_staff": True, "is_superuser": True})
    if made or not user.check_password(password):
        user.set_password(password)
        user.save()
    if not workspace.memberships.filter(user=user, role=Role.PUBLISHER.value).exists():
        services.member_add(services.vigil("Demo"), workspace, user, Role.PUBLISHER)
    return user


def _connection(
    actor: services.Actor,
    workspace: Workspace,
    name: str,
    kind: str,
    options: Mapping[str, Any],
    secrets: Mapping[str, str],
) -> Connection:
    found = workspace.connections.filter(name=name).first()
    if found is None:
        return services.connection_create(actor, workspace, name=name, kind=kind, options=options, secrets=secrets)
    if found.options.get("domain") != options.get("domain"):
        raise Unusable("This database holds the demo of another shop: name another one in DATABASE_URL.")
    rotated = None if found.secrets() == secrets else secrets
    if found.options != options or rotated:
        return services.connection_update(actor, found, options=options, secrets=rotated)
    return found


def _sync(
    actor: services.Actor,
    workspace: Workspace,
    name: str,
    source: Connection,
    destination: Connection,
    rule: Mapping[str, Any],
) -> Sync:
    found = workspace.syncs.filter(name=name).first()
    return found or services.sync_create(actor, workspace, name=name, source=source, destination=destination, rule=rule)


def stands_still(sync: Sync) -> str | None:
    """Why the demo leaves a sync alone, in one sentence: a person paused it, and only a person publishes it again."""
    sync.refresh_from_db()
    if sync.state != SyncState.PAUSED or sync.pause_code != services.PAUSED_BY_PERSON:
        return None
    why = sync.pause_sentence.strip()
    why = why if not why or why.endswith((".", "!", "?")) else f"{why}."
    return f"{sync.name} stands still. {why} Publish it again on its page when it may go on."


def publish(actor: services.Actor, sync: Sync) -> str | None:
    """Previews and publishes what does not stand published; says in one sentence what the preview showed.

    Raises Unusable when the preview cannot be published.
    """
    sync.refresh_from_db()
    if sync.state == SyncState.PUBLISHED or stands_still(sync):
        return None
    preview = services.sync_preview(actor, sync)
    if not preview.publishable:
        blocks = " ".join(preview.result.get("blocks", ()))
        raise Unusable(f"{sync.name} cannot be published: {blocks}", FAILED if preview.facts else UNREADABLE)
    services.sync_publish(actor, sync, digest=preview.digest, reason="Set up by the demo.")
    states = ", ".join(f"{number} {state}" for state, number in preview.result["states"].items())
    return f"{sync.name}: previewed {preview.result['read']} of {preview.result['counted']} ({states}) and published."


# --- Runs -------------------------------------------------------------------------------------------------------------
def take(stage: Stage, sync: Sync, lane: Lane) -> Run | None:
    """A run of ``sync`` in ``lane``: the one that an earlier demo left open, else a new one.

    None while another lane's run is open: ours would only collide with it. Raises Unusable.
    """
    left = Run.objects.filter(sync=sync).exclude(state=RunState.FINISHED).first()
    if left is not None and left.lane != lane:
        return None
    if left is not None and left.state == RunState.RUNNING:
        return left
    try:
        run = services.run_start(stage.actor, sync, lane=lane)
    except PublicationInvalid as problem:
        raise Unusable(f"{sync.name}: {problem}", FAILED) from None
    return None if run.outcome == Outcome.COLLIDED else run


def is_over(run: Run) -> bool:
    return run.state == RunState.FINISHED


@dataclass(frozen=True, slots=True)
class Held:
    """A run's lease: until when it holds at most, and whether a worker of this very machine holds it."""

    until: datetime
    ours: bool


def held(run: Run) -> Held | None:
    """The lease that ``run`` goes on under; None while nobody holds one."""
    if run.state != RunState.RUNNING:
        return None
    lease = Lease.objects.filter(run=run, expires_at__gt=queries.now()).first()
    return Held(lease.expires_at, _house_of(lease.holder) == _house_of(outside.holder())) if lease else None


def _house_of(holder: str) -> str:
    """The part of a holder's name that says on which machine it is."""
    return holder.rsplit(":", 2)[0]


def counts(run: Run) -> Counter[str]:
    """Records by state, those of a batch that a stopped run left undecided included; their sum is what was read."""
    return Counter(run.states) + Counter(run.unsettled)


def report(run: Run) -> dict[str, Any]:
    """The run as ``--json`` shows it."""
    by_state = counts(run)
    refused = dict(run.refusals)
    if unnamed := by_state[RecordState.REFUSED] - sum(refused.values()):
        refused["batch_not_closed"] = unnamed
    ended, began = run.finished_at, run.started_at
    return {
        "name": run.sync.name,
        "stream": run.sync.draft["stream"],
        "lane": run.lane,
        "outcome": run.outcome,
        "verdict": run.verdict,
        "read": by_state.total(),
        **{state.value: by_state[state] for state in SHOWN},
        "refused": refused,
        "seconds": round((ended - began).total_seconds(), 3) if ended and began else None,
    }


# --- Keeping the queue honest -----------------------------------------------------------------------------------------
OPEN = """
SELECT count(*) FILTER (WHERE r.state = 'running'),
    coalesce(extract(epoch FROM vigil_now() - min(r.due_after) FILTER (WHERE r.state = 'waiting')), 0),
    coalesce(extract(epoch FROM vigil_now() - min(l.renewed_at) FILTER (WHERE r.state = 'running')), 0)
FROM syncs_run r LEFT JOIN syncs_lease l ON l.run_id = r.id AND l.expires_at > vigil_now() WHERE r.state <> 'finished'
"""
"""How many runs are running; how long the oldest due one waits; how long ago a running one's lease was renewed."""
QUEUED = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(lock) FILTER (WHERE lock <= clock_timestamp())), 0),
    count(*) FILTER (WHERE lock > clock_timestamp()
        AND extract(epoch FROM clock_timestamp() - lock) + %(retry)s BETWEEN %(acknowledge)s AND %(age)s)
FROM django_q_ormq WHERE key = %(queue)s
"""
"""The age of the oldest task that nobody fetched; how many were fetched since the cluster started and not reported."""


@dataclass(slots=True)
class Care:
    """Rows decide, the queue only carries messages (PRODUCT 8.6): frees what dead processes hold, pokes again for what
    is due, and tells when the cluster hangs.
    """

    _poked: float = 0.0

    def look(self, age: float) -> bool:
        """To be called each second: a killed worker's run goes on at once, and not in a quarter of an hour.

        ``age`` is for how many seconds the cluster has been up. True when it has all its processes and does nothing.
        """
        freed = services.leases_free_dead()
        running, due, stale = _row(OPEN, {})
        waiting, unacknowledged = _row(QUEUED, self._queue(age))
        lost = due > POKE_SECONDS and waiting == 0 and time.monotonic() - self._poked > POKE_SECONDS
        if freed or lost:
            self._poked = time.monotonic()
            services.tick()
        idle = running == 0 and (due > HANG_SECONDS or waiting > HANG_SECONDS or unacknowledged >= UNACKNOWLEDGED)
        return age > HANG_SECONDS and bool(idle or stale > settings.VIGIL_LEASE_RENEW_SECONDS + LATE_SECONDS)

    def _queue(self, age: float) -> dict[str, Any]:
        queue = settings.Q_CLUSTER
        return {"queue": queue["name"], "retry": queue["retry"], "age": age, "acknowledge": ACKNOWLEDGE_SECONDS}


def _row(statement: str, values: dict[str, Any]) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row: tuple[Any, ...] = cursor.fetchone()
    return row
