"""How times, states and numbers look on a page. Everything that goes through here is escaped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.template import Context
from django.utils import formats
from django.utils.html import format_html
from django.utils.safestring import SafeString

from syncs import words
from syncs.queries.strip import Slot, key_of
from syncs.words import Sign

register = template.Library()


@register.simple_tag(takes_context=True)
def at(context: Context, instant: datetime | None, missing: str = "") -> str | SafeString:
    """An instant in the workspace's zone; UTC on hover (Case UI-01)."""
    if instant is None:
        return missing
    utc = instant.astimezone(UTC)
    text = words.instant(instant, context["zone"], context["now"])
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S} UTC", text
    )


@register.simple_tag(takes_context=True)
def ago(context: Context, instant: datetime | None) -> str:
    """How far an instant is from now."""
    return "" if instant is None else words.relative(instant, context["now"])


@register.filter
def lasting(length: timedelta | None) -> str:
    """A length of time in words."""
    return "" if length is None else words.lasting(length)


@register.filter
def count(number: int) -> str:
    """A whole number with its thousands apart."""
    return f"{number:,}"


@register.filter
def percent(number: float) -> str:
    """A length of a drawing, in percent; the point is a point in every language."""
    return f"{number:.3f}%"


@register.simple_tag
def state(sign: Sign | None, size: str = "") -> str | SafeString:
    """A state by shape, word and colour."""
    if sign is None:
        return ""
    return format_html(
        '<span class="state is-{} {}"><svg aria-hidden="true"><use href="#s-{}"/></svg><span>{}</span></span>',
        sign.tone,
        size,
        sign.shape,
        sign.word,
    )


@register.simple_tag
def describe(field: Any) -> SafeString:
    """A form field's ids of help and error, so that both are read out with it."""
    ids = [f"{field.auto_id}-help"] if field.help_text else []
    ids += [f"{field.auto_id}-error"] if field.errors else []
    attributes: dict[str, Any] = {"aria-describedby": " ".join(ids)} if ids else {}
    if field.errors:
        attributes["aria-invalid"] = "true"
    return SafeString(field.as_widget(attrs=attributes))


@register.filter
def plain(number: float) -> str:
    """A number of a drawing; the point is a point in every language."""
    return f"{number:g}"


@register.filter
def slot_key(slot: Slot) -> str:
    """What the row of a planned start is called."""
    return key_of(slot)


@register.simple_tag(takes_context=True)
def age(context: Context, instant: datetime) -> str:
    """How old something is, without "ago"."""
    return words.lasting(abs(context["now"] - instant))


@register.simple_tag(takes_context=True)
def clock(context: Context, instant: datetime) -> str | SafeString:
    """A start that is to come: the time alone today, with its weekday later; UTC on hover."""
    zone = context["zone"]
    local, today = instant.astimezone(zone), context["now"].astimezone(zone).date()
    text = formats.date_format(local, "H:i" if local.date() == today else "D H:i")
    utc = instant.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S} UTC", text
    )


@register.simple_tag(takes_context=True)
def moment(context: Context, instant: datetime) -> SafeString:
    """An instant to the second, for what happened within minutes; UTC on hover."""
    zone = context["zone"]
    local, utc = instant.astimezone(zone), instant.astimezone(UTC)
    form = "H:i:s" if local.date() == context["now"].astimezone(zone).date() else "j M H:i:s"
    text = formats.date_format(local, form)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S} UTC", text
    )


@register.filter
def times(number: int, width: int) -> int:
    """A place in a drawing: the ``number``-th of pieces ``width`` wide."""
    return number * width
