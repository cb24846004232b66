"""Django's own command, told of the names under which the house imports gettext."""

from __future__ import annotations

from django.core.management.commands import makemessages


class Command(makemessages.Command):
    xgettext_options = [
        *makemessages.Command.xgettext_options,
        "--keyword=_lazy",
        "--keyword=_now",
    ]
