"""Every test run has a PostgreSQL of its own, and takes it along when it goes, however it goes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import postgres

ROOT = Path(postgres.__file__).parent.parent
NOTES_ITS_SERVER = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(4))
def test_server(number):
    pathlib.Path(f"seen-{number}").write_text(os.environ["DATABASE_URL"])
"""
STAYS = """
import os, pathlib, time

def test_stays():
    pathlib.Path("seen.new").write_text(os.environ["DATABASE_URL"])
    pathlib.Path("seen.new").rename("seen")
    time.sleep(60)
"""
FORKS = """
import atexit, os, pathlib
from local import postgres

def test_fork():
    child = os.fork()
    if not child:
        atexit._run_exitfuncs()
        os._exit(0)
    os.waitpid(child, 0)
    socket_folder = os.environ["DATABASE_URL"].removeprefix("postgres://postgres@/").removesuffix("/vigil")
    assert postgres.find(pathlib.Path(socket_folder).parent).up
"""


class Run:
    """One pytest run with the plugin, in a place of its own: its folder and its temporary folder."""

    def __init__(self, place: Path, name: str, tests: str, *options: str, **variables: str) -> None:
        self.folder = place / name
        self.folder.mkdir()
        (self.folder / "test_inner.py").write_text(tests)
        left_out = ("DATABASE_URL", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "DJANGO_SETTINGS_MODULE")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        plugins = [f"-p{name}" for name in ("tests.plugin", "no:django", "no:cacheprovider")]
        here = ["-c", os.devnull, "--rootdir", str(self.folder), "test_inner.py"]
        self.pytest = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *plugins, *options, *here],
            cwd=self.folder,
            env=environment | {"TMPDIR": str(place / "tmp"), "PYTHONPATH": str(ROOT)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> tuple[int, str]:
        output, _ = self.pytest.communicate(timeout=60)
        return self.pytest.returncode, output

    def seen(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("seen*"))]

    def server_pid(self) -> int:
        """Waits until its test runs; the process id of its server."""
        deadline = time.monotonic() + 30
        while not (self.folder / "seen").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        socket_folder = self.seen()[0].removeprefix("postgres://postgres@/").removesuffix("/vigil")
        pid = postgres.find(Path(socket_folder).parent).pid
        assert pid is not None
        return pid


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="vigil-place-", dir="/tmp")).resolve()
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    yield folder
    shutil.rmtree(folder)


def left_in(place: Path) -> list[Path]:
    """Pytest keeps temporary folders of its own; those of the plugin must be gone."""
    return list((place / "tmp").glob("vigil-*"))


def test_all_workers_share_one_server_and_nothing_is_left(place: Path) -> None:
    run = Run(place, "run", NOTES_ITS_SERVER, "-n", "2", "--dist", "each")
    code, output = run.finish()

    assert code == 0, output
    assert (len(run.seen()), len(set(run.seen()))) == (4, 1)
    assert run.seen()[0].startswith(f"postgres://postgres@/{place}/tmp/vigil-test-")
    assert left_in(place) == []


@pytest.mark.parametrize(
    ("sent", "options"),
    [(signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGINT, ("-n", "1"))],
    ids=["interrupted", "terminated", "interrupted-with-a-worker"],
)
def test_an_ended_run_takes_its_server_along(place: Path, sent: signal.Signals, options: tuple[str, ...]) -> None:
    run = Run(place, "run", STAYS, *options)
    pid = run.server_pid()
    run.pytest.send_signal(sent)
    code, output = run.finish()

    assert code != 0, output
    assert postgres._command_line(pid) == []
    assert left_in(place) == []


def test_what_a_killed_run_left_is_removed_by_the_next(place: Path) -> None:
    killed = Run(place, "killed", STAYS)
    pid = killed.server_pid()
    killed.pytest.kill()
    killed.finish()
    assert postgres._command_line(pid) != []

    run = Run(place, "next", NOTES_ITS_SERVER)

    assert run.finish()[0] == 0
    assert postgres._command_line(pid) == []
    assert left_in(place) == []


def test_two_runs_at_once_do_not_disturb_each_other(place: Path) -> None:
    staying = Run(place, "staying", STAYS)
    pid = staying.server_pid()
    run = Run(place, "other", NOTES_ITS_SERVER)

    assert run.finish()[0] == 0
    assert postgres._command_line(pid) != []
    assert set(run.seen()).isdisjoint(staying.seen())
    staying.pytest.send_signal(signal.SIGINT)
    staying.finish()
    assert left_in(place) == []


def test_a_server_from_outside_is_used(place: Path) -> None:
    run = Run(place, "run", NOTES_ITS_SERVER, DATABASE_URL="postgres://somebody@/elsewhere")

    assert run.finish()[0] == 0
    assert set(run.seen()) == {"postgres://somebody@/elsewhere"}
    assert left_in(place) == []


def test_a_forked_child_does_not_end_the_server(place: Path) -> None:
    run = Run(place, "run", FORKS)
    code, output = run.finish()

    assert code == 0, output


def test_without_postgres_the_run_ends_with_one_sentence(place: Path) -> None:
    (place / "sitecustomize.py").write_text(
        "from local import postgres\n"
        "postgres._package_folders = postgres._named_folders = postgres._system_folders = list\n"
    )
    run = Run(place, "run", NOTES_ITS_SERVER, PYTHONPATH=f"{place}{os.pathsep}{ROOT}")
    code, output = run.finish()

    assert (code, run.seen()) == (pytest.ExitCode.USAGE_ERROR, [])
    assert output.startswith("ERROR: No PostgreSQL 15 or newer was found: ")
    assert left_in(place) == []
