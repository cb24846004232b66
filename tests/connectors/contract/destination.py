"""What every destination keeps (PRODUCT 2.2 to 2.8, 3.7 to 3.9), as a suite over a small rig.

A connector's test module makes a rig for it, names it in the fixture ``rig`` and subclasses `DestinationContract`. Each
test looks at the whole state the vendor holds afterwards, and none may leave a violation behind.
"""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

import pytest

from connectors import errors
from connectors.protocol import Contact, Destination, Doubt, EffectKind, Landing, Receipt, Write
from tests.connectors.brevo.answers import (
    ADDRESS,
    DAY,
    SUBJECT,
    an_order,
    contact_write,
    event_write,
    order_write,
    withdrawal,
)

T = TypeVar("T")
Doing = Callable[[Destination], Awaitable[T]]

LIST, OTHER_LIST, MISSING_LIST = 7, 8, 987
LATER = DAY + timedelta(days=9)
LONG = 5.0
SHORT = 0.4
STRANGER = "shopify:linden:404"


@dataclass(frozen=True)
class Person:
    """Somebody as the vendor holds them. ``subject_id`` is the destination's external id."""

    id: str
    address: str
    subject_id: str | None
    blocked: bool = False
    lists: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """All that the vendor holds: people, natural id -> status of an order, (name, effect key) of every event.

    ``triggered`` counts per order how often automations saw it; two states are compared without it and without what
    must never happen.
    """

    people: tuple[Person, ...]
    orders: Mapping[str, str]
    events: tuple[tuple[str, str], ...]
    triggered: Mapping[str, int] = field(compare=False)
    violations: tuple[Any, ...] = field(compare=False)

    def person(self, address: str = ADDRESS) -> Person:
        found = [person for person in self.people if person.address == address]
        assert len(found) == 1
        return found[0]


class DestinationRig(Protocol):
    """A destination at an account with lists 7 and 8, that a test can change as people at the vendor do.

    ``run`` opens a destination, does something with it and closes it; ``run_renewed`` does so with another valid key
    of the same account, ``run_refused`` with a wrong one. ``lose_answer``, ``throttle`` and ``cut_off`` say what meets
    the call that stores the given write. ``rejected_order`` is one that the vendor will never take.
    """

    def run(self, doing: Doing[T]) -> T: ...
    def run_renewed(self, doing: Doing[T]) -> T: ...
    def run_refused(self, doing: Doing[T]) -> T: ...
    def state(self) -> State: ...
    def add(self, address: str, subject_id: str | None = None, **held: Any) -> str: ...
    def unsubscribe(self, address: str, list_id: int | None = None) -> None: ...
    def take_off(self, address: str, list_id: int) -> None: ...
    def delete(self, address: str) -> None: ...
    def lose_answer(self, write: Write, *, applied: bool) -> None: ...
    def throttle(self, write: Write, wait: timedelta | None) -> None: ...
    def write_unreachable(self, writes: Sequence[Write]) -> Sequence[Receipt]: ...
    def rejected_order(self, number: int, *, history: bool) -> Write: ...


# --- Asking -----------------------------------------------------------------------------------------------------


def write(rig: DestinationRig, *writes: Write, seconds: float = LONG) -> list[Receipt]:
    """The receipts, one per write in the order given."""
    receipts = list(rig.run(lambda one: one.write(writes, by=time.monotonic() + seconds)))
    assert [receipt.effect_key for receipt in receipts] == [each.effect_key for each in writes]
    return receipts


def landing(rig: DestinationRig, *writes: Write, seconds: float = LONG) -> list[Landing]:
    return [receipt.landing for receipt in write(rig, *writes, seconds=seconds)]


def delivered(rig: DestinationRig) -> str:
    """The destination's id of somebody whom we have put on the list."""
    receipt = write(rig, contact_write())[0]
    assert (receipt.landing, receipt.grants) == (Landing.LANDED, True)
    assert receipt.destination_id is not None
    return receipt.destination_id


