"""``manage.py sync_run``: one run in the foreground."""

from __future__ import annotations

from typing import Any, Final

from django.core.management.base import CommandParser

from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.management import shell

LANES: Final = {"scheduled": Lane.SCHEDULED, "person": Lane.MANUAL}


class Command(shell.ShellCommand):
    help = (
        "Runs a sync once, here, until it has ended. As a person it reads with the cursor of people, as scheduled with "
        "the timetable's. A run of the same lane that waits for its next attempt is pulled forward."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        shell.add_sync(parser)
        parser.add_argument(
            "--as", dest="lane", choices=tuple(LANES), default="person", help="Whose cursor it reads with."
        )
        shell.add_actor(parser)
        shell.add_progress(parser)

    def act(self, **given: Any) -> int:
        actor = shell.actor_of(given["by"])
        sync = shell.sync_of(given["sync"], given["workspace"])
        run = services.run_start(actor, sync, lane=LANES[given["lane"]])
        resume = f"manage.py sync_run {sync.pk} --as {given['lane']}"
        return shell.drive(self, actor, run, mode=given["progress"], resume=resume)
