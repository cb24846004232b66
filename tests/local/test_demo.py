"""The demo: one call shows everything, a second one writes nothing, and none leaves a process behind.

Real processes throughout, each marked in its environment, so that what is left is found wherever it hides.
"""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from connectors.sandbox import Served
from local import demo, postgres

ROOT = Path(demo.__file__).parent.parent
STATES = [
    "written", "already_delivered", "unchanged", "superseded", "filtered", "refused", "deferred", "set_aside",
    "in_doubt", "failed", "not_yet_tried",
]  # fmt: skip
SHOWN = ["name", "stream", "lane", "outcome", "verdict", "read", *STATES, "seconds"]
CONTACTS_REFUSED = {
    "not_subscribed": 125, "unsubscribed": 50, "pending": 25, "level_unknown": 25, "no_address": 20, "no_date": 15,
    "address_unsupported": 11, "invalid": 10, "malformed_address": 6,
}  # fmt: skip
SUMMARY = {
    "contacts": 213,
    "list_members": 213,
    "orders": 395,
    "events": 395,
    "duplicate_events": 0,
    "violations": 0,
}
UP = "Everything is up."
LOST = (
    "The database ended while the demo was at work; see {folder}/demo-postgres/log. Call script/demo again: it goes on "
    "from where it stands."
)
ENDED = "Ended. What was done is kept; the next call goes on from here."


def until(true: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    return found


@dataclass
class Home:
    """A folder for demos, and what all their processes carry in their environment."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "VIGIL_VENV") if name in os.environ}
        ours = {"VIGIL_HOME": str(self.folder), "VIGIL_TEST_MARK": self.mark, "PYTHONTZPATH": ""}
        # A killed call is known to be over after two seconds, not after a minute.
        return kept | ours | {"VIGIL_CALL_SECONDS": "2"} | more

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """stderr goes to a file, where a test may read it while the demo runs."""
        with self.said.open("w") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "local.demo", *arguments],
                cwd=ROOT,
                env=self.environment(**environment),
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a demo that ends by itself."""
        with self.start(*arguments, **environment) as running:
            out = running.communicate(timeout=120)[0]
        return running.returncode, out, self.said.read_text()

    def shown(self, *arguments: str, **environment: str) -> dict[str, Any]:
        code, out, said = self.run("--once", "--json", *arguments, **environment)
        assert code == 0, said
        found: dict[str, Any] = json.loads(out)
        return found

    @property
    def said(self) -> Path:
        return self.folder / "said"

    def wait_for(self, words: str) -> None:
        until(lambda: words in self.said.read_text())

    def processes(self, word: str = "") -> list[int]:
        """Living processes of demos in this folder, and its PostgreSQL, which gets no environment of ours."""
        numbers = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        return [pid for pid in numbers if self._is_ours(pid, word)]

    def _is_ours(self, pid: int, word: str) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        ours = self.mark.encode() in environment or os.fsencode(self.folder) in command
        return bool(command) and ours and word.encode() in command

    def contacts(self) -> list[tuple[object, ...]]:
        """What Brevo holds of every contact."""
        query = "SELECT email, ext_id, attributes, list FROM contacts JOIN members ON contact = id ORDER BY email"
        (state,) = self.folder.glob("brevo-*.sqlite")
        with sqlite3.connect(state) as database:
            found = database.execute(query).fetchall()
        database.close()
        return found


def made_home() -> Home:
    """A folder with a short path that PostgreSQL's account may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="vigil-demo-", dir="/tmp")).resolve()
    folder.chmod(0o755)
    return Home(folder)


def remove_home(home: Home) -> None:
    for pid in home.processes():
        os.kill(pid, signal.SIGKILL)
    if (home.folder / "demo-postgres").exists():
        postgres.find(home.folder / "demo-postgres").remove()
    shutil.rmtree(home.folder)


@pytest.fixture
def home() -> Iterator[Home]:
    made = made_home()
    yield made
    remove_home(made)


@dataclass
class Seen:
    """A home in which a first demo has run, and what that one showed."""

    home: Home
    result: dict[str, Any]
    said: str


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    home = made_home()
    result = home.shown()
    yield Seen(home, result, home.said.read_text())
    remove_home(home)


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of an empty database on the server of this test run."""
    url = os.environ["DATABASE_URL"]
    name = f"demo_{uuid.uuid4().hex}"
    host = re.search(r"@/(/.*)/", url)
    where = {"host": host[1], "user": "postgres", "dbname": "postgres"} if host else {"conninfo": url}
    with psycopg.connect(autocommit=True, **where) as connection:  # type: ignore[arg-type]
        connection.execute(f"CREATE DATABASE {name}")
        yield f"{url.rpartition('/')[0]}/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


# --- What it shows ----------------------------------------------------------------------------------------------------
def test_one_call_runs_both_syncs_and_its_numbers_close(seen: Seen) -> None:
    assert list(seen.result) == ["url", "syncs", "destination"]
    # With --once the pages are gone when this is read, so that no address is told.
    assert seen.result["url"] is None
    assert "http://" not in seen.said
    assert seen.result["destination"] == SUMMARY
    contacts, orders = seen.result["syncs"]
    assert [list(shown) for shown in (contacts, orders)] == [SHOWN, SHOWN]
    assert [contacts[name] for name in SHOWN[:7]] == [
        "Contacts", "customers", "scheduled", "succeeded", "proven", 500, 213,
    ]  # fmt: skip
    assert [orders[name] for name in SHOWN[:7]] == ["Orders", "orders", "manual", "succeeded", "proven", 1000, 395]
    assert contacts["refused"] == CONTACTS_REFUSED
    for shown in (contacts, orders):
        numbers = {**shown, "refused": sum(shown["refused"].values())}
        assert sum(numbers[state] for state in STATES) == shown["read"]
        assert 0 < shown["seconds"] < 60


def test_people_read_it_on_stderr_with_the_login_that_is_kept_for_the_owner_alone(seen: Seen) -> None:
    login = seen.home.folder / "demo-login"
    keys = seen.home.folder / "demo-keys"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (login, keys)] == [0o600, 0o600]
    password = login.read_text().split()[-1]
    assert f"user demo, password {password} (kept in {login})." in seen.said
    assert "  read 500 = 213 written + 287 refused (125 not_subscribed, " in seen.said
    for secret in json.loads(keys.read_text()).values():
        assert secret not in seen.said


