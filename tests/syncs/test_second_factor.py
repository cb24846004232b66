"""The second factor: staff need one, others may have one; codes work once; the lost device (PRODUCT 10.1)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from syncs import services
from syncs.errors import NotFound
from syncs.models import AuditEntry
from syncs.services import throttling
from tests import factories

WRONG = "000000"
CODE = re.compile(r"<code>([a-z2-7]{4}-[a-z2-7]{4}-[a-z2-7]{4}-[a-z2-7]{4})</code>")


@pytest.fixture(autouse=True)
def _on(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)
    settings.VIGIL_STAFF_SECOND_FACTOR = True


@pytest.fixture
def root(db: None) -> User:
    return factories.superuser("root")


def code_of(user: User, *, ahead: int = 0, confirmed: bool = True) -> str:
    """What the device shows now, or so many times thirty seconds later."""
    device = TOTPDevice.objects.get(user=user, confirmed=confirmed)
    totp = TOTP(device.bin_key, drift=ahead)
    return f"{totp.token():06d}"


def wrong_for(user: User) -> str:
    near = {code_of(user, ahead=ahead) for ahead in (-2, -1, 0, 1, 2)}
    return next(code for code in ("000000", "111111", "222222", "333333", "444444", "555555") if code not in near)


def forget_tries(user: User) -> None:
    """As if the last code was long ago."""
    TOTPDevice.objects.filter(user=user).update(last_t=-1, throttling_failure_count=0)
    StaticDevice.objects.filter(user=user).update(throttling_failure_count=0)


def password_given(user: User, going_to: str = "", **more: Any) -> Client:
    client = Client(**more)
    posted = {"username": user.get_username(), "password": factories.PASSWORD, "next": going_to}
    client.post("/login/", posted)
    return client


def enrolled(user: User) -> tuple[Client, list[str]]:
    """Somebody who has just set up a device, and their recovery codes."""
    client = password_given(user)
    client.post("/account/second-factor/begin/")
    answer = client.post("/account/second-factor/confirm/", {"code": code_of(user, confirmed=False)})
    assert answer.status_code == 200
    return client, CODE.findall(answer.content.decode())


def state(user: User) -> tuple[Any, ...]:
    return (
        list(TOTPDevice.objects.filter(user=user).values_list("pk", "key", "confirmed")),
        sorted(StaticToken.objects.filter(device__user=user).values_list("token", flat=True)),
        AuditEntry.objects.count(),
    )


# --- Staff need one ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["/", "/admin/", "/admin/syncs/sync/", "/account/", "/account/second-factors/"])
def test_staff_without_a_device_are_led_to_set_one_up_and_see_nothing_before(root: User, path: str) -> None:
    answer = password_given(root).get(path)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/account/second-factor/?next={path}")


def test_staff_without_a_device_change_nothing_either(root: User) -> None:
    sync = factories.healthy()
    client = password_given(root)
    answer = client.post(f"/w/{sync.workspace.slug}/syncs/{sync.pk}/pause/", {"reason": "Because."})
    sync.refresh_from_db()
    assert (answer.headers["Location"], sync.state) == ("/account/second-factor/?next=/", "published")


def test_staff_who_are_no_superusers_need_one_too(db: None) -> None:
    clerk = factories.user("clerk", is_staff=True)
    assert password_given(clerk).get("/admin/").headers["Location"] == "/account/second-factor/?next=/admin/"


def test_merchants_need_none(db: None) -> None:
    place = factories.workspace()
    client = password_given(factories.member(place))
    assert client.get(f"/w/{place.slug}/").status_code == 200


def test_without_the_setting_nobody_needs_one(root: User, settings: Any) -> None:
    settings.VIGIL_STAFF_SECOND_FACTOR = False
    assert password_given(root).get("/admin/").status_code == 200


def test_who_may_log_out_always(root: User) -> None:
    assert password_given(root).post("/logout/").headers["Location"] == "/login/"


# --- Setting up -------------------------------------------------------------------------------------------------------
def test_a_device_is_set_up_by_qr_code_or_by_hand_and_opens_the_admin(root: User) -> None:
    client = password_given(root)
    begun = client.post("/account/second-factor/begin/", {"next": "/admin/"})
    page = client.get(begun.headers["Location"]).content.decode()
    drawing = re.search(r"<svg.*?</svg>", page[page.index('class="qr"') :], re.DOTALL)
    assert drawing is not None and "style=" not in drawing[0]
    assert ElementTree.fromstring(drawing[0]).tag.endswith("svg")
    device = TOTPDevice.objects.get(user=root)
    shown = services.second_factor_begun(root)
    assert shown is not None
    assert f'<code id="key">{shown.key}</code>' in page
    assert shown.address.startswith("otpauth://totp/Vigil%3Aroot?secret=" + shown.key.replace(" ", ""))
    assert client.get("/admin/").status_code == 302
    answer = client.post("/account/second-factor/confirm/", {"code": code_of(root, confirmed=False), "next": "/admin/"})
    assert len(CODE.findall(answer.content.decode())) == 10
    assert '<a class="btn primary" href="/admin/">' in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    assert client.get("/admin/").status_code == 200
    device.refresh_from_db()
    assert device.confirmed
    entry = AuditEntry.objects.get(action="second_factor.set_up")
    assert (entry.actor, entry.subject, entry.after) == (root, "root", {"replaced": False})


def test_looking_at_the_page_changes_nothing(root: User) -> None:
    client = password_given(root)
    before = state(root)
    assert client.get("/account/second-factor/").status_code == 200
    assert state(root) == before


def test_a_wrong_code_sets_nothing_up(root: User) -> None:
    client = password_given(root)
    client.post("/account/second-factor/begin/")
    before = state(root)
    answer = client.post("/account/second-factor/confirm/", {"code": "12345"})
    assert answer.status_code == 422
    assert "This code is wrong, or was used before." in answer.content.decode()
    assert state(root) == before
    assert client.get("/admin/").status_code == 302


def test_the_field_takes_what_is_pasted(root: User) -> None:
    page = password_given(root).post("/account/second-factor/begin/", follow=True).content.decode()
    assert 'autocomplete="one-time-code"' in page
    assert "onpaste" not in page and 'maxlength="6"' not in page


def test_recovery_codes_are_kept_as_hashes_only_and_shown_once(root: User) -> None:
    client, codes = enrolled(root)
    kept = set(StaticToken.objects.values_list("token", flat=True))
    assert len(codes) == len(set(codes)) == len(kept) == 10
    assert not kept & {code.replace("-", "") for code in codes} | (kept & {c.replace("-", "").upper() for c in codes})
    assert CODE.findall(client.get("/account/second-factor/").content.decode()) == []


# --- The second step --------------------------------------------------------------------------------------------------
def test_the_password_alone_logs_nobody_in_who_has_a_device(root: User) -> None:
    enrolled(root)
    client = password_given(root, "/admin/")
    assert "_auth_user_id" not in client.session
    assert client.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    assert client.get("/login/code/?next=/admin/").status_code == 200


def test_the_code_logs_in_and_leads_where_the_person_was_going(root: User) -> None:
    enrolled(root)
    forget_tries(root)
    client = password_given(root, "/admin/")
    before = client.session.session_key
    answer = client.post("/login/code/", {"code": f" {code_of(root)[:3]} {code_of(root)[3:]} ", "next": "/admin/"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")
    assert client.get("/admin/").status_code == 200
    assert client.session.session_key != before
    assert client.get("/login/code/").status_code == 302


@pytest.mark.parametrize("going_to", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"])
def test_the_second_step_leads_nowhere_else(root: User, going_to: str) -> None:
    enrolled(root)
    forget_tries(root)
    answer = password_given(root).post("/login/code/", {"code": code_of(root), "next": going_to})
    assert answer.headers["Location"] == "/"


def test_a_code_that_was_used_is_refused(root: User) -> None:
    enrolled(root)
    forget_tries(root)
    code = code_of(root)
    assert password_given(root).post("/login/code/", {"code": code}).status_code == 302
    client = password_given(root)
    answer = client.post("/login/code/", {"code": code})
    assert (answer.status_code, "_auth_user_id" in client.session) == (422, False)


def test_the_code_that_set_the_device_up_is_refused_too(root: User) -> None:
    client = password_given(root)
    client.post("/account/second-factor/begin/")
    code = code_of(root, confirmed=False)
    client.post("/account/second-factor/confirm/", {"code": code})
    assert password_given(root).post("/login/code/", {"code": code}).status_code == 422


def test_after_a_wrong_code_the_right_one_must_wait(root: User) -> None:
    enrolled(root)
    forget_tries(root)
    client = password_given(root)
    assert client.post("/login/code/", {"code": wrong_for(root)}).status_code == 422
    answer = client.post("/login/code/", {"code": code_of(root)})
    assert answer.status_code == 422
    assert "The last code was wrong. Wait 1 second, then enter a new one." in answer.content.decode()
    assert "_auth_user_id" not in client.session


def test_wrong_codes_lock_out_as_wrong_passwords_do(root: User) -> None:
    enrolled(root)
    client = password_given(root)
    found = []
    for _ in range(throttling.FAILURES):
        forget_tries(root)
        found.append(client.post("/login/code/", {"code": wrong_for(root)}).status_code)
    assert found == [422, 422, 422, 422, 429]
    forget_tries(root)
    answer = client.post("/login/code/", {"code": code_of(root)})
    assert (answer.status_code, "Too many log-ins failed from here." in answer.content.decode()) == (429, True)
    assert "_auth_user_id" not in client.session


def test_the_second_step_does_not_wait_for_ever(root: User, monkeypatch: pytest.MonkeyPatch) -> None:
    enrolled(root)
    forget_tries(root)
    client = password_given(root)
    session = client.session
    session["second_step"] = {**session["second_step"], "at": "2020-01-01T00:00:00+00:00"}
    session.save()
    assert client.post("/login/code/", {"code": code_of(root)}).headers["Location"].startswith("/login/")
    assert "_auth_user_id" not in client.session


def test_an_account_closed_between_both_steps_does_not_get_in(root: User) -> None:
    enrolled(root)
    forget_tries(root)
    client = password_given(root)
    User.objects.filter(pk=root.pk).update(is_active=False)
    assert client.post("/login/code/", {"code": code_of(root)}).headers["Location"].startswith("/login/")


def test_a_code_of_somebody_else_is_refused(root: User) -> None:
    enrolled(root)
    other = factories.superuser("other")
    enrolled(other)
    forget_tries(other)
    assert password_given(root).post("/login/code/", {"code": code_of(other)}).status_code == 422


def test_a_recovery_code_lets_in_once_however_it_is_written(root: User) -> None:
    _client, codes = enrolled(root)
    client = password_given(root)
    assert client.post("/login/code/", {"code": codes[0].upper().replace("-", " ")}).status_code == 302
    assert client.get("/admin/").status_code == 200
    assert password_given(root).post("/login/code/", {"code": codes[0]}).status_code == 422
    factor = services.second_factor_of(root)
    assert factor is not None and factor.codes_left == 9


def test_a_session_from_before_the_device_must_prove_it_now(root: User) -> None:
    client = password_given(root)
    enrolled(root)
    forget_tries(root)
    assert client.get("/admin/").headers["Location"] == "/login/code/?next=/admin/"
    assert client.post("/login/code/", {"code": code_of(root), "next": "/admin/"}).headers["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_merchants_who_set_one_up_are_asked_for_it(db: None) -> None:
    place = factories.workspace()
    person = factories.member(place)
    enrolled(person)
    forget_tries(person)
    client = password_given(person)
    assert client.get(f"/w/{place.slug}/").status_code == 302
    client.post("/login/code/", {"code": code_of(person)})
    assert client.get(f"/w/{place.slug}/").status_code == 200


# --- Changing and losing it -------------------------------------------------------------------------------------------
def test_another_device_takes_the_place_of_the_one_before_only_when_it_is_proved(root: User) -> None:
    client, codes = enrolled(root)
    forget_tries(root)
    first = TOTPDevice.objects.get(user=root)
    assert client.post("/account/second-factor/begin/", {"code": code_of(root)}).status_code == 302
    assert TOTPDevice.objects.filter(user=root, confirmed=True).get() == first
    answer = client.post("/account/second-factor/confirm/", {"code": code_of(root, confirmed=False)})
    assert TOTPDevice.objects.filter(user=root).get() != first
    assert not set(CODE.findall(answer.content.decode())) & set(codes)
    assert client.get("/admin/").status_code == 200
    assert password_given(root).post("/login/code/", {"code": codes[0]}).status_code == 422


@pytest.mark.parametrize("what", ["begin", "codes", "remove"])
def test_an_open_page_alone_changes_nothing(root: User, what: str, settings: Any) -> None:
    client, _codes = enrolled(root)
    settings.VIGIL_STAFF_SECOND_FACTOR = False
    before = state(root)
    forget_tries(root)
    for code in ("", wrong_for(root)):
        assert client.post(f"/account/second-factor/{what}/", {"code": code}).status_code == 422
    assert state(root) == before


def test_new_recovery_codes_end_those_before(root: User) -> None:
    client, codes = enrolled(root)
    forget_tries(root)
    answer = client.post("/account/second-factor/codes/", {"code": code_of(root)})
    new = CODE.findall(answer.content.decode())
    assert (len(new), set(new) & set(codes)) == (10, set())
    assert password_given(root).post("/login/code/", {"code": codes[1]}).status_code == 422
    forget_tries(root)
    assert password_given(root).post("/login/code/", {"code": new[1]}).status_code == 302
    assert AuditEntry.objects.filter(action="second_factor.codes_renewed", actor=root).count() == 1


def test_staff_cannot_do_without(root: User) -> None:
    client, _codes = enrolled(root)
    forget_tries(root)
    before = state(root)
    assert client.post("/account/second-factor/remove/", {"code": code_of(root)}).status_code == 403
    assert state(root) == before


def test_others_can(db: None) -> None:
    person = factories.member(factories.workspace())
    client, _codes = enrolled(person)
    forget_tries(person)
    assert client.post("/account/second-factor/remove/", {"code": code_of(person)}).status_code == 302
    assert state(person)[:2] == ([], [])
    assert AuditEntry.objects.filter(action="second_factor.removed", actor=person).count() == 1


def test_a_superuser_resets_a_lost_device_with_a_reason_and_its_open_pages_close(root: User) -> None:
    clerk = factories.user("clerk", is_staff=True)
    theirs, _codes = enrolled(clerk)
    ours, _own = enrolled(root)
    assert theirs.get("/admin/").status_code == 200
    assert "clerk" in ours.get("/account/second-factors/").content.decode()
    path = f"/account/second-factors/{clerk.pk}/reset/"
    assert ours.post(path, {"reason": ""}).status_code == 302
    assert services.second_factor_of(clerk) is not None
    assert ours.post(path, {"reason": "Phone fell into the lake."}).status_code == 302
    assert state(clerk)[:2] == ([], [])
    assert theirs.get("/admin/").headers["Location"] == "/account/second-factor/?next=/admin/"
    entry = AuditEntry.objects.get(action="second_factor.reset")
    assert (entry.actor, entry.subject, entry.reason) == (root, "clerk", "Phone fell into the lake.")


def test_only_superusers_reset(root: User) -> None:
    enrolled(root)
    clerk = factories.user("clerk", is_staff=True)
    client, _codes = enrolled(clerk)
    before = state(root)
    assert client.get("/account/second-factors/").status_code == 404
    assert client.post(f"/account/second-factors/{root.pk}/reset/", {"reason": "Mine now."}).status_code == 404
    with pytest.raises(NotFound):
        services.second_factor_reset(services.person(clerk), root, reason="Mine now.")
    assert state(root) == before


def test_the_admin_shows_no_key_and_makes_no_device(root: User) -> None:
    client, _codes = enrolled(root)
    device = TOTPDevice.objects.get(user=root)
    for path in ("otp_totp/totpdevice/", f"otp_totp/totpdevice/{device.pk}/change/", "otp_static/staticdevice/"):
        assert client.get(f"/admin/{path}").status_code == 404
