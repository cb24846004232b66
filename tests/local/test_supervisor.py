"""Children are kept alive and ended with all they forked, also when the supervisor itself is killed."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local import supervisor
from local.supervisor import Child, ChildFailed, Interrupted, Interrupts, Supervisor, Watchdog

ROOT = Path(supervisor.__file__).parent.parent


def until(true: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """A zombie, which nobody may be there to collect, is dead."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    """As in the demo; else a dead orphan's group lasts until the machine's first process looks."""
    supervisor.adopt_orphans()
    yield
    supervisor.adopt_orphans(False)


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    """Not installed: a test calls the handler as the signal would."""
    before = {number: signal.getsignal(number) for number in supervisor.SIGNALS}
    yield Interrupts()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def kept(tmp_path: Path, interrupts: Interrupts) -> Iterator[Supervisor]:
    watchdog = Watchdog((tmp_path / "lock").open("ab"))
    watchdog.start()
    made = Supervisor(dict(os.environ), interrupts, watchdog)
    yield made
    made.stop()
    watchdog.release()


def python(folder: Path, name: str, text: str, **more: object) -> Child:
    command = [sys.executable, "-c", textwrap.dedent(text)]
    return Child(name, command, folder / f"{name}.log", **more)  # type: ignore[arg-type]


SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = """
    import os, signal, time
    signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
    forked = os.fork()
    print("up", os.getpid(), forked, flush=True) if forked else None
    while True: time.sleep(600)
"""


def pids_of(child: Child) -> list[int]:
    """What a child that printed "up" and numbers printed."""
    until(lambda: child.said().startswith("up"))
    return [int(word) for word in child.said().split() if word.isdigit()]


def test_a_child_that_does_not_end_is_killed_with_all_it_forked(kept: Supervisor, tmp_path: Path) -> None:
    child = python(tmp_path, "stubborn", STUBBORN, grace=0.2)
    kept.start(child)
    leader, forked = pids_of(child)
    kept.stop()
    assert not is_alive(leader)
    until(lambda: not is_alive(forked))
    assert kept.children == []


def test_only_the_leader_is_asked_to_end(kept: Supervisor, tmp_path: Path) -> None:
    child = python(
        tmp_path,
        "parent",
        """
        import os, signal, time
        signal.signal(signal.SIGTERM, lambda *_: exit("leader asked"))
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, lambda *_: print("forked asked", flush=True))
            time.sleep(600)
        os.write(1, b"up\\n")  # in one piece: the signal may come right behind it
        time.sleep(600)
        """,
    )
    kept.start(child)
    pids_of(child)
    kept.stop()
    assert child.said() == "up\nleader asked"


def test_the_highest_rank_ends_first(kept: Supervisor, tmp_path: Path) -> None:
    goodbye = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: exit(print(sys.argv[0], time.monotonic_ns(), flush=True)))
        print("up", flush=True)
        time.sleep(600)
    """
    low, high = python(tmp_path, "low", goodbye, rank=0), python(tmp_path, "high", goodbye, rank=1)
    for child in (low, high):
        kept.start(child)
        pids_of(child)
    kept.stop()
    assert int(high.said().split()[-1]) < int(low.said().split()[-1])


def test_who_was_killed_is_started_again_at_once_and_then_after_growing_waits(kept: Supervisor, tmp_path: Path) -> None:
    child = python(tmp_path, "sleeper", SLEEPER)
    kept.start(child)
    waits = []
    for _ in range(3):
        pids_of(child)
        assert child.process is not None
        before, began = child.process.pid, time.monotonic()
        os.kill(before, signal.SIGKILL)
        child.process.wait()
        until(lambda before=before: kept.look() or child.process.pid != before)  # type: ignore[func-returns-value]
        waits.append(time.monotonic() - began)
    assert waits[0] < 0.4 <= waits[1] < 0.9 <= waits[2]


