"""What a sync may write: the rule, its plain JSON document, its digest, its words (PRODUCT 6.1 to 6.3).

A rule holds texts, integers, booleans and lists of them. No float: its text changes on the way through a database.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

import pydantic

from connectors.protocol import Stream
from syncs.domain import consent, expression, keys, limits
from syncs.domain.consent import Policy
from syncs.errors import RuleInvalid

FORMAT: Final = 1
DIGEST_METHOD: Final = 1

CONFIRMED_OR_SINGLE: Final = "confirmed_or_single"
CONFIRMED: Final = "confirmed"
LEVELS: Final[Mapping[str, frozenset[str]]] = {
    CONFIRMED_OR_SINGLE: frozenset({consent.CONFIRMED_OPT_IN, consent.SINGLE_OPT_IN}),
    CONFIRMED: frozenset({consent.CONFIRMED_OPT_IN}),
}

ORDER_PLACED: Final = "order_placed"
ORDER_CANCELLED: Final = "order_cancelled"
ORDER_REFUNDED: Final = "order_refunded"
EVENTS: Final = (ORDER_PLACED, ORDER_CANCELLED, ORDER_REFUNDED)

DEFAULT_RATIO: Final = "0.05"
DEFAULT_CAP: Final = 20
NAME_LIMIT: Final = 255
"""Characters of a field's name at the destination."""

NAME_SHOWN: Final = 40
"""Characters of a person's own text that a sentence quotes."""

CONTACT_RESERVED: Final = frozenset({"email", "sms", "whatsapp", "landline_number", "ext_id"})
"""What identifies a person at the destination, or would be a channel of its own: never a target (PRODUCT 3.7)."""

ORDER_RESERVED: Final = CONTACT_RESERVED | {
    "order_id",
    "name",
    "amount",
    "currency",
    "refunded_total",
    "effect_key",
}
"""For orders also what every event says of itself."""

Kind = Literal["text", "number", "date", "boolean"]


@dataclass(frozen=True, slots=True)
class FieldMap:
    """One field: the value of ``source`` (JMESPath over the source's node) goes to ``to`` as ``kind``."""

    to: str
    source: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Rule:
    """What a sync reads, keeps and writes. Built by `parse`, which checks what the types cannot.

    ``consent`` is confirmed_or_single or confirmed; ``on_rejected`` stop (``ratio`` and ``cap`` None) or set_aside.
    ``history_events``: events of the time before the first publication are sent too.
    """

    stream: Stream
    list_id: int | None = None
    mapping: tuple[FieldMap, ...] = ()
    filter: str | None = None
    consent: str = CONFIRMED_OR_SINGLE
    refuse_data_sale_opt_out: bool = False
    on_rejected: str = limits.STOP
    ratio: str | None = None
    cap: int | None = None
    events: tuple[str, ...] = ()
    history_events: bool = False
    include_test_orders: bool = False
    format: int = FORMAT

    @property
    def policy(self) -> Policy:
        """What the consent filter is to demand."""
        return Policy(LEVELS[self.consent], self.refuse_data_sale_opt_out)

    @property
    def budget(self) -> limits.RejectBudget:
        """How many rejected records may be set aside."""
        return limits.RejectBudget(self.on_rejected, self.ratio, self.cap)


