"""``manage.py backfill``: one range of history in the manual lane, in the foreground."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from syncs import services, words
from syncs.management import shell
from syncs.management.shell import Exit
from syncs.models import Sync
from syncs.services import BackfillPlan


class Command(shell.ShellCommand):
    help = (
        "Reads what the source changed from --since until --until, and sends what was not delivered before. It has the "
        "cursor of people to itself and leaves the timetable's alone. The same command goes on after a signal."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        shell.add_sync(parser)
        parser.add_argument(
            "--since", required=True, help="Inclusive, ISO 8601 with its zone: 2026-01-01T00:00:00+01:00."
        )
        parser.add_argument("--until", required=True, help="Exclusive, with its zone, and past.")
        parser.add_argument("--dry-run", action="store_true", help="Say what it would read and send; write nothing.")
        parser.add_argument("--reason", default="", help="Why; it is in the activity.")
        shell.add_confirm(parser)
        shell.add_actor(parser)
        shell.add_progress(parser)

    def act(self, **given: Any) -> int:
        since, until = (shell.instant(given[name], f"--{name}") for name in ("since", "until"))
        actor = shell.actor_of(given["by"])
        sync = shell.sync_of(given["sync"], given["workspace"])
        plan = services.backfill_plan(actor, sync, since=since, until=until)
        self._tell(sync, plan)
        if given["dry_run"]:
            self.answer({"exit": int(Exit.DONE), "dry_run": True, "sync": sync.pk, **_document(plan)})
            return Exit.DONE
        shell.confirm(self, sync, given)
        run = services.backfill_start(actor, sync, since=since, until=until, reason=given["reason"])
        return shell.drive(self, actor, run, mode=given["progress"], resume=_resume(sync, since, until))

    def _tell(self, sync: Sync, plan: BackfillPlan) -> None:
        zone = words.zone_of(sync.workspace.zone)
        since = plan.window.since
        named = {
            "sync": sync.name,
            "since": shell.both_times(since, zone) if since else "",
            "until": shell.both_times(plan.window.until, zone),
            "source": sync.source.kind.capitalize(),
            "destination": sync.destination.kind.capitalize(),
            "records": f"{plan.records.records:,}" if plan.records.exact else f"> {plan.records.records:,}",
            "pages": f"{plan.pages:,}",
            "writes": f"{plan.writes:,}",
            "known": f"{plan.known:,}",
        }
        self.say(_("%(sync)s, from %(since)s until %(until)s:") % named)
        self.say(_("  Records there, as %(source)s counts them: %(records)s.") % named)
        self.say(_("  Calls at most: %(pages)s to read, %(writes)s to write to %(destination)s.") % named)
        self.say(_("  Objects delivered before: %(known)s. Of those only what has changed goes out.") % named)
        if plan.rows is not None:
            self.say(_("  It goes on behind what is decided already: %(rows)s.") % {"rows": f"{plan.rows:,}"})


def _document(plan: BackfillPlan) -> dict[str, Any]:
    return {
        "since": plan.window.since,
        "until": plan.window.until,
        "records": plan.records.records,
        "records_exact": plan.records.exact,
        "pages": plan.pages,
        "writes": plan.writes,
        "known": plan.known,
        "goes_on_after": plan.rows,
    }


def _resume(sync: Sync, since: datetime, until: datetime) -> str:
    """What to type to go on; quoted so that a shell takes the name as one word."""
    quoted = sync.name.replace("'", "'\"'\"'")
    return f"manage.py backfill {sync.pk} --since {_utc(since)} --until {_utc(until)} --confirm '{quoted}'"


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
