import json
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.protocol import Stream
from syncs.domain import rule
from syncs.domain.consent import DEFAULT_POLICY, Policy
from syncs.domain.limits import RejectBudget
from syncs.domain.rule import Change, ConnectionFacts, FieldMap, Rule
from syncs.errors import RuleInvalid

CUSTOMERS = {
    "stream": "customers",
    "list_id": 7,
    "mapping": [
        {"to": "FIRSTNAME", "source": "firstName", "kind": "text"},
        {"to": "LASTNAME", "source": "lastName", "kind": "text"},
    ],
}
ORDERS = {"stream": "orders", "events": ["order_placed", "order_refunded"]}
SHOP = ConnectionFacts("shopify", "shop-a.example", ("read_customers", "read_orders"))
ACCOUNT = ConnectionFacts("brevo", "111")


def customers(**other) -> Rule:
    return rule.parse({**CUSTOMERS, **other})


def orders(**other) -> Rule:
    return rule.parse({**ORDERS, **other})


def refusal(raw) -> tuple[str, str]:
    with pytest.raises(RuleInvalid) as refused:
        rule.parse(raw)
    assert str(refused.value) == refused.value.sentence
    return refused.value.field, refused.value.sentence


def test_a_rule_is_read_with_every_default():
    assert customers() == Rule(
        stream=Stream.CUSTOMERS,
        list_id=7,
        mapping=(FieldMap("FIRSTNAME", "firstName", "text"), FieldMap("LASTNAME", "lastName", "text")),
        filter=None,
        consent="confirmed_or_single",
        refuse_data_sale_opt_out=False,
        on_rejected="stop",
        ratio=None,
        cap=None,
        events=(),
        history_events=False,
        include_test_orders=False,
        format=1,
    )


def test_the_document_writes_every_default_out():
    assert rule.document(orders()) == {
        "format": 1,
        "stream": "orders",
        "list_id": None,
        "mapping": [],
        "filter": None,
        "consent": "confirmed_or_single",
        "refuse_data_sale_opt_out": False,
        "on_rejected": "stop",
        "ratio": None,
        "cap": None,
        "events": ["order_placed", "order_refunded"],
        "history_events": False,
        "include_test_orders": False,
    }


FIELDS = st.lists(
    st.builds(
        lambda to, source, kind: {"to": to, "source": source, "kind": kind},
        st.from_regex(r"[A-Z]{3}_[A-Z0-9]{1,5}", fullmatch=True),
        st.sampled_from(["firstName", "a.b", "tags[0]", "to_number(n)", "`0.5`"]),
        st.sampled_from(["text", "number", "date", "boolean"]),
    ),
    unique_by=lambda field: field["to"],
    max_size=4,
)
COMMON = {
    "mapping": FIELDS,
    "filter": st.sampled_from([None, "", " firstName ", "a\r\n&& b", "contains(tags, 'vip')"]),
    "consent": st.sampled_from(["confirmed", "confirmed_or_single"]),
    "refuse_data_sale_opt_out": st.booleans(),
}
STOPPING = {"on_rejected": st.just("stop")}
SETTING_ASIDE = {
    "on_rejected": st.just("set_aside"),
    "ratio": st.sampled_from([None, "0", "0.05", "0.10", "1.0", " 0.5 "]),
    "cap": st.none() | st.integers(0, 1000),
}
OF_ORDERS = {
    "stream": st.just("orders"),
    "events": st.permutations(rule.EVENTS).flatmap(lambda names: st.integers(0, 3).map(lambda n: names[:n])),
    "history_events": st.booleans(),
    "include_test_orders": st.booleans(),
}
OF_CUSTOMERS = {"stream": st.just("customers"), "list_id": st.integers(1, 10**6)}
RULES = st.one_of(
    st.fixed_dictionaries(COMMON | stream | choice)
    for stream in (OF_ORDERS, OF_CUSTOMERS)
    for choice in (STOPPING, SETTING_ASIDE)
)


