import gzip
import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.protocol import ConsentEvidence, Contact, Subject
from syncs.domain import consent
from syncs.domain.consent import DEFAULT_POLICY, Judgement, Policy

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
KIM = "kim@shop.example"
SHARED = Path(__file__).parents[3].parent / "shared"


def shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip("The shared reference data is not beside this repository.")
    return path


def evidence(**given_) -> ConsentEvidence:
    facts = {
        "state": "SUBSCRIBED",
        "level": "CONFIRMED_OPT_IN",
        "given_at": NOW - timedelta(days=90),
        "valid_format": True,
        "data_sale_opt_out": False,
        "field": "defaultEmailAddress",
    }
    return ConsentEvidence(**{**facts, **given_})


def judged(address=KIM, policy=DEFAULT_POLICY, **given_) -> Judgement:
    return consent.judge(evidence(**given_), address, NOW, policy)


def contact(**known) -> Contact:
    facts = {
        "id": "21",
        "subject_id": None,
        "blocklisted": False,
        "left_lists": frozenset(),
        "lists": frozenset(),
        "attributes": {},
    }
    return Contact(**{**facts, **known})


def test_proven_consent_is_allowed():
    assert judged() == Judgement(True, "", KIM, False)


@pytest.mark.parametrize(
    ("state", "level", "code"),
    [
        ("SUBSCRIBED", "CONFIRMED_OPT_IN", ""),
        ("SUBSCRIBED", "SINGLE_OPT_IN", ""),
        ("SUBSCRIBED", "UNKNOWN", "level_unknown"),
        ("SUBSCRIBED", None, "level_unknown"),
        ("SUBSCRIBED", "single_opt_in", "level_unknown"),
        ("SUBSCRIBED", ["SINGLE_OPT_IN"], "level_unknown"),
        ("PENDING", "CONFIRMED_OPT_IN", "pending"),
        ("NOT_SUBSCRIBED", None, "not_subscribed"),
        ("UNSUBSCRIBED", "CONFIRMED_OPT_IN", "unsubscribed"),
        ("REDACTED", None, "redacted"),
        ("INVALID", None, "invalid"),
        ("subscribed", "CONFIRMED_OPT_IN", "state_unknown"),
        (" SUBSCRIBED", "CONFIRMED_OPT_IN", "state_unknown"),
        (True, None, "state_unknown"),
        (1, None, "state_unknown"),
        ({}, None, "state_unknown"),
        ("yes", None, "state_unknown"),
        ("SUBSCRIBED_NEW_STATE", None, "state_unknown"),
        (None, None, "state_unknown"),
        ("", None, "state_unknown"),
    ],
)
def test_only_exact_known_words_pass(state, level, code):
    """Case CONS-03."""
    verdict = judged(state=state, level=level)
    assert (verdict.allowed, verdict.code) == (not code, code)


def test_no_evidence_is_no_consent():
    """Cases CONS-02, CONS-04."""
    assert consent.judge(None, KIM, NOW, DEFAULT_POLICY) == Judgement(False, "state_unknown", KIM, False)


@pytest.mark.parametrize(
    ("given_at", "code"),
    [
        (None, "no_date"),
        (datetime(2026, 9, 1), "no_date"),
        (NOW + timedelta(microseconds=1), "date_in_future"),
        (NOW, ""),
        (datetime(2009, 12, 1, tzinfo=UTC), ""),
    ],
)
def test_consent_needs_a_time_that_has_come(given_at, code):
    """Case CONS-11."""
    assert judged(given_at=given_at).code == code


def test_the_first_reason_that_applies_is_the_code():
    """PRODUCT 3.6: mend one fault after the other, and the next one shows."""
    policy = Policy(DEFAULT_POLICY.levels, refuse_data_sale_opt_out=True)
    broken = {
        "address": None,
        "state": "PENDING",
        "level": "UNKNOWN",
        "given_at": None,
        "valid_format": False,
        "data_sale_opt_out": True,
    }
    mended = [
        {},
        {"address": "kïm@shop.example"},
        {"state": "SUBSCRIBED"},
        {"level": "SINGLE_OPT_IN"},
        {"given_at": NOW + timedelta(days=1)},
        {"given_at": NOW - timedelta(days=1)},
        {"valid_format": True},
        {"address": KIM},
        {"data_sale_opt_out": False},
    ]
    codes = []
    for step in mended:
        broken |= step
        codes.append(judged(policy=policy, **broken).code)
    assert codes == [
        "no_address",
        "pending",
        "level_unknown",
        "no_date",
        "date_in_future",
        "malformed_address",
        "address_unsupported",
        "data_sale_opt_out",
        "",
    ]


