import dataclasses
import json
import unicodedata
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.protocol import ConsentEvidence, EffectKind, Order, OrderLine, Record, Stream, Subject, Write
from syncs.domain import keys, mapping, rule
from syncs.domain.mapping import Effect, Mapper, Note

SHARED = Path(__file__).parents[3].parent / "shared"
AT = datetime(2026, 10, 12, 10, 0, tzinfo=UTC)
CONSENT = ConsentEvidence("SUBSCRIBED", "SINGLE_OPT_IN", AT, True, False, "defaultEmailAddress")
KIM = Subject("1", "Kim@shop.example", CONSENT)
ORDER = Order(
    name="#1001",
    status="PAID",
    amount="19.90",
    currency="EUR",
    created_at=AT,
    updated_at=AT + timedelta(hours=2),
    lines=(OrderLine("85123A", 2, "9.95"),),
    placed_at=AT,
    cancelled_at=None,
    refunded_total="0.00",
    test=False,
)
EVENTS = ["order_placed", "order_cancelled", "order_refunded"]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


def customer(subject=KIM, **fields) -> Record:
    return Record(Stream.CUSTOMERS, "1", 0, AT, fields, subject)


def order(subject=KIM, fields=None, **facts) -> Record:
    return Record(Stream.ORDERS, "5001", 0, AT, fields or {}, subject, dataclasses.replace(ORDER, **facts))


def mapper(stream="customers", zone=UTC, mapped=(), **other) -> Mapper:
    raw = {"stream": stream, "mapping": [dict(zip(("to", "source", "kind"), row, strict=False)) for row in mapped]}
    raw |= {"list_id": 7} if stream == "customers" else {"events": EVENTS}
    return Mapper(rule.parse({**raw, **other}), "shop-a.example", prefix="shopify", zone=zone)


def mapped(value, kind="text", zone=UTC) -> tuple[object, list[str]]:
    """What a field with ``value`` becomes, and the codes of its notes."""
    values, notes = mapper(mapped=[("FIELD", "field", kind)], zone=zone).attributes(customer(field=value))
    assert all(note.to == "FIELD" for note in notes)
    return values.get("FIELD"), [note.code for note in notes]


# Text


@pytest.mark.parametrize(
    ("value", "sent", "codes"),
    [
        ("Kim", "Kim", []),
        ("  Kim ", "Kim", []),
        ("Te\x00st", "Test", ["text_cleaned"]),
        ("literal \\u0000 text", "literal \\u0000 text", []),
        ("A\tB\nC\u200b", "A B C", ["text_cleaned"]),
        ("line1\r\nline2", "line1 line2", ["text_cleaned"]),
        ("a\u2028b", "a b", ["text_cleaned"]),
        ("\u202eevil\u202c", "evil", ["text_cleaned"]),
        ("\ufeffKim", "Kim", ["text_cleaned"]),
        ("\x1b[31mKim", "[31mKim", ["text_cleaned"]),
        ("half \ud800 pair", "half  pair", ["text_cleaned"]),
        ("Cafe\u0301", "Caf\u00e9", []),
        ("Cafe\u200b\u0301", "Caf\u00e9", ["text_cleaned"]),
        ("क्‍ष", "क्‍ष", []),
        (FAMILY, FAMILY, []),
        ("=1+1", "=1+1", []),
        ("<b>Kim</b>", "<b>Kim</b>", []),
        ("Null", "Null", []),
        ("", None, []),
        ("   \u00a0", None, []),
        ("\u200d", None, []),
        ("\x00\u200b", None, ["text_cleaned"]),
        (None, None, []),
        (12, "12", []),
        (Decimal("19.90"), "19.90", []),
        (9007199254740993, "9007199254740993", []),
        (True, "true", []),
        ({"x": 1}, None, ["not_text"]),
        (float("nan"), None, ["not_text"]),
        (["a", "b"], "a, b", []),
        ([None, " a", "", "\u00a0"], "a", []),
        ([], None, []),
        ([None], None, []),
        (["a\x00", {"x": 1}], "a", ["text_cleaned", "not_text"]),
        ([1, True, Decimal("1.50")], "1, true, 1.50", []),
        ([["a"]], None, ["not_text"]),
    ],
)
def test_a_text_is_sent_clean_or_left_out(value, sent, codes):
    """Cases DATA-01, DATA-03, DATA-08, DELIV-11."""
    assert mapped(value) == (sent, codes)


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (FAMILY * 60, FAMILY * 51),
        ("ß" * 300, "ß" * 255),
        ("a" * 254 + FAMILY, "a" * 254),
        ("a" * 254 + "e\u0323\u0301x", "a" * 254),
        ("a" * 254 + "\u0915\u093f", "a" * 254),
        ("a" * 253 + "\u0915\u094d\u0937", "a" * 253),
        ("a" * 254 + "\U0001f44b\U0001f3fd", "a" * 254),
        ("\U0001f1e9\U0001f1ea" * 128, "\U0001f1e9\U0001f1ea" * 127),
        ("a" * 254 + " bcd", "a" * 254),
        ("\u0301" * 300, "\u0301" * 255),
    ],
    ids=["family", "sharp s", "joined", "two marks", "vowel sign", "conjunct", "skin", "flags", "blank", "only marks"],
)
def test_a_long_text_is_cut_between_two_signs(value, sent):
    """Case DATA-03."""
    assert mapped(value) == (sent, ["text_cut"])


