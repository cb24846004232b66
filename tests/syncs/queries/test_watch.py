"""What staff look at first: measured set by set, judged as on the merchant's pages, never a false nought."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from syncs import queries
from syncs.domain.lifecycle import DeliveryState, Outcome, RunState, SyncState, Verdict
from syncs.models import Beat, Delivery, Run, Schedule, Sync, Workspace
from syncs.queries import standing, watch
from syncs.queries.sync import facts_of, latest
from syncs.queries.watch import Tally
from syncs.words import Health
from tests import factories
from tests.factories import NOW

pytestmark = pytest.mark.django_db
DAY = timedelta(hours=24)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _clock(db: None) -> None:
    factories.clock_stands_at()


def changed(sync: Sync, **fields: Any) -> Sync:
    Sync.objects.filter(pk=sync.pk).update(**fields)
    return sync


def overdue(sync: Sync, by: timedelta) -> Sync:
    Schedule.objects.filter(sync=sync).update(next_for=NOW - by)
    return sync


def failed(outcome: Outcome = Outcome.FAILED, **more: Any) -> Sync:
    made = factories.healthy()
    factories.run(made, outcome, verdict=Verdict.OPEN, ended=NOW - MINUTE, **more)
    return made


def running(seen: timedelta, *, lease: bool = True) -> Sync:
    made = factories.healthy()
    run = factories.open_run(made, RunState.RUNNING, created=NOW - seen)
    if not lease:
        made.lease.delete()
    assert run.pk
    return made


SCENES: dict[str, Any] = {
    "draft": factories.sync,
    "paused": lambda: changed(factories.healthy(), state="paused", paused_at=NOW - DAY),
    "paused and failing": lambda: changed(failed(), state="paused", paused_at=NOW),
    "failing": failed,
    "failing before it was published again": lambda: changed(failed(), changed_at=NOW),
    "unreadable": lambda: failed(Outcome.UNREADABLE),
    "unproven": lambda: failed(Outcome.UNPROVEN),
    "unproven and silent": lambda: changed(failed(Outcome.SHORT), last_success_at=NOW - 2 * DAY),
    "only a collision": lambda: failed(Outcome.COLLIDED),
    "silent": lambda: changed(factories.healthy(), last_success_at=NOW - DAY - MINUTE),
    "exactly a day": lambda: changed(factories.healthy(), last_success_at=NOW - DAY),
    "published long ago and never ran": lambda: factories.published(at=NOW - 2 * DAY),
    "published just now": lambda: factories.published(at=NOW - MINUTE),
    "edited": lambda: changed(factories.healthy(), state="edited"),
    "edited and late": lambda: overdue(changed(factories.healthy(), state="edited"), 3 * MINUTE),
    "late": lambda: overdue(factories.healthy(), 3 * MINUTE),
    "two minutes late": lambda: overdue(factories.healthy(), 2 * MINUTE),
    "healthy": factories.healthy,
    "running": lambda: running(MINUTE),
    "running without a sign of life": lambda: running(12 * MINUTE),
    "running without a lease": lambda: running(12 * MINUTE, lease=False),
    "running, lease over": lambda: running(16 * MINUTE),
    "running, and the next start is due": lambda: overdue(running(MINUTE), 3 * MINUTE),
}


def waiting(created: timedelta, failures: int = 0) -> Sync:
    made = factories.healthy()
    factories.open_run(made, created=NOW - created, failures=failures)
    return made


SCENES |= {
    "waiting": lambda: waiting(MINUTE),
    "waiting too long": lambda: waiting(3 * MINUTE),
    "retrying": lambda: waiting(MINUTE, failures=2),
    "waiting, and the schedule is overdue": lambda: overdue(waiting(MINUTE), 5 * MINUTE),
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_set_of_syncs_is_judged_as_each_is_on_its_own_page(scene: str) -> None:
    made = Sync.objects.select_related("workspace", "schedule", "lease").get(pk=SCENES[scene]().pk)
    expected = standing.headline(facts_of(made, tuple(latest(made))), NOW)
    factories.healthy()
    assert watch.healths([made.pk], NOW) == {made.pk: expected}
    for health in Health:
        here = watch.with_health(Sync.objects.filter(pk=made.pk), health, NOW).exists()
        there = watch.with_worst(Workspace.objects.filter(pk=made.workspace_id), health, NOW).exists()
        assert (here, there) == (health is expected, health is expected)


def test_the_worst_sync_names_the_workspace() -> None:
    place = factories.workspace()
    factories.healthy(place)
    changed(factories.healthy(place), last_success_at=NOW - 2 * DAY)
    found = {health for health in Health if watch.with_worst(Workspace.objects.all(), health, NOW).exists()}
    assert found == {Health.SILENT}


def test_a_workspaces_line_says_how_its_syncs_are_and_what_was_written_today() -> None:
    """Today begins at midnight on the workspace's own clock: 22:00 UTC for Berlin in summer."""
    place = factories.workspace(zone="Europe/Berlin")
    first = factories.healthy(place)
    changed(factories.healthy(place), state="paused", paused_at=NOW)
    midnight = NOW.replace(hour=22, minute=0) - DAY
    factories.run(first, states={"written": 5}, ended=midnight + MINUTE)
    factories.run(first, states={"written": 7}, ended=midnight - MINUTE)
    factories.finding(first)
    empty = factories.workspace("Empty")
    with CaptureQueriesContext(connection) as asked:
        found = watch.summaries([place, empty], NOW)
    assert len(asked) == 3
    assert found[empty.pk] == watch.Summary(None, {}, None, 0, 0)
    assert found[place.pk] == watch.Summary(
        Health.PAUSED, {Health.PAUSED: 1, Health.HEALTHY: 1}, NOW - 5 * MINUTE, 1, 28 + 28 + 5
    )


