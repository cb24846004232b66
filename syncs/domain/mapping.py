"""From a record to its effects: what the destination is to see once (PRODUCT 2.2), with values it can store.

What a record contains is only ever a value (PRODUCT 10.4). A value that does not fit its kind is left out with a note;
no record breaks a page. Empty is left out too: it never overwrites what the destination holds (Case DELIV-11).
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from connectors.protocol import EffectKind, Json, Order, Record, Stream, Write
from syncs.domain import expression, keys
from syncs.domain.expression import Expression, Meter
from syncs.domain.rule import ORDER_CANCELLED, ORDER_PLACED, ORDER_REFUNDED, Kind, Rule

TEXT_LIMIT: Final = 255
"""Characters of a text that the destination stores."""

NUMBER_MAGNITUDE: Final = 300
"""Powers of ten that a number may lie above or below 1: the destination keeps doubles."""

TEXT_CLEANED: Final = "text_cleaned"
TEXT_CUT: Final = "text_cut"
NOT_TEXT: Final = "not_text"
NOT_A_NUMBER: Final = "not_a_number"
NOT_A_DATE: Final = "not_a_date"
NOT_A_BOOLEAN: Final = "not_a_boolean"
NOT_COMPUTABLE: Final = "not_computable"

Cleaned = tuple[Any, tuple[str, ...]]
"""A value, None when it is left out, and the codes of its notes."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something about one field that a person should know: its target and a code. Never the value."""

    to: str
    code: str


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing the destination is to see once.

    ``append`` says that it is an event: once delivered it never is again, whatever its record turns into. ``digest``
    is over ``payload``; for the rest an equal digest is nothing new. ``attributes`` are a contact's attributes, an
    order's meta fields or an event's properties. ``event_at`` is when the fact happened: compare it with the first
    publication to know an event of the past.
    """

    kind: EffectKind
    natural_id: str
    append: bool
    payload: Json
    digest: str
    subject_id: str
    notes: tuple[Note, ...] = ()
    address: str | None = None
    attributes: Json | None = None
    list_id: int | None = None
    order: Order | None = None
    event_name: str | None = None
    event_at: datetime | None = None

    def write(
        self,
        *,
        effect_key: str,
        known: bool = False,
        destination_id: str | None = None,
        consent_at: datetime | None = None,
        granted_at: datetime | None = None,
        history: bool = False,
    ) -> Write:
        """The effect on its way, with what the ledger knows of its object."""
        return Write(
            kind=self.kind,
            id=self.natural_id,
            effect_key=effect_key,
            subject_id=self.subject_id,
            address=self.address,
            attributes=dict(self.attributes or {}),
            list_id=self.list_id,
            known=known,
            destination_id=destination_id,
            consent_at=consent_at,
            granted_at=granted_at,
            order=self.order,
            event_name=self.event_name,
            event_at=self.event_at,
            history=history,
        )


class Mapper:
    """A rule made ready for records. Immutable; make one per run and ask it for every record."""

    def __init__(self, rule: Rule, shop: str, *, prefix: str = "shopify", zone: tzinfo = UTC) -> None:
        """``shop`` is the source's account, ``prefix`` its kind; ``zone`` the shop's, whose days dates are in."""
        self._rule = rule
        self._owner = f"{prefix}:{shop}"
        self._zone = zone
        self._filter = None if rule.filter is None else Expression(rule.filter)
        self._fields = [(field.to, Expression(field.source), field.kind) for field in rule.mapping]
        self._is_measured = not all(source.plain for _, source, _ in self._fields)

    def subject_id(self, source_id: str) -> str:
        """The destination's external id of the person whom the source calls ``source_id``."""
        return f"{self._owner}:{source_id}"

    def keeps(self, record: Record) -> bool:
        """Whether the rule takes the record. A filter that cannot be computed for it takes it not: too careful."""
        if record.order is not None and record.order.test and not self._rule.include_test_orders:
            return False
        if self._filter is None:
            return True
        try:
            return _is_true(self._filter.value(record.fields, Meter()))
        except expression.UNCOMPUTABLE:
            return False

    def effects(self, record: Record, address: str | None) -> tuple[Effect, ...]:
        """What the destination is to see of a record whose person passed. ``address`` is comparable, for contacts.

        Raises ValueError for a record that names no person: it should have been refused (PRODUCT 3.9).
        """
        attributes, notes = self.attributes(record)
        if record.stream is Stream.CUSTOMERS:
            return (self._contact(record, address, attributes, notes),)
        return (self._order(record, attributes, notes), *self._events(record, attributes))

    def attributes(self, record: Record) -> tuple[dict[str, Any], tuple[Note, ...]]:
        """The mapped values by target, without those that are empty or do not fit; and notes on what was done."""
        values: dict[str, Any] = {}
        notes: list[Note] = []
        meter = Meter() if self._is_measured else None
        for to, source, kind in self._fields:
            value, codes = self._value(source, kind, record.fields, meter)
            notes += [Note(to, code) for code in codes]
            if value is not None:
                values[to] = value
        return values, tuple(notes)

    def _value(self, source: Expression, kind: Kind, fields: Json, meter: Meter | None) -> Cleaned:
        try:
            found = source.value(fields, meter)
        except expression.UNCOMPUTABLE:
            return None, (NOT_COMPUTABLE,)
        return _CLEAN[kind](found, self._zone)

    def withdrawal(self, customer_id: str) -> Effect:
        """The source's customer comes off the rule's list (PRODUCT 3.8). It needs no address."""
        person, list_id = self.subject_id(customer_id), self._rule.list_id
        payload = {"withdraw": person, "list_id": list_id}
        return Effect(EffectKind.WITHDRAWAL, customer_id, False, payload, keys.digest(payload), person, list_id=list_id)

    def _person(self, record: Record) -> str:
        if record.subject is None:
            raise ValueError("A record without a person has no effects.")
        return self.subject_id(record.subject.id)

    def _contact(
        self, record: Record, address: str | None, attributes: dict[str, Any], notes: tuple[Note, ...]
    ) -> Effect:
        person, list_id = self._person(record), self._rule.list_id
        payload = {"address": address, "attributes": attributes, "list_id": list_id}
        return Effect(
            EffectKind.CONTACT,
            record.id,
            False,
            payload,
            keys.digest(payload),
            person,
            notes,
            address=address,
            attributes=attributes,
            list_id=list_id,
        )

    def _order(self, record: Record, attributes: dict[str, Any], notes: tuple[Note, ...]) -> Effect:
        person, order = self._person(record), _order_of(record)
        payload = {"person": person, "order": _facts(order), "attributes": attributes}
        digest = keys.digest(payload)
        return Effect(
            EffectKind.ORDER, record.id, False, payload, digest, person, notes, attributes=attributes, order=order
        )

    def _events(self, record: Record, attributes: dict[str, Any]) -> list[Effect]:
        order = _order_of(record)
        happened = [(name, *_HAPPENED[name](record.id, order)) for name in self._rule.events]
        return [
            self._event(record, name, natural_id, at, attributes)
            for name, natural_id, at in happened
            if natural_id is not None and at is not None
        ]

    def _event(self, record: Record, name: str, natural_id: str, at: datetime, attributes: dict[str, Any]) -> Effect:
        """The digest is over the fact's identity alone, so nothing else of the order makes it another effect."""
        payload = {"event": name, "id": natural_id}
        return Effect(
            EffectKind.EVENT,
            natural_id,
            True,
            payload,
            keys.digest(payload),
            self._person(record),
            attributes={**attributes, **_properties(name, record.id, _order_of(record))},
            event_name=name,
            event_at=at,
        )


