"""A rule in the words that people decide by."""

from typing import Any

from syncs.domain import rule as rules
from syncs.queries.rule import sentences

CUSTOMERS = {
    "stream": "customers",
    "list_id": 7,
    "mapping": [{"to": "FIRSTNAME", "source": "firstName"}, {"to": "LASTNAME", "source": "lastName"}],
}
ORDERS = {"stream": "orders", "events": ["order_placed", "order_refunded"]}


def rule_of(base: dict[str, Any], **changes: Any) -> rules.Rule:
    return rules.parse({**base, **changes})


def test_a_customers_rule_in_words():
    made = rule_of(CUSTOMERS, filter="contains(tags, 'vip')", on_rejected="set_aside", ratio="0.125", cap=3)
    assert sentences(rules.document(made)) == (
        "Reads customers and writes them as contacts to list 7.",
        "Takes only customers for which contains(tags, 'vip') holds.",
        "Writes firstName to FIRSTNAME as text.",
        "Writes lastName to LASTNAME as text.",
        "Sends only people who are subscribed with a single or confirmed opt-in on a known date, "
        "and who have not left.",
        "Does not refuse people who opted out of the sale of their data.",
        "Sets rejected records aside, up to 12.5 % of a run and at most 3; beyond that the run fails.",
        "Nothing is ever written back to the source, and nobody's no at the destination is lifted.",
    )


def test_an_orders_rule_in_words():
    made = rule_of(ORDERS, consent="confirmed", refuse_data_sale_opt_out=True, history_events=True)
    assert sentences(rules.document(made)) == (
        "Reads orders and writes them as orders of a contact that is known already.",
        "Takes all orders.",
        "Writes no further fields.",
        "Sends only people who are subscribed with a confirmed opt-in on a known date, and who have not left.",
        "Refuses people who opted out of the sale of their data.",
        "Sends these events once each: order_placed, order_refunded.",
        "Past events are sent too.",
        "Leaves out test orders.",
        "Stops at a record that the destination rejects, until a person decides.",
        "Nothing is ever written back to the source, and nobody's no at the destination is lifted.",
    )
