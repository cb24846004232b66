"""The accounts of a workspace: who they are, what they may do, when that was last tested, who uses them (UX, P10).

Nothing here opens a credential: whether one is stored, since when and by which key it is sealed is all there is to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from syncs.domain import credential
from syncs.errors import NotFound
from syncs.models import Connection, Sync, Workspace, syncs
from syncs.queries import access
from syncs.queries.access import Place
from syncs.words import Sign, Tone

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NO_CONNECTION: Final = _lazy("There is no such connection in this workspace. Choose one from the list.")

CHECKS: Final[Mapping[tuple[str, bool], object]] = {
    ("answers", True): _lazy("%(vendor)s answers: %(label)s (%(account)s)."),
    ("account", False): _lazy("It belongs to another account than the one that was published for %(syncs)s."),
    ("scopes", True): _lazy("All scopes that are wanted are given: %(scopes)s."),
    ("scopes", False): _lazy("It lacks %(scopes)s. Grant it at the vendor, then test again."),
    ("read_only", True): _lazy("It can only read."),
    ("read_only", False): _lazy("This token can write (%(scopes)s); give it read-only scopes."),
    ("version", True): _lazy("API version %(served)s is served, as asked."),
    ("version", False): _lazy("API version %(asked)s was asked for and %(served)s is served."),
    ("same_account", True): _lazy("It belongs to the same account as the one in use."),
    ("same_account", False): _lazy(
        "It belongs to %(label)s (%(account)s), the one in use to %(known_label)s (%(known)s)."
    ),
    ("same_scopes", True): _lazy("It lacks no scope that the one in use has."),
    ("same_scopes", False): _lazy("It lacks %(scopes)s, which the one in use has."),
    ("more_scopes", False): _lazy("It has %(scopes)s beyond the one in use."),
}
"""What a check says. One that is not here says what was kept with it."""

SIGNS: Final = {
    "ok": (_lazy("Good"), Tone.OK, "done"),
    "warn": (_lazy("Warning"), Tone.WARN, "warning"),
    "bad": (_lazy("Bad"), Tone.BAD, "failed"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a test looked at."""

    sign: Sign
    sentence: str


@dataclass(frozen=True, slots=True)
class Scope:
    """One scope: whether reading needs it, whether it is given, and what that means."""

    name: str
    wanted: bool
    given: bool
    sign: Sign