@given(RULES)
def test_a_document_is_the_rule_it_came_from(raw):
    """Cases PUB-01, PUB-02: through JSON in any order of keys, the rule and its digest are the same."""
    made = rule.parse(raw)
    back = rule.parse(json.loads(json.dumps(rule.document(made), sort_keys=True)))
    assert back == made
    assert rule.publication_digest(back, SHOP, ACCOUNT) == rule.publication_digest(made, SHOP, ACCOUNT)
    assert rule.changes(made, back) == []


def test_a_form_saved_without_a_change_is_the_same_rule():
    """Case PUB-10: line ends and blanks that a browser adds are none of the content."""
    before = customers(filter="tags\n&& firstName")
    posted = customers(
        filter=" tags\r\n&& firstName ",
        mapping=[
            {"to": "FIRSTNAME ", "source": "firstName\r\n", "kind": "text"},
            {"to": "LASTNAME", "source": " lastName", "kind": "text"},
        ],
    )
    assert posted == before


def test_a_blank_filter_is_no_filter():
    assert customers(filter=" \r\n").filter is None


def test_any_mapping_can_be_read():
    assert rule.parse(MappingProxyType(CUSTOMERS)) == customers()


def test_events_have_one_order():
    assert orders(events=["order_refunded", "order_placed"]) == orders()


def test_set_aside_has_the_numbers_of_the_template_unless_told_otherwise():
    """PRODUCT 4.4."""
    assert customers(on_rejected="set_aside").budget == RejectBudget("set_aside", "0.05", 20)
    assert customers(on_rejected="set_aside", ratio="0.10", cap=0).budget == RejectBudget("set_aside", "0.1", 0)
    assert customers().budget == RejectBudget("stop", None, None)


def test_a_rule_says_what_the_consent_filter_demands():
    assert customers().policy == DEFAULT_POLICY
    strict = customers(consent="confirmed", refuse_data_sale_opt_out=True)
    assert strict.policy == Policy(frozenset({"CONFIRMED_OPT_IN"}), True)


def field(**other) -> list[dict]:
    return [{"to": "FIRSTNAME", "source": "firstName", "kind": "text", **other}]


