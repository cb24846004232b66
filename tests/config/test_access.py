"""Headers on every answer, in production as it is started: pages, files, refusals, faults; and CSRF (PRODUCT 10)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from config import access
from tests import factories

ROOT = Path(__file__).resolve().parent.parent.parent
ALWAYS = {
    **access.HEADERS,
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains; preload",
}
ANSWERS = {
    "/login/": 200,
    "/admin/": 302,
    "/": 302,
    "/no-such-page/": 404,
    "/static/vigil.css": 200,
    "/static/no-such-file.css": 404,
}
ASK = """
import json, os, sys
import django
django.setup()
from django.test import Client
client = Client(raise_request_exception=False)
found = {}
for path in json.loads(sys.argv[1]):
    answer = client.get(path, secure=True, headers={"Host": "vigil.example"})
    found[path] = [answer.status_code, dict(answer.headers)]
plain = client.get("/login/", headers={"Host": "vigil.example"})
found["plain"] = [plain.status_code, dict(plain.headers)]
other = client.get("/login/", secure=True, headers={"Host": "elsewhere.example"})
found["other host"] = [other.status_code, dict(other.headers)]
posted = Client(enforce_csrf_checks=True).post("/login/", {}, secure=True, headers={"Host": "vigil.example"})
found["no token"] = [posted.status_code, dict(posted.headers)]
page = client.get("/login/", secure=True, headers={"Host": "vigil.example"})
found["cookie"] = page.cookies["csrftoken"].OutputString()
from django.conf import settings
found["session"] = [settings.SESSION_COOKIE_SECURE, settings.SESSION_COOKIE_HTTPONLY, settings.SESSION_COOKIE_SAMESITE]
found["second factor"] = settings.VIGIL_STAFF_SECOND_FACTOR
found["hasher"] = settings.PASSWORD_HASHERS[0]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> dict[str, Any]:
    """What a production process answers."""
    from django.db import connection

    name = connection.settings_dict["NAME"]
    url = os.environ["DATABASE_URL"]
    environment = {
        **os.environ,
        "VIGIL_ENV": "production",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "SECRET_KEY": "a-long-and-random-text-of-more-than-fifty-characters-0123456789",
        "VIGIL_CREDENTIAL_KEYS": "k1:" + "ab" * 32,
        "VIGIL_EFFECT_KEY": "cd" * 32,
        "ALLOWED_HOSTS": "vigil.example",
        "DATABASE_URL": url[: url.rindex("/") + 1] + name,
        "STATIC_ROOT": str(tmp_path_factory.mktemp("static")),
    }
    asked = [sys.executable, "-c", ASK, json.dumps(list(ANSWERS))]
    ended = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("path", [*ANSWERS, "other host", "no token"])
def test_every_answer_carries_the_headers(production: dict[str, Any], path: str) -> None:
    status, headers = production[path]
    assert status == {**ANSWERS, "other host": 400, "no token": 403}[path]
    assert {name: headers.get(name) for name in ALWAYS} == ALWAYS
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert ("unsafe" in headers["Content-Security-Policy"]) is path.startswith("/admin/")


def test_plain_http_is_sent_to_https_with_the_headers(production: dict[str, Any]) -> None:
    status, headers = production["plain"]
    assert (status, headers["Location"]) == (301, "https://vigil.example/login/")
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_cookies_and_passwords_of_production(production: dict[str, Any]) -> None:
    assert production["session"] == [True, True, "Lax"]
    assert "Secure" in production["cookie"]
    assert production["hasher"].endswith("Argon2PasswordHasher")
    assert production["second factor"] is True


def test_a_fault_of_ours_carries_them_too(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    settings.STATIC_ROOT = str(tmp_path)

    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("A fault of ours.")

    monkeypatch.setattr("syncs.queries.workspaces_for", broken)
    client = Client(raise_request_exception=False)
    client.force_login(factories.user())
    answer = client.get("/")
    assert answer.status_code == 500
    assert {name: answer.headers.get(name) for name in access.HEADERS} == dict(access.HEADERS)
    assert "Content-Security-Policy" in answer.headers


def test_a_password_that_is_easy_to_guess_is_refused(db: None) -> None:
    from django.contrib.auth.password_validation import validate_password
    from django.core.exceptions import ValidationError

    for word in ("short1", "12345678901", "password123", "ada-lovelace"):
        with pytest.raises(ValidationError):
            validate_password(word, factories.user("ada-lovelace") if word == "ada-lovelace" else None)
