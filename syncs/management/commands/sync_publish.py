"""``manage.py sync_publish``: publish exactly what was previewed."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from syncs import services, words
from syncs.errors import PublicationInvalid
from syncs.management import shell
from syncs.management.shell import Exit
from syncs.models import Sync, Version
from syncs.queries import previews


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
        parser.add_argument(
            "--accept-widening", action="store_true", help="Yes, it is to reach further than what is published now."
        )

    def act(self, **given: Any) -> int:
        actor = shell.actor_of(given["by"])
        sync = shell.sync_of(given["sync"], given["workspace"])
        version = self._publish(actor, sync, given)
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

    def _publish(self, actor: services.Actor, sync: Sync, given: dict[str, Any]) -> Version:
        digest, confirmed = given["digest"].strip().lower(), given["accept_widening"]
        try:
            return services.sync_publish(
                actor, sync, digest=digest, reason=given["reason"], widening_confirmed=confirmed
            )
        except PublicationInvalid as refused:
            seen = previews.preview_of(sync, digest) if refused.code == services.UNCONFIRMED else None
            if seen is None:
                raise
            for sentence in previews.widens(seen):
                self.warn(sentence)
            said = _("Nothing was published, because it reaches further. Add --accept-widening if that is meant.")
            raise PublicationInvalid(said, refused.code) from None
