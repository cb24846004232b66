"""Named points where a test may end the program, to prove that nothing is lost or doubled there (PRODUCT 10.3).

In production `here` is one comparison against an empty frozenset. Points are armed through the environment of a child
process (``VIGIL_CRASH=name`` or ``name:3`` for the third time), never at run time.
"""

import os
from typing import Final

POINTS: Final = frozenset(
    {
        "after_acquire",
        "before_claim",
        "after_claim",
        "before_call",
        "after_call",
        "after_settle",
        "before_move",
        "in_move",
        "after_move",
        "before_finish",
        "in_finish",
        "between_state_and_finding",
        "between_slices",
        "while_renewing",
    }
)
EXIT_CODE: Final = 137

_name, _, _times = os.environ.get("VIGIL_CRASH", "").partition(":")
_armed = frozenset({_name} & POINTS)
_left = int(_times or 1)


def here(point: str) -> None:
    """End the process at once if ``point`` is armed and has been passed often enough."""
    global _left
    if point not in _armed:
        return
    _left -= 1
    if _left <= 0:
        os._exit(EXIT_CODE)