@dataclass(frozen=True, slots=True)
class Test:
    """A test as it was kept. Without one, ``at`` is None and nothing was checked."""

    at: datetime | None = None
    ok: bool = False
    checks: tuple[Check, ...] = ()
    scopes: tuple[Scope, ...] = ()
    label: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One connection in the list."""

    connection: Connection
    sign: Sign
    sentence: str
    test: Test
    used_by: tuple[Sync, ...]


@dataclass(frozen=True, slots=True)
class Next:
    """The slot of the credential to come: since when it is filled, its test, and what a switch would need."""

    at: datetime | None
    key_id: str
    test: Test
    may_switch: bool
    needs_publication: bool
    is_other_account: bool
    standing_still: tuple[Sync, ...]


@dataclass(frozen=True, slots=True)
class ConnectionPage:
    """One connection with both slots."""

    line: Line
    next: Next | None
    stops: tuple[Sync, ...]


def connections_of(workspace: Workspace) -> tuple[Line, ...]:
    """The connections of a workspace by name, each with its syncs. Two queries."""
    rows = list(Connection.objects.filter(workspace=workspace).order_by("name", "pk"))
    using = list(Sync.objects.filter(workspace=workspace).order_by("name", "pk"))
    return tuple(
        _line(row, tuple(sync for sync in using if row.pk in (sync.source_id, sync.destination_id))) for row in rows
    )


def connection_for(user: User, slug: str, connection_id: int) -> tuple[Place, Connection]:
    """A connection of a workspace the person belongs to. Raises NotFound."""
    place = access.workspace_for(user, slug)
    rows = Connection.objects.select_related("workspace").filter(workspace=place.workspace, pk=connection_id)
    found = rows.first()
    if found is None:
        raise NotFound(str(NO_CONNECTION))
    return place, found


def connection_page(connection: Connection) -> ConnectionPage:
    """Everything about one connection that may be seen."""
    line = _line(connection, tuple(syncs.syncs_of(connection)))
    return ConnectionPage(line, _next(connection), syncs.stopped_without(connection))


def ends_of(workspace: Workspace, kinds: Iterable[str]) -> tuple[Connection, ...]:
    """The connections of these kinds that hold a credential."""
    rows = Connection.objects.filter(Q(disconnected_at=None), workspace=workspace, kind__in=list(kinds))
    return tuple(rows.order_by("name", "pk"))


def _line(connection: Connection, using: tuple[Sync, ...]) -> Line:
    test = _test(connection.last_test)
    sign, sentence = _standing(connection, test)
    return Line(connection, sign, sentence, test, using)


def _standing(connection: Connection, test: Test) -> tuple[Sign, str]:
    """The worst that is true of a connection."""
    if connection.disconnected_at is not None:
        return Sign(_("Disconnected"), Tone.QUIET, "silent"), _("It holds no credential any more.")
    bad = [check for check in test.checks if check.sign.tone is Tone.BAD]
    if bad:
        word = _("Lacking") if connection.is_proved else _("Does not work")
        return Sign(word, Tone.BAD, "failed"), bad[0].sentence
    named = {"vendor": connection.kind.capitalize()}
    if not connection.is_proved:
        return Sign(_("Not tested"), Tone.QUIET, "open"), _(
            "The vendor was not asked since the credential was entered."
        )
    warned = [check for check in test.checks if check.sign.tone is Tone.WARN]
    if warned:
        return Sign(_("Works, with a warning"), Tone.WARN, "warning"), warned[0].sentence
    writing = credential.writing(connection.scopes)
    if writing:
        said = str(CHECKS["read_only", False]) % {"scopes": ", ".join(writing)}
        return Sign(_("Works, with a warning"), Tone.WARN, "warning"), said
    return Sign(_("Works"), Tone.OK, "done"), _("%(vendor)s answers, and it may do what is needed.") % named


def _test(kept: Mapping[str, Any] | None) -> Test:
    if not kept:
        return Test()
    return Test(
        at=datetime.fromisoformat(kept["at"]),
        ok=bool(kept["ok"]),
        checks=tuple(_check(one) for one in kept["checks"]),
        scopes=_scopes(set(kept["wanted"]), set(kept["given"])),
        label=kept.get("label", ""),
        account=kept.get("account", ""),
    )


def _check(kept: Mapping[str, Any]) -> Check:
    said = CHECKS.get((kept["name"], kept["ok"]))
    return Check(_sign(kept["tone"]), str(said) % kept["named"] if said else kept["sentence"])


def _sign(tone: str, word: str = "") -> Sign:
    name, colour, shape = SIGNS[tone]
    return Sign(word or str(name), colour, shape)


def _scopes(wanted: set[str], given: set[str]) -> tuple[Scope, ...]:
    """Wanted and given side by side; what is lacking first, then what is too much. Nothing where none are wanted."""
    if not wanted or not given:
        return ()
    found = [Scope(name, name in wanted, name in given, _meaning(name, wanted, given)) for name in wanted | given]
    return tuple(sorted(found, key=lambda one: (one.given, one.wanted, one.name)))


def _meaning(name: str, wanted: set[str], given: set[str]) -> Sign:
    if name not in given:
        return _sign("bad", _("Lacking"))
    if credential.writing([name]):
        return _sign("warn", _("Can write"))
    return _sign("ok", _("Given")) if name in wanted else Sign(_("Not needed"), Tone.QUIET, "open")


def _next(connection: Connection) -> Next | None:
    if not connection.next_sealed:
        return None
    kept = connection.next_test or {}
    test = _test(connection.next_test)
    proved = bool(kept.get("account"))
    still = syncs.standing_still(connection)
    known = {"account": connection.account, "scopes": connection.scopes}
    differs = credential.difference(kept["account"], kept["given"], known) if proved else credential.NONE
    return Next(
        at=connection.next_at,
        key_id=connection.next_key_id,
        test=test,
        may_switch=proved,
        needs_publication=bool(still) or not differs.is_none,
        is_other_account=differs.account,
        standing_still=still,
    )
