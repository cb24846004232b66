"""The form, the preview's question, versions and the schedule: what they show, what they ask, what they change."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from connectors import sandbox
from syncs import services
from syncs.domain.lifecycle import SyncState
from syncs.models import AuditEntry, Preview, Schedule, Sync, Version, Workspace
from syncs.models.workspaces import Role
from tests import factories
from tests.factories import NOW
from tests.syncs.test_views import faults

VIP = {**factories.CUSTOMERS, "filter": "contains(tags, 'vip')", "consent": "confirmed"}


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def place(db: None) -> Workspace:
    factories.clock_stands_at()
    return factories.workspace()


def browser(place: Workspace, role: Role = Role.PUBLISHER, name: str = "") -> Client:
    client = Client()
    client.force_login(factories.member(place, role, name))
    return client


def path(sync: Sync, *more: object) -> str:
    return "/".join(["", "w", sync.workspace.slug, "syncs", str(sync.pk), *map(str, more), ""])


def text(answer: Any) -> str:
    """The page's words alone."""
    html = re.sub(r"<(head|script)\b.*?</\1>", "", answer.content.decode(), flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)))


def changed(sync: Sync, **rule: Any) -> Sync:
    """Save another draft, as the form does."""
    return services.sync_save_draft(services.vigil(), sync, rule={**sync.draft, **rule}, revision=sync.draft_revision)


def edited(place: Workspace, before: dict[str, Any] = VIP, **rule: Any) -> Sync:
    sync = factories.published(place, rule=before)
    changed(sync, **rule)
    sync.refresh_from_db()
    return sync


# --- The form ---------------------------------------------------------------------------------------------------------
def test_all_faults_are_told_at_once_with_a_link_to_each_field(place: Workspace) -> None:
    sync = factories.published(place)
    posted = factories.posted_draft(sync, list_id="0", filter="tags[", ratio="7", on_rejected="set_aside", cap="-1")
    rows = {
        "mapping-0-to": "EMAIL",
        "mapping-1-source": "upper(",
        "mapping-2-to": "TWO WORDS",
        "mapping-2-source": "id",
    }
    answer = browser(place).post(path(sync, "draft"), posted | rows)
    html = answer.content.decode()
    assert answer.status_code == 422
    told = re.findall(r'<li><a href="#([\w-]+)">', html)
    assert told == [
        "id_list_id",
        "id_mapping-0-to",
        "id_mapping-1-source",
        "id_mapping-2-to",
        "id_filter",
        "id_ratio",
        "id_cap",
    ]
    assert all(f'id="{one}"' in html for one in told)
    assert "7 things have to be corrected first. Your text is kept below." in text(answer)
    assert faults(answer) == []
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision) == ("published", 1)


def test_two_rows_for_one_field_are_a_fault_of_the_second(place: Workspace) -> None:
    sync = factories.published(place)
    posted = factories.posted_draft(sync, **{"mapping-2-to": "firstname", "mapping-2-source": "id"})
    answer = browser(place).post(path(sync, "draft"), posted)
    assert re.findall(r'<li><a href="#([\w-]+)">', answer.content.decode()) == ["id_mapping-2-to"]


@pytest.mark.parametrize(
    ("pressed", "targets"),
    [
        ({"add": "1"}, ["FIRSTNAME", "TYPED", "", ""]),
        ({"remove": "0"}, ["TYPED", ""]),
        ({"remove": "99"}, ["FIRSTNAME", "TYPED", ""]),
        ({"remove": "x"}, ["FIRSTNAME", "TYPED", "", ""]),
    ],
)
def test_rows_come_and_go_by_a_button_and_nothing_is_saved(
    place: Workspace, pressed: dict[str, str], targets: list[str]
) -> None:
    """UX, section 7: without JavaScript."""
    sync = factories.published(place)
    posted = factories.posted_draft(sync, **{"mapping-1-to": "TYPED", "filter": "half a filter ["}) | pressed
    answer = browser(place).post(path(sync, "draft"), posted)
    html = answer.content.decode()
    shown = re.findall(r'name="mapping-\d+-to"(?: value="([^"]*)")?', html)
    assert (answer.status_code, shown) == (200, targets)
    assert "half a filter [" in html
    assert faults(answer) == []
    sync.refresh_from_db()
    assert (sync.draft_revision, AuditEntry.objects.count()) == (1, 0)


