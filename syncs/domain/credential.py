"""Whether another credential stands for the same: the same account with the same scopes (PRODUCT 6.3, 3.10)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

WRITING = "write_"
"""How the scopes begin that may do more than read."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a credential differs from what is known: another account, scopes that it lacks, scopes that it has more."""

    account: bool
    lacking: tuple[str, ...]
    more: tuple[str, ...]

    @property
    def is_none(self) -> bool:
        """Whether publications stand as they are."""
        return not (self.account or self.lacking or self.more)

    @property
    def is_enough(self) -> bool:
        """Whether it is the same account with at least the same scopes."""
        return not (self.account or self.lacking)


NONE = Difference(False, (), ())


def difference(account: str, scopes: Iterable[str], known: Mapping[str, Any]) -> Difference:
    """``account`` and ``scopes`` as answered, against ``known`` with keys of the same names.

    Where ``known`` names no account nothing was ever proved, so nothing can differ.
    """
    if not known.get("account"):
        return NONE
    given, before = set(scopes), set(known.get("scopes", ()))
    return Difference(account != known["account"], tuple(sorted(before - given)), tuple(sorted(given - before)))


def writing(scopes: Iterable[str]) -> tuple[str, ...]:
    """Those of ``scopes`` with which a source's credential could do more than read."""
    return tuple(sorted({scope for scope in scopes if scope.startswith(WRITING)}))
