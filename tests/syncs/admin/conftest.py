"""One row of every table, and the browser of a superuser."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from syncs.domain.lifecycle import DeliveryState
from syncs.models import Beat, Coverage, Objection, Suppression, Sync
from syncs.models.workspaces import Role
from tests import factories
from tests.factories import NOW
from tests.syncs.admin.cast import SECRET, browser


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Any) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def sync(db: None) -> Sync:
    """One row of every table."""
    factories.clock_stands_at()
    place = factories.workspace()
    made = factories.healthy(place, source=factories.connection(place, secrets={"token": SECRET}))
    run = made.runs.get()
    factories.attempt(run)
    factories.occurrence(run, NOW)
    factories.lease(run)
    factories.preview(made)
    factories.delivery(run, "contact:1001", DeliveryState.REFUSED, code="no_date")
    factories.delivery(run, "contact:1002")
    factories.tombstone(made, "contact:1002")
    factories.cursor(made)
    factories.finding(made)
    factories.audit(made)
    factories.member(place, Role.EDITOR, "ada")
    Suppression.objects.create(workspace=place, address_key="f" * 64, reason="redacted", seen_at=NOW)
    Objection.objects.create(sync=made, record="1001", address_key="e" * 64, code="unsubscribed", seen_at=NOW)
    Coverage.objects.create(sync=made, lane="scheduled", run=run, until=NOW, records=250, proved_at=NOW)
    Beat.objects.create(kind="worker", holder="host/boot/space:1:1", at=NOW)
    return made


@pytest.fixture
def root(db: None) -> Client:
    return browser(factories.superuser("root"))