def _order_of(record: Record) -> Order:
    if record.order is None:
        raise ValueError("A record of the orders stream has an order.")
    return record.order


def _facts(order: Order) -> dict[str, Any]:
    """What of an order is worth sending again when it changes. Its time of change alone is not."""
    return {
        "name": order.name,
        "status": order.status,
        "amount": order.amount,
        "currency": order.currency,
        "created_at": _instant(order.created_at),
        "cancelled_at": None if order.cancelled_at is None else _instant(order.cancelled_at),
        "refunded_total": order.refunded_total,
        "lines": [[line.sku, line.quantity, line.price] for line in order.lines],
    }


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _properties(name: str, order_id: str, order: Order) -> dict[str, Any]:
    properties = {"order_id": order_id, "name": order.name, "amount": order.amount, "currency": order.currency}
    return properties | {"refunded_total": order.refunded_total} if name == ORDER_REFUNDED else properties


Happened = tuple[str | None, datetime | None]


def _placed(order_id: str, order: Order) -> Happened:
    return f"{ORDER_PLACED}:{order_id}", order.placed_at


def _cancelled(order_id: str, order: Order) -> Happened:
    return f"{ORDER_CANCELLED}:{order_id}", order.cancelled_at


def _refunded(order_id: str, order: Order) -> Happened:
    """One event per refunded total, whatever its spelling: 5.0 and 5.00 are one refund."""
    total = _decimal(order.refunded_total or "")
    return (f"{ORDER_REFUNDED}:{order_id}:{total.normalize():f}", order.updated_at) if total else (None, None)


