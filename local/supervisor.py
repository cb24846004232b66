"""Starts processes, keeps them alive and ends every one of them, whatever happens to the process that started them.

Each child leads a session of its own: a Ctrl-C at our terminal spares it, and its whole group can be ended, with all
it forked. To end one, SIGTERM goes to its leader alone (django-q2's main process hangs when its whole group gets one);
whoever of the group is left after the grace time gets SIGKILL. Should this very process be killed, a watchdog process
notices that the pipe between them closed and ends the rest; on Linux the kernel ends the leaders as well.

Needs the standard library only. ``python -m local.supervisor`` is the watchdog.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

from local import postgres

ROOT = Path(__file__).resolve().parent.parent
GRACE_SECONDS = 10.0
"""How long a child may take to end by itself."""
GROUP_SECONDS = 2.0
"""How long the killed may take to be gone."""
LOOK_SECONDS = 0.02
STEADY_SECONDS = 30.0
"""A child that lived so long is restarted at once; one that fell sooner after a growing wait."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
FAILURES = 5
"""So many failures of a child in a row, each soon after its start, are a fault that no restart mends."""
LINES_SHOWN = 12
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ChildFailed(Exception):
    """A child ended by itself. ``code`` is its exit code, the text a sentence; ``said`` the last lines of its log."""

    def __init__(self, sentence: str, code: int, said: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.said = said


# --- Signals ----------------------------------------------------------------------------------------------------------
class Interrupted(KeyboardInterrupt):
    """A signal asks us to end. A KeyboardInterrupt, because event loops let no other exception out."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Interrupts:
    """Signals as one exception, where one may be raised, and as two facts everywhere else.

    A signal raises Interrupted within `raised`; outside it, and within `held`, it is only noted. The second one asks us
    to be quick: ``hurried``.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.hurried = False
        self._raising = False
        self._holds = 0

    def install(self) -> None:
        for number in SIGNALS:
            # Who started us under nohup wants us to outlive the terminal.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Within, a signal raises Interrupted; also one that came before."""
        self._raising = True
        try:
            self.check()
            yield
        finally:
            self._raising = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within, a signal waits: a process that is being started must be known before we may end it."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        self.check()

    def check(self) -> None:
        """Raises Interrupted when a signal came and nothing has ended us yet: some code swallows exceptions."""
        if self.received is not None and self._raising and not self._holds:
            raise Interrupted(self.received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
        else:
            self.hurried = True
        self.check()


# --- One child --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Child:
    """One program that leads a session. ``rank``: the highest ones are ended first. ``shares``: open files it gets.

    ``fixes`` makes a program that chose something itself choose it again: given the first line that it printed, what
    to add to ``command`` at the next start. A child with it is up only when it has printed that line. ``keys`` are
    variables for it alone: a secret among the arguments would be everybody's to read.
    """

    name: str
    command: list[str]
    log: Path
    rank: int = 0
    grace: float = GRACE_SECONDS
    shares: tuple[int, ...] = ()
    fixes: Callable[[str], list[str]] | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    falls: int = 0
    failures: int = 0
    _mark: int = 0

    def start(self, environment: Mapping[str, str]) -> None:
        """Starts the program. Whoever may be interrupted holds the signals meanwhile."""
        with self.log.open("ab") as log:
            self._mark = log.seek(0, os.SEEK_END)
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self.fixes else log,
                stderr=log,
                env={**environment, **self.keys},
                cwd=ROOT,
                start_new_session=True,
                pass_fds=self.shares,
                preexec_fn=_dying_with(os.getpid()),
            )
        self.started = time.monotonic()

    def announced(self) -> str:
        """Waits for the first line of a child with ``fixes``. Raises ChildFailed when it ended without one."""
        process = self.process
        if process is None or process.stdout is None or self.fixes is None:
            raise ValueError("Only a started child with fixes announces itself.")
        with process.stdout:
            line = process.stdout.readline().decode()
        if not line:
            raise self.failed(process.wait())
        self.command += self.fixes(line)
        self.fixes = None
        return line

    @property
    def age(self) -> float:
        """Seconds since its last start."""
        return time.monotonic() - self.started

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def failed(self, code: int) -> ChildFailed:
        return ChildFailed(f"The program '{self.name}' ended by itself; see {self.log}.", code, self.said())

    def said(self) -> str:
        """The last lines it wrote since its last start."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(self._mark)
            return "\n".join(log.read().decode(errors="replace").strip().splitlines()[-LINES_SHOWN:])
        return ""

    def terminate(self) -> None:
        """Asks its leader to end."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> None:
        """Ends what is left of its group and waits until it is gone."""
        if self.process is None:
            return
        end_group(self.process.pid)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        wait_for_group(self.process.pid)


def _dying_with(parent: int) -> Callable[[], None]:
    """What a child does before it becomes its program: asks the kernel to be killed when ``parent`` is."""

    def ask() -> None:
        if _LIBC is not None:
            _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return ask


def end_group(leader: int) -> None:
    """SIGKILL for everybody in the group of ``leader``; an empty group is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def wait_for_group(leader: int) -> None:
    """Waits until nobody is left in the group, a moment at most: dead orphans may be somebody else's to collect."""
    deadline = time.monotonic() + GROUP_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-leader, os.WNOHANG)
            os.killpg(leader, 0)
            time.sleep(LOOK_SECONDS)


