"""Who may see and do what, over the whole map of addresses (PRODUCT 10.1). Denied also means: nothing changed.

The map is walked, not listed: an address without a row in `MAP` fails, and so does a part of an address that `PARTS`
has no value for. The admin's addresses share one rule, so that a new page there is held to it by itself.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django_otp.plugins.otp_totp.models import TOTPDevice

from connectors import memory
from connectors.protocol import Identity
from syncs import services
from syncs.domain.lifecycle import DeliveryState
from syncs.models import Beat, Coverage, Objection, Preview, Run, Suppression, Sync
from syncs.models.workspaces import Role
from syncs.services import connections
from tests import factories

CAST = ("publisher", "editor", "operator", "viewer", "stranger", "nobody", "clerk", "anonymous", "superuser")
"""The stranger is a publisher of another workspace; the clerk is staff without a permission."""
OUTSIDE = ("publisher", "editor", "operator", "viewer", "stranger", "nobody", "anonymous")
"""Who has no business in the admin."""
LOGIN = 302
"""An anonymous person is led to the log-in page."""


# --- The map ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Place:
    """An address: its name with the admin's before it, how it is written, and its parts."""

    name: str
    route: str
    parts: tuple[str, ...]
    pattern: URLPattern

    @property
    def key(self) -> str:
        return self.name if not self.name.endswith(":") and self.name else self.route

    @property
    def is_admin(self) -> bool:
        return self.name.startswith("admin:")


def walked(resolver: URLResolver, spaces: tuple[str, ...] = (), before: str = "") -> Iterator[Place]:
    for one in resolver.url_patterns:
        route = before + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from walked(one, (*spaces, *([one.namespace] if one.namespace else [])), route)
        else:
            yield Place(":".join((*spaces, one.name or "")), route, _parts(route), one)


def _parts(route: str) -> tuple[str, ...]:
    return tuple(re.findall(r"<(?:\w+:)?(\w+)>", route))


@functools.cache
def places() -> tuple[Place, ...]:
    return tuple(walked(get_resolver()))


def own() -> list[Place]:
    return [place for place in places() if not place.is_admin]


def of_admin() -> list[Place]:
    return [place for place in places() if place.is_admin]


@dataclass(frozen=True)
class Scene:
    """A workspace with a bit of everything, and another workspace with the same."""

    sync: Sync
    run: Run
    preview: Preview
    people: dict[str, User]
    holder: User

    def path(self, name: str) -> str:
        return self.at(next(place for place in places() if place.name == name))

    def at(self, place: Place) -> str:
        """The address with its parts filled in. A part that is new here wants a line in `PARTS`."""
        path = "/" + place.route.replace("^", "").replace("$", "")
        for part in place.parts:
            value = str(self.part(place, part))
            path = re.sub(rf"\(\?P<{part}>[^)]*\)|<(\w+:)?{part}>", value, path)
        return path

    def part(self, place: Place, part: str) -> Any:
        if part in ("object_id", "id") and (model := _model_of(place.route)) is not None:
            row = model._default_manager.order_by("pk").first()
            assert row is not None, f"The scene holds no {model.__name__}: make one in `scene`."
            return row.pk
        assert part in PARTS, f"No value for <{part}> of {place.route}: add it to PARTS."
        return PARTS[part](self)


def _model_of(route: str) -> type[Model] | None:
    found = re.match(r"admin/(\w+)/(\w+)/", route)
    return apps.get_model(found[1], found[2]) if found else None


PARTS: dict[str, Callable[[Scene], Any]] = {
    "slug": lambda scene: scene.sync.workspace.slug,
    "sync_id": lambda scene: scene.sync.pk,
    "run_id": lambda scene: scene.run.pk,
    "preview_id": lambda scene: scene.preview.pk,
    "entry_id": lambda scene: scene.sync.workspace.audit.latest("pk").pk,
    "user_id": lambda scene: scene.holder.pk,
    "number": lambda scene: scene.sync.published.number,
    "other": lambda scene: scene.sync.published.number,
    "version_id": lambda scene: scene.sync.published.pk,
    "connection_id": lambda scene: scene.sync.source_id,
    "finding_id": lambda scene: scene.sync.findings.latest("pk").pk,
    # The admin's own.
    "app_label": lambda scene: "syncs",
    "content_type_id": lambda scene: 1,
    "object_id": lambda scene: 1,
    "url": lambda scene: "no-such-page/",
}


