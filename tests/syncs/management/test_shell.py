"""What the commands share: instants, names, exit codes, signals, progress. Nothing of a run."""

from __future__ import annotations

import io
import json
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.core.management.base import OutputWrapper

from connectors.errors import Passing, ScopeMissing, Unreadable
from syncs import services
from syncs.domain.clock import ManualClock
from syncs.domain.lifecycle import Outcome, RunState
from syncs.errors import Collided, DraftChanged, NotFound, PermissionMissing, PublicationInvalid
from syncs.management import shell
from syncs.models import Run
from syncs.models.workspaces import Role
from tests import factories

NOON = datetime(2026, 10, 8, 12, 0, tzinfo=UTC)
OURS = (
    "backfill",
    "connections_test",
    "ledger_prune",
    "ledger_trace",
    "sync_preview",
    "sync_publish",
    "sync_run",
    "vigil_doctor",
)


# --- Instants and names -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-10-08T14:00:00+02:00", NOON),
        ("2026-10-08T12:00Z", NOON),
        ("2026-10-25T02:30:00+01:00", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_an_instant_has_its_zone(text: str, at: datetime) -> None:
    assert shell.instant(text, "--since") == at


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("yesterday", "--since is no instant: write one such as 2026-10-08T14:05:00+02:00."),
        (
            "2026-10-08",
            "--since has no zone: it reads 2026-10-08T00:00:00, and nobody knows on whose clock. "
            "Write 2026-10-08T00:00:00Z for UTC, or 2026-10-08T00:00:00+02:00.",
        ),
        ("0001-01-01T00:00:00+10:00", "--since is beyond the calendar: write a later year."),
        ("2026-10-08T12:00:00.5Z", "--since has parts of a second: leave them out."),
    ],
)
def test_an_instant_that_cannot_be_used_is_refused_with_its_reading(text: str, sentence: str) -> None:
    with pytest.raises(shell.Misused) as refused:
        shell.instant(text, "--since")
    assert str(refused.value) == sentence


@pytest.mark.django_db
def test_a_sync_is_found_by_its_number_its_name_and_its_short_name() -> None:
    acme, other = factories.workspace("ACME"), factories.workspace("Other")
    mine = factories.sync(acme, name="Contacts to Mail")
    factories.sync(other, name="Orders")
    for name in (str(mine.pk), "Contacts to Mail", "contacts to mail", "contacts-to-mail"):
        assert shell.sync_of(name, "") == mine
        assert shell.sync_of(name, acme.slug) == mine


@pytest.mark.django_db
def test_a_name_of_two_workspaces_wants_one_of_them_and_no_other_workspaces_sync_is_found() -> None:
    acme, other = factories.workspace("ACME"), factories.workspace("Other")
    mine, theirs = factories.sync(acme, name="Contacts"), factories.sync(other, name="Contacts")
    assert shell.sync_of("Contacts", other.slug) == theirs
    with pytest.raises(shell.Misused, match=r"^More than one sync is called 'Contacts': add --workspace"):
        shell.sync_of("Contacts", "")
    with pytest.raises(shell.Misused, match=rf"^There is no sync '{mine.pk}'"):
        shell.sync_of(str(mine.pk), other.slug)
    with pytest.raises(shell.Misused, match=r"^There is no workspace 'nowhere'"):
        shell.sync_of("Contacts", "nowhere")


@pytest.mark.django_db
def test_who_acts_is_a_person_with_their_role_or_the_operator_of_the_shell() -> None:
    place = factories.workspace()
    viewer = factories.member(place, Role.VIEWER, "vera")
    with pytest.raises(PermissionMissing):
        shell.actor_of("vera").require(place, Role.OPERATOR)
    shell.actor_of("vera").require(place, Role.VIEWER)
    nobody = shell.actor_of("")
    nobody.require(place, Role.PUBLISHER)
    assert (nobody.user, nobody.label.endswith(" at the shell")) == (None, True)
    viewer.is_active = False
    viewer.save()
    with pytest.raises(shell.Misused, match=r"^There is no active user 'vera'"):
        shell.actor_of("vera")


# --- Exit codes -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_an_exit_code(outcome: Outcome) -> None:
    assert outcome in shell.OF_OUTCOME


@pytest.mark.parametrize(
    ("outcome", "code", "states", "expected"),
    [
        ("succeeded", "", {"written": 3, "refused": 9}, 0),
        ("succeeded", "", {"written": 3, "set_aside": 1}, 3),
        ("failed", "unavailable", {}, 4),
        ("failed", "wrong_account", {}, 6),
        ("collided", "collision", {}, 5),
        ("superseded", "superseded", {}, 6),
        ("short", "read_short", {}, 7),
        ("unreadable", "unreadable", {}, 7),
        ("stopped_at_limit", "", {}, 8),
    ],
)
def test_a_finished_run_ends_the_command_with_its_code(
    outcome: str, code: str, states: dict[str, int], expected: int
) -> None:
    run = Run(state=RunState.FINISHED.value, outcome=outcome, error_code=code, states=states)
    assert shell.exit_of(run) == expected


