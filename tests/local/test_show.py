"""What the demo says while a run goes on: how fast, how long still, or what it waits for and until when."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local import show
from local.stage import Held
from syncs.models import Run

UNTIL = datetime(2126, 12, 1, 3, 4, 5, tzinfo=UTC)


class Clock:
    """What time passes, by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(show, "time", made)
    return made


def a_run(done: int = 0, state: str = "running", **changes: Any) -> Run:
    facts = {"state": state, "states": {"written": done}, "expected": 1000, "due_after": UNTIL, "error_sentence": ""}
    return Run(**{**facts, **changes})


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_run_that_moves_shows_its_rate_and_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = show.Progress("Contacts")
    progress.show(a_run(), None)
    clock.seconds += 10
    progress.show(a_run(200), Held(UNTIL, ours=True))
    assert said(capsys) == ["Contacts: 200 of 1,000 records, 20 a second, 40 s left"]


@pytest.mark.parametrize(
    ("run", "held", "words"),
    [
        (
            a_run(400),
            Held(UNTIL, ours=False),
            "waits until 03:04:05 UTC at the latest, for the lease of a worker that is gone",
        ),
        (
            a_run(400),
            Held(UNTIL, ours=True),
            "nothing new for 42 s, at most until 03:04:05 UTC if its worker is dead",
        ),
        (a_run(400), None, "nothing new for 42 s"),
        (a_run(400, "waiting"), None, "waits until 03:04:05 UTC"),
        (a_run(400, "waiting", due_after=UNTIL - timedelta(days=40000)), None, "waits for a worker"),
    ],
)
def test_a_run_that_waits_says_for_what_and_until_when_and_guesses_nothing(
    run: Run, held: Held | None, words: str, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = show.Progress("Contacts")
    progress.show(a_run(0), Held(UNTIL, ours=True))
    clock.seconds += 1
    progress.show(a_run(400), Held(UNTIL, ours=True))
    clock.seconds += 42
    progress.show(run, held)
    assert said(capsys) == [f"Contacts: 400 of 1,000 records, {words}"]


def test_on_a_terminal_a_line_never_goes_on_in_a_second_one(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    progress = show.Progress("Contacts")
    progress.show(a_run(500), Held(UNTIL, ours=True))
    progress.show(a_run(500), Held(UNTIL, ours=False))
    assert capsys.readouterr().err.split("\r\033[K") == [
        "",
        "Contacts [###############...............] 500 of 1,000 reco",
        "Contacts 500 of 1,000 records, waits until 03:04:05 UTC at ",
    ]


def test_the_rate_after_a_standstill_is_that_of_what_came_after_it(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = show.Progress("Contacts")
    progress.show(a_run(400), None)
    clock.seconds += 900
    progress.show(a_run(410), Held(UNTIL, ours=True))
    clock.seconds += 10
    progress.show(a_run(610), Held(UNTIL, ours=True))
    assert said(capsys)[-1] == "Contacts: 610 of 1,000 records, 20 a second, 20 s left"
