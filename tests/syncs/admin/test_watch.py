"""The admin's first page: what needs somebody, each number a link, and none of them green without being measured."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from syncs.models import Beat, Sync
from syncs.queries import watch
from tests.factories import NOW
from tests.syncs.admin.cast import browser, of_group, staff

TILE = re.compile(
    r'<a class="v-tile is-(\w+)" href="([^"]+)">.*?</span>([^<]+)</span>\s*<span class="v-value">([^<]*)</span>',
    re.DOTALL,
)


def tiles(client: Client) -> dict[str, tuple[str, str, str]]:
    """Title -> tone, value, link."""
    html = client.get("/admin/").content.decode()
    return {title: (tone, value, link) for tone, link, title, value in TILE.findall(html)}


def test_each_number_is_a_link_to_the_list_it_counts(sync: Sync, root: Client) -> None:
    Sync.objects.update(state="paused", paused_at=NOW - timedelta(hours=2))
    found = tiles(root)
    assert found["Paused"] == ("bad", "1", "/admin/syncs/sync/?health=paused")
    assert found["Failing"][:2] == ("quiet", "0")
    for _tone, _value, link in found.values():
        assert root.get(link.replace("&amp;", "&")).status_code == 200
    listed = root.get("/admin/syncs/sync/?health=paused").content.decode()
    assert sync.name in listed
    assert sync.name not in root.get("/admin/syncs/sync/?health=failing").content.decode()


def test_the_page_says_when_it_was_made_and_which_zone_data_it_has(sync: Sync, root: Client) -> None:
    html = root.get("/admin/").content.decode()
    assert "Measured at" in html
    assert "8 Oct 2026 12:05 UTC" in html
    assert re.search(r"Time zone data: tzdata 20\d\d\.\d+", html)


def test_what_cannot_be_measured_is_red_and_says_so(sync: Sync, root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never nought, never green."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE syncs_delivery")
    broken = watch._one("findings", "SELECT count(*), min(nothing) FROM no_such_table")
    monkeypatch.setattr(watch, "MEASURES", {**watch.MEASURES, "findings": broken})
    assert tiles(root)["Open findings"][:2] == ("bad", "Not measured")
    html = root.get("/admin/").content.decode()
    assert "1 number could not be measured. What is not measured is not well." in html
    assert re.search(r"<title>\s*1 number not measured \| Watch \| Vigil\s*</title>", html)


def test_without_zone_data_it_says_so(sync: Sync, root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "zone_data", lambda: None)
    assert "Time zone data: not measured." in root.get("/admin/").content.decode()


def test_workers_and_tick_are_red_when_they_fall_silent(sync: Sync, root: Client) -> None:
    assert tiles(root)["Workers alive"][:2] == ("ok", "1")
    assert tiles(root)["Last tick"][:2] == ("bad", "never")
    Beat.objects.create(kind="tick", holder="a", at=NOW - timedelta(minutes=9))
    Beat.objects.filter(kind="worker").update(at=NOW - timedelta(minutes=9))
    found = tiles(root)
    assert found["Workers alive"][:2] == ("bad", "0")
    assert found["Last tick"][:2] == ("bad", "9 minutes ago")


def test_staff_see_only_the_numbers_of_what_they_may_see(sync: Sync) -> None:
    assert set(tiles(browser(staff("view_finding")))) == {"Open findings"}
    nobody = browser(staff(name="nobody"))
    assert tiles(nobody) == {}
    assert "no group gives you anything to see yet" in nobody.get("/admin/").content.decode()


def test_only_what_is_seen_is_measured(sync: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = watch.measure
    monkeypatch.setattr(watch, "measure", lambda groups, now: asked.append(list(groups)) or real(groups, now))
    tiles(browser(staff("view_finding")))
    assert asked == [["findings"]]


def test_support_sees_no_ledger(sync: Sync) -> None:
    found = tiles(browser(of_group("Vigil support")))
    assert "Ledger" not in found
    assert "Paused" in found
