"""What staff do across workspaces: by permission, many at once, and never more than they may."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from connectors.protocol import Identity
from syncs import queries, services
from syncs.domain.lifecycle import RunState
from syncs.errors import Collided, NotFound, PermissionMissing
from syncs.models import AuditEntry, Beat, Lease, Preview, Sync, Version
from syncs.models.beats import BeatKind
from syncs.models.workspaces import Role
from syncs.services import connections, outside, publishing, runs, staff
from tests import factories
from tests.factories import NOW

pytestmark = pytest.mark.django_db
ROOT = services.vigil("root")


@pytest.fixture(autouse=True)
def _clock(db: None) -> None:
    factories.clock_stands_at()


def member_of_staff(*permissions: str, **more: Any) -> User:
    person = factories.user(is_staff=True, **more)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return person


# --- Who may ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("permission", "roles"),
    [
        ("view_sync", {Role.VIEWER}),
        ("operate_sync", {Role.VIEWER, Role.OPERATOR}),
        ("edit_sync", {Role.VIEWER, Role.OPERATOR, Role.EDITOR}),
        ("publish_sync", set(Role)),
        ("view_workspace", set()),
    ],
)
def test_a_permission_gives_its_role_in_every_workspace_and_those_below(permission: str, roles: set[Role]) -> None:
    person = member_of_staff(permission)
    assert {role for role in Role if services.staff_may(person, role)} == roles


def test_a_permission_counts_in_the_admin_only_and_for_staff_only() -> None:
    place = factories.workspace()
    person = member_of_staff("publish_sync")
    services.staff_member(person).require(place, Role.PUBLISHER)
    with pytest.raises(PermissionMissing):
        services.person(person).require(place, Role.VIEWER)
    person.is_staff = False
    with pytest.raises(PermissionMissing):
        services.staff_member(person).require(place, Role.VIEWER)


def test_a_membership_still_counts() -> None:
    place = factories.workspace()
    services.staff_member(factories.member(place, Role.EDITOR)).require(place, Role.EDITOR)


# --- Pausing many ----------------------------------------------------------------------------------------------------
def states() -> dict[str, str]:
    return dict(Sync.objects.values_list("name", "state"))


@pytest.fixture
def two() -> list[Any]:
    """Two workspaces: a runs, b runs, c is edited, d is paused already, e is a draft; another's f runs."""
    here, there = factories.workspace("Here"), factories.workspace("There")
    factories.healthy(here, name="a")
    factories.healthy(there, name="b", rule={**factories.CUSTOMERS, "list_id": 13})
    Sync.objects.filter(pk=factories.healthy(there, name="c").pk).update(state="edited")
    services.sync_pause(ROOT, factories.healthy(here, name="d"), reason="Before.")
    factories.sync(here, name="e")
    factories.healthy(name="f")
    return [here, there]


def test_the_plan_counts_what_runs_and_changes_nothing(two: list[Any]) -> None:
    before = states()
    plan = services.workspaces_pause_plan(ROOT, two)
    assert ([sync.name for sync in plan.syncs], plan.still) == (["a", "b"], 3)
    assert states() == before


def test_pausing_many_pauses_what_runs_and_remembers_which(two: list[Any]) -> None:
    entry = services.workspaces_pause(ROOT, two, reason="Brevo moves.")
    assert states() == {"a": "paused", "b": "paused", "c": "edited", "d": "paused", "e": "draft", "f": "published"}
    assert (entry.action, entry.subject, entry.reason) == ("workspaces.paused", "Here, There", "Brevo moves.")
    paused = Sync.objects.filter(name__in=["a", "b"])
    assert {row["sync"] for row in entry.after["syncs"]} == {sync.pk for sync in paused}
    assert {sync.pause_sentence for sync in paused} == {"Paused by root: Brevo moves."}
    own = AuditEntry.objects.filter(action="sync.paused", reason="Brevo moves.").order_by("subject")
    assert [(one.subject, str(one.workspace)) for one in own] == [("a", "Here"), ("b", "There")]


def test_nobody_pauses_where_they_may_not(two: list[Any]) -> None:
    before = states()
    for act in (services.workspaces_pause_plan, lambda a, w: services.workspaces_pause(a, w, reason="x")):
        with pytest.raises(PermissionMissing):
            act(services.staff_member(member_of_staff("view_sync")), two)
    assert states() == before
    assert not AuditEntry.objects.filter(action="workspaces.paused").exists()


