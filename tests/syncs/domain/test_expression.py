"""What an expression may cost, and that the meter changes nothing of what it comes to."""

from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncs.domain import expression
from syncs.domain.expression import BUDGET, Expression, Meter, TooMuch

ORDER: dict[str, Any] = {
    "firstName": "Ada",
    "note": "n" * 5000,
    "tags": ["vip", "b2b"],
    "lineItems": {"nodes": [{"sku": f"s{i}", "title": "t" * 30, "quantity": i} for i in range(250)]},
}

GREEDY = {
    "doubled and spelled out": "[@,@]|" * 17 + "length(to_string(@)) > `0`",
    "doubled for ever": "[@,@]|" * 150 + "to_string(@)",
    "flattened": "[@,@][]" * 22,
    "compared": "[[@,@],[@,@]]|" * 30 + "@[0] == @[1]",
    "compared, the other way": "[[@,@],[@,@]]|" * 30 + "@[0] != @[1]",
    "searched for itself": "[@,@]|" * 60 + "contains(@, [@,@])",
    "a long text between many": "join(note, lineItems.nodes[*].title)",
    "mapped over a written list": f"`[{'1,' * 99}1]`|map(&`[{'1,' * 99}1]`,@)[]|map(&[@,@,@,@,@],@)[]|length(@)",
    "projected": "[@,@,@,@,@,@,@,@,@,@][].[@,@,@,@,@,@,@,@,@,@][].[@,@,@,@,@,@,@,@,@,@][].[@,@,@,@,@,@,@,@,@][]",
    "made into objects": "{a:@,b:@}|" * 60 + "to_string(@)",
    "sorted again and again": "lineItems.nodes|" + "sort_by(@,&quantity)|" * 45 + "[0]",
}


@pytest.mark.parametrize("text", GREEDY.values(), ids=GREEDY.keys())
def test_an_expression_that_multiplies_the_record_ends_when_its_budget_is_spent(text: str) -> None:
    expression.check(text)
    with pytest.raises(TooMuch):
        Expression(text).value(ORDER, Meter())


ORDINARY = (
    "firstName",
    "join(', ', lineItems.nodes[*].title)",
    "lineItems.nodes[?quantity > `200`].sku",
    "max_by(lineItems.nodes, &quantity).sku",
    "sort_by(lineItems.nodes, &quantity)[-1].sku",
    "to_string(@)",
    "length(lineItems.nodes)",
    "contains(tags, 'vip') && firstName != 'Eve'",
    "{name: firstName, skus: lineItems.nodes[].sku}",
    "tags || `[]`",
    "nothing.of.this",
    "not_null(nothing, firstName)",
    "map(&quantity, lineItems.nodes) | sum(@)",
    "lineItems.*[0].sku",
    "!contains(tags, 'x')",
    "tags[::-1]",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_a_large_order_is_far_from_the_budget_and_comes_to_what_the_library_says(text: str) -> None:
    meter = Meter()
    assert Expression(text).value(ORDER, meter) == jmespath.search(text, ORDER)
    meter.pay(BUDGET - 4_000)


def test_all_fields_of_a_record_share_one_budget() -> None:
    meter, costly = Meter(), Expression("to_string(@)")
    with pytest.raises(TooMuch):
        for _ in range(20):
            costly.value(ORDER, meter)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(json_like, json_like)
def test_a_comparison_on_the_meter_is_the_library_s_own(one: Any, other: Any) -> None:
    for sign in ("==", "!="):
        text, both = f"a {sign} b", {"a": one, "b": other}
        assert Expression(text).value(both, Meter()) == jmespath.search(text, both)