@pytest.mark.parametrize("address", [None, "", "   ", "\t\n"])
def test_a_blank_address_is_no_address(address):
    """Case DATA-06."""
    assert judged(address) == Judgement(False, "no_address", None, False)


def test_the_sources_own_doubt_about_an_address_counts():
    assert judged(valid_format=False).code == "malformed_address"


def test_an_address_the_source_has_no_opinion_of_is_judged_by_syntax():
    assert (judged(valid_format=None).code, judged("kim", valid_format=None).code) == ("", "malformed_address")


def test_a_workspace_may_demand_confirmed_consent():
    policy = Policy(frozenset({"CONFIRMED_OPT_IN"}), False)
    assert judged(policy=policy, level="SINGLE_OPT_IN").code == "level_unknown"
    assert judged(policy=policy).allowed


def test_an_opt_out_of_data_sale_refuses_only_where_the_workspace_chose_so():
    policy = Policy(DEFAULT_POLICY.levels, True)
    assert judged(data_sale_opt_out=True) == Judgement(True, "", KIM, False)
    assert judged(policy=policy, data_sale_opt_out=True) == Judgement(False, "data_sale_opt_out", KIM, True)


@pytest.mark.parametrize(
    ("state", "withdrawn"),
    [
        ("UNSUBSCRIBED", True),
        ("REDACTED", True),
        ("SUBSCRIBED", False),
        ("NOT_SUBSCRIBED", False),
        ("PENDING", False),
        ("INVALID", False),
        ("UNSUBSCRIBED_BY_NEW_WAY", False),
        (None, False),
    ],
)
@pytest.mark.parametrize("address", [KIM, None, "not an address"])
def test_who_said_no_is_withdrawn_whatever_the_address(state, withdrawn, address):
    """Cases CONS-12, CONS-08: redacted people have no address any more."""
    assert judged(address, state=state).withdrawn is withdrawn


@pytest.mark.parametrize(
    ("state", "granted", "leaves"),
    [
        ("UNSUBSCRIBED", False, True),
        ("UNSUBSCRIBED", True, True),
        ("REDACTED", False, True),
        ("NOT_SUBSCRIBED", False, False),
        ("NOT_SUBSCRIBED", True, True),
        ("PENDING", True, True),
        ("INVALID", True, True),
        ("SUBSCRIBED", True, False),
        ("RENAMED", True, False),
    ],
)
def test_whom_we_put_on_the_list_leaves_when_the_source_takes_consent_back(state, granted, leaves):
    assert consent.must_leave(judged(state=state), granted=granted) is leaves


def test_a_refused_persons_address_still_names_the_object():
    assert judged(" Kim@Shop.example", state="UNSUBSCRIBED").address == KIM


def test_a_record_without_a_customer_is_refused_by_name():
    """Case CONS-02."""
    assert consent.judge_subject(None, NOW, DEFAULT_POLICY) == Judgement(False, "no_customer", None, False)


def test_a_subject_is_judged_like_its_parts():
    subject = Subject("1", KIM, evidence(state="PENDING"))
    assert consent.judge_subject(subject, NOW, DEFAULT_POLICY) == judged(state="PENDING")


@given(
    st.one_of(st.none(), st.text(), st.sampled_from(["SUBSCRIBED", "UNSUBSCRIBED"])),
    st.one_of(st.none(), st.text(), st.just("SINGLE_OPT_IN")),
    st.one_of(st.none(), st.datetimes(timezones=st.just(UTC))),
    st.one_of(st.none(), st.text(), st.just(KIM)),
)
def test_nobody_passes_but_by_every_proof(state, level, given_at, address):
    verdict = consent.judge(evidence(state=state, level=level, given_at=given_at), address, NOW, DEFAULT_POLICY)
    proven = (
        state == "SUBSCRIBED" and level in DEFAULT_POLICY.levels and given_at is not None and given_at <= NOW
    ) and consent.normalise_address(address or "").comparable is not None
    assert verdict.allowed is bool(proven)
    assert (verdict.code == "") is verdict.allowed
    assert verdict.code in {"", *consent.CODES}


@pytest.mark.parametrize(
    ("known", "list_id", "suppressed", "code"),
    [
        (None, 7, False, None),
        (None, 7, True, "suppressed"),
        ({}, 7, False, None),
        ({"left_lists": frozenset({7})}, 7, False, "destination_unsubscribed"),
        ({"left_lists": frozenset({8})}, 7, False, None),
        ({"left_lists": frozenset({7})}, None, False, None),
        ({"blocklisted": True}, 7, False, "destination_blocklisted"),
        ({"blocklisted": True}, None, False, "destination_blocklisted"),
        ({"blocklisted": True, "left_lists": frozenset({7})}, 7, True, "destination_unsubscribed"),
        ({"blocklisted": True}, 7, True, "destination_blocklisted"),
        ({}, 7, True, "suppressed"),
    ],
)
def test_the_destinations_no_has_a_code(known, list_id, suppressed, code):
    """Cases CONS-01, CONS-08."""
    present = None if known is None else contact(**known)
    assert consent.destination_side(present, list_id, suppressed=suppressed) == code


