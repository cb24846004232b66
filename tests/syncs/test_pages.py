"""The pages that show: what a stranger reads off them, every number behind its link, few queries, few bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from connectors.protocol import Count
from syncs import queries, services, words
from syncs.domain.lifecycle import (
    DeliveryState,
    Lane,
    OccurrenceState,
    Outcome,
    RecordState,
    RunState,
    SyncState,
    Verdict,
)
from syncs.models import AuditEntry, Coverage, Cursor, Delivery, Lease, Occurrence, Run, Sync, Workspace
from syncs.models.workspaces import Role
from syncs.queries import activity, consent, listing, parts, recovery, strip, sums
from syncs.views import takeaway
from tests import factories
from tests.factories import NOW
from tests.syncs.test_views import HOSTILE, browser, faults, path

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SLOT = 15 * MINUTE
MOST_BYTES = 60_000
"""Of a compressed sync page (UX, section 7)."""


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def place(db: None) -> Workspace:
    factories.clock_stands_at()
    return factories.workspace()


def text_of(answer: Any) -> str:
    """A page as it is read: no tags, no runs of spaces."""
    body = re.sub(r"<(head|svg).*?</\1>", " ", answer.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)).strip()


def at(run: Run) -> str:
    return f"/w/{run.sync.workspace.slug}/runs/{run.pk}/"


def history(sync: Sync, *, days: float = 2, every: timedelta = SLOT) -> None:
    """Runs of the schedule with their occurrences, up to now."""
    moment = NOW.replace(minute=0) - timedelta(days=days)
    while moment <= NOW:
        run = factories.run(
            sync,
            ended=moment + 20 * timedelta(seconds=1),
            lasted=timedelta(seconds=16),
            states={"written": 3, "unchanged": 1, "refused": 6},
            refusals={"no_date": 4, "unsubscribed": 2},
        )
        factories.occurrence(run, moment)
        moment += every


# --- The strip --------------------------------------------------------------------------------------------------------
def _slot(sync: Sync, before: timedelta, state: OccurrenceState) -> None:
    Occurrence.objects.create(schedule=sync.schedule, planned_for=NOW - before, state=state.value, decided_at=NOW)


def _strip(sync: Sync) -> strip.Strip:
    made = strip.strip(sync, NOW, known_since=None)
    assert made is not None
    return made


@pytest.mark.django_db
def test_the_strip_draws_what_happened_what_was_left_out_and_what_is_to_come() -> None:
    """UX, P2.6: a slot of the grid without a row was missed; each kind has a shape of its own."""
    sync = factories.published(at=NOW - 70 * MINUTE)
    for before, outcome, verdict in (
        (65 * MINUTE, Outcome.SUCCEEDED, Verdict.PROVEN),
        (50 * MINUTE, Outcome.SUCCEEDED, Verdict.PROVEN_QUIET),
        (35 * MINUTE, Outcome.SHORT, Verdict.SHORT),
    ):
        run = factories.run(sync, outcome, verdict=verdict, ended=NOW - before + MINUTE)
        factories.occurrence(run, NOW - before)
    _slot(sync, 20 * MINUTE, OccurrenceState.SKIPPED_LATE)
    drawn = _strip(sync)
    assert [(slot.sign.shape, slot.sign.word) for slot in reversed(drawn.slots)] == [
        ("ok", "succeeded"),
        ("quiet", "succeeded, nothing new (proved)"),
        ("fail", "short"),
        ("miss", "skipped: too late"),
        ("miss", "missed: nobody planned it"),
        ("plan", "planned"),
        ("plan", "planned"),
        ("plan", "planned"),
    ]
    assert drawn.summary == "1 short, 1 missed: nobody planned it, 1 skipped: too late."
    assert sum(kind.number for kind in drawn.kinds) == drawn.total == 8


@pytest.mark.django_db
def test_a_change_of_the_schedule_begins_a_new_grid() -> None:
    sync = factories.published(at=NOW - 10 * DAY)
    assert strip.strip(sync, NOW, known_since=NOW - 20 * MINUTE).slots[-1].at == NOW - 5 * MINUTE  # type: ignore[union-attr]


@pytest.mark.django_db
def test_starts_that_follow_each_other_fast_share_a_cell_that_shows_the_worst() -> None:
    sync = factories.published(at=NOW - 3 * DAY)
    sync.schedule.every_minutes = 1
    for minute in range(5):
        failed = minute == 2
        outcome, verdict = (Outcome.FAILED, Verdict.OPEN) if failed else (Outcome.SUCCEEDED, Verdict.PROVEN)
        run = factories.run(sync, outcome, verdict=verdict, ended=NOW - minute * MINUTE)
        factories.occurrence(run, NOW - minute * MINUTE)
    made = strip.strip(sync, NOW, known_since=NOW - 5 * MINUTE)
    assert made is not None
    cells = [cell for day in made.days for hour in day.hours for cell in hour.cells]
    assert cells[0].worst.sign.shape == "fail"
    assert cells[0].label == "Thu 8 Oct, 14:03: failed (the worst of 14 starts)"
    assert made.total == 59


@pytest.mark.django_db
def test_the_hour_that_comes_twice_is_drawn_twice() -> None:
    """Case UI-01."""
    now = datetime(2026, 10, 25, 2, 5, tzinfo=UTC)
    sync = factories.published(at=now - 5 * DAY)
    made = strip.strip(sync, now, known_since=now - 4 * HOUR)
    assert made is not None
    labels = [hour.label for day in made.days for hour in day.hours]
    assert labels == ["00:00", "01:00", "02:00", "02:00", "03:00"]


@pytest.mark.django_db
def test_nothing_is_called_missed_while_a_sync_stands_still() -> None:
    sync = factories.published(at=NOW - 10 * DAY)
    sync.state = SyncState.PAUSED.value
    _slot(sync, 5 * MINUTE, OccurrenceState.DISCARDED)
    made = strip.strip(sync, NOW, known_since=NOW - 6 * MINUTE)
    assert made is not None
    assert [(slot.sign.shape, slot.sign.word) for slot in made.slots] == [
        ("pause", "not started: nothing was published")
    ]


def test_every_cell_is_a_link_of_24_pixels_and_stands_in_the_table(place: Workspace) -> None:
    """UX, section 7: target size; the strip also as a table."""
    sync = factories.published(place, at=NOW - 3 * DAY)
    history(sync)
    html = browser(place).get(path(sync)).content.decode()
    cells = re.findall(r'<li><a href="([^"]+)" title="([^"]+)" aria-label="([^"]+)">', html)
    assert len(cells) == 192
    assert all(title == label for _href, title, label in cells)
    targets = {href[1:] for href, _title, _label in cells if href.startswith("#")}
    assert targets <= set(re.findall(r'<tr id="(t\d+)"', html))
    css = (Path(__file__).resolve().parents[2] / "static" / "vigil.css").read_text(encoding="utf-8")
    assert ".hour a svg { width: 24px; height: 32px; }" in css


# --- Eight parts ------------------------------------------------------------------------------------------------------
def _page(sync: Sync) -> queries.SyncPage:
    found = Sync.objects.select_related(
        "workspace", "source", "destination", "published", "draft_by", "schedule", "lease"
    ).get(pk=sync.pk)
    return queries.sync_page(found, NOW)


def _words(page: queries.SyncPage) -> dict[str, str]:
    return {part.name: part.sign.word for part in page.parts}


def _proved(sync: Sync) -> None:
    for end in (sync.source, sync.destination):
        end.proved_at, end.proved_fingerprint, end.scopes = NOW - HOUR, end.fingerprint, ["read_customers"]
        end.save()


@pytest.mark.django_db
def test_a_healthy_sync_has_eight_parts_each_with_word_evidence_and_age() -> None:
    """UX, section 1."""
    sync = factories.healthy(at=NOW - 20 * MINUTE)
    for before in (5, 20):
        _slot(sync, before * MINUTE, OccurrenceState.EXECUTED)
    _proved(sync)
    page = _page(sync)
    assert _words(page) == {
        "Runs": "succeeded",
        "Freshness": "14:00 CEST",
        "Read proof": "proved",
        "Deliveries": "None in doubt",
        "Consent": "Carried",
        "Connections": "Both answer",
        "Published version": "v1 proved",
        "Schedule": "On time",
    }
    assert all(part.evidence and part.at for part in page.parts)


@pytest.mark.django_db
def test_the_worst_part_comes_first() -> None:
    sync = factories.healthy()
    run = factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW, error_code="token_refused")
    factories.delivery(run, "contact:1", DeliveryState.IN_DOUBT)
    factories.delivery(run, "contact:2", DeliveryState.SET_ASIDE, code="bad")
    page = _page(sync)
    named = _words(page)
    assert (named["Connections"], named["Deliveries"]) == ("Refused", "1 in doubt")
    tones = [parts.WORST.index(part.sign.tone) for part in page.parts]
    assert tones == sorted(tones)


@pytest.mark.django_db
def test_a_token_that_can_write_is_told() -> None:
    """PRODUCT 3.10."""
    sync = factories.healthy()
    sync.source.scopes = ["read_customers", "write_customers"]
    sync.source.save()
    part = next(part for part in _page(sync).parts if part.name == "Connections")
    assert (part.sign.word, part.evidence) == (
        "Too many scopes",
        "The source's token can write; give it read-only scopes",
    )


@pytest.mark.django_db
def test_a_sync_that_stands_still_says_that_withdrawals_wait() -> None:
    """PRODUCT 3.8."""
    sync = factories.healthy()
    Sync.objects.filter(pk=sync.pk).update(state="paused", paused_at=NOW - HOUR)
    named = _words(_page(sync))
    assert (named["Consent"], named["Schedule"]) == ("Not carried", "Stands still")


# --- Consent ----------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_a_week_of_refusals_stands_against_the_week_before_and_closes() -> None:
    """UX, P2.5 and P5."""
    sync = factories.published(at=NOW - 20 * DAY)
    for days, number in ((0, 10), (3, 20), (8, 5), (13, 7), (15, 1000)):
        factories.run(
            sync,
            ended=NOW - days * DAY - MINUTE,
            states={"written": 2, "refused": number},
            refusals={"no_date": number - 1, "no_address": 1},
        )
    factories.run(sync, ended=NOW - HOUR, lane=Lane.RECONCILE.value, states={"refused": 500}, refusals={"no_date": 500})
    found = consent.consent(sync, sums.sums(sync, NOW))
    assert (found.read, found.accepted, found.refused, found.before) == (34, 4, 30, 12)
    assert [(one.code, one.number, one.before, one.share, one.change) for one in found.reasons] == [
        ("no_date", 28, 10, 93.3, "+18"),
        ("no_address", 2, 2, 6.7, "+0"),
    ]
    assert [(step.word, step.number) for step in found.steps] == [
        ("Customers read", 34),
        ("With an e-mail address", 32),
        ("With provable consent", 4),
        ("Written, or there already", 4),
    ]


@pytest.mark.django_db
def test_every_reason_says_what_a_shop_can_do() -> None:
    assert set(words.REFUSAL_ADVICE) == set(words.REFUSALS)
    assert words.refusal_advice("phone_belongs_to_another") == "Look at the samples."


@pytest.mark.django_db
def test_withdrawals_are_told_with_the_slowest() -> None:
    sync = factories.healthy()
    run = sync.runs.get()
    for name, took in (("contact:1", MINUTE), ("contact:2", 14 * MINUTE)):
        factories.delivery(run, name, kind="withdrawal", claimed_at=NOW - HOUR, settled_at=NOW - HOUR + took)
    found = consent.consent(sync, sums.sums(sync, NOW))
    assert (found.withdrawn, found.slowest) == (2, 14 * MINUTE)


def test_the_consent_page_shows_samples_by_id_and_exports_with_the_digest(place: Workspace) -> None:
    """UX, P5: for a data protection officer."""
    sync = factories.healthy(place)
    run = sync.runs.get()
    said = {"state": "SUBSCRIBED", "level": "SINGLE_OPT_IN", "given_at": None, "field": "emailMarketingConsent"}
    for number in range(12):
        factories.delivery(
            run, f"contact:{number}", DeliveryState.REFUSED, code="no_date", record=str(number), evidence=said
        )
    client = browser(place)
    answer = client.get(path(sync, "consent"))
    assert faults(answer) == []
    text = text_of(answer)
    assert "218 of 250 records refused in 7 days" in text
    assert "subscribed, but not since when: 10" in text
    assert "Field that decided emailMarketingConsent" in text
    exported = client.get(path(sync, "consent.csv").rstrip("/"))
    rows = list(csv.DictReader(io.StringIO(exported.content.decode())))
    assert [(row["code"], row["records_7_days"]) for row in rows] == [("no_date", "200"), ("unsubscribed", "18")]
    assert {row["digest"] for row in rows} == {factories.digest(sync)}
    assert "attachment" in exported.headers["Content-Disposition"]


# --- The sync page ----------------------------------------------------------------------------------------------------
def test_the_first_screen_answers_five_questions(place: Workspace) -> None:
    """The ten-second test: healthy? when last? when next? is anything lost? what must I do?"""
    sync = factories.healthy(place)
    Sync.objects.filter(pk=sync.pk).update(
        state="paused", paused_at=NOW, pause_code="list_missing", pause_sentence="List 12 does not exist (400)."
    )
    text = text_of(browser(place).get(path(sync)))
    told = text[: text.index("Why we say paused")]
    for said in (
        "Paused since 14:05 CEST. Nothing is lost.",
        "Last run 14:00 CEST 5 minutes ago",
        "Next run None Starts when a person publishes",
        "Nothing is lost: the cursor stands at 14:00 CEST.",
        "What to do Choose a list that exists, in the draft. Open the draft and look at a fresh preview.",
    ):
        assert said in told


def test_freshness_of_a_sync_that_only_read_history_is_not_a_riddle(place: Workspace) -> None:
    sync = factories.healthy(place)
    sync.runs.update(lane="manual", trigger="person")
    Sync.objects.filter(pk=sync.pk).update(fresh_as_of=None)
    client = browser(place)
    text = text_of(client.get(path(sync)))
    assert "The run that a person started is proved (14:00 CEST)." in text
    assert "The first scheduled run is planned for 14:15 CEST." in text
    assert "Fresh as of Set by the schedule" in text
    assert "Not yet Limit" not in text
    assert "set by the schedule" in text_of(client.get(f"/w/{place.slug}/"))


def test_the_counter_line_of_an_earlier_run_says_so(place: Workspace) -> None:
    sync = factories.healthy(place)
    client = browser(place)
    before = text_of(client.get(path(sync)))
    assert "Latest run, every record accounted for" in before
    factories.run(sync, verdict=Verdict.PROVEN_QUIET, ended=NOW)
    after = text_of(client.get(path(sync)))
    assert "Latest run with records, every one accounted for" in after
    assert re.search(r"This is the run of\s+13:59 CEST\s*\. It is not the last run above", after)


def test_a_workspace_on_utc_is_not_told_to_hover_for_utc(db: None) -> None:
    factories.clock_stands_at()
    for zone, said in (("UTC", "All times are UTC."), ("Europe/Berlin", "hover over one for UTC")):
        somewhere = factories.workspace(zone=zone)
        assert said in text_of(browser(somewhere, name=zone).get(f"/w/{somewhere.slug}/"))


def test_nobody_is_said_to_have_taken_over_a_lost_lease() -> None:
    assert "another run owns" not in words.advice("lost_lease")


def test_a_running_sync_is_looked_at_again_and_tells_how_far_it_is(place: Workspace) -> None:
    """UX, section 7: polite, at most every 10 seconds, with a switch; all of it without JavaScript too."""
    sync = factories.published(place, at=NOW - HOUR)
    factories.open_run(sync, RunState.RUNNING, states={"written": 1280}, expected=5120, created=NOW, phase="writing")
    client = browser(place)
    for address in (path(sync), f"/w/{place.slug}/", at(sync.runs.get())):
        html = client.get(address).content.decode()
        assert 'id="live" data-poll="10"' in html
        assert '<p role="status" id="live-said">' in html
        assert 'id="live-pause" aria-pressed="false" hidden>Pause updates' in html
        assert "Load again for newer numbers" in html
    html = client.get(path(sync)).content.decode()
    assert "Running: writing. 1,280 of 5,120 records." in html
    assert '<rect class="f" width="25.000%"' in html


def test_a_page_without_a_run_at_work_is_left_alone(place: Workspace) -> None:
    assert "data-poll" not in browser(place).get(path(factories.healthy(place))).content.decode()


def test_schedule_limits_and_the_change_of_the_clock_stand_in_words(place: Workspace) -> None:
    sync = factories.healthy(place)
    text = text_of(browser(place).get(path(sync)))
    assert "14:15 14:30 14:45 15:00 15:15 15:30 15:45 16:00 16:15 16:30" in text
    assert "Writes of 24 hours 28 no limit is set" in text
    assert queries.sync_page(queries.sync_for(factories.superuser(), place.slug, sync.pk), NOW).clock_change == ""
    soon = datetime(2026, 10, 20, 12, tzinfo=UTC)
    page = queries.sync_page(queries.sync_for(factories.superuser(), place.slug, sync.pk), soon)
    assert page.clock_change.startswith("About 25 October the clock goes back.")


# --- Weight -----------------------------------------------------------------------------------------------------------
def test_a_full_sync_page_takes_twelve_queries_and_few_bytes(
    place: Workspace, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    """UX, section 7: at most 12 queries, at most 60 kB compressed."""
    sync = factories.published(place, at=NOW - 20 * DAY)
    history(sync, days=3)
    for number in range(40):
        factories.finding(sync, "address_changed", f"Customer {number} changed.", subject=str(number))
        factories.audit(sync, at=NOW - number * HOUR)
    left = {"in_doubt": 3, "failed": 5}
    factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW, error_code="rejected", unsettled=left)
    Sync.objects.filter(pk=sync.pk).update(state="edited")
    client = browser(place)
    with django_assert_max_num_queries(12):
        answer = client.get(path(sync))
    assert faults(answer) == []
    assert len(gzip.compress(answer.content)) < MOST_BYTES


MANY = 200_000
FILL = """
INSERT INTO syncs_delivery (sync_id, run_id, lane, object, kind, append, effect_key, delivery_key, payload_digest, seq,
    read_no, fence, state, calls, code, sentence, address_key, destination_id, subject, record, event_name, granted,
    claimed_at, settled_at)
