"""Which records a number stands for: the ledger's rows of one run, by state and reason (UX, P2.4 and P3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Max, Min, QuerySet
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from syncs import words
from syncs.domain.lifecycle import DeliveryState, RecordState
from syncs.models import Delivery, Run
from syncs.models.ledger import UNHAPPY
from syncs.queries import runs
from syncs.queries.consent import evidence_pairs

SHOWN: Final = 50
GROUPS_SHOWN: Final = 50
QUOTE: Final = 300
"""Characters of another system's own text that a page quotes."""

KEPT: Final = {state.value: state.value for state in (DeliveryState.WRITTEN, *UNHAPPY)}
"""Record states that leave a row in the ledger."""

WRONG: Final = tuple(state.value for state in UNHAPPY if state is not DeliveryState.REFUSED)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that ended alike: how many, when first and last, one of them by its id (Case UI-05)."""

    state: str
    code: str
    word: str
    reason: str
    sentence: str
    advice: str
    number: int
    first: datetime | None
    last: datetime | None
    sample: str


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One row: its id at the source, where it is and why; never an address."""

    id: int
    code: str
    record: str
    object: str
    state: str
    word: str
    reason: str
    sentence: str
    calls: int
    at: datetime | None
    evidence: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """Records of one run in one state. ``told`` says why there is none to list, or fewer than were counted."""

    run: Run
    state: str
    word: str
    counted: int
    rows: tuple[RecordRow, ...]
    after: int | None
    told: str
    reasons: tuple[runs.Reason, ...]
    reason: str


def groups(run: Run) -> tuple[Group, ...]:
    """What went wrong in ``run``, the most frequent first; refusals are intended and stand elsewhere. One query."""
    found = Delivery.objects.filter(run=run, state__in=WRONG).values("state", "code", "sentence")
    counted = found.annotate(
        number=Count("id"),
        first=Min(Coalesce("settled_at", "claimed_at")),
        last=Max(Coalesce("settled_at", "claimed_at")),
        sample=Min("object"),
    )
    return tuple(_group(row) for row in counted.order_by("-number", "state", "code")[:GROUPS_SHOWN])


def _group(row: Mapping[str, Any]) -> Group:
    return Group(
        state=row["state"],
        code=row["code"],
        word=str(words.DELIVERY_STATES.get(row["state"], row["state"])),
        reason=words.refusal(row["code"]) if row["code"] else "",
        sentence=row["sentence"][:QUOTE],
        advice=words.advice(row["code"] or row["state"]),
        number=row["number"],
        first=row["first"],
        last=row["last"],
        sample=row["sample"],
    )


def records_page(run: Run, state: str, *, reason: str = "", after: int = 0) -> RecordsPage:
    """Fifty records of ``run`` in ``state``, by id, behind ``after``. One query, by the index of the run."""
    counted = runs.totals(run).get(state, 0)
    found = _rows(run, state, reason, after) if state in KEPT else []
    shown = found[:SHOWN]
    return RecordsPage(
        run=run,
        state=state,
        word=str(words.RECORD_STATES.get(state, state)),
        counted=counted,
        rows=tuple(row_of(one) for one in shown),
        after=shown[-1].pk if len(found) > SHOWN else None,
        told=_told(state, counted, len(shown), after, reason),
        reasons=runs.reasons(run.refusals) if state == RecordState.REFUSED else (),
        reason=reason,
    )


def _rows(run: Run, state: str, reason: str, after: int) -> list[Delivery]:
    rows: QuerySet[Delivery, Delivery] = Delivery.objects.filter(run=run, state=state, pk__gt=after)
    if reason:
        rows = rows.filter(code=reason)
    return list(rows.order_by("id")[: SHOWN + 1])


def row_of(one: Delivery) -> RecordRow:
    """One row of the ledger as people see it."""
    return RecordRow(
        id=one.pk,
        code=one.code,
        record=one.record,
        object=one.object,
        state=one.state,
        word=str(words.DELIVERY_STATES.get(one.state, one.state)),
        reason=words.refusal(one.code) if one.code else "",
        sentence=one.sentence[:QUOTE],
        calls=one.calls,
        at=one.settled_at or one.claimed_at,
        evidence=evidence_pairs(one.evidence),
    )


NO_ROW: Final = (
    RecordState.UNCHANGED,
    RecordState.ALREADY_DELIVERED,
    RecordState.SUPERSEDED,
    RecordState.FILTERED,
    RecordState.NOT_YET_TRIED,
)


def _told(state: str, counted: int, shown: int, after: int, reason: str) -> str:
    if state in NO_ROW:
        return _("Records in this state leave no row in the ledger: nothing was to be sent of them.")
    if state not in KEPT:
        return _("There is no such state. Choose a number of the run's page.")
    if after or reason or shown >= min(counted, SHOWN):
        return ""
    return _(
        "The run counted %(counted)s and the ledger still has %(shown)s: a later run has taken the others over, or "
        "they are older than the days for which the ledger keeps what is settled."
    ) % {"counted": f"{counted:,}", "shown": f"{shown:,}"}
