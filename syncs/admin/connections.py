# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""Accounts at other systems, as the vendor last described them. Credentials are never shown (UX, S10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from syncs import services, words
from syncs.admin import columns, kinds
from syncs.admin.columns import moment, plain
from syncs.admin.kinds import Question, Shown
from syncs.models import Connection

SECRET: Final = ("sealed", "key_id", "fingerprint", "proved_fingerprint", "next_sealed", "next_key_id")


@admin.register(Connection)
class ConnectionAdmin(Shown):
    """Looked at, and tested: the test lists the scopes wanted and given."""

    left_out = SECRET
    list_display: ClassVar = [
        plain("name"),
        plain("kind"),
        "workspace",
        plain("account"),
        plain("label"),
        moment("proved_at"),
    ]
    list_filter: ClassVar = ["kind"]
    list_select_related: ClassVar = ["workspace"]
    search_fields: ClassVar = ["name", "account", "label", "workspace__name"]
    actions_detail: ClassVar = ["test"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return ["slots", *super().get_fields(request, obj)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return ["slots", *super().get_readonly_fields(request, obj)]

    @admin.display(description=_("Credentials"))
    def slots(self, row: Connection) -> str | SafeString:
        """Whether each slot is filled, and whether the vendor was asked about what is in it; nothing more."""
        lines = [(_now("Current"), _current(row)), (_now("Next"), _next(row))]
        return format_html_join("", '<p class="v-slot"><b>{}</b> {}</p>', lines)

    @action(description=_("Test"), url_path="test", icon="network_check", permissions=["operate"])
    def test(self, request: HttpRequest, object_id: int) -> HttpResponse:
        row = self.row_for(request, object_id)

        def check(reason: str) -> str:
            checked = services.connection_check(kinds.actor_of(request), row)
            for said in _lacking(checked):
                messages.warning(request, said)
            return _scopes(checked)

        question = Question(
            title=_now("Test %(connection)s") % {"connection": row},
            sentences=(
                _now("The vendor is asked whose credential this is and what it may do. Nothing is written there."),
            ),
            button=_now("Test"),
            reason=False,
        )
        return kinds.ask(self, request, question, reverse("admin:syncs_connection_change", args=[row.pk]), check)


def _current(row: Connection) -> str:
    if not row.sealed:
        return _now("Empty.")
    if row.proved_at is None or row.proved_fingerprint != row.fingerprint:
        return _now("Filled, and not proved since it was entered. Test it.")
    at = words.dated(row.proved_at, columns.zone_of(row))
    return _now("Filled, and proved at %(at)s.") % {"at": at}


def _next(row: Connection) -> str:
    if not row.next_sealed or row.next_at is None:
        return _now("Empty. Rotating fills it.")
    at = words.dated(row.next_at, columns.zone_of(row))
    if row.next_test and row.next_test.get("ok"):
        return _now("Filled at %(at)s and tested. Switch to it on the connection's page.") % {"at": at}
    return _now("Filled at %(at)s, and not tested. Test it on the connection's page.") % {"at": at}


def _scopes(checked: services.Checked) -> str:
    """Whose it is, and the scopes wanted and given, in one sentence."""
    said = _now("It belongs to %(label)s (%(account)s).")
    whose = said % {"label": checked.identity.label, "account": checked.identity.account}
    given = ", ".join(checked.identity.scopes) or _now("none")
    wanted = ", ".join(checked.wanted) or _now("none")
    scopes = _now("Scopes given: %(given)s. Scopes wanted: %(wanted)s.") % {"given": given, "wanted": wanted}
    return f"{whose} {scopes}"


def _lacking(checked: services.Checked) -> list[str]:
    found: list[str] = []
    if checked.missing:
        said = _now("Missing scopes: %(scopes)s. Grant them at the vendor, then test again.")
        found.append(said % {"scopes": ", ".join(checked.missing)})
    if checked.too_many:
        said = _now("This credential can write (%(scopes)s). Give it read-only scopes.")
        found.append(said % {"scopes": ", ".join(checked.too_many)})
    return found