# --- Numbers ---------------------------------------------------------------------------------------------------------
def measured(*groups: str) -> dict[str, Tally | None]:
    return watch.measure(groups, NOW)


def test_syncs_are_counted_by_their_headline_with_the_oldest() -> None:
    for hours in (5, 30):
        changed(factories.healthy(), state="paused", paused_at=NOW - timedelta(hours=hours))
    changed(factories.healthy(), last_success_at=NOW - 3 * DAY)
    found = measured("syncs")
    assert (found["paused"], found["silent"]) == (Tally(2, NOW - timedelta(hours=30)), Tally(1, NOW - 3 * DAY))
    assert (found["failing"], found["unproven"], found["edited"]) == (Tally(0), Tally(0), Tally(0))


def test_doubt_is_what_is_in_doubt_or_was_sent_and_can_no_longer_be_answered() -> None:
    run = factories.healthy().runs.get()
    factories.delivery(run, "contact:1", DeliveryState.IN_DOUBT, sending_at=NOW - 9 * MINUTE)
    factories.delivery(run, "contact:2", DeliveryState.SENDING, sending_at=NOW - 3 * MINUTE, call_ends_at=NOW - MINUTE)
    factories.delivery(run, "contact:3", DeliveryState.SENDING, sending_at=NOW, call_ends_at=NOW + MINUTE)
    factories.delivery(run, "contact:4", DeliveryState.CLAIMED)
    factories.delivery(run, "contact:5")
    assert measured("in_doubt") == {"in_doubt": Tally(2, NOW - 9 * MINUTE)}
    listed = watch.in_doubt(Delivery.objects.all(), NOW).order_by("object").values_list("object", flat=True)
    assert list(listed) == ["contact:1", "contact:2"]


def test_runs_starts_and_their_lag_are_told() -> None:
    late = waiting(4 * MINUTE)
    overdue(factories.healthy(), 6 * MINUTE)
    running(MINUTE)
    done = factories.healthy().runs.get()
    factories.occurrence(done, done.started_at - timedelta(seconds=42))
    found = measured("due", "running", "unplanned", "lag")
    assert late.pk
    assert found == {
        "due": Tally(1, NOW - 4 * MINUTE),
        "running": Tally(1, NOW - MINUTE),
        "unplanned": Tally(1, NOW - 6 * MINUTE),
        "lag": Tally(42, done.started_at - timedelta(seconds=42)),
    }


def test_without_any_planned_start_there_is_no_lag_to_tell() -> None:
    assert measured("lag") == {"lag": Tally(0)}


def test_workers_are_alive_while_they_show_it() -> None:
    assert measured("workers", "tick") == {"workers": Tally(0), "tick": Tally(0)}
    Beat.objects.create(kind="worker", holder="a", at=NOW - timedelta(seconds=60))
    Beat.objects.create(kind="worker", holder="b", at=NOW - 10 * MINUTE)
    Beat.objects.create(kind="tick", holder="a", at=NOW - 2 * MINUTE)
    found = measured("workers", "tick")
    assert found == {"workers": Tally(1, NOW - timedelta(seconds=60)), "tick": Tally(1, NOW - 2 * MINUTE)}


def test_the_clocks_are_compared() -> None:
    """The database's stands in October: this process's own is months away."""
    found = measured("skew")["skew"]
    assert found is not None
    assert abs(found.number) > 60_000


def test_the_ledger_is_estimated_and_never_counted() -> None:
    run = factories.healthy().runs.get()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE syncs_delivery")
    factories.delivery(run, "contact:1")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_class SET reltuples = -1 WHERE oid = 'syncs_delivery'::regclass")
        assert watch.ledger_size() is None
        cursor.execute("UPDATE pg_class SET reltuples = 1234567 WHERE oid = 'syncs_delivery'::regclass")
    with CaptureQueriesContext(connection) as asked:
        assert watch.ledger_size() == 1_234_567
    assert [one["sql"] for one in asked if "count(" in one["sql"].lower()] == []


def test_what_fails_is_left_out_and_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = watch._one("findings", "SELECT count(*), min(nothing) FROM no_such_table")
    monkeypatch.setattr(watch, "MEASURES", {**watch.MEASURES, "findings": broken})
    assert measured("findings", "running") == {"running": Tally(0)}


def test_what_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = watch._one("findings", "SELECT 1, NULL::timestamptz FROM pg_sleep(2)")
    monkeypatch.setattr(watch, "MEASURES", {**watch.MEASURES, "findings": slow})
    monkeypatch.setattr(watch, "MEASURE_MS", 20)
    assert measured("findings", "running") == {"running": Tally(0)}
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        assert cursor.fetchone()[0] != "20ms"


def test_no_number_takes_more_queries_for_more_rows() -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as found:
            watch.measure(list(watch.MEASURES), queries.now())
        return len(found)

    factories.healthy()
    before = asked()
    for _ in range(5):
        failed()
    assert asked() == before
    assert SyncState.PAUSED not in set(Run.objects.values_list("state", flat=True))
