"""A house in its main states, made of rows: healthy, paused, unproven, running, only a draft; and staff to look at it.

Its clock stands at `factories.NOW`, so that every picture of it shows the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import URLPattern, reverse
from django.urls.exceptions import NoReverseMatch

from connectors import sandbox
from syncs import urls
from syncs.domain.lifecycle import DeliveryState, Lane, Outcome, Phase, RunState, SyncState, Trigger, Verdict
from syncs.models import AuditEntry, Beat, Connection, Coverage, Cursor, Membership, Run, Sync, Workspace
from syncs.models.workspaces import Role
from tests import factories
from tests.browser import chromium
from tests.factories import NOW

CREDENTIAL: Final = "not-a-real-credential"
"""What `factories.connection` seals."""
DOMAIN: Final = "acme.myshopify.com"
LIST_MISSING: Final = "Brevo answered “List 31 does not exist” (400) for 5 contacts alike, so the run stopped."
QUARTER: Final = timedelta(minutes=15)
HISTORY_SLOTS: Final = 192
"""Two days of planned starts."""
SHORT_AT, LATE_AT, NOTHING_AT = 50, (60, 61), range(120, 124)
"""Planned starts, counted from the first: one read too little, two were skipped, four were never planned."""


@dataclass(frozen=True, slots=True)
class House:
    """Who is in it, and where its pages are."""

    place: Workspace
    newcomer: Workspace
    mara: User
    root: User
    syncs: Mapping[str, Sync]
    runs: Mapping[str, Run]
    preview: int
    deed: int

    def sync(self, state: str) -> str:
        return reverse("sync", args=(self.place.slug, self.syncs[state].pk))

    def run(self, state: str) -> str:
        return reverse("run", args=(self.place.slug, self.runs[state].pk))

    def main_pages(self) -> dict[str, str]:
        """Those that are looked at in every theme, language and width."""
        slug, draft = self.place.slug, self.syncs["draft"].pk
        return {
            "home": reverse("workspace", args=(slug,)),
            "sync": self.sync("paused"),
            "run": self.run("failed"),
            "draft": reverse("draft", args=(slug, draft)),
            "preview": reverse("preview", args=(slug, draft, self.preview)),
        }

    def states(self) -> dict[str, str]:
        """Every sync's page and every run's, one of each state; the pages of who has nothing yet."""
        found = {f"sync-{state}": self.sync(state) for state in self.syncs}
        found |= {f"run-{state}": self.run(state) for state in self.runs}
        return {"home": f"/w/{self.place.slug}/", "home-empty": f"/w/{self.newcomer.slug}/", **found}

    def merchant_pages(self) -> dict[str, str]:
        """Every page of the merchant's map of addresses that mara can read, by its name there."""
        return chromium.elsewhere(self._read)

    def _read(self) -> dict[str, str]:
        client = Client()
        client.force_login(self.mara)
        found = {}
        for pattern in urls.urlpatterns:
            path = self._address(pattern)
            answer = client.get(path)
            if answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/html"):
                found[str(pattern.name)] = path
        found["records"] += "?state=refused"
        return found | {"account": reverse("account"), "second-factor": reverse("second-factor")}

    def _address(self, pattern: URLPattern) -> str:
        wanted = pattern.pattern.converters
        given = {name: value for name, value in self._parts().items() if name in wanted}
        # A draft's addresses stand beside its preview; everything else is at its richest where it is paused.
        if "preview_id" in wanted or pattern.name == "draft":
            given["sync_id"] = self.syncs["draft"].pk
        try:
            return reverse(str(pattern.name), kwargs=given)
        except NoReverseMatch as error:
            missing = sorted(set(wanted) - set(given))
            raise LookupError(f"{pattern.name} needs {missing}: say in _parts() what this house has for it.") from error

    def _parts(self) -> dict[str, Any]:
        paused = self.syncs["paused"]
        return {
            "slug": self.place.slug,
            "sync_id": paused.pk,
            "run_id": self.runs["failed"].pk,
            "preview_id": self.preview,
            "entry_id": self.deed,
            "connection_id": paused.source_id,
            "number": 1,
        }


@contextmanager
def clock_at_now() -> Iterator[None]:
    """The database's clock stands at NOW, also for who asks over another connection; afterwards it goes right again."""
    factories.clock_stands_at()
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE vigil_clock SET shift = '0'")


@contextmanager
def vendors() -> Iterator[dict[str, str]]:
    """A sandbox of each kind, so that no page asks beyond this machine. Kind -> its address."""
    with (
        sandbox.serving("shopify", token=CREDENTIAL, domain=DOMAIN) as shopify,
        sandbox.serving("brevo", api_key=CREDENTIAL) as brevo,
    ):
        yield {"shopify": shopify.url, "brevo": brevo.url}


@transaction.atomic
def build(addresses: Mapping[str, str]) -> House:
    """The house, its connections leading to the vendors at ``addresses``."""
    made = _built()
    for end in Connection.objects.all():
        proved = end.proved_fingerprint == end.fingerprint
        end.options = {**end.options, "base_url": addresses[end.kind]}
        end.proved_fingerprint = end.fingerprint if proved else ""
        end.save()
    return made


