"""A range of history in the manual lane: set, read, gone on with, refused (PRODUCT 1.3, 1.4, 7.1)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from connectors.errors import ScopeMissing, Unreadable
from connectors.memory import Fault
from connectors.protocol import Count, Page, Stream, Window
from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.engine import planner
from syncs.engine.database import Database, parameters
from syncs.errors import Collided, PermissionMissing, PublicationInvalid
from syncs.models import AuditEntry, Coverage, Cursor, Run
from syncs.models.workspaces import Role
from syncs.services import backfill, foreground, outside, vigil
from syncs.services.actors import database_now
from tests import factories
from tests.house import EARLIER, ORDERS, House, customer, order

pytestmark = pytest.mark.django_db(transaction=True)

SINCE, UNTIL = EARLIER + timedelta(seconds=3), EARLIER + timedelta(seconds=9)
"""Customers 3 to 8 of those that are put into the house."""


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    built = House.build(page_size=2)
    for number in range(1, 13):
        built.source.put(customer(number))
    put_behind_the_doors(built, monkeypatch)
    return built


def put_behind_the_doors(built: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The services get the house's ends and terms."""
    monkeypatch.setattr(outside, "outside", lambda: built.outside())
    monkeypatch.setattr(outside, "connect", built.outside().connect)


def start(house: House, since: datetime = SINCE, until: datetime = UNTIL) -> Run:
    return services.backfill_start(vigil(), house.sync, since=since, until=until)


def finish(house: House, run: Run) -> Run:
    return services.run_drive(vigil(), run, stopping=lambda: False, tell=lambda _seen: None)


def cursor_of(house: House, lane: Lane = Lane.MANUAL) -> dict[str, Any]:
    row = Cursor.objects.filter(sync=house.sync, lane=lane.value).values("watermark", "since", "until", "rows").first()
    return dict(row or {})


# --- What it reads ----------------------------------------------------------------------------------------------------
def test_exactly_the_range_is_read_and_covered_and_no_other_cursor_moves(house: House) -> None:
    house.start(Lane.SCHEDULED)
    house.work()
    before = cursor_of(house, Lane.SCHEDULED)
    house.source.put(customer(5, "New", updated_at=EARLIER + timedelta(seconds=5)))

    run = finish(house, start(house))

    assert (run.outcome, run.verdict, run.states) == ("succeeded", "proven", {"unchanged": 5, "written": 1})
    assert cursor_of(house, Lane.SCHEDULED) == before
    covered = Coverage.objects.filter(run=run).values_list("lane", "since", "until", "records").get()
    assert covered == ("manual", SINCE, UNTIL, 6)


def test_a_second_backfill_of_the_range_sends_nothing(house: House) -> None:
    assert finish(house, start(house)).states == {"written": 6}
    calls = len(house.destination.called("write"))
    assert finish(house, start(house)).states == {"already_delivered": 6}
    assert len(house.destination.called("write")) == calls


