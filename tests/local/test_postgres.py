"""The embedded PostgreSQL: it starts, is joined, survives its crashes and leaves nothing behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import environ
import psycopg
import pytest

from local import postgres

ROOT = Path(postgres.__file__).parent.parent
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path that any account may pass through; every server left below it is removed."""
    folder = Path(tempfile.mkdtemp(prefix="vigil-place-", dir="/tmp")).resolve()
    folder.chmod(0o755)
    yield folder
    for cluster in [file.parent for file in folder.rglob("PG_VERSION") if (file.parent / "global").exists()]:
        postgres.find(cluster.parent).remove()
    shutil.rmtree(folder)


def ask(server: postgres.Server, query: str, database: str = "postgres") -> list[tuple[object, ...]]:
    with connected(server, database) as connection:
        return connection.execute(query).fetchall()


def connected(server: postgres.Server, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(host=str(server.socket_folder), port=5432, user="postgres", dbname=database, autocommit=True)


def started(folder: Path) -> postgres.Server:
    return postgres.start(folder, durable=False)


def kill(server: postgres.Server) -> int:
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert postgres._gone(pid, server.cluster_folder, 5)
    return pid


def command(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "local.postgres", *words, "--folder", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# --- Starting, joining, stopping --------------------------------------------------------------------------------------
def test_a_new_folder_gets_a_server_and_a_second_start_joins_it(place: Path) -> None:
    first = started(place / "pg")
    second = started(place / "pg")

    assert (second, second.pid, second.up) == (first, first.pid, True)
    assert ask(first, "SELECT datname FROM pg_database WHERE NOT datistemplate") == [("postgres",)]


def test_what_was_written_outlives_a_stop(place: Path) -> None:
    server = started(place / "pg")
    with connected(server) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    server.stop()

    assert (server.pid, server.up) == (None, False)
    assert ask(started(place / "pg"), "SELECT number FROM kept") == [(7,)]


def test_stopping_a_server_that_is_down_is_no_error(place: Path) -> None:
    server = started(place / "pg")
    server.stop()
    server.stop()

    assert server.pid is None


def test_a_fast_stop_does_not_wait_for_clients(place: Path) -> None:
    server = started(place / "pg")
    with connected(server) as connection:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")

    assert server.pid is None


def test_a_database_is_made_once(place: Path) -> None:
    server = started(place / "pg")
    server.ensure_database("vigil")
    server.ensure_database("vigil")

    assert ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'vigil'") == [(1,)]


@pytest.mark.parametrize("name", ["", "Vigil", "vi gil", "vigil'; DROP", "1st", "x" * 64])
def test_an_odd_database_name_is_refused(place: Path, name: str) -> None:
    server = started(place / "pg")
    with pytest.raises(ValueError, match="lower-case letters"):
        server.ensure_database(name)


def test_the_server_is_private_and_listens_on_its_socket_only(place: Path) -> None:
    server = started(place / "pg")

    assert ask(server, "SHOW listen_addresses") == [("",)]
    folders = (server.folder, server.socket_folder, server.cluster_folder)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
    assert {folder.stat().st_uid for folder in folders} == {server.account.uid}


def test_the_server_outlives_its_starter_and_has_a_session_of_its_own(place: Path) -> None:
    """Ctrl-C at the starter's terminal goes to the starter's session."""
    answer = command("start", folder=place / "pg")
    server = postgres.find(place / "pg")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"{server.url()}\n", "")
    assert server.pid is not None
    assert os.getsid(server.pid) not in (os.getsid(0), 0)


@pytest.mark.parametrize(("durable", "value"), [(True, "on"), (False, "off")])
def test_only_a_durable_server_waits_for_the_disk(place: Path, durable: bool, value: str) -> None:
    server = postgres.start(place / "pg", durable=durable)

    names = ("fsync", "synchronous_commit", "full_page_writes")
    assert [ask(server, f"SHOW {name}") for name in names] == [[(value,)]] * 3


def test_the_url_means_the_same_to_django(place: Path) -> None:
    server = started(place / "pg")
    server.ensure_database("vigil")

    read = environ.Env.db_url_config(server.url("vigil"))

    assert (read["HOST"], read["NAME"], read["USER"]) == (str(server.socket_folder), "vigil", "postgres")
    with psycopg.connect(host=read["HOST"], dbname=read["NAME"], user=read["USER"]) as connection:
        assert connection.execute("SELECT current_database()").fetchall() == [("vigil",)]


def test_the_server_inherits_no_secret_and_no_setting_of_the_caller(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "hidden")
    monkeypatch.setenv("PGPORT", "1")
    server = started(place / "pg")

    if sys.platform == "linux":
        assert b"SECRET_KEY" not in Path(f"/proc/{server.pid}/environ").read_bytes()
    assert ask(server, "SHOW port") == [("5432",)]


# --- Crashes ----------------------------------------------------------------------------------------------------------
def test_a_killed_server_starts_again_with_all_it_had_committed(place: Path) -> None:
    server = postgres.start(place / "pg")
    with connected(server) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    killed = kill(server)
    assert (server.pid, server.up) == (None, False)

    again = postgres.start(place / "pg")

    assert again.pid not in (None, killed)
    assert ask(again, "SELECT number FROM kept") == [(7,)]


def test_a_stale_pid_that_now_belongs_to_somebody_else_does_not_block_the_start(place: Path) -> None:
    server = started(place / "pg")
    kill(server)
    assert_starts_with_stale_pid(server, os.getpid())


def test_a_stale_pid_that_now_belongs_to_another_server_does_not_block_the_start(place: Path) -> None:
    """Nor is that other server taken for ours, though its folder's name begins with ours."""
    server = started(place / "pg")
    other = started(place / "pg" / "cluster.other")
    assert other.pid is not None
    kill(server)
    assert_starts_with_stale_pid(server, other.pid)
    assert other.up


def test_a_stale_pid_of_a_zombie_does_not_block_the_start(place: Path) -> None:
    server = started(place / "pg")
    kill(server)
    with subprocess.Popen(["/bin/sh", "-c", "exit 0"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert_starts_with_stale_pid(server, zombie.pid)


def assert_starts_with_stale_pid(server: postgres.Server, pid: int) -> None:
    for file in (server.cluster_folder / "postmaster.pid", server.socket_folder / ".s.PGSQL.5432.lock"):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([str(pid), *lines[1:], ""]))
    assert server.pid is None

    again = started(server.folder)

    assert again.pid not in (None, pid)
    assert ask(again, "SELECT 1") == [(1,)]


def test_a_start_waits_for_the_backends_of_a_killed_server(place: Path) -> None:
    """A busy backend does not notice the death of its server at once, and still holds the memory they shared."""
    server = started(place / "pg")
    busy = connected(server)
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 3000000)")
    kill(server)

    again = started(place / "pg")
    busy.close()

    assert ask(again, "SELECT 1") == [(1,)]


def test_a_half_made_cluster_is_made_anew(place: Path) -> None:
    server = started(place / "pg")
    server.stop()
    server.cluster_folder.rename(server.folder / "cluster.new")
    (server.folder / "cluster.new" / "PG_VERSION").unlink()

    assert ask(started(place / "pg"), "SELECT 1") == [(1,)]
    assert not (server.folder / "cluster.new").exists()


def test_many_starts_at_once_share_one_server(place: Path) -> None:
    words = [sys.executable, "-m", "local.postgres", "start", "--folder", str(place / "pg")]
    racing = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [(starter.communicate(timeout=60)[0], starter.returncode) for starter in racing]

    server = postgres.find(place / "pg")
    assert answers == [(f"{server.url()}\n", 0)] * 4
    assert ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'vigil'") == [(1,)]
    assert server.log.read_text().count("ready to accept connections") == 1


def test_an_interrupted_start_leaves_no_server_running(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def interrupted(server: postgres.Server, pid: int) -> bool:
        seen.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(postgres.Server, "_came_up", interrupted)
    with pytest.raises(KeyboardInterrupt):
        started(place / "pg")

    assert (len(seen), postgres._command_line(seen[0])) == (1, [])


# --- Places -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "below",
    ["deep-" + "x" * 60 + "/" + "y" * 60, "with spaces/in it", 'o\'dd $HOME "quoted" %s', "naïve-é"],
    ids=["long", "spaces", "quotes", "accents"],
)
def test_any_folder_will_do(place: Path, below: str) -> None:
    server = started(place / below)
    server.ensure_database("vigil")

    assert server.folder == place / below
    assert len(os.fsencode(server.socket_folder / ".s.PGSQL.5432")) < 104
    assert environ.Env.db_url_config(server.url("vigil"))["HOST"] == str(server.socket_folder)
    assert ask(server, "SELECT 1", "vigil") == [(1,)]
    assert started(place / below).pid == server.pid
    server.remove()
    assert (server.folder.exists(), server.socket_folder.exists()) == (False, False)


def test_a_short_socket_folder_that_somebody_else_made_is_refused(place: Path) -> None:
    """In the shared /tmp another account may have put a link there to catch our clients."""
    server = postgres.find(place / "with spaces")
    server.socket_folder.symlink_to(place)
    try:
        with pytest.raises(postgres.PostgresUnavailable, match="belongs to somebody else"):
            started(place / "with spaces")
    finally:
        server.socket_folder.unlink()


@pytest.mark.skipif(not AS_ROOT, reason="Only root lends the server another account.")
def test_as_root_the_server_runs_as_somebody_unprivileged(place: Path) -> None:
    server = started(place / "pg")

    assert Path(f"/proc/{server.pid}").stat().st_uid == server.account.uid != 0


@pytest.mark.skipif(not AS_ROOT, reason="Only root lends the server another account.")
def test_as_root_a_closed_place_is_left_closed_and_another_one_is_used(place: Path) -> None:
    (place / "closed").mkdir(mode=0o700)
    server = started(place / "closed" / "pg")
    try:
        assert server.folder.parent == postgres.OPEN_TO_ACCOUNTS
        assert stat.S_IMODE((place / "closed").stat().st_mode) == 0o700
        assert started(place / "closed" / "pg").pid == server.pid
    finally:
        server.remove()


def test_programs_that_the_account_may_not_run_are_copied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = postgres.find_binaries()
    monkeypatch.setattr(postgres.Account, "executes", lambda account, program: False)

    server = started(place / "pg")

    assert server.folder in server.binaries.folder.parents
    assert ask(server, "SELECT split_part(current_setting('server_version'), ' ', 1)") == [(installed.version,)]
    assert started(place / "pg").pid == server.pid
    assert (server.binaries.folder.parent / "share").is_dir()


# --- Finding it -------------------------------------------------------------------------------------------------------
def test_the_package_is_found_without_being_imported() -> None:
    code = (
        "import sys; from local import postgres as p; print(p.find_binaries().folder); print(p.PACKAGE in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    folder, imported = found.stdout.splitlines()
    assert (postgres.PACKAGE in folder, imported) == (True, "False")


def test_the_newest_of_the_package_that_runs_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [pretended(tmp_path / "a", "16.9"), pretended(tmp_path / "b", "18.4"), tmp_path / "missing"]
    folders += [pretended(tmp_path / "c", "14.9"), pretended(tmp_path / "d", "19.1", code=1)]
    (tmp_path / "d" / "psql").unlink()
    monkeypatch.setattr(postgres, "_package_folders", lambda: folders)

    assert postgres.find_binaries() == postgres.Binaries(tmp_path / "b", "18.4")
    assert postgres.find_binaries(major=16) == postgres.Binaries(tmp_path / "a", "16.9")


def test_the_named_folder_comes_after_the_package_and_before_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_package_folders", list)
    system, package = pretended(tmp_path / "system", "17.2"), pretended(tmp_path / "package", "16.1")
    monkeypatch.setattr(postgres, "_system_folders", lambda: [system])
    assert postgres.find_binaries().folder == tmp_path / "system"

    monkeypatch.setenv("VIGIL_PG_BIN", str(pretended(tmp_path / "named", "15.1")))
    assert postgres.find_binaries().folder == tmp_path / "named"

    monkeypatch.setattr(postgres, "_package_folders", lambda: [package])
    assert postgres.find_binaries().folder == tmp_path / "package"


def pretended(folder: Path, version: str, code: int = 0) -> Path:
    """A folder of programs that say they are PostgreSQL ``version``."""
    folder.mkdir()
    for name in postgres.PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\nexit {code}\n")
        (folder / name).chmod(0o755)
    return folder


def test_without_any_postgres_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for finder in ("_package_folders", "_named_folders", "_system_folders"):
        monkeypatch.setattr(postgres, finder, list)

    with pytest.raises(postgres.PostgresUnavailable, match=r"^No PostgreSQL 15 or newer was found: .*DATABASE_URL"):
        postgres.find_binaries()


def test_a_cluster_of_a_version_that_is_gone_is_left_alone(place: Path) -> None:
    server = started(place / "pg")
    server.stop()
    (server.cluster_folder / "PG_VERSION").write_text("13\n")

    answer = command("start", folder=place / "pg")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("No PostgreSQL 13, which made the existing cluster, was found: ")
    (server.cluster_folder / "PG_VERSION").write_text(f"{server.binaries.major}\n")


def test_a_server_that_cannot_start_says_why_in_one_sentence(place: Path) -> None:
    server = started(place / "pg")
    server.stop()
    (server.cluster_folder / "pg_hba.conf").unlink()

    answer = command("start", folder=place / "pg")

    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (1, "", 1)
    assert answer.stderr.startswith(f"PostgreSQL in {place / 'pg'} did not start: ")
    assert "FATAL" in answer.stderr


def test_a_folder_that_cannot_be_made_is_one_sentence(place: Path) -> None:
    (place / "file").touch()

    answer = command("start", folder=place / "file" / "pg")

    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (1, "", 1)
    assert answer.stderr.endswith("name another one in VIGIL_HOME.\n")


# --- Command line -----------------------------------------------------------------------------------------------------
def test_status_tells_up_from_down(place: Path) -> None:
    server = started(place / "pg")
    up = command("status", folder=place / "pg")
    stopped = command("stop", folder=place / "pg")
    down = command("status", folder=place / "pg")

    assert (up.returncode, f"in {place / 'pg'} is up, process" in up.stdout) == (0, True)
    assert (stopped.returncode, stopped.stdout) == (0, f"PostgreSQL in {place / 'pg'} is down.\n")
    assert (down.returncode, down.stdout) == (3, f"PostgreSQL {server.binaries.version} in {place / 'pg'} is down.\n")


def test_asking_after_a_server_makes_nothing(place: Path) -> None:
    answers = [command(word, folder=place / "pg").returncode for word in ("status", "stop", "url")]

    assert (answers, list(place.iterdir())) == ([3, 0, 0], [])


def test_the_default_folder_is_in_the_checkout_or_in_vigil_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIGIL_HOME", raising=False)
    assert postgres.default_folder() == ROOT / ".vigil" / "postgres"
    monkeypatch.setenv("VIGIL_HOME", "/srv/vigil")
    assert postgres.default_folder() == Path("/srv/vigil/postgres")


# --- Temporary servers ------------------------------------------------------------------------------------------------
def test_a_temporary_server_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with postgres.temporary() as server:
        pid = server.pid
        assert ask(server, "SHOW fsync") == [("off",)]

    assert pid is not None
    assert (postgres._command_line(pid), list(place.iterdir())) == ([], [])


def test_a_command_beside_a_temporary_server_gives_its_exit_code(place: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "local.postgres", "run", "sh", "-c", 'echo "$DATABASE_URL"; exit 7'],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.returncode, answer.stderr) == (7, "")
    assert answer.stdout.startswith(f"postgres://postgres@/{place}/vigil-test-")
    assert list(place.iterdir()) == []


def test_what_a_killed_owner_left_is_removed_and_what_lives_is_spared(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    code = (
        "import os, signal; from local import postgres as p\n"
        "with p.temporary() as server: print(server.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        check=False,
    )
    orphan = int(killed.stdout)
    assert (killed.returncode, bool(postgres._command_line(orphan))) == (-signal.SIGKILL, True)

    with postgres.temporary() as living:
        postgres.remove_orphans()
        assert postgres._command_line(orphan) == []
        assert [living.up, *place.iterdir()] == [True, living.folder]


def test_a_folder_whose_owner_is_just_arriving_is_spared(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    newborn, forgotten = place / "vigil-test-new", place / "vigil-test-old"
    newborn.mkdir()
    forgotten.mkdir()
    long_ago = time.time() - 3600
    os.utime(forgotten, (long_ago, long_ago))

    postgres.remove_orphans()

    assert list(place.iterdir()) == [newborn]
