"""How many rejected records a run may set aside, and when rejections are not the records' fault (PRODUCT 4.2, 4.4)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

STOP: Final = "stop"
SET_ASIDE: Final = "set_aside"

ALIKE: Final = 5
"""Records of one page, refused for one reason and none landed, that make it an error of the run."""


@dataclass(frozen=True, slots=True)
class RejectBudget:
    """What a rule allows: ``policy`` stop or set_aside; ``ratio`` (decimal text) and ``cap`` bound set_aside."""

    policy: str
    ratio: str | None = None
    cap: int | None = None

    def allows(self, rejected: int, total: int) -> bool:
        """Whether ``rejected`` of ``total`` records may be set aside. A started part of a record counts as one.

        With the most records there can be as ``total``, False says that the budget is certainly exceeded: fail fast.
        """
        return rejected <= self.most(total)

    def most(self, total: int) -> int:
        """The most records that may be set aside of ``total``."""
        if self.policy != SET_ASIDE or self.ratio is None or self.cap is None:
            return 0
        return min(self.cap, math.ceil(Decimal(self.ratio) * total))


def alike(codes: Sequence[str], *, landed: int = 0) -> str | None:
    """The code that five or more records of a page were rejected with while nothing landed, None otherwise.

    ``codes`` are the reasons of the page's rejected records, ``landed`` how many of its records were taken. It is then
    the list, the mapping or the account that is wrong, and no record is named bad for it (Case DELIV-05).
    """
    if landed or len(codes) < ALIKE:
        return None
    code, times = Counter(codes).most_common(1)[0]
    return code if times >= ALIKE else None