_HAPPENED: Final[Mapping[str, Callable[[str, Order], Happened]]] = {
    ORDER_PLACED: _placed,
    ORDER_CANCELLED: _cancelled,
    ORDER_REFUNDED: _refunded,
}


def _is_true(value: Any) -> bool:
    """Truth as JMESPath has it: false, null and what is empty are not true; the number 0 is."""
    return not (value is None or value is False or value in ("", [], {}))


_NOTHING: Final[Cleaned] = (None, ())


def _clean_text(value: Any, _zone: tzinfo) -> Cleaned:
    if isinstance(value, list):
        return _clean_list(value)
    text = _spelled(value)
    if text is None:
        return (None, (NOT_TEXT,)) if value is not None else _NOTHING
    return _tidied(text)


def _clean_list(values: list[Any]) -> Cleaned:
    """The texts of a list joined, without the empty ones; what is no text in it is noted."""
    texts = [_spelled(value) for value in values if value is not None]
    value, codes = _tidied(", ".join(part for text in texts if text is not None and (part := _normal(text))))
    was_cleaned = any(_scrubbed(text) != text for text in texts if text is not None)
    return value, (*[TEXT_CLEANED] * was_cleaned, *codes, *[NOT_TEXT] * (None in texts))


def _spelled(value: Any) -> str | None:
    """A single value as text, None for what has none. A source's own text is its text, also "None" and "null"."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _number(value)
    return None if number is None else str(number)


def _tidied(text: str) -> Cleaned:
    codes = [TEXT_CLEANED] if _scrubbed(text) != text else []
    normal = _normal(text)
    short = cut(normal, TEXT_LIMIT)
    if len(short) < len(normal):
        codes.append(TEXT_CUT)
    return short or None, tuple(codes)


def _normal(text: str) -> str:
    """``text`` as it is compared and sent: composed, so that two spellings of one word are one value."""
    return unicodedata.normalize("NFC", _scrubbed(text)).strip(_EDGES)


_BREAKS: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"
_EDGES: Final = (
    " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\u200c\u200d"
)
_INVISIBLE: Final = re.compile("[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\ud800-\udfff\x00-\x1f\x7f-\x9f]")
"""Zero-width breaks, bidi overrides, half surrogates, control characters. Joiners stay: scripts and emoji need them."""

_BREAK: Final = re.compile(f"[ ]*[{_BREAKS}]+[ ]*")


def _scrubbed(text: str) -> str:
    """``text`` with line breaks and tabs as one space, and without what cannot be seen."""
    return _INVISIBLE.sub("", _BREAK.sub(" ", text)) if not text.isprintable() else text


def cut(text: str, limit: int) -> str:
    """The first ``limit`` characters of ``text``, ended before a sign rather than inside it (Case DATA-03)."""
    if len(text) <= limit:
        return text
    end = limit
    while end > 0 and _joins(text, end):
        end -= 1
    return text[: end or limit].rstrip(_EDGES)


_JOINER: Final = "\u200d"


def _joins(text: str, at: int) -> bool:
    """Whether the characters around ``at`` are parts of one sign."""
    before, after = text[at - 1], text[at]
    if before == _JOINER or after in (_JOINER, "\u200c") or unicodedata.combining(before) == _VIRAMA:
        return True
    return _extends(after) or (_is_flag(before) and _is_flag(after) and _flags_before(text, at) % 2 == 1)


_VIRAMA: Final = 9
_EXTENDING: Final = (("\U0001f3fb", "\U0001f3ff"), ("\U000e0020", "\U000e007f"), ("\u1160", "\u11ff"))


def _extends(sign: str) -> bool:
    """Marks, skin tones, tags, and the later letters of a Korean syllable."""
    return unicodedata.category(sign).startswith("M") or any(first <= sign <= last for first, last in _EXTENDING)


def _is_flag(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _is_flag(text[start - 1]):
        start -= 1
    return at - start


def _clean_number(value: Any, _zone: tzinfo) -> Cleaned:
    if value is None or (isinstance(value, str) and not value.strip()):
        return _NOTHING
    number = _decimal(value.strip()) if isinstance(value, str) else _number(value)
    if number is None:
        return None, (NOT_A_NUMBER,)
    if isinstance(number, Decimal) and number == number.to_integral_value() and "." not in str(value):
        whole = int(number)
        return (whole if abs(whole) <= keys.INT_LIMIT else number), ()
    return number, ()


def _number(value: Any) -> int | Decimal | None:
    """A number as it can be sent, None for what is none. A computed float becomes the decimal that it prints as."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int) and abs(value) <= keys.INT_LIMIT:
        return value
    return _bounded(Decimal(repr(value) if isinstance(value, float) else value))


