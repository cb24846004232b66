"""What pages say: headlines in their order, sums that close, words for every code."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from syncs import queries, words
from syncs.domain import consent
from syncs.domain.lifecycle import (
    DeliveryState,
    FindingState,
    Lane,
    OccurrenceState,
    Outcome,
    Phase,
    RecordState,
    RunState,
    SyncState,
    Trigger,
    Verdict,
)
from syncs.errors import NotFound
from syncs.models import Lease, Sync
from syncs.models.workspaces import Role
from syncs.queries import runs, standing
from syncs.words import Health, Tone
from tests import factories
from tests.factories import NOW

BERLIN = ZoneInfo("Europe/Berlin")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


# --- Words ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("table", "codes"),
    [
        (words.HEALTH, Health),
        (words.SYNC_STATES, SyncState),
        (words.OUTCOMES, Outcome),
        (words.RUN_STATES, RunState),
        (words.PHASES, Phase),
        (words.VERDICTS, Verdict),
        (words.RECORD_STATES, RecordState),
        (words.DELIVERY_STATES, DeliveryState),
        (words.OCCURRENCE_STATES, OccurrenceState),
        (words.LANES, Lane),
        (words.TRIGGERS, Trigger),
        (words.FINDING_STATES, FindingState),
    ],
)
def test_every_state_has_a_word_and_no_two_share_one(table: words.Words, codes: type[StrEnum]) -> None:
    said = [str(table[code]) for code in codes]
    assert set(table) == set(codes)
    assert all(said)
    assert len(set(said)) == len(said)


def test_every_reason_to_refuse_has_words() -> None:
    assert set(words.REFUSALS) == set(consent.CODES)
    assert len({str(word) for word in words.REFUSALS.values()}) == len(consent.CODES)


def test_every_headline_has_a_sentence() -> None:
    assert set(standing.SENTENCES) == set(Health)


def test_every_headline_has_a_colour_and_a_shape() -> None:
    assert [words.health(code).tone for code in Health] == [
        *[Tone.BAD] * 4,
        *[Tone.WARN] * 3,
        Tone.OK,
        *[Tone.QUIET] * 2,
    ]
    assert all(words.health(code).shape for code in Health)


def test_every_deed_that_services_write_down_about_a_sync_has_words() -> None:
    services = Path(__file__).resolve().parents[2] / "syncs" / "services"
    text = "".join(path.read_text(encoding="utf-8") for path in services.glob("*.py"))
    deeds = set(re.findall(r'"((?:sync|run|backfill|schedule|cursor|delivery|deliveries|lease)\.[a-z_]+)"', text))
    assert deeds == set(words.ACTIONS)


def test_a_code_of_the_destination_is_shown_as_it_is() -> None:
    assert words.refusal("phone_belongs_to_another") == "phone belongs to another"


def test_a_local_time_that_comes_twice_is_told_apart() -> None:
    """Case UI-01."""
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert words.instant(first, BERLIN, NOW) == "25 Oct 2026 02:30 CEST"
    assert words.instant(second, BERLIN, NOW) == "25 Oct 2026 02:30 CET"
    assert words.dated(first, BERLIN) == "25 Oct 2026 02:30 CEST"


def test_todays_times_need_no_date() -> None:
    assert words.instant(NOW, BERLIN, NOW) == "14:05 CEST"


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (timedelta(seconds=1), "1 second"),
        (timedelta(seconds=119), "119 seconds"),
        (timedelta(minutes=2), "2 minutes"),
        (timedelta(minutes=119), "119 minutes"),
        (timedelta(hours=26), "26 hours"),
        (timedelta(days=5, hours=3), "5 days"),
        (timedelta(seconds=-3), "0 seconds"),
    ],
)
def test_lengths_are_told_in_their_largest_unit(length: timedelta, said: str) -> None:
    assert words.lasting(length) == said


def test_what_is_ahead_is_rounded_up() -> None:
    assert words.relative(NOW + timedelta(minutes=9, seconds=50), NOW) == "in 10 minutes"
    assert words.relative(NOW - timedelta(minutes=9, seconds=50), NOW) == "9 minutes ago"
    assert words.relative(NOW + timedelta(seconds=40), NOW) == "in 40 seconds"


@pytest.mark.parametrize(
    ("minutes", "said"), [(1, "every minute"), (15, "every 15 minutes"), (60, "every hour"), (2880, "every 2 days")]
)
def test_an_interval_is_told_in_words(minutes: int, said: str) -> None:
    assert words.every(minutes) == said


# --- Counters ---------------------------------------------------------------------------------------------------------
@given(st.dictionaries(st.sampled_from([state.value for state in RecordState]), st.integers(0, 10**9)))
def test_read_is_the_sum_of_the_states_and_every_state_is_named(states: dict[str, int]) -> None:
    counted = runs.counters(states)
    assert counted.read == sum(part.number for part in counted.parts)
    assert {part.state for part in (*counted.parts, *counted.others)} == {state.value for state in RecordState}
    assert not any(part.number for part in counted.others)


@given(st.dictionaries(st.sampled_from([state.value for state in RecordState]), st.integers(1, 10**6), min_size=1))
def test_the_bar_is_filled_exactly_and_shows_even_one_of_a_million(states: dict[str, int]) -> None:
    drawn = runs.counters(states).drawn
    assert sum(part.width for part in drawn) == pytest.approx(100, abs=0.1)
    assert min(part.width for part in drawn) >= runs.LEAST_WIDTH - 0.01


def test_records_of_the_page_it_stopped_at_are_counted_too() -> None:
    run = runs.Run(states={"refused": 200, "written": 28}, unsettled={"refused": 18, "in_doubt": 3, "not_yet_tried": 1})
    assert runs.totals(run) == {"refused": 218, "written": 28, "in_doubt": 3, "not_yet_tried": 1}
    assert runs.counters(runs.totals(run)).read == 250


def test_a_state_of_a_newer_release_still_closes_the_sum() -> None:
    assert runs.counters({"written": 2, "forwarded": 3}).read == 5


def test_refusals_are_told_by_reason_the_most_frequent_first() -> None:
    found = runs.reasons({"unsubscribed": 18, "no_date": 200, "pending": 0})
    assert [(one.word, one.number, one.share) for one in found] == [
        ("subscribed, but not since when", 200, 91.7),
        ("unsubscribed at the source", 18, 8.3),
    ]


def test_a_run_that_left_records_behind_is_not_plainly_succeeded() -> None:
    """Case UI-03."""
    states = {"written": 5, "refused": 2, "set_aside": 1, "already_delivered": 1, "in_doubt": 1}
    sign = words.run_sign(outcome="succeeded", verdict="proven", states=states)
    assert (sign.word, sign.tone) == ("succeeded, 1 set aside, 1 in doubt", Tone.WARN)
    assert runs.counters(states).read == 10


def test_nothing_new_is_told_apart_from_success() -> None:
    sign = words.run_sign(outcome="succeeded", verdict="proven_quiet", states={})
    assert (sign.word, sign.tone) == ("succeeded, nothing new (proved)", Tone.OK)


def test_a_cancelled_run_names_who_did_it() -> None:
    sign = words.run_sign(outcome="cancelled", verdict="open", states={}, stopped_by="mara")
    assert sign.word == "cancelled by mara"


# --- Access -----------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_a_person_sees_the_workspaces_they_belong_to() -> None:
    mine, _other = factories.workspace("Mine"), factories.workspace("Other")
    person = factories.member(mine, Role.EDITOR)
    assert [(place.workspace, place.role) for place in queries.workspaces_for(person)] == [(mine, Role.EDITOR)]


@pytest.mark.django_db
def test_a_superuser_sees_every_workspace_as_a_publisher() -> None:
    both = {factories.workspace("Mine"), factories.workspace("Other")}
    places = queries.workspaces_for(factories.superuser())
    assert {place.workspace for place in places} == both
    assert {place.role for place in places} == {Role.PUBLISHER}


@pytest.mark.django_db
def test_a_strangers_sync_is_not_found_like_one_that_does_not_exist() -> None:
    sync = factories.sync()
    stranger = factories.member(factories.workspace("Other"))
    said = []
    for slug in (sync.workspace.slug, "no-such-place"):
        with pytest.raises(NotFound) as refused:
            queries.sync_for(stranger, slug, sync.pk)
        said.append(refused.value.sentence)
    assert said[0] == said[1]


@pytest.mark.django_db
def test_a_sync_is_found_in_its_own_workspace_only() -> None:
    sync, other = factories.sync(), factories.workspace("Other")
    person = factories.member(other, Role.PUBLISHER)
    root = factories.superuser()
    assert queries.sync_for(root, sync.workspace.slug, sync.pk) == sync
    for who in (person, root):
        with pytest.raises(NotFound):
            queries.sync_for(who, other.slug, sync.pk)


@pytest.mark.django_db
def test_a_number_beyond_any_row_is_not_found() -> None:
    place = factories.workspace()
    person = factories.member(place)
    with pytest.raises(NotFound):
        queries.sync_for(person, place.slug, 10**30)
    with pytest.raises(NotFound):
        queries.run_for(person, place.slug, 10**30)
    with pytest.raises(NotFound):
        queries.preview_for(person, place.slug, 10**30, 10**30)


# --- Headlines --------------------------------------------------------------------------------------------------------
def _page(sync: Sync, now: datetime = NOW) -> queries.SyncPage:
    root = User.objects.filter(is_superuser=True).first() or factories.superuser()
    return queries.sync_page(queries.sync_for(root, sync.workspace.slug, sync.pk), now)


def _set(sync: Sync, **values: object) -> Sync:
    Sync.objects.filter(pk=sync.pk).update(**values)
    sync.refresh_from_db()
    return sync


def _draft() -> Sync:
    return factories.sync()


def _waiting() -> Sync:
    return factories.published(at=NOW - HOUR)


def _healthy() -> Sync:
    return factories.healthy()


def _late() -> Sync:
    sync = factories.healthy()
    sync.schedule.next_for = NOW - 3 * MINUTE
    sync.schedule.save()
    return sync


def _retrying() -> Sync:
    sync = factories.healthy()
    factories.open_run(sync, failures=2, due_after=NOW + MINUTE, error_sentence="Brevo did not answer.")
    return sync


def _edited() -> Sync:
    return _set(factories.healthy(), state="edited")


def _unproven() -> Sync:
    sync = factories.healthy()
    factories.run(sync, Outcome.SHORT, verdict=Verdict.SHORT, ended=NOW - MINUTE, error_code="read_short")
    return sync


def _silent() -> Sync:
    return _set(factories.healthy(), last_success_at=NOW - 26 * HOUR)


def _failing() -> Sync:
    sync = factories.healthy()
    factories.run(sync, Outcome.FAILED, verdict=Verdict.OPEN, ended=NOW - MINUTE, error_code="token_refused")
    return sync


def _paused() -> Sync:
    sync = _failing()
    return _set(sync, state="paused", paused_at=NOW - MINUTE, pause_code="token_refused", pause_sentence="Refused.")


SAID = {
    Health.DRAFT: "Nothing runs yet. Preview the draft, then publish exactly what you saw.",
    Health.WAITING: "No run yet. The first is planned for 14:15 CEST.",
    Health.HEALTHY: "Running on time. Brevo shows Shopify as of 14:00 CEST.",
    Health.LATE: "The run planned for 14:02 CEST has not started. Brevo shows Shopify as of 14:00 CEST.",
    Health.RETRYING: "Attempt 2 of 5 failed. The next one starts at 14:06 CEST.",
    Health.EDITED: "The draft was changed. Nothing runs until it is published again. "
    "Brevo shows Shopify as of 14:00 CEST.",
    Health.UNPROVEN: "The last read could not be proved, so it moved nothing. Brevo shows Shopify as of 14:00 CEST.",
    Health.SILENT: "No successful run for 26 hours (limit 24 hours). Last success: 7 Oct 2026 12:05 CEST.",
    Health.FAILING: "The last run failed at 14:04 CEST. Nothing is lost: the next one goes on at the same place.",
    Health.PAUSED: "Paused since 14:04 CEST. Nothing is lost. Brevo shows Shopify as of 14:00 CEST.",
}
MAKERS: dict[Health, Callable[[], Sync]] = {
    Health.DRAFT: _draft,
    Health.WAITING: _waiting,
    Health.HEALTHY: _healthy,
    Health.LATE: _late,
    Health.RETRYING: _retrying,
    Health.EDITED: _edited,
    Health.UNPROVEN: _unproven,
    Health.SILENT: _silent,
    Health.FAILING: _failing,
    Health.PAUSED: _paused,
}


@pytest.mark.django_db
@pytest.mark.parametrize("health", Health)
def test_the_headline_and_its_sentence(health: Health) -> None:
    page = _page(MAKERS[health]())
    assert (page.standing.health, page.standing.sentence) == (health, SAID[health])


@pytest.mark.django_db
@pytest.mark.parametrize("health", Health)
def test_whatever_is_wrong_has_a_banner_and_nothing_else(health: Health) -> None:
    banner = _page(MAKERS[health]()).standing.banner
    assert (banner is not None) == (health in standing.BANNERS)
    if banner is not None:
        assert banner.title
        assert banner.safe
        assert all(banner.todo)


@pytest.mark.django_db
def test_exactly_24_hours_without_success_are_still_fine() -> None:
    """Case SIL-01: the limit itself is no silence."""
    sync = _set(factories.healthy(), last_success_at=NOW - 24 * HOUR)
    assert _page(sync).standing.health is Health.HEALTHY
    assert _page(sync, NOW + timedelta(seconds=1)).standing.health is Health.SILENT


@pytest.mark.django_db
def test_a_sync_that_never_ran_is_silent_a_day_after_publishing() -> None:
    page = _page(factories.published(at=NOW - 30 * HOUR))
    assert page.standing.sentence == "No successful run for 30 hours (limit 24 hours). There was never one."


@pytest.mark.django_db
def test_a_paused_or_edited_sync_is_not_called_silent() -> None:
    for state, word in (("paused", Health.PAUSED), ("edited", Health.EDITED)):
        sync = _set(factories.healthy(), state=state, last_success_at=NOW - 50 * HOUR)
        true = standing.applying(standing.Facts(sync, None, None), NOW)
        assert true[0] is word
        assert Health.SILENT not in true


@pytest.mark.django_db
def test_a_failure_before_the_last_publication_is_history() -> None:
    """PRODUCT 4.3."""
    sync = _set(_failing(), changed_at=NOW - timedelta(seconds=10))
    assert _page(sync).standing.health is Health.HEALTHY


@pytest.mark.django_db
def test_a_collision_says_nothing_about_health() -> None:
    """Case LEASE-06: it does not count."""
    sync = factories.healthy()
    factories.run(sync, Outcome.COLLIDED, verdict=Verdict.OPEN, ended=NOW - MINUTE)
    page = _page(sync)
    assert page.standing.health is Health.HEALTHY
    assert page.last is not None
    assert page.last.sign.word == "succeeded"
    assert page.runs[0].sign.word == "collided"


@pytest.mark.django_db
def test_what_counts_is_found_behind_fifty_collisions() -> None:
    sync = factories.healthy()
    for number in range(50):
        factories.run(sync, Outcome.COLLIDED, verdict=Verdict.OPEN, ended=NOW - timedelta(seconds=number))
    page = _page(sync)
    assert len(page.runs) == 50
    assert page.last is not None
    assert page.last.sign.word == "succeeded"
    assert page.counters is not None
    assert page.counters.read == 250


@pytest.mark.django_db
def test_the_worst_banner_comes_first_and_names_the_others() -> None:
    sync = _set(_failing(), last_success_at=NOW - 26 * HOUR)
    banner = _page(sync).standing.banner
    assert banner is not None
    assert banner.title == "The last run failed at 14:04 CEST and has no attempt left."
    assert banner.more == (f"{SAID[Health.SILENT]} ",)


@pytest.mark.django_db
def test_a_pause_tells_since_when_why_and_what_to_do() -> None:
    """Case UI-04."""
    banner = _page(_paused()).standing.banner
    assert banner == queries.Banner(
        tone=Tone.BAD,
        title="Paused after failed runs in a row, since 14:04 CEST.",
        lead="Refused. Nothing starts it again by itself.",
        todo=(
            "Test the connection and renew its credential.",
            "Open the draft and look at a fresh preview.",
            "Publish exactly that.",
        ),
        safe=(
            "Nothing is lost: the cursor stands at 14:00 CEST.",
            "Withdrawals since 14:00 CEST are not carried to Brevo while it stands still.",
        ),
    )


@pytest.mark.django_db
def test_withdrawals_that_wait_for_a_day_are_told_with_their_time() -> None:
    """PRODUCT 3.8."""
    sync = _set(_edited(), last_success_at=NOW - 50 * HOUR, draft_at=NOW)
    factories.audit(sync, "sync.draft_saved", at=NOW - 30 * HOUR)
    factories.audit(sync, "sync.draft_saved", at=NOW - 2 * HOUR)
    banner = _page(sync).standing.banner
    assert banner is not None
    assert banner.safe[-1] == (
        "Withdrawals since 6 Oct 2026 12:05 CEST are not carried to Brevo while it stands still. "
        "It has stood still for 30 hours."
    )


@pytest.mark.django_db
def test_a_run_without_a_sign_of_life_is_not_called_running() -> None:
    """Case UI-02: 16 minutes after the last renewal, before anybody took it over."""
    renewed = datetime(2026, 10, 12, 9, 40, tzinfo=UTC)
    now = renewed + 16 * MINUTE
    sync = factories.published(factories.workspace(zone="UTC"), at=now - HOUR)
    run = factories.open_run(sync, RunState.RUNNING, created=renewed)
    page = _page(sync, now)
    assert page.standing.health is Health.LATE
    assert page.standing.sentence == (
        "No sign of life of the run since 09:40 UTC. Another worker takes it over at 09:57 UTC."
    )
    assert page.runs[0].sign.word == "no sign of life"
    found = queries.run_for(User.objects.get(is_superuser=True), sync.workspace.slug, run.pk)[1]
    assert queries.run_page(found, now).sentence == page.standing.sentence


@pytest.mark.django_db
def test_a_run_that_renews_its_lease_is_running() -> None:
    sync = factories.healthy()
    factories.open_run(sync, RunState.RUNNING, created=NOW - 30 * MINUTE)
    Lease.objects.update(renewed_at=NOW - MINUTE, expires_at=NOW + 14 * MINUTE)
    page = _page(sync)
    assert page.is_running
    assert page.standing.health is Health.HEALTHY
    assert page.runs[1].sign.word == "running: reading"


# --- The page ---------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_the_page_shows_the_latest_run_with_records_and_it_closes() -> None:
    sync = factories.healthy()
    factories.run(sync, verdict=Verdict.PROVEN_QUIET, ended=NOW)
    page = _page(sync)
    assert page.last is not None
    assert page.last.sign.word == "succeeded, nothing new (proved)"
    assert page.counters is not None
    assert [(part.word, part.number) for part in page.counters.parts] == [
        ("written", 28),
        ("unchanged", 4),
        ("refused", 218),
        ("in doubt", 0),
        ("failed", 0),
    ]
    assert page.counters.read == 250
    assert [reason.number for reason in page.refusals] == [200, 18]


@pytest.mark.django_db
def test_the_page_names_what_is_published_and_by_whom() -> None:
    sync = factories.published()
    page = _page(sync)
    assert page.published is not None
    assert (page.published.number, page.published.publisher) == (1, "Vigil")
    assert page.published.short == factories.digest(sync)[:12]
    assert page.published.sentences[0] == "Reads customers and writes them as contacts to list 12."
    assert not page.draft_differs


@pytest.mark.django_db
def test_a_draft_that_differs_is_shown_beside_what_is_published() -> None:
    sync = factories.published()
    page = _page(_set(sync, state="edited", draft={**sync.draft, "list_id": 13}))
    assert page.draft_differs
    assert page.draft_sentences[0] == "Reads customers and writes them as contacts to list 13."


@pytest.mark.django_db
def test_a_draft_that_is_no_rule_is_told_and_breaks_nothing() -> None:
    page = _page(_set(factories.sync(), draft={"stream": "pigeons"}))
    assert len(page.draft_sentences) == 1
    assert page.draft_sentences[0].startswith("This rule cannot be read: ")


@pytest.mark.django_db
def test_only_the_newest_findings_are_listed_and_all_are_counted() -> None:
    sync = factories.healthy()
    for number in range(12):
        factories.finding(sync, "address_changed", f"Customer {number}.", subject=str(number))
    factories.finding(sync, "paused", "Over.", resolved_at=NOW)
    page = _page(sync)
    assert (len(page.findings), page.findings_total) == (10, 12)


@pytest.mark.django_db
def test_activity_is_that_of_this_sync() -> None:
    sync = factories.healthy(name="Newsletter")
    same_name = factories.healthy(factories.workspace("Other"), name="Newsletter")
    factories.audit(sync, "sync.published", who="mara")
    factories.audit(sync, "member.added", who="mara")
    factories.audit(same_name, "sync.paused", who="nobody")
    assert [(deed.who, deed.what) for deed in _page(sync).deeds] == [("mara", "published")]


@pytest.mark.django_db
def test_a_late_start_says_how_late_it_was() -> None:
    sync = factories.published()
    run = factories.run(sync, ended=NOW)
    factories.occurrence(run, run.started_at - 5 * HOUR)
    row = _page(sync).runs[0]
    assert (row.planned_for, row.late_by) == (run.started_at - 5 * HOUR, 5 * HOUR)


@pytest.mark.django_db
def test_the_page_takes_few_queries(django_assert_max_num_queries: Callable[[int], object]) -> None:
    sync = _set(_edited(), draft={**factories.sync().draft, "list_id": 99})
    for number in range(60):
        factories.run(sync, ended=NOW - timedelta(minutes=number))
        factories.finding(sync, "address_changed", subject=str(number))
    root = factories.superuser()
    with django_assert_max_num_queries(8):
        queries.sync_page(queries.sync_for(root, sync.workspace.slug, sync.pk), NOW)


# --- Home -------------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_a_workspace_lists_the_worst_sync_first() -> None:
    """Case UI-04."""
    place = factories.workspace()
    for made, name in ((factories.healthy, "Fine"), (factories.sync, "Draft"), (factories.published, "Silent")):
        made(place, name=name)
    paused = factories.healthy(place, name="Paused")
    _set(paused, state="paused", paused_at=NOW - MINUTE, pause_sentence="Refused (401).")
    home = queries.home(place, NOW)
    assert [(line.sync.name, line.health) for line in home.lines] == [
        ("Paused", Health.PAUSED),
        ("Silent", Health.SILENT),
        ("Fine", Health.HEALTHY),
        ("Draft", Health.DRAFT),
    ]
    assert [line.sync.name for line in home.unwell] == ["Paused", "Silent"]
    assert home.sentence.startswith("Paused: Paused since 14:04 CEST.")
    assert home.unwell[0].banner is not None
    assert "Refused (401)." in home.unwell[0].banner.lead


@pytest.mark.django_db
def test_a_healthy_workspace_says_so_in_one_line() -> None:
    place = factories.workspace()
    for name in ("A", "B"):
        factories.healthy(place, name=name)
    assert queries.home(place, NOW).sentence == "All 2 syncs are healthy. Last proved read 5 minutes ago."


@pytest.mark.django_db
def test_a_workspace_without_syncs_says_what_a_sync_is() -> None:
    home = queries.home(factories.workspace(), NOW)
    assert home.sentence.startswith("No sync yet.")
    assert home.lines == ()


@pytest.mark.django_db
def test_home_shows_only_its_own_findings() -> None:
    mine, other = factories.healthy(), factories.healthy(factories.workspace("Other"))
    factories.finding(mine, "version_drift", "Mine.")
    factories.finding(other, "version_drift", "Theirs.")
    assert [finding.sentence for finding in queries.home(mine.workspace, NOW).findings] == ["Mine."]


@pytest.mark.django_db
def test_home_takes_as_many_queries_for_ten_syncs_as_for_one(
    django_assert_max_num_queries: Callable[[int], object],
) -> None:
    place = factories.workspace()
    for number in range(10):
        _set(factories.healthy(place, name=f"Sync {number}"), state="edited" if number % 2 else "published")
    with django_assert_max_num_queries(6):
        queries.home(place, NOW)


# --- Runs and previews ------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_a_runs_page_names_every_record_without_a_happy_end() -> None:
    """Case UI-03: the record's id and the reason in words, no address."""
    sync = factories.published()
    run = factories.run(sync, states={"written": 1, "refused": 1, "set_aside": 1})
    factories.delivery(run, "contact:1")
    factories.delivery(run, "contact:2", DeliveryState.REFUSED, code="no_date")
    factories.delivery(run, "contact:3", DeliveryState.SET_ASIDE, code="bad_address", sentence="Brevo: bad email")
    found = queries.run_for(factories.superuser(), sync.workspace.slug, run.pk)[1]
    assert queries.run_page(found, NOW).not_written == (
        runs.NotWritten("contact:2", "refused", "subscribed, but not since when", ""),
        runs.NotWritten("contact:3", "set aside", "bad address", "Brevo: bad email"),
    )


