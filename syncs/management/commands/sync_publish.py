"""``manage.py sync_publish``: publish exactly what was previewed."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from syncs import services, words
from syncs.management import shell
from syncs.management.shell import Exit


class Command(shell.ShellCommand):
    help = (
        "Publishes a sync's draft under the digest of its preview (sync_preview). A paused sync goes on the same way."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        shell.add_sync(parser)
        parser.add_argument("--digest", required=True, metavar="D", help="The whole digest that the preview showed.")
        shell.add_actor(parser, required=True)
        parser.add_argument("--reason", default="", help="Why; it is in the activity and with the version.")

    def act(self, **given: Any) -> int:
        actor = shell.actor_of(given["by"])
        sync = shell.sync_of(given["sync"], given["workspace"])
        version = services.sync_publish(actor, sync, digest=given["digest"].strip().lower(), reason=given["reason"])
        at = shell.both_times(version.published_at, words.zone_of(sync.workspace.zone))
        named = {"number": version.number, "sync": sync.name, "by": version.publisher_label, "at": at}
        self.say(_("Version %(number)d of %(sync)s is published by %(by)s, at %(at)s.") % named)
        self.answer(
            {
                "exit": int(Exit.DONE),
                "sync": sync.pk,
                "version": version.number,
                "digest": version.digest,
                "publisher": version.publisher_label,
                "published_at": version.published_at,
            }
        )
        return Exit.DONE
