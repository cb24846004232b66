"""Everything the demo runs, where it lives and how it comes up and goes down; see `local.demo` for what it is."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from local import postgres
from local.supervisor import Child, ChildFailed, Interrupts, Supervisor, Watchdog

if TYPE_CHECKING:
    from connectors.sandbox import SandboxKind, Served
    from local import stage

T = TypeVar("T")

HOST = "127.0.0.1"
PORT = 8000
PORTS_TRIED = 100
DATABASE = "vigil_demo"
DOMAIN = "demo-shop.myshopify.com"
USER = "demo"
WORKERS_GRACE = 30.0
"""A worker ends the page in hand, which takes as long as the destination lets it."""
WEB_GRACE = 5
LOOK_SECONDS = 0.25
CARE_SECONDS = 1.0
DATABASE_SECONDS = 60.0
"""How long a lost database may take to come back."""
WATCHDOG_SECONDS = 60.0
PRIVATE = 0o077
"""The umask of the demo and of all that it starts: logs and sandboxes tell of a shop's people."""
UNEXPECTED, USAGE = 1, 2
POSTGRES_URL = re.compile(r"(postgres|postgresql|psql|pgsql)://", re.IGNORECASE)


LOST = (
    "The database ended while the demo was at work; see {log}. Call script/demo again: it goes on from where it stands."
)


class Unusable(Exception):
    """The demo cannot go on. One sentence for a person; ``code`` is the exit code."""

    def __init__(self, sentence: str, code: int = USAGE) -> None:
        super().__init__(sentence)
        self.code = code


def say(sentence: str) -> None:
    """What is for people while it goes on goes to stderr; stdout is for the result."""
    print(sentence, file=sys.stderr, flush=True)


# --- Where it lives ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Place:
    """The folder of the demo, and what in it belongs to the shop that is shown. ``name`` is "" for the invented one."""

    home: Path
    name: str
    url: str

    @property
    def database(self) -> str:
        return f"{DATABASE}_{self.name.rpartition('-')[2]}" if self.name else DATABASE

    @property
    def domain(self) -> str:
        return f"{self.name}.myshopify.com" if self.name else DOMAIN

    @property
    def brevo(self) -> Path:
        """The sandbox's state: of this shop in this database."""
        of_database = f"-{_short(self.url.rpartition('@')[2])}" if self.url else ""
        return self.home / f"brevo-{self.name or 'demo'}{of_database}.sqlite"

    @property
    def login(self) -> Path:
        return self.home / "demo-login"

    @property
    def keys(self) -> Path:
        return self.home / "demo-keys"

    @property
    def postgres(self) -> Path:
        """A server of the demo's own: that of ``script/manage`` outlives it."""
        return self.home / "demo-postgres"

    @property
    def static(self) -> Path:
        return self.home / "static"

    def log(self, name: str) -> Path:
        return self.home / "log" / f"{name}.log"


def place_of(shop: Path | None) -> Place:
    """Where the demo of ``shop`` lives. Raises Unusable when that folder cannot even be looked at."""
    home = postgres.default_folder().parent.absolute()
    name = ""
    if shop is not None:
        words = re.sub(r"[^a-z0-9]+", "-", shop.name.lower())[:40].strip("-")
        name = f"{words or 'shop'}-{_short(str(_resolved(shop)))}"
    return Place(home, name, os.environ.get("DATABASE_URL", ""))


def _resolved(shop: Path) -> Path:
    """The folder itself, behind all links. One that does not exist is left to the sandbox to tell."""
    try:
        with contextlib.suppress(FileNotFoundError):
            shop.stat()
        return shop.resolve()
    except (OSError, RuntimeError) as problem:
        # Python 3.11 and 3.12 tell of links that lead in a circle in two ways.
        why = problem.strerror if isinstance(problem, OSError) else "its links lead in a circle"
        raise Unusable(
            f"The folder that --shop names cannot be opened ({why}): name one that holds customers.jsonl and "
            "orders.jsonl (each may end in .gz)."
        ) from None


def _short(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:10]


def begin_logs(place: Place) -> None:
    """New logs; the ones of the last demo are kept beside them."""
    for log in (place.home / "log").glob("*.log"):
        log.replace(log.with_suffix(".before"))