@pytest.mark.django_db
def test_a_runs_page_shows_receipt_and_evidence() -> None:
    sync = factories.published()
    run = factories.run(sync)
    factories.attempt(run)
    found = queries.run_for(factories.superuser(), sync.workspace.slug, run.pk)[1]
    page = queries.run_page(found, NOW)
    assert [fact.answer for fact in page.receipt] == [
        "1",
        factories.digest(sync),
        "Vigil",
        factories.SOURCE_ACCOUNT,
        factories.DESTINATION_ACCOUNT,
    ]
    assert page.proved_at == NOW
    assert {fact.name: fact.answer for fact in page.evidence}["Counted by the source after"] == "250"
    assert page.sentence == "It ended at 14:00 CEST after 0 records, and the read is proved."
    assert [(one.number, one.sign.word) for one in page.attempts] == [(1, "succeeded")]


@pytest.mark.django_db
def test_a_preview_says_why_it_cannot_be_published_now() -> None:
    sync = factories.sync()
    preview = factories.preview(sync, by=factories.user("mara"))
    assert queries.preview_page(preview, NOW).obstacles == ()
    assert queries.preview_page(preview, NOW + 2 * HOUR).obstacles == (
        "This preview was valid until 15:03 CEST. Preview the draft again.",
    )
    preview.sync.draft_revision += 1
    preview.sync.draft_by, preview.sync.draft_at = factories.user("bo"), NOW
    assert queries.preview_page(preview, NOW).obstacles == (
        "Changed by bo at 14:05 CEST since this preview. Preview it again.",
    )


