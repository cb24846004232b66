"""The door for reads: what pages, the admin and commands show, as frozen values; nothing here changes anything.

What a person may not know of does not exist for them: a stranger's workspace, sync or run is `NotFound` (PRODUCT 10.1).
"""

from syncs.queries.access import (
    Place,
    now,
    place_of_sync,
    preview_for,
    run_for,
    sync_for,
    workspace_for,
    workspaces_for,
)
from syncs.queries.home import Home, Line, home
from syncs.queries.previews import PreviewPage, preview_page, published_since_preview
from syncs.queries.runs import Counters, Part, Reason, RunPage, RunRow, run_page
from syncs.queries.standing import Banner, Facts, headline
from syncs.queries.sync import SyncPage, sync_page

__all__ = [
    "Banner",
    "Counters",
    "Facts",
    "Home",
    "Line",
    "Part",
    "Place",
    "PreviewPage",
    "Reason",
    "RunPage",
    "RunRow",
    "SyncPage",
    "headline",
    "home",
    "now",
    "place_of_sync",
    "preview_for",
    "preview_page",
    "published_since_preview",
    "run_for",
    "run_page",
    "sync_for",
    "sync_page",
    "workspace_for",
    "workspaces_for",
]