@pytest.mark.parametrize(
    ("other", "where", "sentence"),
    [
        (
            {"list_id": None},
            "list_id",
            "The list is missing: choose the list at the destination that the contacts go to.",
        ),
        ({"list_id": "7"}, "list_id", "The list must be a whole number."),
        ({"list_id": True}, "list_id", "The list must be a whole number."),
        ({"list_id": 0}, "list_id", "The list must be the positive number of a list at the destination."),
        ({"list_id": 2**53}, "list_id", "The list must be the positive number of a list at the destination."),
        ({"list_id": 7.0}, "list_id", "The list must be a whole number, without a point."),
        ({"stream": "products"}, "stream", "The stream must be customers or orders."),
        ({"format": 2}, "format", "The format must be 1."),
        ({"consent": "any"}, "consent", "The consent policy must be confirmed_or_single or confirmed."),
        ({"mapping": {}}, "mapping", "The mapping must be a list."),
        ({"mapping": ["FIRSTNAME"]}, "mapping.0", "Field 1 of the mapping must be an object with to, source and kind."),
        ({"mapping": [{"to": "A"}]}, "mapping.0.source", "The source of field 1 of the mapping is missing: add it."),
        (
            {"mapping": field(kind="phone")},
            "mapping.0.kind",
            "The kind of field 1 of the mapping must be text, number, date or boolean.",
        ),
        (
            {"mapping": field(to="")},
            "mapping.0.to",
            "The target of field 1 of the mapping must be 1 to 255 letters, digits, hyphens or underscores.",
        ),
        (
            {"mapping": field(to="FIRST NAME")},
            "mapping.0.to",
            "The target of field 1 of the mapping must be 1 to 255 letters, digits, hyphens or underscores.",
        ),
        (
            {"mapping": field() + field(to="Email")},
            "mapping.1.to",
            "The target of field 2 of the mapping is Email, which only the connector itself may write: choose another.",
        ),
        (
            {"mapping": field(to="SMS")},
            "mapping.0.to",
            "The target of field 1 of the mapping is SMS, which only the connector itself may write: choose another.",
        ),
        (
            {"mapping": field() + field(to="FirstName")},
            "mapping.1.to",
            "The target of field 2 of the mapping is FirstName, which another field fills already: leave one out.",
        ),
        (
            {"mapping": field(source="")},
            "mapping.0.source",
            "The source of field 1 of the mapping is empty: write a JMESPath expression, such as firstName.",
        ),
        (
            {"mapping": field(source="a b")},
            "mapping.0.source",
            "The source of field 1 of the mapping is no JMESPath expression: 'b' at character 3 is not expected there.",
        ),
        ({"filter": "tags[0"}, "filter", "The filter is no JMESPath expression: it ends too early."),
        ({"filter": "tags #"}, "filter", "The filter is no JMESPath expression: look at character 6."),
        (
            {"filter": "contain(tags, 'vip')"},
            "filter",
            "The filter calls 'contain', which JMESPath does not have: did you mean contains.",
        ),
        (
            {"filter": "contains(tags)"},
            "filter",
            "The filter calls contains with 1 arguments, and it takes 2: correct it.",
        ),
        (
            {"filter": "tags[0] == `vip`"},
            "filter",
            "The filter has a value between backticks that is no JSON: write a text as 'text' and a number as `7`.",
        ),
        ({"filter": "a" * 1001}, "filter", "The filter is longer than 1000 characters: shorten it."),
        ({"filter": "(" * 1000}, "filter", "The filter is no JMESPath expression that can be read: simplify it."),
        ({"filter": 5}, "filter", "The filter must be a text."),
        (
            {"refuse_data_sale_opt_out": "yes"},
            "refuse_data_sale_opt_out",
            "The choice about data sale must be true or false.",
        ),
        ({"on_rejected": "ignore"}, "on_rejected", "The choice about rejected records must be stop or set_aside."),
        (
            {"ratio": "0.05"},
            "ratio",
            "The share of records that may be set aside has no effect with stop: leave it out, or choose set_aside.",
        ),
        (
            {"cap": 20},
            "cap",
            "The number of records that may be set aside has no effect with stop: leave it out, or choose set_aside.",
        ),
        (
            {"on_rejected": "set_aside", "cap": -1},
            "cap",
            "The number of records that may be set aside must be zero or more.",
        ),
        (
            {"events": ["order_placed"]},
            "events",
            "The events can be set for orders only: leave it out of a customers sync.",
        ),
        (
            {"history_events": True},
            "history_events",
            "The choice about past events can be set for orders only: leave it out of a customers sync.",
        ),
        ({"list": 7}, "list", "A rule has no field 'list': did you mean list_id?"),
        ({"mapping": field(form="x")}, "mapping.0.form", "A rule has no field 'form': known are to, source, kind."),
    ],
    ids=str,
)
def test_a_fault_is_one_sentence_that_names_the_field_and_what_to_do(other, where, sentence):
    assert refusal({**CUSTOMERS, **other}) == (where, sentence)


@pytest.mark.parametrize(
    ("other", "where", "sentence"),
    [
        (
            {"list_id": 7},
            "list_id",
            "The list is for customers only: an orders sync puts nobody on a list, so leave it out.",
        ),
        ({"events": ["order_paid"]}, "events.0", "Event 1 must be order_placed, order_cancelled or order_refunded."),
        ({"events": ["order_placed"] * 2}, "events", "The events must name each event once: leave one out."),
        (
            {"mapping": field(to="Name")},
            "mapping.0.to",
            "The target of field 1 of the mapping is Name, which only the connector itself may write: choose another.",
        ),
    ],
    ids=str,
)
def test_a_fault_of_an_orders_rule_is_one_sentence_too(other, where, sentence):
    assert refusal({**ORDERS, **other}) == (where, sentence)


def test_a_rule_needs_a_stream():
    assert refusal({"list_id": 7}) == ("stream", "The stream is missing: add it.")


