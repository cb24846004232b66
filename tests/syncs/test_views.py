"""The merchant's pages: what they show in every state, what they keep, what they never hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from connectors import sandbox
from syncs import services
from syncs.domain.lifecycle import DeliveryState, Outcome, RunState, SyncState, Verdict
from syncs.errors import DraftChanged
from syncs.models import AuditEntry, Preview, Run, Sync, Version, Workspace
from syncs.models.workspaces import Role
from syncs.views import shell
from tests import factories
from tests.factories import NOW

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"
MERCHANT_POLICY = "default-src 'none'"
OUR_SCRIPT = {"src": "/static/vigil.js"}
"""The only one, a file of our own: nothing inline (UX, section 7)."""


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


class Reader(HTMLParser):
    """Reads a page as a strict policy and a screen reader would."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.fields: list[tuple[str, dict[str, str | None]]] = []
        self.table: list[str] = []
        self.language = ""
        self.feed(html)
        self._judge()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if given.get("id") else []
        if tag in {"style", "base", "iframe", "object"} or (tag == "script" and given != OUR_SCRIPT):
            self.faults.append(f"holds <{tag}>")
        self.faults += [f"<{tag} {name}>" for name in given if name == "style" or name.startswith("on")]
        if tag == "html":
            self.language = given.get("lang") or ""
        if tag == "label":
            self.labelled.add(given.get("for") or "around")
        if tag in {"input", "textarea", "select"} and given.get("type") != "hidden":
            self.fields.append((tag, given))
        if tag == "table":
            self.table = ["table"]
        if tag == "caption":
            self.table.append("caption")
        if tag == "th" and given.get("scope") not in {"row", "col"}:
            self.faults.append("a heading cell without scope")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and "caption" not in self.table:
            self.faults.append("a table without caption")

    def _judge(self) -> None:
        if self.tags.count("h1") != 1:
            self.faults.append(f"{self.tags.count('h1')} h1")
        if self.tags.count("main") != 1 or self.language != "en":
            self.faults.append("no main, or no language")
        if len(set(self.ids)) != len(self.ids):
            self.faults.append(f"an id twice: {sorted(i for i in self.ids if self.ids.count(i) > 1)}")
        for tag, given in self.fields:
            if given.get("id") not in self.labelled and given.get("type") not in {"radio", "checkbox"}:
                self.faults.append(f"an unlabelled {tag} {given.get('name')}")


def faults(answer: Any) -> list[str]:
    return Reader(answer.content.decode()).faults


# --- Every state ------------------------------------------------------------------------------------------------------
def _running(place: Workspace) -> Sync:
    sync = factories.published(place, at=NOW - timedelta(hours=1))
    factories.open_run(sync, RunState.RUNNING, states={"written": 3}, created=NOW - timedelta(seconds=20))
    return sync


def _retrying(place: Workspace) -> Sync:
    sync = factories.healthy(place)
    due = NOW + timedelta(minutes=1)
    factories.open_run(sync, failures=1, due_after=due, error_code="unavailable", error_sentence="Brevo is down.")
    return sync


def _failing(place: Workspace) -> Sync:
    sync = factories.healthy(place)
    left = {"unchanged": 4, "refused": 218, "in_doubt": 3, "failed": 5, "not_yet_tried": 20}
    factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW, error_code="rejected", unsettled=left)
    return sync


def _paused(place: Workspace) -> Sync:
    sync = _failing(place)
    sync.state, sync.paused_at, sync.pause_sentence = SyncState.PAUSED.value, NOW, "Brevo refused the key (401)."
    sync.save()
    return sync


def _edited(place: Workspace) -> Sync:
    sync = factories.healthy(place)
    sync.state, sync.draft = SyncState.EDITED.value, {**sync.draft, "list_id": 13}
    sync.save()
    return sync