def test_it_leaves_no_process_behind(seen: Seen) -> None:
    assert seen.home.processes() == []


def test_a_second_call_goes_on_where_the_first_ended_and_writes_nothing(seen: Seen) -> None:
    before = seen.home.contacts()
    again = seen.home.shown()
    assert [shown["written"] for shown in again["syncs"]] == [0, 0]
    assert [shown["outcome"] for shown in again["syncs"]] == ["succeeded", "succeeded"]
    assert again["destination"] == SUMMARY
    assert seen.home.contacts() == before


# --- How it ends ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("log/shopify.log", signal.SIGINT),
        ("demo-postgres/cluster", signal.SIGTERM),
        ("brevo-demo.sqlite", signal.SIGINT),
    ],
)
def test_a_signal_while_it_comes_up_ends_everything(home: Home, moment: str, number: int) -> None:
    with home.start() as running:
        until(lambda: (home.folder / moment).exists())
        running.send_signal(number)
        assert running.wait(30) == 128 + number
        assert running.stdout is not None and running.stdout.read() == ""
    assert home.said.read_text().splitlines()[-1] == ENDED
    assert "Traceback" not in home.said.read_text()
    assert home.processes() == []


def test_a_signal_in_the_midst_of_a_run_ends_it_at_the_page_in_hand(home: Home) -> None:
    """PRODUCT 8.9: of the first page's 250 customers 96 are to be written, and all of them are."""
    with home.start("--once") as running:
        slow_down(home)
        until(lambda: contacts_written(home) > 20)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 143
    assert len(home.contacts()) == 96
    assert home.processes() == []