SELECT %(sync)s, %(run)s, 'scheduled', 'contact:' || n,
    CASE WHEN n %% 1000 = 0 THEN 'withdrawal' ELSE 'contact' END,
    false, md5(%(run)s || ':' || n), md5(n::text), '', 1, n, 1,
    CASE WHEN n %% 500 = 1 THEN 'failed' WHEN n %% 500 = 2 THEN 'set_aside'
    WHEN n %% 7 = 3 THEN 'refused' ELSE 'written' END,
    1, 'no_date', '', '', '', '', n::text, '', false, %(now)s - n * interval '1 second',
    %(now)s - n * interval '1 second'
FROM generate_series(1, %(many)s) n
"""


def _plans(context: CaptureQueriesContext) -> list[str]:
    """How PostgreSQL serves each statement that read something."""
    found = []
    with connection.cursor() as cursor:
        for one in context.captured_queries:
            sql = one["sql"]
            if sql.startswith(("SELECT", "WITH", "(SELECT", "\nWITH")) and "syncs_" in sql:
                cursor.execute(f"EXPLAIN {sql}")
                found.append("\n".join(row[0] for row in cursor.fetchall()))
    return found


def test_every_look_at_a_large_ledger_goes_by_an_index(place: Workspace) -> None:
    """At a million rows a page that walks the ledger would take seconds; here 200,000 show the plans."""
    sync = factories.healthy(place)
    run = sync.runs.get()
    other = factories.healthy(factories.workspace("Other"))
    with connection.cursor() as cursor:
        for one in (sync, other):
            values = {"sync": one.pk, "run": one.runs.get().pk, "now": NOW, "many": MANY // 2}
            cursor.execute(FILL, values)
        cursor.execute("ANALYZE syncs_delivery")
    client = browser(place)
    looked = 0
    for address in (
        path(sync),
        f"/w/{place.slug}/",
        at(run),
        f"{at(run)}records/?state=refused",
        f"{at(run)}records/?state=written",
        path(sync, "recovery"),
        path(sync, "consent"),
    ):
        with CaptureQueriesContext(connection) as context:
            assert client.get(address).status_code == 200
        for plan in _plans(context):
            looked += "syncs_delivery" in plan
            assert "Seq Scan on syncs_delivery" not in plan, (address, plan)
    assert looked >= 10


# --- Runs -------------------------------------------------------------------------------------------------------------
def _rows(answer: Any) -> int:
    return len(re.findall(r'<th scope="row"><a href="/w/[^"]+/runs/\d+/">', answer.content.decode()))


def test_runs_are_filtered_by_outcome_starter_and_date(place: Workspace) -> None:
    """UX, P2.7."""
    sync = factories.published(place, at=NOW - 20 * DAY)
    ada = factories.member(place, Role.OPERATOR, "ada")
    factories.run(sync, ended=NOW - 3 * DAY)
    factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW - 2 * DAY)
    factories.run(sync, ended=NOW - HOUR, trigger="person", started_by=ada)
    factories.open_run(sync, created=NOW)
    client = browser(place)
    for query, number in (
        ("", 4),
        ("outcome=failed", 1),
        ("outcome=open", 1),
        ("started_by=person", 1),
        ("started_by=schedule", 3),
        ("since=2026-10-06&until=2026-10-06", 1),
        ("until=2026-10-05", 1),
        ("outcome=failed&started_by=person", 0),
    ):
        answer = client.get(f"{path(sync, 'runs')}?{query}")
        assert (answer.status_code, _rows(answer), faults(answer)) == (200, number, []), query


@pytest.mark.parametrize("query", ["outcome=none", "since=x", "before=x", "before=2026-10-08T00:00:00_1", "before=_²"])
def test_a_filter_that_cannot_be_read_breaks_nothing(place: Workspace, query: str) -> None:
    sync = factories.healthy(place)
    answer = browser(place).get(f"{path(sync, 'runs')}?{query}")
    assert (answer.status_code, _rows(answer)) == (200, 1)


def test_runs_come_fifty_a_page_and_none_is_left_out(place: Workspace) -> None:
    sync = factories.published(place)
    for number in range(120):
        factories.run(sync, ended=NOW - number // 2 * MINUTE)
    client, seen, address = browser(place), [], path(sync, "runs")
    while address:
        html = client.get(address).content.decode()
        page = [int(number) for number in re.findall(r'<th scope="row"><a href="/w/[^"]+/runs/(\d+)/">', html)]
        seen.append(page)
        more = re.search(r'rel="next" href="([^"]+)"', html)
        address = more[1].replace("&amp;", "&") if more else ""
    assert [len(page) for page in seen] == [50, 50, 20]
    assert len({number for page in seen for number in page}) == 120


def test_runs_are_taken_away_as_csv_and_json_and_their_sums_close(place: Workspace) -> None:
    sync = factories.healthy(place)
    factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW, error_sentence="=HYPERLINK(1)")
    client = browser(place)
    answer = client.get(f"/w/{place.slug}/syncs/{sync.pk}/runs.csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert tuple(rows[0]) == listing.COLUMNS
    assert [row["error_sentence"] for row in rows] == ["'=HYPERLINK(1)", ""]
    assert rows[1]["planned_for"] == "2026-10-08T11:59:29Z"
    for row in rows:
        assert int(row["read"]) == sum(int(row[state.value]) for state in RecordState)
    document = json.loads(client.get(f"/w/{place.slug}/syncs/{sync.pk}/runs.json?outcome=succeeded").content)
    assert [run["written"] for run in document["runs"]] == [28]


@pytest.mark.parametrize("begins", takeaway.FORMULA)
def test_no_cell_is_worked_out_by_a_spreadsheet(begins: str) -> None:
    """PRODUCT 10.4."""
    assert takeaway._cell(f"{begins}1+1") == f"'{begins}1+1"


# --- One run ----------------------------------------------------------------------------------------------------------
def _failed_run(place: Workspace) -> Run:
    sync = factories.published(place)
    left = {"unchanged": 4, "refused": 218, "in_doubt": 3, "failed": 5, "not_yet_tried": 20}
    run = factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW, error_code="rejected", unsettled=left)
    for number in range(5):
        factories.delivery(
            run, f"contact:{number}", DeliveryState.FAILED, code="invalid_parameter", sentence="attributes.SMS: E.164"
        )
    for number in range(5, 8):
        factories.delivery(run, f"contact:{number}", DeliveryState.IN_DOUBT)
    return run


def test_each_number_of_a_run_leads_to_its_records(place: Workspace) -> None:
    """UX, P2.4; Case UI-03: the record's id and the reason in words, no address."""
    run = _failed_run(place)
    client = browser(place)
    html = client.get(at(run)).content.decode()
    links = re.findall(rf'<a href="({re.escape(at(run))}records/\?state=(\w+))"><b>([\d,]+)</b>', html)
    assert {(state, number) for _href, state, number in links} == {
        ("unchanged", "4"),
        ("refused", "218"),
        ("in_doubt", "3"),
        ("failed", "5"),
        ("not_yet_tried", "20"),
    }
    for href, state, number in links:
        answer = client.get(href)
        assert (answer.status_code, faults(answer)) == (200, [])
        assert f"{number} {words.RECORD_STATES[state]}" in text_of(answer)
    failed = text_of(client.get(f"{at(run)}records/?state=failed"))
    assert "contact:3 failed invalid parameter" in failed
    assert "attributes.SMS: E.164" in failed
    unchanged = text_of(client.get(f"{at(run)}records/?state=unchanged"))
    assert "leave no row in the ledger" in unchanged