@pytest.mark.parametrize(
    ("raw", "where", "sentence"),
    [
        ({"": 0.5}, "", "The unknown field '' holds a number with a point: write it as a text."),
        (
            {"mapping": {"a": {"b": 0.5}}},
            "mapping.a.b",
            "The mapping holds a number with a point: write it as a text.",
        ),
        (
            {"mapping": [{"x\n": 0.5}]},
            "mapping.0.x\n",
            "The unknown field 'x\\n' of field 1 of the mapping holds a number with a point: write it as a text.",
        ),
        ({**CUSTOMERS, 1: 2}, "1", "The unknown field '1' has a value of the wrong kind: correct it."),
    ],
    ids=str,
)
def test_a_fault_at_an_odd_place_is_one_sentence_too(raw, where, sentence):
    assert refusal(raw) == (where, sentence)


def test_a_draft_nested_without_end_is_refused():
    deep: list = []
    deep.append(deep)
    assert refusal({**CUSTOMERS, "filter": deep}) == ("filter", "The filter must be a text.")


@pytest.mark.parametrize("raw", [None, [], "rule", 7])
def test_what_is_no_object_is_no_rule(raw):
    assert refusal(raw) == ("", "A rule must be an object with named fields.")


@pytest.mark.parametrize(
    "ratio", ["1e20", "-0.0", "NaN", "Infinity", "1.01", "5 %", ".5", "0,05", "", "0.1234567", "\u0660.\u0665"]
)
def test_a_share_is_a_plain_decimal_text(ratio):
    """Case PUB-02."""
    words = "The share of records that may be set aside must be a decimal text from 0 to 1, such as 0.05."
    assert refusal({**CUSTOMERS, "on_rejected": "set_aside", "ratio": ratio}) == ("ratio", words)


@pytest.mark.parametrize("value", [0.05, 1.0, 1e20, -0.0, 0.30000000000000004, float("nan"), Decimal("0.10")])
def test_a_number_with_a_point_is_refused_wherever_it_stands(value):
    """Case PUB-02."""
    assert refusal({**CUSTOMERS, "on_rejected": "set_aside", "ratio": value})[0] == "ratio"
    assert refusal({**CUSTOMERS, "mapping": field() + field(to="A", source=value)})[0] == "mapping.1.source"
    assert refusal({**CUSTOMERS, "unknown": {"deep": [value]}})[0] == "unknown.deep.0"


@pytest.mark.parametrize(("one", "other"), [("0.05", "0.050"), ("1", "1.0"), ("0", "0.00"), ("0.10", " 0.1 ")])
def test_two_spellings_of_one_share_are_one_rule(one, other):
    """Case PUB-02."""
    assert customers(on_rejected="set_aside", ratio=one) == customers(on_rejected="set_aside", ratio=other)


@given(
    st.dictionaries(
        st.sampled_from([*rule.document(customers()), "x", ""]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["to", "source", "kind", "z"]), inner)
            ),
            max_leaves=5,
        ),
    )
)
def test_no_draft_ends_in_anything_but_a_rule_or_a_sentence(raw):
    try:
        made = rule.parse(raw)
    except RuleInvalid as refused:
        assert refused.sentence.endswith((".", "?"))
        assert "\n" not in refused.sentence
    else:
        assert rule.parse(rule.document(made)) == made


@pytest.mark.parametrize("text", ["'`vip`'", '"`a"."b`"', "`7`", r"'it\'s `x`'", r'`"a\`b"`', "`[1, 2]`"])
def test_quotes_of_every_kind_may_hold_backticks(text):
    rule.check_expression(text, "filter")


@given(st.text(max_size=30) | st.text("""`'"\\ab.[]()0{}:,@&|!<>=*?""", max_size=14))
def test_no_text_breaks_the_check_of_an_expression(text):
    try:
        rule.check_expression(text, "filter")
    except RuleInvalid as refused:
        assert refused.field == "filter"


def digest(made, source=SHOP, destination=ACCOUNT) -> str:
    return rule.publication_digest(made, source, destination)


def test_a_release_never_changes_what_an_old_digest_means():
    """Case PUB-04: a published sync is proved by this very text after every update."""
    assert rule.DIGEST_METHOD == 1
    assert digest(customers()) == "4bb8f680b224342b03c76f03457939d5bab6c0f2ab545801b6870b0eec5786e2"
    assert digest(orders()) == "7b902e9b2edada090cbcc7a34cfa996ef44bcb7386404a41c2269f62a1024ebb"