def known(id: str, **changes: Any) -> Write:
    return contact_write(**{"known": True, "destination_id": id, "granted_at": DAY, **changes})


def doubt(key: str, id: str | None, event_name: str = "order_placed") -> Doubt:
    return Doubt(key, "1:placed", event_name, SUBJECT, id, DAY, datetime.now(UTC))


# Each kind of write, as it is once its person is delivered; an unknown contact needs nobody before it.
WRITES: dict[str, Callable[[str], Write]] = {
    "known contact": lambda id: known(id, attributes={"FIRSTNAME": "Augusta"}),
    "withdrawal": lambda id: withdrawal(destination_id=id),
    "order": lambda id: order_write(1, destination_id=id),
    "order of history": lambda id: order_write(2, destination_id=id, history=True),
    "event": lambda id: event_write(destination_id=id),
}
ALL = ["unknown contact", *WRITES]


def prepared(rig: DestinationRig, kind: str) -> Write:
    """A write of this kind that lands, and whatever has to be there before it."""
    return contact_write() if kind == "unknown contact" else WRITES[kind](delivered(rig))


class DestinationContract:
    @pytest.fixture(autouse=True)
    def _no_violation(self, rig: DestinationRig) -> Iterator[None]:
        yield
        assert rig.state().violations == ()

    # --- what a write leaves ------------------------------------------------------------------------------------

    def test_an_unknown_contact_is_created_once_and_then_updated(self, rig: DestinationRig) -> None:
        """Case DELIV-16."""
        first, second = (write(rig, contact_write(attributes={"FIRSTNAME": name}))[0] for name in ("Ada", "Augusta"))

        assert first == Receipt("c0ffee", Landing.LANDED, destination_id=first.destination_id, grants=True)
        assert second.destination_id == first.destination_id
        assert second.landing is Landing.LANDED
        assert rig.state() == State(
            people=(
                Person(
                    str(first.destination_id),
                    ADDRESS,
                    SUBJECT,
                    lists=frozenset({LIST}),
                    attributes={"FIRSTNAME": "Augusta"},
                ),
            ),
            orders={},
            events=(),
            triggered={},
            violations=(),
        )

    @pytest.mark.parametrize("subject_id", [SUBJECT, None])
    def test_somebody_who_is_there_already_is_updated_and_not_made_again(
        self, rig: DestinationRig, subject_id: str | None
    ) -> None:
        """Case DELIV-16: made by somebody else before our write."""
        there = rig.add(ADDRESS, subject_id)

        receipt = write(rig, contact_write())[0]

        assert (receipt.landing, receipt.destination_id, receipt.grants) == (Landing.LANDED, there, True)
        person = rig.state().person()
        assert (person.id, person.subject_id, person.lists) == (there, SUBJECT, frozenset({LIST}))

    def test_another_spelling_of_an_address_is_the_same_person(self, rig: DestinationRig) -> None:
        """Case DELIV-04."""
        there = rig.add("ADA@Example.com")

        assert write(rig, contact_write())[0].destination_id == there
        assert len(rig.state().people) == 1

    def test_a_known_contact_is_updated_and_what_is_empty_at_the_source_is_left_alone(
        self, rig: DestinationRig
    ) -> None:
        """Case DELIV-11."""
        id = delivered(rig)

        receipt = write(rig, known(id, attributes={"FIRSTNAME": "", "LASTNAME": "Lind", "LANGUAGE": None}))[0]

        assert (receipt.landing, receipt.destination_id) == (Landing.LANDED, id)
        assert rig.state().person().attributes == {"FIRSTNAME": "Ada", "LASTNAME": "Lind"}

    @pytest.mark.parametrize(
        "text",
        ["\U0001f469\u200d\U0001f467", "\u05dc\u05d5\u05d9", "<b>{{7*7}}</b>", "'; DROP TABLE --", "a\ufffdb", "0"],
    )
    def test_text_is_content_and_arrives_as_it_is(self, rig: DestinationRig, text: str) -> None:
        """PRODUCT 10.4."""
        write(rig, contact_write(attributes={"FIRSTNAME": text}))

        assert rig.state().person().attributes == {"FIRSTNAME": text}

    @pytest.mark.parametrize("kind", ALL)
    def test_the_same_idempotent_write_twice_has_one_effect(self, rig: DestinationRig, kind: str) -> None:
        """PRODUCT 2.4."""
        one = prepared(rig, kind)
        traits = rig.run(_traits)[one.kind]
        before = rig.state()

        assert landing(rig, one) == [Landing.LANDED]
        after = rig.state()
        assert after != before
        assert landing(rig, one) == [Landing.LANDED]

        assert (rig.state() == after) is traits.idempotent

    def test_an_append_twice_is_there_twice_and_what_landed_can_be_found(self, rig: DestinationRig) -> None:
        """Case DELIV-01."""
        id = delivered(rig)
        one, other = event_write(destination_id=id), event_write(destination_id=id, effect_key="cafe", id="2:placed")

        assert landing(rig, one) == landing(rig, one) == landing(rig, other) == [Landing.LANDED]

        assert rig.state().events == tuple(("order_placed", key) for key in ("beef", "beef", "cafe"))
        asked = [doubt("dead", id), doubt("beef", id), doubt("cafe", id)]
        assert rig.run(lambda found: found.find(asked, by=time.monotonic() + LONG)) == {"beef", "cafe"}
        assert rig.run(lambda found: found.find(asked[:1], by=time.monotonic() + LONG)) == frozenset()
        assert rig.run(lambda found: found.find([], by=time.monotonic() + LONG)) == frozenset()

    def test_what_landed_is_found_among_names_people_and_old_instants(self, rig: DestinationRig) -> None:
        """PRODUCT 2.4: one windowed read for many, with every doubt inside its window."""
        first, second = delivered(rig), str(rig.add("b@example.com", "shopify:linden:78"))
        old, new = DAY - timedelta(days=40), DAY
        writes = [
            event_write(destination_id=first, effect_key="a1", event_at=old),
            event_write(destination_id=second, subject_id="shopify:linden:78", effect_key="a2", event_at=new),
            event_write(destination_id=first, effect_key="a3", event_name="order_cancelled", event_at=new),
        ]
        for each in writes:
            write(rig, each)
        asked = [
            Doubt(each.effect_key, each.id, str(each.event_name), each.subject_id, each.destination_id, at, at)
            for each, at in zip(writes, (old, new, new), strict=True)
        ] + [doubt("a4", first, "order_refunded")]

        assert rig.run(lambda one: one.find(asked, by=time.monotonic() + LONG)) == {"a1", "a2", "a3"}

    def test_no_write_is_no_call(self, rig: DestinationRig) -> None:
        assert write(rig) == []
        assert rig.state() == State((), {}, (), {}, ())

    def test_more_or_other_writes_than_the_traits_say_are_a_fault(self, rig: DestinationRig) -> None:
        traits = rig.run(_traits)
        too_many = [order_write(number) for number in range(traits[EffectKind.ORDER].batch + 1)]

        for writes in (too_many, [order_write(), event_write()], [contact_write(), withdrawal()]):
            with pytest.raises(ValueError, match="at most"):
                write(rig, *writes)
        assert rig.state().orders == {}

    # --- orders -------------------------------------------------------------------------------------------------

    def test_a_full_batch_of_history_lands_confirmed_and_starts_no_automation(self, rig: DestinationRig) -> None:
        """PRODUCT 2.8."""
        id = delivered(rig)
        batch = rig.run(_traits)[EffectKind.ORDER].batch
        numbers = random.Random(5).sample(range(1, 5000), batch)

        landings = landing(rig, *(order_write(number, destination_id=id, history=True) for number in numbers))

        assert landings == [Landing.LANDED] * batch
        assert rig.state().orders == {str(number): "paid" for number in numbers}
        assert sum(rig.state().triggered.values()) == 0

    def test_history_and_live_orders_of_one_call_keep_their_places(self, rig: DestinationRig) -> None:
        id = delivered(rig)
        writes = [order_write(number, destination_id=id, history=number % 2 == 0) for number in (4, 1, 2, 3)]

        assert landing(rig, *writes) == [Landing.LANDED] * 4
        assert rig.state().orders == dict.fromkeys("1234", "paid")
        assert {number: times for number, times in rig.state().triggered.items() if times} == {"1": 1, "3": 1}

    def test_an_order_that_changed_is_still_one_order(self, rig: DestinationRig) -> None:
        id = delivered(rig)
        later = an_order(status="refunded", updated_at=LATER)

        for history in (False, True):
            assert landing(rig, order_write(1, destination_id=id, history=history)) == [Landing.LANDED]
        assert landing(rig, order_write(1, destination_id=id, order=later, history=True)) == [Landing.LANDED]

        assert rig.state().orders == {"1": "refunded"}

    @pytest.mark.parametrize("place", [0, 2, 4])
    @pytest.mark.parametrize("history", [False, True])
    def test_one_rejected_order_does_not_lose_its_neighbours(
        self, rig: DestinationRig, history: bool, place: int
    ) -> None:
        """Case DELIV-04."""
        id = delivered(rig)
        writes = [order_write(number, destination_id=id, history=history) for number in range(1, 5)]
        writes.insert(place, rig.rejected_order(5, history=history))

        landings = landing(rig, *writes)

        assert landings[place] is Landing.REJECTED
        assert landings.count(Landing.LANDED) == 4
        assert rig.state().orders == dict.fromkeys("1234", "paid")

    def test_an_event_for_a_stranger_makes_nobody(self, rig: DestinationRig) -> None:
        """PRODUCT 3.9."""
        receipt = write(rig, event_write(subject_id=STRANGER, destination_id=None))[0]

        assert receipt.landing is Landing.REJECTED
        assert rig.state() == State((), {}, (), {}, ())

    @pytest.mark.parametrize("history", [False, True])
    def test_an_order_of_a_stranger_makes_nobody(self, rig: DestinationRig, history: bool) -> None:
        """PRODUCT 3.9."""
        write(rig, order_write(1, subject_id=STRANGER, destination_id=None, history=history))

        assert rig.state().people == ()

    # --- the destination's no -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("said", ["blocked", "left", "both"])
    @pytest.mark.parametrize("as_known", ["known", "known by subject", "unknown"])
    def test_somebody_who_said_no_is_refused_and_nothing_of_theirs_changes(
        self, rig: DestinationRig, said: str, as_known: str
    ) -> None:
        """Case CONS-01, PRODUCT 3.6, 3.7. Newer consent at the source does not outweigh it."""
        id = delivered(rig)
        if said in ("left", "both"):
            rig.unsubscribe(ADDRESS, LIST)
        if said in ("blocked", "both"):
            rig.unsubscribe(ADDRESS)
        before = rig.state()
        changes: dict[str, Any] = {"attributes": {"FIRSTNAME": "Eve"}, "consent_at": LATER}
        if as_known != "unknown":
            changes |= {"known": True, "granted_at": DAY, "destination_id": id if as_known == "known" else None}

        receipt = write(rig, contact_write(**changes))[0]

        code = "destination_blocklisted" if said == "blocked" else "destination_unsubscribed"
        assert (receipt.landing, receipt.code, receipt.grants) == (Landing.REFUSED, code, False)
        assert not receipt.suppress
        assert rig.state() == before

    @pytest.mark.parametrize("held", [{"blocked": True}, {"left": {LIST}}])
    @pytest.mark.parametrize("subject_id", [SUBJECT, None])
    def test_somebody_who_said_no_before_we_knew_them_never_joins(
        self, rig: DestinationRig, held: dict[str, Any], subject_id: str | None
    ) -> None:
        rig.add(ADDRESS, subject_id, **held)
        before = rig.state()

        assert landing(rig, contact_write()) == [Landing.REFUSED]
        assert rig.state() == before

    def test_having_left_another_list_is_no_no_to_this_one(self, rig: DestinationRig) -> None:
        rig.add(ADDRESS, SUBJECT, left={OTHER_LIST})

        assert landing(rig, contact_write()) == [Landing.LANDED]
        person = rig.state().person()
        assert (person.lists, person.left) == (frozenset({LIST}), frozenset({OTHER_LIST}))

    def test_a_look_from_before_the_no_does_not_let_a_write_through(self, rig: DestinationRig) -> None:
        """PRODUCT 3.7: a known contact is read before its update, whatever was seen of it earlier."""
        id = delivered(rig)

        async def look_then_write(one: Destination) -> Sequence[Receipt]:
            assert (await one.look([SUBJECT]))[SUBJECT] is not None
            rig.unsubscribe(ADDRESS)
            return await one.write([known(id, consent_at=LATER)], by=time.monotonic() + LONG)

        assert [receipt.code for receipt in rig.run(look_then_write)] == ["destination_blocklisted"]

    def test_another_address_of_a_known_person_is_refused_and_makes_no_second_contact(
        self, rig: DestinationRig
    ) -> None:
        """Case DELIV-12."""
        id = delivered(rig)
        before = rig.state()

        for one in (known(id, address="new@example.com"), contact_write(address="new@example.com")):
            receipt = write(rig, one)[0]
            assert (receipt.landing, receipt.code) == (Landing.REFUSED, "address_changed")
        rig.add("new@example.com", "shopify:linden:78")
        assert write(rig, known(id, address="new@example.com"))[0].code == "address_changed"

        assert rig.state().people[:1] == before.people

    @pytest.mark.parametrize("by_subject", [False, True])
    def test_somebody_we_knew_who_was_deleted_is_suppressed_and_not_made_again(
        self, rig: DestinationRig, by_subject: bool
    ) -> None:
        """Case CONS-08, PRODUCT 3.7."""
        id = delivered(rig)
        rig.delete(ADDRESS)

        receipt = write(rig, known(id, consent_at=LATER, **({"destination_id": None} if by_subject else {})))[0]

        assert (receipt.landing, receipt.code, receipt.suppress) == (Landing.REFUSED, "suppressed", True)
        assert rig.state().people == ()

    def test_somebody_taken_off_by_hand_stays_off_until_newer_consent(self, rig: DestinationRig) -> None:
        id = delivered(rig)
        rig.take_off(ADDRESS, LIST)

        receipt = write(rig, known(id, consent_at=DAY, attributes={"FIRSTNAME": "Augusta"}))[0]

        assert (receipt.landing, receipt.code, receipt.grants) == (Landing.LANDED, "left_off_list", False)
        person = rig.state().person()
        assert (person.lists, person.attributes) == (frozenset(), {"FIRSTNAME": "Augusta"})
        assert write(rig, known(id, consent_at=LATER))[0].grants is True
        assert rig.state().person().lists == {LIST}

    def test_a_contact_without_a_list_joins_none(self, rig: DestinationRig) -> None:
        receipt = write(rig, contact_write(list_id=None))[0]

        assert (receipt.landing, receipt.grants) == (Landing.LANDED, False)
        assert rig.state().person().lists == frozenset()

    # --- withdrawals --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("by_subject", [False, True])
    def test_a_withdrawal_takes_off_this_list_alone_and_may_be_repeated(
        self, rig: DestinationRig, by_subject: bool
    ) -> None:
        """PRODUCT 3.8."""
        id = rig.add(ADDRESS, SUBJECT, lists={LIST, OTHER_LIST})
        one = withdrawal(destination_id=None if by_subject else id)

        for _ in range(3):
            assert landing(rig, one) == [Landing.LANDED]
            assert rig.state().person().lists == {OTHER_LIST}

    def test_a_withdrawal_leaves_a_no_as_it_is(self, rig: DestinationRig) -> None:
        id = delivered(rig)
        rig.unsubscribe(ADDRESS, LIST)
        rig.unsubscribe(ADDRESS)
        before = rig.state()

        assert landing(rig, withdrawal(destination_id=id)) == [Landing.LANDED]
        assert rig.state() == before

    def test_a_withdrawal_of_somebody_deleted_is_done_and_asks_for_their_suppression(self, rig: DestinationRig) -> None:
        id = delivered(rig)
        rig.delete(ADDRESS)

        receipts = [
            write(rig, withdrawal(destination_id=held, known=knew))[0] for held, knew in ((id, True), (None, False))
        ]

        assert [(receipt.landing, receipt.suppress) for receipt in receipts] == [
            (Landing.LANDED, True),
            (Landing.LANDED, False),
        ]
        assert rig.state().people == ()

    # --- trouble ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("applied", [True, False])
    @pytest.mark.parametrize("kind", ALL)
    def test_a_write_whose_answer_never_came_is_in_doubt_whether_it_landed_or_not(
        self, rig: DestinationRig, kind: str, applied: bool
    ) -> None:
        """Cases DELIV-01, DELIV-03, HTTP-09."""
        one = prepared(rig, kind)
        before = rig.state()
        rig.lose_answer(one, applied=applied)

        assert landing(rig, one, seconds=SHORT) == [Landing.IN_DOUBT]

        stored = rig.state()
        assert (stored != before) is applied
        if one.kind is EffectKind.EVENT:
            asked = [doubt(one.effect_key, one.destination_id)]
            found = rig.run(lambda there: there.find(asked, by=time.monotonic() + LONG))
            assert found == ({one.effect_key} if applied else frozenset())
        else:
            assert landing(rig, one) == [Landing.LANDED]
            assert rig.state() != before
            assert rig.state() == stored or not applied

    @pytest.mark.parametrize("wait", [timedelta(seconds=7), None])
    @pytest.mark.parametrize("kind", ALL)
    def test_a_write_that_is_throttled_passes_and_nothing_is_stored(
        self, rig: DestinationRig, kind: str, wait: timedelta | None
    ) -> None:
        """Cases HTTP-01, HTTP-02."""
        one = prepared(rig, kind)
        before = rig.state()
        rig.throttle(one, wait)

        receipt = write(rig, one)[0]

        assert (receipt.landing, receipt.code, receipt.wait) == (Landing.PASSING, "throttled", wait)
        assert rig.state() == before
        assert landing(rig, one) == [Landing.LANDED]

    @pytest.mark.parametrize("kind", ALL)
    def test_where_nobody_listens_a_write_passes(self, rig: DestinationRig, kind: str) -> None:
        """Case HTTP-09."""
        one = prepared(rig, kind)
        before = rig.state()

        receipts = rig.write_unreachable([one])

        assert [(receipt.effect_key, receipt.landing) for receipt in receipts] == [(one.effect_key, Landing.PASSING)]
        assert rig.state() == before

    @pytest.mark.parametrize("kind", ALL)
    def test_nothing_is_written_after_the_deadline(self, rig: DestinationRig, kind: str) -> None:
        """PRODUCT 3.2."""
        one = prepared(rig, kind)
        before = rig.state()

        assert landing(rig, one, seconds=-0.001) == [Landing.PASSING]
        assert rig.state() == before

    @pytest.mark.parametrize("kind", ["unknown contact", "known contact", "withdrawal"])
    def test_a_list_that_is_gone_ends_the_run_and_nothing_is_stored(self, rig: DestinationRig, kind: str) -> None:
        """Case DELIV-05."""
        one = replace(prepared(rig, kind), list_id=MISSING_LIST, consent_at=LATER)
        before = rig.state()

        with pytest.raises(errors.Refused) as caught:
            write(rig, one)

        assert (type(caught.value), caught.value.code) == (errors.Refused, "list_missing")
        assert rig.state() == before

    @pytest.mark.parametrize("kind", ALL)
    def test_a_refused_key_ends_the_run_and_nothing_is_stored(self, rig: DestinationRig, kind: str) -> None:
        one = prepared(rig, kind)
        before = rig.state()

        with pytest.raises(errors.TokenRefused):
            rig.run_refused(lambda there: there.write([one], by=time.monotonic() + LONG))
        assert rig.state() == before

    @pytest.mark.parametrize(
        "question",
        [
            lambda one: one.identify(),
            lambda one: one.attributes(),
            lambda one: one.list_name(LIST),
            lambda one: one.look([SUBJECT]),
            lambda one: one.look_address([ADDRESS]),
            lambda one: one.find([doubt("beef", "1")], by=time.monotonic() + LONG),
        ],
    )
    def test_a_refused_key_answers_no_question(self, rig: DestinationRig, question: Doing[Any]) -> None:
        with pytest.raises(errors.TokenRefused):
            rig.run_refused(question)

    # --- looking ------------------------------------------------------------------------------------------------

    def test_a_look_shows_what_was_written_also_to_who_looked_before(self, rig: DestinationRig) -> None:
        """PRODUCT 3.7."""

        async def steps(one: Destination) -> list[Contact | None]:
            seen = []
            id = None
            for step in (None, contact_write(), known, withdrawal):
                if step is not None:
                    each = step if isinstance(step, Write) else _changed(step, str(id))
                    receipt = (await one.write([each], by=time.monotonic() + LONG))[0]
                    assert receipt.landing is Landing.LANDED
                    id = receipt.destination_id
                by_subject, by_address = await one.look([SUBJECT]), await one.look_address([ADDRESS])
                assert by_subject[SUBJECT] == by_address[ADDRESS]
                seen.append(by_subject[SUBJECT])
            return seen

        nobody, made, updated, withdrawn = rig.run(steps)

        assert nobody is None
        assert made is not None and updated is not None and withdrawn is not None
        assert made == Contact(made.id, SUBJECT, False, frozenset(), frozenset({LIST}), {"FIRSTNAME": "Ada"})
        assert updated == replace(made, attributes={"FIRSTNAME": "Augusta"})
        assert withdrawn == replace(updated, lists=frozenset())

    def test_a_look_tells_the_no_of_each_and_knows_no_strangers(self, rig: DestinationRig) -> None:
        subjects = [f"shopify:linden:{number}" for number in range(25)]
        for number, subject in enumerate(subjects):
            rig.add(f"p{number}@example.com", subject, blocked=number % 3 == 0, left={LIST} if number % 2 else set())

        seen = rig.run(lambda one: one.look([*subjects, STRANGER, subjects[0]]))
        by_address = rig.run(lambda one: one.look_address(["p3@example.com", "nobody@example.com"]))

        assert set(seen) == {*subjects, STRANGER}
        assert seen[STRANGER] is None
        told = [(found.blocklisted, found.left_lists) for subject in subjects if (found := seen[subject])]
        assert told == [(n % 3 == 0, frozenset({LIST} if n % 2 else ())) for n in range(25)]
        assert by_address == {"p3@example.com": seen[subjects[3]], "nobody@example.com": None}
        assert rig.run(lambda one: one.look([])) == rig.run(lambda one: one.look_address([])) == {}

    # --- who it is and what it takes ----------------------------------------------------------------------------

    def test_a_renewed_key_of_the_same_account_is_the_same_identity(self, rig: DestinationRig) -> None:
        """PRODUCT 6.3."""
        before, after = (run(lambda one: one.identify()) for run in (rig.run, rig.run_renewed))

        assert (before.account, before.label, before.scopes) == (after.account, after.label, after.scopes)
        assert before.account
        assert abs(after.server_time - datetime.now(UTC)) < timedelta(minutes=1)

    def test_lists_and_attributes_are_known_by_name(self, rig: DestinationRig) -> None:
        """Case DELIV-18."""
        assert rig.run(lambda one: one.list_name(LIST))
        assert rig.run(lambda one: one.list_name(MISSING_LIST)) is None
        assert rig.run(lambda one: one.attributes())["FIRSTNAME"] == "text"

    def test_it_says_how_it_takes_every_kind(self, rig: DestinationRig) -> None:
        traits = rig.run(_traits)

        assert set(traits) == set(EffectKind)
        assert all(each.batch >= 1 and each.concurrency >= 1 for each in traits.values())
        assert all(each.deadline > timedelta(0) and each.settle >= timedelta(0) for each in traits.values())
        assert {kind for kind, each in traits.items() if each.looks} == {EffectKind.ORDER, EffectKind.EVENT}
        assert {kind for kind, each in traits.items() if not each.idempotent} == {EffectKind.EVENT}

    # --- everything together ------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_no_sequence_of_writes_ever_lifts_a_no(self, rig: DestinationRig, seed: int) -> None:
        """PRODUCT 3.7: whoever has said no stays where they are until they themselves change it."""
        walk = Walk(rig, random.Random(seed))
        for _ in range(60):
            walk.step()
        assert walk.said_no and walk.wrote > len(walk.said_no)


