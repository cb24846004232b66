"""Our own schema says nothing that the vendor's does not say."""

import gzip
from pathlib import Path

import pytest
from graphql import (
    DocumentNode,
    EnumTypeDefinitionNode,
    FieldDefinitionNode,
    GraphQLObjectType,
    InterfaceTypeDefinitionNode,
    ObjectTypeDefinitionNode,
    parse,
    print_ast,
    validate_schema,
)

from connectors.sandbox import schema


def _described(document: DocumentNode) -> dict[str, set[str]]:
    """Type -> its members, each with its arguments and type written out."""
    found: dict[str, set[str]] = {}
    for node in document.definitions:
        if isinstance(node, ObjectTypeDefinitionNode | InterfaceTypeDefinitionNode):
            found[node.name.value] = {_field(field) for field in node.fields}
        elif isinstance(node, EnumTypeDefinitionNode):
            found[node.name.value] = {value.name.value for value in node.values}
    return found


def _field(node: FieldDefinitionNode) -> str:
    arguments = sorted(
        f"{argument.name.value}: {print_ast(argument.type)}"
        + (f" = {print_ast(argument.default_value)}" if argument.default_value else "")
        for argument in node.arguments
    )
    return f"{node.name.value}({', '.join(arguments)}): {print_ast(node.type)}"


def _unknown(vendor: DocumentNode) -> dict[str, set[str]]:
    theirs = _described(vendor)
    ours = _described(parse(schema.sdl()))
    return {name: extra for name, members in ours.items() if (extra := members - theirs.get(name, set()))}


def test_the_schema_is_valid() -> None:
    assert validate_schema(schema.build("2026-10")) == []


def test_every_type_field_argument_and_nullability_is_the_newest_version_s(shared: Path) -> None:
    with gzip.open(shared / "api/schemas/shopify-admin-2026-10.graphql.gz", "rt") as text:
        assert _unknown(parse(text.read(), no_location=True)) == {}


@pytest.mark.parametrize("version", ["2026-07", "2026-10"])
def test_what_the_queries_touch_is_all_there(shared: Path, version: str) -> None:
    text = (shared / f"api/schemas/shopify-admin-{version}.subset.graphql").read_text()
    theirs, built = _described(parse(text)), schema.build(version)
    for name in (
        "Customer",
        "CustomerEmailAddress",
        "CustomerPhoneNumber",
        "Order",
        "LineItem",
        "MailingAddress",
        "Shop",
    ):
        kind = built.type_map[name]
        assert isinstance(kind, GraphQLObjectType)
        assert {field.partition("(")[0] for field in theirs[name]} - set(kind.fields) == set(), name


def test_an_older_version_lacks_what_came_later() -> None:
    fields = {}
    for version in ("2026-04", "2026-07", "2026-10"):
        kind = schema.build(version).type_map["CustomerPhoneNumber"]
        assert isinstance(kind, GraphQLObjectType)
        fields[version] = {name for name in kind.fields if name.endswith("MarketingConsent")}
    assert fields == {
        "2026-04": set(),
        "2026-07": {"whatsAppMarketingConsent"},
        "2026-10": {"smsMarketingConsent", "whatsAppMarketingConsent"},
    }
