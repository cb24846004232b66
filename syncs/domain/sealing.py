"""Secrets at rest: AES-256-GCM under rotating keys, bound to the row they belong to (PRODUCT 10.2).

A sealed value is ``nonce || ciphertext``; the key's id is stored beside it. The binding (which table, row and
workspace) is authenticated with it, so that a value copied to another row does not open. Opening with a wrong key, a
missing key or a changed binding raises `SealBroken`: it never returns the ciphertext or nothing.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12
KEY_BYTES = 32


class SealBroken(ValueError):
    """A sealed value does not open here. The sentence says which key is missing or that the row was changed."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """Keys by id; the first one seals, all of them open."""

    keys: Mapping[str, bytes]

    @property
    def current(self) -> str:
        return next(iter(self.keys))


def keyring(text: str) -> Keyring:
    """Read ``id:hex,id:hex``, newest first. Raises ValueError with what to do."""
    keys: dict[str, bytes] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, digits = part.partition(":")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        if not name or len(key) != KEY_BYTES:
            raise ValueError("VIGIL_CREDENTIAL_KEYS holds a key that is not 'id:64 hexadecimal digits'.")
        keys[name] = key
    if not keys:
        raise ValueError("VIGIL_CREDENTIAL_KEYS is empty: set at least one 'id:64 hexadecimal digits'.")
    return Keyring(keys)


def seal(ring: Keyring, secret: Mapping[str, str], binding: str) -> tuple[str, bytes]:
    """``(key id, sealed bytes)`` for ``secret``, bound to ``binding``."""
    nonce = os.urandom(NONCE_BYTES)
    plain = json.dumps(dict(secret), sort_keys=True).encode()
    return ring.current, nonce + AESGCM(ring.keys[ring.current]).encrypt(nonce, plain, binding.encode())


def unseal(ring: Keyring, key_id: str, sealed: bytes, binding: str) -> dict[str, str]:
    """The secret behind ``sealed``. Raises SealBroken."""
    key = ring.keys.get(key_id)
    if key is None:
        raise SealBroken(
            f"The key '{key_id}' that sealed this credential is not in VIGIL_CREDENTIAL_KEYS: add it back."
        )
    try:
        plain = AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], binding.encode())
    except InvalidTag:
        raise SealBroken(
            f"The stored credential does not open with the key '{key_id}': the key or the row was changed. "
            "Enter it again."
        ) from None
    opened: dict[str, str] = json.loads(plain)
    return opened
