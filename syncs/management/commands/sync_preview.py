"""``manage.py sync_preview``: what the draft would do, read now, written nowhere."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from syncs import services, words
from syncs.management import shell
from syncs.management.shell import Exit
from syncs.models import Preview


class Command(shell.ShellCommand):
    help = "Reads real records now, through the code of a run, and says what the draft would do. It writes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        shell.add_sync(parser)
        shell.add_actor(parser)

    def act(self, **given: Any) -> int:
        sync = shell.sync_of(given["sync"], given["workspace"])
        preview = services.sync_preview(shell.actor_of(given["by"]), sync)
        code = exit_of(preview)
        self._tell(preview)
        self.answer(
            {
                "exit": int(code),
                "sync": sync.pk,
                "preview": preview.pk,
                "digest": preview.digest,
                "publishable": preview.publishable,
                "valid_until": preview.valid_until,
                "result": preview.result,
            }
        )
        return int(code)

    def _tell(self, preview: Preview) -> None:
        found = preview.result
        if "read" in found:
            named = {"read": f"{found['read']:,}", "counted": f"{found['counted']:,}", "source": found["source"]}
            self.say(_("Read %(read)s of %(counted)s records that %(source)s counts. Nothing was written.") % named)
            for state, number in sorted(found["states"].items(), key=lambda pair: -pair[1]):
                why = shell.reasons(found["refusals"]) if state == "refused" else ""
                self.say(f"  {number:,} {words.PREVIEW_STATES.get(state, state)}{why}")
        for row in found["rows"]:
            self.say(f"  {_row(row)}")
        for sentence in (*found["notes"], *found["blocks"]):
            self.say(sentence)
        if preview.publishable:
            zone = words.zone_of(preview.sync.workspace.zone)
            named = {
                "sync": preview.sync_id,
                "digest": preview.digest,
                "at": shell.both_times(preview.valid_until, zone),
            }
            self.say(_("Publish exactly this until %(at)s:") % named)
            self.say(f"  manage.py sync_publish {preview.sync_id} --digest {preview.digest} --by USER")


def _row(row: dict[str, Any]) -> str:
    fields = ", ".join(f"{one['to']} {one['old'] or '-'} -> {one['new'] or '-'}" for one in row["fields"])
    word = str(words.PREVIEW_STATES.get(row["state"], row["state"]))
    why = words.refusal(row["reason"]) if row["reason"] else fields
    return f"{row['id']}: {word}{f': {why}' if why else ''}"


def exit_of(preview: Preview) -> Exit:
    """What stands in the way is a proof that failed; what could not be read at all says by its code which of both."""
    code = preview.result.get("code", "")
    if code and code not in shell.UNPROVED:
        return Exit.UNREADABLE
    return Exit.DONE if preview.publishable else Exit.PROOF