def test_a_long_list_is_cut_too():
    assert mapped(["a" * 300, "b"]) == ("a" * 255, ["text_cut"])


@given(st.text() | st.text("e\u0301\u200d\U0001f468\U0001f1e9\u094d\u0937a \n\x00", min_size=200, max_size=600))
def test_any_text_becomes_one_that_the_destination_can_store(text):
    sent, _ = mapped(text)
    if sent is None:
        return
    assert 0 < len(sent) <= mapping.TEXT_LIMIT
    assert sent == sent.strip()
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in sent)
    assert keys.canonical(sent)
    assert mapped(sent) == (sent, [])


@given(st.text())
def test_the_composed_and_the_decomposed_form_are_one_value(text):
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert mapped(composed) == mapped(decomposed)


def test_naughty_strings_do_no_harm():
    path = SHARED / "data" / "naughty-strings" / "blns.json"
    if not path.exists():
        pytest.skip("The shared reference data is not beside this repository.")
    texts = json.loads(path.read_text())
    sent = [mapped(text)[0] for text in texts]
    assert len(sent) > 500
    assert all(text is None or (text.strip() and len(text) <= 255 and keys.canonical(text)) for text in sent)


# Numbers, dates, booleans


@pytest.mark.parametrize(
    ("value", "sent", "codes"),
    [
        ("12", 12, []),
        (" 12 ", 12, []),
        (12, 12, []),
        ("-5.00", Decimal("-5.00"), []),
        ("1.005", Decimal("1.005"), []),
        (Decimal("19.90"), Decimal("19.90"), []),
        (12.0, Decimal("12.0"), []),
        ("9007199254740993", Decimal("9007199254740993"), []),
        (9007199254740993, Decimal("9007199254740993"), []),
        ("1e3", 1000, []),
        ("many", None, ["not_a_number"]),
        ("1234;5678", None, ["not_a_number"]),
        ("1,234.50", None, ["not_a_number"]),
        ("NaN", None, ["not_a_number"]),
        ("Infinity", None, ["not_a_number"]),
        (float("inf"), None, ["not_a_number"]),
        (Decimal("NaN"), None, ["not_a_number"]),
        ("1e999", None, ["not_a_number"]),
        ("1e99999999", None, ["not_a_number"]),
        ("٠١٢٣", None, ["not_a_number"]),
        ({"x": 1}, None, ["not_a_number"]),
        ([1], None, ["not_a_number"]),
        (True, None, ["not_a_number"]),
        (None, None, []),
        ("", None, []),
    ],
)
def test_a_number_is_sent_exactly_or_left_out(value, sent, codes):
    """Cases DATA-08, DATA-09, DATA-10."""
    found = mapped(value, "number")
    assert found == (sent, codes)
    assert type(found[0]) is type(sent)
    assert str(found[0]) == str(sent)


