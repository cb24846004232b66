"""Requests and answers of the sandbox Brevo, and how strictly it reads a body."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multidict import MultiMapping

from connectors.sandbox.brevo_state import Json, instant

# What Brevo cannot take: a local part that is not ASCII, quoted or over 64 characters; a domain that is not punycode.
_EMAIL = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+\Z"
)
_MAX_LOCAL_PART = 64
_LEAST_DIGITS = 6
_MOST_DIGITS = 19


class Refused(Exception):
    """An answer the vendor gives instead of doing what was asked."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"code": code, "message": message, **more}


class RefusedBatch(Refused):
    """A refused list of events, which has a body of its own."""

    def __init__(self, body: Json) -> None:
        super().__init__(400, "invalid_parameter", "No event of the batch was accepted")
        self.body = body


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: what stands in its path, its query and its body."""

    place: str
    path: Mapping[str, str]
    query: MultiMapping[str]
    content: bytes = field(repr=False)

    def json(self) -> Any:
        try:
            return json.loads(self.content, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise Refused(400, "bad_request", "Input must be a valid JSON object") from None

    def object(self) -> Json:
        body = self.json()
        if not isinstance(body, dict):
            raise Refused(400, "bad_request", "Input must be a valid JSON object")
        return body

    def whole(self, name: str, default: int, most: int | None = None) -> int:
        """A whole number of the query, from 0 to `most`."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit():
            raise invalid(f"{name} should be a number")
        if most is not None and int(text) > most:
            raise Refused(400, "out_of_range", f"{name} exceeds max value")
        return int(text)

    def values(self, name: str) -> list[str]:
        """Every value of a repeated or comma-separated parameter."""
        return [part for text in self.query.getall(name, []) for part in text.split(",") if part]

    def numbers(self, name: str) -> list[int]:
        texts = self.values(name)
        if not all(text.isascii() and text.isdigit() for text in texts):
            raise invalid(f"{name} should be numbers")
        return [int(text) for text in texts]

    def since(self, name: str) -> str | None:
        """A time of the query in the state's form."""
        text = self.query.get(name)
        if text is None:
            return None
        # A plus sign that nobody encoded arrives as a blank.
        when = instant(text.replace(" ", "+"))
        if when is None:
            raise invalid(f"{name} is not a valid date-time")
        return when

    def descending(self) -> bool:
        sort = self.query.get("sort", "desc")
        if sort not in ("asc", "desc"):
            raise invalid("sort should be asc or desc")
        return sort == "desc"


def _no_constant(name: str) -> float:
    raise ValueError(name)


def invalid(message: str) -> Refused:
    return Refused(400, "invalid_parameter", message)


def missing(name: str) -> Refused:
    return Refused(400, "missing_parameter", f"{name} is missing")


def not_found(message: str) -> Refused:
    return Refused(404, "document_not_found", message)


def typed(body: Json, name: str, kind: type) -> Any:
    """The value under `name`, None when it is absent; refused when it has another type (true is no number)."""
    value = body.get(name)
    if value is None and name not in body:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise invalid(f"{name} is invalid")
    return value


def whole_numbers(body: Json, name: str) -> list[int]:
    """The list of whole numbers under `name`; empty when it is absent."""
    values = typed(body, name, list) or []
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise invalid(f"{name} should be a list of numbers")
    return list(values)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def email_key(address: str) -> str | None:
    """The address as it is kept (lower case), or None when Brevo cannot take it."""
    if len(address.partition("@")[0]) > _MAX_LOCAL_PART or not _EMAIL.match(address):
        return None
    return address.lower()


def phone_key(number: object) -> str | None:
    """Digits with the country code and without a plus sign, or None when it is no number."""
    text = re.sub(r"[\s().-]", "", str(number)) if isinstance(number, str | int) else ""
    digits = text[1:] if text.startswith("+") else text[2:] if text.startswith("00") else text
    fits = digits.isascii() and digits.isdigit() and _LEAST_DIGITS <= len(digits) <= _MOST_DIGITS
    return digits if fits else None
