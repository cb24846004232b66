"""The trace page: a POST that changes nothing, an answer in a sentence, no address in anything it sends (UX, P4)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from syncs.domain import keys
from syncs.domain.lifecycle import DeliveryState
from syncs.models import AuditEntry, Delivery, Sync
from syncs.models.workspaces import Role
from tests import factories

ADDRESS = "Ada.Lovelace@Shop.example"


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def sync(db: None) -> Sync:
    factories.clock_stands_at()
    made = factories.healthy(factories.workspace(), name="Contacts")
    key = keys.address_key(made.workspace.address_secret(), ADDRESS)
    more: dict[str, Any] = {"record": "17", "address_key": key, "code": "no_date", "effect_key": ""}
    factories.delivery(made.runs.get(), "contact:17", DeliveryState.REFUSED, **more)
    return made


def path(sync: Sync) -> str:
    return reverse("trace", args=[sync.workspace.slug])


def member(sync: Sync, role: Role = Role.VIEWER) -> Client:
    client = Client()
    client.force_login(factories.member(sync.workspace, role))
    return client


def text_of(answer: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_it_lives_under_the_workspace(sync: Sync) -> None:
    assert path(sync) == f"/w/{sync.workspace.slug}/trace/"


def test_a_viewer_gets_the_sentence_first_then_the_steps(sync: Sync) -> None:
    answer = member(sync).post(path(sync), {"asked": ADDRESS})
    shown = text_of(answer)
    assert answer.status_code == 200
    sentence = "Refused on 8 Oct 2026 14:05 CEST: subscribed, but not since when."
    read = f"reading {Delivery.objects.get().delivery_key[:12]}"
    assert 0 < shown.index(sentence) < shown.index("Contacts, 17") < shown.index(read)
    assert "Ask these people to confirm once." in shown


@pytest.mark.parametrize("typed", [ADDRESS, f"{ADDRESS} and Bob@Shop.example", "Ada Lovelace", "+49 30 1234567"])
def test_what_was_typed_is_never_sent_back(sync: Sync, typed: str, caplog: pytest.LogCaptureFixture) -> None:
    answer = member(sync).post(path(sync), {"asked": typed})
    everything = answer.content.decode() + str(answer.headers) + caplog.text
    for part in ("lovelace", "bob@", "1234567"):
        assert part not in everything.lower()


def test_what_cannot_be_searched_for_is_told_at_the_field(sync: Sync) -> None:
    for typed, sentence in (("", "Write an e-mail address"), ("#1001", "The ledger keeps ids, not names")):
        answer = member(sync).post(path(sync), {"asked": typed})
        assert (answer.status_code, sentence in text_of(answer)) == (422, True)
        assert 'aria-invalid="true"' in answer.content.decode()


def test_the_box_alone_is_a_get_and_nothing_is_searched_by_address_of_a_page(sync: Sync) -> None:
    answer = member(sync).get(path(sync), {"asked": ADDRESS})
    assert answer.status_code == 200
    assert "Refused on" not in text_of(answer)
    assert answer.headers["Cache-Control"] == "max-age=0, no-cache, no-store, must-revalidate, private"


def test_a_stranger_finds_no_page_and_a_member_no_row_of_another_workspace(sync: Sync) -> None:
    other = factories.healthy(factories.workspace("Other"))
    stranger = member(other)
    for answer in (stranger.get(path(sync)), stranger.post(path(sync), {"asked": "17"})):
        assert answer.status_code == 404
    assert "Refused on" not in text_of(stranger.post(path(other), {"asked": "17"}))
    assert Client().post(path(sync), {"asked": "17"}).status_code == 302


def test_searching_changes_nothing_and_wants_the_forms_token(sync: Sync) -> None:
    before = (AuditEntry.objects.count(), Delivery.objects.count())
    client = member(sync)
    client.post(path(sync), {"asked": ADDRESS})
    assert (AuditEntry.objects.count(), Delivery.objects.count()) == before
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(factories.member(sync.workspace))
    assert strict.post(path(sync), {"asked": ADDRESS}).status_code == 403


def test_hostile_text_of_another_system_is_escaped(sync: Sync) -> None:
    row = {"record": "18", "code": "rejected", "sentence": "<script>alert(1)</script>"}
    factories.delivery(sync.runs.get(), "contact:18", DeliveryState.FAILED, **row)
    assert "<script>alert" not in member(sync).post(path(sync), {"asked": "18"}).content.decode()
