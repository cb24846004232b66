# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""The ledger: tables of millions of rows. Every search and filter is answered by an index, or not offered (UX, S5)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.formats import number_format
from django.utils.translation import gettext_lazy as _

from connectors.protocol import EffectKind
from syncs import queries, words
from syncs.admin import columns, labels
from syncs.admin.columns import moment, plain, word
from syncs.admin.kinds import OfSync, Uncounted
from syncs.domain.lifecycle import DeliveryState
from syncs.models import Delivery, Objection, Suppression, Sync, Tombstone
from syncs.queries import watch

EFFECT_KEY: Final = re.compile(r"[0-9a-f]{8,64}")
"""The beginning of an effect key that is long enough to look for."""

MAY_BE_STORED: Final = "may_be_stored"
"""In doubt, or sent by an owner whose call can no longer be out."""


class DeliveryStates(admin.SimpleListFilter):
    """Where an effect is. The rare states have an index each; of the frequent ones the newest rows are full."""

    title = labels.field("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        doubt = (MAY_BE_STORED, _("in doubt, or sent and never answered"))
        return [doubt, *((str(code), said) for code, said in words.DELIVERY_STATES.items())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value == MAY_BE_STORED:
            return watch.in_doubt(queryset, queries.now())
        return queryset.filter(state=value) if value in dict(words.DELIVERY_STATES) else queryset


class LedgerAdmin(Uncounted):
    """A table of the ledger."""

    search_fields: ClassVar = ["object"]
    list_select_related: ClassVar = ["sync__workspace"]
    list_filter: ClassVar[list[Any]] = [OfSync]
    ordering: ClassVar = ["-pk"]
    sortable_by: ClassVar[list[str]] = []

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(self.found_by(term)) if term else queryset), False

    def found_by(self, term: str) -> Q:
        """The object by its whole name, or by its id under any kind. The index begins with the sync, so it is named."""
        names = [term] if ":" in term else [f"{kind}:{term}" for kind in EffectKind]
        return Q(sync__in=Sync.objects.values("pk"), object__in=names)


@admin.register(Delivery)
class DeliveryAdmin(LedgerAdmin):
    """Every effect's way to the destination."""

    list_display: ClassVar = [
        plain("object"),
        "sync",
        word("delivery", "state"),
        plain("code"),
        "short_key",
        "run",
        moment("claimed_at"),
        moment("settled_at"),
        "doubt",
    ]
    list_filter: ClassVar = [DeliveryStates, OfSync]
    list_select_related: ClassVar = ["sync__workspace", "run"]
    list_before_template = "admin/ledger_size.html"
    search_help_text = _("A record's id, its whole name (contact:13085), or the beginning of a written effect key.")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        size = watch.ledger_size()
        counted = None if size is None else number_format(size, use_l10n=True, force_grouping=True)
        shown = {**(extra_context or {}), "ledger_size": counted}
        page: HttpResponse = super().changelist_view(request, shown)
        return page

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        found: QuerySet[Delivery] = super().get_queryset(request)
        return found.annotate(asked_at=columns.asked_at())

    @admin.display(description=labels.field("delivery_key"))
    def short_key(self, row: Delivery) -> str:
        return row.delivery_key[:12]

    @admin.display(description=_("In doubt for"))
    def doubt(self, row: Any) -> str:
        """How long it is not known whether the destination has it."""
        if row.state not in (DeliveryState.IN_DOUBT, DeliveryState.SENDING) or row.sending_at is None:
            return columns.MISSING
        return words.lasting(row.asked_at - row.sending_at)

    def found_by(self, term: str) -> Q:
        by_name = super().found_by(term)
        if not EFFECT_KEY.fullmatch(term) or term.isdigit():
            return by_name
        return Q(state=DeliveryState.WRITTEN.value, effect_key__gte=term, effect_key__lt=f"{term}g")


@admin.register(Tombstone)
class TombstoneAdmin(LedgerAdmin):
    """What is remembered of every object for good."""

    list_display: ClassVar = [
        plain("object"),
        "sync",
        plain("seq"),
        plain("destination_id"),
        moment("granted_at"),
        moment("withdrawn_at"),
        moment("settled_at"),
    ]
    search_help_text = _("A record's id, or its whole name (contact:13085).")


@admin.register(Suppression)
class SuppressionAdmin(Uncounted):
    """People who are never created again, as keyed hashes."""

    list_display: ClassVar = ["workspace", "short_key", plain("reason"), moment("seen_at")]
    list_filter: ClassVar = ["reason"]
    list_select_related: ClassVar = ["workspace"]
    ordering: ClassVar = ["-pk"]

    @admin.display(description=labels.field("address_key"))
    def short_key(self, row: Suppression) -> str:
        return row.address_key[:12]


@admin.register(Objection)
class ObjectionAdmin(Uncounted):
    """Records that say "no" for an address, as keyed hashes."""

    list_display: ClassVar = ["sync", plain("record"), "short_key", plain("code"), moment("seen_at")]
    list_filter: ClassVar = [OfSync]
    list_select_related: ClassVar = ["sync__workspace"]
    ordering: ClassVar = ["-pk"]

    @admin.display(description=labels.field("address_key"))
    def short_key(self, row: Objection) -> str:
        return row.address_key[:12]
