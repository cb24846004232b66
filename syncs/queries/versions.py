"""What was published when and by whom, and how two rules differ, in words (UX, P7; PRODUCT 6.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from django.db.models import Count
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from syncs.domain import limits
from syncs.domain import rule as rules
from syncs.domain.lifecycle import SyncState
from syncs.errors import NotFound, RuleInvalid
from syncs.models import Sync, Version
from syncs.queries.rule import sentences
from syncs.words import Words

SHORT: Final = 12
"""Characters of a digest that people compare."""


# --- Differences in words ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that two rules or their connections say differently: what it is, and both sides in words."""

    label: str
    before: str
    after: str


LABELS: Final[Words] = {
    "format": _lazy("Form of the rule"),
    "stream": _lazy("What is read"),
    "list_id": _lazy("List at the destination"),
    "filter": _lazy("Only records for which this holds"),
    "consent": _lazy("Consent that counts as proof"),
    "refuse_data_sale_opt_out": _lazy("Refuse people who opted out of the sale of their data"),
    "on_rejected": _lazy("Records that the destination rejects"),
    "ratio": _lazy("Share of a run that may be set aside"),
    "cap": _lazy("Records of a run that may be set aside"),
    "events": _lazy("Events to send"),
    "history_events": _lazy("Events of the time before the first publication"),
    "include_test_orders": _lazy("Test orders"),
}
"""What a field of the rule is called; a mapped field is called by its target."""

EVENTS: Final[Words] = {
    rules.ORDER_PLACED: _lazy("Order placed"),
    rules.ORDER_CANCELLED: _lazy("Order cancelled"),
    rules.ORDER_REFUNDED: _lazy("Order refunded"),
}
_VALUES: Final[Mapping[tuple[str, Any], object]] = {
    ("stream", "customers"): _lazy("customers"),
    ("stream", "orders"): _lazy("orders"),
    ("consent", rules.CONFIRMED): _lazy("confirmed opt-in only"),
    ("consent", rules.CONFIRMED_OR_SINGLE): _lazy("single or confirmed opt-in"),
    ("on_rejected", limits.STOP): _lazy("stop, until a person decides"),
    ("on_rejected", limits.SET_ASIDE): _lazy("set aside, within limits"),
    ("refuse_data_sale_opt_out", True): _lazy("yes"),
    ("refuse_data_sale_opt_out", False): _lazy("no"),
    ("history_events", True): _lazy("are sent"),
    ("history_events", False): _lazy("are not sent"),
    ("include_test_orders", True): _lazy("are read too"),
    ("include_test_orders", False): _lazy("are left out"),
    ("filter", None): _lazy("all records"),
    ("ratio", None): _lazy("none"),
    ("cap", None): _lazy("none"),
}
_KINDS: Final[Words] = {
    "text": _lazy("%(source)s as text"),
    "number": _lazy("%(source)s as number"),
    "date": _lazy("%(source)s as date"),
    "boolean": _lazy("%(source)s as yes or no"),
}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """How two rules (plain JSON) differ, in the order of the form; nothing where one of both cannot be read."""
    try:
        changes = rules.changes(rules.parse(before), rules.parse(after))
    except RuleInvalid:
        return ()
    return tuple(Difference(_label(one.field), *_sides(one)) for one in changes)


def _label(field: str) -> str:
    if target := field.partition("mapping ")[2]:
        return _("Field %(name)s") % {"name": target}
    return str(LABELS.get(field, field))


def _sides(change: rules.Change) -> tuple[str, str]:
    if change.field.startswith("mapping "):
        return _mapped(change.before), _mapped(change.after)
    return _value(change.field, change.before), _value(change.field, change.after)


def _mapped(row: Mapping[str, str] | None) -> str:
    if row is None:
        return _("not written")
    return str(_KINDS[row["kind"]]) % {"source": row["source"]}


def _value(field: str, value: Any) -> str:
    if field == "events":
        return ", ".join(str(EVENTS.get(one, one)) for one in value) or _("none")
    if field == "ratio" and value is not None:
        return percent(value)
    return str(_VALUES.get((field, value)) or (_("none") if value is None else value))


def percent(ratio: str) -> str:
    """A share of a rule as people write it: "5 %"."""
    try:
        number = format((Decimal(ratio) * 100).normalize(), "f")
    except InvalidOperation:
        return ratio
    return _("%(number)s %%") % {"number": number}


def end_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """How the connections of two publications differ: accounts and scopes, as the vendor proved them."""
    found: list[Difference] = []
    for side, called in (("source", _("Source account")), ("destination", _("Destination account"))):
        old, new = before.get(side, {}), after.get(side, {})
        if (old.get("kind"), old.get("account")) != (new.get("kind"), new.get("account")):
            found.append(Difference(called, account(old), account(new)))
        if sorted(old.get("scopes", ())) != sorted(new.get("scopes", ())):
            label = _("Scopes of the source") if side == "source" else _("Scopes of the destination")
            found.append(Difference(label, _scopes(old), _scopes(new)))
    return tuple(found)


