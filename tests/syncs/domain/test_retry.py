from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import errors as connector_errors
from syncs import errors
from syncs.domain import retry
from syncs.domain.lifecycle import FAILURES, Outcome
from syncs.domain.retry import Ending, Next

F, S, C = Outcome.FAILED, Outcome.SUCCEEDED, Outcome.COLLIDED
FRACTIONS = st.floats(0, 1, exclude_max=True)

TABLE = [
    (connector_errors.Passing, Outcome.FAILED, True, True),
    (connector_errors.Throttled, Outcome.PARKED, True, False),
    (connector_errors.Rejected, Outcome.FAILED, False, True),
    (connector_errors.Refused, Outcome.FAILED, False, True),
    (connector_errors.TokenRefused, Outcome.FAILED, False, True),
    (connector_errors.ScopeMissing, Outcome.FAILED, False, True),
    (connector_errors.WrongAccount, Outcome.FAILED, False, True),
    (connector_errors.InDoubt, Outcome.FAILED, True, True),
    (connector_errors.Unreadable, Outcome.UNREADABLE, True, True),
    (connector_errors.CursorStale, Outcome.UNREADABLE, True, True),
    (errors.RuleInvalid, Outcome.FAILED, False, True),
    (errors.PublicationInvalid, Outcome.FAILED, False, True),
    (errors.Faulty, Outcome.FAILED, False, True),
    (errors.LeaseLost, Outcome.LOST_LEASE, True, False),
    (errors.Superseded, Outcome.SUPERSEDED, False, False),
    (errors.Cancelled, Outcome.CANCELLED, False, False),
    (errors.Paused, Outcome.STOPPED, False, False),
    (errors.Collided, Outcome.COLLIDED, False, False),
]


@pytest.mark.parametrize(("kind", "outcome", "retried", "counted"), TABLE, ids=lambda part: str(part))
def test_every_error_has_its_ending(kind, outcome, retried, counted):
    """PRODUCT 4.2; Cases RETRY-01, DELIV-05, PUB-06."""
    assert retry.counted(kind("Something happened.")) == Ending(outcome, retried, counted)


def test_the_table_has_no_other_row():
    assert set(retry.VERDICTS) == {row[0] for row in TABLE}


def descendants(kind):
    return {kind} | {one for child in kind.__subclasses__() for one in descendants(child)}


def test_every_error_of_a_connector_is_in_the_table():
    in_room = {kind for kind in descendants(connector_errors.ConnectorError) if kind.__module__ == "connectors.errors"}
    assert in_room - set(retry.VERDICTS) == {connector_errors.ConnectorError}


def test_an_error_that_is_not_in_the_table_ends_like_its_nearest_ancestor():
    class KeyExpired(connector_errors.TokenRefused):
        pass

    assert retry.counted(KeyExpired("Expired.")) == retry.VERDICTS[connector_errors.TokenRefused]


def test_a_fault_of_ours_is_not_classified():
    with pytest.raises(LookupError, match="ZeroDivisionError"):
        retry.counted(ZeroDivisionError())


def test_what_counts_towards_the_pause_ends_in_a_failure():
    assert {ending.outcome in FAILURES for ending in retry.VERDICTS.values() if ending.counted} == {True}
    assert {ending.outcome in FAILURES for ending in retry.VERDICTS.values() if not ending.counted} == {False}


def test_a_run_has_five_attempts_and_no_sixth():
    """Case RETRY-06."""
    assert [retry.after_failure(attempts) for attempts in range(1, 7)] == [Next.AGAIN] * 4 + [Next.FAILED] * 2


def test_the_four_waits_are_one_two_four_and_eight_minutes():
    """Case RETRY-06."""
    assert [retry.wait(failures, 0).total_seconds() for failures in (1, 2, 3, 4)] == [60, 120, 240, 480]


@given(st.integers(1, 4), FRACTIONS)
def test_jitter_adds_up_to_a_tenth_and_takes_nothing_away(failures, fraction):
    base = retry.WAITS[failures - 1]
    assert base <= retry.wait(failures, fraction) <= base * 1.1


@pytest.mark.parametrize(("failures", "fraction"), [(0, 0), (5, 0), (1, 1), (1, -0.1)])
def test_there_is_no_wait_outside_of_the_table(failures, fraction):
    with pytest.raises(ValueError, match=r"There is a wait|share of the jitter"):
        retry.wait(failures, fraction)


def test_twenty_runs_that_failed_together_start_in_twenty_seconds_of_their_own():
    """Case RETRY-07."""
    starts = [retry.wait(1, 0) + retry.spread(position) for position in range(20)]
    assert (min(starts), len(set(starts)), max(starts) - min(starts)) == (
        timedelta(seconds=60),
        20,
        timedelta(seconds=19),
    )


@pytest.mark.parametrize(
    ("asked", "inline", "parked"),
    [(None, False, 60), (0, True, 0), (60, True, 60), (61, False, 61), (3600, False, 3600)],
)
def test_only_a_short_wait_that_the_vendor_named_is_waited_out(asked, inline, parked):
    wait = None if asked is None else timedelta(seconds=asked)
    assert (retry.is_inline(wait), retry.park(wait).total_seconds()) == (inline, parked)


@pytest.mark.parametrize(
    ("oldest_first", "pauses"),
    [
        ([F, F, F, F, F], True),
        ([F, F, F, F], False),
        ([F, F, F, F, C, F], True),
        ([F], False),
        ([], False),
        ([F, F, F, F, S, F], False),
        ([S, F, F, F, F, F], True),
        ([F, F, F, F, F, S], False),
        ([F, Outcome.SHORT, Outcome.UNPROVEN, Outcome.UNREADABLE, Outcome.INTERRUPTED], True),
        ([F, F, F, F, F, C, C, C], True),
    ],
)
def test_five_failed_runs_in_a_row_pause_the_sync(oldest_first, pauses):
    """Case RETRY-08; its variant, a publication, starts the row anew: only runs since then are given."""
    assert retry.should_pause(oldest_first[::-1]) is pauses


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - FAILURES - {Outcome.SUCCEEDED}))
def test_an_outcome_that_does_not_count_neither_adds_nor_resets(outcome):
    assert not retry.should_pause([F, F, outcome, F, F])
    assert retry.should_pause([outcome, F, F, F, outcome, F, F])


def test_five_is_the_default_of_a_number_that_each_sync_has():
    assert retry.should_pause([F, F, S], after=2)
    assert not retry.should_pause([F] * 9, after=10)


@given(st.lists(st.sampled_from(list(Outcome))))
def test_a_sync_pauses_exactly_on_an_unbroken_row_of_failures(outcomes):
    row = 0
    for outcome in outcomes:
        if outcome is Outcome.SUCCEEDED:
            break
        row += outcome in FAILURES
    assert retry.should_pause(outcomes) is (row >= retry.PAUSE_AFTER)
