"""What no page could make sense of is one sentence and a 400, never a page that broke."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIRequest
from django.core.signals import got_request_exception
from django.db import DataError
from django.http import HttpResponse
from django.test import Client, RequestFactory

from config import context, middleware
from config.middleware import PlainInput

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=x"
ENCODING = "This request says that it is in another encoding than UTF-8, so nothing was done: send it in UTF-8."
UNREADABLE = "This request cannot be read, so nothing was done: go back, load the page again and send it once more."
NUL = "This request holds a character that no text may hold, so nothing was done: leave the NUL out."
TOO_LARGE = "A value in this address is out of range: correct it, or leave it out."
BIG = "9" * 20


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Any) -> None:
    settings.STATIC_ROOT = str(tmp_path)


@pytest.fixture(autouse=True)
def broken() -> Iterator[list[object]]:
    """What a page broke with: nothing."""
    found: list[object] = []

    def note(**said: object) -> None:
        found.append(said)

    got_request_exception.connect(note)
    yield found
    got_request_exception.disconnect(note)
    assert found == []


@pytest.fixture
def staff(db: None) -> Client:
    browser = Client(enforce_csrf_checks=True, raise_request_exception=False)
    browser.force_login(User.objects.create_superuser("chief"))
    return browser


def stranger() -> Client:
    """A browser that checks its forms as a real one's are, and has no account."""
    return Client(enforce_csrf_checks=True, raise_request_exception=False)


def told(answer: Any) -> tuple[int, str]:
    """Its status, and the sentence that it shows."""
    found = re.search(r'<p class="hero">(.*?)</p>', answer.content.decode())
    return answer.status_code, found[1] if found else ""


# --- Forms ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("charset", ["utf-16", "UTF-7", "latin1", "hex", "punycode", "idna"])
@pytest.mark.parametrize("path", ["/login/", "/admin/login/", "/w/acme/syncs/1/run/"])
def test_a_form_in_another_encoding_is_told(path: str, charset: str) -> None:
    answer = stranger().generic("POST", path, b"username=a&password=%FF", f"{FORM}; charset={charset}")
    assert told(answer) == (400, ENCODING)


def test_an_address_in_another_encoding_is_told() -> None:
    assert told(stranger().generic("GET", "/login/?next=%FF", b"x", f"{FORM}; charset=utf-16")) == (400, ENCODING)


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "nonsense"])
@pytest.mark.django_db
def test_utf_8_by_any_name_and_names_that_nobody_knows_are_read_as_ever(charset: str) -> None:
    """Without its token the form is refused as any other is."""
    answer = stranger().generic("POST", "/login/", b"username=a", f"{FORM}; charset={charset}")
    assert answer.status_code == 403


def part(name: str, value: str, more: str = "", head: str = "") -> bytes:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n{head}\r\n{value}\r\n'.encode()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"junk", "multipart/form-data"),
        (b"junk", f"multipart/form-data; boundary={'y' * 300}"),
        (b"junk", "multipart/form-data; boundary=\xe9"),
        (part("a", "A", '; filename="f"', "Content-Transfer-Encoding: base64\r\n"), MULTIPART),
        (b"&".join(b"f%d=1" % number for number in range(1001)), FORM),
        (b"a=" + b"x" * 2_700_000, FORM),
        (b"".join(part(f"f{number}", "1") for number in range(1010)), MULTIPART),
    ],
    ids=["no boundary", "long boundary", "odd boundary", "bad base64", "1001 fields", "2.7 MB", "1010 parts"],
)
def test_a_form_that_cannot_be_read_is_told(body: bytes, kind: str) -> None:
    assert told(stranger().generic("POST", "/login/", body, kind)) == (400, UNREADABLE)


def test_an_address_of_too_many_values_is_told() -> None:
    assert told(stranger().get("/login/?" + "&".join("a" * 1001))) == (400, UNREADABLE)


# --- NUL --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path",
    [
        "/admin/syncs/run/?state__exact=%00",
        "/admin/syncs/run/?q=a%00b",
        "/admin/syncs/run/?%00=1",
        "/admin/syncs/run/%00/change/",
        "/admin/autocomplete/?term=%00&app_label=syncs&model_name=membership&field_name=user",
    ],
)
def test_a_nul_in_an_address_is_told(staff: Client, path: str) -> None:
    assert told(staff.get(path)) == (400, NUL)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"username=%00", FORM),
        (b"%00=a", FORM),
        (part("username", "a\0b") + b"--x--", MULTIPART),
        (part("a\0", "b", '; filename="f"') + b"--x--", MULTIPART),
    ],
)
def test_a_nul_in_a_form_is_told(body: bytes, kind: str) -> None:
    assert told(stranger().generic("POST", "/login/", body, kind)) == (400, NUL)


