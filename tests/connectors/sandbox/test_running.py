"""Starting, stopping and killing the servers."""

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from connectors import sandbox
from connectors.sandbox import brevo, shopify
from tests.connectors.sandbox.callers import API_KEY, TOKEN, Brevo, http_client

ROOT = Path(__file__).resolve().parents[3]


def _until(true: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_quickly_and_well(number: signal.Signals) -> None:
    served = sandbox.start("brevo", api_key=API_KEY)
    served.control("faults", {"path": "/v3", "kind": "slow", "seconds": 30})
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{served.url}/v3/account", headers={"api-key": API_KEY}, timeout=0.05, trust_env=False)
    started = time.monotonic()
    served.process.send_signal(number)
    assert served.process.wait(5) == 0
    assert time.monotonic() - started < 2
    served.stop()


def test_a_key_that_begins_with_a_dash_is_a_key_like_any_other() -> None:
    with sandbox.serving("brevo", api_key="-k", control_key="--help") as served:
        answer = httpx.get(f"{served.url}/v3/account", headers={"api-key": "-k"}, trust_env=False)
        assert (answer.status_code, served.control("summary")["requests"]) == (200, 1)


def test_a_port_in_use_is_told_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(sandbox.NotStarted) as refused:
            sandbox.start("shopify", token=TOKEN, port=port)
    assert str(refused.value) == f"Port {port} on 127.0.0.1 cannot be used: choose another, or 0 for a free one."


def test_the_keys_are_not_among_the_arguments_where_everybody_can_read_them(tmp_path: Path) -> None:
    keys = {"shopify": {"token": "shpat_s3cret"}, "brevo": {"api_key": "xkeysib-s3cret"}}
    for kind, key in keys.items():
        with sandbox.serving(kind, control_key="s3cret-too", **key) as served:  # type: ignore[arg-type]
            command = Path(f"/proc/{served.process.pid}/cmdline").read_text()
            assert f"connectors.sandbox.{kind}" in command
            assert "s3cret" not in command
            assert served.control("summary")["requests"] == 0


@pytest.mark.parametrize(("kind", "name"), [("shopify", "SANDBOX_TOKEN"), ("brevo", "SANDBOX_API_KEY")])
def test_a_missing_key_is_told_in_one_sentence(kind: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    with pytest.raises(sandbox.NotStarted) as refused:
        sandbox.start(kind)
    assert str(refused.value) == f"{name} is not set: set it to the key that the sandbox is to accept."


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.iterdir())}


def test_the_state_and_all_beside_it_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Also a state that was made more openly."""
    state = tmp_path / "state.sqlite"
    with sandbox.serving("brevo", api_key=API_KEY, state=state) as served:
        served.control("contacts", {"email": "ida@example.com"})
        assert modes(tmp_path) == dict.fromkeys(("state.sqlite", "state.sqlite-shm", "state.sqlite-wal"), 0o600)
        served.kill()
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    with sandbox.serving("brevo", api_key=API_KEY, state=state) as served:
        assert served.control("summary")["contacts"] == 1
        assert set(modes(tmp_path).values()) == {0o600}


def test_a_program_that_is_started_by_hand_makes_private_files_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "connectors.sandbox.brevo", f"--state={tmp_path / 'state.sqlite'}"]
    environment = {**os.environ, "SANDBOX_API_KEY": "k"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, umask=0, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdout.readline()
        status = Path(f"/proc/{running.pid}/status").read_text()
        running.terminate()
    assert "Umask:\t0077" in status


def test_what_cannot_be_loaded_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_TOKEN", "t")
    monkeypatch.setenv("SANDBOX_API_KEY", "k")
    (tmp_path / "state.sqlite").write_bytes(b"this is no database, and long enough to be looked at " * 20)
    codes = [
        shopify.main(["--shop", str(tmp_path / "none")]),
        shopify.main(["--shop", str(tmp_path / ("n" * 5000))]),
        shopify.main(["--timezone", "Mars/North"]),
        brevo.main(["--state", str(tmp_path / "state.sqlite")]),
        brevo.main(["--state", str(tmp_path / "none" / "state.sqlite")]),
    ]
    said = capsys.readouterr()
    assert (codes, said.out) == ([2] * 5, "")
    assert said.err.splitlines() == [
        f"The shop folder {tmp_path}/none does not exist: name a folder that holds customers.jsonl and orders.jsonl "
        "(each may end in .gz).",
        "The shop folder cannot be opened (File name too long): name a folder that holds customers.jsonl and "
        "orders.jsonl (each may end in .gz).",
        "Mars/North is no time zone: name one like Europe/London.",
        f"{tmp_path}/state.sqlite cannot be used as the state: name a file that is new or a sandbox's own.",
        f"{tmp_path}/none/state.sqlite cannot be used as the state: name a file that is new or a sandbox's own.",
    ]


def test_a_server_dies_with_the_process_that_started_it() -> None:
    starter = """
        import sys, threading, time
        from connectors import sandbox
        served = []
        # The thread that starts it ends at once, which must not end the server.
        thread = threading.Thread(target=lambda: served.append(sandbox.start("brevo", api_key="k")))
        thread.start(); thread.join(); time.sleep(0.1)
        print(served[0].process.poll(), served[0].process.pid, flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(starter)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as parent:
        assert parent.stdout is not None
        state, pid = parent.stdout.readline().split()
        assert (state, _alive(int(pid))) == ("None", True)
        parent.kill()
    _until(lambda: not _alive(int(pid)))


def _alive(pid: int) -> bool:
    """A zombie, which nobody may be there to collect, is dead."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_kill_loses_nothing_that_was_answered_and_a_second_start_goes_on(tmp_path: Path) -> None:
    state = tmp_path / "state.sqlite"
    order = {
        "id": "o1", "createdAt": "2026-11-01T00:00:00Z", "updatedAt": "2026-11-01T00:00:00Z", "status": "paid",
        "amount": 5.5, "products": [{"productId": "p", "quantity": 1, "price": 5.5}], "identifiers": {"ext_id": "e1"},
    }  # fmt: skip
    first = sandbox.start("brevo", api_key=API_KEY, state=state, batch_seconds=60)
    with http_client(first) as http:
        account = Brevo(first, http)
        for number in range(1, 41):
            body = {"email": f"p{number}@example.com", "ext_id": f"e{number}", "listIds": [7]}
            assert account.post("/contacts", body) == (201, {"id": number})
        event = {"event_name": "order_placed", "identifiers": {"contact_id": 1}}
        assert account.post("/events", event)[0] == 204
        assert account.post("/orders/status/batch", {"orders": [order]}) == (202, {"batchId": 1, "count": 1})
        before = account.dump()
        first.kill()
    options = {"api_key": API_KEY, "state": state, "batch_seconds": 0.01}
    with sandbox.serving("brevo", **options) as second, http_client(second) as http:
        account = Brevo(second, http)
        _until(lambda: account.control("summary")["orders"] == 1)
        assert account.dump() == {**before, "orders": [{**order, "contact_id": 1, "triggers": 0}]}
        assert account.post("/contacts", {"email": "p41@example.com"}) == (201, {"id": 41})


def test_a_server_whose_parent_died_while_it_started_stops_at_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    command = [sys.executable, "-m", "connectors.sandbox.brevo", f"--die-with-parent={gone.pid}"]
    environment = {**os.environ, "SANDBOX_API_KEY": "k"}
    assert subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=10).returncode == 0