def test_records_come_fifty_a_page_and_by_reason(place: Workspace) -> None:
    sync = factories.published(place)
    run = factories.run(sync, states={"refused": 70}, refusals={"no_date": 60, "pending": 10})
    for number in range(70):
        code = "no_date" if number < 60 else "pending"
        factories.delivery(run, f"contact:{number}", DeliveryState.REFUSED, code=code)
    client = browser(place)
    first = client.get(f"{at(run)}records/?state=refused").content.decode()
    assert first.count("<code>contact:") == 50
    more = re.search(r'rel="next" href="([^"]+)"', first)
    assert more is not None
    second = client.get(f"{at(run)}records/{more[1].replace('&amp;', '&')}").content.decode()
    assert second.count("<code>contact:") == 20
    assert client.get(f"{at(run)}records/?state=refused&reason=pending").content.decode().count("<code>contact:") == 10


@pytest.mark.parametrize("query", ["", "state=none", "state=failed&after=x", f"state=failed&after={'9' * 30}"])
def test_a_strange_address_of_records_breaks_nothing(place: Workspace, query: str) -> None:
    answer = browser(place).get(f"{at(_failed_run(place))}records/?{query}")
    assert (answer.status_code, faults(answer)) == (200, [])


def test_errors_alike_are_one_line_with_their_number(place: Workspace) -> None:
    """Case UI-05: the destination's own reason, grouped with a count."""
    run = _failed_run(place)
    page = queries.run_page(queries.run_for(factories.superuser(), place.slug, run.pk)[1], NOW)
    assert [(group.number, group.word, group.reason, group.sentence) for group in page.groups] == [
        (5, "failed", "invalid parameter", "attributes.SMS: E.164"),
        (3, "in doubt", "", ""),
    ]
    assert "5 14:05 CEST" in text_of(browser(place).get(at(run)))


