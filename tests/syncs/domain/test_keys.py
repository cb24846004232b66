import hashlib
import json
from decimal import Decimal
from types import MappingProxyType

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from connectors.protocol import EffectKind
from syncs.domain import keys

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-keys.INT_LIMIT, keys.INT_LIMIT) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
CUSTOMER = {"id": 1, "tags": ["x", "y"], "n": {"b": 2, "a": 1}}
SECRET = b"a key of this installation"
EFFECT = {
    "sync_id": 12,
    "target": "brevo:111:list:7",
    "kind": EffectKind.CONTACT,
    "natural_id": "5001",
    "seq": 1,
    "payload_digest": "ab" * 32,
}


@given(JSON)
def test_canonical_text_is_what_the_standard_says(value):
    assert keys.canonical(value) == rfc8785.dumps(value)


@given(JSON, TEXT)
def test_a_decimal_anywhere_changes_nothing_around_it(value, name):
    text = keys.canonical({name: [value, Decimal("1.50")]})
    assert text == rfc8785.dumps({name: [value, "mark"]}).replace(b',"mark"]', b",1.50]")


@given(JSON)
def test_canonical_text_survives_a_round_trip(value):
    text = keys.canonical(value)
    assert keys.canonical(json.loads(text)) == text


def test_keys_are_sorted_by_their_utf_16_units():
    assert keys.canonical({"\ufb33": 1, "\U0001f600": 2, "a": 3}) == '{"a":3,"\U0001f600":2,"\ufb33":1}'.encode()


def test_a_decimal_keeps_the_text_of_its_number():
    """Case DELIV-06: 1.0 stays 1.0 and is another value than 1."""
    assert keys.canonical([Decimal("1.0"), Decimal("1"), Decimal("-0.10"), 1]) == b"[1.0,1,-0.10,1]"


def test_every_decimal_is_a_json_number():
    for text in ("0", "1E+5", "1E-9", "-0", "123456789012345678901234567890.5"):
        assert json.loads(keys.canonical(Decimal(text)), parse_float=Decimal, parse_int=Decimal) == Decimal(text)


def test_nul_and_control_characters_are_escaped():
    assert keys.canonical("a\x00\x1f\n\x7f") == b'"a\\u0000\\u001f\\n\x7f"'


def test_a_mapping_and_a_tuple_are_read_like_a_dict_and_a_list():
    assert keys.canonical(MappingProxyType({"b": (1, 2), "a": None})) == b'{"a":null,"b":[1,2]}'


def test_integers_are_exact_up_to_the_limit():
    assert keys.canonical([2**53 - 1, -(2**53) + 1]) == b"[9007199254740991,-9007199254740991]"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (1.0, "binary float"),
        ({"a": [0.5]}, "binary float"),
        (float("nan"), "binary float"),
        (2**53, "2\\^53"),
        ([-(2**53)], "2\\^53"),
        (Decimal("NaN"), "not finite"),
        ([Decimal("Infinity")], "not finite"),
        ("\ud800", "surrogate"),
        ({"\udc00": 1}, "surrogate"),
        ({"\udc00": Decimal(1)}, "surrogate"),
        ({1: "a"}, "key is no text"),
        ({"\U0001f600": 1, 2: "a"}, "key is no text"),
        ({"\U0001f600": 1.0}, "binary float"),
        ([Decimal(1), 1.0], "binary float"),
        ({"a": {1, 2}}, "set is no JSON value"),
        (b"bytes", "bytes is no JSON value"),
    ],
)
def test_what_has_no_exact_text_is_refused(value, why):
    with pytest.raises(keys.NotCanonical, match=why):
        keys.canonical(value)


def test_a_value_nested_without_end_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(keys.NotCanonical, match="nested too deeply"):
        keys.canonical(value)


def test_a_refusal_names_no_value():
    with pytest.raises(keys.NotCanonical) as refusal:
        keys.canonical({"email": "kim@shop.example\ud800"})
    assert "kim" not in str(refusal.value)
    assert refusal.value.__suppress_context__