# --- What is posted ---------------------------------------------------------------------------------------------------
def _nothing(_scene: Scene) -> dict[str, Any]:
    return {}


def _reason(_scene: Scene) -> dict[str, Any]:
    return {"reason": "The shop moves."}


def _changed_draft(scene: Scene) -> dict[str, Any]:
    return factories.posted_draft(scene.sync, list_id="13")


def _digest(scene: Scene) -> dict[str, Any]:
    return {"digest": scene.preview.digest}


def _record(scene: Scene) -> dict[str, Any]:
    return {"reason": "The shop moves.", "record": scene.run.deliveries.get(state="failed").pk}


def _cursor(_scene: Scene) -> dict[str, Any]:
    return {"reason": "The shop moves.", "lane": "scheduled", "to": ""}


def _asked(_scene: Scene) -> dict[str, Any]:
    return {"asked": "ada@shop.example"}


def _new_connection(_scene: Scene) -> dict[str, Any]:
    return {"kind": "brevo", "name": "Another account", "api_key": "not-a-real-credential"}


def _credential(_scene: Scene) -> dict[str, Any]:
    return {"token": "another-credential"}


def _confirmed(_scene: Scene) -> dict[str, Any]:
    return {"confirm": "on"}


def _typed_name(scene: Scene) -> dict[str, Any]:
    return {"typed": scene.sync.source.name}


def _new_sync(scene: Scene) -> dict[str, Any]:
    ends = {"source": scene.sync.source_id, "destination": scene.sync.destination_id}
    return {"name": "Another sync", "stream": "customers", "list_id": "44", **ends}


def _older_draft(scene: Scene) -> dict[str, Any]:
    return {"revision": scene.sync.draft_revision}


def _schedule(_scene: Scene) -> dict[str, Any]:
    return {"every": "60", "active": "on", "save": "1"}


# --- The table --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Row:
    """What each of the cast gets, in its order, for a GET and for a POST of ``posted``.

    A GET changes nothing for anybody; a POST that is answered with `done` changes something, unless it is ``quiet``.
    """

    get: tuple[int, ...]
    post: tuple[int, ...]
    posted: Callable[[Scene], dict[str, Any]] = field(default=_nothing)
    done: int = 302
    quiet: bool = False


#              publisher editor operator viewer stranger nobody clerk anonymous superuser
READ = (200, 200, 200, 200, 404, 404, 404, LOGIN, 200)
EDITORS_READ = (200, 200, 403, 403, 404, 404, 404, LOGIN, 200)
PUBLISHERS_READ = (200, 403, 403, 403, 404, 404, 404, LOGIN, 200)
OPERATE = (302, 302, 302, 403, 404, 404, 404, LOGIN, 302)
EDIT = (302, 302, 403, 403, 404, 404, 404, LOGIN, 302)
PUBLISH = (302, 403, 403, 403, 404, 404, 404, LOGIN, 302)
NOT_SO = (405,) * 7 + (LOGIN, 405)
"""Not with this method, whoever asks."""
OWN = (200,) * 7 + (LOGIN, 200)
"""Everybody's own."""
OWN_NOTHING = (404,) * 7 + (LOGIN, 404)
SUPERUSERS = (404,) * 7 + (LOGIN, 200)


def said(statuses: tuple[int, ...], **changed: int) -> tuple[int, ...]:
    """The same with other statuses for the done: ``done=422``."""
    return tuple(
        changed["done"] if status == 302 and who != "anonymous" else status
        for status, who in zip(statuses, CAST, strict=True)
    )


def reads() -> Row:
    return Row(READ, NOT_SO)


def acts(statuses: tuple[int, ...], posted: Callable[[Scene], dict[str, Any]] = _nothing, **more: Any) -> Row:
    return Row(NOT_SO, statuses, posted, **more)