@pytest.mark.django_db
def test_the_timeline_of_a_run_names_proof_fence_and_cursor() -> None:
    """UX, P3."""
    sync = factories.published()
    run = factories.run(sync, proof={**factories.receipt(sync), "proved_at": (NOW - 5 * MINUTE).isoformat()})
    factories.occurrence(run, NOW - 6 * MINUTE)
    factories.attempt(run, fence=7, pages=3)
    Coverage.objects.create(
        sync=sync, lane="scheduled", run=run, since=NOW - 20 * MINUTE, until=NOW - 6 * MINUTE, records=9, proved_at=NOW
    )
    page = queries.run_page(queries.run_for(factories.superuser(), sync.workspace.slug, run.pk)[1], NOW)
    assert [(step.what, step.detail) for step in page.steps] == [
        ("Planned", "by the schedule"),
        ("Queued", ""),
        ("Started", ""),
        ("Attempt 1 took the lease", "fence 7"),
        ("Version 1 proved", f"digest {factories.digest(sync)[:12]}, both accounts, the scopes"),
        ("Attempt 1 ended: succeeded", "3 pages moved over, 1 slice"),
        ("Cursor moved from 13:45 CEST to 13:59 CEST", "9 records of the source in it, proved"),
        ("Closed: succeeded", ""),
    ]


