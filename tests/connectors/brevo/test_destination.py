"""What becomes of a write at Brevo."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from connectors import errors, protocol
from connectors.brevo import destination, payloads
from connectors.protocol import EffectKind, Landing, Receipt, Write
from tests.connectors.brevo.answers import (
    ADDRESS,
    DAY,
    GONE,
    KEY,
    SUBJECT,
    Brevo,
    contact_write,
    event_write,
    held,
    known,
    order_write,
    refused,
    withdrawal,
)

LATER = DAY + timedelta(days=1)
BY_EMAIL = "GET /v3/contacts/ada%40example.com?identifierType=email_id"
BY_SUBJECT = "GET /v3/contacts/shopify%3Alinden%3A77?identifierType=ext_id"
BY_ID = "GET /v3/contacts/21?identifierType=contact_id"
UPDATE = "PUT /v3/contacts/21?identifierType=contact_id"
CREATE = "POST /v3/contacts"
REMOVE = "POST /v3/contacts/lists/7/contacts/remove"
LIST = "GET /v3/contacts/lists/7"
UPDATED = (204, None)
TAKEN_OFF = (201, {"contacts": {"success": [21], "failure": []}})


def landed(write: Write, destination_id: str | None = "21", **changes: Any) -> Receipt:
    return Receipt(write.effect_key, Landing.LANDED, destination_id=destination_id, **changes)


def short(receipt: Receipt) -> tuple[Landing, str]:
    assert ADDRESS not in receipt.sentence and KEY not in receipt.sentence
    assert receipt.landing is Landing.LANDED or receipt.sentence
    return receipt.landing, receipt.code


def duplicate(*identifiers: str, code: str = "duplicate_parameter") -> tuple[int, Any]:
    return 400, refused(code, "Unable to create contact, email is already associated", *identifiers)


# --- contacts that are not known ----------------------------------------------------------------------------------


def test_an_unknown_contact_is_created_on_the_list() -> None:
    brevo, write = Brevo((201, {"id": 21})), contact_write()

    assert brevo.write(write) == [landed(write, grants=True)]
    assert brevo.calls() == [CREATE]


def test_a_contact_without_a_list_is_created_without_a_grant() -> None:
    write = contact_write(list_id=None)

    assert Brevo((201, {"id": 21})).write(write) == [landed(write)]


@pytest.mark.parametrize("code", ["duplicate_parameter", "invalid_parameter"])
def test_a_contact_that_exists_is_read_and_then_updated(code: str) -> None:
    """Case DELIV-16: decided by the identifiers, not by the code, which changes."""
    brevo, write = Brevo(duplicate("email", code=code), (200, held(listIds=[])), UPDATED), contact_write()

    assert brevo.write(write) == [landed(write, grants=True)]
    assert brevo.calls() == [CREATE, BY_EMAIL, UPDATE]
    assert brevo.bodies()[2] == {"attributes": {"FIRSTNAME": "Ada"}, "listIds": [7]}


def test_a_contact_that_exists_without_our_id_gets_it() -> None:
    brevo, write = Brevo(duplicate("email"), (200, held(attributes={"EXT_ID": None})), UPDATED), contact_write()

    brevo.write(write)

    assert brevo.bodies()[2] == {"attributes": {"FIRSTNAME": "Ada"}, "ext_id": SUBJECT}


def test_a_member_we_never_granted_is_noted_as_granted() -> None:
    """Else a later removal by hand would look like somebody who never was on the list."""
    write = contact_write()

    assert Brevo(duplicate("email"), (200, held()), UPDATED).write(write) == [landed(write, grants=True)]


@pytest.mark.parametrize("identifiers", [["ext_id"], ["email", "ext_id"], ["EXT_ID"]])
def test_an_id_that_belongs_to_another_address_is_refused(identifiers: list[str]) -> None:
    """Case DELIV-12 b."""
    brevo = Brevo(duplicate(*identifiers), (200, held(email="old@example.com")))

    receipts = brevo.write(contact_write())

    assert [short(receipt) for receipt in receipts] == [(Landing.REFUSED, "address_changed")]
    assert brevo.calls() == [CREATE, BY_SUBJECT]
    assert "old@example.com" not in receipts[0].sentence


@pytest.mark.parametrize("identifier", ["SMS", "sms"])
def test_a_phone_of_somebody_else_rejects_the_record(identifier: str) -> None:
    """Case DELIV-13."""
    receipts = Brevo(duplicate(identifier, code="invalid_parameter")).write(contact_write())

    assert [short(receipt) for receipt in receipts] == [(Landing.REJECTED, "phone_belongs_to_another")]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"emailBlacklisted": True}, "destination_blocklisted"),
        ({"listUnsubscribed": [7], "listIds": []}, "destination_unsubscribed"),
        ({"listUnsubscribed": [7], "emailBlacklisted": True}, "destination_unsubscribed"),
    ],
)
@pytest.mark.parametrize("write", [contact_write(), known()], ids=["unknown", "known"])
def test_brevos_no_wins(write: Write, changes: dict[str, Any], code: str) -> None:
    """Case CONS-01."""
    answers = [(200, held(**changes))] if write.known else [duplicate("email"), (200, held(**changes))]
    brevo = Brevo(*answers)

    receipts = brevo.write(write)

    assert [short(receipt) for receipt in receipts] == [(Landing.REFUSED, code)]
    assert (receipts[0].destination_id, receipts[0].suppress) == ("21", False)
    assert not any(call.startswith("PUT") for call in brevo.calls())


def test_a_list_left_is_not_the_list_written_to() -> None:
    write = contact_write()

    assert Brevo(duplicate("email"), (200, held(listUnsubscribed=[8])), UPDATED).write(write)[0].landing == "landed"


def test_a_duplicate_that_is_gone_again_is_tried_later() -> None:
    receipts = Brevo(duplicate("email"), GONE).write(contact_write())

    assert [short(receipt) for receipt in receipts] == [(Landing.PASSING, "contact_raced")]


def test_a_contact_deleted_between_read_and_update_is_suppressed() -> None:
    receipts = Brevo(duplicate("email"), (200, held()), GONE).write(contact_write())

    assert [(short(receipt), receipt.suppress) for receipt in receipts] == [((Landing.REFUSED, "suppressed"), True)]


def test_an_id_taken_between_read_and_update_is_an_address_changed() -> None:
    owner = (200, held(attributes={"EXT_ID": None}))

    receipts = Brevo(duplicate("email"), owner, duplicate("ext_id")).write(contact_write())

    assert [short(receipt) for receipt in receipts] == [(Landing.REFUSED, "address_changed")]


@pytest.mark.parametrize("answer", [(201, {}), (201, {"id": "21"}), (201, []), (204, None), (200, {"id": 21})])
def test_a_success_that_names_no_contact_is_in_doubt(answer: Any) -> None:
    """PRODUCT 2.8: 2xx is not proof."""
    assert short(Brevo(answer).write(contact_write())[0])[0] is Landing.IN_DOUBT


# --- contacts that are known --------------------------------------------------------------------------------------


def test_a_known_contact_is_read_and_then_updated() -> None:
    brevo, write = Brevo((200, held()), UPDATED), known(granted_at=DAY)

    assert brevo.write(write) == [landed(write)]
    assert brevo.calls() == [BY_ID, UPDATE]
    assert brevo.bodies()[1] == {"attributes": {"FIRSTNAME": "Ada"}}


def test_a_known_contact_without_a_number_is_read_by_our_id() -> None:
    brevo = Brevo((200, held()), UPDATED)

    brevo.write(contact_write(known=True))

    assert brevo.calls() == [BY_SUBJECT, UPDATE]


@pytest.mark.parametrize("write", [known(), contact_write(known=True)])
def test_a_known_contact_that_is_gone_is_never_created_again(write: Write) -> None:
    """Case CONS-08."""
    brevo = Brevo(GONE)

    receipts = brevo.write(write)

    assert [(short(receipt), receipt.suppress) for receipt in receipts] == [((Landing.REFUSED, "suppressed"), True)]
    assert len(brevo.asked) == 1


def test_addresses_are_compared_without_case() -> None:
    write = known(address="ADA@example.com")

    assert Brevo((200, held(email="Ada@Example.com")), UPDATED).write(write)[0].landing is Landing.LANDED


@pytest.mark.parametrize("email", ["new@example.com", None])
def test_another_address_is_never_written(email: str | None) -> None:
    """Case DELIV-12 b."""
    brevo = Brevo((200, held(email=email)))

    assert short(brevo.write(known())[0]) == (Landing.REFUSED, "address_changed")


def test_nothing_to_update_lands_without_a_call() -> None:
    brevo, write = Brevo((200, held())), known(attributes={}, granted_at=DAY)

    assert brevo.write(write) == [landed(write)]


def test_somebody_taken_off_by_hand_stays_off() -> None:
    brevo, write = Brevo((200, held(listIds=[])), UPDATED), known(granted_at=DAY)

    receipts = brevo.write(write)

    assert (short(receipts[0]), receipts[0].grants) == ((Landing.LANDED, "left_off_list"), False)
    assert brevo.bodies()[1] == {"attributes": {"FIRSTNAME": "Ada"}}


def test_newer_consent_puts_somebody_on_the_list_again() -> None:
    brevo, write = Brevo((200, held(listIds=[])), UPDATED), known(granted_at=DAY, consent_at=LATER)

    assert brevo.write(write) == [landed(write, grants=True)]
    assert brevo.bodies()[1] == {"attributes": {"FIRSTNAME": "Ada"}, "listIds": [7]}


# --- errors of a contact's calls ------------------------------------------------------------------------------------

WRITE_ERRORS: list[tuple[Any, Landing, str]] = [
    (httpx.ConnectError("x"), Landing.PASSING, "not_sent"),
    (httpx.PoolTimeout("x"), Landing.PASSING, "not_sent"),
    (httpx.ReadTimeout("x"), Landing.IN_DOUBT, "in_doubt"),
    (httpx.RemoteProtocolError("x"), Landing.IN_DOUBT, "in_doubt"),
    ((408, None), Landing.IN_DOUBT, "in_doubt"),
    ((500, b"<html>"), Landing.IN_DOUBT, "in_doubt"),
    ((502, b"<html>"), Landing.IN_DOUBT, "in_doubt"),
    ((504, b"<html>"), Landing.IN_DOUBT, "in_doubt"),
    ((201, b"<html>"), Landing.IN_DOUBT, "not_json"),
    ((425, refused("account_in_process")), Landing.PASSING, "too_early"),
    ((429, refused("too_many_requests")), Landing.PASSING, "throttled"),
    ((400, refused("invalid_parameter", "email is not valid")), Landing.REJECTED, "rejected"),
    ((404, refused("document_not_found", "Not found")), Landing.REJECTED, "rejected"),
    ((409, refused("conflict")), Landing.REJECTED, "rejected"),
    ((422, refused("unprocessable_entity")), Landing.REJECTED, "rejected"),
    ((400, b"<html>"), Landing.REJECTED, "rejected"),
]


@pytest.mark.parametrize(("answer", "landing", "code"), WRITE_ERRORS)
def test_a_create_ends_as_its_row_says(answer: Any, landing: Landing, code: str) -> None:
    assert short(Brevo(answer).write(contact_write(list_id=None))[0]) == (landing, code)


@pytest.mark.parametrize(("answer", "landing", "code"), [row for row in WRITE_ERRORS if row[0] not in [(404, None)]])
def test_an_update_ends_as_its_row_says(answer: Any, landing: Landing, code: str) -> None:
    if isinstance(answer, tuple) and answer[0] == 404:
        landing, code = Landing.REFUSED, "suppressed"

    assert short(Brevo((200, held()), answer).write(known(list_id=None))[0]) == (landing, code)


@pytest.mark.parametrize(("answer", "landing", "code"), WRITE_ERRORS)
def test_an_event_ends_as_its_row_says(answer: Any, landing: Landing, code: str) -> None:
    assert short(Brevo(answer).write(event_write())[0]) == (landing, code)


@pytest.mark.parametrize(("answer", "landing", "code"), WRITE_ERRORS)
def test_an_order_ends_as_its_row_says(answer: Any, landing: Landing, code: str) -> None:
    assert short(Brevo(answer).write(order_write())[0]) == (landing, code)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.ReadTimeout("x"), "unavailable"),
        ((502, b"<html>"), "unavailable"),
        ((200, b"<html>"), "not_json"),
        ((200, {"id": 21}), "unreadable"),
        ((200, b'{"id":1,"id":2}'), "duplicate_key"),
        ((429, None), "throttled"),
    ],
)
def test_a_read_that_fails_before_the_write_means_nothing_was_stored(answer: Any, code: str) -> None:
    brevo = Brevo(answer)

    assert short(brevo.write(known())[0]) == (Landing.PASSING, code)
    assert len(brevo.asked) == 1


RUN_ERRORS = [
    ((401, refused("unauthorized", "Key not found")), errors.TokenRefused, "token_refused"),
    ((401, None), errors.TokenRefused, "token_refused"),
    ((401, refused("unauthorized", "Unrecognised IP address 192.0.2.7")), errors.TokenRefused, "ip_refused"),
    ((402, refused("not_enough_credits")), errors.Refused, "plan_limit"),
    ((403, refused("permission_denied")), errors.Refused, "permission_denied"),
    ((405, refused("method_not_allowed")), errors.Refused, "not_supported"),
    ((410, None), errors.Refused, "not_supported"),
    ((301, None, {"location": "https://www.brevo.example/v3"}), errors.Refused, "redirected"),
]
WRITES = {
    "create": ([], contact_write()),
    "read": ([], known()),
    "update": ([(200, held())], known()),
    "withdraw": ([], withdrawal()),
    "order": ([], order_write()),
    "history": ([], order_write(history=True)),
    "event": ([], event_write()),
}


@pytest.mark.parametrize(("answer", "kind", "code"), RUN_ERRORS)
@pytest.mark.parametrize("step", WRITES)
def test_a_refusal_of_the_run_is_raised_at_every_step(step: str, answer: Any, kind: type[Exception], code: str) -> None:
    before, write = WRITES[step]

    with pytest.raises(errors.Refused) as caught:
        Brevo(*before, answer).write(write)

    assert (type(caught.value), caught.value.code) == (kind, code)
    assert KEY not in caught.value.sentence


def test_an_unknown_address_of_ours_is_told_apart_from_a_wrong_key() -> None:
    with pytest.raises(errors.TokenRefused) as caught:
        Brevo((401, refused("unauthorized", "We have detected you are using an unrecognised IP address"))).write(
            known()
        )

    assert "IP address" in caught.value.sentence and "authorised" in caught.value.sentence


@pytest.mark.parametrize("step", ["create", "update"])
def test_a_refusal_over_a_list_that_is_gone_ends_the_run(step: str) -> None:
    """Case DELIV-05."""
    before, write = WRITES[step]
    brevo = Brevo(*before, (400, refused("invalid_parameter", "Invalid list ID passed in listIds")), (404, None))

    with pytest.raises(errors.Refused) as caught:
        brevo.write(write)

    assert (caught.value.code, brevo.calls()[-1]) == ("list_missing", LIST)


def test_a_refusal_that_only_speaks_of_lists_rejects_the_record() -> None:
    answer = (400, refused("invalid_parameter", "Contact is not allowed in list"))

    receipts = Brevo(answer, (200, {"id": 7, "name": "Newsletter"})).write(contact_write())

    assert short(receipts[0]) == (Landing.REJECTED, "rejected")


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-sib-ratelimit-reset": "7"}, timedelta(seconds=7)),
        ({"x-sib-ratelimit-reset": "7", "retry-after": "99"}, timedelta(seconds=7)),
        ({"retry-after": "3"}, timedelta(seconds=3)),
        ({"x-sib-ratelimit-reset": "soon"}, None),
        ({"x-sib-ratelimit-reset": "9" * 5000}, None),
        ({}, None),
    ],
)
def test_a_throttled_write_says_how_long_to_wait(headers: dict[str, str], wait: timedelta | None) -> None:
    receipts = Brevo((429, refused("too_many_requests"), headers)).write(event_write())

    assert (receipts[0].landing, receipts[0].wait) == (Landing.PASSING, wait)


def test_a_value_brevo_cannot_take_is_rejected_without_a_call() -> None:
    assert short(Brevo().write(contact_write(attributes={"A": {}}))[0]) == (Landing.REJECTED, "attribute_unsupported")


def test_a_write_after_its_deadline_is_not_sent() -> None:
    brevo = Brevo()

    assert short(brevo.write(event_write(), seconds=-1)[0]) == (Landing.PASSING, "not_sent")
    assert brevo.asked == []


# --- the choke point ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [contact_write(attributes={"EMAIL": "x"}), known(attributes={"email": "x"})])
def test_a_rule_that_maps_the_address_is_stopped_before_anything_is_written(write: Write) -> None:
    brevo = Brevo(*([(200, held())] if write.known else []))

    with pytest.raises(payloads.ResubscriptionRefused):
        brevo.write(write)

    assert [call for call in brevo.calls() if not call.startswith("GET")] == []


@pytest.mark.parametrize("step", WRITES)
def test_every_request_passes_the_choke_point(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write = WRITES[step]
    passed: list[str] = []
    monkeypatch.setattr(payloads, "refuse_resubscription", lambda method, path, *rest: passed.append(method))
    brevo = Brevo(*before, (401, None))

    with pytest.raises(errors.TokenRefused):
        brevo.write(write)

    assert passed == [method for method, _, _ in brevo.asked]


# --- withdrawals ----------------------------------------------------------------------------------------------------


def test_a_withdrawal_takes_the_person_off_the_list() -> None:
    """Case CONS-12."""
    brevo, write = Brevo(TAKEN_OFF), withdrawal()

    assert brevo.write(write) == [landed(write)]
    assert (brevo.calls(), brevo.bodies()) == ([REMOVE], [{"ids": [21]}])


NOT_REMOVED = (400, refused("invalid_parameter", "Contact already removed from list and/or does not exist"))


@pytest.mark.parametrize(
    "answer",
    [NOT_REMOVED, (201, {"contacts": {"success": [], "failure": [21]}}), (201, {}), (201, []), (204, None)],
)
def test_an_answer_that_does_not_say_removed_is_decided_by_reading(answer: Any) -> None:
    lists = [] if answer != NOT_REMOVED else [(200, {"id": 7, "name": "x"})]
    write = withdrawal()

    assert Brevo(answer, *lists, (200, held(listIds=[]))).write(write) == [landed(write)]
    receipts = Brevo(answer, *lists, (200, held())).write(write)
    assert short(receipts[0]) == (Landing.PASSING, "still_on_list")


def test_a_withdrawal_of_somebody_deleted_lands_and_suppresses() -> None:
    write = withdrawal()

    assert Brevo(NOT_REMOVED, (200, {"name": "x"}), GONE).write(write) == [landed(write, suppress=True)]


def test_a_withdrawal_of_somebody_never_delivered_suppresses_nobody() -> None:
    write = withdrawal(known=False, destination_id=None)
    brevo = Brevo(NOT_REMOVED, (200, {"name": "x"}), GONE)

    assert brevo.write(write) == [landed(write, None)]
    assert brevo.bodies()[0] == {"extIds": [SUBJECT]}


def test_a_withdrawal_from_a_list_that_is_gone_ends_the_run() -> None:
    with pytest.raises(errors.Refused) as caught:
        Brevo((404, refused("document_not_found", "List ID does not exist")), (404, None)).write(withdrawal())

    assert caught.value.code == "list_missing"


@pytest.mark.parametrize(
    ("answer", "landing"),
    [(httpx.ReadTimeout("x"), Landing.IN_DOUBT), (httpx.ConnectError("x"), Landing.PASSING)],
)
def test_a_withdrawal_whose_call_fails_is_not_done(answer: Any, landing: Landing) -> None:
    assert Brevo(answer).write(withdrawal())[0].landing is landing


def test_a_withdrawal_names_a_list() -> None:
    with pytest.raises(ValueError, match="list"):
        Brevo().write(withdrawal(list_id=None))


# --- orders ---------------------------------------------------------------------------------------------------------


def shown(*numbers: int, updated: str = "2026-11-30T08:01:00.001Z") -> tuple[int, Any]:
    return 200, {"orders": [{"id": f"shopify:linden:{number}", "updatedAt": updated} for number in numbers]}


ACCEPTED = (202, {"batchId": 1, "count": 2})


def test_a_live_order_lands_with_one_call() -> None:
    brevo, write = Brevo((204, None)), order_write()

    assert brevo.write(write) == [landed(write)]
    assert brevo.calls() == ["POST /v3/orders/status"]


def test_history_has_landed_once_brevo_shows_it() -> None:
    """PRODUCT 2.8: a 202 is not proof."""
    writes = [order_write(1, history=True), order_write(2, history=True)]
    brevo = Brevo(ACCEPTED, shown(1), shown(2, 1))

    assert brevo.write(*writes) == [landed(write, None) for write in writes]
    assert brevo.calls() == [
        "POST /v3/orders/status/batch",
        *["GET /v3/orders?modifiedSince=2026-11-30T08%3A01%3A00.001Z&limit=100&offset=0&sort=desc"] * 2,
    ]


def test_an_older_state_of_an_order_is_not_the_one_sent() -> None:
    brevo = Brevo(ACCEPTED, shown(1, updated="2026-11-30T08:01:00.000Z"), shown(1, updated="2026-11-30T09:00:00Z"))

    assert brevo.write(order_write(1, history=True))[0].landing is Landing.LANDED


def test_history_that_is_not_shown_in_time_is_in_doubt() -> None:
    writes = [order_write(1, history=True), order_write(2, history=True)]

    receipts = Brevo(ACCEPTED, shown(2)).write(*writes, seconds=0.12)

    assert [short(receipt) for receipt in receipts] == [(Landing.IN_DOUBT, "unconfirmed"), (Landing.LANDED, "")]


@pytest.mark.parametrize("answer", [(429, None), (503, b"x"), (401, None), (200, {}), httpx.ReadTimeout("x")])
def test_a_read_back_that_fails_leaves_history_in_doubt(answer: Any) -> None:
    receipts = Brevo(ACCEPTED, answer).write(order_write(1, history=True))

    assert [short(receipt) for receipt in receipts] == [(Landing.IN_DOUBT, "unconfirmed")]


def test_the_read_back_goes_through_all_pages() -> None:
    others = range(1000, 1000 + payloads.READ_BACK_LIMIT)
    brevo = Brevo(ACCEPTED, shown(*others), shown(1))

    assert brevo.write(order_write(1, history=True))[0].landing is Landing.LANDED
    assert "offset=100" in brevo.calls()[-1]


def test_history_and_live_orders_go_their_own_ways_in_one_call() -> None:
    writes = [order_write(1), order_write(2, history=True), order_write(3)]
    brevo = Brevo(ACCEPTED, shown(2), (204, None), (204, None))

    assert [receipt.effect_key for receipt in brevo.write(*writes)] == ["01", "02", "03"]
    posted = [call for call in brevo.calls() if call.startswith("POST")]
    assert posted == ["POST /v3/orders/status/batch", "POST /v3/orders/status", "POST /v3/orders/status"]


def test_one_order_brevo_refuses_does_not_stop_its_neighbours() -> None:
    """Case DELIV-04."""
    writes = [order_write(number, history=True) for number in (1, 2, 3)]
    bad = (400, refused("invalid_parameter", "amount is invalid"))
    brevo = Brevo(bad, ACCEPTED, shown(1), bad, ACCEPTED, shown(2), bad)

    receipts = brevo.write(*writes)

    assert [receipt.landing for receipt in receipts] == [Landing.LANDED, Landing.LANDED, Landing.REJECTED]


def test_a_batch_refused_in_every_part_is_not_halved_without_end() -> None:
    """Case DELIV-05."""
    writes = [order_write(number, history=True) for number in range(1, 101)]
    bad = (400, refused("invalid_parameter", "amount is invalid"))

    receipts = Brevo(*[bad] * destination.HISTORY_CALLS).write(*writes)

    assert {receipt.landing for receipt in receipts} == {Landing.REJECTED}
    assert [receipt.effect_key for receipt in receipts] == [write.effect_key for write in writes]


def test_orders_nobody_tried_are_tried_later_when_others_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "HISTORY_CALLS", 3)
    writes = [order_write(number, history=True) for number in (1, 2, 3, 4)]
    bad = (400, refused("invalid_parameter", "amount is invalid"))

    receipts = Brevo(bad, ACCEPTED, shown(1, 2), bad).write(*writes)

    assert [short(receipt) for receipt in receipts] == [
        (Landing.LANDED, ""),
        (Landing.LANDED, ""),
        (Landing.PASSING, "batch_refused"),
        (Landing.PASSING, "batch_refused"),
    ]


def test_history_whose_batch_is_in_doubt_is_in_doubt() -> None:
    writes = [order_write(1, history=True), order_write(2, history=True)]

    assert {receipt.landing for receipt in Brevo((502, b"x")).write(*writes)} == {Landing.IN_DOUBT}


@pytest.mark.parametrize("answer", [(401, None), (402, None), (429, None), httpx.ConnectError("x")])
def test_what_landed_before_a_refusal_is_told_as_landed(answer: Any) -> None:
    writes = [order_write(1), order_write(2), order_write(3)]
    brevo = Brevo((204, None), answer)

    receipts = brevo.write(*writes)

    assert [receipt.landing for receipt in receipts] == [Landing.LANDED, Landing.PASSING, Landing.PASSING]
    assert len(brevo.asked) == 2


def test_an_order_in_doubt_does_not_stop_the_next_one() -> None:
    """Case DELIV-17."""
    receipts = Brevo((204, None), (503, None), (204, None)).write(order_write(1), order_write(2), order_write(3))

    assert [receipt.landing for receipt in receipts] == [Landing.LANDED, Landing.IN_DOUBT, Landing.LANDED]


@pytest.mark.parametrize("answer", [(200, {}), (202, {"batchId": 1}), (207, {"status": "partiallyQueued"})])
def test_another_success_than_the_documented_one_is_in_doubt(answer: Any) -> None:
    assert short(Brevo(answer).write(event_write())[0]) == (Landing.IN_DOUBT, "unexpected_answer")


# --- events ---------------------------------------------------------------------------------------------------------


def doubt(key: str, name: str = "order_placed", **changes: Any) -> protocol.Doubt:
    return protocol.Doubt(
        **{
            "effect_key": key,
            "id": "1",
            "event_name": name,
            "subject_id": SUBJECT,
            "destination_id": "21",
            "event_at": DAY,
            "sent_at": DAY,
            **changes,
        }
    )


def happened(*keys: str) -> tuple[int, Any]:
    ours = [{"event_name": "x", "event_properties": {"vigil_key": key}} for key in keys]
    return 200, {"events": [*ours, {"event_properties": {}}, {"event_properties": None}, {}], "count": 1}


def find(brevo: Brevo, *doubts: protocol.Doubt) -> frozenset[str]:
    found: frozenset[str] = brevo.run(lambda one: one.find(doubts, by=time.monotonic() + 5))
    return found


def test_an_event_lands_with_its_key() -> None:
    brevo, write = Brevo((204, None)), event_write()

    assert brevo.write(write) == [landed(write)]
    assert brevo.bodies()[0]["event_properties"]["vigil_key"] == "beef"


def test_doubts_are_found_with_one_read_per_name_of_event() -> None:
    """Case DELIV-01."""
    brevo = Brevo(happened("b", "zz"), happened("a"))

    assert find(brevo, doubt("a"), doubt("b", "order_cancelled"), doubt("c")) == {"a", "b"}
    assert len(brevo.asked) == 2


def test_doubts_are_looked_for_on_every_page() -> None:
    full = 200, {"events": [{"event_properties": {"vigil_key": "other"}}] * payloads.EVENTS_LIMIT}
    brevo = Brevo(full, happened("a"))

    assert find(brevo, doubt("a")) == {"a"}
    assert "offset=1000" in brevo.calls()[1]


@pytest.mark.parametrize("answer", [(503, None), (200, {}), (200, b"<html>"), (401, None), httpx.ReadTimeout("x")])
def test_a_look_up_that_fails_is_no_absence(answer: Any) -> None:
    with pytest.raises(errors.ConnectorError):
        find(Brevo(answer), doubt("a"))


def test_no_doubts_is_no_call() -> None:
    assert find(Brevo()) == frozenset()


# --- looking --------------------------------------------------------------------------------------------------------


def look(brevo: Brevo, *ids: str) -> Any:
    return brevo.run(lambda one: one.look(ids))


def test_people_are_looked_at_by_our_id() -> None:
    brevo = Brevo((200, held(emailBlacklisted=True)), GONE)

    found = look(brevo, SUBJECT, "shopify:linden:78")

    assert found[SUBJECT].blocklisted is True
    assert found["shopify:linden:78"] is None
    assert brevo.calls()[0] == BY_SUBJECT


def test_people_are_looked_at_by_address() -> None:
    brevo = Brevo((200, held()))

    assert brevo.run(lambda one: one.look_address([ADDRESS]))[ADDRESS].id == "21"
    assert brevo.calls() == [BY_EMAIL]


def test_a_look_is_good_for_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """PRODUCT 3.7: the engine may use one for the other half."""
    clock = [1000.0]
    monkeypatch.setattr(destination.time, "monotonic", lambda: clock[0])

    async def thrice(one: destination.BrevoDestination) -> list[bool]:
        seen = []
        for wait in (0.0, 29.9, 0.2):
            clock[0] += wait
            seen.append((await one.look([SUBJECT]))[SUBJECT].blocklisted)
        return seen

    brevo = Brevo((200, held()), (200, held(emailBlacklisted=True)))

    assert brevo.run(thrice) == [False, False, True]


def test_a_look_does_not_outlive_our_own_write() -> None:
    async def around(one: destination.BrevoDestination) -> list[frozenset[int]]:
        before = (await one.look([SUBJECT]))[SUBJECT]
        await one.write([withdrawal()], by=time.monotonic() + 5)
        after = (await one.look([SUBJECT]))[SUBJECT]
        return [before.lists, after.lists]

    assert Brevo((200, held()), TAKEN_OFF, (200, held(listIds=[]))).run(around) == [{7}, frozenset()]


@pytest.mark.parametrize("answer", [(503, None), (401, None), (200, {"id": 21}), (400, refused("invalid_parameter"))])
def test_a_look_that_fails_is_no_absence(answer: Any) -> None:
    with pytest.raises(errors.ConnectorError):
        look(Brevo(answer), SUBJECT)


def test_at_most_ten_people_are_looked_at_at_once() -> None:
    flying = [0, 0]

    async def slow(request: httpx.Request) -> httpx.Response:
        flying[0] += 1
        flying[1] = max(flying)
        await asyncio.sleep(0.005)
        flying[0] -= 1
        return httpx.Response(404, json={})

    async def many() -> Any:
        one = destination.BrevoDestination(destination.client(KEY, transport=httpx.MockTransport(slow)))
        return await one.look([str(number) for number in range(25)])

    assert len(asyncio.run(many())) == 25
    assert flying == [0, 10]


# --- the account ----------------------------------------------------------------------------------------------------

ACCOUNT = {"organization_id": "5f0c", "companyName": "Linden Goods", "email": "Owner@Example.com"}


def test_the_account_says_who_it_is() -> None:
    assert Brevo((200, ACCOUNT)).run(lambda one: one.identify()) == protocol.Identity(
        account="5f0c",
        label="Linden Goods",
        scopes=("account:read",),
        server_time=datetime(2026, 11, 30, 8, 57, tzinfo=UTC),
    )


def test_an_account_without_a_number_goes_by_a_hash_of_its_owner() -> None:
    one, same = {**ACCOUNT, "organization_id": None}, {"companyName": "x", "email": "owner@example.com"}
    accounts = {Brevo((200, body)).run(lambda brevo: brevo.identify()).account for body in (one, same)}

    assert len(accounts) == 1
    assert "example" not in accounts.pop()


@pytest.mark.parametrize("body", [[], {}, {"companyName": "x"}, {"companyName": None, "organization_id": "1"}])
def test_an_account_that_names_itself_not_is_unreadable(body: Any) -> None:
    with pytest.raises(errors.Unreadable):
        Brevo((200, body)).run(lambda one: one.identify())


def test_attributes_come_with_their_types() -> None:
    """Case DELIV-18."""
    listed = [
        {"name": "NOM", "category": "normal", "type": "text"},
        {"name": "GENDER", "category": "category", "type": "text", "enumeration": []},
        {"name": "TOTAL", "category": "calculated"},
        {"name": "COUNTRY", "category": "normal", "type": "multiple-choice"},
    ]

    assert Brevo((200, {"attributes": listed})).run(lambda one: one.attributes()) == {
        "NOM": "text",
        "GENDER": "category",
        "TOTAL": "calculated",
        "COUNTRY": "multiple-choice",
    }


def test_a_list_has_a_name_or_does_not_exist() -> None:
    assert Brevo((200, {"id": 7, "name": "Newsletter"})).run(lambda one: one.list_name(7)) == "Newsletter"
    assert Brevo((404, refused("document_not_found"))).run(lambda one: one.list_name(7)) is None


# --- the class ------------------------------------------------------------------------------------------------------


def test_the_traits_are_brevos() -> None:
    half, minute = timedelta(seconds=30), timedelta(seconds=60)
    none = timedelta(0)

    assert dict(destination.traits()) == {
        EffectKind.CONTACT: protocol.EffectTraits(1, 10, half, True, none, False),
        EffectKind.WITHDRAWAL: protocol.EffectTraits(1, 10, half, True, none, False),
        EffectKind.ORDER: protocol.EffectTraits(100, 2, minute, True, none, True),
        EffectKind.EVENT: protocol.EffectTraits(1, 10, half, False, timedelta(seconds=5), True),
    }


def test_the_settle_time_of_events_can_be_set() -> None:
    settle = timedelta(seconds=1)
    traits = Brevo().run(lambda one: asyncio.sleep(0, one.traits), event_settle=settle)

    assert traits[EffectKind.EVENT].settle == settle


@pytest.mark.parametrize("writes", [[contact_write(), contact_write()], [contact_write(), event_write()]])
def test_more_or_other_writes_than_the_traits_say_are_a_fault(writes: list[Write]) -> None:
    with pytest.raises(ValueError):
        Brevo().write(*writes)


def test_no_writes_is_no_call() -> None:
    assert Brevo().write() == []


def test_it_is_a_destination() -> None:
    one: protocol.Destination = destination.BrevoDestination(
        destination.client(KEY, transport=httpx.MockTransport(Brevo()))
    )

    assert one.kind == "brevo"


def test_calls_are_counted_without_ids() -> None:
    client = destination.client(KEY, transport=httpx.MockTransport(Brevo((200, held()), UPDATED)))

    asyncio.run(destination.BrevoDestination(client).write([known()], by=time.monotonic() + 5))

    assert set(client.calls) == {"GET /contacts/{id}", "PUT /contacts/{id}"}