# --- Letting them go on ----------------------------------------------------------------------------------------------
@pytest.fixture
def previews(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Previews of what is published now, without asking two other systems; the names of what was previewed."""
    made: list[str] = []

    def preview(actor: services.Actor, sync: Sync) -> Preview:
        made.append(sync.name)
        sync.refresh_from_db()
        return factories.preview(sync, by=actor.user)

    monkeypatch.setattr(publishing, "sync_preview", preview)
    return made


def test_exactly_what_a_pause_stopped_is_published_again(two: list[Any], previews: list[str]) -> None:
    pause = services.workspaces_pause(ROOT, two, reason="Brevo moves.")
    done = services.workspaces_resume(ROOT, pause, reason="It has moved.")
    assert [(one.sync.name, one.published) for one in done] == [("a", True), ("b", True)]
    assert previews == ["a", "b"]
    assert states() == {
        "a": "published",
        "b": "published",
        "c": "edited",
        "d": "paused",
        "e": "draft",
        "f": "published",
    }
    again = Version.objects.filter(sync__name="a").order_by("number")
    assert [(one.number, one.reason) for one in again] == [(1, ""), (2, "It has moved.")]
    assert len({one.digest for one in again}) == 1
    entry = AuditEntry.objects.get(action="workspaces.resumed")
    assert entry.after == {"pause": pause.pk, "syncs": [one.sync.pk for one in done]}
    assert services.stopped_by(pause).syncs == ()


@pytest.mark.parametrize("change", ["edited", "published again", "paused again"])
def test_what_changed_since_the_pause_is_left_alone(two: list[Any], previews: list[str], change: str) -> None:
    pause = services.workspaces_pause(ROOT, two, reason="Brevo moves.")
    sync = Sync.objects.get(name="a")
    if change == "edited":
        services.sync_save_draft(ROOT, sync, rule={**factories.CUSTOMERS, "list_id": 14}, revision=1)
    else:
        factories.preview(sync)
        services.sync_publish(ROOT, sync, digest=factories.digest(sync))
    if change == "paused again":
        factories.clock_stands_at(NOW + timedelta(minutes=1))
        services.sync_pause(ROOT, sync, reason="For another reason.")
    before = states()["a"]
    assert [one.sync.name for one in services.workspaces_resume(ROOT, pause, reason="On.")] == ["b"]
    assert states()["a"] == before
    assert services.stopped_by(pause).changed == 2


def test_another_digest_is_not_published(two: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pause = services.workspaces_pause(ROOT, two, reason="Brevo moves.")
    monkeypatch.setattr(publishing, "sync_preview", lambda actor, sync: factories.preview(sync, digest="0" * 64))
    done = services.workspaces_resume(ROOT, pause, reason="On.")
    assert {one.published for one in done} == {False}
    assert "not what was published" in done[0].sentence
    assert (states()["a"], states()["b"]) == ("paused", "paused")


def test_who_may_not_publish_lets_nothing_go_on(two: list[Any], previews: list[str]) -> None:
    pause = services.workspaces_pause(ROOT, two, reason="Brevo moves.")
    with pytest.raises(PermissionMissing):
        services.workspaces_resume(services.staff_member(member_of_staff("operate_sync")), pause, reason="On.")
    assert (previews, states()["a"]) == ([], "paused")


def test_what_takes_too_long_is_left_for_the_next_time(
    two: list[Any], previews: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = services.workspaces_pause(ROOT, two, reason="Brevo moves.")
    monkeypatch.setattr(staff, "RESUME_SECONDS", 0.0)
    done = services.workspaces_resume(ROOT, pause, reason="On.")
    assert [(one.published, one.sentence[:13]) for one in done] == [(False, "Not tried yet")] * 2
    assert previews == []


def test_another_audit_entry_is_no_pause_of_many(two: list[Any]) -> None:
    other = AuditEntry.objects.filter(action="sync.paused").first()
    with pytest.raises(NotFound):
        services.stopped_by(other)
    with pytest.raises(NotFound):
        services.pause_of(other.pk)


# --- Taking over a lease ---------------------------------------------------------------------------------------------
@pytest.fixture
def held() -> Sync:
    made = factories.healthy()
    factories.open_run(made, RunState.RUNNING)
    return made


def row_of(sync: Sync) -> dict[str, Any]:
    return Lease.objects.filter(sync=sync).values().get()


def test_a_lease_that_runs_is_not_taken_over(held: Sync) -> None:
    before = row_of(held)
    with pytest.raises(Collided, match="fence number 1 runs until 12:20 UTC"):
        services.lease_take_over(ROOT, held, reason="It hangs.")
    assert row_of(held) == before
    assert not AuditEntry.objects.filter(action="lease.taken_over").exists()


@pytest.mark.parametrize("why", ["over", "dead"])
def test_a_lease_that_is_over_or_whose_process_is_dead_is_freed_under_a_higher_fence(
    held: Sync, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = row_of(held)
    if why == "over":
        Lease.objects.update(expires_at=NOW)
    else:
        monkeypatch.setattr(outside, "is_proven_dead", lambda name: name == before["holder"])
    services.lease_take_over(ROOT, held, reason="Its host is gone.")
    after = row_of(held)
    assert (after["fence"], after["run_id"], after["expires_at"] < before["expires_at"]) == (2, None, True)
    assert after["expires_at"] <= queries.now()
    assert after["token"] != before["token"]
    entry = AuditEntry.objects.get(action="lease.taken_over")
    assert entry.before == {"fence": 1, "holder": before["holder"], "run": before["run_id"]}
    assert (entry.after, entry.reason, entry.workspace) == ({"fence": 2}, "Its host is gone.", held.workspace)


def test_where_nobody_holds_a_sync_there_is_nothing_to_take_over() -> None:
    with pytest.raises(NotFound):
        services.lease_take_over(ROOT, factories.healthy(), reason="x")


def test_taking_over_needs_an_operator(held: Sync) -> None:
    Lease.objects.update(expires_at=NOW)
    with pytest.raises(PermissionMissing):
        services.lease_take_over(services.person(factories.member(held.workspace)), held, reason="x")
    assert row_of(held)["fence"] == 1


# --- Connections and signs of life -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scopes", "missing", "too_many"),
    [
        (("read_customers", "read_orders"), (), ()),
        (("read_customers",), ("read_orders",), ()),
        (("read_customers", "read_orders", "write_customers"), (), ("write_customers",)),
    ],
)
def test_a_test_lists_the_scopes_wanted_missing_and_too_many(
    scopes: tuple[str, ...], missing: tuple[str, ...], too_many: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source's token that can write is told (PRODUCT 3.10)."""
    monkeypatch.setattr(connections, "connection_test", lambda actor, connection: Identity("1", "ACME", scopes, NOW))
    checked = services.connection_check(ROOT, factories.connection(factories.workspace()))
    assert checked.wanted == ("read_customers", "read_orders")
    assert (checked.missing, checked.too_many) == (missing, too_many)


def test_a_process_shows_that_it_lives_in_one_row() -> None:
    services.beat(BeatKind.WORKER)
    factories.clock_stands_at(NOW + timedelta(minutes=1))
    services.beat(BeatKind.WORKER)
    assert Beat.objects.values_list("kind", "holder").get() == ("worker", outside.holder())
    assert Beat.objects.get().at - NOW >= timedelta(minutes=1)


def test_signs_of_processes_that_ended_long_ago_are_forgotten() -> None:
    Beat.objects.create(kind="worker", holder="old", at=NOW - timedelta(hours=25))
    Beat.objects.create(kind="worker", holder="new", at=NOW - timedelta(hours=23))
    services.beats_forget()
    assert [one.holder for one in Beat.objects.all()] == ["new"]


def test_a_tick_shows_that_it_came_to_its_end_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async def planned() -> list[int]:
        return []

    async def broken() -> list[int]:
        raise OSError

    monkeypatch.setattr(runs, "_tick", broken)
    with pytest.raises(OSError):
        services.tick()
    assert not Beat.objects.exists()
    monkeypatch.setattr(runs, "_tick", planned)
    services.tick()
    assert Beat.objects.values_list("kind", flat=True).get() == "tick"