_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?")


def _decimal(text: str) -> Decimal | None:
    """Decimal text as a number, None for what is none. Grouping, units and other scripts' digits are never guessed."""
    if len(text) > TEXT_LIMIT or not _NUMBER.fullmatch(text):
        return None
    try:
        return _bounded(Decimal(text))
    except InvalidOperation:
        return None


def _bounded(number: Decimal) -> Decimal | None:
    return number if number.is_finite() and abs(number.adjusted()) <= NUMBER_MAGNITUDE else None


_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _clean_date(value: Any, zone: tzinfo) -> Cleaned:
    """The day as YYYY-MM-DD: an instant's day in the shop's zone, a day without a time as it stands (Case DATA-12)."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return _NOTHING
    day = _day(value.strip(), zone) if isinstance(value, str) else None
    return (None, (NOT_A_DATE,)) if day is None else (day.isoformat(), ())


def _day(text: str, zone: tzinfo) -> date | None:
    if not _DATE.match(text):
        return None
    try:
        if len(text) == len("YYYY-MM-DD"):
            return date.fromisoformat(text)
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is None else at.astimezone(zone)).date()
    except (ValueError, OverflowError):
        return None


_TRUTHS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def _clean_boolean(value: Any, _zone: tzinfo) -> Cleaned:
    if isinstance(value, bool):
        return value, ()
    if value is None or (isinstance(value, str) and not value.strip()):
        return _NOTHING
    truth = _TRUTHS.get(value.strip().lower()) if isinstance(value, str) else None
    return (None, (NOT_A_BOOLEAN,)) if truth is None else (truth, ())


_CLEAN: Final[Mapping[Kind, Callable[[Any, tzinfo], Cleaned]]] = {
    "text": _clean_text,
    "number": _clean_number,
    "date": _clean_date,
    "boolean": _clean_boolean,
}
