import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncs.domain import limits
from syncs.domain.limits import RejectBudget

TEMPLATE = RejectBudget("set_aside", "0.05", 20)


@pytest.mark.parametrize(
    ("total", "most"),
    [(0, 0), (1, 1), (3, 1), (20, 1), (21, 2), (100, 5), (101, 6), (380, 19), (400, 20), (401, 20), (1_000_000, 20)],
)
def test_the_template_sets_aside_a_twentieth_and_at_most_twenty(total, most):
    """PRODUCT 4.4; Case RETRY-04: one of three records is set aside."""
    assert TEMPLATE.most(total) == most
    assert TEMPLATE.allows(most, total)
    assert not TEMPLATE.allows(most + 1, total)


def test_stop_sets_nothing_aside():
    budget = RejectBudget("stop")
    assert (budget.allows(0, 100), budget.allows(1, 100)) == (True, False)


def test_stop_stays_stop_whatever_numbers_stand_beside_it():
    assert not RejectBudget("stop", "1", 1000).allows(1, 100)


@pytest.mark.parametrize(("ratio", "cap"), [("0", 20), ("0.05", 0)])
def test_a_budget_of_zero_allows_nothing(ratio, cap):
    assert not RejectBudget("set_aside", ratio, cap).allows(1, 1000)


def test_the_share_is_computed_exactly():
    """0.07 of 100 is 7, also where binary floats say 7.000000000000001."""
    assert RejectBudget("set_aside", "0.07", 1000).most(100) == 7


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_a_budget_exceeded_for_the_most_records_is_exceeded_for_fewer(rejected, total, fewer):
    if not TEMPLATE.allows(rejected, total):
        assert not TEMPLATE.allows(rejected, min(fewer, total))


@pytest.mark.parametrize(
    ("codes", "landed", "code"),
    [
        (["list_unknown"] * 5, 0, "list_unknown"),
        (["list_unknown"] * 250, 0, "list_unknown"),
        (["list_unknown"] * 4, 0, None),
        (["list_unknown"] * 5, 1, None),
        (["list_unknown"] * 250, 1, None),
        (["a", "b", "c", "d", "e"], 0, None),
        (["bad_address", *["list_unknown"] * 5], 0, "list_unknown"),
        (["a", "a", "a", "a", "b", "b", "b", "b"], 0, None),
        ([], 0, None),
    ],
)
def test_five_records_refused_alike_with_none_landed_are_a_fault_of_the_run(codes, landed, code):
    """PRODUCT 4.2; Case DELIV-05."""
    assert limits.alike(codes, landed=landed) == code
