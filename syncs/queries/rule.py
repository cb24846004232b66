"""A rule in words, for people who look at what is published."""

from __future__ import annotations

from django.utils.translation import gettext as _

from syncs.domain import rule as rules
from syncs.errors import RuleInvalid


def sentences(document: object) -> tuple[str, ...]:
    """A rule in plain words; one sentence saying so when it is none."""
    try:
        return tuple(rules.sentences(rules.parse(document)))  # type: ignore[arg-type]
    except RuleInvalid as invalid:
        return (_("This rule cannot be read: %(why)s") % {"why": invalid.sentence},)
