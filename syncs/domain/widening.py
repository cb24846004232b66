"""Where a rule reaches further than the one that is published: what is asked about first (PRODUCT 6.1, 6.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from syncs.domain import limits
from syncs.domain.rule import Rule


class Widens(StrEnum):
    """The ways in which a rule can reach further."""

    LIST = "list"
    FIELDS = "fields"
    VALUES = "values"
    EVENTS = "events"
    FILTER_GONE = "filter_gone"
    FILTER_CHANGED = "filter_changed"
    TEST_ORDERS = "test_orders"
    HISTORY_EVENTS = "history_events"
    CONSENT = "consent"
    DATA_SALE = "data_sale"
    REJECTIONS = "rejections"


@dataclass(frozen=True, slots=True)
class Widening:
    """One way in which a rule reaches further; ``names`` are the fields, events or the list that it is about."""

    how: Widens
    names: tuple[str, ...] = ()


def widenings(before: Rule, after: Rule) -> tuple[Widening, ...]:
    """How ``after`` reaches further than ``before``, in the order of the form; nothing when it does not.

    Whether another filter takes more cannot be known from its text, so every other filter counts.
    """
    return (*_further(before, after), *_more_records(before, after), *_weaker_consent(before, after))


def _further(before: Rule, after: Rule) -> Iterator[Widening]:
    if after.list_id != before.list_id:
        yield Widening(Widens.LIST, (str(after.list_id),))
    known = {field.to.casefold(): field.source for field in before.mapping}
    if new := tuple(field.to for field in after.mapping if field.to.casefold() not in known):
        yield Widening(Widens.FIELDS, new)
    if other := tuple(one.to for one in after.mapping if known.get(one.to.casefold(), one.source) != one.source):
        yield Widening(Widens.VALUES, other)
    if events := tuple(event for event in after.events if event not in before.events):
        yield Widening(Widens.EVENTS, events)


def _more_records(before: Rule, after: Rule) -> Iterator[Widening]:
    if before.filter is not None and after.filter is None:
        yield Widening(Widens.FILTER_GONE)
    elif before.filter is not None and after.filter != before.filter:
        yield Widening(Widens.FILTER_CHANGED)
    if after.include_test_orders and not before.include_test_orders:
        yield Widening(Widens.TEST_ORDERS)
    if after.history_events and not before.history_events:
        yield Widening(Widens.HISTORY_EVENTS)


def _weaker_consent(before: Rule, after: Rule) -> Iterator[Widening]:
    if before.policy.levels < after.policy.levels:
        yield Widening(Widens.CONSENT)
    if before.refuse_data_sale_opt_out and not after.refuse_data_sale_opt_out:
        yield Widening(Widens.DATA_SALE)
    if _forgives_more(before.budget, after.budget):
        yield Widening(Widens.REJECTIONS)


def _forgives_more(before: limits.RejectBudget, after: limits.RejectBudget) -> bool:
    """Whether more records that the destination rejects may be set aside than before."""
    return any(new > old for old, new in zip(_allowed(before), _allowed(after), strict=True))


def _allowed(budget: limits.RejectBudget) -> tuple[Decimal, Decimal]:
    if budget.policy != limits.SET_ASIDE:
        return Decimal(0), Decimal(0)
    return Decimal(budget.ratio or 0), Decimal(budget.cap or 0)