def prepare_folder(place: Place) -> None:
    """Makes the folder; what is made in it from now on is its owner's alone. Raises Unusable.

    The folder itself stays as open as its owner makes folders: run by root, PostgreSQL's account passes through.
    """
    try:
        for folder in (place.home / "log", place.static):
            folder.mkdir(parents=True, exist_ok=True)
        for name in ("demo.lock", "watchdog.lock"):
            (place.home / name).touch(mode=0o600)
    except OSError as error:
        raise Unusable(
            f"The folder {place.home} cannot be used ({error.strerror}): name another one in VIGIL_HOME."
        ) from None
    os.umask(PRIVATE)


@contextlib.contextmanager
def alone(place: Place, interrupts: Interrupts) -> Iterator[IO[bytes]]:
    """One demo per folder. Gives the watchdog's lock, once the watchdog of an earlier demo has done its work.

    Raises Unusable while another demo runs, and Interrupted.
    """
    with (place.home / "demo.lock").open("ab") as lock, (place.home / "watchdog.lock").open("ab") as watchdog:
        if not _locks(lock):
            raise Unusable(f"Another demo runs in {place.home}: end it first, or name another folder in VIGIL_HOME.")
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while not _locks(watchdog):
            if time.monotonic() > deadline:
                raise Unusable(f"An earlier demo in {place.home} does not end: see which process is left.", UNEXPECTED)
            with interrupts.raised():
                time.sleep(LOOK_SECONDS)
        yield watchdog


