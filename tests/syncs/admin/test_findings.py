"""Findings and the audit log: filtered, exported, never changed."""

from __future__ import annotations

import csv
import io
from typing import Any

from django.test import Client

from syncs.models import AuditEntry, Finding, Sync
from tests import factories
from tests.factories import NOW
from tests.syncs.admin.cast import browser, staff, url

EXPORT = "/admin/syncs/auditentry/export/"


def exported(client: Client, **asked: Any) -> list[dict[str, str]]:
    answer = client.get(EXPORT, asked)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))


def test_the_log_is_exported_as_it_is_filtered(sync: Sync, root: Client) -> None:
    bo = factories.user("bo")
    factories.audit(sync, "sync.paused", who="bo", actor=bo, reason='Moves, "now".', after={"a": 1})
    assert [row["action"] for row in exported(root)] == ["sync.paused", "sync.published"]
    assert [row["who"] for row in exported(root, by="vigil")] == ["Vigil"]
    row = exported(root, by=str(bo.pk))[0]
    assert row == {
        "number": str(AuditEntry.objects.latest("pk").pk),
        "at": NOW.isoformat(),
        "who": "bo",
        "action": "sync.paused",
        "subject": str(sync),
        "workspace": sync.workspace.slug,
        "reason": 'Moves, "now".',
        "before": "",
        "after": '{"a": 1}',
    }


def test_what_a_spreadsheet_would_take_for_a_formula_is_text(sync: Sync, root: Client) -> None:
    for reason in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1"):
        factories.audit(sync, reason=reason)
    assert {row["reason"][:1] for row in exported(root) if row["reason"]} == {"'"}


def test_the_export_needs_the_permission(sync: Sync) -> None:
    assert browser(staff("view_sync")).get(EXPORT).status_code == 403


def test_findings_are_listed_by_whether_they_are_resolved(sync: Sync, root: Client) -> None:
    factories.finding(sync, "version_drift", "Another version is served.", resolved_at=NOW)
    address = url(Finding, "changelist")
    opened, resolved = (root.get(address, {"open": one}).content.decode() for one in "10")
    assert ("The last run failed." in opened, "Another version" in opened) == (True, False)
    assert ("The last run failed." in resolved, "Another version" in resolved) == (False, True)
