"""Who was refused, why, how that changed, and what a shop can do about it (UX, P5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from connectors.protocol import Stream
from syncs import words
from syncs.domain.consent import (
    ADDRESS_CHANGED,
    ADDRESS_UNSUPPORTED,
    DESTINATION_BLOCKLISTED,
    DESTINATION_UNSUBSCRIBED,
    MALFORMED_ADDRESS,
    SUPPRESSED,
)
from syncs.domain.lifecycle import DeliveryState, RecordState
from syncs.models import Delivery, Sync
from syncs.queries import runs
from syncs.queries.rule import sentences
from syncs.queries.sums import DAYS, Sums, sums

SAMPLES: Final = 10
"""Refused records that a reason names, by the source's id; nobody's address is kept."""

SPARK_WIDTH: Final = 88
SPARK_HEIGHT: Final = 24
SPARK_EDGE: Final = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason to refuse: this week against the one before, by day, and what a shop can do.

    ``line`` is the path of the six days that are over, ``dash`` from there to today, which is not.
    """

    code: str
    word: str
    advice: str
    number: int
    before: int
    share: float
    line: str
    dash: str
    dot: tuple[float, float]

    @property
    def change(self) -> str:
        return f"{self.number - self.before:+,}".replace("-", "\u2212")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the funnel: how many are left, how many fell out of it, and why."""

    word: str
    number: int
    width: float
    out: str


@dataclass(frozen=True, slots=True)
class Consent:
    """A week of consent. ``read`` = accepted + refused + others, so that the sum closes."""

    read: int
    accepted: int
    refused: int
    before: int
    reasons: tuple[Reason, ...]
    steps: tuple[Step, ...]
    withdrawn: int
    slowest: Any

    @property
    def change(self) -> str:
        return f"{self.refused - self.before:+,}".replace("-", "\u2212")


@dataclass(frozen=True, slots=True)
class Sample:
    """A refused record by its id, with what decided."""

    record: str
    evidence: tuple[tuple[str, str], ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Sampled:
    """A reason with its samples."""

    word: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class ConsentPage:
    """The consent page: the filter as a sentence, the week, samples by reason, the version it ran under."""

    sync: Sync
    rule: tuple[str, ...]
    consent: Consent
    samples: dict[str, tuple[Sample, ...]]
    digest: str
    version: int | None

    @property
    def reasons_with_samples(self) -> tuple[Sampled, ...]:
        """In the order of the table, those without any left out."""
        known = [one.code for one in self.consent.reasons]
        codes = [*known, *(code for code in self.samples if code not in known)]
        return tuple(Sampled(words.refusal(code), self.samples[code]) for code in codes if code in self.samples)


DESTINATIONS: Final = frozenset({DESTINATION_UNSUBSCRIBED, DESTINATION_BLOCKLISTED, SUPPRESSED, ADDRESS_CHANGED})
"""Reasons that are the destination's own no, or ours for its sake."""

NOT_SENDABLE: Final = frozenset({MALFORMED_ADDRESS, ADDRESS_UNSUPPORTED})
"""Addresses that no destination can be given, whatever their owners said."""


def consent(sync: Sync, found: Sums) -> Consent:
    """A week of ``sync``, out of numbers that are loaded already."""
    week = {code: sum(days[:DAYS]) for code, days in found.refused.items()}
    before = {code: sum(days[DAYS:]) for code, days in found.refused.items()}
    refused = found.state(RecordState.REFUSED)
    accepted = sum(found.state(state) for state in (RecordState.WRITTEN, RecordState.UNCHANGED, ALREADY))
    return Consent(
        read=found.read,
        accepted=accepted,
        refused=refused,
        before=sum(before.values()),
        reasons=_reasons(found, week, before),
        steps=_steps(sync, found.read, week, accepted),
        withdrawn=found.withdrawn.number,
        slowest=found.withdrawn.longest,
    )


ALREADY: Final = RecordState.ALREADY_DELIVERED


def _reasons(found: Sums, week: dict[str, int], before: dict[str, int]) -> tuple[Reason, ...]:
    total = sum(week.values())
    codes = sorted(found.refused, key=lambda code: (-week[code], -before[code], code))
    return tuple(
        _reason(code, found.refused[code], week[code], before[code], total)
        for code in codes
        if week[code] or before[code]
    )


def _reason(code: str, days: Sequence[int], number: int, before: int, total: int) -> Reason:
    points = _points(days[:DAYS])
    return Reason(
        code=code,
        word=words.refusal(code),
        advice=words.refusal_advice(code),
        number=number,
        before=before,
        share=round(number * 100 / total, 1) if total else 0.0,
        line=_path(points[:-1]),
        dash=_path(points[-2:]),
        dot=points[-1],
    )


