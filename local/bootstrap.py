"""Makes the environment of this checkout: ``python local/bootstrap.py demo|dev`` prints the path of its Python.

With further words its Python runs those, in the checkout, in place of this process: whoever started a script then has
one process to signal, from the first package to the end.

``.venv`` (or ``VIGIL_VENV``) is made when missing, broken or of another Python than ``PYTHON`` asks for, and the lock
``requirements/<name>.txt`` is installed into it when that is not what the stamp says is there. Otherwise nothing
happens, within milliseconds. The stamp is written last and removed first, so an interruption leaves no half
environment that passes for a whole one. Needs the standard library only; tells its progress on stderr.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import IO, Iterator  # noqa: UP035 (this file must be read by older Pythons, to tell them so)

OLDEST, NEWEST = (3, 11), (3, 13)
ROOT = Path(__file__).resolve().parent.parent
# What is installed along with a lock: the smaller ones are cut out of the larger one.
LOCKS = {"demo": ("demo",), "dev": ("dev", "demo")}
STAMP = "vigil.stamp"
OURS = "vigil.made"
LINES_SHOWN = 12


class NotReady(Exception):
    """The environment cannot be made. One sentence for a person: what is wrong and what to do."""


class Ended(BaseException):
    """Somebody asks us to end: pip is ended first. No Exception, so that nothing on the way takes it for a fault."""


# --- What is asked and what is there ----------------------------------------------------------------------------------
def require_python(version: tuple[int, ...] = sys.version_info[:2]) -> None:
    """Raises NotReady unless this Python is one that Vigil runs on."""
    if not OLDEST <= tuple(version[:2]) <= NEWEST:
        raise NotReady(
            f"Vigil runs on Python 3.11, 3.12 and 3.13, and this is {_dotted(version)}: "
            "install one of them and name it, as in PYTHON=python3.13."
        )


def environment_folder() -> Path:
    """``VIGIL_VENV``, seen from where the caller stands; else ``.venv`` in the checkout. Absolute."""
    return Path(os.environ.get("VIGIL_VENV") or ROOT / ".venv").absolute()


def is_whole(venv: Path, name: str, asked: tuple[int, ...] | None) -> bool:
    """Whether ``venv`` holds this very lock; ``asked`` is the version of Python wanted, None for any that fits."""
    stamp = _stamp(venv)
    return _is_sound(venv, stamp, asked) and _installed(stamp, name)


def _installed(stamp: dict[str, object], name: str) -> bool:
    locks = stamp.get("locks")
    return isinstance(locks, dict) and locks.get(name) == _digest(name)


def _is_sound(venv: Path, stamp: dict[str, object], asked: tuple[int, ...] | None) -> bool:
    """Whether its Python still runs: the one it was made with may have been removed or replaced."""
    python = venv / "bin" / "python"
    wanted = (_dotted(asked),) if asked else [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    return (
        stamp.get("python") in wanted
        and stamp.get("executable") == str(python.resolve())
        and os.access(python, os.X_OK)
    )


def _stamp(venv: Path) -> dict[str, object]:
    try:
        stamp = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _lock(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.txt"


def _digest(name: str) -> str:
    return hashlib.sha256(_lock(name).read_bytes()).hexdigest()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version[:2])


# --- Making it --------------------------------------------------------------------------------------------------------
def bootstrap(name: str, venv: Path) -> Path:
    """The Python of an environment that holds the lock ``name``. Raises NotReady."""
    require_python()
    asked = tuple(sys.version_info[:2]) if os.environ.get("PYTHON") else None
    if not is_whole(venv, name, asked):
        with _locked(venv) as lock:
            # Whoever held the lock before us may have done it all.
            if not is_whole(venv, name, asked):
                _make(name, venv, asked, lock)
    return venv / "bin" / "python"


def _make(name: str, venv: Path, asked: tuple[int, ...] | None, lock: IO[bytes]) -> None:
    began = time.monotonic()
    stamp = _stamp(venv)
    if not _is_sound(venv, stamp, asked):
        stamp = {}
        _clear(venv)
        _create(venv, lock)
    (venv / STAMP).unlink(missing_ok=True)
    _install(name, venv / "bin" / "python", lock)
    _write_stamp(venv, stamp, name)
    _say(f"Ready in {time.monotonic() - began:.0f} s.")


def _write_stamp(venv: Path, before: dict[str, object], name: str) -> None:
    python = venv / "bin" / "python"
    version = before.get("python") or _dotted(tuple(sys.version_info[:2]))
    stamp = {
        "python": version,
        "executable": str(python.resolve()),
        "locks": {lock: _digest(lock) for lock in LOCKS[name]},
    }
    fresh = venv / f"{STAMP}.new"
    fresh.write_text(json.dumps(stamp))
    fresh.replace(venv / STAMP)


def _clear(venv: Path) -> None:
    """Removes what we made before. Anything else under that name is somebody's and stays; raises NotReady."""
    if not os.path.lexists(venv):
        return
    if venv.is_symlink() or not venv.is_dir() or (any(venv.iterdir()) and not (venv / OURS).exists()):
        raise NotReady(f"{venv} was not made by Vigil: remove it, or name another folder in VIGIL_VENV.")
    _say(f"Making {venv.name} anew.")
    for entry in venv.iterdir():
        # The mark goes last: an interrupted removal is still ours.
        if entry.name != OURS:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    shutil.rmtree(venv)


