"""``manage.py connections_test``: ask every vendor who our credentials are, and what they may do."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from connectors.errors import ConnectorError
from syncs import services
from syncs.management import shell
from syncs.management.shell import Exit
from syncs.models import Connection


class Command(shell.ShellCommand):
    help = "Tests connections as their button does: account, scopes given, wanted, missing and too many."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        shell.add_workspace(parser)
        shell.add_actor(parser)

    def act(self, **given: Any) -> int:
        actor = shell.actor_of(given["by"])
        rows = Connection.objects.select_related("workspace").order_by("workspace__name", "name", "pk")
        if given["workspace"]:
            rows = rows.filter(workspace=shell.workspace_of(given["workspace"]))
        tested = [self._test(actor, connection) for connection in rows]
        if not tested:
            self.say(_("There is no connection to test."))
        worst = next(
            (code for code in (Exit.PROOF, Exit.UNREADABLE) if code in [one["exit"] for one in tested]), Exit.DONE
        )
        self.answer({"exit": int(worst), "connections": tested})
        return int(worst)

    def _test(self, actor: services.Actor, connection: Connection) -> dict[str, Any]:
        found: dict[str, Any] = {
            "workspace": connection.workspace.slug,
            "name": connection.name,
            "kind": connection.kind,
        }
        try:
            checked = services.connection_check(actor, connection)
        except ConnectorError as error:
            self.say(f"{_where(connection)}: {error.sentence} [{error.code}]")
            return {
                **found,
                "exit": int(shell.exit_for(error)),
                "error": {"code": error.code, "sentence": error.sentence},
            }
        scopes = {
            "scopes": sorted(checked.identity.scopes),
            "wanted": list(checked.wanted),
            "missing": list(checked.missing),
            "too_many": list(checked.too_many),
        }
        self.say(f"{_where(connection)}: {_told(checked)}")
        code = Exit.PROOF if checked.missing else Exit.DONE
        return {
            **found,
            "exit": int(code),
            "account": checked.identity.account,
            "label": checked.identity.label,
            **scopes,
        }


def _where(connection: Connection) -> str:
    return f"{connection.workspace.name} / {connection.name} ({connection.kind})"


def _told(checked: services.Checked) -> str:
    said = [
        _("%(label)s answers (account %(account)s).")
        % {"label": checked.identity.label, "account": checked.identity.account}
    ]
    if checked.wanted:
        given = ", ".join(sorted(checked.identity.scopes)) or _("none")
        said.append(_("Scopes: %(given)s.") % {"given": given})
    if checked.missing:
        said.append(_("It lacks %(missing)s: grant it, then test again.") % {"missing": ", ".join(checked.missing)})
    if checked.too_many:
        said.append(_("It can write (%(scopes)s): give it read scopes only.") % {"scopes": ", ".join(checked.too_many)})
    return " ".join(said)
