"""The commands as an operator calls them: what they print, what they leave, and the code they end with (UX, 4)."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from connectors.errors import Unreadable
from syncs import services
from syncs.domain.lifecycle import DeliveryState, Lane
from syncs.management.commands import vigil_doctor
from syncs.models import Cursor, Delivery, Preview, Run, Version
from syncs.models.beats import BeatKind
from syncs.models.workspaces import Role
from syncs.queries import watch
from syncs.services import outside
from tests import factories
from tests.factories import NOW
from tests.house import EARLIER, House, customer

SINCE, UNTIL = "2026-02-01T12:00:03Z", "2026-02-01T13:00:09+01:00"
"""Customers 3 to 8 of the house."""


def command(name: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command(name, *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


def asked(name: str, *arguments: str) -> dict[str, Any]:
    """The one object on stdout; its exit code is the command's."""
    code, out, _ = command(name, *arguments, "--json")
    found: dict[str, Any] = json.loads(out)
    assert found["exit"] == code
    return found


@pytest.fixture
def house(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> House:
    built = House.build(page_size=2)
    for number in range(1, 13):
        built.source.put(customer(number))
    monkeypatch.setattr(outside, "outside", lambda: built.outside())
    monkeypatch.setattr(outside, "connect", built.outside().connect)
    return built


# --- sync_run ---------------------------------------------------------------------------------------------------------
def test_a_run_in_the_foreground_prints_the_line_that_closes(house: House) -> None:
    code, out, err = command("sync_run", "Contacts")
    run = Run.objects.get()
    assert (code, run.outcome, run.lane) == (0, "succeeded", "manual")
    assert out == f"Run {run.pk} of Contacts: succeeded, read proved.\n  read 12 = 12 written\n"
    assert err == ""


def test_as_the_schedule_it_moves_the_timetables_cursor(house: House) -> None:
    found = asked("sync_run", str(house.sync.pk), "--as", "scheduled")
    assert (found["lane"], found["outcome"], found["verdict"]) == ("scheduled", "succeeded", "proven")
    assert (found["read"], found["states"], found["error"]) == (12, {"written": 12}, None)
    assert list(Cursor.objects.values_list("lane", flat=True)) == ["scheduled"]


def test_a_run_beside_another_one_is_a_collision(house: House) -> None:
    Run.objects.filter(pk=house.start(Lane.SCHEDULED).pk).update(state="running")
    code, out, _ = command("sync_run", "Contacts")
    assert (code, "collided" in out) == (5, True)


def test_a_source_that_cannot_be_believed_ends_with_its_own_code(house: House) -> None:
    house.source.fail("read_page", *[Unreadable("Not to be believed.") for _ in range(10)])
    code, out, _ = command("sync_run", "Contacts")
    assert (code, "Not to be believed. [unreadable]" in out) == (7, True)
    assert house.destination.called("write") == []


def test_a_person_without_the_role_starts_nothing(house: House) -> None:
    factories.member(house.sync.workspace, Role.VIEWER, "vera")
    code, out, err = command("sync_run", "Contacts", "--by", "vera")
    assert (code, out, err) == (2, "", "This needs the role operator in Test. Ask one of its publishers.\n")
    assert Run.objects.count() == 0


# --- backfill ---------------------------------------------------------------------------------------------------------
def backfill(*more: str) -> tuple[int, str, str]:
    return command("backfill", "Contacts", "--since", SINCE, "--until", UNTIL, *more)


def test_a_dry_run_prints_counts_and_calls_and_writes_nothing(house: House) -> None:
    code, out, _ = backfill("--dry-run")
    assert code == 0
    assert out == (
        "Contacts, from 1 Feb 2026 12:00 UTC (2026-02-01 12:00:03 UTC) until 1 Feb 2026 12:00 UTC "
        "(2026-02-01 12:00:09 UTC):\n"
        "  Records there, as Memory counts them: 6.\n"
        "  Calls at most: 3 to read, 6 to write to Memory.\n"
        "  Objects delivered before: 0. Of those only what has changed goes out.\n"
    )
    assert (Run.objects.count(), Cursor.objects.count(), house.destination.calls) == (0, 0, [])
    found = asked("backfill", "Contacts", "--since", SINCE, "--until", UNTIL, "--dry-run")
    assert (found["records"], found["pages"], found["since"]) == (6, 3, "2026-02-01T12:00:03+00:00")


def test_with_its_name_confirmed_it_reads_the_range(house: House) -> None:
    code, out, _ = backfill("--confirm", "Contacts", "--no-input")
    assert (code, out.splitlines()[-1]) == (0, "  read 6 = 6 written")
    assert house.tombstones() == {f"contact:{number}": 1 for number in range(3, 9)}


@pytest.mark.parametrize(
    ("confirmed", "sentence"),
    [
        ((), "This writes in bulk: add --confirm and the sync's name, 'Contacts'. Nothing was done.\n"),
        (("--confirm", "Orders"), "'Orders' is not this sync's name, which is 'Contacts'. Nothing was done.\n"),
    ],
)
def test_without_its_name_confirmed_it_does_nothing(house: House, confirmed: tuple[str, ...], sentence: str) -> None:
    code, _, err = backfill("--no-input", *confirmed)
    assert (code, err) == (2, sentence)
    assert (Run.objects.count(), Cursor.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("since", "until", "begins"),
    [
        ("2026-02-01", UNTIL, "--since has no zone: it reads 2026-02-01T00:00:00"),
        (UNTIL, SINCE, "The range ends before it begins"),
        (SINCE, "2999-01-01T00:00:00Z", "The range ends in the future"),
    ],
)
def test_a_range_that_cannot_be_read_is_one_sentence(house: House, since: str, until: str, begins: str) -> None:
    code, out, err = command("backfill", "Contacts", "--since", since, "--until", until, "--dry-run")
    assert (code, out, err.count("\n"), err.startswith(begins)) == (2, "", 1, True)


def test_another_open_read_is_named_and_ends_with_the_code_for_it(house: House) -> None:
    services.run_cancel(services.vigil(), house.start(Lane.MANUAL))
    Cursor.objects.create(sync=house.sync, lane="manual", until=EARLIER, rows=4)
    code, _, err = backfill("--dry-run")
    assert code == 5
    assert "The manual lane is still reading the beginning to 2026-02-01T12:00:00Z and stands after 4 records." in err


# --- sync_preview and sync_publish ------------------------------------------------------------------------------------
@pytest.fixture
def shown(db: None, monkeypatch: pytest.MonkeyPatch) -> Preview:
    """A preview as it was made just now; the real one asks two other systems."""
    factories.clock_stands_at()
    made = factories.preview(factories.sync(factories.workspace(), name="Contacts"))
    monkeypatch.setattr(services, "sync_preview", lambda actor, sync: made)
    return made


def test_a_preview_prints_refusals_rows_and_how_to_publish_exactly_it(shown: Preview) -> None:
    code, out, err = command("sync_preview", "Contacts")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Read 5 of 5,942 records that ACME Shop counts. Nothing was written.",
        "  2 would be created",
        "  2 refused (1 no_date, 1 unsubscribed)",
        "  1 would be updated",
        "  11: refused: subscribed, but not since when",
        "  12: refused: unsubscribed at the source",
        "  13: would be updated: FIRSTNAME A•• -> B••",
        "  14: would be created: FIRSTNAME - -> C•••",
        "  15: would be created: FIRSTNAME - -> D••",
        "Publish exactly this until 8 Oct 2026 15:03 CEST (2026-10-08 13:03:00 UTC):",
        f"  manage.py sync_publish {shown.sync_id} --digest {shown.digest} --by USER",
    ]
    assert asked("sync_preview", "Contacts")["digest"] == shown.digest


