"""What every page's template may ask for beyond what its view gives it."""

from typing import Final
from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest

WORKSPACES: Final = "/w/"
"""All pages of workspaces are below this address."""


def came_from(request: HttpRequest) -> dict[str, str]:
    """``came_from``: the address of the workspace's page that the person came from, "" when it is not known.

    Never one of another site, and never the very page that turned them away.
    """
    try:
        before = urlsplit(request.META.get("HTTP_REFERER", ""))
        is_ours = before.netloc == request.get_host() and before.path.startswith(WORKSPACES)
    except (ValueError, DisallowedHost):
        # The very page that refuses a host is rendered with this.
        return {"came_from": ""}
    turned_away = request.method in ("GET", "HEAD") and before.path == request.path
    if not is_ours or turned_away:
        return {"came_from": ""}
    return {"came_from": f"{before.path}?{before.query}" if before.query else before.path}
