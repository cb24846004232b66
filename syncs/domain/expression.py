"""Expressions of a rule: JMESPath, checked before it is saved, and worked out within a budget (PRODUCT 10.4).

An expression is an editor's, a record is a stranger's, and one worker carries many shops. A few dozen characters can
ask for more than a machine has, by doubling what they were given again and again; so every record has a budget that
pays for each step, for what is made and for what is looked through, and ends when it is spent.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import jmespath
from jmespath import exceptions, functions, visitor

LENGTH_LIMIT: Final = 1000
"""Characters of one expression."""

BUDGET: Final = 20_000
"""Steps, values made and values looked through, of all expressions of a rule over one record; a text counts once for
each `TEXT_UNIT` characters. Spent to the end it is some hundredths of a second of the worker's time."""

TEXT_UNIT: Final = 16

SHOWN: Final = 40
"""Characters of a person's own text that a sentence quotes."""

UNCOMPUTABLE: Final = (
    exceptions.JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError, AttributeError,
)  # fmt: skip
"""What an expression raises over a record of another shape than it was written for, or that it would take too far."""


class ExpressionInvalid(ValueError):
    """No expression that can be worked out; its text says what to do, and fits behind the name of a field."""


class TooMuch(exceptions.JMESPathError):
    """The expressions over a record have spent its budget."""


class Expression:
    """A JMESPath expression made ready. Immutable; the same one serves every record."""

    __slots__ = ("_field", "_node", "plain", "text")

    def __init__(self, text: str) -> None:
        """Raises what the library raises; `check` first."""
        self.text = text
        self._node = jmespath.compile(text).parsed
        self.plain = self._node["type"] == "field"
        self._field = self._node["value"] if self.plain else None

    def value(self, fields: Any, meter: "Meter | None") -> Any:
        """What it comes to for one record. Raises one of `UNCOMPUTABLE`. A ``plain`` one, a field, needs no meter."""
        if self._field is not None and isinstance(fields, dict):
            return fields.get(self._field)
        return (meter or Meter()).visit(self._node, fields)


class Meter(visitor.TreeInterpreter):
    """The library's interpreter with a budget. One for each record, shared by all expressions over it."""

    def __init__(self) -> None:
        super().__init__(visitor.Options(custom_functions=_Functions(self)))
        self._left = BUDGET
        self._sizes: dict[int, tuple[Any, int]] = {}

    def pay(self, units: int) -> None:
        self._left -= units
        if self._left < 0:
            raise TooMuch

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        """One step. A list or object that it made is paid for by its own length, however much it refers to."""
        self.pay(1)
        value = super().visit(node, *args, **kwargs)
        if isinstance(value, list | dict) and node["type"] not in _FINDING:
            self.pay(len(value))
        return value

    def visit_comparator(self, node: Any, value: Any) -> Any:
        """Two structures are compared through and through, also where one part of them stands in it many times."""
        left, right = (self.visit(child, value) for child in node["children"])
        self.pay(min(self.size(left), self.size(right)))
        weighed: Any = {**node, "children": [_literal(left), _literal(right)]}
        return super().visit_comparator(weighed, value)

    def size(self, value: Any) -> int:
        """What it takes to look through ``value``, in units. Each structure is measured once; what is shared counts
        wherever it stands. The object is kept beside its number: an id is its own only while the object lives."""
        if isinstance(value, str):
            return 1 + len(value) // TEXT_UNIT
        if not isinstance(value, list | dict):
            return 1
        known = self._sizes.get(id(value))
        if known is None:
            known = value, 1 + sum(self.size(part) for part in _parts(value))
            self._sizes[id(value)] = known
        return known[1]


_FINDING: Final = frozenset({"field", "current", "identity", "index", "literal", "subexpression", "pipe",
    "index_expression", "or_expression", "and_expression", "key_val_pair"})  # fmt: skip
"""Nodes that lead to a value and make none."""