@pytest.mark.parametrize(
    ("value", "sent", "codes"),
    [
        ("2026-10-01T00:30:00+02:00", "2026-10-01", []),
        ("2026-09-30T22:30:00Z", "2026-10-01", []),
        ("2026-09-30T21:59:59Z", "2026-09-30", []),
        ("2026-10-01T00:30:00", "2026-10-01", []),
        ("1992-02-29", "1992-02-29", []),
        (" 1992-02-29 ", "1992-02-29", []),
        ("2026-02-30", None, ["not_a_date"]),
        ("0001-01-01T00:00:00+14:00", None, ["not_a_date"]),
        ("29.02.1992", None, ["not_a_date"]),
        ("19920229", None, ["not_a_date"]),
        ("1992-02-29 at noon", None, ["not_a_date"]),
        (699321600, None, ["not_a_date"]),
        (True, None, ["not_a_date"]),
        (None, None, []),
        ("", None, []),
    ],
)
def test_a_date_is_the_shops_day_or_left_out(value, sent, codes):
    """Case DATA-12."""
    assert mapped(value, "date", ZoneInfo("Europe/Berlin")) == (sent, codes)


def test_without_a_zone_of_the_shop_a_day_is_a_day_in_utc():
    assert mapped("2026-10-01T00:30:00+02:00", "date") == ("2026-09-30", [])


@pytest.mark.parametrize(
    ("value", "sent", "codes"),
    [
        (True, True, []),
        (False, False, []),
        ("true", True, []),
        (" False", False, []),
        ("yes", None, ["not_a_boolean"]),
        (1, None, ["not_a_boolean"]),
        (0, None, ["not_a_boolean"]),
        ([], None, ["not_a_boolean"]),
        (None, None, []),
        ("", None, []),
    ],
)
def test_a_boolean_is_said_or_left_out(value, sent, codes):
    assert mapped(value, "boolean") == (sent, codes)