STATES: dict[str, tuple[Callable[[Workspace], Sync], str]] = {
    "Draft": (factories.sync, "Nothing runs yet."),
    "Waiting": (lambda place: factories.published(place, at=NOW), "No run yet. The first is planned for 14:15 CEST."),
    "Waiting (running)": (_running, "The first run since publishing is going on."),
    "Healthy": (factories.healthy, "Running on time. Brevo shows Shopify as of 14:00 CEST."),
    "Retrying": (_retrying, "Attempt 1 of 5 failed. The next one starts at 14:06 CEST."),
    "Failing": (_failing, "The last run failed at 14:05 CEST."),
    "Paused": (_paused, "Paused since 14:05 CEST. Nothing is lost."),
    "Edited, not published": (_edited, "The draft was changed."),
}


@pytest.mark.parametrize("word", STATES)
def test_the_sync_page_in_every_state(place: Workspace, word: str) -> None:
    maker, sentence = STATES[word]
    sync = maker(place)
    answer = browser(place).get(path(sync))
    html = answer.content.decode()
    assert answer.status_code == 200
    assert f"<title>{word.split(' (')[0]} - {sync.name} - ACME - Vigil</title>" in html
    assert sentence in html
    assert faults(answer) == []


@pytest.mark.parametrize("word", STATES)
def test_the_sync_page_takes_at_most_twelve_queries(
    place: Workspace, word: str, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    sync = STATES[word][0](place)
    for number in range(30):
        factories.audit(sync, at=NOW - timedelta(hours=number))
    client = browser(place)
    with django_assert_max_num_queries(12):
        client.get(path(sync))


def numbers(html: str) -> list[int]:
    """The counter line's numbers, the sum first."""
    line = re.search(r'<ul class="eq".*?</ul>', html, re.DOTALL)
    assert line is not None
    return [int(text.replace(",", "")) for text in re.findall(r"<b>([\d,]+)</b>", line[0])]


@pytest.mark.parametrize("maker", [factories.healthy, _failing, _running])
def test_the_numbers_on_the_page_close(place: Workspace, maker: Callable[[Workspace], Sync]) -> None:
    """Case UI-03: read = the sum of the states, in the html itself."""
    sync = maker(place)
    client = browser(place)
    run = sync.runs.order_by("-pk").first()
    for address in (path(sync), f"/w/{place.slug}/runs/{run.pk}/"):
        read, *parts = numbers(client.get(address).content.decode())
        assert read == sum(parts) > 0


def test_every_page_obeys_the_policy_and_reads_well(place: Workspace) -> None:
    """UX, section 7: no inline style, script or handler; one h1; labels, captions, scopes."""
    sync = _failing(place)
    run = sync.runs.order_by("-pk").first()
    factories.attempt(run, outcome=Outcome.FAILED)
    factories.delivery(run, "contact:3", DeliveryState.IN_DOUBT)
    preview = factories.preview(sync)
    client = browser(place)
    slug = place.slug
    addresses = [f"/w/{slug}/", path(sync), path(sync, "draft"), path(sync, "preview", preview.pk)]
    for address in [*addresses, f"/w/{slug}/runs/{run.pk}/", "/w/none/", "/no-such-page/"]:
        answer = client.get(address)
        assert faults(answer) == [], address
        assert answer.headers["Content-Security-Policy"].startswith(MERCHANT_POLICY)
        assert answer.headers["X-Frame-Options"] == "DENY"
    orders = factories.sync(place, rule=factories.ORDERS)
    assert faults(client.get(path(orders, "draft"))) == []
    assert faults(Client().get("/login/")) == []
    assert "no-store" in client.get(path(sync)).headers["Cache-Control"]


def test_a_hostile_name_and_hostile_records_are_data(place: Workspace) -> None:
    """PRODUCT 10.4."""
    sync = factories.published(place, name=HOSTILE[:100])
    run = factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW, error_sentence=HOSTILE)
    factories.delivery(run, f"contact:{HOSTILE}", DeliveryState.FAILED, code=HOSTILE[:50], sentence=HOSTILE)
    factories.finding(sync, sentence=HOSTILE, code="version_drift")
    factories.audit(sync, who=HOSTILE, reason=HOSTILE)
    rows = [
        {"id": HOSTILE, "state": HOSTILE, "reason": HOSTILE, "fields": [{"to": HOSTILE, "old": HOSTILE, "new": "x"}]}
    ]
    result = factories.result(rows=rows, blocks=[HOSTILE], notes=[HOSTILE], states={HOSTILE: 5})
    preview = factories.preview(sync, result=result, publishable=False)
    client = browser(place)
    addresses = [f"/w/{place.slug}/", path(sync), path(sync, "draft"), path(sync, "preview", preview.pk)]
    for address in [*addresses, f"/w/{place.slug}/runs/{run.pk}/"]:
        answer = client.get(address)
        assert answer.status_code == 200
        assert faults(answer) == []
        html = answer.content.decode()
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert html.count("<script") == 1
        assert "<img" not in html