class _Edge(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid", frozen=True)


class _FieldShape(_Edge):
    to: str
    source: str
    kind: Kind = "text"


class _RuleShape(_Edge):
    format: Literal[1] = FORMAT
    stream: Literal["customers", "orders"]
    list_id: int | None = None
    mapping: list[_FieldShape] = []
    filter: str | None = None
    consent: Literal["confirmed_or_single", "confirmed"] = "confirmed_or_single"
    refuse_data_sale_opt_out: bool = False
    on_rejected: Literal["stop", "set_aside"] = "stop"
    ratio: str | None = None
    cap: int | None = None
    events: list[Literal["order_placed", "order_cancelled", "order_refunded"]] = []
    history_events: bool = False
    include_test_orders: bool = False


WORDS: Final[Mapping[str, str]] = {
    "format": "the format",
    "stream": "the stream",
    "list_id": "the list",
    "mapping": "the mapping",
    "to": "the target",
    "source": "the source",
    "kind": "the kind",
    "filter": "the filter",
    "consent": "the consent policy",
    "refuse_data_sale_opt_out": "the choice about data sale",
    "on_rejected": "the choice about rejected records",
    "ratio": "the share of records that may be set aside",
    "cap": "the number of records that may be set aside",
    "events": "the events",
    "history_events": "the choice about past events",
    "include_test_orders": "the choice about test orders",
}
"""Field of the document -> its name in sentences."""

_TYPE_ADVICE: Final[Mapping[str, str]] = {
    "missing": "is missing: add it",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "model_type": "must be an object with to, source and kind",
    "model_attributes_type": "must be an object with to, source and kind",
}


def parse(raw: Mapping[str, Any]) -> Rule:
    """The rule that ``raw`` (plain JSON) says. Raises RuleInvalid with one sentence naming the field and what to do."""
    if not isinstance(raw, Mapping):
        raise RuleInvalid("A rule must be an object with named fields.")
    _refuse_floats(raw)
    try:
        shape = _RuleShape.model_validate(dict(raw))
    except pydantic.ValidationError as fault:
        raise _explained(fault) from None
    rule = _built(shape)
    for check in (_check_stream, _check_budget, _check_mapping, _check_filter):
        check(rule)
    return rule


def _built(shape: _RuleShape) -> Rule:
    """The rule of a shape, with line ends, blanks, decimals and the order of events made one form (Case PUB-10)."""
    sets_aside = shape.on_rejected == limits.SET_ASIDE
    ratio = shape.ratio if shape.ratio is not None or not sets_aside else DEFAULT_RATIO
    cap = shape.cap if shape.cap is not None or not sets_aside else DEFAULT_CAP
    return Rule(
        stream=Stream(shape.stream),
        list_id=shape.list_id,
        mapping=tuple(FieldMap(field.to.strip(), _tidy(field.source), field.kind) for field in shape.mapping),
        filter=_tidy(shape.filter or "") or None,
        consent=shape.consent,
        refuse_data_sale_opt_out=shape.refuse_data_sale_opt_out,
        on_rejected=shape.on_rejected,
        ratio=None if ratio is None else _decimal_text(ratio),
        cap=cap,
        events=_events_in_order(shape.events),
        history_events=shape.history_events,
        include_test_orders=shape.include_test_orders,
    )


def _tidy(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


_RATIO: Final = re.compile(r"(0|1)(\.[0-9]{1,6})?", re.ASCII)


def _decimal_text(text: str) -> str:
    """``text`` as the one spelling of its value: 0.10 is 0.1."""
    if not _RATIO.fullmatch(text.strip()) or Decimal(text.strip()) > 1:
        raise _invalid("ratio", "must be a decimal text from 0 to 1, such as 0.05")
    return format(Decimal(text.strip()).normalize(), "f")


def _events_in_order(events: list[Any]) -> tuple[str, ...]:
    if len(set(events)) < len(events):
        raise _invalid("events", "must name each event once: leave one out")
    return tuple(event for event in EVENTS if event in events)


def _invalid(path: str, advice: str) -> RuleInvalid:
    words = _in_words(path.split("."))
    return RuleInvalid(f"{words[0].upper()}{words[1:]} {advice}.", field=path)


def _in_words(steps: list[str]) -> str:
    """The path of a field in words: ["mapping", "1", "to"] is "the target of field 2 of the mapping"."""
    match steps:
        case ["mapping", index, *rest] if index.isdecimal():
            place = f"field {int(index) + 1} of the mapping"
            return f"{_name(rest[0])} of {place}" if rest else place
        case ["events", index] if index.isdecimal():
            return f"event {int(index) + 1}"
        case [name, *_]:
            return _name(name)
        case _:
            return "the rule"


def _name(field: str) -> str:
    return WORDS.get(field, f"the unknown field {field[:NAME_SHOWN]!r}")


_DEEPEST: Final = 8


FLOAT_ADVICE: Final = "holds a number with a point: write it as a text"


def _refuse_floats(raw: Any) -> None:
    path = next(_floats(raw, ()), None)
    if path is not None:
        whole = path[-1] in ("list_id", "cap", "format")
        advice = (
            "must be a whole number, without a point" if whole else "holds a number with a point: write it as a text"
        )
        raise _invalid(".".join(path), advice)


def _floats(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Where numbers with a point stand. What lies deeper than any rule is refused for its shape."""
    if len(path) > _DEEPEST:
        return
    if isinstance(value, float | Decimal):
        yield path
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _floats(part, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _floats(part, (*path, str(index)))


def _explained(fault: pydantic.ValidationError) -> RuleInvalid:
    """The first fault as a sentence; an unknown field first, since a typing error there explains a missing one."""
    faults = fault.errors(include_url=False, include_input=False)
    first = min(faults, key=lambda one: one["type"] != "extra_forbidden")
    path = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        return _unknown_field(path)
    if first["type"] == "literal_error":
        return _invalid(path, f"must be {first['ctx']['expected'].replace(chr(39), '')}")
    return _invalid(path, _TYPE_ADVICE.get(first["type"], "has a value of the wrong kind: correct it"))


def _unknown_field(path: str) -> RuleInvalid:
    name = path.rpartition(".")[2]
    known = list(_FieldShape.model_fields if "." in path else _RuleShape.model_fields)
    nearest = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}."
    return RuleInvalid(f"A rule has no field {name[:NAME_SHOWN]!r}: {advice}", field=path)


def _check_stream(rule: Rule) -> None:
    if rule.list_id is not None and not 1 <= rule.list_id <= keys.INT_LIMIT:
        raise _invalid("list_id", "must be the positive number of a list at the destination")
    if rule.stream is Stream.CUSTOMERS:
        _check_customers(rule)
    elif rule.list_id is not None:
        raise _invalid("list_id", "is for customers only: an orders sync puts nobody on a list, so leave it out")


def _check_customers(rule: Rule) -> None:
    if rule.list_id is None:
        raise _invalid("list_id", "is missing: choose the list at the destination that the contacts go to")
    for name in ("events", "history_events", "include_test_orders"):
        if getattr(rule, name):
            raise _invalid(name, "can be set for orders only: leave it out of a customers sync")


def _check_budget(rule: Rule) -> None:
    for name in ("ratio", "cap"):
        if rule.on_rejected == limits.STOP and getattr(rule, name) is not None:
            raise _invalid(name, "has no effect with stop: leave it out, or choose set_aside")
    if rule.cap is not None and not 0 <= rule.cap <= keys.INT_LIMIT:
        raise _invalid("cap", "must be zero or more")


_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


def _check_mapping(rule: Rule) -> None:
    seen: set[str] = set()
    reserved = CONTACT_RESERVED if rule.stream is Stream.CUSTOMERS else ORDER_RESERVED
    for index, field in enumerate(rule.mapping):
        path, name = f"mapping.{index}", field.to.casefold()
        if not _NAME.fullmatch(field.to) or len(field.to) > NAME_LIMIT:
            raise _invalid(f"{path}.to", f"must be 1 to {NAME_LIMIT} letters, digits, hyphens or underscores")
        if name in reserved:
            raise _invalid(f"{path}.to", f"is {field.to}, which only the connector itself may write: choose another")
        if name in seen:
            raise _invalid(f"{path}.to", f"is {field.to}, which another field fills already: leave one out")
        seen.add(name)
        check_expression(field.source, f"{path}.source")


def _check_filter(rule: Rule) -> None:
    if rule.filter is not None:
        check_expression(rule.filter, "filter")


def check_expression(text: str, path: str) -> None:
    """Raises RuleInvalid for what is no JMESPath expression or calls a function wrongly; ``path`` names the field."""
    try:
        expression.check(text)
    except expression.ExpressionInvalid as fault:
        raise _invalid(path, str(fault)) from None


def document(rule: Rule) -> dict[str, Any]:
    """The rule as plain JSON, every default written out. ``parse(document(rule)) == rule``."""
    return {
        "format": rule.format,
        "stream": str(rule.stream),
        "list_id": rule.list_id,
        "mapping": [{"to": field.to, "source": field.source, "kind": field.kind} for field in rule.mapping],
        "filter": rule.filter,
        "consent": rule.consent,
        "refuse_data_sale_opt_out": rule.refuse_data_sale_opt_out,
        "on_rejected": rule.on_rejected,
        "ratio": rule.ratio,
        "cap": rule.cap,
        "events": list(rule.events),
        "history_events": rule.history_events,
        "include_test_orders": rule.include_test_orders,
    }


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """What a publication binds of a connection: kind, the vendor's id of the account, granted scopes (any order)."""

    kind: str
    account: str
    scopes: tuple[str, ...] = ()


_METHOD_1_FIELDS: Final = (
    "format",
    "stream",
    "list_id",
    "filter",
    "consent",
    "refuse_data_sale_opt_out",
    "on_rejected",
    "ratio",
    "cap",
    "events",
    "history_events",
    "include_test_orders",
)
"""Frozen: a field that a release adds belongs to another method, so an old digest keeps its meaning (PRODUCT 6.2)."""


def publication_digest(rule: Rule, source: ConnectionFacts, destination: ConnectionFacts) -> str:
    """The digest (hex, method 1) of exactly this rule with exactly these connections (PRODUCT 6.2).

    The order of mapped fields, of scopes and of keys does not matter; nothing of the schedule is in it.
    """
    plain = document(rule)
    content = {name: plain[name] for name in _METHOD_1_FIELDS}
    content["mapping"] = sorted(plain["mapping"], key=lambda field: str(field["to"]).casefold())
    connections = {"source": _facts(source), "destination": _facts(destination)}
    return keys.digest({"method": 1, "rule": content, **connections})


def _facts(connection: ConnectionFacts) -> dict[str, Any]:
    return {"kind": connection.kind, "account": connection.account, "scopes": sorted(set(connection.scopes))}


def target(rule: Rule, destination: ConnectionFacts) -> str:
    """What the rule writes to, as one stable text: "brevo:4711:list:7" or "brevo:4711:orders" (PRODUCT 2.7)."""
    place = "orders" if rule.list_id is None else f"list:{rule.list_id}"
    return f"{destination.kind}:{destination.account}:{place}"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of two rules: ``field`` ("filter", "mapping LASTNAME"), its plain JSON before and after."""

    field: str
    before: Any
    after: Any


def changes(old: Rule, new: Rule) -> list[Change]:
    """What differs, field by field, in the order of the document. Mapped fields are compared by target."""
    before, after = _comparable(old), _comparable(new)
    names = [*before, *(name for name in after if name not in before)]
    pairs = [Change(name, before.get(name), after.get(name)) for name in names]
    return [pair for pair in pairs if pair.before != pair.after]


def _comparable(rule: Rule) -> dict[str, Any]:
    plain = document(rule)
    fields = plain.pop("mapping")
    return plain | {f"mapping {field['to']}": {"source": field["source"], "kind": field["kind"]} for field in fields}
