"""What shows that a read was real, and the verdict it supports (PRODUCT 5.2).

An OK with nothing in it is believed only when the source's own count, asked on another path, says nothing too.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from connectors.protocol import Count
from syncs.domain.lifecycle import Verdict

TOLERANCE_PERCENT: Final = 1
TOLERANCE_ABOVE: Final = 500
"""Only a count above this may be missed by the tolerance."""

RECOUNT_AFTER: Final = timedelta(seconds=60)
"""A short read is counted once more after this: the count, too, may lag."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about one read.

    ``identity_ok``: the credential lives and belongs to the published account. ``scopes_missing``: scopes the stream
    needs and the credential lacks. ``count_before`` and ``count_after``: the source's count for exactly the read's
    filter, None where it could not be had. ``rows_seen``: over the whole read, across runs. ``structure_ok``: no page
    contradicted itself. ``problems``: codes of anything else that forbids belief (a search warning, a mapped key
    missing, a known record not visible). ``exhausted``: the source said that there is no further page.
    """

    identity_ok: bool
    scopes_missing: tuple[str, ...]
    version_asked: str | None
    version_served: str | None
    count_before: Count | None
    count_after: Count | None
    rows_seen: int
    structure_ok: bool
    problems: tuple[str, ...]
    exhausted: bool

    @property
    def counts(self) -> tuple[Count, ...]:
        """The counts that could be had."""
        return tuple(count for count in (self.count_before, self.count_after) if count is not None)

    @property
    def version_drifted(self) -> bool:
        """Whether the source answered in another version than it was asked for: a finding, no doubt (READ-20)."""
        known = self.version_served is not None and self.version_asked is not None
        return known and self.version_served != self.version_asked

    def document(self) -> dict[str, Any]:
        """The evidence as plain JSON, to be stored beside its verdict."""
        return {
            "identity_ok": self.identity_ok,
            "scopes_missing": list(self.scopes_missing),
            "version_asked": self.version_asked,
            "version_served": self.version_served,
            "count_before": _count_document(self.count_before),
            "count_after": _count_document(self.count_after),
            "rows_seen": self.rows_seen,
            "structure_ok": self.structure_ok,
            "problems": list(self.problems),
            "exhausted": self.exhausted,
        }


def _count_document(count: Count | None) -> dict[str, Any] | None:
    return None if count is None else {"records": count.records, "exact": count.exact}


def verdict(evidence: Evidence) -> Verdict:
    """The verdict that ``evidence`` supports.

    The smaller count is asked for, since records that change during a read leave its window. A count that is not
    exact is a lower bound: to miss it is proof of a short read, to reach it proves nothing.
    """
    if not evidence.structure_ok:
        return Verdict.UNREADABLE
    if not evidence.exhausted:
        return Verdict.OPEN
    if not evidence.identity_ok or evidence.scopes_missing or evidence.problems:
        return Verdict.UNPROVEN
    if any(count.exact and _reaches(evidence.rows_seen, count) for count in evidence.counts):
        return Verdict.PROVEN if evidence.rows_seen else Verdict.PROVEN_QUIET
    return Verdict.SHORT if _is_short(evidence) else Verdict.UNPROVEN


def _is_short(evidence: Evidence) -> bool:
    return bool(evidence.counts) and not any(_reaches(evidence.rows_seen, count) for count in evidence.counts)


def _reaches(rows_seen: int, count: Count) -> bool:
    allowed = TOLERANCE_PERCENT if count.records > TOLERANCE_ABOVE else 0
    return rows_seen * 100 >= count.records * (100 - allowed)


def wants_recount(evidence: Evidence) -> bool:
    """Whether to count once more after RECOUNT_AFTER before the verdict is final: only a short read does."""
    return verdict(evidence) is Verdict.SHORT


def sentence(evidence: Evidence, *, source: str, noun: str) -> str:
    """The verdict for people, with both numbers (Case READ-01). ``source`` "Shopify", ``noun`` "customers"."""
    delivered = f"this read delivered {evidence.rows_seen:,}"
    match verdict(evidence):
        case Verdict.OPEN:
            return f"The read of {noun} is still going on: so far it delivered {evidence.rows_seen:,}."
        case Verdict.PROVEN:
            return f"{source} counts {_counted(evidence)} {noun}, {delivered}. The read is proven complete."
        case Verdict.PROVEN_QUIET:
            return f"{source} counts 0 {noun}, this read delivered 0. Nothing new, and that is proven."
        case Verdict.SHORT:
            kept = "We stopped before the cursor moved. Test the connection."
            return f"{source} counts {_counted(evidence)} {noun}, {delivered}. {kept}"
        case Verdict.UNREADABLE:
            kept = "Nothing of that page was sent and the cursor stays. Run again; if it repeats, test the connection."
            return f"{source} gave a page of {noun} that contradicts itself. {kept}"
        case Verdict.UNPROVEN:
            return f"{_doubt(evidence, source, noun)} The cursor stays. Test the connection."


def _counted(evidence: Evidence) -> str:
    smallest = min(evidence.counts, key=lambda count: count.records)
    return f"{smallest.records:,}" if smallest.exact else f"at least {smallest.records:,}"


def _doubt(evidence: Evidence, source: str, noun: str) -> str:
    delivered = f"so the {evidence.rows_seen:,} {noun} of this read prove nothing."
    if not evidence.identity_ok:
        return f"{source} did not confirm whose credential this is, {delivered}"
    if evidence.scopes_missing:
        return f"{source} did not grant {', '.join(evidence.scopes_missing)}, {delivered}"
    if evidence.problems:
        return f"{source}'s answer had a fault ({', '.join(evidence.problems)}), {delivered}"
    if evidence.counts:
        return f"{source} counts only {_counted(evidence)} {noun}, {delivered}"
    return f"{source} gave no count of its {noun}, {delivered}"