def test_a_child_that_fails_every_time_is_given_up_with_its_last_words(
    kept: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_WAIT", 0.0)
    child = python(tmp_path, "broken", "print('it has no settings'); exit(3)")
    kept.start(child)
    with pytest.raises(ChildFailed) as given_up:
        until(lambda: kept.look())  # type: ignore[func-returns-value]
    log = tmp_path / "broken.log"
    assert str(given_up.value) == f"The program 'broken' ended by itself; see {log}."
    assert (given_up.value.code, given_up.value.said) == (3, "it has no settings")
    assert log.read_text() == "it has no settings\n" * supervisor.FAILURES


def test_what_a_child_chose_it_chooses_again_at_its_next_start(kept: Supervisor, tmp_path: Path) -> None:
    child = python(
        tmp_path,
        "chooser",
        "import sys, time; print(*sys.argv[1:] or ['4711'], flush=True); time.sleep(600)",
        fixes=lambda line: [line.strip()],
    )
    kept.start(child)
    assert child.announced() == "4711\n"
    kept.restart(child)
    until(lambda: child.said() == "4711")


def test_a_child_that_ends_before_it_announced_itself_says_why(kept: Supervisor, tmp_path: Path) -> None:
    child = python(tmp_path, "refuser", "exit('Name another folder.')", fixes=lambda line: [])
    kept.start(child)
    with pytest.raises(ChildFailed) as refused:
        child.announced()
    assert (refused.value.code, refused.value.said) == (1, "Name another folder.")


def test_a_second_signal_cuts_the_grace_time(kept: Supervisor, interrupts: Interrupts, tmp_path: Path) -> None:
    child = python(tmp_path, "stubborn", STUBBORN, grace=600)
    kept.start(child)
    pids_of(child)
    interrupts._handle(signal.SIGINT, None)
    interrupts._handle(signal.SIGINT, None)
    kept.stop()
    assert not child.alive


# --- Signals ----------------------------------------------------------------------------------------------------------
def test_a_signal_raises_only_where_it_may(interrupts: Interrupts) -> None:
    interrupts._handle(signal.SIGTERM, None)
    assert (interrupts.received, interrupts.hurried) == (signal.SIGTERM, False)
    with pytest.raises(Interrupted) as ended, interrupts.raised():
        pytest.fail("what came before counts too")
    assert ended.value.number == signal.SIGTERM
    interrupts.check()


def test_a_signal_waits_while_a_process_is_being_started(interrupts: Interrupts) -> None:
    reached = []
    with pytest.raises(Interrupted), interrupts.raised(), interrupts.held():
        interrupts._handle(signal.SIGINT, None)
        reached.append("the end of what must not be cut")
    assert reached == ["the end of what must not be cut"]


def test_a_swallowed_signal_is_raised_again_at_the_next_look(kept: Supervisor, interrupts: Interrupts) -> None:
    with pytest.raises(Interrupted), interrupts.raised():
        with contextlib.suppress(BaseException):
            interrupts._handle(signal.SIGINT, None)
        interrupts.check()


def test_who_ignores_a_lost_terminal_goes_on_ignoring_it(interrupts: Interrupts) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.install()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) == interrupts._handle


# --- The watchdog -----------------------------------------------------------------------------------------------------
SUPERVISING = """
    import os, sys, time
    from pathlib import Path
    from local.supervisor import Child, Interrupts, Supervisor, Watchdog
    folder = Path(sys.argv[1])
    watchdog = Watchdog((folder / "lock").open("ab"))
    watchdog.start()
    kept = Supervisor(dict(os.environ), Interrupts(), watchdog)
    kept.start(Child("stubborn", [sys.executable, "-c", sys.argv[2]], folder / "child.log"))
    if sys.argv[3] == "revive":
        os.kill(watchdog._process.pid, 9)
        watchdog._process.wait()
    kept.look()
    print(watchdog._process.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["plain", "revive"])
def test_a_killed_supervisor_leaves_nobody(tmp_path: Path, how: str) -> None:
    """The forked grandchild is one that the kernel's own signal for orphans does not reach."""
    command = [sys.executable, "-c", textwrap.dedent(SUPERVISING), str(tmp_path), textwrap.dedent(STUBBORN), how]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        watchdog = int(parent.stdout.readline())
        said = tmp_path / "child.log"
        until(lambda: said.read_text().startswith("up"))
        pids = [int(word) for word in said.read_text().split()[1:3]]
        assert all(is_alive(pid) for pid in [*pids, watchdog])
        parent.kill()
    until(lambda: not any(is_alive(pid) for pid in [*pids, watchdog]))


def test_the_watchdog_holds_its_lock_for_as_long_as_it_works(tmp_path: Path) -> None:
    watchdog = Watchdog((tmp_path / "lock").open("ab"))
    fcntl.flock(watchdog._lock, fcntl.LOCK_EX)
    watchdog.start()
    with (tmp_path / "lock").open("ab") as next_one:
        with pytest.raises(BlockingIOError):
            fcntl.flock(next_one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        watchdog.release()
        fcntl.flock(next_one, fcntl.LOCK_EX | fcntl.LOCK_NB)