def test_buttons_are_shown_only_with_the_role(place: Workspace) -> None:
    sync = factories.healthy(place)
    preview = factories.preview(sync)
    shown = {}
    for role in Role:
        html = browser(place, role, role.value).get(path(sync)).content.decode()
        html += browser(place, role, f"{role.value}-2").get(path(sync, "preview", preview.pk)).content.decode()
        words = ("Run now", "Pause this sync", "Open the draft", "Preview the draft", "Publish exactly this")
        shown[role] = [word for word in words if word in html]
    assert shown == {
        Role.VIEWER: [],
        Role.OPERATOR: ["Run now", "Pause this sync"],
        Role.EDITOR: ["Run now", "Pause this sync", "Open the draft", "Preview the draft"],
        Role.PUBLISHER: ["Run now", "Pause this sync", "Open the draft", "Preview the draft", "Publish exactly this"],
    }


def test_times_are_the_workspaces_with_utc_behind_them(place: Workspace) -> None:
    """Case UI-01."""
    html = browser(place).get(path(factories.healthy(place))).content.decode()
    assert '<time datetime="2026-10-08T12:00:00+00:00" title="2026-10-08 12:00:00 UTC">14:00 CEST</time>' in html


# --- Log in -----------------------------------------------------------------------------------------------------------
def test_somebody_in_one_workspace_comes_straight_to_it(place: Workspace) -> None:
    person = factories.member(place, name="mara")
    client = Client()
    answer = client.post("/login/", {"username": "mara", "password": factories.PASSWORD}, follow=True)
    assert answer.redirect_chain == [("/", 302), (f"/w/{place.slug}/", 302)]
    factories.Membership.objects.create(workspace=factories.workspace("Second"), user=person)
    html = client.get("/").content.decode()
    assert "Your workspaces" in html
    assert "Second" in html
    assert client.post("/logout/").status_code == 302
    assert client.get("/").status_code == 302


def test_a_wrong_password_says_what_to_do(place: Workspace) -> None:
    answer = Client().post("/login/", {"username": "mara", "password": "wrong"})
    assert answer.status_code == 200
    assert "Please enter a correct username and password." in answer.content.decode()
    assert faults(answer) == []


# --- Runs -------------------------------------------------------------------------------------------------------------
def test_run_now_starts_one_run_and_shows_it(place: Workspace) -> None:
    sync = factories.healthy(place)
    answer = browser(place, Role.OPERATOR).post(path(sync, "run"))
    run = sync.runs.get(trigger="person")
    assert answer.headers["Location"] == f"/w/{place.slug}/runs/{run.pk}/"
    assert (run.state, run.lane) == ("waiting", "manual")


def test_a_double_click_during_a_run_makes_one_collision_that_says_so(place: Workspace) -> None:
    """Case LEASE-06: at most one more run, ended at once, not tried again, not counted."""
    sync = factories.healthy(place)
    running = factories.open_run(sync, RunState.RUNNING)
    client = browser(place)
    seen = re.search(r'name="seen" value="(\d+)"', client.get(path(sync)).content.decode())
    assert seen is not None
    answers = [client.post(path(sync, "run"), {"seen": seen[1]}, follow=True) for _ in range(2)]
    extra = sync.runs.exclude(pk=running.pk).get(trigger="person")
    assert (extra.state, extra.outcome, extra.failures) == ("finished", "collided", 0)
    for answer in answers:
        assert answer.redirect_chain == [(f"/w/{place.slug}/runs/{extra.pk}/", 302)]
        assert "Another run of this sync was active, so this one ended." in answer.content.decode()