def test_a_run_that_has_not_ended_is_parked() -> None:
    assert shell.exit_of(Run(state=RunState.PARKED.value)) == 8


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Collided("x"), 5),
        (PublicationInvalid("x"), 6),
        (DraftChanged("x"), 6),
        (ScopeMissing("x"), 6),
        (Unreadable("x"), 7),
        (Passing("x"), 7),
        (PermissionMissing("x"), 2),
        (NotFound("x"), 2),
    ],
)
def test_what_a_service_refuses_has_an_exit_code(error: Exception, code: int) -> None:
    assert shell.exit_for(error) == code


@pytest.mark.parametrize("name", OURS)
def test_help_prints_the_exit_codes(name: str) -> None:
    shown = load_command_class(get_commands()[name], name).create_parser("manage.py", name).format_help()
    assert shell.EXITS in shown
    assert "--json" in shown


@pytest.mark.django_db
def test_wrong_use_is_one_sentence_and_with_json_one_object_too() -> None:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("sync_run", "nothing", "--json", stdout=out, stderr=err)
    sentence = "There is no sync 'nothing': write its number or its name, and its --workspace."
    assert ended.value.code == 2
    assert err.getvalue() == f"{sentence}\n"
    assert json.loads(out.getvalue()) == {"exit": 2, "error": {"code": "", "sentence": sentence}}


def test_a_missing_option_is_wrong_use() -> None:
    with pytest.raises(CommandError, match="the following arguments are required: --digest, --by"):
        call_command("sync_publish", "1")


# --- Signals ----------------------------------------------------------------------------------------------------------
def test_the_first_signal_asks_and_one_half_a_minute_later_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    left: list[int] = []
    monkeypatch.setattr(shell, "leave", left.append)
    clock = ManualClock(NOON)
    before = signal.getsignal(signal.SIGTERM)
    with shell.Stopping(said.append, clock) as stopping:
        assert not stopping.asked()
        signal.raise_signal(signal.SIGTERM)
        clock.advance(timedelta(seconds=29))
        signal.raise_signal(signal.SIGINT)
        assert (stopping.asked(), stopping.code, left) == (True, 143, [])
        clock.advance(timedelta(seconds=1))
        signal.raise_signal(signal.SIGINT)
        assert left == [130]
    assert signal.getsignal(signal.SIGTERM) is before
    assert said == [
        "Stopping: the page in hand is finished first.",
        "Still finishing the page in hand. A signal after half a minute ends it at once.",
    ]


# --- Progress ---------------------------------------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def seen(done: int, **more: Any) -> services.Seen:
    given: dict[str, Any] = {
        "state": RunState.RUNNING,
        "phase": "reading",
        "failures": 0,
        "sentence": "",
        "due_after": NOON,
        "due_in": 0.0,
        "expected": 200,
        "here": True,
    }
    return services.Seen(done=done, **{**given, **more})


def shown(out: io.StringIO, mode: str) -> str:
    """Three looks, each ten seconds after the one before."""
    clock = ManualClock(NOON)
    progress = shell.Progress(OutputWrapper(out), mode, clock)
    for done in (0, 50, 100):
        clock.advance(timedelta(seconds=10))
        progress.show(seen(done))
    progress.end()
    return out.getvalue()


def test_elsewhere_there_is_a_line_every_ten_seconds() -> None:
    assert shown(io.StringIO(), "auto") == (
        "0 of 200 records, 0 a second\n"
        "50 of 200 records, 2 a second, 60 seconds left\n"
        "100 of 200 records, 3 a second, 30 seconds left\n"
    )


def test_a_terminal_gets_a_bar_unless_lines_are_wanted() -> None:
    drawn = shown(Terminal(), "auto")
    assert f"[{'#' * 15}{'.' * 15}] 100 of 200 records" in drawn
    assert drawn.endswith("\r\033[K")
    assert "#" not in shown(Terminal(), "plain")


def test_none_is_silent() -> None:
    assert shown(io.StringIO(), "none") == ""


def test_a_wait_for_the_next_attempt_is_told_once() -> None:
    out = io.StringIO()
    progress = shell.Progress(OutputWrapper(out), "auto", ManualClock(NOON))
    waits = seen(5, state=RunState.WAITING, due_in=60.0, sentence="Brevo is away.")
    progress.show(waits)
    progress.show(waits)
    assert out.getvalue() == "Brevo is away. It is tried again at 12:00:00 UTC.\n"
