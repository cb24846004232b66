from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncs.domain import lifecycle
from syncs.domain.lifecycle import (
    DELIVERY_MOVES,
    FAILURES,
    OPEN_DELIVERIES,
    PROVEN,
    RUN_MOVES,
    SYNC_MOVES,
    UNDECIDED,
    DeliveryState,
    FindingState,
    MoveRefused,
    Outcome,
    RecordState,
    RunState,
    SyncState,
    Verdict,
)

SYNC = {
    ("draft", "published"),
    ("published", "published"),
    ("published", "edited"),
    ("published", "paused"),
    ("edited", "published"),
    ("edited", "paused"),
    ("paused", "published"),
    ("paused", "edited"),
}
RUN = {
    *product(["waiting"], ["running", "parked", "finished"]),
    *product(["running"], ["waiting", "parked", "finished"]),
    *product(["parked"], ["waiting", "finished"]),
}
CLOSED = ("written", "refused", "failed", "deferred", "set_aside", "superseded")
DELIVERY = {
    ("claimed", "claimed"),
    ("claimed", "sending"),
    ("claimed", "superseded"),
    ("sending", "claimed"),
    ("sending", "in_doubt"),
    *product(["sending"], CLOSED),
    ("in_doubt", "sending"),
    ("in_doubt", "in_doubt"),
    *product(["in_doubt"], CLOSED),
    ("failed", "set_aside"),
    ("failed", "superseded"),
    ("deferred", "superseded"),
    ("set_aside", "superseded"),
}


@pytest.mark.parametrize(
    ("states", "moves", "allowed"),
    [(SyncState, SYNC_MOVES, SYNC), (RunState, RUN_MOVES, RUN), (DeliveryState, DELIVERY_MOVES, DELIVERY)],
    ids=["sync", "run", "delivery"],
)
def test_a_state_moves_exactly_where_its_table_says(states, moves, allowed):
    tried = set()
    for before, after in product(states, states):
        try:
            assert lifecycle.move(moves, before, after) is after
        except MoveRefused:
            continue
        tried.add((str(before), str(after)))
    assert tried == allowed


def test_a_refused_move_says_from_where_to_where():
    with pytest.raises(MoveRefused, match="RunState cannot move from finished to running"):
        lifecycle.move(RUN_MOVES, RunState.FINISHED, RunState.RUNNING)


def test_a_paused_sync_does_not_become_published_but_by_publishing():
    assert SyncState.PUBLISHED in SYNC_MOVES[SyncState.PAUSED]
    assert SyncState.DRAFT not in {after for moves in SYNC_MOVES.values() for after in moves}


def test_what_is_written_or_superseded_is_so_for_good():
    final = {state for state, moves in DELIVERY_MOVES.items() if not moves}
    assert final == {DeliveryState.WRITTEN, DeliveryState.REFUSED, DeliveryState.SUPERSEDED}


def test_what_was_never_sent_is_never_in_doubt():
    """PRODUCT 2.3."""
    assert DeliveryState.IN_DOUBT not in DELIVERY_MOVES[DeliveryState.CLAIMED]
    assert DeliveryState.WRITTEN not in DELIVERY_MOVES[DeliveryState.CLAIMED]


def test_the_open_deliveries_are_those_on_their_way():
    assert {str(state) for state in OPEN_DELIVERIES} == {"claimed", "sending", "in_doubt"}


def test_a_record_is_as_bad_as_the_worst_of_its_effects():
    """PRODUCT 2.2."""
    assert lifecycle.worst([RecordState.WRITTEN, RecordState.FAILED, RecordState.UNCHANGED]) is RecordState.FAILED
    assert lifecycle.worst([RecordState.UNCHANGED]) is RecordState.UNCHANGED


def test_a_record_without_effects_has_no_worst_one():
    with pytest.raises(ValueError, match="empty"):
        lifecycle.worst([])


@given(st.lists(st.sampled_from(list(RecordState)), min_size=1))
def test_one_undecided_effect_leaves_the_record_undecided(states):
    """PRODUCT 1.2: the cursor stays while any part of the page is undecided."""
    assert (lifecycle.worst(states) in UNDECIDED) is any(state in UNDECIDED for state in states)


def test_what_is_undecided_is_failed_in_doubt_or_not_yet_tried():
    assert {str(state) for state in UNDECIDED} == {"failed", "in_doubt", "not_yet_tried"}


def test_the_outcomes_that_count_towards_the_pause():
    """PRODUCT 4.3."""
    assert {str(outcome) for outcome in FAILURES} == {"failed", "unreadable", "short", "unproven", "interrupted"}
    assert Outcome.SUCCEEDED not in FAILURES


def test_only_the_proven_verdicts_are_a_success():
    """PRODUCT 5.2."""
    assert {Verdict.PROVEN, Verdict.PROVEN_QUIET} == PROVEN


@pytest.mark.parametrize(
    "states",
    [SyncState, RunState, DeliveryState, RecordState, Outcome, Verdict, FindingState],
    ids=lambda one: one.__name__,
)
def test_every_word_is_the_one_that_is_stored_and_shown(states):
    assert all(str(state) == state.value and state.value == state.value.lower() for state in states)


def test_one_outcome_is_stored_under_its_own_words():
    assert {outcome.name.lower(): str(outcome) for outcome in Outcome if outcome.name.lower() != str(outcome)} == {
        "limit": "stopped_at_limit"
    }