def test_run_now_is_possible_again_after_looking_again(place: Workspace) -> None:
    sync = factories.healthy(place)
    factories.open_run(sync, RunState.RUNNING)
    client = browser(place)
    for _ in range(2):
        seen = re.search(r'name="seen" value="(\d+)"', client.get(path(sync)).content.decode())
        assert seen is not None
        client.post(path(sync, "run"), {"seen": seen[1]})
    assert sync.runs.filter(outcome="collided").count() == 2


@pytest.mark.parametrize("seen", ["", "x", "-1", "²", "9" * 40])
def test_a_strange_mark_on_the_button_starts_a_run_all_the_same(place: Workspace, seen: str) -> None:
    sync = factories.healthy(place)
    assert browser(place).post(path(sync, "run"), {"seen": seen}).status_code == 302
    assert sync.runs.filter(trigger="person").count() == 1


def test_a_draft_cannot_be_run_and_says_what_to_do(place: Workspace) -> None:
    sync = factories.sync(place)
    answer = browser(place).post(path(sync, "run"))
    assert answer.status_code == 409
    assert "This sync is draft: preview it and publish it, then run it." in answer.content.decode()
    assert not Run.objects.exists()


def test_pausing_takes_a_reason_and_shows_it(place: Workspace) -> None:
    sync = factories.healthy(place)
    client = browser(place, Role.OPERATOR, "otto")
    refused = client.post(path(sync, "pause"), {"reason": " "})
    assert refused.status_code == 422
    assert "Say why it is paused" in refused.content.decode()
    assert faults(refused) == []
    answer = client.post(path(sync, "pause"), {"reason": "The shop moves."}, follow=True)
    sync.refresh_from_db()
    assert sync.state == "paused"
    html = answer.content.decode()
    assert "Paused by otto: The shop moves." in html
    assert "Publish exactly that." in html


def test_pausing_twice_is_told(place: Workspace) -> None:
    answer = browser(place).post(path(_paused(place), "pause"), {"reason": "Again."})
    assert answer.status_code == 409
    assert "Only a published sync can be paused; this one is paused." in answer.content.decode()


# --- Drafts -----------------------------------------------------------------------------------------------------------
RICH = {
    **factories.CUSTOMERS,
    "mapping": [{"to": "FULLNAME", "source": "join(' ',\n  [firstName, lastName])", "kind": "text"}],
    "filter": "tags\n && contains(tags, 'vip')",
    "on_rejected": "set_aside",
    "ratio": "0.1",
    "cap": 7,
}
ORDERS = {**factories.ORDERS, "history_events": True, "filter": "note != 'line1\nline2'"}


@pytest.mark.parametrize("rule", [factories.CUSTOMERS, RICH, factories.ORDERS, ORDERS])
def test_saving_the_form_as_it_was_changes_nothing(place: Workspace, rule: dict[str, Any]) -> None:
    """Case PUB-10: browsers write other line ends; a published sync stays published."""
    sync = factories.published(place, rule=rule)
    answer = browser(place).post(path(sync, "draft"), factories.posted_draft(sync), follow=True)
    assert "Nothing was changed." in answer.content.decode()
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision) == ("published", 1)
    assert not AuditEntry.objects.filter(action="sync.draft_saved").exists()


def rendered(html: str) -> dict[str, Any]:
    """What a browser would send if the form were saved as it stands."""
    form = html[html.index('<form method="post" class="fields wide"') :]
    form = form[: form.index("</form>")]
    sent: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        given = dict(re.findall(r'(\w[\w-]*)="([^"]*)"', tag))
        if given.get("type") in {"radio", "checkbox"} and " checked" not in tag:
            continue
        ticked = "on" if given.get("type") == "checkbox" else ""
        sent.setdefault(given["name"], []).append(given.get("value", ticked))
    for name, text in re.findall(r'<textarea name="([^"]+)"[^>]*>(.*?)</textarea>', form, re.DOTALL):
        sent[name] = [text.removeprefix("\n").replace("&#x27;", "'").replace("&amp;", "&").replace("\n", "\r\n")]
    for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="(\w+)" selected', options)
        sent[name] = [chosen[1] if chosen else "text"]
    return sent