def _points(days: Sequence[int]) -> list[tuple[float, float]]:
    """Today is the last point, on the right."""
    most = max(*days, 1)
    step = (SPARK_WIDTH - 2 * SPARK_EDGE) / (DAYS - 1)
    high = SPARK_HEIGHT - 2 * SPARK_EDGE
    return [
        (round(SPARK_EDGE + index * step, 1), round(SPARK_HEIGHT - SPARK_EDGE - number * high / most, 1))
        for index, number in enumerate(reversed(days))
    ]


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + " ".join(f"{x} {y}" for x, y in points)


def _steps(sync: Sync, read: int, week: dict[str, int], accepted: int) -> tuple[Step, ...]:
    """From everybody who was read to whom the destination holds. Each step is what is left of the one before."""
    without = week.get("no_address", 0) + week.get("no_customer", 0)
    unsendable = sum(n for code, n in week.items() if code in NOT_SENDABLE)
    unproven = sum(n for code, n in week.items() if code not in DESTINATIONS) - without - unsendable
    there = sum(n for code, n in week.items() if code in DESTINATIONS)
    first, second = _first_words(sync)
    steps = [(first, read, "")]
    steps.append((second, read - without, _("%(n)s have none") % {"n": f"{without:,}"} if without else ""))
    left = read - without - unproven
    said = _("%(n)s refused: no provable consent") % {"n": f"{unproven:,}"} if unproven else ""
    steps.append((_("With provable consent"), left, said))
    rest = left - there - unsendable - accepted
    said_there = [_("%(n)s kept off: the destination's own no wins") % {"n": f"{there:,}"}] if there else []
    said_there += [_("%(n)s with an address that cannot be sent to") % {"n": f"{unsendable:,}"}] if unsendable else []
    said_there += [_("%(n)s filtered, set aside or not decided") % {"n": f"{rest:,}"}] if rest > 0 else []
    steps.append((_("Written, or there already"), accepted, ", ".join(said_there)))
    return tuple(
        Step(word, max(n, 0), round(max(n, 0) * 100 / read, 2) if read else 0.0, out) for word, n, out in steps
    )


def _first_words(sync: Sync) -> tuple[str, str]:
    document = json.loads(sync.published.document) if sync.published else sync.draft
    if document.get("stream") == Stream.ORDERS:
        return _("Orders read"), _("With a customer and an address")
    return _("Customers read"), _("With an e-mail address")


def consent_page(sync: Sync, now: datetime) -> ConsentPage:
    """A week of consent with up to ten samples a reason. Two queries."""
    found = sums(sync, now)
    document = json.loads(sync.published.document) if sync.published else sync.draft
    return ConsentPage(
        sync=sync,
        rule=sentences(document),
        consent=consent(sync, found),
        samples=_samples(sync, now),
        digest=sync.published.digest if sync.published else "",
        version=sync.published.number if sync.published else None,
    )


NEWEST_RUNS: Final = 50
RUNS_SAMPLED: Final = 5
LOOKED_AT: Final = 200
"""Refused records of one run among which samples are looked for."""


def _samples(sync: Sync, now: datetime) -> dict[str, tuple[Sample, ...]]:
    """Of the newest runs that refused somebody, each by the index of its run, whatever the ledger's size."""
    newest = runs.newest(sync).values_list("pk", "refusals")[:NEWEST_RUNS]
    sampled = [number for number, refusals in newest if refusals][:RUNS_SAMPLED]
    if not sampled:
        return {}
    columns = ("record", "object", "code", "evidence", "settled_at")
    first, *others = (
        Delivery.objects.filter(run=number, state=DeliveryState.REFUSED.value)
        .order_by("id")
        .values_list(*columns)[:LOOKED_AT]
        for number in sampled
    )
    found: dict[str, list[Sample]] = {}
    for record, name, code, evidence, at in first.union(*others, all=True) if others else first:
        of_code = found.setdefault(code, [])
        if len(of_code) < SAMPLES:
            of_code.append(Sample(record or name, evidence_pairs(evidence), at or now))
    return {code: tuple(samples) for code, samples in found.items()}


EVIDENCE: Final = {
    "state": _lazy("State"),
    "level": _lazy("Opt-in level"),
    "given_at": _lazy("Given at"),
    "field": _lazy("Field that decided"),
    "valid_format": _lazy("Valid address, says the source"),
    "data_sale_opt_out": _lazy("Opted out of the sale of data"),
}


def evidence_pairs(evidence: Any) -> tuple[tuple[str, str], ...]:
    """What the source said, in words; it holds no personal data."""
    if not isinstance(evidence, dict):
        return ()
    return tuple(
        (str(EVIDENCE.get(name, name)), _("nothing") if value is None else str(value))
        for name, value in evidence.items()
        if name in EVIDENCE
    )
