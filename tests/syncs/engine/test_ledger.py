"""Keys that survive the crash, on the real tables: claimed, sending, settled, remembered (PRODUCT 2)."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from connectors.protocol import EffectKind
from syncs.domain.clock import SystemClock
from syncs.domain.lifecycle import DeliveryState
from syncs.engine import lease, ledger
from syncs.engine.database import Database, parameters
from syncs.engine.lease import Lease
from syncs.engine.ledger import Claim, Settlement
from syncs.errors import LeaseLost
from syncs.models import AuditEntry, Delivery, Tombstone, Version
from syncs.services.actors import database_now
from tests.house import House, customer

pytestmark = pytest.mark.django_db(transaction=True)

CALL = timedelta(seconds=5)


def a_claim(number: int, *, seq: int = 1, digest: str = "d1", append: bool = False) -> Claim:
    return Claim(
        object=f"contact:{number}",
        kind=EffectKind.EVENT if append else EffectKind.CONTACT,
        append=append,
        effect_key=f"key-{number}-{seq}-{digest}",
        delivery_key=f"reading-{number}",
        payload_digest=digest,
        seq=seq,
        address_key=f"hash-{number}",
    )


class Ledger:
    """A sync's ledger and its owner."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.run = house.start()
        self.database = Database(parameters(settings.DATABASES["default"]))

    async def own(self) -> Lease:
        await self.database.rows("UPDATE syncs_lease SET expires_at = vigil_now()")
        async with self.database.transaction() as at:
            held = await lease.acquire(
                at,
                SystemClock(),
                sync_id=self.house.sync.pk,
                run_id=self.run.pk,
                holder="a",
                term=timedelta(seconds=60),
                continues=False,
            )
        assert held is not None
        return held

    async def claim(self, held: Lease, *claims: Claim, read_no: int = 1) -> dict[str, ledger.Claimed]:
        return await ledger.claim(self.database, held, claims, run_id=self.run.pk, lane="scheduled", read_no=read_no)

    async def step(self, held: Lease, settle: list[Settlement], send: list[int]) -> ledger.Stand:
        return await ledger.step(
            self.database,
            held,
            run_id=self.run.pk,
            version_id=self.house.sync.published_id or 0,
            workspace_id=self.house.sync.workspace_id,
            settle=settle,
            send=send,
            call=CALL,
        )


def walk(coroutine: Any) -> Any:
    """Run ``coroutine(ledger)`` and close its connections."""
    made = Ledger(House.build())

    async def inside() -> Any:
        try:
            return await coroutine(made)
        finally:
            await made.database.close()

    return asyncio.run(inside())


def test_a_claim_is_settled_once_and_remembered() -> None:
    async def inside(given: Ledger) -> None:
        held = await given.own()
        claimed = (await given.claim(held, a_claim(1)))["contact:1"]
        stand = await given.step(held, [], [claimed.id])
        assert stand.sending == {claimed.id} and stand.may_call and stand.published
        settled = Settlement(claimed.id, DeliveryState.WRITTEN, destination_id="9", granted=True)
        assert (await given.step(held, [settled], [])).settled == 1
        assert (await given.step(held, [settled], [])).settled == 0

    walk(inside)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.calls, delivery.destination_id) == ("written", 1, "9")
    stone = Tombstone.objects.get()
    assert (stone.seq, stone.payload_digest, stone.address_key, stone.destination_id) == (1, "d1", "hash-1", "9")
    assert stone.granted_at == delivery.settled_at


def test_what_a_dead_owner_only_claimed_was_never_sent_and_what_it_sent_is_in_doubt() -> None:
    async def inside(given: Ledger) -> dict[str, ledger.Claimed]:
        first = await given.own()
        claimed = await given.claim(first, a_claim(1), a_claim(2))
        await given.step(first, [], [claimed["contact:2"].id])
        second = await given.own()
        return await given.claim(second, a_claim(1), a_claim(2))

    found = walk(inside)
    assert {name: (one.state.value, one.taken) for name, one in found.items()} == {
        "contact:1": ("claimed", True),
        "contact:2": ("in_doubt", True),
    }
    assert 0 < found["contact:2"].seconds_left <= CALL.total_seconds()


def test_an_append_in_doubt_keeps_the_key_it_may_have_landed_with() -> None:
    async def inside(given: Ledger) -> list[str]:
        first = await given.own()
        claimed = (await given.claim(first, a_claim(1, append=True)))["contact:1"]
        await given.step(first, [], [claimed.id])
        second = await given.own()
        again = (await given.claim(second, a_claim(1, digest="d2", append=True)))["contact:1"]
        return [claimed.effect_key, again.effect_key]

    before, after = walk(inside)
    assert before == after