def test_the_strictest_of_several_records_counts():
    """PRODUCT 2.7."""
    allowed, pending, undated = judged(), judged(state="PENDING"), judged(given_at=None)
    unsubscribed = judged(state="UNSUBSCRIBED")
    assert consent.strictest([allowed, undated, pending, unsubscribed]) == unsubscribed
    assert consent.strictest([allowed, undated, pending]) == pending
    assert consent.strictest([allowed, undated]) == undated
    assert consent.strictest([allowed, allowed]) == allowed


def test_the_strictest_of_none_is_a_fault():
    with pytest.raises(ValueError, match="empty"):
        consent.strictest([])


@pytest.mark.parametrize(
    ("text", "comparable"),
    [
        ("Kim@Shop.example", KIM),
        ("kim@shop.example ", KIM),
        ("KIM@SHOP.EXAMPLE", KIM),
        ("kim+news@shop.example", "kim+news@shop.example"),
        ("k.i.m@mail.example", "k.i.m@mail.example"),
        ("kim@bücher.example", "kim@xn--bcher-kva.example"),
        ("kim@BÜCHER.example", "kim@xn--bcher-kva.example"),
        ("kim@xn--bcher-kva.example", "kim@xn--bcher-kva.example"),
        ("kim@example.com", "kim@example.com"),
        ("kim@shop.test", "kim@shop.test"),
        ("k" * 64 + "@shop.example", "k" * 64 + "@shop.example"),
    ],
)
def test_an_address_has_one_comparable_form(text, comparable):
    """Cases DATA-04, DATA-05."""
    assert consent.normalise_address(text) == consent.Address(comparable, None)
    assert consent.normalise_address(comparable) == consent.Address(comparable, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no_address"),
        ("   ", "no_address"),
        ("kim", "malformed_address"),
        ("kim@shop", "malformed_address"),
        ("kim@test", "malformed_address"),
        ("kim@shop..example", "malformed_address"),
        ("kim@@shop.example", "malformed_address"),
        ("kim @shop.example", "malformed_address"),
        ("kim@shop.example.", "malformed_address"),
        ("kim@192.0.2.1", "malformed_address"),
        ("kim@a_b.example", "malformed_address"),
        ("a@shop.example, b@shop.example", "malformed_address"),
        ("Kim <kim@shop.example>", "malformed_address"),
        ("mailto:kim@shop.example", "malformed_address"),
        ("kim\x00@shop.example", "malformed_address"),
        ("kim@shop.example\u200b", "malformed_address"),
        ("kim\ud800@shop.example", "malformed_address"),
        ("kim@xn--zzzzzz.example", "malformed_address"),
        ("k" * 65 + "@shop.example", "address_unsupported"),
        ("kïm@shop.example", "address_unsupported"),
        ("İlker@shop.example", "address_unsupported"),
        ('"quoted name"@shop.example', "address_unsupported"),
        ('"kim"@shop.example', "address_unsupported"),
        ("kim@[192.0.2.1]", "address_unsupported"),
        ("kim@printer.local", "malformed_address"),
        ("kim@shop.invalid", "malformed_address"),
        ("kim@bad.tld-2", "malformed_address"),
        ("kim@shop.123", "malformed_address"),
    ],
)
def test_an_address_that_cannot_be_sent_to_says_why(text, problem):
    """Case DATA-05."""
    assert consent.normalise_address(text) == consent.Address(None, problem)


@given(st.text())
def test_no_text_breaks_the_reading_of_an_address(text):
    address = consent.normalise_address(text)
    assert (address.comparable is None) is (address.problem is not None)
    if address.comparable is not None:
        assert address.comparable.isascii()
        assert consent.normalise_address(address.comparable) == address


def outcomes(addresses) -> Counter:
    return Counter(consent.normalise_address(address).problem or "sendable" for address in addresses)


def test_the_isemail_vectors_fall_where_they_did():
    cases = json.loads(shared("data", "email-vectors", "isemail.json").read_text())
    assert outcomes(case["address"] for case in cases) == Counter(
        {"no_address": 1, "malformed_address": 101, "sendable": 45, "address_unsupported": 17}
    )


