import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.protocol import Count
from syncs.domain import evidence
from syncs.domain.evidence import Evidence
from syncs.domain.lifecycle import PROVEN, Verdict


def seen(rows, before=None, after=None, **facts) -> Evidence:
    def count(number):
        return Count(number, exact=True) if isinstance(number, int) else number

    whole = {
        "identity_ok": True,
        "scopes_missing": (),
        "version_asked": "2026-07",
        "version_served": "2026-07",
        "count_before": count(before),
        "count_after": count(after),
        "rows_seen": rows,
        "structure_ok": True,
        "problems": (),
        "exhausted": True,
    }
    return Evidence(**{**whole, **facts})


def at_least(number) -> Count:
    return Count(number, exact=False)


@pytest.mark.parametrize(
    ("rows", "before", "after", "verdict"),
    [
        (0, 0, 0, Verdict.PROVEN_QUIET),
        (3, 3, 3, Verdict.PROVEN),
        (0, 3, 3, Verdict.SHORT),
        (2, 3, 3, Verdict.SHORT),
        (4, 3, 3, Verdict.PROVEN),
        (2, 3, 2, Verdict.PROVEN),
        (2, 2, 3, Verdict.PROVEN),
        (0, 3, 0, Verdict.PROVEN_QUIET),
        (499, 500, 500, Verdict.SHORT),
        (500, 500, 500, Verdict.PROVEN),
        (495, 501, 501, Verdict.SHORT),
        (496, 501, 501, Verdict.PROVEN),
        (5883, 5942, 5942, Verdict.PROVEN),
        (5882, 5942, 5942, Verdict.SHORT),
        (0, 5942, 5942, Verdict.SHORT),
        (3, 3, None, Verdict.PROVEN),
        (3, None, 3, Verdict.PROVEN),
        (2, 3, None, Verdict.SHORT),
        (0, 0, None, Verdict.PROVEN_QUIET),
        (0, None, None, Verdict.UNPROVEN),
        (9, None, None, Verdict.UNPROVEN),
        (0, at_least(0), None, Verdict.UNPROVEN),
        (0, at_least(1), None, Verdict.SHORT),
        (12_000, at_least(10_000), at_least(10_000), Verdict.UNPROVEN),
        (9_000, at_least(10_000), at_least(10_000), Verdict.SHORT),
        (12_000, 12_000, at_least(10_000), Verdict.PROVEN),
        (11_000, 12_000, at_least(10_000), Verdict.UNPROVEN),
    ],
)
def test_rows_must_reach_the_smaller_of_the_sources_own_counts(rows, before, after, verdict):
    """PRODUCT 5.2; Case READ-01: no tolerance up to 500, one in a hundred above."""
    assert evidence.verdict(seen(rows, before, after)) is verdict


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ({"exhausted": False}, Verdict.OPEN),
        ({"structure_ok": False}, Verdict.UNREADABLE),
        ({"structure_ok": False, "exhausted": False}, Verdict.UNREADABLE),
        ({"identity_ok": False}, Verdict.UNPROVEN),
        ({"scopes_missing": ("read_customers",)}, Verdict.UNPROVEN),
        ({"problems": ("search_warning",)}, Verdict.UNPROVEN),
        ({"version_served": "2026-10"}, Verdict.PROVEN),
        ({"version_asked": None, "version_served": None}, Verdict.PROVEN),
    ],
    ids=str,
)
def test_equal_numbers_are_no_proof_where_anything_else_is_wrong(fault, verdict):
    """Case READ-20: another version served is a finding, and no doubt."""
    assert evidence.verdict(seen(3, 3, 3, **fault)) is verdict


