"""A rule in words, for people who decide whether to publish it, and for those who look at what is published."""

from __future__ import annotations

from decimal import Decimal

from django.utils.translation import gettext as _

from connectors.protocol import Stream
from syncs.domain import limits
from syncs.domain import rule as rules
from syncs.domain.rule import Rule
from syncs.errors import RuleInvalid


def sentences(document: object) -> tuple[str, ...]:
    """A rule in plain words, one sentence a line; one sentence saying so when it is none."""
    try:
        rule = rules.parse(document)  # type: ignore[arg-type]
    except RuleInvalid as invalid:
        return (_("This rule cannot be read: %(why)s") % {"why": invalid.sentence},)
    return (
        _reads(rule),
        _keeps(rule),
        *_fields(rule),
        _asks(rule),
        _heeds(rule),
        *_order_words(rule),
        _on_rejected(rule),
        _("Nothing is ever written back to the source, and nobody's no at the destination is lifted."),
    )


def _reads(rule: Rule) -> str:
    if rule.stream is Stream.CUSTOMERS:
        return _("Reads customers and writes them as contacts to list %(list)s.") % {"list": rule.list_id}
    return _("Reads orders and writes them as orders of a contact that is known already.")


def _keeps(rule: Rule) -> str:
    if rule.stream is Stream.CUSTOMERS:
        if rule.filter is None:
            return _("Takes all customers.")
        return _("Takes only customers for which %(filter)s holds.") % {"filter": rule.filter}
    if rule.filter is None:
        return _("Takes all orders.")
    return _("Takes only orders for which %(filter)s holds.") % {"filter": rule.filter}


def _fields(rule: Rule) -> list[str]:
    if not rule.mapping:
        return [_("Writes no further fields.")]
    texts = {
        "text": _("Writes %(source)s to %(to)s as text."),
        "number": _("Writes %(source)s to %(to)s as number."),
        "date": _("Writes %(source)s to %(to)s as date."),
        "boolean": _("Writes %(source)s to %(to)s as yes or no."),
    }
    return [texts[field.kind] % {"source": field.source, "to": field.to} for field in rule.mapping]


def _asks(rule: Rule) -> str:
    if rule.consent == rules.CONFIRMED:
        return _("Sends only people who are subscribed with a confirmed opt-in on a known date, and who have not left.")
    return _(
        "Sends only people who are subscribed with a single or confirmed opt-in on a known date, and who have not left."
    )


def _heeds(rule: Rule) -> str:
    if rule.refuse_data_sale_opt_out:
        return _("Refuses people who opted out of the sale of their data.")
    return _("Does not refuse people who opted out of the sale of their data.")


def _order_words(rule: Rule) -> list[str]:
    if rule.stream is Stream.CUSTOMERS:
        return []
    sent = _("Sends these events once each: %(events)s.") % {"events": ", ".join(rule.events)}
    past = _("Past events are sent too.") if rule.history_events else _("Past events are not sent.")
    tests = _("Includes test orders.") if rule.include_test_orders else _("Leaves out test orders.")
    return [sent if rule.events else _("Sends no events."), past, tests]


def _on_rejected(rule: Rule) -> str:
    if rule.on_rejected == limits.STOP or rule.ratio is None:
        return _("Stops at a record that the destination rejects, until a person decides.")
    percent = format((Decimal(rule.ratio) * 100).normalize(), "f")
    return _(
        "Sets rejected records aside, up to %(percent)s %% of a run and at most %(most)d; beyond that the run fails."
    ) % {"percent": percent, "most": rule.cap}