@pytest.fixture
def brevo() -> Any:
    with sandbox.serving("brevo", api_key="xkeysib-form") as served:
        yield served
    cache.clear()


def _served(place: Workspace, brevo: sandbox.Served, *, proved: bool = True) -> Sync:
    options = {"base_url": brevo.url}
    end = factories.connection(place, "brevo", secrets={"api_key": "xkeysib-form"}, options=options)
    if proved:
        end.proved_at, end.proved_fingerprint = NOW, end.fingerprint
        end.save()
    return factories.sync(place, destination=end)


def _requests(brevo: sandbox.Served) -> Any:
    return brevo.control("summary")["requests"]


def test_the_destinations_own_attributes_are_suggested_and_asked_for_once(
    place: Workspace, brevo: sandbox.Served
) -> None:
    sync = _served(place, brevo)
    client = browser(place)
    first = client.get(path(sync, "draft"))
    asked = _requests(brevo)
    html = client.get(path(sync, "draft")).content.decode()
    assert _requests(brevo) == asked
    suggested = re.findall(r'<datalist id="destination-fields">(.*?)</datalist>', html)[0]
    assert 'value="FIRSTNAME"' in suggested
    assert 'list="destination-fields"' in html and 'list="source-fields"' in html
    assert '<option value="defaultAddress.city">City</option>' in html
    assert faults(first) == []


@pytest.mark.parametrize("proved", [True, False])
def test_a_destination_that_cannot_be_asked_leaves_free_text_and_says_so(
    place: Workspace, brevo: sandbox.Served, proved: bool
) -> None:
    sync = _served(place, brevo, proved=proved)
    sync.destination.options = {"base_url": "http://127.0.0.1:9"} if proved else sync.destination.options
    sync.destination.save()
    asked = _requests(brevo)
    answer = browser(place).get(path(sync, "draft"))
    assert _requests(brevo) == asked
    assert "Brevo could not be asked for its fields just now, so type their names." in text(answer)
    assert '<datalist id="destination-fields">' not in answer.content.decode()
    assert 'name="mapping-0-to" value="FIRSTNAME"' in answer.content.decode()


# --- What reaches further ---------------------------------------------------------------------------------------------
WIDER = [
    ({"filter": None}, "All records are taken: the filter is gone."),
    ({"filter": "tags"}, "Another filter may take records that were left out before."),
    ({"consent": "confirmed_or_single"}, "Weaker consent counts: single opt-in as well as confirmed opt-in."),
    ({"on_rejected": "set_aside"}, "More records that the destination rejects are set aside before a run stops."),
    (
        {"mapping": [*factories.CUSTOMERS["mapping"], {"to": "CITY", "source": "defaultAddress.city"}]},
        "A field is written anew: CITY.",
    ),
]


@pytest.mark.parametrize(("rule", "sentence"), WIDER)
def test_what_reaches_further_is_listed_and_not_published_without_a_tick(
    place: Workspace, rule: dict[str, Any], sentence: str
) -> None:
    sync = edited(place, **rule)
    preview = factories.preview(sync)
    client = browser(place)
    shown = client.get(path(sync, "preview", preview.pk))
    assert "It reaches further than version 1" in text(shown)
    assert sentence in text(shown)
    refused = client.post(path(sync, "publish"), {"digest": preview.digest, "reason": "Wider."})
    assert (refused.status_code, Version.objects.count()) == (422, 1)
    assert "Nothing was published: confirm first that it is to reach that far." in text(refused)
    assert 'value="Wider."' in refused.content.decode(), "what was typed is kept"
    assert faults(shown) == faults(refused) == []
    client.post(path(sync, "publish"), {"digest": preview.digest, "reason": "Wider.", "confirm": "on"})
    sync.refresh_from_db()
    assert (sync.state, sync.published and sync.published.number) == ("published", 2)


