"""The way through the admin: only what whoever asks may see (PRODUCT 10.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from syncs.admin import labels

ICONS: Final[Mapping[str, str]] = {
    "workspace": "storefront",
    "membership": "group",
    "connection": "cable",
    "sync": "sync",
    "version": "verified",
    "preview": "preview",
    "schedule": "schedule",
    "run": "play_circle",
    "attempt": "replay",
    "occurrence": "event",
    "cursor": "my_location",
    "lease": "lock",
    "coverage": "date_range",
    "delivery": "outbox",
    "tombstone": "bookmark",
    "suppression": "person_off",
    "objection": "back_hand",
    "finding": "flag",
    "auditentry": "history",
    "beat": "monitor_heart",
}
GROUPS: Final[Sequence[tuple[Any, tuple[str, ...]]]] = (
    (_("Merchants"), ("workspace", "membership", "connection")),
    (_("Syncs"), ("sync", "version", "preview", "schedule")),
    (_("Runs"), ("run", "attempt", "occurrence", "cursor", "lease", "coverage", "beat")),
    (_("Ledger"), ("delivery", "tombstone", "suppression", "objection")),
    (_("Findings and log"), ("finding", "auditentry")),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Groups of links for the sidebar. What may not be seen is not linked, and an empty group is left out."""
    watch = {"title": _("Watch"), "icon": "visibility", "link": reverse("admin:index")}
    groups = [{"title": "", "items": [watch]}]
    for title, tables in GROUPS:
        items = [_link(table) for table in tables if request.user.has_perm(f"syncs.view_{table}")]
        groups += [{"title": title, "items": items}] if items else []
    people = [_person(name) for name in ("user", "group") if request.user.has_perm(f"auth.view_{name}")]
    return [*groups, {"title": _("Staff and people"), "items": people}] if people else groups


def _link(table: str) -> dict[str, Any]:
    title = str(labels.TABLES[table][1])
    link = reverse(f"admin:syncs_{table}_changelist")
    return {"title": title[:1].upper() + title[1:], "icon": ICONS[table], "link": link}


def _person(name: str) -> dict[str, Any]:
    title = {"user": _("People"), "group": _("Groups")}[name]
    return {"title": title, "icon": "person", "link": reverse(f"admin:auth_{name}_changelist")}


def style(request: HttpRequest) -> str:
    """Our own style, beside the theme's."""
    return static("vigil-admin.css")


def mark(request: HttpRequest) -> str:
    return static("vigil.svg")
