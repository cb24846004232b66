"""Random sequences of changes, faults, crashes, publications and lanes against a model of the destination.

Whatever happened: nothing is lost, nothing is doubled where the destination can tell, nobody is put on a list against
their will, the cursor is never ahead of what is decided, and the counters close (PRODUCT 1.2, 2, 3.6, 10.3).
"""

import asyncio
import os
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from connectors import errors, memory
from connectors.memory import Fault
from connectors.protocol import Landing, Receipt, Stream
from syncs.domain.lifecycle import Lane
from syncs.engine import planner
from syncs.models import Delivery, Run, Sync
from tests.house import CONTACTS, ORDERS, House, consent, customer, order

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES = int(os.environ.get("VIGIL_MODEL_EXAMPLES", "12"))
STEPS = int(os.environ.get("VIGIL_MODEL_STEPS", "14"))
PEOPLE = st.integers(1, 6)
STATES = st.sampled_from(["SUBSCRIBED", "SUBSCRIBED", "SUBSCRIBED", "UNSUBSCRIBED", "NOT_SUBSCRIBED", "NEWLY_INVENTED"])


class Killed(BaseException):
    """The process ends here: nothing of it runs any more."""


def kill(_: object) -> object:
    raise Killed


def reject(receipts: list[Receipt]) -> list[Receipt]:
    return [Receipt(one.effect_key, Landing.REJECTED, "rejected", "No.") for one in receipts]


WRITE_FAULTS = st.sampled_from(
    [
        errors.Passing("Gone for a moment."),
        errors.Throttled("Slow down.", wait=timedelta(milliseconds=1)),
        Fault(error=memory.lost()),
        Fault(error=memory.lost(), after=True),
        Fault(change=kill),
        Fault(change=reject),
    ]
)
READ_FAULTS = st.sampled_from(
    [
        errors.Passing("Gone for a moment."),
        errors.Unreadable("Half a page."),
        errors.CursorStale("Another query's cursor."),
        Fault(change=memory.emptied),
        Fault(change=kill),
    ]
)


def clean_tables() -> None:
    """What a flush between two tests does, between two examples."""
    tables = [table for table in connection.introspection.table_names() if table.startswith("syncs_")]
    with connection.cursor() as at:
        at.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE")


