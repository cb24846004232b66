"""The merchant's pages: thin shells over `queries` and `services` (UX, section 2).

A GET changes nothing. A POST calls one service, which checks the role; what it refuses is told in one sentence. What a
person may not know of is a 404, whether it exists or not (PRODUCT 10.1).
"""

from syncs.views.acts import pause, run_now
from syncs.views.drafts import draft, preview, previews, publish
from syncs.views.faults import broken, not_allowed, not_found
from syncs.views.pages import index, run, sync, workspace

__all__ = [
    "broken",
    "draft",
    "index",
    "not_allowed",
    "not_found",
    "pause",
    "preview",
    "previews",
    "publish",
    "run",
    "run_now",
    "sync",
    "workspace",
]