def test_nothing_that_isemail_calls_an_error_is_sent():
    """Blanks and line ends around an address are trimmed; apart from them not one error passes."""
    cases = json.loads(shared("data", "email-vectors", "isemail.json").read_text())
    wrong = [case["address"] for case in cases if case["category"] == "ISEMAIL_ERR"]
    sendable = [address for address in wrong if consent.normalise_address(address).comparable]
    assert (len(wrong), len(sendable)) == (66, 16)
    assert {consent.normalise_address(address).comparable for address in sendable} == {"test@iana.org"}
    assert all(address != address.strip() for address in sendable)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("test_email_valid", {"sendable": 5, "address_unsupported": 4, "malformed_address": 3}),
        ("test_email_valid_intl_local_part", {"address_unsupported": 14, "malformed_address": 1}),
        ("test_email_valid_only_if_quoted_local_part", {"address_unsupported": 8}),
        ("test_email_invalid_syntax", {"malformed_address": 75, "sendable": 2, "address_unsupported": 2}),
        ("test_email_invalid_syntax_strict", {"address_unsupported": 3}),
        ("test_email_invalid_reserved_domain", {"malformed_address": 5, "sendable": 1}),
        ("test_email_invalid_character_smtputf8_off", {"malformed_address": 1, "address_unsupported": 1}),
    ],
)
def test_the_vectors_of_email_validator_fall_where_they_did(group, expected):
    groups = json.loads(shared("data", "email-vectors", "email_validator.json").read_text())
    assert outcomes(row[0] for row in groups[group]) == Counter(expected)


def test_the_validatorjs_vectors_fall_where_they_did():
    sets = json.loads(shared("data", "email-vectors", "validatorjs_isEmail.json").read_text())
    plain = next(one for one in sets if one["args"] == [])
    assert outcomes(plain["valid"]) == Counter({"sendable": 14, "address_unsupported": 4})
    assert outcomes(plain["invalid"]) == Counter({"malformed_address": 38, "sendable": 2, "address_unsupported": 1})


def instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def judge_node(node: dict) -> Judgement:
    address = node["defaultEmailAddress"]
    if address is None:
        return consent.judge(None, None, NOW, DEFAULT_POLICY)
    said = evidence(
        state=address["marketingState"],
        level=address["marketingOptInLevel"],
        given_at=instant(address["marketingUpdatedAt"]),
        valid_format=address["validFormat"],
    )
    return consent.judge(said, address["emailAddress"], NOW, DEFAULT_POLICY)


def test_two_years_of_a_real_shop_are_judged_exactly():
    """Every customer once, then every order by its customer: the whole sums, no remainder."""
    folder = shared("data", "online-retail-2")
    with gzip.open(folder / "customers.jsonl.gz") as lines:
        people = {node["id"]: judge_node(node) for node in map(json.loads, lines)}
    assert Counter(verdict.code or "accepted" for verdict in people.values()) == {
        "accepted": 2303,
        "not_subscribed": 2178,
        "unsubscribed": 578,
        "level_unknown": 273,
        "pending": 262,
        "no_address": 208,
        "no_date": 67,
        "invalid": 57,
        "address_unsupported": 9,
        "malformed_address": 7,
    }
    with gzip.open(folder / "orders.jsonl.gz") as lines:
        owners = [node["customer"] for node in map(json.loads, lines)]
    orders = Counter(people[owner["id"]].code or "accepted" if owner else "no_customer" for owner in owners)
    assert (orders["accepted"], orders["no_customer"], orders["address_unsupported"]) == (7183, 1427, 20)
    assert orders.total() - 7183 - 1427 - 20 == 11329


plain_address = st.from_regex(r"\A[A-Za-z0-9_+.-]{1,40}@[A-Za-z0-9.-]{1,30}\Z")


@given(
    plain_address
    | st.tuples(
        st.from_regex(r"\A[a-z0-9]{1,8}\Z"),
        st.sampled_from(
            [
                "xn--bcher-kva.example",
                "xn--a.example",
                "local",
                "a.local",
                "a.invalid",
                "shop.example",
                "1.2.3.4",
                "a..b.de",
                "-a.de",
                "a-.de",
                "test",
                "A.Example",
                "ab--cd.de",
                "onion",
                "x.onion",
                "a.arpa",
            ]
        ),
    ).map("@".join)
)
def test_the_short_way_for_plain_addresses_says_what_the_whole_way_says(text: str) -> None:
    said = consent.normalise_address.__wrapped__(text)
    with mock.patch.object(consent, "_PLAIN", re.compile("(?!)")):
        assert consent.normalise_address.__wrapped__(text) == said