class Model(RuleBasedStateMachine):
    """One house with customers and orders; what the source holds is the model."""

    @initialize()
    def build(self) -> None:
        clean_tables()
        self.contacts = House.build(CONTACTS, page_size=3)
        traits = memory.some_traits(deadline=timedelta(milliseconds=50), concurrency=2)
        self.contacts.destination.traits = traits
        sync = Sync.objects.create(
            workspace=self.contacts.sync.workspace,
            name="Orders",
            source=self.contacts.sync.source,
            destination=self.contacts.sync.destination,
            draft={**ORDERS},
        )
        self.orders = House(self.contacts.source, self.contacts.destination, sync, at=self.contacts.at)
        self.orders.publish()
        self.said_no: set[str] = set()

    @property
    def source(self) -> memory.MemorySource:
        return self.contacts.source

    @property
    def destination(self) -> memory.MemoryDestination:
        return self.contacts.destination

    def now(self) -> Any:
        self.contacts.at = self.orders.at = max(self.contacts.at, self.orders.at)
        return self.contacts.soon()

    # -- what people do ------------------------------------------------------------------------------------------------

    @rule(number=PEOPLE, name=st.sampled_from(["Ada", "Bo", "Cy"]), state=STATES)
    def change_customer(self, number: int, name: str, state: str) -> None:
        self.source.put(customer(number, name, updated_at=self.now(), said=consent(state)))

    @rule(number=st.integers(100, 104), of=PEOPLE, amount=st.sampled_from(["1.00", "2.00"]))
    def change_order(self, number: int, of: int, amount: str) -> None:
        self.source.put(order(number, of=of, amount=amount, updated_at=self.now()))

    @rule(number=PEOPLE)
    def unsubscribe_there(self, number: int) -> None:
        person = self.destination.person(f"c{number}@shop.example")
        if person is not None:
            person.blocklisted = True
            person.lists.clear()
            self.said_no.add(person.address)

    @rule()
    def publish_again(self) -> None:
        self.contacts.sync.refresh_from_db()
        self.contacts.publish()

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    @rule(fault=WRITE_FAULTS, after=st.integers(0, 3))
    def fail_write(self, fault: Any, after: int) -> None:
        self.destination.fail("write", *[Fault()] * after, fault)

    @rule(fault=READ_FAULTS, after=st.integers(0, 1))
    def fail_read(self, fault: Any, after: int) -> None:
        self.source.fail("read_page", *[Fault()] * after, fault)

    # -- runs ----------------------------------------------------------------------------------------------------------

    @rule(which=st.sampled_from(["contacts", "orders"]), lane=st.sampled_from([Lane.SCHEDULED, Lane.MANUAL]))
    def run_once(self, which: str, lane: Lane) -> None:
        house: House = getattr(self, which)
        self.now()
        self.revive()
        run = house.start(lane)
        self.drive(house, run, times=3)

    def drive(self, house: House, run: Run, times: int) -> None:
        for _ in range(times):
            try:
                house.work()
            except Killed:
                self.bury()
            except BaseExceptionGroup:
                self.bury()
            run.refresh_from_db()
            if run.state == "finished":
                break

    def bury(self) -> None:
        """The process is gone: its leases run out, the planner notices."""
        with connection.cursor() as at:
            at.execute("UPDATE syncs_lease SET expires_at = vigil_now()")

        async def recover() -> None:
            given = self.contacts.outside().database
            await planner.recover(given)
            await given.close()

        asyncio.run(recover())

    def revive(self) -> None:
        """A person publishes a paused sync again and asks for another try of what was rejected."""
        self.bury()
        for house in (self.contacts, self.orders):
            house.sync.refresh_from_db()
            if house.sync.state != "published":
                house.publish()
        Delivery.objects.filter(state="failed").update(state="superseded")

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_is_on_the_list_against_their_will(self) -> None:
        if not hasattr(self, "contacts"):
            return
        assert self.destination.violations == []
        for person in self.destination.people.values():
            assert not (person.address in self.said_no and person.lists), "the destination's no was overridden"

    @invariant()
    def nothing_is_doubled(self) -> None:
        if not hasattr(self, "contacts"):
            return
        addresses = [person.address for person in self.destination.people.values()]
        assert len(addresses) == len(set(addresses))
        events = [(event.name, event.properties["order_id"]) for event in self.destination.events]
        assert len(events) == len(set(events)), "an event was sent twice"

    @invariant()
    def the_counters_close(self) -> None:
        for run in Run.objects.filter(outcome="succeeded"):
            assert sum(run.states.values()) == run.evidence["rows_seen"]
            assert sum(run.refusals.values()) == run.states.get("refused", 0)

    def teardown(self) -> None:
        """Once everything goes well again, the destination shows exactly what the source says."""
        if not hasattr(self, "contacts"):
            return
        self.source._faults.clear()
        self.destination._faults.clear()
        for house in (self.contacts, self.orders):
            for lane in (Lane.SCHEDULED, Lane.MANUAL):
                self.now()
                self.revive()
                for _ in range(3):
                    run = house.start(lane)
                    self.drive(house, run, times=8)
                    if run.outcome == "succeeded" and run.lane == lane.value:
                        break
                assert run.outcome == "succeeded", (run.outcome, run.error_code, run.error_sentence)
        self.nobody_is_on_the_list_against_their_will()
        self.nothing_is_doubled()
        self.nothing_is_lost()

    def nothing_is_lost(self) -> None:
        allowed: set[str] = set()
        for record in self.source.records[Stream.CUSTOMERS]:
            assert record.subject is not None
            address = f"c{record.id}@shop.example"
            person = self.destination.person(address)
            if record.subject.consent.state == "SUBSCRIBED" and address not in self.said_no:
                assert person is not None, f"{record.id} was lost"
                assert person.attributes == {"FIRSTNAME": record.fields["firstName"]}
                allowed.add(record.id)
            elif person is not None and record.subject.consent.state == "UNSUBSCRIBED":
                assert person.lists == set(), f"{record.id} was not taken off the list"
        for record in self.source.records[Stream.ORDERS]:
            assert record.subject is not None and record.order is not None
            if record.subject.id in allowed:
                assert self.destination.orders[record.id].amount == record.order.amount
        assert not Delivery.objects.filter(state__in=["claimed", "sending"]).exists()


def test_no_sequence_of_events_loses_or_doubles_anything() -> None:
    run_state_machine_as_test(
        Model,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            print_blob=True,
        ),
    )