def test_an_open_run_shows_where_its_cursor_stands_and_can_be_stopped(place: Workspace) -> None:
    sync = factories.published(place, at=NOW - HOUR)
    run = factories.open_run(sync, RunState.RUNNING, created=NOW)
    Cursor.objects.create(sync=sync, lane="scheduled", until=NOW, rows=1280, pages=5, moved_at=NOW)
    client = browser(place, Role.OPERATOR, "otto")
    assert "Cursor stands behind page 5" in text_of(client.get(at(run)))
    text = text_of(client.post(f"{at(run)}cancel/", {"reason": "enough"}, follow=True))
    assert "The run was asked to stop." in text
    assert "otto asked it to stop: it stops before its next write." in text
    run.refresh_from_db()
    assert run.cancel_asked_by == "otto"


def test_stopping_what_has_ended_changes_nothing(place: Workspace) -> None:
    run = factories.healthy(place).runs.get()
    text = text_of(browser(place).post(f"{at(run)}cancel/", follow=True))
    assert "This run has ended already" in text
    assert not AuditEntry.objects.exists()


def test_failed_records_of_a_run_are_tried_again_with_a_reason(place: Workspace) -> None:
    run = _failed_run(place)
    client = browser(place, Role.OPERATOR, "otto")
    assert "Say why" in text_of(client.post(f"{at(run)}retry/", {"reason": " "}, follow=True))
    assert not AuditEntry.objects.exists()
    text = text_of(client.post(f"{at(run)}retry/", {"reason": "The field is mended."}, follow=True))
    assert "5 records are tried again by the next run." in text
    assert Delivery.objects.filter(state="failed").count() == 0
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor_label, entry.reason) == ("deliveries.retried", "otto", "The field is mended.")