def test_it_serves_its_pages_until_a_signal_and_brings_back_who_was_killed(seen: Seen) -> None:
    with seen.home.start() as running:
        seen.home.wait_for("Press Ctrl-C")
        said = seen.home.said.read_text()
        url = re.search(r"at (http://\S+)", said)
        assert url is not None
        assert answers(url[1])
        for pid in seen.home.processes("gunicorn"):
            os.kill(pid, signal.SIGKILL)
        assert answers(url[1])
        code, out, refused = second_demo(seen.home)
        assert (code, out, refused) == (
            2, "", f"Another demo runs in {seen.home.folder}: end it first, or name another folder in VIGIL_HOME.\n",
        )  # fmt: skip
        assert len(seen.home.processes("vigil_worker")) == 6
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    assert seen.home.processes() == []


def answers(url: str) -> bool:
    door = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with door.open(f"{url}login/", timeout=20) as answer:
        return answer.status == 200


def second_demo(home: Home) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "local.demo"]
    done = subprocess.run(command, cwd=ROOT, env=home.environment(), capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout, done.stderr


def test_a_killed_demo_leaves_nobody_and_the_next_one_goes_on_with_its_run(seen: Seen, home: Home) -> None:
    with home.start("--once") as running:
        slow_down(home)
        until(lambda: contacts_written(home) > 20)
        running.kill()
    until(lambda: home.processes() == [])
    result = home.shown()
    assert [(shown["outcome"], shown["read"]) for shown in result["syncs"]] == [("succeeded", 500), ("succeeded", 1000)]
    assert result["destination"] == SUMMARY
    assert home.contacts() == seen.home.contacts()


def test_killed_workers_change_nothing_of_what_arrives(seen: Seen, home: Home, database: str) -> None:
    """Cases QUEUE-02 and LEASE-02: a worker, then the whole cluster, by SIGKILL in the midst of a page."""
    with home.start("--once", "--json", DATABASE_URL=database) as running:
        slow_down(home)
        until(lambda: contacts_written(home) > 20)
        os.kill(busiest(home), signal.SIGKILL)
        until(lambda: contacts_written(home) > 120)
        os.killpg(os.getpgid(home.processes("vigil_worker")[0]), signal.SIGKILL)
        result = json.loads(running.communicate(timeout=90)[0])
    assert running.returncode == 0
    assert [(shown["outcome"], shown["read"]) for shown in result["syncs"]] == [("succeeded", 500), ("succeeded", 1000)]
    assert result["destination"] == SUMMARY
    assert home.contacts() == seen.home.contacts()
    assert (home.processes(), (home.folder / "demo-postgres").exists()) == ([], False)


def test_no_key_is_among_the_arguments_of_anything_and_what_is_kept_is_its_owner_s(home: Home) -> None:
    with home.start() as running:
        home.wait_for("Press Ctrl-C")
        keys = json.loads((home.folder / "demo-keys").read_text())
        keys["control"] = "".join(re.findall(r"SANDBOX_CONTROL_KEY=([^\0]+)", environment_of(home, "sandbox.brevo")))
        commands = "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in home.processes())
        assert "connectors.sandbox.shopify" in commands and "connectors.sandbox.brevo" in commands
        assert [name for name, key in keys.items() if not key or key in commands] == []
        made = [path for path in home.folder.rglob("*") if path.is_file() and "demo-postgres" not in path.parts]
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in made if path != home.said} == dict.fromkeys(
            (
                "brevo.log", "shopify.log", "workers.log", "web.log", "demo.lock", "watchdog.lock", "demo-keys",
                "demo-login", "brevo-demo.sqlite", "brevo-demo.sqlite-wal", "brevo-demo.sqlite-shm",
            ),
            0o600,
        )  # fmt: skip
        said = home.said.read_text()
        url = re.search(r"at (http://\S+)", said)
        assert url is not None and answers(url[1])
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        assert running.stdout is not None and url[1] in running.stdout.read()