def test_what_reaches_less_far_is_published_without_a_question(place: Workspace) -> None:
    sync = edited(place, mapping=[], filter=VIP["filter"])
    preview = factories.preview(sync)
    client = browser(place)
    assert "It reaches further" not in text(client.get(path(sync, "preview", preview.pk)))
    assert client.post(path(sync, "publish"), {"digest": preview.digest}).status_code == 302
    assert Version.objects.count() == 2


def test_a_first_publication_says_what_it_begins_and_asks_nothing(place: Workspace) -> None:
    sync = factories.sync(place)
    preview = factories.preview(sync)
    client = browser(place)
    shown = text(client.get(path(sync, "preview", preview.pk)))
    assert "List 12 at Brevo: ACME (company-1) gets contacts of this sync for the first time." in shown
    assert "It reads 5,942 customers, from the beginning." in shown
    assert client.post(path(sync, "publish"), {"digest": preview.digest}).status_code == 302


def test_the_preview_says_the_difference_in_words_and_no_code(place: Workspace) -> None:
    sync = edited(place, consent="confirmed_or_single", mapping=[{"to": "CITY", "source": "city", "kind": "text"}])
    shown = text(browser(place).get(path(sync, "preview", factories.preview(sync).pk)))
    assert "Consent that counts as proof confirmed opt-in only single or confirmed opt-in" in shown
    assert "Field CITY not written city as text" in shown
    assert "Field FIRSTNAME firstName as text not written" in shown
    assert "confirmed_or_single" not in shown and "{" not in shown


def test_somebody_elses_save_comes_before_the_question(place: Workspace) -> None:
    """Case PUB-05: told by whom, with 409, though the tick is missing as well."""
    sync = edited(place, filter=None)
    preview = factories.preview(sync)
    bo = browser(place, Role.EDITOR, "bo")
    bo.post(path(sync, "draft"), factories.posted_draft(sync, list_id="14"))
    answer = browser(place).post(path(sync, "publish"), {"digest": preview.digest})
    assert (answer.status_code, Version.objects.count()) == (409, 1)
    assert "Changed by bo at 14:05 CEST since this preview. Preview it again." in text(answer)


# --- Versions ---------------------------------------------------------------------------------------------------------
def three(place: Workspace) -> Sync:
    """Versions 1 and 2, and 3 in force; two runs were under the first."""
    sync = factories.published(place, rule=VIP, at=NOW - timedelta(days=9))
    for _ in range(2):
        factories.run(sync)
    for days, rule in ((5, {"filter": None}), (2, {"consent": "confirmed_or_single"})):
        sync.draft = {**sync.draft, **rule}
        sync.published = factories.version(sync, at=NOW - timedelta(days=days), publisher=factories.user())
        sync.save()
    return sync


def test_versions_are_listed_newest_first_with_when_they_were_in_force(place: Workspace) -> None:
    sync = three(place)
    answer = browser(place, Role.VIEWER).get(path(sync, "versions"))
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", answer.content.decode(), flags=re.DOTALL)
    assert [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).split()[1] for row in rows] == ["3", "2", "1"]
    assert [re.findall(r'class="num"[^>]*>(\d+)<', row) for row in rows] == [["0"], ["0"], ["2"]]
    assert ["<span>In force</span>" in row for row in rows] == [True, False, False]
    assert [">now<" in row for row in rows] == [True, False, False]
    digest = sync.versions.get(number=1).digest
    assert f"{digest[:4]} {digest[4:8]} {digest[8:12]}" in rows[2]
    assert faults(answer) == []