@given(
    st.sampled_from(["text", "number", "date", "boolean"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
)
def test_no_value_breaks_a_page_and_what_is_sent_is_canonical(kind, value):
    """Case DATA-08."""
    sent, _ = mapped(value, kind)
    keys.canonical(sent)
    assert not isinstance(sent, dict | list | float)


def test_an_expression_that_does_not_fit_the_record_leaves_its_field_out():
    values, notes = mapper(mapped=[("A", "length(tags)", "number"), ("B", "name", "text")]).attributes(
        customer(tags=None, name="Kim")
    )
    assert (values, notes) == ({"B": "Kim"}, (Note("A", "not_computable"),))


def test_an_expression_reaches_into_the_record():
    mapped_fields = [
        ("CITY", "defaultAddress.city", "text"),
        ("SPENT", "amountSpent.amount", "number"),
        ("FIRST_TAG", "tags[0]", "text"),
        ("ORDERS", "to_number(numberOfOrders)", "number"),
    ]
    values, notes = mapper(mapped=mapped_fields).attributes(
        customer(
            defaultAddress={"city": "Köln"}, amountSpent={"amount": "141.00"}, tags=["vip", "b"], numberOfOrders="12"
        )
    )
    assert (values, notes) == ({"CITY": "Köln", "SPENT": Decimal("141.00"), "FIRST_TAG": "vip", "ORDERS": 12}, ())


# The filter


@pytest.mark.parametrize(
    ("expression", "fields", "kept"),
    [
        (None, {}, True),
        ("contains(tags, 'vip')", {"tags": ["vip"]}, True),
        ("contains(tags, 'vip')", {"tags": []}, False),
        ("contains(tags, 'vip')", {"tags": None}, False),
        ("contains(tags, 'vip')", {}, False),
        ("tags", {"tags": []}, False),
        ("note", {"note": ""}, False),
        ("note", {"note": "x"}, True),
        ("count", {"count": 0}, True),
        ("flag", {"flag": False}, False),
        ("address", {"address": {}}, False),
        ("to_number(n) > `3`", {"n": "12"}, True),
        ("to_number(n) > `3`", {"n": "many"}, False),
        ("price > `3`", {"price": Decimal("3.01")}, True),
    ],
)
def test_a_filter_keeps_what_it_is_true_for(expression, fields, kept):
    """Truth as JMESPath has it; what cannot be computed is not kept."""
    assert mapper(filter=expression).keeps(customer(**fields)) is kept


def test_test_orders_are_left_out_unless_the_rule_includes_them():
    assert not mapper("orders").keeps(order(test=True))
    assert mapper("orders", include_test_orders=True).keeps(order(test=True))
    assert mapper("orders").keeps(order())


def test_a_test_order_that_is_included_still_meets_the_filter():
    assert not mapper("orders", include_test_orders=True, filter="vip").keeps(order(test=True))


# Contacts


def contact(**fields) -> Effect:
    (effect,) = mapper(mapped=[("FIRSTNAME", "firstName", "text")]).effects(customer(**fields), "kim@shop.example")
    return effect


def test_a_customer_is_one_contact():
    payload = {"address": "kim@shop.example", "attributes": {"FIRSTNAME": "Kim"}, "list_id": 7}
    assert contact(firstName=" Kim", lastName="not mapped") == Effect(
        kind=EffectKind.CONTACT,
        natural_id="1",
        append=False,
        payload=payload,
        digest=keys.digest(payload),
        subject_id="shopify:shop-a.example:1",
        notes=(),
        address="kim@shop.example",
        attributes={"FIRSTNAME": "Kim"},
        list_id=7,
    )


def test_a_contact_goes_out_with_what_the_ledger_knows():
    write = contact(firstName="Kim").write(
        effect_key="ab", known=True, destination_id="21", consent_at=AT, granted_at=AT, history=True
    )
    assert write == Write(
        kind=EffectKind.CONTACT,
        id="1",
        effect_key="ab",
        subject_id="shopify:shop-a.example:1",
        address="kim@shop.example",
        attributes={"FIRSTNAME": "Kim"},
        list_id=7,
        known=True,
        destination_id="21",
        consent_at=AT,
        granted_at=AT,
        history=True,
    )


def test_an_unmapped_change_is_no_change():
    assert contact(firstName="Kim", note="a").digest == contact(firstName="Kim", note="b").digest


def test_a_mapped_change_is_a_change():
    assert contact(firstName="Kim").digest != contact(firstName="Tim").digest


def test_a_note_is_no_change():
    assert contact(firstName="Ki\x00m").digest == contact(firstName="Kim").digest
    assert contact(firstName="Ki\x00m").notes == (Note("FIRSTNAME", "text_cleaned"),)


def test_empty_fields_are_left_alone_at_the_destination():
    """Case DELIV-11."""
    assert contact(firstName="").attributes == {}


def test_a_record_cannot_name_its_own_target():
    """PRODUCT 10.4; Case CONS-07."""
    write = contact(firstName="Kim", emailBlacklisted=False, list_id=9, listIds=[9]).write(effect_key="ab")
    assert (write.list_id, write.attributes) == (7, {"FIRSTNAME": "Kim"})


def test_a_withdrawal_names_the_person_and_the_list_and_nothing_else():
    """Case CONS-12."""
    gone = customer(Subject("1", None, CONSENT))
    write = mapper().withdrawal(gone.id).write(effect_key="ab")
    assert write == Write(
        kind=EffectKind.WITHDRAWAL, id="1", effect_key="ab", subject_id="shopify:shop-a.example:1", list_id=7
    )


@pytest.mark.parametrize("record", [customer(None), order(None)], ids=["customer", "order"])
def test_a_record_without_a_person_has_no_effects(record):
    """PRODUCT 3.9."""
    stream = str(record.stream)
    with pytest.raises(ValueError, match="without a person"):
        mapper(stream).effects(record, None)


# Orders and events


def effects(fields=None, **facts) -> dict[str, Effect]:
    made = mapper("orders", mapped=[("source_name", "sourceName", "text")]).effects(order(fields=fields, **facts), None)
    by_id = {effect.natural_id: effect for effect in made}
    assert len(by_id) == len(made)
    return by_id


def test_an_order_is_an_upsert_and_its_events():
    made = effects({"sourceName": "web"}, cancelled_at=AT + timedelta(hours=1), refunded_total="5.00")
    assert [(effect.kind, id, effect.append, effect.event_name, effect.event_at) for id, effect in made.items()] == [
        (EffectKind.ORDER, "5001", False, None, None),
        (EffectKind.EVENT, "order_placed:5001", True, "order_placed", AT),
        (EffectKind.EVENT, "order_cancelled:5001", True, "order_cancelled", AT + timedelta(hours=1)),
        (EffectKind.EVENT, "order_refunded:5001:5", True, "order_refunded", AT + timedelta(hours=2)),
    ]
    assert {effect.subject_id for effect in made.values()} == {"shopify:shop-a.example:1"}
    assert {effect.address for effect in made.values()} == {None}


def test_an_order_goes_out_with_its_facts_and_meta_fields():
    write = effects({"sourceName": "web"})["5001"].write(effect_key="ab", history=True)
    assert write == Write(
        kind=EffectKind.ORDER,
        id="5001",
        effect_key="ab",
        subject_id="shopify:shop-a.example:1",
        attributes={"source_name": "web"},
        order=ORDER,
        history=True,
    )


def test_an_event_says_order_amount_and_currency_as_text():
    """Case DATA-10."""
    made = effects({"sourceName": "web"}, refunded_total="-5.00")
    said = {"order_id": "5001", "name": "#1001", "amount": "19.90", "currency": "EUR", "source_name": "web"}
    assert made["order_placed:5001"].attributes == said
    assert made["order_refunded:5001:-5"].attributes == said | {"refunded_total": "-5.00"}
    assert made["order_placed:5001"].write(effect_key="ab") == Write(
        kind=EffectKind.EVENT,
        id="order_placed:5001",
        effect_key="ab",
        subject_id="shopify:shop-a.example:1",
        attributes=said,
        event_name="order_placed",
        event_at=AT,
    )


def test_only_the_events_of_the_rule_are_sent():
    made = mapper("orders", events=["order_cancelled"]).effects(order(cancelled_at=AT, refunded_total="1"), None)
    assert [effect.natural_id for effect in made] == ["5001", "order_cancelled:5001"]


@pytest.mark.parametrize("total", [None, "", "0", "0.00", "-0.0", "unknown", "NaN"])
def test_nothing_refunded_is_no_refund(total):
    assert [id for id in effects(refunded_total=total) if "refunded" in id] == []


@pytest.mark.parametrize(
    ("total", "id"),
    [
        ("5.00", "order_refunded:5001:5"),
        ("5.0", "order_refunded:5001:5"),
        ("100", "order_refunded:5001:100"),
        ("5.05", "order_refunded:5001:5.05"),
    ],
)
def test_a_refund_is_known_by_its_total_however_it_is_spelled(total, id):
    """PRODUCT 2.2."""
    assert [one for one in effects(refunded_total=total) if "refunded" in one] == [id]


CHANGES = [
    {"status": "REFUNDED"},
    {"amount": "9.95"},
    {"name": "#1001-A"},
    {"updated_at": AT + timedelta(days=9)},
    {"lines": ()},
    {"cancelled_at": AT + timedelta(days=9)},
    {"refunded_total": "7.00"},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_nothing_else_of_an_order_makes_an_event_another_effect(change):
    """PRODUCT 2.2, Case DELIV-08."""
    before = effects(cancelled_at=AT, refunded_total="5.00")
    after = effects({"sourceName": "pos"}, **{"cancelled_at": AT, "refunded_total": "5.00", **change})
    both = [id for id in before if id in after and before[id].append]
    assert {"order_placed:5001", "order_cancelled:5001"} <= set(both)
    assert [before[id].digest for id in both] == [after[id].digest for id in both]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_an_order_is_sent_again_when_what_it_says_has_changed(change):
    """A new time of change alone says nothing new."""
    assert (effects(**change)["5001"].digest == effects()["5001"].digest) is ("updated_at" in change)


def test_an_order_that_moved_to_another_customer_is_sent_again_and_its_events_are_not():
    """Case DATA-11."""
    moved = mapper("orders").effects(order(Subject("2", None, CONSENT)), None)
    stayed = mapper("orders").effects(order(), None)
    assert [one.digest == other.digest for one, other in zip(moved, stayed, strict=True)] == [False, True]


def test_an_instant_in_another_zone_is_no_change():
    berlin = AT.astimezone(ZoneInfo("Europe/Berlin"))
    assert effects(created_at=berlin)["5001"].digest == effects()["5001"].digest


def test_digests_never_change_their_meaning():
    """Another value here sends every object of every customer once more after an update."""
    made = effects({"sourceName": "web"}, cancelled_at=AT, refunded_total="5.00")
    assert {id: effect.digest[:16] for id, effect in made.items()} == {
        "5001": "16e28cbe2296f32a",
        "order_placed:5001": "316bad13ec701537",
        "order_cancelled:5001": "a62fe31ee9582a3c",
        "order_refunded:5001:5": "6dbf08aba069fbf0",
    }
    assert contact(firstName="Kim").digest[:16] == "4b23ca79b6985c1a"