@pytest.mark.parametrize(("code", "expected"), [("", 6), ("token_refused", 6), ("unavailable", 7)])
def test_a_preview_that_may_not_be_published_ends_with_why(shown: Preview, code: str, expected: int) -> None:
    shown.publishable = False
    shown.result = {"blocks": ["It does not."], "states": {}, "refusals": {}, "rows": [], "notes": []}
    shown.result |= {"code": code} if code else {}
    ended, out, _ = command("sync_preview", "Contacts")
    assert (ended, out) == (expected, "It does not.\n")


def test_exactly_the_previewed_digest_is_published_by_a_person(shown: Preview) -> None:
    factories.member(shown.sync.workspace, Role.PUBLISHER, "petra")
    found = asked("sync_publish", "Contacts", "--digest", shown.digest, "--by", "petra", "--reason", "First one.")
    version = Version.objects.get()
    assert (found["version"], found["digest"], found["publisher"]) == (1, shown.digest, "petra")
    assert (version.digest, version.publisher_label, version.reason) == (shown.digest, "petra", "First one.")


def test_another_digest_publishes_nothing(shown: Preview) -> None:
    factories.member(shown.sync.workspace, Role.PUBLISHER, "petra")
    code, out, err = command("sync_publish", "Contacts", "--digest", shown.digest[:12], "--by", "petra")
    assert (code, out) == (6, "")
    assert err == "No preview of this sync has that digest. Preview the draft, then publish its digest.\n"
    assert Version.objects.count() == 0


