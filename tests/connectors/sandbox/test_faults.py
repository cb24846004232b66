"""Faults on demand: what the caller sees, and whether the write was carried out."""

from typing import Any

import httpx
import pytest

from tests.connectors.sandbox.callers import Brevo

CONTACT = {"email": "ada@example.com"}


def _faulty(brevo: Brevo, kind: str, **more: Any) -> None:
    brevo.control("faults", {"path": "/v3/contacts", "method": "POST", "kind": kind, **more})


def _kept(brevo: Brevo) -> int:
    return brevo.control("summary")["contacts"]


def test_a_status_is_answered_as_often_as_wanted_and_nothing_is_carried_out(brevo: Brevo) -> None:
    body = {"code": "too_many_requests", "message": "slow down"}
    _faulty(brevo, "status", status=429, body=body, times=2, headers={"x-sib-ratelimit-reset": "1"})
    answers = [brevo.http.post("/v3/contacts", json=CONTACT) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 429, 201]
    assert answers[0].json() == body and answers[0].headers["x-sib-ratelimit-reset"] == "1"
    assert _kept(brevo) == 1


def test_a_page_of_html_comes_where_json_is_expected(brevo: Brevo) -> None:
    """Case HTTP-04."""
    _faulty(brevo, "html")
    answer = brevo.http.post("/v3/contacts", json=CONTACT)
    assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert _kept(brevo) == 0


@pytest.mark.parametrize(("kind", "kept"), [("timeout_before", 0), ("timeout_after", 1)])
def test_a_timeout_lets_nobody_know_whether_the_write_landed(brevo: Brevo, kind: str, kept: int) -> None:
    """Case HTTP-09."""
    _faulty(brevo, kind, seconds=0.3)
    with pytest.raises(httpx.ReadTimeout):
        brevo.http.post("/v3/contacts", json=CONTACT, timeout=0.05)
    assert _kept(brevo) == kept


def test_a_caller_that_waits_out_a_timeout_is_cut_off(brevo: Brevo) -> None:
    _faulty(brevo, "timeout_before", seconds=0)
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        brevo.http.post("/v3/contacts", json=CONTACT)
    assert _kept(brevo) == 0


def test_a_reset_comes_after_the_write_landed(brevo: Brevo) -> None:
    """Case HTTP-09."""
    _faulty(brevo, "reset_after")
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        brevo.http.post("/v3/contacts", json=CONTACT)
    assert _kept(brevo) == 1


def test_a_slow_answer_is_an_answer(brevo: Brevo) -> None:
    _faulty(brevo, "slow", seconds=0.02)
    assert brevo.post("/contacts", CONTACT) == (201, {"id": 1})


def test_a_fault_waits_for_its_turn_and_concerns_its_method_and_path_alone(brevo: Brevo) -> None:
    _faulty(brevo, "status", status=500, after=1)
    assert brevo.call("GET", "/contacts")[0] == 200
    statuses = [brevo.post("/contacts", {"email": f"p{n}@example.com"})[0] for n in range(3)]
    assert statuses == [201, 500, 201]


def test_faults_can_be_taken_back(brevo: Brevo) -> None:
    _faulty(brevo, "status", times=9)
    brevo.control("faults", method="DELETE")
    assert brevo.post("/contacts", CONTACT)[0] == 201


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"kind": "status"}, "Send a JSON object with at least path and kind."),
        (
            {"path": "/v3", "kind": "meteor"},
            "Set kind to one of status, timeout_before, timeout_after, reset_after, html, slow.",
        ),
        ({"path": "/v3", "kind": "slow", "times": "3", "after": None}, "Send a number for after, times."),
        (
            {"path": "/v3", "kind": "slow", "second": 1},
            "Leave out second: a fault has only after, body, headers, kind, method, path, seconds, status, times.",
        ),
    ],
)
def test_a_fault_that_makes_no_sense_is_told_what_to_do(brevo: Brevo, fault: Any, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        brevo.control("faults", fault)
    assert str(refused.value) == says
