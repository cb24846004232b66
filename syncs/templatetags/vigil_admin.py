"""How states and times look in the admin, which has the theme's own signs."""

from __future__ import annotations

from datetime import datetime

from django import template

from syncs import words

register = template.Library()


@register.filter
def since(at: datetime, now: datetime) -> str:
    """How far an instant is from now: "4 minutes ago"."""
    return words.relative(at, now)