MAP: dict[str, Row] = {
    # The door and one's own account.
    "login": Row((302,) * 7 + (200, 302), (302,) * 7 + (200, 302), quiet=True),
    "admin-login": Row((403,) * 7 + (LOGIN, 403), (405,) * 9),
    "second-step": Row((302,) * 9, (302,) * 9, quiet=True),
    "logout": Row((405,) * 9, (302,) * 9, quiet=True),
    "set_language": Row((302,) * 9, (302,) * 9, quiet=True),
    "account": Row(OWN, NOT_SO),
    "second-factor": Row(OWN, NOT_SO),
    "second-factor-begin": acts((302,) * 9),
    "second-factor-confirm": acts(OWN_NOTHING),
    "recovery-codes": acts(OWN_NOTHING),
    "second-factor-remove": acts(OWN_NOTHING),
    "second-factors": Row(SUPERUSERS, NOT_SO),
    "second-factor-reset": acts((404,) * 7 + (LOGIN, 302), _reason),
    "view-as": acts((403, 403, 403, 403, 404, 404, 404, LOGIN, 302), _reason),
    "stop-viewing": acts(OWN_NOTHING),
    # A workspace's pages.
    "index": Row((302, 302, 302, 302, 302, 200, 200, LOGIN, 200), NOT_SO),
    **{name: reads() for name in ("workspace", "sync", "run", "preview", "activity", "deed", "runs", "consent")},
    **{name: reads() for name in ("runs-csv", "runs-json", "consent-csv", "run-json", "records", "recovery")},
    "trace": Row(READ, READ, _asked, done=200, quiet=True),
    # Its acts.
    "draft": Row(EDITORS_READ, EDIT, _changed_draft),
    "run-now": acts(OPERATE),
    "pause": acts(OPERATE, _reason),
    "previews": acts(EDIT),
    "publish": acts(PUBLISH, _digest),
    "run-again": acts(OPERATE),
    "retry-failed": acts(OPERATE, _reason),
    "cancel": acts(OPERATE, _reason, quiet=True),
    "cursor-plan": acts(said(OPERATE, done=422)),
    "cursor-reset": acts(PUBLISH, _cursor),
    "take-over": acts(OPERATE, _reason),
    "records-retry": acts(OPERATE, _record),
    "set-aside": acts(OPERATE, _record),
    # Connections and a new sync.
    "connections": reads(),
    "connection": reads(),
    "connection-new": Row(PUBLISHERS_READ, PUBLISH, _new_connection),
    "connection-test": acts(OPERATE),
    "connection-next": acts(PUBLISH, _credential),
    "connection-next-test": acts(PUBLISH),
    "connection-switch": acts(PUBLISH, _confirmed),
    "connection-next-drop": acts(PUBLISH),
    "connection-disconnect": Row(PUBLISHERS_READ, PUBLISH, _typed_name),
    "sync-new": Row(EDITORS_READ, EDIT, _new_sync),
    # Versions and the schedule.
    "versions": reads(),
    "version": reads(),
    # The draft is what this version says already.
    "version-draft": acts(EDIT, _older_draft, quiet=True),
    "schedule": Row(READ, EDIT, _schedule),
}


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def scene(db: None) -> Scene:
    factories.clock_stands_at()
    sync = factories.healthy()
    other = factories.healthy(factories.workspace("Other"))
    people = {role.value: factories.member(sync.workspace, role, role.value) for role in Role}
    people["stranger"] = factories.member(other.workspace, Role.PUBLISHER, "stranger")
    people["nobody"] = factories.user("nobody")
    people["clerk"] = factories.user("clerk", is_staff=True)
    people["superuser"] = factories.superuser("superuser")
    run = sync.runs.get()
    _furnish(sync, run)
    holder = factories.user("holder")
    TOTPDevice.objects.create(user=holder, name="Authenticator", confirmed=True)
    return Scene(sync, run, factories.preview(sync, by=people["publisher"]), people, holder)


async def _answered(*_given: Any) -> Identity:
    return memory.an_identity(("read_customers", "read_orders"))


def _furnish(sync: Sync, run: Run) -> None:
    """One row at least of everything that has a page."""
    factories.next_credential(sync.source)
    factories.attempt(run)
    factories.occurrence(run, factories.NOW)
    factories.cursor(sync)
    factories.delivery(run, "contact:1")
    factories.delivery(run, "contact:2", DeliveryState.FAILED, code="rejected", record="2")
    factories.tombstone(sync, "contact:1")
    factories.finding(sync)
    factories.audit(sync)
    Group.objects.get_or_create(name="Vigil viewers")
    Coverage.objects.create(
        sync=sync, lane="scheduled", run=run, until=factories.NOW, records=1, proved_at=factories.NOW
    )
    Objection.objects.create(sync=sync, record="3", address_key="0" * 64, code="unsubscribed", seen_at=factories.NOW)
    Suppression.objects.create(workspace=sync.workspace, address_key="0" * 64, reason="gone", seen_at=factories.NOW)
    Beat.objects.create(kind="tick", holder="a test", at=factories.NOW)
    lease = factories.lease(run, renewed=factories.NOW - factories.timedelta(hours=1))
    assert lease.expires_at < factories.NOW


