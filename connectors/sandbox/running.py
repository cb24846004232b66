"""Running a sandbox server: as the program itself, and as a child process of a test or the demo."""

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aiohttp import web

from connectors.sandbox.faults import CONTROL, CONTROL_HEADER

SandboxKind = Literal["shopify", "brevo"]

HOST = "127.0.0.1"
MAX_BODY = 32 * 1024 * 1024
START_SECONDS = 20.0
STOP_SECONDS = 5.0
PARENT_POLL_SECONDS = 0.5
CONTROL_KEY = "SANDBOX_CONTROL_KEY"
KEYS: dict[SandboxKind, tuple[str, str]] = {
    "shopify": ("token", "SANDBOX_TOKEN"),
    "brevo": ("api_key", "SANDBOX_API_KEY"),
}
"""What opens each vendor: the option of `start`, and the variable that the program takes it from. Everybody on the
machine may read another program's arguments; its variables only its owner may."""
PRIVATE = 0o077
"""The umask of a sandbox: what it keeps holds addresses and is for its owner alone."""
_PR_SET_PDEATHSIG = 1
_EXIT_UNUSABLE = 2


class Unusable(Exception):
    """Why a sandbox cannot start; one sentence that says what to do."""


class NotStarted(Exception):
    """A child sandbox that did not come up; its text is what it said."""


# -- the program -------------------------------------------------------------------------------------------------------


def parser(kind: SandboxKind, about: str) -> argparse.ArgumentParser:
    """The options both servers share."""
    epilog = f"The key that it accepts is taken from {KEYS[kind][1]}, the one that opens /_control/ from {CONTROL_KEY}."
    options = argparse.ArgumentParser(prog=f"python -m connectors.sandbox.{kind}", description=about, epilog=epilog)
    options.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    options.add_argument(
        "--die-with-parent",
        nargs="?",
        type=int,
        const=0,
        metavar="PID",
        help="stop when the starting process is gone; with its PID also when that happens while this one starts",
    )
    return options


def key(kind: SandboxKind) -> str:
    """The key that the server is to accept; raises Unusable without one."""
    name = KEYS[kind][1]
    found = os.environ.get(name, "")
    if not found:
        raise Unusable(f"{name} is not set: set it to the key that the sandbox is to accept.")
    return found


def control_key() -> str | None:
    """The key that opens /_control/; nothing does without one."""
    return os.environ.get(CONTROL_KEY) or None


def main(build: Callable[[], web.Application], port: int, die_with_parent: int | None) -> int:
    """Serves until a signal; returns the exit code. Prints {"port": N} when it is ready.

    `die_with_parent` is the parent's pid, 0 for whoever is the parent now, None to outlive it.
    """
    parent = os.getppid() if die_with_parent == 0 else die_with_parent
    try:
        asyncio.run(_serve(build(), port, parent))
    except Unusable as problem:
        print(problem, file=sys.stderr)
        return _EXIT_UNUSABLE
    return 0


async def _serve(application: web.Application, port: int, parent: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        print(json.dumps({"port": await _listen(runner, port)}), flush=True)
        watch = loop.create_task(_watch_parent(parent, stop)) if parent is not None else None
        await stop.wait()
        if watch is not None:
            watch.cancel()
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, port: int) -> int:
    try:
        await web.TCPSite(runner, HOST, port, backlog=512).start()
    except (OSError, OverflowError):
        raise Unusable(f"Port {port} on {HOST} cannot be used: choose another, or 0 for a free one.") from None
    return int(runner.addresses[0][1])


async def _watch_parent(parent: int, stop: asyncio.Event) -> None:
    """Ends the server once `parent` is gone.

    Linux tells at once, but it tells of the thread that started us, not of its process: so the signal only makes us
    look. Elsewhere, and for a parent that died before we asked, a poll looks.
    """
    look = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, look.set)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
    while os.getppid() == parent:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(look.wait(), PARENT_POLL_SECONDS)
        look.clear()
    stop.set()


# -- a child process ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Served:
    """A running sandbox. `url` has no path and no slash at its end."""

    url: str
    control_key: str
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def control(self, path: str, payload: object = None, method: str | None = None) -> Any:
        """Calls /_control/<path> (GET without a payload, else POST) and returns its JSON; raises ValueError with the
        sandbox's own sentence when it refuses."""
        body = None if payload is None else json.dumps(payload).encode()
        request = urllib.request.Request(  # noqa: S310 (our own loopback server)
            f"{self.url}{CONTROL}{path}",
            data=body,
            method=method or ("GET" if body is None else "POST"),
            headers={CONTROL_HEADER: self.control_key, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            raise ValueError(json.loads(refused.read())["error"]) from None

    def stop(self) -> None:
        """Asks it to stop and waits; kills it when it does not."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reap()

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        self.process.kill()
        self._reap()

    def _reap(self) -> None:
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start(kind: SandboxKind, **options: str | int | float | Path | bool | None) -> Served:
    """Starts `python -m connectors.sandbox.<kind>` with `options` as its flags (batch_seconds=1 is --batch-seconds 1),
    and with its keys (`token`, `api_key`, `control_key`) in its environment; raises NotStarted. The child stops by
    itself when this process is gone."""
    keys = environment(kind, options)
    command = [sys.executable, "-m", f"connectors.sandbox.{kind}", f"--die-with-parent={os.getpid()}"]
    for name, value in options.items():
        if value is True:
            command.append(f"--{name.replace('_', '-')}")
        elif value is not None and value is not False:
            # In one word, because a value may begin with a dash.
            command.append(f"--{name.replace('_', '-')}={value}")
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=root,
            env={**os.environ, "PYTHONPATH": paths, **keys},
            umask=PRIVATE,
        )
        port = _port_of(child)
        if port is None:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip()
            raise NotStarted(said or f"The {kind} sandbox did not start.")
    return Served(f"http://{HOST}:{port}", keys[CONTROL_KEY], child)


def environment(kind: SandboxKind, options: MutableMapping[str, Any]) -> dict[str, str]:
    """Takes the keys out of `options`: as the variables that the program wants; a control key is made where none is."""
    option, variable = KEYS[kind]
    given = options.pop(option, None)
    made = {CONTROL_KEY: str(options.pop("control_key", None) or secrets.token_urlsafe(16))}
    return made if given is None else {**made, variable: str(given)}


def _port_of(child: subprocess.Popen[bytes]) -> int | None:
    """The port a child reports, or None when it ended without one."""
    line = child.stdout.readline() if child.stdout else b""
    if line:
        return int(json.loads(line)["port"])
    if child.stdout:
        child.stdout.close()
    child.wait(START_SECONDS)
    return None


@contextmanager
def serving(kind: SandboxKind, **options: str | int | float | Path | bool | None) -> Iterator[Served]:
    """A sandbox for the length of a with-block; see `start` for the options and what is raised."""
    served = start(kind, **options)
    try:
        yield served
    finally:
        served.stop()