def test_a_field_that_a_release_adds_with_a_default_leaves_old_digests_alone(monkeypatch):
    """Case PUB-04."""
    before = digest(customers())
    document = rule.document
    monkeypatch.setattr(rule, "document", lambda made: {**document(made), "clear_when_empty": None})
    assert digest(customers()) == before


def test_method_1_covers_every_field_of_a_rule():
    assert {*rule._METHOD_1_FIELDS, "mapping"} == set(rule.document(customers()))


def test_the_order_of_mapped_fields_and_scopes_is_no_content():
    """Case PUB-01."""
    backwards = customers(mapping=CUSTOMERS["mapping"][::-1])
    assert digest(backwards) == digest(customers())
    assert rule.changes(customers(), backwards) == []
    assert digest(
        customers(), ConnectionFacts("shopify", "shop-a.example", ("read_orders", "read_customers"))
    ) == digest(customers())


@pytest.mark.parametrize(
    "other",
    [
        {"list_id": 8},
        {"mapping": []},
        {"mapping": field(source="lastName")},
        {"filter": "tags"},
        {"consent": "confirmed"},
        {"refuse_data_sale_opt_out": True},
        {"on_rejected": "set_aside"},
    ],
    ids=str,
)
def test_every_part_of_a_rule_is_bound_by_the_digest(other):
    assert digest(customers(**other)) != digest(customers())


@pytest.mark.parametrize("other", [{"events": []}, {"history_events": True}, {"include_test_orders": True}], ids=str)
def test_every_part_of_an_orders_rule_is_bound_by_the_digest(other):
    assert digest(orders(**other)) != digest(orders())


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        (ConnectionFacts("shopify", "shop-b.example", SHOP.scopes), ACCOUNT),
        (ConnectionFacts("shopify", "shop-a.example", ("read_customers",)), ACCOUNT),
        (ConnectionFacts("memory", "shop-a.example", SHOP.scopes), ACCOUNT),
        (SHOP, ConnectionFacts("brevo", "222")),
        (SHOP, ConnectionFacts("brevo", "111", ("contacts",))),
        (ACCOUNT, SHOP),
    ],
)
def test_another_account_or_other_scopes_are_another_publication(source, destination):
    """Case PUB-07."""
    assert digest(customers(), source, destination) != digest(customers())


def test_a_target_names_the_account_and_the_list():
    """PRODUCT 2.7."""
    assert rule.target(customers(), ACCOUNT) == "brevo:111:list:7"
    assert rule.target(orders(), ACCOUNT) == "brevo:111:orders"


def test_changes_name_what_differs_and_nothing_else():
    new = customers(
        list_id=8,
        filter="tags",
        mapping=[{"to": "FIRSTNAME", "source": "displayName"}, {"to": "BORN", "source": "born", "kind": "date"}],
    )
    assert rule.changes(customers(), new) == [
        Change("list_id", 7, 8),
        Change("filter", None, "tags"),
        Change(
            "mapping FIRSTNAME",
            {"source": "firstName", "kind": "text"},
            {"source": "displayName", "kind": "text"},
        ),
        Change("mapping LASTNAME", {"source": "lastName", "kind": "text"}, None),
        Change("mapping BORN", None, {"source": "born", "kind": "date"}),
    ]


def test_equal_rules_have_no_changes():
    assert rule.changes(customers(), customers()) == []


@pytest.mark.parametrize("text", ["&a", "to_string(&a)", "[&a]", "map(a, &b)", "{a: &b}", "not_null(&a)"])
def test_a_reference_to_an_expression_is_no_value(text: str) -> None:
    """Spelled out it would show where in the memory of the process it lies."""
    with pytest.raises(RuleInvalid, match="has an & where no function asks for an expression: take it away"):
        rule.check_expression(text, "filter")


def test_an_expression_that_joins_a_few_fields_passes() -> None:
    rule.check_expression("join(' ', [firstName, lastName])", "filter")
