"""Every table: read-only but what a service can do, no secret anywhere, as many queries for many rows as for one."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from syncs.models import Beat, Connection, Coverage, Objection, Suppression, Sync
from tests import factories
from tests.factories import NOW
from tests.syncs.admin.cast import OURS, SECRET, SERVED, url


def test_every_table_of_ours_is_shown() -> None:
    assert set(OURS) <= set(admin.site._registry)


@pytest.mark.parametrize("model", OURS)
def test_lists_and_rows_open_and_hold_no_secret(sync: Sync, root: Client, model: Any) -> None:
    row = model.objects.first()
    assert row is not None
    for address in (url(model, "changelist"), url(model, "changelist") + "?q=1001", url(model, "change", row.pk)):
        answer = root.get(address)
        html = answer.content.decode()
        assert answer.status_code == 200, address
        assert SECRET not in html
        assert "sealed" not in html.lower()
        assert Connection.objects.first().fingerprint not in html


@pytest.mark.parametrize("model", [model for model in OURS if model not in SERVED])
def test_what_has_no_service_is_read_only(sync: Sync, root: Client, model: Any) -> None:
    row = model.objects.first()
    before = list(model.objects.values())
    assert root.get(url(model, "add")).status_code == 403
    assert root.post(url(model, "add"), {}).status_code == 403
    assert root.post(url(model, "change", row.pk), {"name": "mine", "state": "published"}).status_code == 403
    assert root.get(url(model, "delete", row.pk)).status_code == 403
    assert root.post(url(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert root.post(url(model, "changelist"), chosen).status_code != 500
    assert list(model.objects.values()) == before


@pytest.mark.parametrize("model", sorted(SERVED, key=lambda model: model.__name__))
def test_nothing_is_deleted_here(sync: Sync, root: Client, model: Any) -> None:
    row = model.objects.first()
    assert root.post(url(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("model", OURS)
def test_a_list_takes_as_many_queries_for_many_rows_as_for_one(sync: Sync, root: Client, model: Any) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            root.get(url(model, "changelist"))
        return len(queries)

    asked()
    for_one = asked()
    for number in range(3):
        other = factories.healthy(factories.workspace(f"Other {number}"))
        run = other.runs.get()
        factories.attempt(run)
        factories.occurrence(run, NOW)
        factories.lease(run)
        factories.preview(other)
        factories.delivery(run, f"contact:{number}")
        factories.tombstone(other, "contact:1")
        factories.cursor(other)
        factories.finding(other)
        factories.audit(other)
        factories.member(other.workspace)
        Objection.objects.create(sync=other, record="1", address_key="e" * 64, code="unsubscribed", seen_at=NOW)
        Beat.objects.create(kind="worker", holder=f"host:{number}:1", at=NOW)
        Suppression.objects.create(workspace=other.workspace, address_key="f" * 64, reason="redacted", seen_at=NOW)
        Coverage.objects.create(sync=other, lane="scheduled", run=run, until=NOW, records=1, proved_at=NOW)
    assert asked() == for_one