@pytest.mark.parametrize("name", ["sessionid", "csrftoken", "messages", "anything"])
def test_a_nul_in_a_cookie_is_told(name: str) -> None:
    """A quoted cookie may spell any character; a session is looked up under what it spells."""
    assert told(stranger().get("/", headers={"cookie": f'{name}="\\000aaaaaaaaaaa"'})) == (400, NUL)


# --- Numbers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "query",
    [
        f"id__exact={BIG}", f"id__exact=-{BIG}", f"id__in=1,{BIG}", f"id__gt= {BIG}", f"sync__id__exact={BIG}",
        f"id__exact={'9' * 5000}", "created_at__year=99999999", "created_at__year=0", "created_at__year__gte=-1",
    ],
)  # fmt: skip
def test_a_number_that_nothing_can_be_compared_with_is_told(staff: Client, query: str) -> None:
    assert told(staff.get(f"/admin/syncs/run/?{query}")) == (400, TOO_LARGE)


@pytest.mark.parametrize(
    ("query", "status"), [("id__exact=7", 200), ("created_at__year=2026", 200), (f"q={BIG}", 200), (f"p={BIG}", 302)]
)
def test_what_can_be_looked_up_is(staff: Client, query: str, status: int) -> None:
    assert staff.get(f"/admin/syncs/run/?{query}").status_code == status


@pytest.mark.parametrize("path", [f"/w/acme/syncs/{BIG}/", f"/w/acme/runs/{'9' * 5000}/", f"/w/acme/activity/{BIG}/"])
def test_a_number_that_nothing_has_leads_nowhere(staff: Client, path: str) -> None:
    assert staff.get(path).status_code == 404


@pytest.mark.parametrize(
    ("method", "query", "is_told"), [("GET", "?a=1", True), ("GET", "", False), ("POST", "?a=1", False)]
)
def test_only_what_an_address_asks_for_is_the_asker_s_fault(method: str, query: str, is_told: bool) -> None:
    """A value that the database refuses while something is written is a fault of ours, and stays one."""
    asked = RequestFactory().generic(method, f"/{query}")
    answer = PlainInput(lambda request: HttpResponse()).process_exception(asked, DataError("no"))
    assert (answer is not None and told(answer) == (400, TOO_LARGE)) is is_told


def test_what_is_refused_has_the_policy_of_every_other_page() -> None:
    answer = stranger().get("/?a=%00")
    assert answer.headers["Content-Security-Policy"] == middleware.MERCHANT


def test_a_host_that_is_not_served_is_told() -> None:
    answer = stranger().get("/", headers={"host": "evil.example", "referer": "http://evil.example/w/acme/"})
    assert told(answer) == (
        400, "This request cannot be understood, so nothing was done: go back, load the page again and try once more.",
    )  # fmt: skip


# --- The way back -----------------------------------------------------------------------------------------------------
def asked(path: str, referer: str, method: str = "GET") -> WSGIRequest:
    return RequestFactory().generic(method, path, headers={"referer": referer})


@pytest.mark.parametrize(
    ("referer", "method", "back"),
    [
        ("http://testserver/w/acme/syncs/1/?after=9", "GET", "/w/acme/syncs/1/?after=9"),
        ("http://testserver/w/acme/gone/", "POST", "/w/acme/gone/"),
        ("http://testserver/w/acme/gone/", "GET", ""),
        ("http://testserver/login/", "GET", ""),
        ("http://elsewhere.example/w/acme/", "GET", ""),
        ("javascript:alert(1)", "GET", ""),
        ("//testserver//elsewhere.example/w/", "GET", ""),
        ("http://[", "GET", ""),
        ("", "GET", ""),
    ],
)
def test_the_way_back_is_the_workspace_s_page_they_came_from(referer: str, method: str, back: str) -> None:
    assert context.came_from(asked("/w/acme/gone/", referer, method)) == {"came_from": back}


def test_a_page_that_leads_nowhere_leads_back(staff: Client) -> None:
    shown = staff.get("/w/acme/nowhere/", headers={"referer": 'http://testserver/w/acme/?a="b'}).content.decode()
    assert '<a class="btn primary" href="/w/acme/?a=&quot;b">Back to where you were</a>' in shown
    assert '<a class="btn" href="/">To your workspaces</a>' in shown


def test_where_nobody_knows_where_they_came_from_the_workspaces_are_the_way_back(staff: Client) -> None:
    shown = staff.get("/w/acme/nowhere/").content.decode()
    assert "Back to where you were" not in shown
    assert '<a class="btn primary" href="/">To your workspaces</a>' in shown