def test_the_plan_counts_asks_nothing_else_and_writes_nothing(house: House) -> None:
    plan = services.backfill_plan(vigil(), house.sync, since=SINCE, until=UNTIL)
    window = Window(SINCE, UNTIL)
    batch = house.destination.traits["contact"].batch  # type: ignore[index]
    assert plan == services.BackfillPlan(window, Count(6, True), 3, -(-6 // batch), 0, None)
    assert house.source.called("count") == [(Stream.CUSTOMERS, window)]
    assert (house.source.called("read_page"), house.destination.called("write")) == ([], [])
    assert (Run.objects.count(), Cursor.objects.count()) == (0, 0)


def test_the_calls_for_orders_count_their_events_only_where_the_past_starts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House.build({**ORDERS, "history_events": False}, page_size=2)
    put_behind_the_doors(house, monkeypatch)
    house.source.put(order(1))
    until = EARLIER + timedelta(days=1)
    quiet = services.backfill_plan(vigil(), house.sync, since=EARLIER, until=until)
    house.publish(ORDERS)
    house.sync.refresh_from_db()
    loud = services.backfill_plan(vigil(), house.sync, since=EARLIER, until=until)
    assert (quiet.records.records, loud.writes - quiet.writes) == (1, 1)


# --- The manual lane's watermark --------------------------------------------------------------------------------------
def test_an_older_range_never_sets_the_watermark_back(house: House) -> None:
    finish(house, house.start(Lane.MANUAL))
    watermark = cursor_of(house)["watermark"]
    assert watermark is not None and watermark > UNTIL
    finish(house, start(house))
    assert cursor_of(house) == {"watermark": watermark, "since": None, "until": None, "rows": 0}


def test_a_range_that_begins_behind_what_was_read_leaves_what_lies_between_to_the_next_run(house: House) -> None:
    finish(house, start(house))
    assert cursor_of(house) == {"watermark": None, "since": None, "until": None, "rows": 0}
    run = finish(house, house.start(Lane.MANUAL))
    assert run.states == {"written": 6, "unchanged": 6}


def test_a_range_that_follows_on_what_was_read_moves_the_watermark(house: House) -> None:
    house.start(Lane.MANUAL)
    house.work()
    services.cursor_reset(vigil(), house.sync, Lane.MANUAL, to=EARLIER + timedelta(seconds=5), reason="A test.")
    finish(house, start(house))
    assert cursor_of(house)["watermark"] == UNTIL


# --- Going on ---------------------------------------------------------------------------------------------------------
def test_three_calls_go_on_where_the_one_before_stood_case_read_17(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case READ-17: each continues with its own page cursor, all are delivered once, the timetable's cursor stays."""
    monkeypatch.setattr(foreground, "LOOK_EVERY", 0.01)
    signals: list[str] = []

    async def interrupted(page: Page) -> Page:
        signals.append("SIGINT")
        await asyncio.sleep(0.05)
        return page

    stood: list[tuple[str, int]] = []
    for _ in range(3):
        signals.clear()
        house.source.fail("read_page", Fault(change=interrupted))
        run = services.run_drive(vigil(), start(house), stopping=lambda: bool(signals), tell=lambda _seen: None)
        stood.append((run.state, cursor_of(house)["rows"]))

    assert stood == [("waiting", 2), ("waiting", 4), ("finished", 0)]
    assert Run.objects.get().outcome == "succeeded"
    assert house.tombstones() == {f"contact:{number}": 1 for number in range(3, 9)}
    assert len(house.source.called("read_page")) == 3
    assert cursor_of(house, Lane.SCHEDULED) == {}


def test_history_in_the_foreground_lets_a_due_scheduled_run_through(house: House) -> None:
    """Nobody else is at work: the run of the timetable is driven here as well."""
    schedule = services.schedule_set(vigil(), house.sync, every_minutes=15)
    schedule.next_for = database_now() - timedelta(minutes=1)
    schedule.save()

    async def come_due(page: Page) -> Page:
        await asyncio.to_thread(outside._in_thread, plan_due)
        return page

    house.source.fail("read_page", Fault(change=come_due))
    run = finish(house, start(house))

    ended = list(Run.objects.order_by("finished_at").values_list("lane", "outcome"))
    assert ended == [("scheduled", "succeeded"), ("manual", "succeeded")]
    assert run.states["written"] + run.states.get("unchanged", 0) == 6


def test_a_range_that_was_left_parked_goes_on_without_a_worker(house: House) -> None:
    run = start(house)
    Run.objects.filter(pk=run.pk).update(state="parked")
    assert start(house) == run
    assert finish(house, run).outcome == "succeeded"


def plan_due() -> None:
    asyncio.run(_plan_due())


async def _plan_due() -> None:
    given = Database(parameters(settings.DATABASES["default"]))
    try:
        await planner.plan_due(given)
    finally:
        await given.close()


def test_after_a_run_that_ended_early_the_same_range_goes_on_with_a_new_one(house: House) -> None:
    house.terms = replace(house.terms, retry_scale=1.0)
    house.source.fail("read_page", Fault(), Unreadable("Not to be believed."))
    run = start(house)
    house.work()
    services.run_cancel(vigil(), run)
    run.refresh_from_db()
    assert (run.outcome, run.states, cursor_of(house)["rows"]) == ("cancelled", {"written": 2}, 2)

    plan = services.backfill_plan(vigil(), house.sync, since=SINCE, until=UNTIL)
    again = finish(house, start(house))

    assert (plan.rows, again.pk > run.pk) == (2, True)
    assert (again.outcome, again.states) == ("succeeded", {"written": 4})
    assert house.tombstones() == {f"contact:{number}": 1 for number in range(3, 9)}


# --- What is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("since", "until", "sentence"),
    [
        (UNTIL, SINCE, "The range ends before it begins: write --since before --until."),
        (SINCE, SINCE, "The range ends before it begins: write --since before --until."),
        (
            SINCE,
            SINCE + timedelta(days=36500),
            "The range ends in the future: what changes from now on is the schedule's to read.",
        ),
    ],
)
def test_a_range_that_is_none_is_refused(house: House, since: datetime, until: datetime, sentence: str) -> None:
    for act in (services.backfill_plan, services.backfill_start):
        with pytest.raises(services.RangeRefused) as refused:
            act(vigil(), house.sync, since=since, until=until)
        assert str(refused.value) == sentence
    assert (Run.objects.count(), Cursor.objects.count(), house.source.calls) == (0, 0, [])


def test_another_open_run_is_named(house: House) -> None:
    open_run = house.start(Lane.SCHEDULED)
    with pytest.raises(Collided) as refused:
        start(house)
    assert refused.value.sentence == (
        f"Run {open_run.pk} of this sync is open (scheduled, waiting): wait for its end, or cancel it on its page."
    )
    assert cursor_of(house) == {}


def test_a_read_of_another_range_is_named_with_how_to_finish_it(house: House) -> None:
    run = start(house)
    services.run_cancel(vigil(), run)
    with pytest.raises(Collided) as refused:
        start(house, SINCE, UNTIL + timedelta(seconds=1))
    assert refused.value.sentence == (
        "The manual lane is still reading 2026-02-01T12:00:03Z to 2026-02-01T12:00:09Z and stands after 0 records. "
        f"Finish that first with sync_run {house.sync.pk}, or reset the manual cursor on the sync's recovery page."
    )
    assert (cursor_of(house)["since"], cursor_of(house)["until"]) == (SINCE, UNTIL)


def test_a_run_that_is_at_work_on_the_range_is_not_started_twice(house: House) -> None:
    run = start(house)
    Run.objects.filter(pk=run.pk).update(state="running")
    with pytest.raises(Collided, match=rf"^Run {run.pk} of this sync is open \(manual, running\)"):
        start(house)


def test_what_is_not_published_has_no_history_to_read(house: House) -> None:
    services.sync_pause(vigil(), house.sync, reason="A test.")
    house.sync.refresh_from_db()
    with pytest.raises(PublicationInvalid, match="This sync is paused"):
        start(house)
    assert cursor_of(house) == {}


def test_it_needs_the_role_of_an_operator(house: House) -> None:
    viewer = services.person(factories.member(house.sync.workspace, Role.VIEWER))
    for act in (services.backfill_plan, services.backfill_start):
        with pytest.raises(PermissionMissing):
            act(viewer, house.sync, since=SINCE, until=UNTIL)
    assert (Run.objects.count(), house.source.calls) == (0, [])


def test_history_that_the_source_would_hide_is_refused_before_reading_case_read_12(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case READ-12: from January 2025 it is refused and named, from September 2026 it is allowed."""
    monkeypatch.setattr(
        backfill, "HISTORY_WALLS", {("memory", Stream.CUSTOMERS): ("read_all_orders", timedelta(days=60))}
    )
    today = datetime.fromisoformat("2026-10-12T09:00:00+00:00")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE vigil_clock SET shift = %s - clock_timestamp()", [today])
    until = today - timedelta(days=1)
    with pytest.raises(ScopeMissing) as refused:
        start(house, datetime.fromisoformat("2025-01-01T00:00:00+00:00"), until)
    assert refused.value.sentence == (
        "History before 2026-08-13 needs the scope read_all_orders: without it the source leaves older records out and "
        "says nothing. Grant it and publish again, or begin on that day."
    )
    assert (house.source.calls, house.destination.calls) == ([], [])
    assert start(house, datetime.fromisoformat("2026-09-01T00:00:00+00:00"), until).state == "waiting"


def test_starting_is_in_the_activity_with_its_reason(house: House) -> None:
    run = services.backfill_start(vigil("Ada"), house.sync, since=SINCE, until=UNTIL, reason="The list was lost.")
    entry = AuditEntry.objects.get(action="backfill.started")
    assert (entry.actor_label, entry.reason) == ("Ada", "The list was lost.")
    assert entry.after == {
        "run": run.pk,
        "since": SINCE.isoformat(),
        "until": UNTIL.isoformat(),
        "goes_on": False,
    }