async def _traits(one: Destination) -> Any:
    return one.traits


def _changed(step: Callable[..., Write], id: str) -> Write:
    if step is withdrawal:
        return withdrawal(destination_id=id)
    return step(id, attributes={"FIRSTNAME": "Augusta"})


class Walk:
    """Random acts of four people at the vendor, and of a writer that remembers what it delivered."""

    def __init__(self, rig: DestinationRig, chance: random.Random) -> None:
        self.rig, self.chance = rig, chance
        self.ids: dict[str, str] = {}
        self.said_no: set[str] = set()
        self.wrote = 0

    def step(self) -> None:
        address = self.chance.choice(["a@example.com", "b@example.com", "c@example.com", "d@example.com"])
        before = {person.address: person for person in self.rig.state().people}
        if self.chance.random() < 0.2 and address in before:
            self._say_no(address)
            return
        if self.chance.random() < 0.1 and LIST in getattr(before.get(address), "lists", ()):
            self.rig.take_off(address, LIST)
            return
        self._write(address)
        after = {person.address: person for person in self.rig.state().people}
        for name in self.said_no:
            assert after[name].lists <= before[name].lists
            assert replace(after[name], lists=frozenset()) == replace(before[name], lists=frozenset())
        assert before.keys() <= after.keys()

    def _say_no(self, address: str) -> None:
        self.rig.unsubscribe(address, self.chance.choice([LIST, None]))
        self.said_no.add(address)

    def _write(self, address: str) -> None:
        facts: dict[str, Any] = {"subject_id": f"shopify:linden:{address[0]}", "destination_id": self.ids.get(address)}
        if address in self.ids and self.chance.random() < 0.3:
            receipt = write(self.rig, withdrawal(**facts))[0]
        else:
            consent_at = DAY + timedelta(days=self.chance.randint(-9, 9))
            known = {"known": True, "granted_at": DAY} if address in self.ids else {}
            name = {"FIRSTNAME": str(self.chance.random())}
            one = contact_write(address=address, consent_at=consent_at, attributes=name, **facts, **known)
            receipt = write(self.rig, one)[0]
        self.wrote += 1
        if receipt.landing is Landing.LANDED and receipt.destination_id:
            self.ids[address] = receipt.destination_id
