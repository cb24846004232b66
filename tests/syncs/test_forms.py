"""The draft's form without a page: what it suggests, what it keeps, and the words for what differs."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from connectors.protocol import Stream
from connectors.shopify import queries as shopify
from syncs.domain import rule as rules
from syncs.forms import Draft, ScheduleForm, pickers
from syncs.queries import versions
from syncs.queries.versions import Difference
from tests import factories

RULE = rules.document(rules.parse(factories.CUSTOMERS))


def posted(**changes: str) -> QueryDict:
    """A browser's form for `RULE`: two rows and an empty one."""
    given = QueryDict(mutable=True)
    rows = [*RULE["mapping"], {"to": "", "source": "", "kind": "text"}]
    given.update({"revision": "1", "list_id": "12", "filter": "", "consent": RULE["consent"], "on_rejected": "stop"})
    given.update({"mapping-TOTAL_FORMS": "3", "mapping-INITIAL_FORMS": "2"})
    for at, row in enumerate(rows):
        given.update({f"mapping-{at}-{name}": value for name, value in row.items()})
    for name, value in changes.items():
        given[name] = value
    return given


def leaves(shape: Any) -> set[str]:
    """Every path into a source's node, lists written as `[]`."""
    found = set()
    for name, inner in shape.items():
        if inner is None:
            found.add(name)
        elif set(inner) == {"nodes", "pageInfo"}:
            found |= {f"{name}.nodes[].{path}" for path in leaves(inner["nodes"])}
        else:
            found |= {f"{name}.{path}" for path in leaves(inner)}
    return found


@pytest.mark.parametrize("stream", list(Stream))
def test_every_suggestion_is_a_field_that_the_connector_reads(stream: Stream) -> None:
    suggested = {path for path, _word in pickers.source_fields("shopify", stream)}
    assert suggested and suggested - leaves(shopify.NODES[stream]) == set()


@pytest.mark.parametrize("stream", list(Stream))
def test_no_suggestion_is_a_persons_e_mail_address(stream: Stream) -> None:
    """The connector alone writes it (PRODUCT 3.7)."""
    assert not any("emailAddress" in path for path, _word in pickers.source_fields("shopify", stream))


def test_a_source_that_is_not_known_has_no_suggestions() -> None:
    assert pickers.source_fields("memory", "customers") == ()


def test_an_expression_of_several_lines_is_shown_as_it_is() -> None:
    """Case PUB-10: a single line would join its lines, and a save without a change would be one."""
    lines = pickers.Suggested().render("source", "join(' ',\n [a, b])")
    assert "<textarea" in lines and "join(&#x27; &#x27;,\n [a, b])" in lines
    assert "<textarea" not in pickers.Suggested().render("source", "firstName")


def test_a_form_without_faults_is_the_rule_it_was_made_of() -> None:
    draft = Draft(RULE, 1, posted())
    assert draft.is_valid()
    assert rules.document(rules.parse(draft.document())) == RULE
    assert draft.errors() == []


def test_faults_of_form_and_rule_are_told_together_in_the_order_of_the_page() -> None:
    draft = Draft(RULE, 1, posted(cap="many", list_id="0", filter="a ||", **{"mapping-1-to": "EMAIL"}))
    assert not draft.is_valid()
    assert [place for place, _sentence in draft.errors()] == [
        "id_list_id",
        "id_mapping-1-to",
        "id_filter",
        "id_cap",
    ]


def test_a_target_and_a_source_of_one_row_are_both_told() -> None:
    draft = Draft(RULE, 1, posted(**{"mapping-0-to": "NO GOOD", "mapping-0-source": "a(("}))
    assert not draft.is_valid()
    assert [place for place, _sentence in draft.errors()] == ["id_mapping-0-to", "id_mapping-0-source"]


def test_a_line_more_or_less_keeps_what_was_typed() -> None:
    more = Draft.reshaped(RULE, posted(filter="half [", list_id="x"))
    fewer = Draft.reshaped(RULE, posted(), without=0)
    assert [row["to"].value() for row in more.rows.forms] == ["FIRSTNAME", "LASTNAME", "", None]
    assert [row["to"].value() for row in fewer.rows.forms] == ["LASTNAME", ""]
    assert (more.form["filter"].value(), more.form["list_id"].value()) == ("half [", "x")
    assert not more.form.is_bound


# --- Differences ------------------------------------------------------------------------------------------------------
def test_every_field_of_a_rule_has_a_name_for_people() -> None:
    assert set(RULE) - {"mapping"} == set(versions.LABELS)


def test_what_differs_is_said_in_words() -> None:
    after = {
        **RULE,
        "filter": "tags",
        "consent": "confirmed",
        "on_rejected": "set_aside",
        "ratio": "0.125",
        "cap": 7,
        "mapping": [{"to": "FIRSTNAME", "source": "displayName", "kind": "text"}],
    }
    assert versions.differences(RULE, after) == (
        Difference("Only records for which this holds", "all records", "tags"),
        Difference("Consent that counts as proof", "single or confirmed opt-in", "confirmed opt-in only"),
        Difference("Records that the destination rejects", "stop, until a person decides", "set aside, within limits"),
        Difference("Share of a run that may be set aside", "none", "12.5 %"),
        Difference("Records of a run that may be set aside", "none", "7"),
        Difference("Field FIRSTNAME", "firstName as text", "displayName as text"),
        Difference("Field LASTNAME", "lastName as text", "not written"),
    )


def test_other_accounts_and_scopes_are_differences_too() -> None:
    """Case PUB-07: the digest binds them, so they are shown beside the rule."""
    source = {**factories.FACTS["source"], "scopes": ["read_customers", "read_orders"]}
    destination = {**factories.FACTS["destination"], "account": "company-2", "label": "Other"}
    assert versions.end_differences(factories.FACTS, {"source": source, "destination": destination}) == (
        Difference("Scopes of the source", "read_customers", "read_customers, read_orders"),
        Difference("Destination account", "Brevo: ACME (company-1)", "Brevo: Other (company-2)"),
    )
    assert versions.end_differences(factories.FACTS, factories.FACTS) == ()


def test_what_is_no_rule_differs_in_nothing_that_could_be_said() -> None:
    assert versions.differences({"stream": "x"}, RULE) == ()


# --- The schedule -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("minutes", "every"), [(15, "15"), (1440, "1440"), (7, "other")])
def test_a_schedule_comes_out_of_its_form_as_it_went_in(minutes: int, every: str) -> None:
    shown = ScheduleForm.initially(minutes, True)
    form = ScheduleForm(shown)
    assert form.is_valid() and shown["every"] == every
    assert (form.every_minutes, form.cleaned_data["active"]) == (minutes, True)
