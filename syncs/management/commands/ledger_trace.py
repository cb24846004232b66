"""``manage.py ledger_trace``: where is this person, or this order?"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from syncs import queries, words
from syncs.management import shell
from syncs.management.shell import Exit
from syncs.models.workspaces import Role
from syncs.queries import trace
from syncs.queries.trace import Answer, Asked, By


class Command(shell.ShellCommand):
    help = (
        "Says what became of a person or an order, in one sentence and then step by step. The ledger holds no personal "
        "data: an address is looked for by its keyed hash, and printed masked."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        asked = parser.add_mutually_exclusive_group(required=True)
        asked.add_argument("--email", help="An e-mail address, in any spelling.")
        asked.add_argument("--id", help="The source's id of a customer or an order.")
        asked.add_argument("--order", help="The source's id of an order (the ledger keeps no order names).")
        shell.add_workspace(parser)
        shell.add_actor(parser)

    def act(self, **given: Any) -> int:
        what = _asked(given)
        workspace = shell.workspace_of(given["workspace"])
        shell.actor_of(given["by"]).require(workspace, Role.VIEWER)
        found = trace.trace(workspace, what, queries.now())
        zone = words.zone_of(workspace.zone)
        self.say(f"{what.shown}: {found.sentence}")
        for answer in found.answers:
            self.say(f"\n{answer.sync.name}, {answer.record or what.shown}: {answer.sign.word}. {answer.sentence}")
            for step in answer.steps:
                when = shell.both_times(step.at, zone) if step.at else "-"
                self.say(f"  {when}  {step.what}{f' ({step.detail})' if step.detail else ''}")
        self.answer(
            {
                "exit": int(Exit.DONE),
                "asked": what.shown,
                "sentence": found.sentence,
                "answers": [_document(answer) for answer in found.answers],
                "left_out": found.left_out,
            }
        )
        return Exit.DONE


def _asked(given: dict[str, Any]) -> Asked:
    if given["email"] is not None:
        return trace.by_email(given["email"])
    if given["order"] is not None:
        return trace.by_id(given["order"], By.ORDER)
    return trace.by_id(given["id"], By.ID)


def _document(answer: Answer) -> dict[str, Any]:
    return {
        "sync": answer.sync.pk,
        "record": answer.record,
        "state": answer.where.value,
        "sentence": answer.sentence,
        "at": answer.at,
        "run": answer.run,
        "steps": [{"at": step.at, "what": step.what, "detail": step.detail} for step in answer.steps],
    }