def account(facts: Mapping[str, Any]) -> str:
    """Whose account: "Shopify: ACME Shop (gid://shopify/Shop/1)"."""
    if not facts:
        return _("none")
    return f"{str(facts['kind']).capitalize()}: {facts.get('label') or facts['account']} ({facts['account']})"


def _scopes(facts: Mapping[str, Any]) -> str:
    return ", ".join(sorted(facts.get("scopes", ()))) or _("none")


def grouped(digest: str) -> str:
    """A digest as people compare it: in groups of four."""
    return " ".join(digest[at : at + 4] for at in range(0, len(digest), 4))


# --- The list ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version in the list. ``until`` is when it stopped being in force; None: it is in force now."""

    number: int
    digest: str
    by: str
    at: datetime
    reason: str
    until: datetime | None
    runs: int
    is_latest: bool
    is_live: bool
    is_draft: bool

    @property
    def short(self) -> str:
        return grouped(self.digest[:SHORT])


@dataclass(frozen=True, slots=True)
class Versions:
    """All versions of a sync, newest first. ``draft_differs``: the draft is not what was published last."""

    lines: tuple[VersionLine, ...]
    draft_differs: bool
    may_publish_again: bool
    """Whether the rule stands still unchanged: a fresh preview lets it go on (PRODUCT 4.3)."""


def versions_page(sync: Sync) -> Versions:
    """The versions of ``sync`` (with its relations, as `sync_for` gives it). One query."""
    rows = list(sync.versions.annotate(run_count=Count("runs")).order_by("-number"))
    lines = tuple(_line(sync, row, rows[place - 1] if place else None) for place, row in enumerate(rows))
    differs = not (rows and _is_draft(sync, rows[0]))
    return Versions(lines, differs, bool(rows) and not differs and sync.state != SyncState.PUBLISHED)


def _line(sync: Sync, row: Any, newer: Version | None) -> VersionLine:
    is_live = newer is None and sync.state == SyncState.PUBLISHED
    return VersionLine(
        number=row.number,
        digest=row.digest,
        by=row.publisher_label,
        at=row.published_at,
        reason=row.reason,
        until=None if is_live else (newer.published_at if newer is not None else sync.paused_at or sync.draft_at),
        runs=row.run_count,
        is_latest=newer is None,
        is_live=is_live,
        is_draft=_is_draft(sync, row),
    )


def _is_draft(sync: Sync, version: Version) -> bool:
    """Whether the draft says what ``version`` says."""
    same: bool = json.loads(version.document) == sync.draft
    return same


# --- One version ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class VersionPage:
    """A version, its rule in words, and how it differs from ``other`` (None: there is no other one)."""

    line: VersionLine
    sentences: tuple[str, ...]
    source: str
    destination: str
    other: VersionLine | None
    changes: tuple[Difference, ...]
    others: tuple[VersionLine, ...]
    replaces: tuple[Difference, ...]
    """What a draft made from it would change in the draft as it is."""
    document: str


def version_page(sync: Sync, number: int, other: int | None = None) -> VersionPage:
    """Version ``number`` against ``other``: by default what is in force, or the one before. Raises NotFound."""
    listed = versions_page(sync)
    lines = {line.number: line for line in listed.lines}
    if number not in lines or (other is not None and other not in lines):
        raise NotFound(_("There is no such version of this sync. Choose one from the list."))
    against = other if other is not None else _usual(listed.lines, number)
    rows = {row.number: row for row in sync.versions.filter(number__in=[number, against or number])}
    row, theirs = rows[number], rows.get(against or 0)
    document = json.loads(row.document)
    return VersionPage(
        line=lines[number],
        sentences=sentences(document),
        source=account(row.facts.get("source", {})),
        destination=account(row.facts.get("destination", {})),
        other=lines.get(against or 0),
        changes=_between(theirs, row) if theirs is not None else (),
        others=tuple(line for line in listed.lines if line.number != number),
        replaces=differences(sync.draft, document),
        document=row.document,
    )


def _usual(lines: tuple[VersionLine, ...], number: int) -> int | None:
    """What a version is compared with unless somebody says so: what was published last, for that the one before."""
    latest = lines[0].number
    if number != latest:
        return latest
    return lines[1].number if len(lines) > 1 else None


def _between(before: Version, after: Version) -> tuple[Difference, ...]:
    told = differences(json.loads(before.document), json.loads(after.document))
    return (*told, *end_differences(before.facts, after.facts))


def version_of(sync: Sync, number: int) -> Version:
    """A version of ``sync``. Raises NotFound."""
    found = sync.versions.filter(number=number).first()
    if found is None:
        raise NotFound(_("There is no such version of this sync. Choose one from the list."))
    return found