def _built() -> House:
    dice = random.Random(4)
    place, newcomer = factories.workspace(), factories.workspace("Newcomer", zone="UTC")
    mara = factories.member(place, Role.PUBLISHER, "mara")
    Membership.objects.create(workspace=newcomer, user=mara, role=Role.PUBLISHER.value)
    healthy, succeeded = _healthy(place, dice)
    paused, failed = _paused(place, dice)
    running, going = _running(place)
    unproven, unreadable = _unproven(place)
    draft = factories.sync(place, name="VIP customers", rule={**factories.CUSTOMERS, "list_id": 7})
    _proved(draft)
    waiting = factories.published(place, name="New customers", rule={**factories.CUSTOMERS, "list_id": 46}, at=NOW)
    preview = factories.preview(draft, by=mara)
    deed = _deeds(healthy)
    for kind in ("worker", "tick"):
        Beat.objects.create(kind=kind, holder="host/boot/space:1:1", at=NOW - timedelta(seconds=20))
    return House(
        place=place,
        newcomer=newcomer,
        mara=mara,
        root=factories.superuser("root"),
        syncs={
            "healthy": healthy,
            "paused": paused,
            "running": running,
            "unproven": unproven,
            "draft": draft,
            "waiting": waiting,
        },
        runs={"succeeded": succeeded, "failed": failed, "running": going, "unproven": unreadable},
        preview=preview.pk,
        deed=deed.pk,
    )


def _proved(of: Sync) -> None:
    """Both accounts were asked 41 minutes ago, and are the right ones."""
    for end, label in ((of.source, "ACME Shop"), (of.destination, "ACME GmbH")):
        end.proved_at, end.label, end.scopes = NOW - timedelta(minutes=41), label, ["read_customers"]
        end.proved_fingerprint = end.fingerprint
        end.save()