def _create(venv: Path, lock: IO[bytes]) -> None:
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        version = _dotted(tuple(sys.version_info[:2]))
        raise NotReady(
            f"This Python {version} comes without its venv module: install it "
            f"(on Debian and Ubuntu the package python{version}-venv), or name another one, as in PYTHON=python3.13."
        )
    _say(f"Making {venv.name} with Python {_dotted(tuple(sys.version_info[:2]))}.")
    venv.mkdir(parents=True)
    (venv / OURS).touch()
    # Run inside an environment (even the one just removed), this is the Python behind it.
    base = getattr(sys, "_base_executable", None) or sys.executable
    code, lines = _watched([base, "-I", "-m", "venv", str(venv)], lock)
    if code != 0:
        raise NotReady(_told(lines, f"{venv} could not be made; the lines above say why."))


def _install(name: str, python: Path, lock: IO[bytes]) -> None:
    wanted = _lock(name)
    count = sum("==" in line for line in wanted.read_text().splitlines())
    _say(f"Installing {count} packages from requirements/{wanted.name}.")
    command = [str(python), "-I", "-m", "pip", "install", "--require-hashes", "--no-input", "--progress-bar=off"]
    code, lines = _watched([*command, "--disable-pip-version-check", "-r", str(wanted)], lock, count)
    if code != 0:
        raise NotReady(
            _told(
                lines,
                f"Installing requirements/{wanted.name} failed; the lines above say why. "
                "See that this machine reaches its package index, then run this again.",
            )
        )


def _watched(command: list[str], lock: IO[bytes], count: int = 0) -> tuple[int, list[str]]:
    """Runs ``command``, showing on a terminal how many of ``count`` packages it has seen: exit code and last lines.

    It shares the lock: should we be killed, nobody else begins before it has ended too.
    """
    lines: deque[str] = deque(maxlen=LINES_SHOWN)
    seen = 0
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_environment(),
            pass_fds=[lock.fileno()],
        ) as running,
        _ended_with_us(running),
    ):
        for line in running.stdout or ():
            lines.append(line.rstrip())
            if count and line.startswith(("Collecting ", "Requirement already satisfied: ")):
                seen += 1
                _show(f"  {seen} of {count}")
    _show("")
    return running.returncode, list(lines)


def _environment() -> dict[str, str]:
    """Settings meant for a pip outside an environment must not lead ours elsewhere."""
    wayward = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "__PYVENV_LAUNCHER__")
    return {**{name: value for name, value in os.environ.items() if name not in wayward}, "PIP_USER": "0"}


@contextlib.contextmanager
def _ended_with_us(running: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        running.terminate()
        raise


def _show(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _told(lines: list[str], sentence: str) -> str:
    return "\n".join([*(f"  {line}" for line in lines), sentence])


@contextlib.contextmanager
def _locked(venv: Path) -> Iterator[IO[bytes]]:
    """One maker per environment at a time; the lock stands beside it, for the environment itself may go."""
    import fcntl

    venv.parent.mkdir(parents=True, exist_ok=True)
    with venv.with_name(f"{venv.name}.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"Waiting for another process that is making {venv.name}.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _end(number: int, frame: object) -> None:
    # A second one must not cut short the ending of pip.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Ended


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in LOCKS:
        _say("Say what to install: python local/bootstrap.py demo, or dev for tests and checks.")
        return 2
    signal.signal(signal.SIGTERM, _end)
    try:
        python = bootstrap(arguments[0], environment_folder())
        if len(arguments) > 1:
            os.chdir(ROOT)
            os.execv(python, [str(python), *arguments[1:]])  # noqa: S606 (words of our own scripts; no shell)
        print(python)
    except Ended:
        _say("Ended; run it again to go on.")
        return 143
    except NotReady as error:
        _say(str(error))
        return 1
    except OSError as error:
        _say(f"The environment cannot be made: {error.filename or ''} {error.strerror}.".replace("  ", " "))
        return 1
    except KeyboardInterrupt:
        _say("Interrupted; run it again to go on.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
