"""The ledger: searched and filtered by indexes, never counted."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from syncs.models import Delivery, Sync
from tests.syncs.admin.cast import OURS, url


@pytest.mark.parametrize("name", ["delivery", "tombstone", "run", "auditentry", "occurrence", "suppression"])
def test_big_tables_are_never_counted(sync: Sync, root: Client, name: str) -> None:
    address = reverse(f"admin:syncs_{name}_changelist")
    with CaptureQueriesContext(connection) as queries:
        assert root.get(address).status_code == 200
        assert root.get(address + "?q=contact:1001").status_code == 200
    assert not [one["sql"] for one in queries if "count(" in one["sql"].lower()]


@pytest.mark.parametrize(
    ("term", "found"),
    [("1001", ["contact:1001"]), ("contact:1002", ["contact:1002"]), ("contact:100", []), ("nobody", [])],
)
def test_the_ledger_is_searched_by_record(sync: Sync, root: Client, term: str, found: list[str]) -> None:
    html = root.get(url(Delivery, "changelist"), {"q": term}).content.decode()
    assert [name for name in ("contact:1001", "contact:1002") if f">{name}</a>" in html] == found


def test_a_written_effect_is_found_by_the_beginning_of_its_key(sync: Sync, root: Client) -> None:
    key = Delivery.objects.get(object="contact:1002").effect_key
    html = root.get(url(Delivery, "changelist"), {"q": key[:12]}).content.decode()
    assert ">contact:1002</a>" in html
    assert ">contact:1001</a>" not in html


@pytest.mark.parametrize("term", ["contact:1001", "1001", "abcdef0123456789"])
def test_a_search_of_the_ledger_is_answered_by_an_index(sync: Sync, root: Client, term: str) -> None:
    """On a table that is worth an index; the small one of a test is read whole, and rightly."""
    with CaptureQueriesContext(connection) as queries:
        root.get(url(Delivery, "changelist"), {"q": term})
    statement = next(one["sql"] for one in queries if 'FROM "syncs_delivery"' in one["sql"])
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = on")
        cursor.execute(f"EXPLAIN {statement.replace('%', '%%')}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Seq Scan on syncs_delivery" not in plan
    assert "delivery_by_object" in plan or "delivery_written_once" in plan, plan


# --- At size ---------------------------------------------------------------------------------------------------------
ROWS = 300_000
FILL = """
INSERT INTO syncs_delivery (sync_id, run_id, lane, object, kind, append, effect_key, delivery_key, payload_digest, seq,
    read_no, fence, state, calls, code, sentence, address_key, destination_id, subject, record, event_name, granted,
    claimed_at, settled_at)
SELECT %s, %s, 'scheduled', 'contact:' || g, 'contact', false, md5(g::text) || md5(g::text), md5('d' || g),
    md5('p' || g), 1, 1, 1, CASE WHEN g %% 20 = 0 THEN 'refused' ELSE 'written' END, 1, '', '', '', '', '', '', '',
    true, vigil_now(), vigil_now()
FROM generate_series(2000, 2000 + %s) g
"""
EARLY = "UPDATE syncs_delivery SET state = %s WHERE object = %s"
READ_AT_MOST = 2_000
"""Rows that one list may look at, of hundreds of thousands."""


def looked_at(plan: dict[str, Any], table: str) -> int:
    """How many rows of ``table`` a plan's scans read, kept or not."""
    here = 0
    if plan.get("Relation Name") == table:
        read = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        here = int(read * plan["Actual Loops"])
    return here + sum(looked_at(one, table) for one in plan.get("Plans", ()))


@pytest.fixture
def large(sync: Sync) -> Sync:
    """A ledger of hundreds of thousands of rows, its few unhappy ones among the oldest."""
    run = sync.runs.get()
    with connection.cursor() as cursor:
        cursor.execute(FILL, [sync.pk, run.pk, ROWS])
        for number, state in enumerate(
            ("failed", "deferred", "set_aside", "in_doubt", "claimed", "sending", "superseded"), start=2001
        ):
            cursor.execute(EARLY, [state, f"contact:{number}"])
        cursor.execute("ANALYZE syncs_delivery")
    return sync


def test_at_hundreds_of_thousands_of_rows_no_list_reads_more_than_it_shows(large: Sync, root: Client) -> None:
    """Every state, every search, every page of the ledger."""
    states = [
        "may_be_stored",
        "failed",
        "deferred",
        "set_aside",
        "in_doubt",
        "claimed",
        "sending",
        "written",
        "refused",
    ]
    asked = [
        {},
        {"p": "3"},
        {"q": "contact:150000"},
        {"q": "150000"},
        {"q": "abcdef01"},
        {"sync": str(large.pk)},
        *({"state": state} for state in states),
        *({"state": state, "sync": str(large.pk)} for state in states),
    ]
    read = {str(one): most_looked_at(root, one) for one in asked}
    assert {one: rows for one, rows in read.items() if rows > READ_AT_MOST} == {}


def most_looked_at(root: Client, parameters: dict[str, str]) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert root.get(url(Delivery, "changelist"), parameters).status_code == 200
    statements = [one["sql"] for one in queries if 'FROM "syncs_delivery"' in one["sql"]]
    assert statements
    assert not [sql for sql in statements if "count(" in sql.lower()]
    with connection.cursor() as cursor:
        return max(_read_by(cursor, sql) for sql in statements)


def _read_by(cursor: Any, sql: str) -> int:
    cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql.replace('%', '%%')}")
    return looked_at(cursor.fetchone()[0][0]["Plan"], "syncs_delivery")


# --- What people type ------------------------------------------------------------------------------------------------
NONSENSE = ["'; DROP TABLE syncs_delivery; --", "%", "\\", "9" * 40, "-1", "½", "😀", "a:b:c", "x" * 5000, "{}"]


NAMES = ("q", "state", "sync", "health", "by", "due", "open", "p", "outcome")


@pytest.mark.parametrize("model", OURS)
def test_nonsense_in_an_address_breaks_nothing(sync: Sync, root: Client, model: Any) -> None:
    for text in NONSENSE:
        for asked in ({"q": text}, dict.fromkeys(NAMES, text), {name: text for name in NAMES if name != "p"}):
            assert root.get(url(model, "changelist"), asked).status_code in (200, 302), asked
    assert Delivery.objects.count() == 2
