"""Two people at one sync, and what a test of the destination leaves for the draft (PRODUCT 6.5; Case PUB-05)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from connectors import sandbox
from syncs import services
from syncs.errors import NameTaken, RuleInvalid
from syncs.models import AuditEntry, Sync, Version, Workspace
from syncs.models.workspaces import Role
from tests import factories
from tests.factories import NOW


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def place(db: None) -> Workspace:
    factories.clock_stands_at()
    return factories.workspace()


def browser(place: Workspace, name: str, role: Role = Role.PUBLISHER) -> Client:
    client = Client()
    client.force_login(factories.member(place, role, name))
    return client


def path(sync: Sync, *more: object) -> str:
    return "/".join(["", "w", sync.workspace.slug, "syncs", str(sync.pk), *map(str, more), ""])


def test_who_publishes_second_is_told_who_was_first_and_nothing_is_published_twice(place: Workspace) -> None:
    sync = factories.sync(place)
    preview = factories.preview(sync)
    ada, bo = browser(place, "ada"), browser(place, "bo")
    bo.post(path(sync, "publish"), {"digest": preview.digest, "confirm": "on"})
    answer = ada.post(path(sync, "publish"), {"digest": preview.digest, "confirm": "on"}, follow=True)
    assert "bo published exactly this before you, as version 1" in answer.content.decode()
    assert [version.publisher_label for version in Version.objects.all()] == ["bo"]
    assert AuditEntry.objects.filter(action="sync.published").count() == 1


def test_a_preview_of_a_draft_that_went_there_and_back_is_stale_though_its_digest_is_the_same(place: Workspace) -> None:
    """Case PUB-05: what was seen is a revision, not only a text."""
    sync = factories.sync(place)
    preview = factories.preview(sync)
    bo = browser(place, "bo", Role.EDITOR)
    for number in ("13", "12"):
        bo.post(path(sync, "draft"), factories.posted_draft(sync, list_id=number))
        sync.refresh_from_db()
    assert factories.digest(sync) == preview.digest
    answer = browser(place, "ada").post(path(sync, "publish"), {"digest": preview.digest, "confirm": "on"})
    assert answer.status_code == 409
    assert "Changed by bo at 14:05 CEST since this preview. Preview it again." in answer.content.decode()
    assert not Version.objects.exists()


def test_the_time_of_another_persons_save_is_on_the_workspaces_clock(place: Workspace) -> None:
    """Case UI-01."""
    sync = factories.published(place)
    browser(place, "bo", Role.EDITOR).post(path(sync, "draft"), factories.posted_draft(sync, list_id="22"))
    answer = browser(place, "ada").post(path(sync, "draft"), factories.posted_draft(sync, list_id="21"))
    assert "bo saved this draft at 14:05 CEST while you were editing." in answer.content.decode()


def test_a_name_is_given_once_in_a_workspace_and_a_sync_reads_from_a_source(place: Workspace) -> None:
    sync = factories.sync(place, name="Contacts")
    ends = {"source": sync.source, "destination": sync.destination}
    with pytest.raises(NameTaken, match="Contacts already"):
        services.sync_create(services.vigil(), place, name="Contacts", rule=factories.CUSTOMERS, **ends)
    swapped = {"source": sync.destination, "destination": sync.source}
    with pytest.raises(RuleInvalid, match="choose one of each"):
        services.sync_create(services.vigil(), place, name="Back", rule=factories.CUSTOMERS, **swapped)
    assert Sync.objects.count() == 1


# --- The destination's attributes -------------------------------------------------------------------------------------
@pytest.fixture
def brevo() -> Iterator[sandbox.Served]:
    with sandbox.serving("brevo", api_key="xkeysib-kept") as served:
        yield served
    cache.clear()


def test_what_a_test_was_told_helps_the_draft_while_the_vendor_is_silent(
    place: Workspace, brevo: sandbox.Served
) -> None:
    end = factories.connection(place, "brevo", secrets={"api_key": "xkeysib-kept"}, options={"base_url": brevo.url})
    sync = factories.sync(place, destination=end)
    services.connection_test(services.vigil(), end)
    end.refresh_from_db()
    assert {"FIRSTNAME", "LASTNAME"} <= set(end.last_test["attributes"])
    assert end.last_test["attributes_at"] == end.last_test["at"]
    end.options = {"base_url": "http://127.0.0.1:9"}
    end.save()
    html = browser(place, "ada").get(path(sync, "draft")).content.decode()
    suggested = re.findall(r'<datalist id="destination-fields">(.*?)</datalist>', html)
    assert suggested and 'value="FIRSTNAME"' in suggested[0]


def test_a_test_that_fails_forgets_no_attributes(place: Workspace, brevo: sandbox.Served) -> None:
    end = factories.connection(place, "brevo", secrets={"api_key": "xkeysib-wrong"}, options={"base_url": brevo.url})
    end.last_test = {"attributes": {"CITY": "text"}, "attributes_at": NOW.isoformat()}
    end.save()
    with pytest.raises(Exception, match="Brevo"):
        services.connection_test(services.vigil(), end)
    end.refresh_from_db()
    assert (end.last_test["ok"], end.last_test["attributes"]) == (False, {"CITY": "text"})