def adopt_orphans(adopting: bool = True) -> None:
    """On Linux the orphans of our children become ours to collect: not every container has an init that does."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_CHILD_SUBREAPER, int(adopting))


# --- All of them ------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Supervisor:
    """The children of this process. `look` restarts what fell, `stop` ends everything."""

    environment: dict[str, str]
    interrupts: Interrupts
    watchdog: Watchdog
    children: list[Child] = field(default_factory=list)
    _again: dict[str, float] = field(default_factory=dict)

    def start(self, child: Child) -> None:
        """Starts a new child; from now on it is kept alive."""
        with self.interrupts.held():
            self.children.append(child)
            self._start(child)

    def _start(self, child: Child) -> None:
        child.start(self.environment)
        if child.process is not None:
            self.watchdog.tell("group", child.process.pid)

    def look(self) -> None:
        """Restarts whoever ended, with a growing wait. Raises ChildFailed for what no restart will mend."""
        self.watchdog.revive(self.children)
        for child in self.children:
            if not child.alive:
                self._restart_later(child)

    def _restart_later(self, child: Child) -> None:
        now = time.monotonic()
        if child.name not in self._again:
            self._note_fall(child)
            wait = FIRST_WAIT * 2 ** (child.falls - 2) if child.falls > 1 else 0.0
            self._again[child.name] = now + min(wait, LONGEST_WAIT)
        if now >= self._again[child.name]:
            self.restart(child)

    def _note_fall(self, child: Child) -> None:
        """Counts how often in a row it fell, and how often by a fault of its own: who was killed did not fail."""
        code = child.process.returncode if child.process else 1
        steady = child.age > STEADY_SECONDS
        child.falls = 1 if steady else child.falls + 1
        child.failures = (0 if steady else child.failures) + (code >= 0)
        if child.failures >= FAILURES:
            raise child.failed(code)

    def restart(self, child: Child) -> None:
        """Ends what is left of the child and starts it again."""
        self._again.pop(child.name, None)
        with self.interrupts.held():
            self._end(child)
            self._start(child)

    def stop(self) -> None:
        """Ends all children, those of one rank together; after a second signal, or the grace time, by SIGKILL."""
        while self.children:
            rank = max(child.rank for child in self.children)
            ending = [child for child in self.children if child.rank == rank]
            for child in ending:
                child.terminate()
            for child in ending:
                self._wait_for(child)
                self._end(child)
                self.children.remove(child)

    def _wait_for(self, child: Child) -> None:
        deadline = time.monotonic() + child.grace
        while child.alive and time.monotonic() < deadline and not self.interrupts.hurried:
            time.sleep(LOOK_SECONDS)

    def _end(self, child: Child) -> None:
        child.kill()
        if child.process is not None:
            self.watchdog.tell("ended", child.process.pid)


# --- The watchdog -----------------------------------------------------------------------------------------------------
class Watchdog:
    """Ends the children, and the embedded PostgreSQL, when this process is killed.

    It holds ``lock`` for as long as it lives, so that the next supervisor can wait until it has done its work.
    """

    def __init__(self, lock: IO[bytes]) -> None:
        self._lock = lock
        self._told: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "local.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            start_new_session=True,
            pass_fds=[self._lock.fileno()],
        )

    def tell(self, word: str, what: object) -> None:
        """``group`` and ``ended`` name the leader of a group; ``postgres`` and ``stopped`` the folder of a server."""
        line = f"{word} {what}\n"
        self._told.append(line)
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()

    def revive(self, children: Sequence[Child]) -> None:
        """Starts it again when it was killed, and tells it everything."""
        if self._process is None or self._process.poll() is None:
            return
        told, self._told = self._told, []
        self.start()
        for line in told:
            self.tell(*line.rstrip("\n").split(" ", 1))

    def release(self) -> None:
        """Everything is ended: it has nothing to do and ends too."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait()
        self._lock.close()


def watch(told: IO[str]) -> None:
    """Reads what the supervisor tells until it is gone, then ends what it left: workers before what they talk to."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    groups: list[int] = []
    folders: list[str] = []
    for line in told:
        word, what = line.rstrip("\n").split(" ", 1)
        if word == "group":
            groups.append(int(what))
        elif word == "postgres":
            folders.append(what)
        elif word == "ended":
            groups.remove(int(what))
        else:
            folders.remove(what)
    for leader in reversed(groups):
        end_group(leader)
    for folder in folders:
        with contextlib.suppress(postgres.PostgresUnavailable, OSError):
            postgres.find(Path(folder)).stop()


if __name__ == "__main__":
    watch(sys.stdin)
