"""``manage.py ledger_prune``: forget settled rows that are old enough."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from syncs import services
from syncs.management import shell
from syncs.management.shell import Exit


class Command(shell.ShellCommand):
    help = (
        "Deletes settled ledger rows older than VIGIL_LEDGER_DAYS that no open read needs, in chunks. The tick does "
        "the same each minute. Tombstones stay: nothing is sent again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="Say how many rows it would delete; delete none.")

    def act(self, **given: Any) -> int:
        dry = given["dry_run"]
        number = services.ledger_prune_plan() if dry else services.ledger_prune()
        said = (
            ngettext("%(n)s row would be deleted.", "%(n)s rows would be deleted.", number)
            if dry
            else ngettext("%(n)s row was deleted.", "%(n)s rows were deleted.", number)
        )
        days = _("The ledger keeps %(days)d days.") % {"days": services.ledger_age().days}
        self.say(f"{said % {'n': f'{number:,}'}} {days}")
        self.answer({"exit": int(Exit.DONE), "dry_run": dry, "rows": number, "days": services.ledger_age().days})
        return Exit.DONE