@pytest.mark.parametrize(
    ("number", "other", "against", "said"),
    [
        (3, "", 2, "Consent that counts as proof confirmed opt-in only single or confirmed opt-in"),
        (2, "", 3, "Consent that counts as proof single or confirmed opt-in confirmed opt-in only"),
        (2, "1", 1, "Only records for which this holds contains(tags, 'vip') all records"),
    ],
)
def test_any_two_are_compared_and_live_or_previous_is_chosen_first(
    place: Workspace, number: int, other: str, against: int, said: str
) -> None:
    sync = three(place)
    answer = browser(place, Role.VIEWER).get(path(sync, "versions", number), {"with": other} if other else {})
    assert f'<option value="{against}" selected>' in answer.content.decode()
    assert said in text(answer)
    assert "confirmed_or_single" not in text(answer)
    assert faults(answer) == []


@pytest.mark.parametrize("query", ["99", "x", "-1", "9" * 30, "²"])
def test_a_comparison_with_what_is_not_there_says_so(place: Workspace, query: str) -> None:
    sync = three(place)
    client = browser(place)
    assert client.get(path(sync, "versions", 1), {"with": query}).status_code == 404
    assert client.get(path(sync, "versions", 99)).status_code == 404
    assert client.post(path(sync, "versions", 99, "draft"), {"revision": 1}).status_code == 404


def test_an_older_version_comes_back_as_a_draft_and_is_not_published(place: Workspace) -> None:
    """PRODUCT 6.2: an older one returns only through preview."""
    sync = three(place)
    answer = browser(place, Role.EDITOR).post(path(sync, "versions", 1, "draft"), {"revision": 1}, follow=True)
    assert answer.redirect_chain == [(path(sync, "draft"), 302)]
    assert "The draft is what version 1 says." in text(answer)
    sync.refresh_from_db()
    assert (sync.state, sync.draft["filter"], sync.draft["consent"]) == ("edited", VIP["filter"], "confirmed")
    assert (sync.published and sync.published.number, Version.objects.count(), Preview.objects.count()) == (3, 3, 0)


def test_a_draft_that_says_so_already_stays_published(place: Workspace) -> None:
    """Case PUB-10."""
    sync = three(place)
    browser(place).post(path(sync, "versions", 3, "draft"), {"revision": 1})
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision, AuditEntry.objects.count()) == ("published", 1, 0)


def test_a_draft_somebody_saved_meanwhile_is_not_replaced(place: Workspace) -> None:
    """Case PUB-05, PRODUCT 6.5."""
    sync = three(place)
    browser(place, Role.EDITOR, "bo").post(path(sync, "draft"), factories.posted_draft(sync, list_id="14"))
    answer = browser(place).post(path(sync, "versions", 1, "draft"), {"revision": 1})
    assert answer.status_code == 409
    assert "bo saved this draft at" in text(answer)
    sync.refresh_from_db()
    assert sync.draft["list_id"] == 14


def test_a_sync_without_versions_says_what_to_do(place: Workspace) -> None:
    answer = browser(place).get(path(factories.sync(place), "versions"))
    assert "Nothing has been published yet. Preview the draft, then publish exactly what you saw." in text(answer)
    assert faults(answer) == []


def test_after_a_pause_the_unchanged_rule_goes_on_from_the_draft_page(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PRODUCT 4.3: from the sync's page over the draft, saved without a change, to the preview and back to work."""
    monkeypatch.setattr(services, "sync_preview", lambda actor, sync: factories.preview(sync, made=NOW))
    sync = factories.published(place)
    services.sync_pause(services.vigil(), sync, reason="The shop moves.")
    client = browser(place)
    assert f'<a class="btn primary" href="{path(sync, "draft")}">' in client.get(path(sync)).content.decode()
    assert "It stands still, and its rule is unchanged." in text(client.get(path(sync, "versions")))
    shown = client.post(path(sync, "draft"), factories.posted_draft(sync, preview="1"), follow=True)
    preview = Preview.objects.get()
    assert shown.redirect_chain == [(path(sync, "preview", preview.pk), 302)]
    assert "It reaches further" not in text(shown)
    assert client.post(path(sync, "publish"), {"digest": preview.digest}).status_code == 302
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision, sync.published and sync.published.number) == ("published", 1, 2)