@given(
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(st.just("read_orders"), max_size=1),
    st.lists(st.just("mapped_key_missing"), max_size=1),
    st.integers(0, 3),
    st.sampled_from([None, 0, 1, 3, at_least(0), at_least(2)]),
    st.sampled_from([None, 0, 1, 3, at_least(0), at_least(2)]),
)
def test_nothing_is_proven_without_every_piece_of_evidence(
    identity, structure, exhausted, missing, problems, rows, before, after
):
    read = seen(
        rows,
        before,
        after,
        identity_ok=identity,
        structure_ok=structure,
        exhausted=exhausted,
        scopes_missing=tuple(missing),
        problems=tuple(problems),
    )
    whole = identity and structure and exhausted and not missing and not problems
    reached = any(count.exact and rows >= count.records for count in read.counts)
    assert (evidence.verdict(read) in PROVEN) is bool(whole and reached)


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        (seen(2, 3, 3), True),
        (seen(3, 3, 3), False),
        (seen(0, None, None), False),
        (seen(2, 3, 3, exhausted=False), False),
        (seen(2, 3, 3, identity_ok=False), False),
    ],
)
def test_only_a_short_read_is_counted_again(read, wanted):
    assert evidence.wants_recount(read) is wanted


def test_drift_of_the_version_is_seen():
    """Case READ-20."""
    assert seen(1, 1, 1, version_served="2026-10").version_drifted
    assert not seen(1, 1, 1).version_drifted
    assert not seen(1, 1, 1, version_served=None).version_drifted


def test_the_document_is_plain_json_and_holds_everything():
    read = seen(2, 3, at_least(2), scopes_missing=("read_orders",), problems=("search_warning",))
    assert json.loads(json.dumps(read.document())) == {
        "identity_ok": True,
        "scopes_missing": ["read_orders"],
        "version_asked": "2026-07",
        "version_served": "2026-07",
        "count_before": {"records": 3, "exact": True},
        "count_after": {"records": 2, "exact": False},
        "rows_seen": 2,
        "structure_ok": True,
        "problems": ["search_warning"],
        "exhausted": True,
    }


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (
            seen(3100, 5942, 5950),
            "Shopify counts 5,942 customers, this read delivered 3,100. "
            "We stopped before the cursor moved. Test the connection.",
        ),
        (
            seen(0, 3, 3),
            "Shopify counts 3 customers, this read delivered 0. "
            "We stopped before the cursor moved. Test the connection.",
        ),
        (seen(3, 3, 3), "Shopify counts 3 customers, this read delivered 3. The read is proven complete."),
        (
            seen(0, 0, 0),
            "Shopify counts 0 customers, this read delivered 0. Nothing new, and that is proven.",
        ),
        (
            seen(1250, 3000, 3000, exhausted=False),
            "The read of customers is still going on: so far it delivered 1,250.",
        ),
        (
            seen(1, 1, 1, structure_ok=False),
            "Shopify gave a page of customers that contradicts itself. Nothing of that page was sent and the cursor "
            "stays. Run again; if it repeats, test the connection.",
        ),
        (
            seen(0, None, None),
            "Shopify gave no count of its customers, so the 0 customers of this read prove nothing. "
            "The cursor stays. Test the connection.",
        ),
        (
            seen(12_000, at_least(10_000), None),
            "Shopify counts only at least 10,000 customers, so the 12,000 customers of this read prove nothing. "
            "The cursor stays. Test the connection.",
        ),
        (
            seen(0, 0, 0, identity_ok=False),
            "Shopify did not confirm whose credential this is, so the 0 customers of this read prove nothing. "
            "The cursor stays. Test the connection.",
        ),
        (
            seen(0, 0, 0, scopes_missing=("read_customers",)),
            "Shopify did not grant read_customers, so the 0 customers of this read prove nothing. "
            "The cursor stays. Test the connection.",
        ),
        (
            seen(3, 3, 3, problems=("search_warning",)),
            "Shopify's answer had a fault (search_warning), so the 3 customers of this read prove nothing. "
            "The cursor stays. Test the connection.",
        ),
    ],
)
def test_the_sentence_names_both_numbers_and_what_to_do(read, words):
    """Case READ-01."""
    assert evidence.sentence(read, source="Shopify", noun="customers") == words