def environment_of(home: Home, word: str) -> str:
    (pid,) = home.processes(word)
    return Path(f"/proc/{pid}/environ").read_text()


def test_a_database_that_is_killed_while_the_stage_is_set_is_told_and_leaves_nothing(home: Home) -> None:
    with home.start() as running:
        until(lambda: (home.folder / "brevo-demo.sqlite").exists())
        pid = postgres.find(home.folder / "demo-postgres").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert running.wait(60) == 1
        assert running.stdout is not None and running.stdout.read() == ""
    assert home.said.read_text().splitlines() == [LOST.format(folder=home.folder)]
    assert home.processes() == []
    assert home.shown()["destination"] == SUMMARY


def slow_down(home: Home) -> None:
    """Brevo takes its time for each contact, so that a kill meets a page half-way."""
    home.wait_for(UP)
    brevo = control_of(home)
    brevo("faults", {"path": "/v3/contacts", "method": "POST", "kind": "slow", "seconds": 0.15, "times": 150})


def control_of(home: Home) -> Callable[..., Any]:
    (pid,) = home.processes("sandbox.brevo")
    key = re.search(r"\0SANDBOX_CONTROL_KEY=([^\0]+)", Path(f"/proc/{pid}/environ").read_text())
    sockets = {link for link in links(pid) if link.startswith("socket:")}
    assert key is not None
    return Served(f"http://127.0.0.1:{port_of(sockets)}", key[1], None).control  # type: ignore[arg-type]


def links(pid: int) -> Iterator[str]:
    for file in Path(f"/proc/{pid}/fd").iterdir():
        yield str(file.readlink())


def port_of(sockets: set[str]) -> int:
    """The port on which one of a process's sockets listens."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            return int(fields[1].rpartition(":")[2], 16)
    raise AssertionError("nobody listens")


def contacts_written(home: Home) -> int:
    found: int = control_of(home)("summary")["contacts"]
    return found


def busiest(home: Home) -> int:
    """The worker that drives the runs: of all the cluster's processes the one with connections to the sandboxes."""
    connected = [pid for pid in home.processes("vigil_worker") if sum("socket:" in link for link in links(pid)) > 4]
    return max(connected, key=lambda pid: sum("socket:" in link for link in links(pid)))


# --- What a person can do wrong ---------------------------------------------------------------------------------------
def refused(home: Home, *arguments: str, **environment: str) -> str:
    """The one sentence of a call that is refused before anything is set up."""
    code, out, said = home.run(*arguments, **environment)
    assert (code, out) == (2, ""), said
    assert home.processes() == []
    return said


