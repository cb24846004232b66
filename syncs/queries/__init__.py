"""The door for reads: what pages, the admin and commands show, as frozen values; nothing here changes anything.

What a person may not know of does not exist for them: a stranger's workspace, sync or run is `NotFound` (PRODUCT 10.1).
"""

from syncs.queries.access import (
    Place,
    Viewing,
    now,
    place_of_sync,
    preview_for,
    run_for,
    sync_for,
    viewing_of,
    views_as,
    workspace_for,
    workspaces_for,
)
from syncs.queries.home import Home, Line, home
from syncs.queries.listing import RunList, run_list
from syncs.queries.previews import PreviewPage, preview_page, published_since_preview
from syncs.queries.run import RunPage, run_page
from syncs.queries.runs import Counters, Part, Reason, RunRow
from syncs.queries.standing import Banner, Facts, headline
from syncs.queries.sync import SyncPage, sync_page
from syncs.queries.trace import NotSearchable, Trace

__all__ = [
    "Banner",
    "Counters",
    "Facts",
    "Home",
    "Line",
    "NotSearchable",
    "Part",
    "Place",
    "PreviewPage",
    "Reason",
    "RunList",
    "RunPage",
    "RunRow",
    "SyncPage",
    "Trace",
    "Viewing",
    "headline",
    "home",
    "now",
    "place_of_sync",
    "preview_for",
    "preview_page",
    "published_since_preview",
    "run_for",
    "run_list",
    "run_page",
    "sync_for",
    "sync_page",
    "viewing_of",
    "views_as",
    "workspace_for",
    "workspaces_for",
]