def test_a_run_is_run_again_as_a_person(place: Workspace) -> None:
    sync = factories.healthy(place)
    answer = browser(place, Role.OPERATOR).post(f"{at(sync.runs.get())}again/")
    started = sync.runs.get(trigger="person")
    assert answer.headers["Location"] == at(started)


def test_a_run_is_downloaded_whole(place: Workspace) -> None:
    run = _failed_run(place)
    factories.attempt(run, outcome=Outcome.FAILED)
    document = json.loads(browser(place).get(f"{at(run)}run.json").content)
    assert document["read"] == sum(document[state.value] for state in RecordState) == 250
    assert [one["outcome"] for one in document["attempts"]] == ["failed"]
    assert document["receipt"]["digest"] == document["digest"]


# --- Home -------------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_home_draws_seven_days_of_every_sync() -> None:
    """UX, P1.3."""
    sync = factories.published(at=NOW - 20 * DAY)
    factories.run(sync, ended=NOW - 6 * DAY)
    factories.run(sync, verdict=Verdict.PROVEN_QUIET, ended=NOW - DAY)
    for _ in range(2):
        factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW)
    line = queries.home(sync.workspace, NOW).lines[0]
    assert [day.shape for day in line.week] == ["ok", "plan", "plan", "plan", "plan", "quiet", "fail"]
    assert line.week_words == "Thu 8 Oct: 2 failed"


def test_home_leads_to_the_first_proved_run(place: Workspace) -> None:
    """UX, P1.5: gone once there was one."""
    client = browser(place)
    home = f"/w/{place.slug}/"
    assert "Connect a shop and an account to send to : to do" in text_of(client.get(home))
    sync = factories.sync(place)
    factories.preview(sync)
    text = text_of(client.get(home))
    assert "Preview it: your own records, nothing written : done" in text
    assert "Publish exactly what you saw : to do" in text
    factories.healthy(place)
    assert "Until the first proved run" not in text_of(client.get(home))


