"""Logging in: how often somebody may fail, what strangers learn, and when the idle are logged out (PRODUCT 10.1)."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone

from syncs.domain.clock import ManualClock
from syncs.services import throttling
from syncs.views import gates
from tests import factories

WRONG = "not the password"
TOKEN = re.compile(rb'name="csrfmiddlewaretoken" value="\w+"')


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture
def person(db: None) -> User:
    return factories.member(factories.workspace(), name="ada")


def tried(name: str, password: str, address: str = "192.0.2.1", agent: str = "one") -> HttpResponse:
    client = Client(REMOTE_ADDR=address, HTTP_USER_AGENT=agent)
    return client.post("/login/", {"username": name, "password": password})  # type: ignore[return-value]


def fail(name: str, times: int, address: str = "192.0.2.1") -> list[int]:
    return [tried(name, WRONG, address, agent=f"agent {number}").status_code for number in range(times)]


def later(by: timedelta) -> None:
    """What was tried until now is so much longer ago."""
    for attempt in AccessAttempt.objects.all():
        AccessAttempt.objects.filter(pk=attempt.pk).update(attempt_time=attempt.attempt_time - by)


def test_the_fifth_failure_locks_a_name_out_at_its_address_and_says_until_when(person: User) -> None:
    assert fail("ada", throttling.FAILURES) == [200, 200, 200, 200, 429]
    answer = tried("ada", factories.PASSWORD)
    until = (timezone.now() + throttling.WAIT).strftime("%H:%M")
    assert answer.status_code == 429
    assert f"Too many log-ins failed from here. Try again in 15 minutes, at {until} UTC." in answer.content.decode()
    assert 14 * 60 < int(answer.headers["Retry-After"]) <= 15 * 60
    assert "sessionid" not in answer.cookies


def test_the_owner_gets_in_from_elsewhere_meanwhile(person: User) -> None:
    fail("ada", throttling.FAILURES)
    assert tried("ada", factories.PASSWORD, "192.0.2.2").status_code == 302


def test_others_get_in_from_the_same_address(person: User) -> None:
    factories.member(factories.workspace(), name="bob")
    fail("ada", throttling.FAILURES)
    assert tried("bob", factories.PASSWORD).status_code == 302


def test_the_wait_ends_and_trying_meanwhile_does_not_make_it_longer(person: User) -> None:
    fail("ada", throttling.FAILURES)
    later(throttling.WAIT - timedelta(seconds=30))
    assert fail("ada", 3) == [429, 429, 429]
    assert "Try again in 1 minute, at" in tried("ada", WRONG).content.decode()
    later(timedelta(seconds=31))
    assert tried("ada", factories.PASSWORD).status_code == 302


def test_a_log_in_begins_the_count_anew(person: User) -> None:
    fail("ada", throttling.FAILURES - 1)
    assert tried("ada", factories.PASSWORD).status_code == 302
    assert fail("ada", throttling.FAILURES - 1) == [200] * (throttling.FAILURES - 1)


def test_an_address_that_tries_many_names_is_locked_out_whatever_the_name(person: User) -> None:
    most = throttling.FAILURES * throttling.ADDRESS_SHARE
    found = [tried(f"name-{number}", WRONG).status_code for number in range(most)]
    assert found == [200] * (most - 1) + [429]
    assert tried("ada", factories.PASSWORD).status_code == 429
    assert tried("ada", factories.PASSWORD, "192.0.2.2").status_code == 302


def test_an_account_of_ones_own_does_not_wash_an_address_clean(person: User) -> None:
    most = throttling.FAILURES * throttling.ADDRESS_SHARE
    for number in range(most - 1):
        tried(f"name-{number}", WRONG)
    assert tried("ada", factories.PASSWORD).status_code == 302
    assert tried("another", WRONG).status_code == 429


def test_a_name_that_nobody_has_is_told_the_same_as_a_wrong_password_and_as_an_account_that_is_closed(
    person: User,
) -> None:
    factories.user("closed", is_active=False)
    pages = [tried("ada", WRONG), tried("nobody", WRONG), tried("closed", factories.PASSWORD)]
    names = (b"ada", b"nobody", b"closed")
    shown = {
        TOKEN.sub(b"", page.content).replace(b'value="%s"' % name, b"") for page, name in zip(pages, names, strict=True)
    }
    assert [page.status_code for page in pages] == [200, 200, 200]
    assert len(shown) == 1


def test_a_name_that_nobody_has_is_locked_out_the_same(person: User) -> None:
    assert fail("nobody", throttling.FAILURES) == fail("ada", throttling.FAILURES)
    pages = [TOKEN.sub(b"", tried(name, WRONG).content) for name in ("nobody", "ada")]
    assert pages[0] == pages[1]


def test_no_password_and_no_name_is_kept_or_logged(person: User, caplog: pytest.LogCaptureFixture) -> None:
    fail("ada", throttling.FAILURES)
    kept = " ".join(f"{one.get_data} {one.post_data}" for one in AccessAttempt.objects.all())
    assert WRONG not in kept
    assert "ada" not in caplog.text and WRONG not in caplog.text and "192.0.2.1" not in caplog.text


# --- One door ---------------------------------------------------------------------------------------------------------
def test_the_admin_has_no_door_of_its_own(db: None) -> None:
    factories.superuser("root")
    client = Client()
    assert client.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    assert client.get("/admin/login/?next=/admin/").headers["Location"] == "/login/?next=/admin/"
    assert client.post("/admin/login/", {"username": "root", "password": factories.PASSWORD}).status_code == 405
    posted = {"username": "root", "password": factories.PASSWORD, "next": "/admin/"}
    assert client.post("/login/", posted).headers["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_who_is_no_staff_is_told_so_and_not_sent_in_circles(person: User) -> None:
    client = Client()
    client.force_login(person)
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain == [("/admin/login/?next=/admin/", 302)]
    assert (answer.status_code, "This page is for staff" in answer.content.decode()) == (403, True)


# --- The session ------------------------------------------------------------------------------------------------------
def test_a_log_in_brings_another_session(person: User) -> None:
    client = Client()
    client.get("/login/")
    session = client.session
    session["before"] = 1
    session.save()
    client.cookies["sessionid"] = session.session_key
    client.post("/login/", {"username": "ada", "password": factories.PASSWORD})
    assert client.cookies["sessionid"].value != session.session_key
    cookie = client.cookies["sessionid"]
    assert (bool(cookie["httponly"]), cookie["samesite"]) == (True, "Lax")


def test_who_does_nothing_for_two_hours_is_logged_out(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(timezone.now())
    monkeypatch.setattr(gates, "CLOCK", clock)
    client = Client()
    client.force_login(person)
    for _ in range(3):
        clock.advance(timedelta(minutes=119))
        assert client.get("/account/").status_code == 200
    clock.advance(timedelta(minutes=121))
    answer = client.get("/account/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/login/?next=/account/")
    assert "You were logged out because nothing was done" in client.get("/login/").content.decode()


def test_a_page_that_looks_again_by_itself_keeps_nobody_logged_in(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(timezone.now())
    monkeypatch.setattr(gates, "CLOCK", clock)
    client = Client()
    client.force_login(person)
    for _ in range(3):
        clock.advance(timedelta(minutes=39))
        assert client.get("/account/", headers={"X-Requested-With": "fetch"}).status_code == 200
    clock.advance(timedelta(minutes=10))
    assert client.get("/account/").status_code == 302


# --- Whose address ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("proxies", "header", "peer", "address"),
    [
        (0, "198.51.100.9", "192.0.2.1", "192.0.2.1"),
        (1, "198.51.100.9", "192.0.2.1", "198.51.100.9"),
        (1, "6.6.6.6, 198.51.100.9", "192.0.2.1", "198.51.100.9"),
        (2, "6.6.6.6, 198.51.100.9, 203.0.113.7", "192.0.2.1", "198.51.100.9"),
        (2, "198.51.100.9", "192.0.2.1", "192.0.2.1"),
        (1, "", "192.0.2.1", "192.0.2.1"),
        (1, "198.51.100.9:4711", "192.0.2.1", "198.51.100.9"),
        (1, "[2001:db8:1:2:3::4]:4711", "192.0.2.1", "2001:db8:1:2::"),
        (0, "", "2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        (0, "", "::ffff:192.0.2.1", "192.0.2.1"),
        (1, "unknown", "192.0.2.1", "192.0.2.1"),
        (0, "", "", throttling.UNKNOWN),
    ],
)
def test_an_address_is_believed_only_from_proxies_that_are_ours(
    settings: Any, proxies: int, header: str, peer: str, address: str
) -> None:
    settings.VIGIL_PROXIES = proxies
    request = RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=header)
    assert throttling.client_address(request) == address


@pytest.mark.parametrize("length", [151, 300, 5_000])
def test_a_name_longer_than_any_is_answered_like_a_wrong_one_and_not_written_down(person: User, length: int) -> None:
    answer = tried("x" * length, "whatever")
    assert answer.status_code == 200
    assert not AccessAttempt.objects.filter(username__startswith="xxx").exists()
