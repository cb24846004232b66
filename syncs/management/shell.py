"""What all commands for people at a shell share: options, exit codes, output, progress, signals (UX, section 4).

A command answers with an exit code. What a person can cause is one sentence on stderr and a code of its own, never a
traceback. With ``--json`` stdout holds one object and nothing else; everything for people goes to stderr.
"""

from __future__ import annotations

import getpass
import json
import os
import signal
import sys
import threading
from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from enum import IntEnum
from types import FrameType
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandParser, DjangoHelpFormatter, OutputWrapper
from django.utils.text import slugify
from django.utils.translation import gettext as _

from connectors.errors import ConnectorError, Refused
from syncs import services, words
from syncs.domain.clock import Clock, SystemClock
from syncs.domain.lifecycle import DeliveryState, Outcome, RunState
from syncs.errors import Collided, DraftChanged, PublicationInvalid, VigilError
from syncs.models import Run, Sync, Workspace
from syncs.queries.trace import NotSearchable


class Exit(IntEnum):
    """How a command ended. A signal ends it with 128 and its number."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    WITHIN = 3
    FAILED = 4
    OWNED = 5
    PROOF = 6
    UNREADABLE = 7
    LIMIT = 8
    UNWELL = 9


EXITS: Final = """exit codes:
  0        done; refused people are normal
  1        unexpected
  2        wrong use
  3        some records were set aside, within the rule's tolerance
  4        tolerance exceeded, or the run failed
  5        another run owns the sync
  6        a proof failed: version, digest or connection
  7        the source was unreadable, short or unproven
  8        a limit or budget was reached, or the run is parked
  9        something is bad (vigil_doctor)
  130, 143 ended by a signal (Ctrl-C, SIGTERM), with its place kept
"""

SIGNAL: Final = 128
HARD_AFTER: Final = 30.0
"""Seconds after the first signal from which another one ends the command at once."""
LINE_EVERY: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""
BAR_EVERY: Final = 0.2
BAR_WIDTH: Final = 30

UNPROVED: Final = frozenset(
    {
        "version_mismatch",
        "rule_invalid",
        "wrong_account",
        "scope_missing",
        "token_refused",
        "credential_unreadable",
        "protected_data_denied",
        "ip_refused",
    }
)
"""Error codes of a run that say: version, digest or connection could not be proved."""

OF_OUTCOME: Final[Mapping[Outcome, Exit]] = {
    Outcome.SUCCEEDED: Exit.DONE,
    Outcome.FAILED: Exit.FAILED,
    Outcome.INTERRUPTED: Exit.FAILED,
    Outcome.CANCELLED: Exit.FAILED,
    Outcome.UNREADABLE: Exit.UNREADABLE,
    Outcome.SHORT: Exit.UNREADABLE,
    Outcome.UNPROVEN: Exit.UNREADABLE,
    Outcome.COLLIDED: Exit.OWNED,
    Outcome.LOST_LEASE: Exit.OWNED,
    Outcome.SUPERSEDED: Exit.PROOF,
    Outcome.STOPPED: Exit.PROOF,
    Outcome.LIMIT: Exit.LIMIT,
    Outcome.PARKED: Exit.LIMIT,
    Outcome.YIELDED: Exit.LIMIT,
}


class Misused(Exception):
    """Wrong use of a command. The message is one sentence that says what to do."""


def exit_of(run: Run) -> Exit:
    """The exit code that a run calls for. One that has not ended is parked somewhere."""
    if run.state != RunState.FINISHED:
        return Exit.LIMIT
    found = OF_OUTCOME[Outcome(run.outcome)]
    if found is Exit.FAILED and run.error_code in UNPROVED:
        return Exit.PROOF
    if found is Exit.DONE and run.states.get(DeliveryState.SET_ASIDE.value):
        return Exit.WITHIN
    return found


def exit_for(error: Exception) -> Exit:
    """The exit code for what a service refused."""
    if isinstance(error, Collided):
        return Exit.OWNED
    if isinstance(error, PublicationInvalid | DraftChanged | Refused):
        return Exit.PROOF
    if isinstance(error, ConnectorError):
        return Exit.UNREADABLE
    return Exit.USAGE


# --- What is given ----------------------------------------------------------------------------------------------------
def instant(text: str, option: str) -> datetime:
    """An instant with its zone, by ISO 8601 and in whole seconds. Raises Misused with the reading of one without."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(
            _("%(option)s is no instant: write one such as 2026-10-08T14:05:00+02:00.") % {"option": option}
        ) from None
    if at.tzinfo is None:
        raise Misused(
            _(
                "%(option)s has no zone: it reads %(read)s, and nobody knows on whose clock. Write %(read)sZ for UTC, "
                "or %(read)s+02:00."
            )
            % {"option": option, "read": f"{at:%Y-%m-%dT%H:%M:%S}"}
        )
    try:
        at = at.astimezone(UTC)
    except OverflowError:
        raise Misused(_("%(option)s is beyond the calendar: write a later year.") % {"option": option}) from None
    if at.microsecond:
        raise Misused(_("%(option)s has parts of a second: leave them out.") % {"option": option})
    return at


