"""The pages of connections and of a new sync: what they show, what they never show, what they make (UX, P10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from connectors import sandbox
from syncs.models import Connection, Sync, Workspace
from syncs.models.workspaces import Role
from tests import factories
from tests.factories import NOW, SOURCE_ACCOUNT
from tests.syncs.test_views import faults

TOKEN = "shpat_of_a_page"
WRONG = "shpat_that_is_wrong"


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture(scope="module")
def shop() -> Iterator[sandbox.Served]:
    with sandbox.serving("shopify", token=TOKEN, domain="acme.myshopify.com") as served:
        yield served


@pytest.fixture
def place(db: None) -> Workspace:
    factories.clock_stands_at()
    return factories.workspace()


def browser(place: Workspace, role: Role = Role.PUBLISHER) -> Client:
    client = Client()
    client.force_login(factories.member(place, role))
    return client


def path(place: Workspace, *more: object) -> str:
    return "/".join(["", "w", place.slug, "connections", *map(str, more), ""])


def text(answer: Any) -> str:
    return str(answer.content.decode())


def posted(shop: sandbox.Served, **more: str) -> dict[str, str]:
    given = {"kind": "shopify", "name": "Shop", "domain": "acme.myshopify.com", "token": TOKEN, "base_url": shop.url}
    return {**given, **more}


# --- Making -----------------------------------------------------------------------------------------------------------
def test_a_connection_is_tested_as_soon_as_it_is_saved_and_shows_no_secret(
    place: Workspace, shop: sandbox.Served
) -> None:
    client = browser(place)
    assert faults(client.get(path(place, "new"))) == []
    form = client.get(path(place, "new") + "?kind=shopify")
    assert faults(form) == []
    assert 'type="password" name="token"' in text(form).replace("\n", " ")
    answer = client.post(path(place, "new"), posted(shop), follow=True)
    made = Connection.objects.get()
    assert answer.redirect_chain == [(path(place, made.pk), 302)]
    assert faults(answer) == []
    assert made.is_proved and made.last_test is not None
    page = text(answer)
    assert "Shopify answers: acme.myshopify.com" in page
    assert TOKEN not in page and made.fingerprint not in page
    assert made.key_id in page


def test_what_cannot_be_a_connection_says_so_at_its_field_and_keeps_no_secret(
    place: Workspace, shop: sandbox.Served
) -> None:
    client = browser(place)
    answer = client.post(path(place, "new"), posted(shop, domain="acme.example"))
    assert answer.status_code == 422
    assert 'id="id_domain-error"' in text(answer) and "must end in .myshopify.com" in text(answer)
    assert TOKEN not in text(answer)
    assert faults(answer) == []
    assert not Connection.objects.exists()


def test_a_credential_that_the_vendor_refuses_is_kept_and_told(place: Workspace, shop: sandbox.Served) -> None:
    answer = browser(place).post(path(place, "new"), posted(shop, token=WRONG), follow=True)
    made = Connection.objects.get()
    assert (made.is_proved, made.last_test["ok"]) == (False, False)  # type: ignore[index]
    assert "The test failed:" in text(answer) and "Does not work" in text(answer)
    assert WRONG not in text(answer)


# --- Showing ----------------------------------------------------------------------------------------------------------
def test_a_list_with_nothing_in_it_leads_on(place: Workspace) -> None:
    answer = browser(place).get(path(place))
    assert faults(answer) == []
    assert "Nothing is connected yet." in text(answer) and path(place, "new") in text(answer)
    assert path(place, "new") not in text(browser(place, Role.EDITOR).get(path(place)))


def test_the_list_says_whose_each_is_and_who_uses_it(place: Workspace) -> None:
    sync = factories.published(place)
    Connection.objects.filter(pk=sync.source_id).update(label="ACME Shop", account=SOURCE_ACCOUNT)
    page = text(browser(place, Role.VIEWER).get(path(place)))
    for shown in ("ACME Shop", SOURCE_ACCOUNT, "Not tested", sync.name, "never"):
        assert shown in page


def test_a_next_credential_of_another_account_lists_what_would_stand_still(place: Workspace) -> None:
    sync = factories.published(place)
    factories.next_credential(sync.source, account="other")
    client = browser(place)
    page = client.get(path(place, sync.source_id))
    assert faults(page) == []
    assert "These syncs stand still until they are published again:" in text(page)
    refused = client.post(path(place, sync.source_id, "next", "switch"))
    assert refused.status_code == 409
    assert "belongs to another account, so it needs a new publication." in text(refused) or "other scopes" in text(
        refused
    )
    assert faults(refused) == []
    done = client.post(path(place, sync.source_id, "next", "switch"), {"confirm": "on"}, follow=True)
    assert f"Switched. {sync.name} stands still until it is published again." in text(done)
    sync.refresh_from_db()
    assert sync.state == "edited"


def test_rotating_through_the_page(place: Workspace, shop: sandbox.Served) -> None:
    client = browser(place)
    client.post(path(place, "new"), posted(shop))
    made = Connection.objects.get()
    answer = client.post(path(place, made.pk, "next"), {"token": WRONG}, follow=True)
    assert "The next credential does not work:" in text(answer)
    assert WRONG not in text(answer)
    answer = client.post(path(place, made.pk, "next"), {"token": TOKEN}, follow=True)
    assert "The next credential stands for the same." in text(answer)
    assert "Same account, same scopes: every publication stands" in text(answer)
    assert faults(answer) == []
    answer = client.post(path(place, made.pk, "next", "switch"), follow=True)
    assert "Switched. The old credential is dropped here" in text(answer)
    made.refresh_from_db()
    assert (made.secrets(), bytes(made.next_sealed)) == ({"token": TOKEN}, b"")


# --- Disconnecting ----------------------------------------------------------------------------------------------------
def test_disconnecting_lists_what_it_stops_and_wants_the_name_typed(place: Workspace) -> None:
    sync = factories.published(place)
    client = browser(place)
    where = path(place, sync.source_id, "disconnect")
    asked = client.get(where)
    assert faults(asked) == []
    assert sync.name in text(asked)
    wrong = client.post(where, {"typed": "something else"})
    assert wrong.status_code == 422 and "exactly. Nothing was disconnected." in text(wrong)
    sync.refresh_from_db()
    assert sync.state == "published"
    done = client.post(where, {"typed": sync.source.name}, follow=True)
    assert "Disconnected. The credential is wiped, and 1 sync is paused." in text(done)
    assert faults(done) == []
    sync.refresh_from_db()
    assert sync.state == "paused"


# --- A new sync -------------------------------------------------------------------------------------------------------
def test_an_empty_workspace_leads_to_a_new_sync_which_leads_to_its_ends(place: Workspace) -> None:
    client = browser(place, Role.EDITOR)
    assert f"/w/{place.slug}/syncs/new/" in text(client.get(f"/w/{place.slug}/"))
    page = client.get(f"/w/{place.slug}/syncs/new/")
    assert faults(page) == []
    assert "A sync needs two ends." in text(page) and path(place) in text(page)


@pytest.mark.parametrize(("stream", "listed"), [("customers", 12), ("orders", None)])
def test_a_new_sync_is_a_draft_and_leads_there(place: Workspace, stream: str, listed: int | None) -> None:
    source, destination = factories.connection(place), factories.connection(place, "brevo")
    client = browser(place, Role.EDITOR)
    given = {"name": "Newsletter", "stream": stream, "source": source.pk, "destination": destination.pk}
    assert faults(client.get(f"/w/{place.slug}/syncs/new/")) == []
    answer = client.post(f"/w/{place.slug}/syncs/new/", {**given, "list_id": "12"})
    made = Sync.objects.get()
    assert answer.headers["Location"] == f"/w/{place.slug}/syncs/{made.pk}/draft/"
    assert (made.state, made.source, made.destination) == ("draft", source, destination)
    assert (made.draft["stream"], made.draft["list_id"]) == (stream, listed)
    again = client.post(f"/w/{place.slug}/syncs/new/", {**given, "list_id": "12"})
    assert again.status_code == 422 and "a sync of that name already" in text(again)


def test_contacts_want_a_list_and_ends_are_of_this_workspace_and_connected(place: Workspace) -> None:
    theirs = factories.connection(factories.workspace("Other"))
    gone = factories.connection(place, disconnected_at=NOW)
    factories.connection(place)
    destination = factories.connection(place, "brevo")
    client = browser(place, Role.EDITOR)
    for source in (theirs, gone):
        given = {"name": "x", "stream": "customers", "source": source.pk, "destination": destination.pk}
        answer = client.post(f"/w/{place.slug}/syncs/new/", given)
        assert answer.status_code == 422
        assert 'id="id_source-error"' in text(answer) and "Say which list" in text(answer)
        assert faults(answer) == []
    assert not Sync.objects.exists()