@pytest.mark.parametrize("rule", [factories.CUSTOMERS, RICH, factories.ORDERS, ORDERS])
def test_the_form_holds_the_whole_draft(place: Workspace, rule: dict[str, Any]) -> None:
    sync = factories.published(place, rule=rule)
    client = browser(place)
    sent = rendered(client.get(path(sync, "draft")).content.decode())
    assert client.post(path(sync, "draft"), sent).status_code == 302
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision) == ("published", 1)


def test_saving_a_change_puts_a_published_sync_out_of_work(place: Workspace) -> None:
    sync = factories.published(place)
    posted = factories.posted_draft(sync, list_id="13", **{"mapping-2-to": "CITY", "mapping-2-source": "city"})
    answer = browser(place, Role.EDITOR).post(path(sync, "draft"), posted, follow=True)
    assert "The draft is saved. Preview it, then publish it." in answer.content.decode()
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision, sync.draft["list_id"]) == ("edited", 2, 13)
    assert sync.draft["mapping"][2] == {"to": "CITY", "source": "city", "kind": "text"}


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"list_id": ""}, "id_list_id", "The list is missing"),
        ({"list_id": "twelve"}, "id_list_id", "Enter a whole number."),
        ({"mapping-1-to": "EMAIL"}, "id_mapping-1-to", "The target of field 2 of the mapping is EMAIL"),
        ({"mapping-1-source": "join("}, "id_mapping-1-source", "The source of field 2 of the mapping is no JMESPath"),
        ({"mapping-0-to": "", "mapping-0-source": "", "mapping-1-to": "FIRST NAME"}, "id_mapping-1-to", "The target"),
        ({"filter": "tags ==="}, "id_filter", "The filter is no JMESPath expression"),
        ({"ratio": "0.1"}, "id_ratio", "has no effect with stop"),
        ({"on_rejected": "set_aside", "ratio": "2"}, "id_ratio", "must be a decimal text from 0 to 1"),
        ({"consent": "anything"}, "id_consent", "Select a valid choice."),
    ],
)
def test_a_rule_that_is_none_is_told_at_its_field_and_the_text_stays(
    place: Workspace, changes: dict[str, str], field: str, sentence: str
) -> None:
    sync = factories.published(place)
    posted = factories.posted_draft(sync, **{"mapping-2-to": "KEPT", "mapping-2-source": "kept"}, **changes)
    answer = browser(place).post(path(sync, "draft"), posted)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert re.search(rf'<a href="#{field}[^"]*">[^<]*{re.escape(sentence)}', html)
    assert f'id="{field}' in html
    assert 'value="KEPT"' in html
    assert faults(answer) == []
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision) == ("published", 1)


def test_a_forged_form_is_refused_without_a_crash(place: Workspace) -> None:
    sync = factories.published(place)
    client = browser(place)
    for posted in ({}, {"revision": "x"}, {**factories.posted_draft(sync), "mapping-TOTAL_FORMS": "-5"}):
        answer = client.post(path(sync, "draft"), posted)
        assert answer.status_code == 422
        assert "Not saved." in answer.content.decode()
        assert faults(answer) == []
    sync.refresh_from_db()
    assert sync.state == "published"


def test_of_two_editors_the_second_is_told_by_whom_and_keeps_the_text(place: Workspace) -> None:
    """Case PUB-05, PRODUCT 6.5."""
    sync = factories.published(place)
    ada, bo = browser(place, Role.EDITOR, "ada"), browser(place, Role.EDITOR, "bo")
    adas = factories.posted_draft(sync, list_id="21", **{"mapping-2-to": "ADAS", "mapping-2-source": "tags[0]"})
    bo.post(path(sync, "draft"), factories.posted_draft(sync, list_id="22"))
    answer = ada.post(path(sync, "draft"), adas)
    html = answer.content.decode()
    assert answer.status_code == 409
    assert "bo saved this draft at" in html
    assert 'value="21"' in html
    assert 'value="ADAS"' in html
    assert re.search(r"List at the destination</th><td[^>]*>22</td><td[^>]*>21</td>", html)
    assert faults(answer) == []
    sync.refresh_from_db()
    assert sync.draft["list_id"] == 22

    again = rendered(html)
    assert again["revision"] == ["2"]
    assert ada.post(path(sync, "draft"), again).status_code == 302
    sync.refresh_from_db()
    assert (sync.draft["list_id"], sync.draft_revision) == (21, 3)