@pytest.mark.django_db
def test_a_preview_puts_refusals_first_and_its_numbers_close() -> None:
    page = queries.preview_page(factories.preview(factories.sync()), NOW)
    assert [(one.word, one.number) for one in page.tallies] == [
        ("refused", 2),
        ("would be created", 2),
        ("would be updated", 1),
    ]
    assert sum(one.number for one in page.tallies) == page.read == 5
    assert page.grouped_digest == " ".join((page.digest[:4], page.digest[4:8], page.digest[8:12]))


@pytest.mark.django_db
def test_a_preview_names_what_changes_against_what_is_published() -> None:
    sync = factories.published()
    _set(sync, draft={**sync.draft, "list_id": 13}, state="edited")
    page = queries.preview_page(factories.preview(sync), NOW)
    assert [(one.label, one.before, one.after) for one in page.changes] == [("List at the destination", "12", "13")]


@pytest.mark.django_db
def test_an_unreadable_source_makes_a_preview_that_says_so() -> None:
    result = {"blocks": ["Shopify refused the token."], "states": {}, "refusals": {}, "rows": [], "notes": []}
    preview = factories.preview(factories.sync(), facts={}, digest="", result=result, publishable=False)
    page = queries.preview_page(preview, NOW)
    assert (page.is_unreadable, page.obstacles, page.source) == (True, ("Shopify refused the token.",), "Shopify")