def workspace_of(slug: str) -> Workspace:
    """A workspace by its slug; the only one for "". Raises Misused."""
    if slug:
        found = Workspace.objects.filter(slug=slug).first()
        if found is None:
            raise Misused(
                _("There is no workspace %(slug)s: write its short name as in the address of its page.")
                % {"slug": repr(slug)}
            )
        return found
    both = list(Workspace.objects.order_by("pk")[:2])
    if len(both) != 1:
        raise Misused(
            _("Say which workspace: --workspace and its short name.") if both else _("There is no workspace yet.")
        )
    return both[0]


def sync_of(name: str, slug: str) -> Sync:
    """A sync by its number, its name, or its name as it would stand in an address; in one workspace if ``slug`` says
    which. Raises Misused when there is none, or more than one."""
    related = ("workspace", "source", "destination", "published", "draft_by", "schedule")
    rows = Sync.objects.select_related(*related).order_by("pk")
    if slug:
        rows = rows.filter(workspace=workspace_of(slug))
    if name.isascii() and name.isdigit() and len(name) < 19:
        found = list(rows.filter(pk=int(name)))
    else:
        found = (
            list(rows.filter(name__iexact=name)[:2])
            or [one for one in rows if slugify(one.name) == slugify(name) and slugify(name)][:2]
        )
    if len(found) == 1:
        return found[0]
    named = {"name": repr(name)}
    if found:
        raise Misused(_("More than one sync is called %(name)s: add --workspace, or write its number.") % named)
    raise Misused(_("There is no sync %(name)s: write its number or its name, and its --workspace.") % named)


def actor_of(name: str) -> services.Actor:
    """Who acts: a person by their user name, or Vigil's operator at this shell for "". Raises Misused."""
    if not name:
        return services.vigil(_("%(name)s at the shell") % {"name": _login()})
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise Misused(_("There is no active user %(name)s: write the name they log in with.") % {"name": repr(name)})
    return services.StaffActor(user, user.get_username()) if user.is_staff else services.person(user)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return _("somebody")


def both_times(at: datetime, zone: tzinfo) -> str:
    """An instant on the workspace's clock and in UTC."""
    return f"{words.dated(at, zone)} ({at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC)"