# --- Previews and publishing ------------------------------------------------------------------------------------------
def test_a_preview_shows_refusals_first_masked_rows_and_the_digest(place: Workspace) -> None:
    sync = factories.sync(place)
    preview = factories.preview(sync, by=factories.user("ada"))
    html = browser(place).get(path(sync, "preview", preview.pk)).content.decode()
    assert "Read 5 of 5,942 records just as a run would. Nothing was written." in html
    assert numbers(html) == [5, 2, 2, 1]
    assert html.index("subscribed, but not since when") < html.index("would be created</td>")
    assert "A•• → B••" in html
    assert f'name="digest" value="{preview.digest}"' in html
    d = preview.digest
    assert f"Publish exactly this (<code>{d[:4]} {d[4:8]} {d[8:12]}</code>)" in html


def test_what_stands_in_the_way_is_said_and_no_button_is_shown(place: Workspace) -> None:
    sync = factories.sync(place)
    result = factories.result(blocks=["List 12 does not exist at the destination. Choose another list."])
    preview = factories.preview(sync, result=result, publishable=False)
    html = browser(place).get(path(sync, "preview", preview.pk)).content.decode()
    assert "List 12 does not exist at the destination. Choose another list." in html
    assert "Publish exactly this" not in html


def test_publishing_a_preview_that_somebody_changed_is_refused_by_name(place: Workspace) -> None:
    """Case PUB-05."""
    sync = factories.sync(place)
    preview = factories.preview(sync)
    browser(place, Role.EDITOR, "bo").post(path(sync, "draft"), factories.posted_draft(sync, list_id="13"))
    answer = browser(place).post(path(sync, "publish"), {"digest": preview.digest})
    assert answer.status_code == 409
    assert "Changed by bo at" in answer.content.decode()
    assert "Preview it again." in answer.content.decode()
    sync.refresh_from_db()
    assert (sync.published, Version.objects.count()) == (None, 0)


@pytest.mark.parametrize("cut", [12, 63, 0])
def test_only_a_whole_digest_publishes(place: Workspace, cut: int) -> None:
    sync = factories.sync(place)
    digest = factories.preview(sync).digest
    answer = browser(place).post(path(sync, "publish"), {"digest": digest[:cut]})
    assert answer.status_code == 409
    assert not Version.objects.exists()


def test_a_double_click_on_publish_makes_one_version(place: Workspace) -> None:
    sync = factories.sync(place)
    digest = factories.preview(sync).digest
    client = browser(place)
    for _ in range(2):
        answer = client.post(
            path(sync, "publish"), {"digest": digest, "reason": "First list.", "confirm": "on"}, follow=True
        )
        assert f"Version 1 is published ({digest[:12]})." in answer.content.decode()
    assert Version.objects.get().reason == "First list."


def test_the_same_rule_is_published_again_after_a_fresh_preview(place: Workspace) -> None:
    """PRODUCT 4.3: how a paused sync goes on."""
    sync = _paused(place)
    preview = factories.preview(sync, made=NOW)
    answer = browser(place).post(path(sync, "publish"), {"digest": preview.digest}, follow=True)
    assert "Version 2 is published" in answer.content.decode()
    sync.refresh_from_db()
    assert (sync.state, sync.pause_sentence) == ("published", "")