# --- The schedule -----------------------------------------------------------------------------------------------------
def test_the_next_ten_starts_are_shown_before_anything_is_saved(place: Workspace) -> None:
    sync = factories.published(place)
    posted = {"every": "other", "minutes": "90", "active": "on", "show": "1"}
    answer = browser(place, Role.EDITOR).post(path(sync, "schedule"), posted)
    html = answer.content.decode()
    starts = re.findall(r'<li><time datetime="([^"]+)"[^>]*>([^<]+)</time>', html)
    assert (answer.status_code, len(starts)) == (200, 10)
    offset = services.publishing.schedules.spread_offset(sync.pk, 90)
    every = services.publishing.schedules.Every(90, offset)
    first = services.publishing.schedules.next_start(every, NOW)
    assert [at for at, _ in starts] == [(first + timedelta(minutes=90) * n).isoformat() for n in range(10)]
    assert all("CEST" in shown for _, shown in starts)
    assert "Not saved yet." in text(answer)
    assert faults(answer) == []
    assert (Schedule.objects.get().every_minutes, AuditEntry.objects.count()) == (15, 0)


def test_saving_the_schedule_is_audited_and_leaves_the_publication_alone(place: Workspace) -> None:
    """PRODUCT 6.2, 8.1: it is no part of the digest."""
    sync = factories.published(place)
    posted = {"every": "60", "active": "on", "save": "1"}
    answer = browser(place, Role.EDITOR, "eda").post(path(sync, "schedule"), posted, follow=True)
    assert "It runs every hour from now on. What it may write is unchanged." in text(answer)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor_label, entry.after) == (
        "schedule.set",
        "eda",
        {"every_minutes": 60, "active": True},
    )
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision, sync.schedule.every_minutes) == ("published", 1, 60)


def test_a_schedule_that_is_switched_off_plans_nothing_and_says_so(place: Workspace) -> None:
    sync = factories.published(place)
    answer = browser(place).post(path(sync, "schedule"), {"every": "15", "save": "1"}, follow=True)
    assert "The schedule plans no starts from now on. A person can still start a run." in text(answer)
    assert not Schedule.objects.get().active


@pytest.mark.parametrize("minutes", ["0", "10081", "", "x", "1.5", "9" * 40])
def test_minutes_that_are_no_interval_are_told_at_the_field(place: Workspace, minutes: str) -> None:
    sync = factories.published(place)
    posted = {"every": "other", "minutes": minutes, "active": "on", "save": "1"}
    answer = browser(place).post(path(sync, "schedule"), posted)
    assert (answer.status_code, '<a href="#id_minutes">' in answer.content.decode()) == (422, True)
    assert faults(answer) == []
    assert Schedule.objects.get().every_minutes == 15


# --- Who may ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("more", [("draft",), ("versions", 1, "draft"), ("schedule",), ("preview",), ("publish",)])
def test_a_viewers_post_is_refused_and_changes_nothing(place: Workspace, more: tuple[object, ...]) -> None:
    sync = edited(place, filter=None)
    preview = factories.preview(sync)
    posted = factories.posted_draft(sync, list_id="44", every="60", digest=preview.digest, confirm="on")
    before = (AuditEntry.objects.count(), Version.objects.count(), Preview.objects.count())
    assert browser(place, Role.VIEWER).post(path(sync, *more), posted).status_code == 403
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision, sync.schedule.every_minutes) == (SyncState.EDITED, 2, 15)
    assert (AuditEntry.objects.count(), Version.objects.count(), Preview.objects.count()) == before


def test_an_editor_drafts_and_does_not_publish(place: Workspace) -> None:
    sync = edited(place, mapping=[])
    preview = factories.preview(sync)
    client = browser(place, Role.EDITOR)
    assert "It can be published by somebody with the role publisher." in text(
        client.get(path(sync, "preview", preview.pk))
    )
    assert client.post(path(sync, "publish"), {"digest": preview.digest}).status_code == 403
    assert Version.objects.count() == 1