def _history(of: Sync, dice: random.Random, until: datetime = NOW) -> None:
    """Two days of starts with what became of each, then two weeks of one run a day."""
    begin = NOW.replace(minute=0) - HISTORY_SLOTS * QUARTER
    for number in range(HISTORY_SLOTS):
        at = begin + number * QUARTER
        if at >= until or number in NOTHING_AT:
            continue
        if number in LATE_AT:
            of.schedule.occurrences.create(planned_for=at, state="skipped_late", decided_at=at)
            continue
        factories.occurrence(_run_of(of, number, at, dice), at)
    for day in range(3, 14):
        refused = dice.randint(80, 500)
        third = refused // 3
        why = {"no_date": third, "not_subscribed": third, "no_address": refused - 2 * third}
        states = {"written": refused // 8, "unchanged": refused // 20, "refused": refused}
        factories.run(of, ended=NOW - timedelta(days=day), states=states, refusals=why)


def _run_of(of: Sync, number: int, at: datetime, dice: random.Random) -> Run:
    ended = at + timedelta(seconds=8)
    if number == SHORT_AT:
        said = "Shopify counts 41 customers, this read delivered 38. We stopped before the cursor moved."
        more: dict[str, Any] = {"error_code": "read_short", "error_sentence": said}
        return factories.run(of, Outcome.SHORT, verdict=Verdict.SHORT, ended=ended, **more)
    if dice.random() < 0.5:
        return factories.run(of, verdict=Verdict.PROVEN_QUIET, ended=ended, lasted=timedelta(seconds=4))
    refused = dice.randint(2, 30)
    states = {"written": dice.randint(0, 9), "unchanged": dice.randint(0, 5), "refused": refused}
    why = {"no_date": refused // 2, "unsubscribed": refused - refused // 2}
    return factories.run(of, ended=ended, states=states, refusals=why)


def _healthy(place: Workspace, dice: random.Random) -> tuple[Sync, Run]:
    sync = factories.published(place, name="Customers to newsletter", at=NOW - timedelta(days=20))
    _proved(sync)
    _history(sync, dice)
    ended = NOW - timedelta(minutes=5)
    states, why = {"written": 28, "unchanged": 4, "refused": 218}, {"no_date": 200, "unsubscribed": 18}
    last = factories.run(sync, states=states, refusals=why, ended=ended)
    factories.attempt(last)
    since = NOW - timedelta(minutes=20)
    lane = Lane.SCHEDULED.value
    Coverage.objects.create(sync=sync, lane=lane, run=last, since=since, until=ended, records=250, proved_at=ended)
    proof = {"state": "SUBSCRIBED", "level": "SINGLE_OPT_IN", "given_at": None, "field": "emailMarketingConsent"}
    for number in range(9000, 9060):
        code = "no_date" if number % 3 else "unsubscribed"
        more: dict[str, Any] = {"code": code, "evidence": proof, "record": str(number)}
        factories.delivery(last, f"contact:{number}", DeliveryState.REFUSED, **more)
    for number in range(8000, 8028):
        factories.delivery(last, f"contact:{number}", record=str(number))
    Sync.objects.filter(pk=sync.pk).update(last_success_at=ended, fresh_as_of=ended)
    for name in (Lane.SCHEDULED.value, Lane.MANUAL.value):
        Cursor.objects.create(sync=sync, lane=name, watermark=ended, moved_at=ended, fence=7)
    return sync, last


def _paused(place: Workspace, dice: random.Random) -> tuple[Sync, Run]:
    sync = factories.published(
        place, name="Wholesale contacts", at=NOW - timedelta(days=20), rule={**factories.CUSTOMERS, "list_id": 31}
    )
    _proved(sync)
    _history(sync, dice, NOW - timedelta(hours=2))
    left = {"unchanged": 4, "refused": 218, "in_doubt": 3, "failed": 5, "not_yet_tried": 20}
    more: dict[str, Any] = {"error_code": "rejected_alike", "error_sentence": LIST_MISSING, "unsettled": left}
    for ago in range(5, 0, -1):
        ended = NOW - ago * QUARTER
        failed = factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=ended, **more)
    factories.attempt(failed, outcome=Outcome.FAILED, error_sentence=LIST_MISSING)
    said = "List 31 does not exist"
    for number in range(100, 105):
        row: dict[str, Any] = {"code": "list_missing", "sentence": said, "record": str(number), "calls": 1}
        factories.delivery(failed, f"contact:{number}", DeliveryState.FAILED, **row)
    for number in range(200, 203):
        row = {"code": "", "sending_at": NOW - timedelta(minutes=16), "calls": 1, "record": str(number)}
        factories.delivery(failed, f"contact:{number}", DeliveryState.IN_DOUBT, **row)
    row = {"code": "bad_address", "sentence": "attributes.SMS must be E.164", "record": "300"}
    factories.delivery(failed, "contact:300", DeliveryState.SET_ASIDE, **row)
    before = NOW - timedelta(hours=2)
    Sync.objects.filter(pk=sync.pk).update(
        state=SyncState.PAUSED.value,
        paused_at=NOW - QUARTER,
        pause_code="list_missing",
        pause_sentence=LIST_MISSING,
        last_success_at=before,
        fresh_as_of=before,
    )
    Cursor.objects.create(sync=sync, lane=Lane.SCHEDULED.value, watermark=before, moved_at=before, fence=7)
    factories.finding(sync, "run_failed", "The last run failed.", opened_at=NOW - timedelta(hours=1))
    said = "Customer 4711 changed the address; the old one came off the list."
    factories.finding(sync, "address_changed", said)
    sync.refresh_from_db()
    return sync, failed


def _running(place: Workspace) -> tuple[Sync, Run]:
    sync = factories.published(place, name="Orders", rule=factories.ORDERS, at=NOW - timedelta(hours=2))
    _proved(sync)
    before = NOW - timedelta(minutes=15)
    factories.run(sync, ended=before, states={"written": 62, "unchanged": 3})
    Sync.objects.filter(pk=sync.pk).update(last_success_at=before, fresh_as_of=before)
    began = NOW - timedelta(seconds=50)
    states = {"written": 1200, "unchanged": 80}
    more: dict[str, Any] = {"expected": 5942, "phase": Phase.WRITING.value}
    run = factories.open_run(sync, RunState.RUNNING, states=states, created=began, **more)
    factories.attempt(run, outcome=None, ended_at=None, pages=5)
    since = NOW - timedelta(days=1)
    lane = Lane.SCHEDULED.value
    Cursor.objects.create(
        sync=sync, lane=lane, since=since, until=NOW, rows=1280, pages=5, moved_at=NOW - timedelta(seconds=4), fence=1
    )
    sync.refresh_from_db()
    return sync, run


def _unproven(place: Workspace) -> tuple[Sync, Run]:
    sync = factories.published(
        place, name="Newsletter Austria", at=NOW - timedelta(hours=4), rule={**factories.CUSTOMERS, "list_id": 45}
    )
    _proved(sync)
    proved = NOW - timedelta(hours=3)
    factories.run(sync, ended=proved, states={"written": 40, "refused": 2}, refusals={"no_date": 2})
    said = (
        "Shopify answered with no records, and we could not prove that there are none. "
        "We count this read as unreadable: nothing was sent, the cursor did not move."
    )
    run = factories.run(
        sync,
        Outcome.UNPROVEN,
        verdict=Verdict.UNPROVEN,
        ended=NOW - timedelta(minutes=9),
        trigger=Trigger.SCHEDULE.value,
        error_code="read_unproven",
        error_sentence=said,
    )
    Sync.objects.filter(pk=sync.pk).update(last_success_at=proved, fresh_as_of=proved)
    sync.refresh_from_db()
    return sync, run


def _deeds(of: Sync) -> AuditEntry:
    before, after = {"list_id": 12, "filter": None}, {"list_id": 13, "filter": "tags"}
    factories.audit(of, "run.started", who="mara", at=NOW - timedelta(hours=2), after={"run": 17, "lane": "manual"})
    factories.audit(of, "sync.published", who="mara", at=NOW - timedelta(days=5), reason="Autumn list.")
    at = NOW - timedelta(hours=3)
    return factories.audit(of, "sync.draft_saved", who="bo", at=at, before=before, after=after, reason="A test.")