def test_an_upsert_in_doubt_takes_the_newer_payload_under_a_new_key() -> None:
    async def inside(given: Ledger) -> list[str]:
        first = await given.own()
        claimed = (await given.claim(first, a_claim(1)))["contact:1"]
        await given.step(first, [], [claimed.id])
        second = await given.own()
        again = (await given.claim(second, a_claim(1, digest="d2"), read_no=2))["contact:1"]
        return [claimed.effect_key, again.effect_key, again.state.value]

    assert walk(inside) == ["key-1-1-d1", "key-1-1-d2", "in_doubt"]


def test_a_stale_owner_can_claim_nothing_and_mark_nothing() -> None:
    async def inside(given: Ledger) -> None:
        first = await given.own()
        claimed = (await given.claim(first, a_claim(1)))["contact:1"]
        await given.own()
        stand = await given.step(first, [], [claimed.id])
        assert (stand.held, stand.sending) == (False, frozenset())
        with pytest.raises(LeaseLost):
            await given.claim(first, a_claim(2))

    walk(inside)
    assert [delivery.state for delivery in Delivery.objects.all()] == ["claimed"]


def test_what_landed_is_recorded_even_by_an_owner_that_lost_the_lease_case_lease_02() -> None:
    async def inside(given: Ledger) -> None:
        first = await given.own()
        claimed = (await given.claim(first, a_claim(1)))["contact:1"]
        await given.step(first, [], [claimed.id])
        await given.own()
        stand = await given.step(first, [Settlement(claimed.id, DeliveryState.WRITTEN)], [])
        assert (stand.held, stand.settled) == (False, 1)

    walk(inside)
    assert Delivery.objects.get().state == "written"
    assert Tombstone.objects.get().seq == 1


def test_two_owners_never_hold_one_object_case_deliv_10() -> None:
    async def inside(given: Ledger) -> list[object]:
        held = await given.own()
        return list(
            await asyncio.gather(given.claim(held, a_claim(1)), given.claim(held, a_claim(1)), return_exceptions=True)
        )

    walk(inside)
    assert Delivery.objects.count() == 1


def test_an_older_read_overwrites_nothing_newer() -> None:
    async def inside(given: Ledger) -> None:
        held = await given.own()
        newer = (await given.claim(held, a_claim(1), read_no=9))["contact:1"]
        await given.step(held, [], [newer.id])
        await given.step(held, [Settlement(newer.id, DeliveryState.WRITTEN)], [])
        older = (await given.claim(held, a_claim(1, seq=2, digest="old"), read_no=3))["contact:1"]
        await given.step(held, [], [older.id])
        await given.step(held, [Settlement(older.id, DeliveryState.WRITTEN)], [])

    walk(inside)
    assert (Tombstone.objects.get().payload_digest, Tombstone.objects.get().read_no) == ("d1", 9)


def test_a_call_is_not_marked_when_the_lease_does_not_cover_it() -> None:
    async def inside(given: Ledger) -> ledger.Stand:
        held = await given.own()
        claimed = (await given.claim(held, a_claim(1)))["contact:1"]
        await given.database.rows("UPDATE syncs_lease SET expires_at = vigil_now() + interval '2 seconds'")
        return await given.step(held, [], [claimed.id])

    stand = walk(inside)
    assert (stand.held, stand.may_call, stand.sending) == (True, False, frozenset())


def test_old_completed_rows_are_pruned_and_open_ones_and_tombstones_stay_case_ops_04() -> None:
    house = House.build()
    for number in range(1, 5):
        house.source.put(customer(number))
    house.run()
    ids = list(Delivery.objects.order_by("pk").values_list("pk", flat=True))
    old = database_now() - timedelta(days=8)
    Delivery.objects.filter(pk__in=ids[:2]).update(settled_at=old)
    Delivery.objects.filter(pk=ids[2]).update(state="in_doubt", settled_at=None, sending_at=old)

    async def prune() -> int:
        given = Database(parameters(settings.DATABASES["default"]))
        try:
            return await ledger.prune(given, age=timedelta(days=7))
        finally:
            await given.close()

    assert asyncio.run(prune()) == 2
    assert set(Delivery.objects.values_list("pk", flat=True)) == set(ids[2:])
    assert Tombstone.objects.count() == 4
    assert house.run().states == {}
    house.source.traits = replace(house.source.traits, overlap=timedelta(days=4000))
    assert house.run().states == {"already_delivered": 3, "written": 1}, "what was in doubt is sent again"


@pytest.mark.parametrize("change", ["UPDATE syncs_version SET reason = 'x'", "DELETE FROM syncs_version"])
def test_the_database_refuses_to_change_a_version(change: str) -> None:
    House.build()
    with pytest.raises(DatabaseError, match="never changed or deleted"), transaction.atomic():
        connection.cursor().execute(change)
    assert Version.objects.count() == 1


def test_the_database_refuses_to_change_the_audit_log() -> None:
    house = House.build()
    house.start()
    with pytest.raises(DatabaseError, match="never changed or deleted"), transaction.atomic():
        AuditEntry.objects.all().delete()
    assert AuditEntry.objects.count() == 1
