"""Who did what, before -> after, why and when (UX, P9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from syncs import words
from syncs.models import AuditEntry, Workspace

SHOWN: Final = 50
CHANGES_SHOWN: Final = 12
VALUE: Final = 120
"""Characters of one value before or after."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value: what it was and what it is."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One deed."""

    id: int
    at: datetime
    who: str
    what: str
    subject: str
    reason: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person filters by; empty asks for everything. ``before``: behind which entry to go on."""

    who: str = ""
    action: str = ""
    subject: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, int] | None = None


@dataclass(frozen=True, slots=True)
class Activity:
    """A page of deeds, newest first. ``more``: where the next page begins."""

    entries: tuple[Entry, ...]
    more: str
    total_shown: int


def activity(workspace: Workspace, asked: Asked) -> Activity:
    """Fifty deeds of a workspace. One query, by its index of time, or of the subject."""
    found = list(_filtered(workspace, asked).order_by("-at", "-pk")[: SHOWN + 1])
    shown = found[:SHOWN]
    more = mark(shown[-1].at, shown[-1].pk) if len(found) > SHOWN else ""
    return Activity(tuple(entry_of(one) for one in shown), more, len(shown))


def _filtered(workspace: Workspace, asked: Asked) -> QuerySet[AuditEntry]:
    found = AuditEntry.objects.filter(workspace_id=workspace.pk)
    exact = {"actor_label": asked.who, "action": asked.action, "subject": asked.subject}
    found = found.filter(**{column: value for column, value in exact.items() if value})
    if asked.since is not None:
        found = found.filter(at__gte=asked.since)
    if asked.until is not None:
        found = found.filter(at__lt=asked.until)
    if asked.before is not None:
        at, number = asked.before
        found = found.filter(at__lte=at).filter(Q(at__lt=at) | Q(pk__lt=number))
    return found


def entry(workspace: Workspace, number: int) -> Entry | None:
    """One deed of a workspace by its number, for its permanent address."""
    found = AuditEntry.objects.filter(workspace_id=workspace.pk, pk=number).first()
    return entry_of(found) if found is not None else None


def mark(at: datetime, number: int) -> str:
    """Where a next page begins, as text for an address."""
    return f"{at.isoformat()}_{number}"


def marked(text: str) -> tuple[datetime, int] | None:
    """What `mark` wrote; None for anything else."""
    at, _sign, number = text.rpartition("_")
    try:
        instant = datetime.fromisoformat(at)
    except ValueError:
        return None
    known = instant.tzinfo is not None and number.isascii() and number.isdigit() and len(number) < 19
    return (instant, int(number)) if known else None


def entry_of(one: AuditEntry) -> Entry:
    return Entry(
        id=one.pk,
        at=one.at,
        who=one.actor_label,
        what=words.deed(one.action),
        subject=one.subject,
        reason=one.reason,
        changes=tuple(_changes(one.before, one.after))[:CHANGES_SHOWN],
    )


def _changes(before: Any, after: Any) -> Iterator[Change]:
    """What differs, by name. A deed that only says what came of it has no "before"."""
    was, now = _named(before), _named(after)
    for name in [*was, *(name for name in now if name not in was)]:
        if name not in was or name not in now or was[name] != now[name]:
            yield Change(name.replace("_", " "), _shown(was, name), _shown(now, name))


def _named(values: Any) -> Mapping[str, Any]:
    if isinstance(values, Mapping):
        return {str(name): value for name, value in values.items()}
    return {} if values is None else {_("value"): values}


def _shown(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return ""
    value = values[name]
    text = _("nothing") if value is None else str(value)
    return text if len(text) <= VALUE else f"{text[: VALUE - 1]}…"