def test_who_may_not_publish_publishes_nothing(shown: Preview) -> None:
    factories.member(shown.sync.workspace, Role.EDITOR, "eda")
    code, _, _ = command("sync_publish", "Contacts", "--digest", shown.digest, "--by", "eda")
    assert (code, Version.objects.count()) == (2, 0)


def test_what_reaches_further_is_published_only_when_that_is_accepted(db: None) -> None:
    factories.clock_stands_at()
    sync = factories.published(factories.workspace(), name="Contacts", rule={**factories.CUSTOMERS, "filter": "tags"})
    sync = services.sync_save_draft(services.vigil(), sync, rule={**sync.draft, "filter": None}, revision=1)
    preview = factories.preview(sync)
    factories.member(sync.workspace, Role.PUBLISHER, "petra")
    asked_for = ("sync_publish", "Contacts", "--digest", preview.digest, "--by", "petra")
    code, out, err = command(*asked_for)
    assert (code, out, Version.objects.count()) == (6, "", 1)
    assert err.splitlines() == [
        "All records are taken: the filter is gone.",
        "Nothing was published, because it reaches further. Add --accept-widening if that is meant.",
    ]
    assert asked(*asked_for, "--accept-widening")["version"] == 2


# --- ledger_trace -----------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_a_trace_never_prints_the_address(caplog: pytest.LogCaptureFixture) -> None:
    factories.clock_stands_at()
    sync = factories.healthy(factories.workspace(), name="Contacts")
    key = factories.keys.address_key(sync.workspace.address_secret(), "ada.lovelace@shop.example")
    factories.delivery(
        sync.runs.get(),
        "contact:17",
        DeliveryState.REFUSED,
        record="17",
        address_key=key,
        code="no_date",
        effect_key="",
    )
    for arguments in (("--email", " Ada.Lovelace@Shop.example"), ("--email", "ADA.LOVELACE@SHOP.EXAMPLE", "--json")):
        code, out, err = command("ledger_trace", *arguments)
        assert code == 0
        assert "lovelace" not in (out + err + caplog.text).lower()
        assert "Refused on 8 Oct 2026 14:05 CEST: subscribed, but not since when." in out
    code, out, _ = command("ledger_trace", "--email", "ada.lovelace@shop.example")
    assert out.splitlines()[:4] == [
        "a•••@s•••.example: Refused on 8 Oct 2026 14:05 CEST: subscribed, but not since when.",
        "",
        "Contacts, 17: refused. Refused on 8 Oct 2026 14:05 CEST: subscribed, but not since when.",
        f"  8 Oct 2026 14:05 CEST (2026-10-08 12:05:00 UTC)  Read (by run {sync.runs.get().pk}, scheduled lane, "
        f"reading {Delivery.objects.get().delivery_key[:12]})",
    ]


@pytest.mark.django_db
def test_a_trace_is_of_one_workspace_and_of_its_members() -> None:
    acme, other = factories.workspace("ACME"), factories.workspace("Other")
    factories.member(other, Role.PUBLISHER, "otto")
    factories.published(acme)
    code, _, err = command("ledger_trace", "--id", "17")
    assert (code, err) == (2, "Say which workspace: --workspace and its short name.\n")
    code, out, _ = command("ledger_trace", "--id", "17", "--workspace", acme.slug, "--by", "otto")
    assert (code, out) == (2, "")
    assert asked("ledger_trace", "--order", "17", "--workspace", acme.slug)["answers"] == []
    (answer,) = asked("ledger_trace", "--id", "17", "--workspace", acme.slug)["answers"]
    assert (answer["state"], answer["steps"]) == ("never_read", [])


@pytest.mark.django_db
@pytest.mark.parametrize("given", [("--order", "#1001"), ("--id", "Ada"), ("--email", "Ada")])
def test_what_cannot_be_searched_for_is_one_sentence(given: tuple[str, str]) -> None:
    code, out, err = command("ledger_trace", *given)
    assert (code, out, err.count("\n")) == (2, "", 1)


