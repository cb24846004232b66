"""``manage.py vigil_doctor``: is this installation able to work?"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django.conf import settings
from django.core import checks
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from syncs import queries, words
from syncs.domain.lifecycle import SyncState
from syncs.management import shell
from syncs.management.shell import Exit
from syncs.models import Sync
from syncs.queries import watch
from syncs.queries.watch import Tally

POSTGRES: Final = 15
OVERDUE: Final = timedelta(minutes=2)
"""What has been due for longer than this is not being started."""


class State(StrEnum):
    """How a line is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing looked at: how it is, in a sentence, and what to do about it."""

    name: str
    state: State
    sentence: str
    todo: str = ""


def settings_line() -> Line:
    """What the system checks say, those for production with them."""
    found = [one for one in checks.run_checks(include_deployment_checks=settings.PRODUCTION) if not one.is_silenced()]
    if not found:
        return Line("settings", State.OK, _("The system checks find nothing."))
    worst = max(found, key=lambda one: one.level)
    state = State.BAD if worst.level >= checks.ERROR else State.WARN
    said = ngettext("%(n)d check complains", "%(n)d checks complain", len(found)) % {"n": len(found)}
    return Line(
        "settings", state, f"{said}: {worst.msg} [{worst.id}]", _("See them all with manage.py check --deploy.")
    )


def database_line() -> Line:
    """Whether the database answers, and is new enough."""
    try:
        connection.ensure_connection()
    except Error as error:
        said = _("The database does not answer (%(error)s).") % {"error": type(error).__name__}
        return Line("database", State.BAD, said, _("Check DATABASE_URL, and that PostgreSQL is running."))
    found = connection.cursor().connection.info.server_version // 10_000
    named = {"found": found, "least": POSTGRES}
    if found < POSTGRES:
        return Line(
            "database", State.BAD, _("It is PostgreSQL %(found)d.") % named, _("Use %(least)d or newer.") % named
        )
    return Line("database", State.OK, _("PostgreSQL %(found)d answers.") % named)


def migrations_line() -> Line:
    """Whether the tables are those of this code."""
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not missing:
        return Line("migrations", State.OK, _("All migrations are applied."))
    said = ngettext("%(n)d migration is missing.", "%(n)d migrations are missing.", len(missing)) % {"n": len(missing)}
    return Line("migrations", State.BAD, said, _("Run manage.py migrate."))


def workers_line(now: datetime) -> Line:
    """Whether anybody would take a run."""
    found = _measured("workers", now)
    if found is None:
        return _unmeasured("workers")
    if found.number:
        said = ngettext("%(n)d worker process lives.", "%(n)d worker processes live.", found.number)
        return Line("workers", State.OK, said % {"n": found.number})
    last = _("last sign %(ago)s") % {"ago": words.relative(found.at, now)} if found.at else _("there was never one")
    needed = Sync.objects.filter(state=SyncState.PUBLISHED.value).exists()
    said = _("No worker process lives (%(last)s).") % {"last": last}
    return Line("workers", State.BAD if needed else State.WARN, said, _("Start manage.py vigil_worker."))


def queue_line(now: datetime) -> Line:
    """Whether what is due is started."""
    due = _measured("due", now)
    if due is None:
        return _unmeasured("queue")
    if due.number == 0 or due.at is None or now - due.at <= OVERDUE:
        return Line("queue", State.OK, _("Nothing that is due waits for long."))
    said = ngettext("%(n)d run is due, the oldest %(ago)s.", "%(n)d runs are due, the oldest %(ago)s.", due.number)
    named = {"n": due.number, "ago": words.relative(due.at, now)}
    return Line("queue", State.BAD, said % named, _("Look at the worker's log, and start more workers if it is busy."))


def clock_line(now: datetime) -> Line:
    """How far this process's clock is from the database's (PRODUCT 8.5)."""
    found = _measured("skew", now)
    if found is None:
        return _unmeasured("clock")
    skew = timedelta(milliseconds=abs(found.number))
    said = _("This host's clock is %(n)s s off the database's.") % {"n": f"{skew.total_seconds():.3f}"}
    if skew <= watch.SKEW_WARNS:
        return Line("clock", State.OK, said)
    state = State.BAD if skew > watch.SKEW_BAD else State.WARN
    return Line("clock", state, said, _("Let both hosts follow the same time server."))


def zones_line() -> Line:
    """Whether time zones come from the pinned package, as on every other host (PRODUCT 8.2)."""
    version = watch.zone_data()
    if version is None:
        return Line("time zones", State.BAD, _("tzdata is not installed."), _("Install the locked requirements."))
    said = _("tzdata %(version)s") % {"version": version}
    if zoneinfo.TZPATH:
        before = _("%(said)s is installed, but this host's own zones come before it.") % {"said": said}
        return Line("time zones", State.WARN, before, _("Set PYTHONTZPATH to the empty text for every process."))
    return Line("time zones", State.OK, _("%(said)s, on every host the same.") % {"said": said})


def tick_line(now: datetime) -> Line:
    """Whether the timetable is looked at each minute."""
    found = _measured("tick", now)
    if found is None:
        return _unmeasured("tick")
    if found.at is not None and now - found.at <= watch.TICK_LATE:
        return Line("tick", State.OK, _("The last tick ended %(ago)s.") % {"ago": words.relative(found.at, now)})
    last = (
        _("The last tick ended %(ago)s.") % {"ago": words.relative(found.at, now)}
        if found.at
        else _("It never ticked.")
    )
    advice = _("Start manage.py vigil_worker. Its first tick comes within two minutes.")
    return Line("tick", State.BAD, f"{last} {_('Nothing is planned meanwhile.')}", advice)


def _measured(group: str, now: datetime) -> Tally | None:
    return watch.measure([group], now).get(group)


def _unmeasured(name: str) -> Line:
    """What could not be measured is never green."""
    return Line(name, State.BAD, _("It could not be measured."), _("Look at the database's log."))


MEASURED: Final[tuple[Callable[[datetime], Line], ...]] = (workers_line, queue_line, clock_line, tick_line)
"""What only a database that answers, with the tables of this code, can tell."""


def lines() -> Iterator[Line]:
    """Everything that is looked at, the database first: where it does not answer, nothing behind it is asked."""
    yield settings_line()
    yield zones_line()
    for first in (database_line, migrations_line):
        line = first()
        yield line
        if line.state is State.BAD:
            return
    now = queries.now()
    for look in MEASURED:
        yield look(now)


class Command(shell.ShellCommand):
    help = "Looks at settings, database, migrations, workers, queue, clocks, time zones and the tick; one line each."
    # It tells of them itself.
    requires_system_checks = []

    def act(self, **given: Any) -> int:
        found = []
        for line in lines():
            found.append(line)
            self.say(f"{line.state.value:<4} {line.name}: {line.sentence}{f' {line.todo}' if line.todo else ''}")
        bad = any(line.state is State.BAD for line in found)
        code = Exit.UNWELL if bad else Exit.DONE
        told = [
            {"name": one.name, "state": one.state.value, "sentence": one.sentence, "todo": one.todo} for one in found
        ]
        self.answer({"exit": int(code), "lines": told})
        return int(code)
