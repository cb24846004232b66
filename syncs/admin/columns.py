# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""Columns: instants in the workspace's zone, states in words and by shape, everything else as it is."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from django.contrib import admin
from django.db.models import BinaryField, DateTimeField, Field, JSONField, Model, Value
from django.utils.html import format_html
from django.utils.safestring import SafeString

from syncs import queries, words
from syncs.admin import labels
from syncs.models import Workspace
from syncs.words import Sign, Words

Column = Callable[[Any], "str | SafeString"]

MISSING: Final = "-"

WORDS: Final[Mapping[tuple[str, str], Words]] = {
    ("sync", "state"): words.SYNC_STATES,
    ("run", "state"): words.RUN_STATES,
    ("run", "phase"): words.PHASES,
    ("run", "outcome"): words.OUTCOMES,
    ("run", "verdict"): words.VERDICTS,
    ("run", "lane"): words.LANES,
    ("run", "trigger"): words.TRIGGERS,
    ("attempt", "outcome"): words.OUTCOMES,
    ("cursor", "lane"): words.LANES,
    ("coverage", "lane"): words.LANES,
    ("occurrence", "state"): words.OCCURRENCE_STATES,
    ("delivery", "state"): words.DELIVERY_STATES,
    ("delivery", "lane"): words.LANES,
    ("finding", "state"): words.FINDING_STATES,
}
"""Table and column -> the words of its states. One list for code, pages and admin (UX, 1)."""

ICONS: Final[Mapping[str, str]] = {
    "done": "check_circle",
    "quiet": "task_alt",
    "paused": "pause_circle",
    "failed": "cancel",
    "warning": "warning",
    "silent": "do_not_disturb_on",
    "edited": "edit",
    "clock": "schedule",
    "open": "radio_button_unchecked",
}
"""Shape of a sign -> its letter in the theme's font of symbols."""


def named(function: Column, name: str, *, ordering: str = "") -> Column:
    """``function`` as a column under its translated heading."""
    function.__name__ = f"{name}_shown"
    described: Column = admin.display(description=labels.field(name), ordering=ordering or None)(function)
    return described


def moment(name: str) -> Column:
    """A column with an instant in the workspace's zone, as the merchant sees it, and UTC on hover (Case UI-01)."""

    def shown(row: Any) -> str | SafeString:
        return instant(getattr(row, name), zone_of(row))

    return named(shown, name, ordering=name)


def instant(at: datetime | None, zone: tzinfo = UTC) -> str | SafeString:
    """An instant on a clock, and UTC on hover."""
    if at is None:
        return MISSING
    utc = at.astimezone(UTC)
    hover = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', utc.isoformat(), hover, words.dated(at, zone))


def zone_of(row: Any) -> tzinfo:
    """The zone of the workspace that a row belongs to, UTC where it belongs to none."""
    for path in ("workspace", "sync.workspace", "schedule.sync.workspace", "run.sync.workspace"):
        place = row
        for step in path.split("."):
            place = getattr(place, step, None)
        if isinstance(place, Workspace):
            return words.zone_of(place.zone)
    return words.zone_of(row.zone) if isinstance(row, Workspace) else UTC


def asked_at() -> Value:
    """The database's time of asking, beside every row of a list: what ages are measured by."""
    return Value(queries.now(), output_field=DateTimeField())


def word(model: str, name: str) -> Column:
    """A column with a state in words."""
    known = WORDS[model, name]

    def shown(row: Any) -> str:
        value = getattr(row, name)
        return str(known.get(value, value)) or MISSING

    return named(shown, name, ordering=name)


def sign(shown: Sign | None) -> str | SafeString:
    """A state by shape, word and colour."""
    if shown is None:
        return MISSING
    return format_html(
        '<span class="v-sign is-{}"><span class="material-symbols-outlined" aria-hidden="true">{}</span>{}</span>',
        shown.tone,
        ICONS.get(shown.shape, ICONS["open"]),
        shown.word,
    )


def plain(name: str) -> Column:
    """A column with the value as it is, under its translated heading."""

    def shown(row: Any) -> str:
        value = getattr(row, name)
        return MISSING if value in (None, "") else str(value)

    return named(shown, name, ordering=name)


def yes_or_no(name: str) -> Column:
    """A column with a mark for yes and one for no."""

    def shown(row: Any) -> Any:
        return bool(getattr(row, name))

    described: Column = admin.display(description=labels.field(name), ordering=name, boolean=True)(shown)
    shown.__name__ = f"{name}_shown"
    return described


def document(name: str) -> Column:
    """A field that holds a document, laid out to be read. What records contain is escaped (PRODUCT 10.4)."""

    def shown(row: Any) -> str | SafeString:
        value = getattr(row, name)
        if value in (None, "", {}, []):
            return MISSING
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
        return format_html('<pre class="v-document" tabindex="0">{}</pre>', text)

    return named(shown, name)


@functools.cache
def columns_of(model: type[Model], left_out: tuple[str, ...]) -> tuple[Any, ...]:
    """Every field of ``model`` but ``left_out`` and what holds bytes, each under its translated heading."""
    kept = [field for field in model._meta.fields if field.name not in left_out and not isinstance(field, BinaryField)]
    return tuple(column_of(model, field) for field in kept)


def column_of(model: type[Model], field: Field[Any, Any]) -> Any:
    name, table = field.name, str(model._meta.model_name)
    if isinstance(field, DateTimeField):
        return moment(name)
    if isinstance(field, JSONField) or (table, name) == ("version", "document"):
        return document(name)
    if (table, name) in WORDS:
        return word(table, name)
    if field.get_internal_type() == "BooleanField":
        return yes_or_no(name)
    # A link to the other row is what the admin itself makes of it.
    return name if field.is_relation else plain(name)