def test_a_get_never_changes_anything(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("A page called a service.")

    for name in services.__all__:
        if name[0].islower() and name not in {"person", "vigil", "destination_attributes"}:
            monkeypatch.setattr(services, name, refuse)
    sync = _failing(place)
    preview = factories.preview(sync)
    client = browser(place)
    run = sync.runs.first()
    addresses = ["/", f"/w/{place.slug}/", path(sync), path(sync, "draft"), path(sync, "preview", preview.pk)]
    for address in [*addresses, f"/w/{place.slug}/runs/{run.pk}/"]:
        assert client.get(address, follow=True).status_code == 200
        assert client.head(address, follow=True).status_code == 200


def test_what_breaks_is_a_page_without_details(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(*_args: object) -> None:
        raise RuntimeError("a secret detail")

    sync = factories.sync(place)
    client = browser(place)
    client.raise_request_exception = False
    monkeypatch.setattr("syncs.queries.sync_page", fall)
    answer = client.get(path(sync))
    assert answer.status_code == 500
    assert "This page broke, and that is our fault." in answer.content.decode()
    assert "secret" not in answer.content.decode()
    assert faults(answer) == []


def test_a_conflict_is_an_error_of_the_tree() -> None:
    """The pages answer it with 409, like everything that another person was faster with."""
    assert shell.STATUS[DraftChanged] == 409


# --- The whole way ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def vendors() -> Iterator[dict[str, sandbox.Served]]:
    with (
        sandbox.serving("shopify", token="shpat_pages", domain="acme.myshopify.com") as shopify,
        sandbox.serving("brevo", api_key="xkeysib-pages") as brevo,
    ):
        yield {"shopify": shopify, "brevo": brevo}


def _stored(brevo: sandbox.Served) -> dict[str, Any]:
    """What the destination holds, whatever it was asked."""
    return {name: number for name, number in brevo.control("summary").items() if name != "requests"}


@pytest.mark.django_db(transaction=True)
def test_from_draft_to_published_with_the_vendors_answering(vendors: dict[str, sandbox.Served]) -> None:
    """PRODUCT 6.1 to 6.3: form, preview of real records, publish by digest; nothing was written at the destination."""
    place = factories.workspace()
    options = {"domain": "acme.myshopify.com", "base_url": vendors["shopify"].url}
    sync = factories.sync(
        place,
        source=factories.connection(place, "shopify", secrets={"token": "shpat_pages"}, options=options),
        destination=factories.connection(
            place, "brevo", secrets={"api_key": "xkeysib-pages"}, options={"base_url": vendors["brevo"].url}
        ),
    )
    before = _stored(vendors["brevo"])
    client = browser(place, Role.PUBLISHER, "mara")

    missing = client.post(path(sync, "draft"), factories.posted_draft(sync, list_id="999", preview="1"), follow=True)
    assert "List 999 does not exist at the destination. Choose another list." in missing.content.decode()

    sync.refresh_from_db()
    shown = client.post(path(sync, "draft"), factories.posted_draft(sync, list_id="7", preview="1"), follow=True)
    html = shown.content.decode()
    made = Preview.objects.latest("pk")
    assert shown.redirect_chain == [(path(sync, "preview", made.pk), 302)]
    assert made.publishable
    read, *parts = numbers(html)
    assert read == sum(parts) > 0
    assert "@" not in re.sub(r"<head>.*?</head>", "", html, flags=re.DOTALL)
    assert faults(shown) == []

    posted = {"digest": made.digest, "reason": "Autumn.", "confirm": "on"}
    published = client.post(path(sync, "publish"), posted, follow=True)
    assert f"Version 1 is published ({made.digest[:12]})." in published.content.decode()
    assert _stored(vendors["brevo"]) == before
    sync.refresh_from_db()
    assert (sync.state, sync.published.publisher_label, sync.published.reason) == ("published", "mara", "Autumn.")
    page = client.get(path(sync)).content.decode()
    assert "No run yet. The first is planned for" in page


@pytest.mark.django_db(transaction=True)
def test_a_source_that_refuses_makes_a_preview_that_says_so(vendors: dict[str, sandbox.Served]) -> None:
    place = factories.workspace()
    options = {"domain": "acme.myshopify.com", "base_url": vendors["shopify"].url}
    source = factories.connection(place, "shopify", secrets={"token": "shpat_wrong"}, options=options)
    target = {"base_url": vendors["brevo"].url}
    destination = factories.connection(place, "brevo", secrets={"api_key": "xkeysib-pages"}, options=target)
    sync = factories.sync(place, source=source, destination=destination)
    answer = browser(place).post(path(sync, "preview"), follow=True)
    html = answer.content.decode()
    assert "It could not be made. Nothing was written." in html
    assert "shpat_wrong" not in html
    assert "Publish exactly this" not in html
    assert faults(answer) == []