def test_home_keeps_the_findings_of_seven_days(place: Workspace) -> None:
    sync = factories.healthy(place)
    factories.finding(sync, "run_failed", "The last run failed.", opened_at=NOW - DAY, resolved_at=NOW - HOUR)
    factories.finding(sync, "version_drift", "Too old.", opened_at=NOW - 8 * DAY, resolved_at=NOW - 8 * DAY)
    text = text_of(browser(place).get(f"/w/{place.slug}/"))
    assert re.search(r"The last run failed\. Resolved 13:05 CEST", text)
    assert "Too old." not in text


# --- Activity ---------------------------------------------------------------------------------------------------------
def test_activity_says_who_changed_what_from_what_to_what_and_why(place: Workspace) -> None:
    """UX, P9."""
    sync = factories.healthy(place, name="Newsletter")
    entry = factories.audit(
        sync,
        "sync.draft_saved",
        who="bo",
        before={"list_id": 12, "filter": None},
        after={"list_id": 13, "filter": None},
        reason="Autumn.",
    )
    other = factories.audit(factories.healthy(factories.workspace("Other")), who="stranger")
    client = browser(place)
    answer = client.get(f"/w/{place.slug}/activity/")
    assert faults(answer) == []
    text = text_of(answer)
    assert "bo saved the draft: Newsletter Autumn. list id 12 → 13" in text
    assert "stranger" not in text
    assert "filter" not in text.partition("Autumn.")[2].partition("All times")[0]
    assert client.get(f"/w/{place.slug}/activity/{entry.pk}/").status_code == 200
    assert client.get(f"/w/{place.slug}/activity/{other.pk}/").status_code == 404


