"""Where is this person? Every state in its sentence, nothing of another workspace, no address anywhere (UX, P4)."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from connectors.protocol import Stream
from syncs.domain import keys
from syncs.domain.lifecycle import DeliveryState, Lane, Outcome
from syncs.models import Coverage, Cursor, Delivery, Objection, Suppression, Sync, Tombstone
from syncs.queries import trace
from syncs.queries.trace import Answer, Asked, By, Where
from tests import factories
from tests.factories import NOW

ADDRESS = "Ada.Lovelace@Shop.example"


@pytest.fixture
def sync(db: None) -> Sync:
    factories.clock_stands_at()
    return factories.healthy(factories.workspace())


def key(of: Sync, address: str = ADDRESS) -> str:
    return keys.address_key(of.workspace.address_secret(), address)


def row(of: Sync, state: DeliveryState, record: str = "17", **more: Any) -> Delivery:
    given = {"address_key": key(of), "record": record, "lane": Lane.SCHEDULED.value, "calls": 1, "sending_at": NOW}
    run = of.runs.order_by("pk").first()
    assert run is not None
    return factories.delivery(run, f"contact:{record}", state, **{**given, **more})


def ask(of: Sync, text: str = ADDRESS) -> trace.Trace:
    return trace.trace(of.workspace, trace.asked(text), NOW)


def only(of: Sync, text: str = ADDRESS) -> Answer:
    (answer,) = ask(of, text).answers
    return answer


# --- What can be searched for -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "by", "value", "shown"),
    [
        (f" {ADDRESS} ", By.EMAIL, ADDRESS, "A•••@S•••.example"),
        ("gid://shopify/Customer/17", By.PERSON, "17", "17"),
        ("gid://shopify/Order/1001", By.ORDER, "1001", "1001"),
        ("17", By.ID, "17", "17"),
    ],
)
def test_one_box_takes_an_address_or_an_id(text: str, by: By, value: str, shown: str) -> None:
    assert trace.asked(text) == Asked(by, value, shown)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("+49 30 1234567", "The ledger keeps no phone numbers: search by e-mail address or by the source's id."),
        (
            "#1001",
            "The ledger keeps ids, not names: write an e-mail address, or the number at the end of the customer's or "
            "the order's address in the source's own pages.",
        ),
        ("", "Write an e-mail address, or the source's id of a customer or an order."),
        ("a@" + "b" * 400, "That is no e-mail address: write one whole, such as ada@shop.example."),
    ],
)
def test_what_a_ledger_without_personal_data_cannot_be_searched_for_says_what_can(text: str, sentence: str) -> None:
    with pytest.raises(trace.NotSearchable) as refused:
        trace.asked(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("address", "shown"), [("ada@shop.example", "a•••@s•••.example"), ("@", "•••@•••"), ("a@b", "a•••@b•••")]
)
def test_a_masked_address_shows_what_its_owner_knows_again(address: str, shown: str) -> None:
    assert trace.masked(address) == shown


# --- Each state in its sentence ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "more", "where", "sentence"),
    [
        (
            DeliveryState.REFUSED,
            {"code": "no_date", "effect_key": "", "evidence": {"state": "SUBSCRIBED", "given_at": None}},
            Where.REFUSED,
            "Refused on 8 Oct 2026 14:05 CEST: subscribed, but not since when.",
        ),
        (
            DeliveryState.REFUSED,
            {"code": "redacted", "effect_key": ""},
            Where.REFUSED,
            "Refused on 8 Oct 2026 14:05 CEST: erased at the source.",
        ),
        (DeliveryState.WRITTEN, {}, Where.WRITTEN, "Written to Brevo on 8 Oct 2026 14:05 CEST."),
        (
            DeliveryState.WRITTEN,
            {"kind": "withdrawal"},
            Where.WRITTEN,
            "Taken off the list at Brevo on 8 Oct 2026 14:05 CEST.",
        ),
        (
            DeliveryState.IN_DOUBT,
            {},
            Where.IN_DOUBT,
            "In doubt since 8 Oct 2026 14:05 CEST: Brevo did not answer in time. It may have saved it. It is tried "
            "again at 14:15 CEST.",
        ),
        (
            DeliveryState.FAILED,
            {"code": "rejected", "sentence": "SMS must be E.164."},
            Where.FAILED,
            "Rejected by Brevo on 8 Oct 2026 14:05 CEST: SMS must be E.164. It is tried again at 14:15 CEST.",
        ),
        (
            DeliveryState.SET_ASIDE,
            {"code": "rejected", "sentence": "SMS must be E.164."},
            Where.SET_ASIDE,
            "Set aside on 8 Oct 2026 14:05 CEST, after Brevo rejected it: SMS must be E.164.",
        ),
        (
            DeliveryState.DEFERRED,
            {"code": "contact_missing", "effect_key": ""},
            Where.DEFERRED,
            "Waits since 8 Oct 2026 14:05 CEST for its contact, which is not at Brevo yet. It is tried again at "
            "14:15 CEST.",
        ),
        (
            DeliveryState.CLAIMED,
            {"calls": 0, "sending_at": None},
            Where.UNDER_WAY,
            "Under way since 8 Oct 2026 14:05 CEST: claimed, and not settled yet. It is tried again at 14:15 CEST.",
        ),
        (
            DeliveryState.SUPERSEDED,
            {},
            Where.SUPERSEDED,
            "Superseded on 8 Oct 2026 14:05 CEST: a later reading of it counts, or nothing of it was wanted any more.",
        ),
    ],
)
def test_each_state_has_its_sentence(
    sync: Sync, state: DeliveryState, more: dict[str, Any], where: Where, sentence: str
) -> None:
    row(sync, state, **more)
    for text in (ADDRESS, ADDRESS.upper(), "17", "gid://shopify/Customer/17"):
        answer = only(sync, text)
        assert (answer.where, answer.sentence, answer.record) == (where, sentence, "17")
        assert ask(sync, text).sentence == sentence


def test_every_state_of_a_row_is_told() -> None:
    assert set(trace.OF_STATE) == set(DeliveryState)
    assert set(trace._LOOK) == set(Where)


def test_the_newest_row_of_an_object_decides(sync: Sync) -> None:
    row(sync, DeliveryState.WRITTEN)
    row(sync, DeliveryState.REFUSED, code="unsubscribed", effect_key="")
    assert only(sync).where is Where.REFUSED


def test_the_steps_go_from_the_reading_to_what_is_forgotten(sync: Sync) -> None:
    one = row(
        sync,
        DeliveryState.WRITTEN,
        destination_id="88",
        evidence={"state": "SUBSCRIBED", "level": "SINGLE_OPT_IN", "given_at": "2026-01-05T09:00:00+00:00"},
    )
    factories.tombstone(sync, "contact:17")
    told = [(step.what, step.detail) for step in only(sync).steps]
    assert told == [
        ("Read", f"by run {one.run_id}, scheduled lane, reading {one.delivery_key[:12]}"),
        (
            "Consent looked at",
            "Opt-in level: SINGLE_OPT_IN; State: SUBSCRIBED; Given at: 2026-01-05T09:00:00+00:00",
        ),
        ("Claimed: contact", f"key {one.effect_key[:12]}"),
        ("Called for: contact", "1 call so far"),
        ("Settled: contact written", "id 88 there"),
        ("The ledger forgets this", "not before an open read of its lane has ended"),
        ("Last delivered to Brevo", "1 delivery in all"),
    ]
    assert only(sync).steps[5].at == NOW + timedelta(days=7)


def test_the_effects_of_one_reading_stand_together(db: None) -> None:
    factories.clock_stands_at()
    orders = factories.healthy(factories.workspace(), rule=factories.ORDERS)
    run = orders.runs.get()
    same = {"record": "1001", "delivery_key": "d" * 64, "sending_at": NOW, "calls": 1}
    factories.delivery(run, "order:1001", DeliveryState.WRITTEN, **same)
    factories.delivery(run, "event:1001:placed", DeliveryState.IN_DOUBT, event_name="order_placed", **same)
    claimed = [step.what for step in only(orders, "gid://shopify/Order/1001").steps if step.what.startswith("Claimed")]
    assert claimed == ["Claimed: order", "Claimed: order_placed"]


def test_an_address_finds_all_orders_of_its_person(db: None) -> None:
    factories.clock_stands_at()
    orders = factories.healthy(factories.workspace(), rule=factories.ORDERS)
    run = orders.runs.get()
    for number in (1001, 1002):
        factories.delivery(run, f"order:{number}", record=str(number), address_key=key(orders))
    assert {answer.record for answer in ask(orders).answers} == {"1001", "1002"}


# --- What the ledger has forgotten ------------------------------------------------------------------------------------
def test_what_is_older_than_the_ledger_is_known_by_its_tombstone(sync: Sync) -> None:
    stone = factories.tombstone(sync, "contact:17")
    Tombstone.objects.filter(pk=stone.pk).update(address_key=key(sync), settled_at=NOW - timedelta(days=30))
    for text in (ADDRESS, "17"):
        answer = only(sync, text)
        assert (answer.where, answer.sentence) == (
            Where.FORGOTTEN,
            "Delivered to Brevo, last on 8 Sep 2026 14:05 CEST. Over 7 days ago: the ledger has forgotten the steps.",
        )


def test_a_no_is_remembered_longer_than_its_row(sync: Sync) -> None:
    Objection.objects.create(
        sync=sync, record="17", address_key=key(sync), code="unsubscribed", seen_at=NOW - timedelta(days=30)
    )
    answer = only(sync)
    assert (answer.where, answer.sentence) == (
        Where.REFUSED,
        "Refused since 8 Sep 2026 14:05 CEST: unsubscribed at the source. The ledger has forgotten the rest.",
    )


def test_a_suppressed_address_says_so_beside_everything_else(sync: Sync) -> None:
    row(sync, DeliveryState.WRITTEN)
    Suppression.objects.create(workspace=sync.workspace, address_key=key(sync), reason="suppressed", seen_at=NOW)
    assert ask(sync).sentence == (
        "Written to Brevo on 8 Oct 2026 14:05 CEST. The address is on the suppression list: it is never created again."
    )


# --- Never read, and why ----------------------------------------------------------------------------------------------
def covered(of: Sync, since: Any, *, proved: timedelta) -> None:
    Coverage.objects.create(sync=of, lane="scheduled", since=since, until=NOW, records=9, proved_at=NOW - proved)


def test_a_draft_has_read_nothing(db: None) -> None:
    answer = only(factories.sync(factories.workspace()))
    assert (answer.where, answer.sentence) == (
        Where.NEVER_READ,
        "Never read: this sync was never published, so it has read nothing.",
    )


def test_a_first_read_that_goes_on_says_how_far_it_is(sync: Sync) -> None:
    assert only(sync).sentence == "Never read: no run of this sync has read anything yet."
    Cursor.objects.create(sync=sync, lane="scheduled", until=NOW, rows=500, counted=5942)
    assert only(sync).sentence == "Not read yet: the first read (scheduled lane) stands after 500 of 5,942 records."


def test_what_was_not_changed_since_the_start_wants_a_backfill(sync: Sync) -> None:
    covered(sync, NOW - timedelta(days=5), proved=timedelta(days=5))
    assert only(sync).sentence == (
        "Never read. It was not changed at Shopify since the sync started (3 Oct 2026 14:05 CEST), or the rule leaves "
        "it out. A backfill would include it."
    )


def test_after_a_whole_read_there_are_other_reasons_and_forgetting_is_one_only_after_a_week(sync: Sync) -> None:
    said = (
        "No trace. Everything that Shopify changed before 8 Oct 2026 14:05 CEST was read, so it is not there under "
        "this name, the rule leaves it out, or a later record of the same address stands for it."
    )
    covered(sync, None, proved=timedelta(days=2))
    assert only(sync).sentence == said
    covered(sync, NOW - timedelta(days=9), proved=timedelta(days=8))
    assert only(sync).sentence == (
        f"{said} Whoever was refused more than 7 days ago leaves no trace either: the ledger has forgotten it."
    )


def test_an_id_that_is_found_in_one_stream_is_not_missed_in_the_other(sync: Sync) -> None:
    factories.published(sync.workspace, rule=factories.ORDERS, name="Orders")
    row(sync, DeliveryState.WRITTEN)
    assert [answer.sync for answer in ask(sync, "17").answers] == [sync]
    assert len(ask(sync, ADDRESS).answers) == 2
    assert [trace.stream_of(one.sync) for one in ask(sync, "gid://shopify/Order/5").answers] == [Stream.ORDERS]


# --- Whose it is ------------------------------------------------------------------------------------------------------
def test_another_workspaces_rows_never_show(sync: Sync) -> None:
    other = factories.healthy(factories.workspace("Other"))
    row(other, DeliveryState.WRITTEN)
    factories.tombstone(other, "contact:17")
    # Even with the very key of this workspace, which no row of another one can have.
    Delivery.objects.update(address_key=key(sync))
    for text in (ADDRESS, "17"):
        answer = only(sync, text)
        assert (answer.sync, answer.where) == (sync, Where.NEVER_READ)


def test_no_answer_holds_the_address(sync: Sync) -> None:
    row(sync, DeliveryState.REFUSED, code="no_date", effect_key="")
    found = ask(sync)
    shown = str([dataclasses.astuple(step) for one in found.answers for step in one.steps])
    shown += found.sentence + found.asked.shown + "".join(one.sentence for one in found.answers)
    assert "lovelace" not in shown.lower()


def test_a_person_of_many_orders_gets_twenty_answers_and_is_told_so(db: None) -> None:
    factories.clock_stands_at()
    orders = factories.published(factories.workspace(), rule=factories.ORDERS)
    run = factories.run(orders, Outcome.SUCCEEDED)
    for number in range(30):
        factories.delivery(run, f"order:{number}", record=str(number), address_key=key(orders))
    found = ask(orders)
    assert (len(found.answers), found.left_out) == (20, True)
