"""Settings that cannot work end a command with one sentence that says what to do, never with a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KEYS = {
    "SECRET_KEY": "a-long-and-random-text-of-more-than-fifty-characters-0123456789",
    "VIGIL_CREDENTIAL_KEYS": "k1:" + "ab" * 32,
    "VIGIL_EFFECT_KEY": "cd" * 32,
    "ALLOWED_HOSTS": "vigil.example",
}


def manage(*words: str, **changes: str | None) -> "subprocess.CompletedProcess[str]":
    given: dict[str, str | None] = {**os.environ, "VIGIL_ENV": "production", **KEYS, **changes}
    environment = {name: value for name, value in given.items() if value is not None}
    command = [sys.executable, "manage.py", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["SECRET_KEY", "VIGIL_CREDENTIAL_KEYS", "VIGIL_EFFECT_KEY", "DATABASE_URL"])
def test_a_missing_key_in_production_is_one_sentence(name: str) -> None:
    ended = manage("check", **{name: None})
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{name} is not set: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"DATABASE_URL": "sqlite:///x.db"}, "Vigil needs PostgreSQL 15 or newer"),
        ({"DATABASE_URL": "not a url"}, "DATABASE_URL"),
        ({"VIGIL_ENV": "staging"}, "set it to production, demo or test"),
        ({"VIGIL_LEASE_SECONDS": "soon"}, "VIGIL_LEASE_SECONDS"),
        ({"VIGIL_CREDENTIAL_KEYS": "k1:short"}, "vigil.E001"),
        ({"VIGIL_EFFECT_KEY": "short"}, "vigil.E002"),
        ({"VIGIL_LEASE_RENEW_SECONDS": "600"}, "vigil.E003"),
        ({"VIGIL_CALL_SECONDS": "600"}, "vigil.E004"),
        ({"VIGIL_SLICE_SECONDS": "900"}, "vigil.E005"),
        ({"DATABASE_URL": "postgres://nobody@127.0.0.1:1/vigil"}, "Connection refused"),
    ],
)
def test_settings_that_cannot_work_say_so(changes: dict[str, str], words: str) -> None:
    command = ("check", "--database", "default") if "127.0.0.1" in changes.get("DATABASE_URL", "") else ("check",)
    ended = manage(*command, **changes)
    assert ended.returncode != 0
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_proxy_whose_addresses_are_not_believed_is_a_warning() -> None:
    ended = manage("check", "--deploy", "--fail-level", "WARNING", BEHIND_PROXY="yes")
    assert (ended.returncode, "vigil.W009" in ended.stderr) == (1, True)
    assert manage("check", "--deploy", "--fail-level", "WARNING", BEHIND_PROXY="yes", VIGIL_PROXIES="1").returncode == 0


def test_production_settings_pass_the_deployment_check() -> None:
    ended = manage("check", "--deploy", "--database", "default", "--fail-level", "WARNING")
    assert (ended.returncode, ended.stderr) == (0, "")
