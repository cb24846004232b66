"""What can be taken away: runs and consent as CSV or JSON, times in UTC, no personal data (UX, P2.7, P3, P5)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from syncs import queries, words
from syncs.models import Sync
from syncs.queries import consent, listing
from syncs.views import shell
from syncs.views.asked import RunsForm

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins so would be worked out by a spreadsheet."""


@shell.page
@require_safe
def runs_csv(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The runs asked for, a row each."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    asked = RunsForm(request.GET).asked(words.zone_of(place.workspace.zone))
    return _csv(found, "runs", listing.COLUMNS, listing.export(found, asked))


@shell.page
@require_safe
def runs_json(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """The same as JSON."""
    place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    asked = RunsForm(request.GET).asked(words.zone_of(place.workspace.zone))
    return _json(found, "runs", {"sync": found.name, "runs": list(listing.export(found, asked))})


@shell.page
@require_safe
def run_json(request: HttpRequest, slug: str, run_id: int) -> HttpResponse:
    """One run with its attempts, receipt and evidence."""
    _place, found = queries.run_for(shell.person(request), slug, run_id)
    return _json(found.sync, f"run-{found.pk}", {"sync": found.sync.name, **listing.whole(found)})


CONSENT: Final = (
    "reason",
    "code",
    "records_7_days",
    "records_7_days_before",
    "share_percent",
    "version",
    "digest",
    "at",
)


@shell.page
@require_safe
def consent_csv(request: HttpRequest, slug: str, sync_id: int) -> HttpResponse:
    """Refusals of a week by reason, dated, with the digest of the rule they were judged by (UX, P5)."""
    _place, found = queries.place_of_sync(shell.person(request), slug, sync_id)
    now = queries.now()
    page = consent.consent_page(found, now)
    mark = {"version": page.version or "", "digest": page.digest, "at": now.isoformat()}
    rows = [
        {
            "reason": one.word,
            "code": one.code,
            "records_7_days": one.number,
            "records_7_days_before": one.before,
            "share_percent": one.share,
            **mark,
        }
        for one in page.consent.reasons
    ]
    return _csv(found, "consent", CONSENT, rows)


def _csv(sync: Sync, what: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> HttpResponse:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])
    return _named(HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8"), sync, what, "csv")


def _cell(value: Any) -> Any:
    """What a record or a vendor wrote stays text in every spreadsheet (PRODUCT 10.4)."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _json(sync: Sync, what: str, document: Mapping[str, Any]) -> HttpResponse:
    return _named(JsonResponse(document, json_dumps_params={"indent": 2}), sync, what, "json")


def _named(answer: HttpResponse, sync: Sync, what: str, ending: str) -> HttpResponse:
    answer.headers["Content-Disposition"] = f'attachment; filename="{slugify(sync.name) or "sync"}-{what}.{ending}"'
    return answer