def _locks(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- Secrets ----------------------------------------------------------------------------------------------------------
def _new_keys() -> dict[str, str]:
    return {
        "SECRET_KEY": secrets.token_urlsafe(48),
        "VIGIL_CREDENTIAL_KEYS": f"demo:{secrets.token_hex(32)}",
        "VIGIL_EFFECT_KEY": secrets.token_hex(32),
        "shopify_token": f"shpat_{secrets.token_hex(16)}",
        "brevo_key": f"xkeysib-{secrets.token_hex(32)}",
    }


def keys_of(place: Place) -> dict[str, str]:
    """The demo's own secrets, made at its first start. Raises Unusable when the file is not what was written."""
    if not place.keys.exists():
        _write_private(place.keys, json.dumps(_new_keys()))
    try:
        found = json.loads(place.keys.read_text())
        return {name: str(found[name]) for name in _new_keys()}
    except (OSError, ValueError, KeyError, TypeError):
        raise Unusable(f"{place.keys} is damaged: restore it, or delete {place.home} and begin anew.", 1) from None


def password_of(place: Place) -> str:
    """The demo user's password, made at the first start."""
    with contextlib.suppress(OSError):
        found = re.search(r"^password (\S+)$", place.login.read_text(errors="replace"), re.MULTILINE)
        if found:
            return found[1]
    password = secrets.token_urlsafe(12)
    _write_private(place.login, f"user {USER}\npassword {password}\n")
    return password


def _write_private(path: Path, text: str) -> None:
    """All or nothing, and for the owner only."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123
        file.write(text)
    fresh.replace(path)


# --- The door of the pages --------------------------------------------------------------------------------------------
def listen(asked: int | None) -> socket.socket:
    """The socket of the pages. It is ours, and not the web server's, so that nobody takes the port at a restart.

    Raises Unusable when the very port that was asked for is not to be had.
    """
    ports = range(PORT, PORT + PORTS_TRIED) if asked is None else [asked]
    for port in ports:
        with contextlib.suppress(OSError):
            return socket.create_server((HOST, port), backlog=128)
    if asked is None:
        raise Unusable(f"No port from {PORT} to {PORT + PORTS_TRIED - 1} is free: name one with --port.")
    raise Unusable(f"Port {asked} on {HOST} cannot be used: name another one with --port, or leave it out.")


# --- The database -----------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Database:
    """The embedded PostgreSQL, or the one of DATABASE_URL, which is not ours to start or to end."""

    place: Place
    watchdog: Watchdog
    interrupts: Interrupts
    server: postgres.Server | None = None

    def start(self) -> str:
        """Brings it up; its URL. Raises PostgresUnavailable, and Unusable for a URL of something else."""
        if self.place.url:
            if not POSTGRES_URL.match(self.place.url):
                raise Unusable("DATABASE_URL does not name a PostgreSQL: Vigil needs PostgreSQL 15 or newer.")
            return self.place.url
        with self.interrupts.held():
            self._bring_up()
        assert self.server is not None  # noqa: S101 - it was brought up
        return self.server.url(self.place.database)

    def _bring_up(self) -> None:
        self.watchdog.tell("postgres", self.place.postgres)
        self.server = postgres.start(self.place.postgres)
        self.server.ensure_database(self.place.database)

    def forget(self) -> None:
        """Deletes the demo's own database, for --reset. Only in the embedded server."""
        import psycopg
        from psycopg import sql

        if self.server is None:
            raise ValueError("Only the embedded server's database is the demo's own.")
        host, user = str(self.server.socket_folder), postgres.SUPERUSER
        with psycopg.connect(
            host=host, port=postgres.PORT, user=user, dbname="postgres", autocommit=True
        ) as connection:
            name = sql.Identifier(self.place.database)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        self.server.ensure_database(self.place.database)

    def again(self) -> None:
        """After it was lost: the embedded one is started again, for another one we wait."""
        if self.server is not None:
            with self.interrupts.held():
                postgres.start(self.place.postgres)

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop("immediate" if self.interrupts.hurried else "fast")
            self.watchdog.tell("stopped", self.place.postgres)


# --- The children -----------------------------------------------------------------------------------------------------
SANDBOX_RANK, WORK_RANK = 0, 1


def sandbox(place: Place, kind: SandboxKind, keys: Mapping[str, str], **options: str | Path | None) -> Child:
    """A sandbox vendor, with its flags and its keys, on a port that it chooses at its first start."""
    command = [sys.executable, "-m", f"connectors.sandbox.{kind}"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
    return Child(
        kind, command, place.log(kind), SANDBOX_RANK, fixes=lambda line: [f"--port={_port_in(line)}"], keys=keys
    )


def _port_in(line: str) -> int:
    return int(json.loads(line)["port"])


def workers(place: Place) -> Child:
    command = [sys.executable, "manage.py", "vigil_worker"]
    return Child("workers", command, place.log("workers"), WORK_RANK, WORKERS_GRACE)


def web(place: Place, door: socket.socket) -> Child:
    command = [sys.executable, "-m", "gunicorn", "config.wsgi:application", f"--bind=fd://{door.fileno()}"]
    command += ["--worker-class=gthread", "--workers=2", "--threads=8", "--no-control-socket"]
    command += [f"--graceful-timeout={WEB_GRACE}", "--log-level=warning"]
    return Child("web", command, place.log("web"), WORK_RANK, 2.0 * WEB_GRACE, shares=(door.fileno(),))


# --- The house --------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class House:
    """Everything that runs. ``shop`` is the folder of the shop, None for the invented one. `stop` leaves nothing."""

    place: Place
    shop: Path | None
    door: socket.socket
    interrupts: Interrupts
    watchdog: Watchdog
    supervisor: Supervisor = field(init=False)
    database: Database = field(init=False)
    keys: dict[str, str] = field(init=False)
    password: str = field(init=False)
    brevo: Served = field(init=False)
    _workers: Child | None = None
    _care: stage.Care | None = None
    _cared: float = 0.0

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(dict(os.environ), self.interrupts, self.watchdog)
        self.database = Database(self.place, self.watchdog, self.interrupts)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.door.getsockname()[1]}/"

    # -- coming up -----------------------------------------------------------------------------------------------------

    def start(self, *, reset: bool) -> stage.Stage:
        """Brings everything up; what stands on the stage then.

        Raises Unusable, ChildFailed and PostgresUnavailable. The shop comes first, so that an unusable
        one is told before anything else is touched.
        """
        with self.interrupts.held():
            self.watchdog.start()
        self.keys = keys_of(self.place)
        shop = self._sandbox("shopify", token=self.keys["shopify_token"], shop=self.shop, domain=self.place.domain)
        self._start_database(reset)
        self.brevo = self._sandbox("brevo", api_key=self.keys["brevo_key"], state=self.place.brevo)
        prepared = self._set_stage(shop)
        self._workers = workers(self.place)
        self.supervisor.start(self._workers)
        self.supervisor.start(web(self.place, self.door))
        return prepared

    def _sandbox(self, kind: SandboxKind, **options: str | Path | None) -> Served:
        """A sandbox that is up. Raises Unusable with its own sentence when it says what a person can mend."""
        from connectors.sandbox import CONTROL_KEY, Served, environment

        keys = environment(kind, options)
        child = sandbox(self.place, kind, keys, **options)
        self.supervisor.start(child)
        try:
            port = _port_in(child.announced())
        except ChildFailed as problem:
            if problem.code == USAGE and problem.said:
                raise Unusable(problem.said) from None
            raise
        assert child.process is not None  # noqa: S101 - it announced itself
        return Served(f"http://{HOST}:{port}", keys[CONTROL_KEY], child.process)

    def _start_database(self, reset: bool) -> None:
        url = self.database.start()
        if reset:
            self.database.forget()
            for path in (self.place.login, *self.place.home.glob(f"{self.place.brevo.name}*")):
                path.unlink(missing_ok=True)
        self.password = password_of(self.place)
        environment = {name: value for name, value in self.keys.items() if name.isupper()} | {
            "DATABASE_URL": url,
            "VIGIL_ENV": "demo",
            "VIGIL_CLUSTER": "demo",
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "ALLOWED_HOSTS": "localhost,127.0.0.1,[::1]",
            "PYTHONTZPATH": "",
            "STATIC_ROOT": str(self.place.static),
        }
        os.environ.update(environment)
        self.supervisor.environment |= environment
        set_up_django(self.place)

    def _set_stage(self, shop: Served) -> stage.Stage:
        from local import stage

        if stage.is_new():
            # What an earlier database wrote there is nothing that this one knows of.
            self.brevo.control("reset", {})
        vendors = stage.Vendors(
            domain=self.place.domain,
            shopify_url=shop.url,
            shopify_token=self.keys["shopify_token"],
            brevo_url=self.brevo.url,
            brevo_key=self.keys["brevo_key"],
        )
        prepared = stage.prepare(USER, self.password, vendors)
        for sync, _ in prepared.plan:
            if told := stage.publish(prepared.actor, sync):
                say(told)
        self._care = stage.Care()
        return prepared

    # -- staying up ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """To be called often while something goes on: keeps children, queue and database at work."""
        self.interrupts.check()
        self.supervisor.look()
        if time.monotonic() - self._cared > CARE_SECONDS:
            self._cared = time.monotonic()
            self.asking(self._take_care)

    def _take_care(self) -> None:
        if self._care is not None and self._workers is not None and self._care.look(self._workers.age):
            say("Something is due and no worker takes it: the workers are started again.")
            self.supervisor.restart(self._workers)

    def asking(self, call: Callable[[], T]) -> T:
        """``call``, and again once the database is back when it was lost meanwhile (PRODUCT 8.9)."""
        from django.db import InterfaceError, OperationalError, connection

        deadline = time.monotonic() + DATABASE_SECONDS
        while True:
            try:
                return call()
            except (OperationalError, InterfaceError):
                if time.monotonic() > deadline:
                    raise Unusable("The database does not answer any more.", UNEXPECTED) from None
            connection.close()
            self.database.again()
            time.sleep(LOOK_SECONDS)

    # -- going down ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends everything: workers and pages, then what they talk to, then the database, then the watchdog."""
        try:
            self.supervisor.stop()
            self.database.stop()
        finally:
            self.watchdog.release()
            self.door.close()


@contextlib.contextmanager
def telling_of_a_lost_database(place: Place) -> Iterator[None]:
    """Raises Unusable for a connection that broke where nothing waits for the database to come back."""
    from django.db import InterfaceError, OperationalError
    from psycopg import InterfaceError as LowerInterfaceError
    from psycopg import OperationalError as LowerOperationalError

    try:
        yield
    except (OperationalError, InterfaceError, LowerOperationalError, LowerInterfaceError):
        log = "its log" if place.url else place.postgres / "log"
        raise Unusable(LOST.format(log=log), UNEXPECTED) from None


def set_up_django(place: Place) -> None:
    """Settings and models, and the schema as this checkout wants it. Raises Unusable."""
    import django
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import call_command

    try:
        django.setup()
    except ImproperlyConfigured as problem:
        raise Unusable(str(problem)) from None
    _log_to(place.log("demo"))
    from local import stage

    stage.require_database(named=bool(place.url))
    call_command("migrate", verbosity=0, interactive=False)


def _log_to(path: Path) -> None:
    """What this process logs goes to a file: the terminal shows progress."""
    root = logging.getLogger()
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(root.handlers[0].formatter if root.handlers else None)
    root.handlers[:] = [handler]
