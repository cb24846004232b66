"""How Shopify's search reads a `query:` string, its silent mis-readings included.

What is not understood is not refused: an unknown field is ignored and everything comes back, an unquoted time is cut at
its first colon and read in the shop's zone, `>` acts like `>=`. The only trace is a warning beside the answer.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from connectors.sandbox.shop import Node, Nodes, Row

FieldKind = Literal["time", "number", "email", "name", "tag", "state"]
Grammar = Mapping[str, FieldKind]

CUSTOMERS: Grammar = {
    "id": "number", "updated_at": "time", "created_at": "time", "email": "email", "tag": "tag", "state": "state",
}  # fmt: skip
ORDERS: Grammar = {
    "id": "number", "updated_at": "time", "created_at": "time", "processed_at": "time", "email": "email",
    "name": "name", "tag": "tag", "customer_id": "number",
}  # fmt: skip
# The schema text of customersCount: "created_at, id, updated_at", nothing else.
CUSTOMERS_COUNT: Grammar = {"id": "number", "updated_at": "time", "created_at": "time"}

_TOKEN = re.compile(
    r"""\s*(?: (?P<word>AND|OR)(?=[\s()]|$)
             | (?P<paren>[()])
             | (?P<field>[A-Za-z0-9_.\-]+):(?P<sign>>=|<=|>|<)?(?P<value>'[^']*'|"[^"]*"|[^\s:()]*)
             | :?(?P<bare>[^\s()]+) )""",
    re.VERBOSE,
)
_CUT_OFF = re.compile(r":(\d\d):(\S+)")
_HAS_OFFSET = re.compile(r"(?:Z|[+-]\d\d:?\d\d)\Z")
_LOCAL_FORMS = ("%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H", "%Y-%m-%d", "%Y")
_RANGES = {">=": "range_gte", ">": "range_gte", "<=": "range_lte", "<": "range_lte"}

_DAY = timedelta(days=1)
_FOREVER = 2**62


class EmptyValue(Exception):
    """`updated_at:>` without a value, which the vendor answers with an internal error."""


@dataclass(frozen=True, slots=True)
class Term:
    field: str
    sign: str
    value: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Group:
    word: Literal["and", "or"]
    members: tuple["Term | Group", ...]


Test = Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class Search:
    """One read filter: what it lets through, and what the vendor would say about it."""

    text: str
    matches: Test
    bounds: Mapping[str, tuple[int, int]]
    parsed: Mapping[str, Any] | None
    warnings: tuple[Mapping[str, str], ...]


EVERYTHING = Search("", lambda row: True, {}, None, ())


def read(text: str | None, grammar: Grammar, zone: ZoneInfo, nodes: Nodes, counting: bool = False) -> Search:
    """The filter as the vendor understands it; raises EmptyValue. `counting`: bare words are refused with a warning."""
    if text is None or not text.strip():
        return EVERYTHING
    tree, _ = _read_any(_tokens(text), 0)
    reader = _Reader(grammar, zone, nodes, counting)
    parsed, test = reader.group(tree)
    return Search(text, test or EVERYTHING.matches, _bounds(tree, reader), parsed, tuple(reader.warnings))


# -- text -> tree ------------------------------------------------------------------------------------------------------


def _tokens(text: str) -> list[Term | str]:
    tokens: list[Term | str] = []
    position = 0
    while found := _TOKEN.match(text, position):
        position = found.end()
        if plain := found["word"] or found["paren"]:
            tokens.append(plain)
        elif found["field"]:
            position = _add_field(tokens, found, text)
        else:
            tokens.append(Term("default", "", found["bare"].strip("'\""), False))
    return tokens


def _add_field(tokens: list[Term | str], found: re.Match[str], text: str) -> int:
    value, sign = found["value"], found["sign"] or ""
    if not value:
        raise EmptyValue
    quoted = value[0] in "'\""
    tokens.append(Term(found["field"], sign, value[1:-1] if quoted else value, quoted))
    cut_off = None if quoted else _CUT_OFF.match(text, found.end())
    if cut_off is None:
        return found.end()
    tokens.append(Term(cut_off[1], "", cut_off[2], False))
    return cut_off.end()


def _read_any(tokens: list[Term | str], at: int) -> tuple[Term | Group, int]:
    """OR binds weaker than AND; two terms without a word between them are joined by AND."""
    branches: list[Term | Group] = []
    while True:
        branch, at = _read_all(tokens, at)
        branches.append(branch)
        if at >= len(tokens) or tokens[at] != "OR":
            return (branches[0] if len(branches) == 1 else Group("or", tuple(branches))), at
        at += 1


def _read_all(tokens: list[Term | str], at: int) -> tuple[Term | Group, int]:
    members: list[Term | Group] = []
    while at < len(tokens) and tokens[at] not in ("OR", ")"):
        found = tokens[at]
        at += 1
        if isinstance(found, Term):
            members.append(found)
        elif found == "(":
            inner, at = _read_any(tokens, at)
            members.append(inner)
            at += at < len(tokens) and tokens[at] == ")"
    return (members[0] if len(members) == 1 else Group("and", tuple(members))), at


# -- tree -> test ------------------------------------------------------------------------------------------------------


class _Reader:
    """Turns terms into tests over rows and collects the warnings on the way."""

    def __init__(self, grammar: Grammar, zone: ZoneInfo, nodes: Nodes, counting: bool) -> None:
        self.grammar, self.zone, self.nodes, self.counting = grammar, zone, nodes, counting
        self.warnings: list[dict[str, str]] = []

    def group(self, tree: Term | Group) -> tuple[Mapping[str, Any], Test | None]:
        """What was understood, and its test; no test where everything in it is ignored."""
        if isinstance(tree, Term):
            return self.term(tree)
        read_members = [self.group(member) for member in tree.members]
        tests = [test for _, test in read_members if test is not None]
        parsed: dict[str, Any] = {str(tree.word): [parsed for parsed, _ in read_members]}
        if not tests:
            return parsed, None
        join = all if tree.word == "and" else any
        return parsed, lambda row: join(test(row) for test in tests)

    def term(self, term: Term) -> tuple[Mapping[str, Any], Test | None]:
        kind = self.grammar.get(term.field)
        if term.field == "default":
            return {"field": "default", "match_all": term.value}, self._words(term)
        if kind is None:
            self._warn(term.field, "Invalid search field for this query.", "invalid_field")
            return self._parsed(term, term.value), None
        if kind == "time":
            return self._time(term)
        if kind == "number":
            return self._parsed(term, term.value), self._number(term)
        return self._parsed(term, term.value), self._text(term, kind)

    def _parsed(self, term: Term, value: str) -> Mapping[str, Any]:
        plain = "match_phrase" if term.quoted else "match_all"
        return {"field": term.field, _RANGES.get(term.sign, plain): value}

    def _warn(self, name: str, message: str, code: str) -> None:
        self.warnings.append({"field": name, "message": message, "code": code})

    def _time(self, term: Term) -> tuple[Mapping[str, Any], Test | None]:
        found = span(term, self.zone)
        if found is None:
            self._warn(term.field, "Invalid value for this search field.", "invalid_value")
            return self._parsed(term, term.value), None
        low, high = found
        time_of = operator.attrgetter(term.field)
        return self._parsed(term, _shown(term, self.zone)), lambda row: low <= time_of(row) <= high

    def _number(self, term: Term) -> Test | None:
        if not term.value.isascii() or not term.value.isdigit():
            self._warn(term.field, "Invalid value for this search field.", "invalid_value")
            return None
        wanted = int(term.value)
        of: Callable[[Row], int | None] = operator.attrgetter("customer" if term.field == "customer_id" else "number")
        range_name = _RANGES.get(term.sign)
        if range_name is None:
            return lambda row: of(row) == wanted
        strict = term.sign in "<>"
        if range_name == "range_gte":
            return lambda row: (of(row) or 0) >= wanted + strict
        return lambda row: (of(row) or 0) <= wanted - strict

    def _text(self, term: Term, kind: FieldKind) -> Test:
        wanted = term.value.lower()
        if kind == "email":
            return lambda row: row.email == wanted
        if kind == "tag":
            return self._node_test(lambda node: wanted in (tag.lower() for tag in node["tags"]))
        return self._node_test(lambda node: str(node.get(kind, "")).lower() == wanted)

    def _words(self, term: Term) -> Test | None:
        if self.counting:
            self._warn("default", "A named search field is required for this query.", "missing_named_field")
            return None
        wanted = term.value.lower()
        keys = ("displayName", "name")
        return self._node_test(
            lambda node: wanted in " ".join(str(node.get(key) or "") for key in keys).lower(), or_email=wanted
        )

    def _node_test(self, accepts: Callable[[Node], bool], or_email: str | None = None) -> Test:
        def test(row: Row) -> bool:
            if or_email is not None and row.email is not None and or_email in row.email:
                return True
            node = self.nodes.node(row.number)
            return node is not None and accepts(node)

        return test


def span(term: Term, zone: ZoneInfo) -> tuple[int, int] | None:
    """First and last millisecond a time term lets through; a comparator includes its own edge, always."""
    start = _instant(term, zone)
    if start is None:
        return None
    range_name = _RANGES.get(term.sign)
    if range_name == "range_gte":
        return _ms(start), _FOREVER
    if range_name == "range_lte":
        return -_FOREVER, _ms(start)
    midnight = start.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return _ms(midnight), _ms(midnight + _DAY) - 1


def _instant(term: Term, zone: ZoneInfo) -> datetime | None:
    if term.quoted and _HAS_OFFSET.search(term.value):
        try:
            return datetime.fromisoformat(term.value)
        except ValueError:
            return None
    for form in _LOCAL_FORMS:
        try:
            return datetime.strptime(term.value, form).replace(tzinfo=zone)
        except ValueError:
            continue
    return None


def _shown(term: Term, zone: ZoneInfo) -> str:
    if term.quoted and _HAS_OFFSET.search(term.value):
        return term.value
    instant = _instant(term, zone)
    return instant.isoformat() if instant and "T" in term.value else term.value


def _ms(when: datetime) -> int:
    return round(when.timestamp() * 1000)


def _bounds(tree: Term | Group, reader: _Reader) -> dict[str, tuple[int, int]]:
    """The stretch of each time field outside which nothing can match, so that a window is found without a scan."""
    members = tree.members if isinstance(tree, Group) and tree.word == "and" else (tree,)
    bounds: dict[str, tuple[int, int]] = {}
    for term in members:
        if not isinstance(term, Term) or reader.grammar.get(term.field) != "time":
            continue
        found = span(term, reader.zone)
        if found:
            low, high = bounds.get(term.field, (-_FOREVER, _FOREVER))
            bounds[term.field] = (max(low, found[0]), min(high, found[1]))
    return bounds


def offset_minutes(zone: ZoneInfo, day: date) -> int:
    """Minutes east of UTC at noon of `day`."""
    offset = datetime(day.year, day.month, day.day, 12, tzinfo=zone).utcoffset()
    return int((offset or timedelta()).total_seconds() // 60)
