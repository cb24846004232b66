"""Canonical text, and the keys and digests made of it (PRODUCT 2.1, 2.2).

Canonical is RFC 8785 with two rules of our own. A binary float is refused: its text is not the source's text. A
`Decimal` is written as its own text, so 1.0 stays 1.0 and is another value than 1. Nothing here holds personal data in
the clear once it has become a key.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from connectors.protocol import EffectKind
from syncs.domain import consent

INT_LIMIT = 2**53 - 1
"""The largest integer that every JSON reader keeps exact. Larger numbers travel as text or Decimal."""

_BEYOND_BMP = "\ud800"
"""From here on, UTF-16 order and code point order differ."""


class NotCanonical(ValueError):
    """The value has no canonical text. The message names the kind of fault, never the value."""


def canonical(value: Any) -> bytes:
    """The one UTF-8 text of ``value``: None, bool, int, Decimal, str, list, tuple, mapping with str keys.

    Equal content gives equal bytes whatever the order of keys. Raises NotCanonical.
    """
    try:
        text = _dump(value) if _is_plain(value) else _spell(value)
        return text.encode()
    except UnicodeEncodeError:
        raise NotCanonical("A text holds half of a surrogate pair.") from None
    except RecursionError:
        raise NotCanonical("The value is nested too deeply.") from None


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_dump = _ENCODER.encode


def _is_plain(value: Any) -> bool:
    """Whether the standard encoder alone writes ``value`` canonically. Raises NotCanonical for what has no text."""
    if isinstance(value, dict):
        plain = _have_plain_order(value)
        return _are_plain(value.values()) and plain
    if isinstance(value, list | tuple):
        return _are_plain(value)
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, int):
        return _is_exact(value)
    if isinstance(value, Decimal):
        return _is_finite(value) and False
    if isinstance(value, Mapping):
        return _is_plain(dict(value)) and False
    if isinstance(value, float):
        raise NotCanonical("A binary float has no exact text: use a decimal or a text.")
    raise NotCanonical(f"A {type(value).__name__} is no JSON value.")


def _are_plain(parts: Iterable[Any]) -> bool:
    """Every part is looked at, also behind one that is not plain. Most are texts, and are passed at a glance."""
    plain = True
    for part in parts:
        if type(part) is not str and part is not None:
            plain = _is_plain(part) and plain
    return plain


def _is_exact(value: int) -> bool:
    if -INT_LIMIT <= value <= INT_LIMIT:
        return True
    raise NotCanonical("An integer is beyond 2^53 - 1: use a decimal or a text.")


def _is_finite(value: Decimal) -> bool:
    if value.is_finite():
        return True
    raise NotCanonical("A number is not finite.")


def _have_plain_order(keys: Mapping[Any, Any]) -> bool:
    """Whether sorting by code point is sorting by UTF-16 unit. Raises NotCanonical for a key that is no text."""
    for key in keys:
        if not isinstance(key, str):
            raise NotCanonical("A key is no text.")
    return all(key.isascii() or max(key) < _BEYOND_BMP for key in keys)


def _spell(value: Any) -> str:
    """The canonical text of an already checked value, part by part: for Decimals and keys beyond the BMP."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_spell, value))}]"
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: str(key).encode("utf-16-be"))
        return "{" + ",".join(f"{_dump(key)}:{_spell(value[key])}" for key in keys) + "}"
    return _dump(value)


def digest(value: Any) -> str:
    """SHA-256 (hex) over the canonical text. Raises NotCanonical."""
    return hashlib.sha256(canonical(value)).hexdigest()


def delivery_key(*, sync_id: int, source: str, after: str | None, position: int, fields: Mapping[str, Any]) -> str:
    """Names this reading of a record: hex, equal for every retry of the same read (PRODUCT 2.1).

    ``after`` None is the first page and another place than "" (Case READ-15). Raises NotCanonical.
    """
    reading = {"sync": sync_id, "source": source, "after": after, "position": position, "record": fields}
    return digest(reading)


def effect_key(
    secret: bytes, *, sync_id: int, target: str, kind: EffectKind, natural_id: str, seq: int, payload_digest: str
) -> str:
    """Names one effect at the destination: hex HMAC-SHA256, the same after a crash (PRODUCT 2.2).

    ``seq`` is the number the tombstone gets when the effect is settled, its present one plus one: it makes A, B, A
    three keys. The parts are one canonical list, so no two lists of parts share a text.
    """
    return _sign(secret, ["effect", sync_id, target, str(kind), natural_id, seq, payload_digest])


@lru_cache(maxsize=4096)
def address_key(secret: bytes, address: str) -> str:
    """The address as a keyed hash (hex): for the suppression store and for finding a person (PRODUCT 3.7, 9.2).

    Every spelling of one address gives one key; what is no address is hashed trimmed and in lower case.
    """
    comparable = consent.normalise_address(address).comparable or address.strip().lower()
    return _sign(secret, ["address", comparable])


def _sign(secret: bytes, parts: list[Any]) -> str:
    return hmac.digest(secret, canonical(parts), "sha256").hex()