def test_activity_is_filtered_and_comes_fifty_a_page(place: Workspace) -> None:
    sync = factories.healthy(place)
    for number in range(60):
        factories.audit(sync, who="mara" if number % 2 else "bo", at=NOW - number // 3 * MINUTE)
    shown = activity.activity(place, activity.Asked())
    rest = activity.activity(place, activity.Asked(before=activity.marked(shown.more)))
    assert [len(shown.entries), len(rest.entries), rest.more] == [50, 10, ""]
    assert len({one.id for one in (*shown.entries, *rest.entries)}) == 60
    html = browser(place).get(f"/w/{place.slug}/activity/?who=mara").content.decode()
    assert html.count('<li id="e') == 30


def test_a_deed_without_words_is_shown_by_its_code(place: Workspace) -> None:
    factories.audit(factories.healthy(place), "alert.acknowledged", who=HOSTILE)
    answer = browser(place).get(f"/w/{place.slug}/activity/")
    assert "alert.acknowledged" in answer.content.decode()
    assert faults(answer) == []


# --- Recovery ---------------------------------------------------------------------------------------------------------
def _rejected(place: Workspace) -> tuple[Sync, Delivery]:
    run = _failed_run(place)
    factories.delivery(run, "contact:9", DeliveryState.SET_ASIDE, code="bad_address", sentence="Brevo: bad email")
    return run.sync, run.deliveries.filter(state="failed").first()


def test_the_recovery_page_shows_cursors_lease_and_records(place: Workspace) -> None:
    """PRODUCT 1.8, 4.4, 9.3."""
    sync, _delivery = _rejected(place)
    factories.cursor(sync, NOW - HOUR)
    answer = browser(place).get(path(sync, "recovery"))
    text = text_of(answer)
    assert faults(answer) == []
    assert "Scheduled 13:05 CEST" in text
    assert "contact:9" in text
    assert "This sync has never run, so nobody has held it." in text


def test_a_viewer_sees_recovery_and_no_buttons(place: Workspace) -> None:
    sync, _delivery = _rejected(place)
    html = browser(place, Role.VIEWER).get(path(sync, "recovery")).content.decode()
    assert "contact:9" in html
    for word in ("Try again", "Set aside<", "Show what that would do", "Take over now"):
        assert word not in html


def test_one_record_is_set_aside_and_one_tried_again_each_with_a_reason(place: Workspace) -> None:
    sync, delivery = _rejected(place)
    client = browser(place, Role.OPERATOR, "otto")
    assert client.post(path(sync, "recovery", "set-aside"), {"record": delivery.pk}).status_code == 422
    said = client.post(path(sync, "recovery", "set-aside"), {"record": delivery.pk, "reason": "Typo."}, follow=True)
    assert "The record is set aside." in text_of(said)
    said = client.post(path(sync, "recovery", "retry"), {"record": delivery.pk, "reason": "Mended."}, follow=True)
    assert "1 record is tried again by the next run." in text_of(said)
    assert [entry.reason for entry in AuditEntry.objects.order_by("pk")] == ["Typo.", "Mended."]
    again = client.post(path(sync, "recovery", "set-aside"), {"record": delivery.pk, "reason": "Typo."})
    assert again.status_code == 404


def test_all_records_of_one_reason_are_tried_again(place: Workspace) -> None:
    sync, _delivery = _rejected(place)
    posted = {"code": "invalid_parameter", "reason": "The list is mended."}
    said = browser(place).post(path(sync, "recovery", "retry"), posted, follow=True)
    assert "5 records are tried again by the next run." in text_of(said)
    assert browser(place, name="eva").post(path(sync, "recovery", "retry"), {"reason": "?"}).status_code == 404


def test_another_workspaces_record_is_not_touched(place: Workspace) -> None:
    _sync, delivery = _rejected(factories.workspace("Other"))
    mine = factories.healthy(place)
    client = browser(place)
    for act in ("set-aside", "retry"):
        client.post(path(mine, "recovery", act), {"record": delivery.pk, "reason": "Mine."})
    delivery.refresh_from_db()
    assert (delivery.state, delivery.code) == ("failed", "invalid_parameter")


def test_a_cursor_goes_back_only_after_showing_what_that_does(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case UI-04: how many records, and what happens to the other cursors (nothing); a reason before it is done."""
    sync = factories.healthy(place)
    cursor = factories.cursor(sync, NOW)
    back = datetime(2026, 10, 8, 9, 0, tzinfo=BERLIN)
    plan = services.CursorPlan(Lane.SCHEDULED, NOW, back, Count(1200, exact=True), 900)
    asked: list[Any] = []
    monkeypatch.setattr(services, "cursor_plan", lambda *args, **more: asked.append(more) or plan)
    client = browser(place)
    shown = client.post(path(sync, "recovery", "cursor"), {"lane": "scheduled", "to": "2026-10-08T09:00"})
    text = text_of(shown)
    assert asked == [{"to": back}]
    assert faults(shown) == []
    for said in ("About 1,200 records would be read again", "900 are known to this sync", "Stay where they are."):
        assert said in text
    cursor.refresh_from_db()
    assert cursor.watermark == NOW
    posted = {"lane": "scheduled", "to": back.isoformat()}
    assert "say why" in text_of(client.post(path(sync, "recovery", "cursor", "reset"), posted, follow=True))
    posted["reason"] = "An app wrote late."
    assert "The cursor is set back." in text_of(
        client.post(path(sync, "recovery", "cursor", "reset"), posted, follow=True)
    )
    cursor.refresh_from_db()
    assert cursor.watermark == back


def test_an_instant_that_is_none_is_told(place: Workspace) -> None:
    sync = factories.healthy(place)
    answer = browser(place).post(path(sync, "recovery", "cursor"), {"lane": "scheduled", "to": "yesterday"})
    assert answer.status_code == 422
    assert "Write a date and a time, such as 2026-10-08 14:05." in text_of(answer)
    assert faults(answer) == []


def test_a_lease_is_taken_over_only_when_it_has_run_out(place: Workspace) -> None:
    """PRODUCT 3.1, 9.3."""
    sync = factories.published(place, at=NOW - HOUR)
    run = factories.open_run(sync, RunState.RUNNING, created=NOW)
    client = browser(place, Role.OPERATOR, "otto")
    address = path(sync, "recovery")
    assert "Take over now" not in client.get(address).content.decode()
    refused = client.post(path(sync, "recovery", "lease"), {"reason": "Impatient."})
    assert refused.status_code >= 400
    Lease.objects.update(expires_at=NOW - MINUTE)
    assert "Take over now" in client.get(address).content.decode()
    said = client.post(path(sync, "recovery", "lease"), {"reason": "The host is gone."}, follow=True)
    assert "The sync is free under fence 2." in text_of(said)
    lease = Lease.objects.get(sync=sync)
    assert (lease.fence, lease.run_id) == (2, None)
    assert AuditEntry.objects.get().reason == "The host is gone."
    assert run.sync_id == sync.pk


def test_pages_of_recovery_take_few_queries(
    place: Workspace, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    sync, _delivery = _rejected(place)
    loaded = queries.sync_for(factories.superuser(), place.slug, sync.pk)
    with django_assert_max_num_queries(5):
        recovery.recovery_page(loaded, NOW)
    client = browser(place)
    for address in (path(sync, "recovery"), path(sync, "runs"), path(sync, "consent"), at(sync.runs.get())):
        with django_assert_max_num_queries(12):
            client.get(address)


def test_anonymous_people_come_to_the_log_in_page(place: Workspace) -> None:
    sync = factories.healthy(place)
    for more in ("runs", "consent", "recovery"):
        assert Client().get(path(sync, more)).status_code == 302


@pytest.mark.parametrize("days", ["since=0001-01-01", "until=9999-12-31", "since=0001-01-01&until=9999-12-31"])
def test_dates_at_the_ends_of_the_calendar_ask_for_nothing(place: Workspace, days: str) -> None:
    place.zone = "Europe/Berlin"
    place.save()
    sync = factories.published(place)
    client = browser(place)
    for page in ("runs/", "runs.csv", "runs.json"):
        assert client.get(f"{path(sync)}{page}?{days}").status_code == 200
    assert client.get(f"/w/{place.slug}/activity/?{days}").status_code == 200


@pytest.mark.parametrize("to", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:00-12:00", "1850-01-01T00:00:00+00:00"])
def test_a_cursor_is_not_set_to_an_instant_that_no_clock_was_at(place: Workspace, to: str) -> None:
    sync = factories.published(place)
    client = browser(place, Role.PUBLISHER)
    Cursor.objects.create(sync=sync, lane="scheduled", watermark=NOW)
    asked = {"lane": "scheduled", "to": to, "reason": "x"}
    assert client.post(path(sync, "recovery", "cursor", "reset"), asked).status_code in (302, 422)
    assert Cursor.objects.get(sync=sync, lane="scheduled").watermark == NOW
    assert client.get(path(sync, "recovery")).status_code == 200