def test_the_digest_is_the_sha_256_of_the_canonical_text():
    assert keys.digest({"b": 1, "a": "é"}) == hashlib.sha256('{"a":"é","b":1}'.encode()).hexdigest()


def reading(fields, **other) -> str:
    return keys.delivery_key(
        **{"sync_id": 1, "source": "shopify:a", "after": None, "position": 0, **other}, fields=fields
    )


def test_the_order_of_keys_does_not_change_a_delivery_key():
    """Case DELIV-06."""
    assert reading(CUSTOMER) == reading({"n": {"a": 1, "b": 2}, "tags": ["x", "y"], "id": 1})


def test_the_order_of_a_list_changes_a_delivery_key():
    """Case DELIV-06."""
    assert reading(CUSTOMER) != reading({**CUSTOMER, "tags": ["y", "x"]})


def test_every_part_of_a_reading_makes_another_delivery_key():
    """Case READ-15: the empty cursor is another place than none."""
    others = [{"sync_id": 2}, {"source": "shopify:b"}, {"after": ""}, {"after": "k1"}, {"position": 1}]
    assert len({reading(CUSTOMER, **other) for other in [{}, *others]}) == 6


def test_ids_next_to_each_other_beyond_the_exact_integers_have_keys_of_their_own():
    """Case DATA-09."""
    ids = [Decimal("9007199254740992"), Decimal("9007199254740993"), "9007199254740992", "9007199254740993"]
    assert len({reading({"id": number}) for number in ids}) == 4


def test_an_effect_key_is_the_same_after_a_crash():
    assert keys.effect_key(SECRET, **EFFECT) == keys.effect_key(SECRET, **EFFECT)


def test_an_effect_key_never_changes_its_meaning():
    """Open claims are settled by it after an update: another value here means another key on the wire."""
    assert keys.effect_key(SECRET, **EFFECT) == "bd229567dae9791c452121a98e2e6b0ac2694591138aac4f4f778c50325589a6"


@pytest.mark.parametrize(
    "other",
    [
        {"sync_id": 13},
        {"target": "brevo:111:list:8"},
        {"kind": EffectKind.WITHDRAWAL},
        {"natural_id": "5002"},
        {"seq": 2},
        {"payload_digest": "ac" * 32},
    ],
    ids=lambda other: next(iter(other)),
)
def test_every_part_of_an_effect_makes_another_effect_key(other):
    """Case DELIV-07: A, B and A again are three keys, by their seq."""
    assert keys.effect_key(SECRET, **EFFECT) != keys.effect_key(SECRET, **{**EFFECT, **other})


def test_another_installation_has_other_effect_keys():
    assert keys.effect_key(SECRET, **EFFECT) != keys.effect_key(b"another", **EFFECT)


@given(st.tuples(TEXT, TEXT), st.tuples(TEXT, TEXT))
def test_no_two_lists_of_parts_share_an_effect_key(one, two):
    made = [keys.effect_key(SECRET, **{**EFFECT, "target": target, "natural_id": id}) for target, id in (one, two)]
    assert (made[0] == made[1]) == (one == two)


def test_every_spelling_of_one_address_has_one_key():
    """Case DATA-04."""
    spellings = ["kim@bücher.example", " KIM@BÜCHER.example", "kim@xn--bcher-kva.example"]
    assert len({keys.address_key(SECRET, spelling) for spelling in spellings}) == 1


def test_two_addresses_have_two_keys_also_where_they_cannot_be_sent_to():
    addresses = ["kim@shop.example", "kïm@shop.example", "kim", "k" * 65 + "@shop.example"]
    assert len({keys.address_key(SECRET, address) for address in addresses}) == 4


def test_an_address_cannot_be_guessed_from_its_key_without_the_secret():
    key = keys.address_key(SECRET, "kim@shop.example")
    assert key != keys.address_key(b"another", "kim@shop.example")
    assert (len(key), "kim" in key) == (64, False)