def _literal(value: Any) -> dict[str, Any]:
    return {"type": "literal", "value": value, "children": []}


def _parts(value: list[Any] | dict[str, Any]) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    else:
        yield from value


class _Functions(functions.Functions):
    """The library's functions, each paid for by what it is given."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def call_function(self, function_name: str, resolved_args: Iterable[Any]) -> Any:
        arguments = list(resolved_args)
        for argument in arguments:
            self._meter.pay(self._meter.size(argument))
        if function_name == "join":
            self._pay_for_joints(*arguments[:2])
        return super().call_function(function_name, arguments)

    def _pay_for_joints(self, separator: Any, texts: Any = None) -> None:
        """A text that is short by itself may stand between a thousand others."""
        if isinstance(separator, str) and isinstance(texts, list):
            self._meter.pay(len(separator) * len(texts) // TEXT_UNIT)


def check(text: str) -> None:
    """Raises ExpressionInvalid for what is no JMESPath expression or calls a function wrongly."""
    if not text:
        raise ExpressionInvalid("is empty: write a JMESPath expression, such as firstName")
    if len(text) > LENGTH_LIMIT:
        raise ExpressionInvalid(f"is longer than {LENGTH_LIMIT} characters: shorten it")
    try:
        _check_literals(text)
        _check_calls({"type": "whole", "children": [jmespath.compile(text).parsed]})
    except exceptions.LexerError as fault:
        raise ExpressionInvalid(f"is no JMESPath expression: look at character {fault.lexer_position + 1}") from None
    except exceptions.ParseError as fault:
        raise ExpressionInvalid(f"is no JMESPath expression: {_place(fault)}") from None
    except (exceptions.JMESPathError, RecursionError):
        raise ExpressionInvalid("is no JMESPath expression that can be read: simplify it") from None


_QUOTED: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`((?:\\.|[^`\\])*)`""", re.DOTALL)


def _check_literals(text: str) -> None:
    """The library still takes what is no JSON between backticks, with a warning that it will not for ever."""
    for quoted in _QUOTED.finditer(text):
        try:
            if quoted[1] is not None:
                json.loads(quoted[1].replace("\\`", "`"))
        except ValueError:
            raise ExpressionInvalid(
                "has a value between backticks that is no JSON: write a text as 'text' and a number as `7`"
            ) from None


def _place(fault: exceptions.ParseError) -> str:
    if not fault.token_value:
        return "it ends too early"
    return f"{str(fault.token_value)[:SHOWN]!r} at character {fault.lex_position + 1} is not expected there"


def _check_calls(node: Any) -> None:
    """A wrong call would otherwise show at the first record only, and a reference to an expression is no value."""
    if not isinstance(node, dict):
        return
    parts = node.get("children", ())
    signature = _signature(node["value"], len(parts)) if node["type"] == "function_expression" else ()
    for place, part in enumerate(parts):
        wanted = signature[place]["types"] if place < len(signature) else ()
        if isinstance(part, dict) and part["type"] == "expref" and "expref" not in wanted:
            raise ExpressionInvalid("has an & where no function asks for an expression: take it away")
        _check_calls(part)


def _signature(name: str, arguments: int) -> Any:
    table: Mapping[str, Any] = functions.Functions.FUNCTION_TABLE
    if name not in table:
        nearest = difflib.get_close_matches(name, list(table), n=1)
        hint = f"did you mean {nearest[0]}" if nearest else "use a function that JMESPath has"
        raise ExpressionInvalid(f"calls {name[:SHOWN]!r}, which JMESPath does not have: {hint}")
    signature = table[name]["signature"]
    is_open = bool(signature) and bool(signature[-1].get("variadic"))
    if arguments < len(signature) or (arguments > len(signature) and not is_open):
        raise ExpressionInvalid(f"calls {name} with {arguments} arguments, and it takes {len(signature)}: correct it")
    return signature