# --- ledger_prune -----------------------------------------------------------------------------------------------------
def test_a_dry_prune_counts_what_a_prune_deletes(house: House) -> None:
    house.run()
    now = services.actors.database_now()
    old, older = now - timedelta(days=7, minutes=1), now - timedelta(days=30)
    names = [f"contact:{number}" for number in range(1, 13)]
    Delivery.objects.filter(object__in=names[:4]).update(settled_at=old)
    Delivery.objects.filter(object=names[4]).update(settled_at=older, state="set_aside")
    Delivery.objects.filter(object=names[5]).update(settled_at=older, lane="manual")
    Cursor.objects.create(sync=house.sync, lane="manual", until=now)
    said = "The ledger keeps 7 days.\n"
    assert command("ledger_prune", "--dry-run") == (0, f"4 rows would be deleted. {said}", "")
    assert Delivery.objects.count() == 12
    assert asked("ledger_prune") == {"exit": 0, "dry_run": False, "rows": 4, "days": 7}
    assert sorted(Delivery.objects.values_list("object", flat=True)) == sorted(names[4:])
    assert len(house.tombstones()) == 12


# --- connections_test -------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_each_connection_is_told_with_its_scopes_and_the_worst_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    from connectors import memory
    from connectors.errors import TokenRefused

    acme, other = factories.workspace("ACME"), factories.workspace("Other")
    factories.connection(acme, "shopify", name="Shop")
    factories.connection(acme, "brevo", name="Mail")
    factories.connection(other, "brevo", name="Theirs")

    def check(actor: services.Actor, one: Any) -> services.Checked:
        if one.name == "Mail":
            raise TokenRefused("Brevo refused the key.")
        return services.Checked(
            memory.an_identity(("read_orders", "write_x"), label="ACME"), ("read_a",), ("read_a",), ("write_x",)
        )

    monkeypatch.setattr(services, "connection_check", check)
    code, out, _ = command("connections_test", "--workspace", acme.slug)
    assert code == 6
    assert out.splitlines() == [
        "ACME / Mail (brevo): Brevo refused the key. [token_refused]",
        "ACME / Shop (shopify): ACME answers (account 1). Scopes: read_orders, write_x. It lacks read_a: grant it, "
        "then test again. It can write (write_x): give it read scopes only.",
    ]
    found = asked("connections_test")
    assert [(one["name"], one["exit"]) for one in found["connections"]] == [("Mail", 6), ("Shop", 6), ("Theirs", 6)]


# --- vigil_doctor -----------------------------------------------------------------------------------------------------
NAMES = ["settings", "time zones", "database", "migrations", "workers", "queue", "clock", "tick"]


def test_a_house_at_work_is_well(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.TZPATH", ())
    services.beat(BeatKind.WORKER)
    services.beat(BeatKind.TICK)
    found = asked("vigil_doctor")
    assert [(line["name"], line["state"]) for line in found["lines"]] == [(name, "ok") for name in NAMES]
    assert found["exit"] == 0


def test_nobody_at_work_is_bad_and_says_what_to_do(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.TZPATH", ("/usr/share/zoneinfo",))
    run = house.start(Lane.SCHEDULED)
    Run.objects.filter(pk=run.pk).update(due_after=NOW - timedelta(days=300))
    monkeypatch.setitem(watch.MEASURES, "skew", lambda now: {"skew": watch.Tally(-6_000)})
    code, out, _ = command("vigil_doctor")
    told = dict(line.split(": ", 1) for line in out.splitlines())
    assert code == 9
    assert told["bad  workers"] == "No worker process lives (there was never one). Start manage.py vigil_worker."
    assert told["bad  tick"] == (
        "It never ticked. Nothing is planned meanwhile. "
        "Start manage.py vigil_worker. Its first tick comes within two minutes."
    )
    assert told["bad  queue"].startswith("1 run is due, the oldest ")
    assert told["warn clock"] == (
        "This host's clock is 6.000 s off the database's. Let both hosts follow the same time server."
    )
    assert told["warn time zones"].endswith("Set PYTHONTZPATH to the empty text for every process.")


def test_what_cannot_be_measured_is_never_green(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "measure", lambda groups, now: {})
    now = services.actors.database_now()
    for look in vigil_doctor.MEASURED:
        assert look(now).state == "bad"


def test_missing_migrations_are_bad_and_nothing_behind_them_is_asked(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vigil_doctor.MigrationExecutor, "migration_plan", lambda self, nodes: [1, 2])
    found = asked("vigil_doctor")
    assert [line["name"] for line in found["lines"]] == NAMES[:4]
    assert found["lines"][3] == {
        "name": "migrations",
        "state": "bad",
        "sentence": "2 migrations are missing.",
        "todo": "Run manage.py migrate.",
    }
    assert connection.is_usable()