def test_a_port_that_is_taken_is_told_and_the_next_one_taken_only_when_none_was_asked_for(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(home, "--port", str(port))
    assert said == f"Port {port} on 127.0.0.1 cannot be used: name another one with --port, or leave it out.\n"


def test_an_unusable_shop_is_told_in_the_sandbox_s_own_words_before_anything_is_set_up(home: Home) -> None:
    shop = home.folder / "shop"
    missing = refused(home, "--shop", str(shop))
    shop.mkdir()
    (shop / "customers.jsonl").write_text('{"id": "gid://shopify/Customer/1", "updatedAt": "2026-1')
    (shop / "orders.jsonl").write_text("")
    half = refused(home, "--shop", str(shop))
    (shop / "customers.jsonl").write_text('{"updatedAt": "2026-11-01T00:00:00Z"}\n')
    nameless = refused(home, "--shop", str(shop))
    assert missing == (
        f"The shop folder {shop} does not exist: name a folder that holds customers.jsonl and orders.jsonl "
        "(each may end in .gz).\n"
    )
    assert half == "customers.jsonl line 1 is not whole JSON: the file may be cut off, write it again.\n"
    assert nameless.startswith("customers.jsonl line 1 ") and nameless.endswith(": correct that line.\n")
    assert not (home.folder / "demo-postgres").exists()


def test_a_shop_folder_that_cannot_even_be_looked_at_is_told(home: Home) -> None:
    (home.folder / "loop").symlink_to(home.folder / "loop")
    ask = "name one that holds customers.jsonl and orders.jsonl (each may end in .gz).\n"
    assert refused(home, "--shop", str(home.folder / "loop")) in {
        f"The folder that --shop names cannot be opened (Too many levels of symbolic links): {ask}",
        f"The folder that --shop names cannot be opened (its links lead in a circle): {ask}",
    }
    for name in ("n" * 5000, f"{'n' * 300}/{'n' * 300}"):
        said = refused(home, "--shop", str(home.folder / name))
        assert said == f"The folder that --shop names cannot be opened (File name too long): {ask}"
    assert not (home.folder / "demo-postgres").exists()


@pytest.mark.parametrize("port", ["abc", "", "-1", "65536", "8_0", "9" * 5000, "\u0663"])
def test_a_port_that_is_none_is_told(home: Home, port: str) -> None:
    said = refused(home, f"--port={port}")
    assert said == "--port is no port: name a whole number from 0 to 65535, or leave it out.\n"


def test_a_database_that_is_none_is_told(home: Home) -> None:
    said = {
        refused(home, DATABASE_URL="mysql://root@localhost/vigil"),
        refused(home, DATABASE_URL=f"postgres://somebody:secret@/{home.folder}/vigil"),
        refused(home, "--reset", DATABASE_URL="postgres://postgres@localhost/vigil"),
    }
    assert said == {
        "DATABASE_URL does not name a PostgreSQL: Vigil needs PostgreSQL 15 or newer.\n",
        "DATABASE_URL names a database that does not answer: start it, or correct it.\n",
        "--reset deletes the demo's own database, never that of DATABASE_URL: unset one of the two.\n",
    }


def test_an_unknown_option_is_a_wrong_use(home: Home) -> None:
    said = refused(home, "--twice")
    assert said.startswith("usage: script/demo") and said.endswith("unrecognized arguments: --twice\n")


def test_a_reset_begins_anew_and_a_folder_is_seen_from_where_the_person_stands(seen: Seen, home: Home) -> None:
    """A shop of its own has a demo of its own: database, Brevo account, domain."""
    shop = home.folder / "My Shop"
    shop.mkdir()
    for name, kind in (("customers", "Customer"), ("orders", "Order")):
        (shop / f"{name}.jsonl").write_text(json.dumps(node(kind)) + "\n")
    first = home.shown("--shop", "My Shop", VIGIL_CALLED_FROM=str(home.folder))
    login = (home.folder / "demo-login").read_text()
    second = home.shown("--shop", str(shop))
    third = home.shown("--shop", str(shop), "--reset")
    written = [[shown["written"] for shown in result["syncs"]] for result in (first, second, third)]
    assert written == [[1, 1], [0, 0], [1, 1]]
    assert third["destination"] == SUMMARY | {"contacts": 1, "list_members": 1, "orders": 1, "events": 1}
    assert (home.folder / "demo-login").read_text() != login
    (state,) = home.folder.glob("brevo-*.sqlite")
    assert re.fullmatch(r"brevo-my-shop-[0-9a-f]{10}\.sqlite", state.name)


def node(kind: str) -> dict[str, Any]:
    at = "2026-10-01T00:00:00Z"
    consent = {"marketingState": "SUBSCRIBED", "marketingOptInLevel": "SINGLE_OPT_IN", "marketingUpdatedAt": at}
    customer = {"id": "gid://shopify/Customer/1", "createdAt": at, "updatedAt": at}
    address = {"emailAddress": "ida@example.com", "validFormat": True, **consent}
    if kind == "Customer":
        return {**customer, "firstName": "Ida", "lastName": "Ashdown", "defaultEmailAddress": address}
    order = {"id": "gid://shopify/Order/1", "name": "#1", "createdAt": at, "processedAt": at, "updatedAt": at}
    return {**order, "customer": {"id": customer["id"]}}
