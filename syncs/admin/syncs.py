# The theme ships no types.
# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
"""Syncs, their previews and versions: what a person does is a named button that asks first and calls one service.

A published version is never edited here or anywhere. The draft's form is the merchant's own page (UX, S4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.views import ChangeList

from syncs import queries, services, words
from syncs.admin import columns, kinds, labels
from syncs.admin.columns import moment, plain, word, yes_or_no
from syncs.admin.kinds import ByHeadline, OfSync, Question, Shown, Uncounted, by_word
from syncs.domain.lifecycle import RunState, SyncState
from syncs.models import Lease, Preview, Run, Sync, Version
from syncs.queries import previews, standing, watch
from syncs.queries.sync import facts_of, latest


class ByHealth(ByHeadline):
    """Syncs by their headline."""

    def chosen(self, queryset: QuerySet[Sync], headline: str) -> QuerySet[Sync]:
        return watch.with_health(queryset, headline, queries.now())


class Judged(ChangeList):
    """A page of syncs with their headlines, in one query for all."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)  # type: ignore[has-type]
        found = watch.healths([row.pk for row in rows], queries.now()) if rows else {}
        for row in rows:
            row.headline = found.get(row.pk)
        self.result_list = rows


@admin.register(Sync)
class SyncAdmin(Shown):
    """Syncs across workspaces, and the buttons for what is done to one."""

    list_display: ClassVar = [
        plain("name"),
        "health",
        "workspace",
        word("sync", "state"),
        "source",
        "destination",
        moment("last_success_at"),
        moment("fresh_as_of"),
        moment("paused_at"),
    ]
    list_filter: ClassVar = [ByHealth, by_word("sync", "state")]
    list_select_related: ClassVar = ["workspace", "source", "destination"]
    search_fields: ClassVar = ["name", "workspace__name"]
    actions_detail: ClassVar = [
        "run_now",
        "pause",
        "cancel_run",
        "unlock",
        "make_preview",
        {"title": _("Pages"), "items": ["open_page", "open_draft", "open_preview"]},
    ]
    change_form_outer_before_template = "admin/sync.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return Judged

    @admin.display(description=_("Health"))
    def health(self, row: Any) -> str | SafeString:
        return columns.sign(words.health(row.headline) if row.headline else None)

    def get_actions_detail(self, request: HttpRequest, object_id: int) -> list[Any]:
        """Only buttons that can do something now."""
        row = self.get_object(request, quote(object_id))
        if row is None:
            return []
        hidden = self._impossible(request, row)
        found: list[Any] = super().get_actions_detail(request, object_id)
        return [one for one in found if one.method.original_function_name not in hidden]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id) if object_id else None
        shown = dict(extra_context or {})
        if row is not None and self.has_view_permission(request, row):
            shown["overview"] = _overview(row)
        page: HttpResponse = super().changeform_view(request, object_id, form_url, shown)
        return page

    def _impossible(self, request: HttpRequest, row: Sync) -> set[str]:
        lease = Lease.objects.filter(sync=row).exclude(run=None).first()
        possible = {
            "run_now": row.state == SyncState.PUBLISHED,
            "pause": row.state in (SyncState.PUBLISHED, SyncState.EDITED),
            "cancel_run": _open_run(row) is not None,
            "unlock": lease is not None and services.lease_may_be_taken(lease, queries.now()),
            "open_page": _is_known(request, row),
            "open_draft": _is_known(request, row),
            "open_preview": row.previews.exists(),
        }
        return {name for name, yes in possible.items() if not yes}

    # --- Acts ---------------------------------------------------------------------------------------------------------
    def _ask(self, request: HttpRequest, row: Sync, question: Question, act: Callable[[str], str]) -> HttpResponse:
        return kinds.ask(self, request, question, reverse("admin:syncs_sync_change", args=[row.pk]), act)

    @action(description=_("Run now"), url_path="run", icon="play_arrow", permissions=["operate"])
    def run_now(self, request: HttpRequest, object_id: int) -> HttpResponse:
        row = self.row_for(request, object_id)

        def start(reason: str) -> str:
            run = services.run_start(kinds.actor_of(request), row)
            return _now("Run %(number)d is on its way.") % {"number": run.pk}

        question = Question(
            title=_now("Run %(sync)s now") % {"sync": row},
            sentences=(
                _now("It reads what changed since the last run that a person started, and sends what the rule allows."),
                _now("Where another run is going on, nothing is read or written."),
            ),
            button=_now("Run now"),
            reason=False,
            possible=row.state == SyncState.PUBLISHED,
        )
        return self._ask(request, row, question, start)

    @action(description=_("Pause"), url_path="pause", icon="pause", permissions=["operate"])
    def pause(self, request: HttpRequest, object_id: int) -> HttpResponse:
        row = self.row_for(request, object_id)

        def pause(reason: str) -> str:
            services.sync_pause(kinds.actor_of(request), row, reason=reason)
            return _now("Paused. Nothing starts it again by itself: publish it when it may go on.")

        question = Question(
            title=_now("Pause %(sync)s") % {"sync": row},
            sentences=(
                _now("A run that is going on stops before its next write. The cursor stays where it is."),
                _now("While it is paused, withdrawals are not carried to the destination."),
            ),
            button=_now("Pause"),
            dangerous=True,
            possible=row.state in (SyncState.PUBLISHED, SyncState.EDITED),
        )
        return self._ask(request, row, question, pause)

    @action(description=_("Cancel the run"), url_path="cancel", icon="stop", permissions=["operate"])
    def cancel_run(self, request: HttpRequest, object_id: int) -> HttpResponse:
        row = self.row_for(request, object_id)
        run = _open_run(row)

        def cancel(reason: str) -> str:
            if run is not None:
                services.run_cancel(kinds.actor_of(request), run, reason=reason)
            return _now("The run was asked to stop: it ends before its next write.")

        number = run.pk if run is not None else 0
        question = Question(
            title=_now("Cancel run %(number)d of %(sync)s") % {"number": number, "sync": row},
            sentences=(_now("What was sent stays sent, and is known by its keys. The next run goes on from there."),),
            button=_now("Cancel the run"),
            dangerous=True,
            possible=run is not None,
        )
        return self._ask(request, row, question, cancel)

    @action(description=_("Unlock the lease"), url_path="unlock", icon="lock_open", permissions=["operate"])
    def unlock(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Only a lease that is over, or whose process is proven dead (PRODUCT 9.3)."""
        row = self.row_for(request, object_id)
        lease = Lease.objects.filter(sync=row).first()

        def take_over(reason: str) -> str:
            taken = services.lease_take_over(kinds.actor_of(request), row, reason=reason)
            return _now("The lease is free. Its fencing number is %(fence)d now.") % {"fence": taken.fence}

        question = Question(
            title=_now("Unlock the lease of %(sync)s") % {"sync": row},
            sentences=_about_lease(lease),
            button=_now("Unlock the lease"),
            dangerous=True,
            possible=lease is not None
            and lease.run_id is not None
            and services.lease_may_be_taken(lease, queries.now()),
        )
        return self._ask(request, row, question, take_over)

    @action(description=_("Preview the draft"), url_path="make-preview", icon="preview", permissions=["edit"])
    def make_preview(self, request: HttpRequest, object_id: int) -> HttpResponse:
        row = self.row_for(request, object_id)

        def preview(reason: str) -> str:
            services.sync_preview(kinds.actor_of(request), row)
            return _now("The preview is made. Look at it under Latest preview.")

        question = Question(
            title=_now("Preview the draft of %(sync)s") % {"sync": row},
            sentences=(_now("It reads real records of the source now, and writes nothing there or elsewhere."),),
            button=_now("Preview the draft"),
            reason=False,
        )
        return self._ask(request, row, question, preview)

    # --- Ways to the merchant's pages ---------------------------------------------------------------------------------
    @action(description=_("Merchant's page"), url_path="page")
    def open_page(self, request: HttpRequest, object_id: int) -> HttpResponse:
        row = self.row_for(request, object_id)
        return redirect("sync", row.workspace.slug, row.pk)

    @action(description=_("Draft"), url_path="draft")
    def open_draft(self, request: HttpRequest, object_id: int) -> HttpResponse:
        row = self.row_for(request, object_id)
        return redirect("draft", row.workspace.slug, row.pk)

    @action(description=_("Latest preview"), url_path="preview")
    def open_preview(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Where it can be published from: the merchant's page for its members, the one here for others."""
        row = self.row_for(request, object_id)
        latest = Preview.objects.filter(sync=row).order_by("-made_at").first()
        if latest is None:
            return redirect("draft", row.workspace.slug, row.pk)
        if not _is_known(request, row):
            return redirect("admin:syncs_preview_change", latest.pk)
        return redirect("preview", row.workspace.slug, row.pk, latest.pk)


@dataclass(frozen=True, slots=True)
class Overview:
    """What a sync's page shows above its fields: how it is, and since when it must be so."""

    sign: str | SafeString
    sentence: str
    banner: standing.Banner | None
    lease: Lease | None


def _overview(sync: Sync) -> Overview:
    facts = facts_of(sync, tuple(latest(sync)))
    judged = standing.judge(facts, queries.now(), columns.zone_of(sync))
    return Overview(columns.sign(judged.sign), judged.sentence, judged.banner, facts.lease)


def _open_run(sync: Sync) -> Run | None:
    return Run.objects.filter(sync=sync, state__in=[RunState.WAITING.value, RunState.RUNNING.value]).first()


def _is_known(request: HttpRequest, sync: Sync) -> bool:
    """Whether the merchant's pages are there for whoever asks: for superusers and members."""
    user = kinds.user_of(request)
    return user.is_superuser or sync.workspace.memberships.filter(user=user).exists()


def _about_lease(lease: Lease | None) -> tuple[str, ...]:
    if lease is None or lease.run_id is None:
        return (_now("Nobody holds this sync: there is nothing to unlock."),)
    held = _now("Held under fencing number %(fence)d by %(holder)s, until %(until)s UTC.") % {
        "fence": lease.fence,
        "holder": lease.holder,
        "until": f"{lease.expires_at:%Y-%m-%d %H:%M:%S}",
    }
    only = _now("A lease is unlocked only when it is over, or its process is proven dead.")
    then = _now("The fencing number grows by one: whoever held it can write and move nothing any more.")
    return held, only, then


# --- Versions and previews -------------------------------------------------------------------------------------------
@admin.register(Version)
class VersionAdmin(Shown):
    """What was published, for ever; the database refuses changes."""

    left_out = ("publisher",)
    list_display: ClassVar = [
        "sync",
        plain("number"),
        "short",
        plain("publisher_label"),
        moment("published_at"),
        plain("reason"),
    ]
    list_filter: ClassVar = [OfSync]
    list_select_related: ClassVar = ["sync__workspace"]
    search_fields: ClassVar = ["sync__name", "digest"]
    ordering: ClassVar = ["-pk"]

    @admin.display(description=labels.field("digest"))
    def short(self, row: Version) -> str:
        return row.digest[:12]


@admin.register(Preview)
class PreviewAdmin(Uncounted):
    """What drafts would have done; values are masked. From here it is published, by who may."""

    list_display: ClassVar = [
        "sync",
        plain("draft_revision"),
        "short",
        yes_or_no("publishable"),
        "made_by",
        moment("made_at"),
    ]
    list_filter: ClassVar = ["publishable"]
    list_select_related: ClassVar = ["sync__workspace", "made_by"]
    search_fields: ClassVar = ["sync__name"]
    ordering: ClassVar = ["-pk"]
    actions_detail: ClassVar = ["publish"]

    @admin.display(description=labels.field("digest"))
    def short(self, row: Preview) -> str:
        return row.digest[:12] or columns.MISSING

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return ["summary", *super().get_fields(request, obj)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[Any]:
        return ["summary", *super().get_readonly_fields(request, obj)]

    @admin.display(description=_("In short"))
    def summary(self, row: Preview) -> str:
        """What stands in the way, or what it would do: refusals first."""
        result = row.result
        blocks = [str(block) for block in result.get("blocks", ())]
        refused = [f"{number} {words.refusal(code)}" for code, number in result.get("refusals", {}).items()]
        states = [
            f"{number} {words.PREVIEW_STATES.get(code, code)}" for code, number in result.get("states", {}).items()
        ]
        return " ".join(blocks) or "; ".join(part for part in (", ".join(refused), ", ".join(states)) if part)

    def get_actions_detail(self, request: HttpRequest, object_id: int) -> list[Any]:
        row = self.get_object(request, quote(object_id))
        found: list[Any] = super().get_actions_detail(request, object_id)
        return found if row is not None and row.publishable else []

    @action(
        description=_("Publish exactly this"),
        url_path="publish",
        variant=ActionVariant.PRIMARY,
        permissions=["publish"],
    )
    def publish(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Publish the digest that was previewed, and no other (PRODUCT 6.2)."""
        row = self.row_for(request, object_id)

        def publish(reason: str) -> str:
            # The question before lists where it reaches further: pressing its button confirms that.
            version = services.sync_publish(
                kinds.actor_of(request), row.sync, digest=row.digest, reason=reason, widening_confirmed=True
            )
            said = _now("Version %(number)d is published (%(digest)s). Runs follow the schedule from now on.")
            return said % {"number": version.number, "digest": version.digest[:12]}

        question = Question(
            title=_now("Publish %(sync)s") % {"sync": row.sync},
            sentences=(
                _now("Exactly what was previewed is published: digest %(digest)s.") % {"digest": row.digest[:12]},
                self.summary(row),
                *previews.widens(row),
            ),
            button=_now("Publish exactly this (%(digest)s)") % {"digest": row.digest[:12]},
            possible=row.publishable,
        )
        return kinds.ask(self, request, question, reverse("admin:syncs_sync_change", args=[row.sync_id]), publish)
