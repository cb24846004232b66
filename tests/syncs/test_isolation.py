"""Who may see and do what, over the whole map of addresses (PRODUCT 10.1). Denied also means: nothing changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.forms.models import model_to_dict
from django.test import Client

from syncs import services, urls
from syncs.models import AuditEntry, Membership, Preview, Run, Sync, Version
from syncs.models.workspaces import Role
from tests import factories

CAST = ("publisher", "editor", "operator", "viewer", "stranger", "nobody", "anonymous", "superuser")
LOGIN = 302
"""An anonymous person is led to the log-in page."""


@dataclass(frozen=True)
class Address:
    """One address, one method, and the exact status for each of the cast."""

    name: str
    method: str
    statuses: tuple[int, ...]
    post: Callable[[Scene], dict[str, Any]] | None = None

    @property
    def id(self) -> str:
        return f"{self.method} {self.name}"


@dataclass(frozen=True)
class Scene:
    """A workspace with a published sync, a run and a preview, and another workspace with the same."""

    sync: Sync
    run: Run
    preview: Preview
    people: dict[str, User]

    def path(self, name: str) -> str:
        slug, sync = self.sync.workspace.slug, self.sync.pk
        return {
            "index": "/",
            "workspace": f"/w/{slug}/",
            "sync": f"/w/{slug}/syncs/{sync}/",
            "run-now": f"/w/{slug}/syncs/{sync}/run/",
            "pause": f"/w/{slug}/syncs/{sync}/pause/",
            "draft": f"/w/{slug}/syncs/{sync}/draft/",
            "previews": f"/w/{slug}/syncs/{sync}/preview/",
            "preview": f"/w/{slug}/syncs/{sync}/preview/{self.preview.pk}/",
            "publish": f"/w/{slug}/syncs/{sync}/publish/",
            "run": f"/w/{slug}/runs/{self.run.pk}/",
        }[name]


def _reason(_scene: Scene) -> dict[str, Any]:
    return {"reason": "The shop moves."}


def _changed_draft(scene: Scene) -> dict[str, Any]:
    return factories.posted_draft(scene.sync, list_id="13")


def _digest(scene: Scene) -> dict[str, Any]:
    return {"digest": scene.preview.digest}


def _nothing(_scene: Scene) -> dict[str, Any]:
    return {}


#                                    publisher editor operator viewer stranger nobody anonymous superuser
READ = (200, 200, 200, 200, 404, 404, LOGIN, 200)
EDITORS_READ = (200, 200, 403, 403, 404, 404, LOGIN, 200)
OPERATE = (302, 302, 302, 403, 404, 404, LOGIN, 302)
EDIT = (302, 302, 403, 403, 404, 404, LOGIN, 302)
PUBLISH = (302, 403, 403, 403, 404, 404, LOGIN, 302)
NO_POST = (405,) * 6 + (LOGIN, 405)
NO_GET = NO_POST

MAP = (
    Address("index", "get", (302, 302, 302, 302, 302, 200, LOGIN, 200)),
    Address("workspace", "get", READ),
    Address("sync", "get", READ),
    Address("run", "get", READ),
    Address("preview", "get", READ),
    Address("draft", "get", EDITORS_READ),
    Address("run-now", "post", OPERATE, _nothing),
    Address("pause", "post", OPERATE, _reason),
    Address("draft", "post", EDIT, _changed_draft),
    Address("previews", "post", EDIT, _nothing),
    Address("publish", "post", PUBLISH, _digest),
    *(Address(name, "get", NO_GET) for name in ("run-now", "pause", "previews", "publish")),
    *(Address(name, "post", NO_POST, _nothing) for name in ("index", "workspace", "sync", "run", "preview")),
)


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
    people["superuser"] = factories.superuser("superuser")
    return Scene(sync, sync.runs.get(), factories.preview(sync, by=people["publisher"]), people)


def state_of_the_house() -> list[Any]:
    """All that a person could have changed, and how much was written down."""
    rows = [model_to_dict(row) for row in Sync.objects.order_by("pk")]
    counted = [model.objects.count() for model in (AuditEntry, Run, Version, Preview, Membership)]
    return [*rows, *counted]


def browser(scene: Scene, who: str) -> Client:
    client = Client()
    if who != "anonymous":
        client.force_login(scene.people[who])
    return client


@pytest.mark.parametrize("who", CAST)
@pytest.mark.parametrize("address", MAP, ids=lambda address: address.id)
def test_everybody_gets_exactly_what_their_role_allows(
    scene: Scene, address: Address, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A real preview asks two other systems; here only who may ask for one matters.
    monkeypatch.setattr(services, "sync_preview", lambda actor, sync: factories.preview(sync, by=actor.user))
    before = state_of_the_house()
    client, path = browser(scene, who), scene.path(address.name)
    answer = client.get(path) if address.post is None else client.post(path, address.post(scene))
    expected = address.statuses[CAST.index(who)]
    assert answer.status_code == expected
    if who == "anonymous":
        assert answer.headers["Location"] == f"/login/?next={path}"
    done = address.post is not None and expected == 302 and who != "anonymous"
    assert (state_of_the_house() != before) is done


def test_the_matrix_covers_the_whole_map() -> None:
    assert {address.name for address in MAP} == {pattern.name for pattern in urls.urlpatterns}
    both = {(address.name, address.method) for address in MAP}
    assert {name for name, _ in both} == {name for name, method in both if method == "get"}
    assert {name for name, _ in both} == {name for name, method in both if method == "post"}


@pytest.mark.parametrize("who", ["stranger", "superuser"])
def test_another_workspaces_rows_are_not_found_under_ones_own_address(scene: Scene, who: str) -> None:
    """Nor for somebody who may see both: an address says one thing."""
    own = scene.people["stranger"].memberships.get().workspace.slug
    theirs = scene.sync.workspace.slug
    before = state_of_the_house()
    client = browser(scene, who)
    for name in ("sync", "draft", "preview", "run"):
        assert client.get(scene.path(name).replace(f"/{theirs}/", f"/{own}/")).status_code == 404
    for name, post in (("run-now", _nothing), ("pause", _reason), ("draft", _changed_draft), ("publish", _digest)):
        path = scene.path(name).replace(f"/{theirs}/", f"/{own}/")
        assert client.post(path, post(scene)).status_code == 404
    assert state_of_the_house() == before


def test_a_preview_is_not_found_under_another_sync(scene: Scene) -> None:
    other = factories.sync(scene.sync.workspace)
    path = f"/w/{scene.sync.workspace.slug}/syncs/{other.pk}/preview/{scene.preview.pk}/"
    assert browser(scene, "publisher").get(path).status_code == 404


def test_a_digest_of_another_sync_publishes_nothing(scene: Scene) -> None:
    other = factories.sync(scene.sync.workspace, rule={**factories.CUSTOMERS, "list_id": 44})
    before = state_of_the_house()
    path = f"/w/{scene.sync.workspace.slug}/syncs/{other.pk}/publish/"
    assert browser(scene, "publisher").post(path, _digest(scene)).status_code == 409
    assert state_of_the_house() == before


def test_what_does_not_exist_looks_like_what_is_not_yours(scene: Scene) -> None:
    stranger = browser(scene, "stranger")
    theirs, none = stranger.get(scene.path("sync")), stranger.get("/w/no-such-place/syncs/1/")
    assert theirs.status_code == none.status_code == 404
    token = re.compile(rb'name="csrfmiddlewaretoken" value="\w+"')
    assert token.sub(b"", theirs.content) == token.sub(b"", none.content)


def test_a_post_without_the_forms_token_is_refused(scene: Scene) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(scene.people["publisher"])
    before = state_of_the_house()
    for name, post in (("run-now", _nothing), ("pause", _reason), ("draft", _changed_draft), ("publish", _digest)):
        answer = client.post(scene.path(name), post(scene))
        assert answer.status_code == 403
        assert "too old to be trusted" in answer.content.decode()
    assert state_of_the_house() == before


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