# --- Signals ----------------------------------------------------------------------------------------------------------
class Stopping:
    """Learns of SIGINT and SIGTERM. The first one asks for a graceful end; one that comes half a minute later or more
    ends the process at once, which the ledger survives as it survives any crash."""

    def __init__(self, say: Any, clock: Clock) -> None:
        self.signum = 0
        self._say = say
        self._clock = clock
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for one in (signal.SIGINT, signal.SIGTERM):
                self._before[one] = signal.signal(one, self.on_signal)
        return self

    def __exit__(self, *_exception: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def asked(self) -> bool:
        return self.signum != 0

    @property
    def code(self) -> int:
        return SIGNAL + self.signum

    def on_signal(self, signum: int, _frame: FrameType | None) -> None:
        if not self.signum:
            self.signum, self._since = signum, self._clock.monotonic()
            self._say(_("Stopping: the page in hand is finished first."))
        elif self._clock.monotonic() - self._since >= HARD_AFTER:
            leave(SIGNAL + signum)
        else:
            self._say(_("Still finishing the page in hand. A signal after half a minute ends it at once."))


def leave(code: int) -> None:
    """End this process now, without another word."""
    os._exit(code)


# --- Progress ---------------------------------------------------------------------------------------------------------
class Progress:
    """Done of expected, rate and time left: a bar on a terminal, else a line every ten seconds."""

    def __init__(self, out: OutputWrapper, mode: str, clock: Clock) -> None:
        self._out = out
        self._is_bar = mode == "auto" and out.isatty()
        self._is_silent = mode == "none"
        self._clock = clock
        self._began = self._shown = clock.monotonic()
        self._first: int | None = None
        self._waits_for: datetime | None = None
        self._is_drawn = False

    def show(self, seen: services.Seen) -> None:
        """Show a look at the run, if it is time to."""
        self._first = seen.done if self._first is None else self._first
        if seen.state == RunState.WAITING and seen.due_in > 1 and seen.due_after != self._waits_for:
            self._waits_for = seen.due_after
            self._line(_waiting(seen))
        since = self._clock.monotonic() - self._shown
        if self._is_silent or since < (BAR_EVERY if self._is_bar else LINE_EVERY):
            return
        self._shown = self._clock.monotonic()
        if self._is_bar:
            self._is_drawn = True
            self._out.write(f"\r\033[K{_bar(seen)} {self._words(seen)}", ending="", style_func=str)
            self._out.flush()
        else:
            self._line(self._words(seen))

    def end(self) -> None:
        """Leave the line that is drawn on."""
        if self._is_drawn:
            self._out.write("\r\033[K", ending="", style_func=str)
            self._is_drawn = False

    def say(self, sentence: str) -> None:
        """A sentence that does not run into the bar."""
        self.end()
        self._out.write(sentence, style_func=str)

    def _line(self, sentence: str) -> None:
        if not self._is_silent:
            self.say(sentence)

    def _words(self, seen: services.Seen) -> str:
        seconds = max(self._clock.monotonic() - self._began, 0.001)
        rate = max(seen.done - (self._first or 0), 0) / seconds
        named = {"done": f"{seen.done:,}", "total": "?" if seen.expected is None else f"{seen.expected:,}"}
        said = _("%(done)s of %(total)s records, %(rate)s a second") % {**named, "rate": f"{rate:,.0f}"}
        if seen.expected is None or rate < 1:
            return said
        left = timedelta(seconds=max(seen.expected - seen.done, 0) / rate)
        return _("%(said)s, %(left)s left") % {"said": said, "left": words.lasting(left)}


def _waiting(seen: services.Seen) -> str:
    named = {"at": f"{seen.due_after.astimezone(UTC):%H:%M:%S} UTC", "said": seen.sentence}
    if not seen.sentence:
        return _("The run waits until %(at)s.") % named
    return _("%(said)s It is tried again at %(at)s.") % named


def _bar(seen: services.Seen) -> str:
    filled = min(BAR_WIDTH, BAR_WIDTH * seen.done // seen.expected) if seen.expected else 0
    return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"


# --- Commands ---------------------------------------------------------------------------------------------------------
class Formatter(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Django's order of options, and the exit codes as they are written."""


class ShellCommand(BaseCommand):
    """A command of the shell. `act` does it and answers with an exit code; what it raises becomes one sentence."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, **{"epilog": EXITS, "formatter_class": Formatter, **kwargs})

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="One object on stdout; words for people on stderr.")

    def act(self, **given: Any) -> int:
        """Do it. Raises what the services raise, and Misused."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        self.is_json = options["json"]
        try:
            code = self.act(**options)
        except (VigilError, ConnectorError) as error:
            code = self.refuse(error.sentence, exit_for(error), error.code)
        except (Misused, NotSearchable, services.RangeRefused) as error:
            code = self.refuse(str(error), Exit.USAGE)
        except KeyboardInterrupt:
            code = SIGNAL + signal.SIGINT
        if code:
            sys.exit(code)

    def refuse(self, sentence: str, code: int, error: str = "") -> int:
        """One sentence on stderr, and an object where one is waited for; ``code``."""
        self.warn(sentence)
        if self.is_json:
            self.answer({"exit": int(code), "error": {"code": error, "sentence": sentence}})
        return int(code)

    def say(self, text: str) -> None:
        """Words for people: on stdout, and beside the object on stderr."""
        if self.is_json:
            self.warn(text)
        else:
            self.stdout.write(text)

    def warn(self, text: str) -> None:
        self.stderr.write(text, style_func=str)

    def answer(self, found: Mapping[str, Any]) -> None:
        """The one object of ``--json``."""
        if self.is_json:
            self.stdout.write(json.dumps(found, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    """Instants in UTC, sequences as lists; everything else is a fault of ours."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"A {type(value).__name__} is no JSON value.")


def add_sync(parser: CommandParser) -> None:
    """Which sync."""
    parser.add_argument("sync", metavar="SYNC", help="The sync's number or its name.")
    add_workspace(parser)


def add_workspace(parser: CommandParser) -> None:
    parser.add_argument("--workspace", default="", help="The workspace's short name, as in the address of its page.")


def add_actor(parser: CommandParser, *, required: bool = False) -> None:
    help_text = "Who does it, by user name; their role must allow it."
    parser.add_argument(
        "--by", required=required, default="", metavar="USER", help=help_text if required else f"{help_text} Else you."
    )


def add_progress(parser: CommandParser) -> None:
    parser.add_argument(
        "--progress",
        choices=("auto", "plain", "none"),
        default="auto",
        help="A bar on a terminal, else a line every 10 s; always lines; nothing.",
    )


def add_confirm(parser: CommandParser) -> None:
    parser.add_argument("--confirm", default="", metavar="NAME", help="The sync's name: yes, this one.")
    parser.add_argument("--no-input", action="store_true", help="Ask nothing; without --confirm do nothing.")


def confirm(command: ShellCommand, sync: Sync, given: Mapping[str, Any]) -> None:
    """Have the sync's name said before something is written in bulk. Raises Misused."""
    name = given["confirm"]
    may_ask = not given["no_input"] and not command.is_json and sys.stdin is not None and sys.stdin.isatty()
    if not name and may_ask:
        command.warn(_("This writes in bulk. Type the sync's name to go on:"))
        name = sys.stdin.readline().strip()
    if not name:
        raise Misused(
            _("This writes in bulk: add --confirm and the sync's name, %(name)s. Nothing was done.")
            % {"name": repr(sync.name)}
        )
    if name != sync.name:
        raise Misused(
            _("%(given)s is not this sync's name, which is %(name)s. Nothing was done.")
            % {"given": repr(name), "name": repr(sync.name)}
        )


# --- Runs -------------------------------------------------------------------------------------------------------------
def drive(command: ShellCommand, actor: services.Actor, run: Run, *, mode: str, resume: str) -> int:
    """Drive a run in the foreground, say how it ended, and answer with its exit code.

    ``resume`` is what to type to go on after a signal.
    """
    clock = SystemClock()
    progress = Progress(command.stderr, mode, clock)
    with Stopping(progress.say, clock) as stopping:
        ended = services.run_drive(actor, run, stopping=stopping.asked, tell=progress.show)
    progress.end()
    if ended.state == RunState.FINISHED:
        code = int(exit_of(ended))
    else:
        code = stopping.code if stopping.asked() else int(Exit.LIMIT)
        command.warn(interrupted(ended, resume))
    report(command, ended, code)
    return code


def interrupted(run: Run, resume: str) -> str:
    """Where a run stands that was left before its end."""
    return _(
        "Run %(run)d keeps its place after the last whole page; nothing is lost. A worker goes on with it, or you do: "
        "%(resume)s"
    ) % {"run": run.pk, "resume": resume}


def report(command: ShellCommand, run: Run, code: int) -> None:
    """The run's counter line, which closes, and its end."""
    states = {**run.states}
    for state, number in run.unsettled.items():
        states[state] = states.get(state, 0) + number
    ended = str(words.OUTCOMES.get(run.outcome) or words.RUN_STATES[run.state])
    named = {"run": run.pk, "sync": run.sync.name, "ended": ended, "verdict": str(words.VERDICTS[run.verdict])}
    command.say(_("Run %(run)d of %(sync)s: %(ended)s, read %(verdict)s.") % named)
    command.say(_("  read %(n)s = %(parts)s") % {"n": f"{sum(states.values()):,}", "parts": _parts(states, run)})
    if run.error_sentence:
        command.say(f"  {run.error_sentence} [{run.error_code}]")
    command.answer(
        {
            "exit": code,
            "run": run.pk,
            "sync": run.sync_id,
            "lane": run.lane,
            "state": run.state,
            "outcome": run.outcome,
            "verdict": run.verdict,
            "read": sum(states.values()),
            "states": states,
            "refusals": run.refusals,
            "error": {"code": run.error_code, "sentence": run.error_sentence} if run.error_code else None,
        }
    )


def _parts(states: Mapping[str, int], run: Run) -> str:
    parts = [
        f"{states[state]:,} {word}{reasons(run.refusals) if state == DeliveryState.REFUSED else ''}"
        for state, word in words.RECORD_STATES.items()
        if states.get(state)
    ]
    return " + ".join(parts) or "0"


def reasons(refusals: Mapping[str, int]) -> str:
    """Refusals by reason, the most frequent first: " (200 no_date, 18 unsubscribed)"."""
    found = sorted(refusals.items(), key=lambda pair: (-pair[1], pair[0]))
    return f" ({', '.join(f'{number:,} {code}' for code, number in found)})" if found else ""