UNWATCHED = frozenset({"django_session", "vigil_clock"})
"""Who is logged in, and the clock that tests move."""


def state_of_the_house() -> list[tuple[Any, ...]]:
    """Every table: how many rows, and a digest over all of them."""
    tables = [name for name in connection.introspection.table_names() if name not in UNWATCHED]
    one = "SELECT '{0}', count(*), md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM \"{0}\" t"
    with connection.cursor() as cursor:
        # In order: the server may look at tables side by side.
        cursor.execute(" UNION ALL ".join(one.format(table) for table in sorted(tables)) + " ORDER BY 1")
        return [tuple(row) for row in cursor.fetchall()]


def browser(scene: Scene, who: str) -> Client:
    client = Client(raise_request_exception=False)
    if who != "anonymous":
        client.force_login(scene.people[who])
    return client


def changed(before: list[tuple[Any, ...]]) -> list[str]:
    """The tables that are not as they were."""
    return [now[0] for now, then in zip(state_of_the_house(), before, strict=True) if now != then]


def asked(client: Client, path: str, posted: dict[str, Any] | None) -> tuple[int, str]:
    """The status, and where it leads."""
    answer = client.get(path) if posted is None else client.post(path, posted)
    return answer.status_code, answer.headers.get("Location", "")


# --- The whole map ----------------------------------------------------------------------------------------------------
def test_every_address_has_a_row() -> None:
    assert {place.key for place in own()} - set(MAP) == set()
    assert set(MAP) - {place.key for place in own()} == set()


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("key", MAP)
def test_everybody_gets_exactly_what_their_role_allows(
    scene: Scene, key: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A real preview asks two other systems; here only who may ask for one matters.
    monkeypatch.setattr(services, "sync_preview", lambda actor, sync: factories.preview(sync, by=actor.user))
    monkeypatch.setattr(connections, "_identify", _answered)
    place = next(one for one in own() if one.key == key)
    row, path = MAP[key], scene.at(place)
    posted = None if method == "get" else row.posted(scene)
    clients = {who: browser(scene, who) for who in CAST}
    expected = dict(zip(CAST, row.get if method == "get" else row.post, strict=True))
    doers = [who for who in CAST if method == "post" and expected[who] == row.done and who != "anonymous"]
    before = state_of_the_house()
    found = {who: asked(clients[who], path, posted) for who in CAST if who not in doers}
    assert changed(before) == []
    for who in doers:
        with transaction.atomic():
            found[who] = asked(clients[who], path, posted)
            assert bool(changed(before)) is not row.quiet, who
            transaction.set_rollback(True)
    assert {who: status for who, (status, _to) in found.items()} == expected
    if place.name not in AT_THE_DOOR and expected["anonymous"] == LOGIN:
        assert found["anonymous"] == (LOGIN, f"/login/?next={path}")


AT_THE_DOOR = frozenset({"login", "admin-login", "second-step", "logout", "set_language"})
OPEN_TO_STAFF = {
    "admin:index": 200,
    "admin:search": 200,
    "admin:login": 403,
    "admin:logout": 405,
    "admin:password_change": 200,
    "admin:password_change_done": 200,
    "admin:jsi18n": 200,
}
"""What the admin shows to staff without a permission: nothing of anybody's. Whatever else there is says no."""


def tables_of_admin() -> list[str]:
    """The beginnings of the admin's addresses: one for each table, and those of none."""
    return sorted({_table(place) for place in of_admin()})


def _table(place: Place) -> str:
    found = re.match(r"admin/(syncs|auth)/\w+/", place.route)
    return found[0] if found else "admin/"


@pytest.mark.parametrize("table", tables_of_admin())
def test_nobody_from_outside_gets_anything_from_the_admin_and_staff_only_what_they_may(
    scene: Scene, table: str
) -> None:
    clients = {who: browser(scene, who) for who in (*OUTSIDE, "clerk", "superuser")}
    before = state_of_the_house()
    for place in (one for one in of_admin() if _table(one) == table):
        path = scene.at(place)
        for posted in (None, _reason(scene)):
            for who in () if place.name == "admin:login" else OUTSIDE:
                status, to = asked(clients[who], path, posted)
                assert (status, to.partition("?")[0]) in ((302, "/admin/login/"), (302, "/admin/")), (who, path)
            status, _to = asked(clients["clerk"], path, posted)
            assert status in (302, 403, 404, 405) or place.name in OPEN_TO_STAFF, (path, status)
        assert asked(clients["superuser"], path, None)[0] < 500, path
        # The door out is tried by everybody: back in, without a trace of it in any table that is watched.
        if place.name == "admin:logout":
            assert changed(before) == []
            clients = {who: browser(scene, who) for who in clients}
            before = state_of_the_house()
    assert changed(before) == []


@pytest.mark.parametrize("name", OPEN_TO_STAFF)
def test_what_is_open_to_staff_holds_nothing_of_a_workspace(scene: Scene, name: str) -> None:
    client = browser(scene, "clerk")
    answer = client.get(scene.path(name))
    assert answer.status_code == OPEN_TO_STAFF[name]
    text = answer.content.decode()
    assert scene.sync.name not in text and scene.sync.workspace.slug not in text


def test_no_address_takes_a_post_without_the_forms_token(scene: Scene) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(scene.people["superuser"])
    before = state_of_the_house()
    paths = [scene.at(place) for place in places()]
    assert {path: client.post(path, {}).status_code for path in paths} == dict.fromkeys(paths, 403)
    assert changed(before) == []


@pytest.mark.parametrize("who", ["stranger", "superuser"])
def test_another_workspaces_rows_are_not_found_under_ones_own_address(scene: Scene, who: str) -> None:
    """Nor for somebody who may see both: an address says one thing."""
    own_slug = scene.people["stranger"].memberships.get().workspace.slug
    theirs = scene.sync.workspace.slug
    client = browser(scene, who)
    before = state_of_the_house()
    inner = [place for place in places() if not place.is_admin and len(place.parts) > 1]
    assert len(inner) > 20
    for place in inner:
        path, row = scene.at(place).replace(f"/{theirs}/", f"/{own_slug}/"), MAP[place.key]
        if row.get != NOT_SO:
            assert client.get(path).status_code == 404, path
        if row.post != NOT_SO:
            assert client.post(path, row.posted(scene)).status_code == 404, path
    assert changed(before) == []


def test_a_preview_is_not_found_under_another_sync(scene: Scene) -> None:
    other = factories.sync(scene.sync.workspace)
    path = f"/w/{scene.sync.workspace.slug}/syncs/{other.pk}/preview/{scene.preview.pk}/"
    assert browser(scene, "publisher").get(path).status_code == 404


def test_a_digest_of_another_sync_publishes_nothing(scene: Scene) -> None:
    other = factories.sync(scene.sync.workspace, rule={**factories.CUSTOMERS, "list_id": 44})
    client = browser(scene, "publisher")
    before = state_of_the_house()
    path = f"/w/{scene.sync.workspace.slug}/syncs/{other.pk}/publish/"
    assert client.post(path, _digest(scene)).status_code == 409
    assert changed(before) == []


def test_what_does_not_exist_looks_like_what_is_not_yours(scene: Scene) -> None:
    stranger = browser(scene, "stranger")
    theirs, none = stranger.get(scene.path("sync")), stranger.get("/w/no-such-place/syncs/1/")
    assert theirs.status_code == none.status_code == 404
    token = re.compile(rb'name="(?:csrfmiddlewaretoken|next)" value="[^"]*"')
    assert token.sub(b"", theirs.content) == token.sub(b"", none.content)


def test_a_post_without_the_forms_token_is_told_why_it_is_refused(scene: Scene) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(scene.people["publisher"])
    answer = client.post(scene.path("pause"), _reason(scene))
    assert answer.status_code == 403
    assert "too old to be trusted" in answer.content.decode()


def test_somebody_who_was_locked_out_is_anonymous(scene: Scene) -> None:
    client = browser(scene, "publisher")
    User.objects.filter(pk=scene.people["publisher"].pk).update(is_active=False)
    assert client.get(scene.path("sync")).status_code == LOGIN


def test_log_in_leads_nowhere_else(scene: Scene) -> None:
    answer = Client().post(
        "/login/", {"username": "viewer", "password": factories.PASSWORD, "next": "https://elsewhere.example/"}
    )
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert browser(scene, "viewer").get("/logout/").status_code == 405


def test_the_page_names_the_role_that_lacks(scene: Scene) -> None:
    answer = browser(scene, "viewer").post(scene.path("pause"), _reason(scene))
    assert "This needs the role operator in ACME. Ask one of its publishers." in answer.content.decode()
