"""What a query costs, by the formula fitted on recorded answers, and the bucket it is paid from.

An object costs 1, a scalar and a PageInfo nothing, a count root 10, a connection 2 + f(size) x (1 + its node), with
f(n) = max(1, floor(2 ln n)).
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    get_named_type,
)

COUNT_COST = 10
CONNECTION_COST = 2
MAX_QUERY_COST = 1000
BUCKET_SIZE = 2000
RESTORE_RATE = 100

RootSize = Callable[[str], int | None]


def spread(size: int) -> int:
    """f(n) of the formula; nothing for an empty connection."""
    return 0 if size <= 0 else max(1, int(2 * math.log(size)))


@dataclass(frozen=True, slots=True)
class Price:
    """Prices one operation. `fragments` by name, `variables` as sent."""

    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    variables: Mapping[str, Any]

    def of(self, operation: OperationDefinitionNode, root_size: RootSize = lambda name: None) -> int:
        """Points of the whole operation; `root_size(response name)` is what a root connection really returned."""
        root = self.schema.query_type
        total = 0
        for node in self._fields(operation.selection_set):
            total += self._field(node, root, root_size(node.alias.value if node.alias else node.name.value))
        return total

    def _fields(self, selection: SelectionSetNode) -> list[FieldNode]:
        found: list[FieldNode] = []
        for node in selection.selections:
            if isinstance(node, FieldNode):
                found.append(node)
            elif isinstance(node, InlineFragmentNode):
                found += self._fields(node.selection_set)
            elif isinstance(node, FragmentSpreadNode) and node.name.value in self.fragments:
                found += self._fields(self.fragments[node.name.value].selection_set)
        return found

    def _selection(self, selection: SelectionSetNode, parent: GraphQLObjectType | None) -> int:
        total = 0
        for node in selection.selections:
            if isinstance(node, FieldNode):
                total += self._field(node, parent, None)
            elif isinstance(node, InlineFragmentNode):
                total += self._selection(node.selection_set, self._condition(node.type_condition, parent))
            elif isinstance(node, FragmentSpreadNode) and node.name.value in self.fragments:
                fragment = self.fragments[node.name.value]
                total += self._selection(fragment.selection_set, self._condition(fragment.type_condition, parent))
        return total

    def _condition(self, condition: Any, parent: GraphQLObjectType | None) -> GraphQLObjectType | None:
        named = self.schema.type_map.get(condition.name.value) if condition else parent
        return named if isinstance(named, GraphQLObjectType) else None

    def _field(self, node: FieldNode, parent: GraphQLObjectType | None, size: int | None) -> int:
        if node.selection_set is None or parent is None or node.name.value not in parent.fields:
            return 0
        kind = get_named_type(parent.fields[node.name.value].type)
        if kind.name == "PageInfo":
            return 0
        if kind.name == "Count":
            return COUNT_COST
        if not isinstance(kind, GraphQLObjectType) or not kind.name.endswith("Connection"):
            return 1 + self._selection(node.selection_set, kind if isinstance(kind, GraphQLObjectType) else None)
        items = self._items(node.selection_set, kind)
        return CONNECTION_COST + spread(self._asked(node) if size is None else size) * items

    def _items(self, selection: SelectionSetNode, connection: GraphQLObjectType) -> int:
        total = 0
        for child in self._fields(selection):
            inner = get_named_type(connection.fields[child.name.value].type) if child.selection_set else None
            if child.name.value == "nodes" and child.selection_set and isinstance(inner, GraphQLObjectType):
                total += 1 + self._selection(child.selection_set, inner)
            if child.name.value == "edges" and child.selection_set and isinstance(inner, GraphQLObjectType):
                # An edge is free; its node costs 1 and what it selects, which is what _field says of an object.
                total += self._selection(child.selection_set, inner)
        return total

    def _asked(self, node: FieldNode) -> int:
        for argument in node.arguments:
            if argument.name.value in ("first", "last"):
                value = argument.value
                named = self.variables.get(value.name.value) if isinstance(value, VariableNode) else None
                literal = getattr(value, "value", None)
                return int(named if named is not None else literal if literal is not None else 0)
        return 0


@dataclass(slots=True)
class Bucket:
    """A leaking bucket of points; only `enforced` ones refuse."""

    enforced: bool = False
    clock: Callable[[], float] = time.monotonic
    _level: float = field(default=float(BUCKET_SIZE), init=False)
    _since: float = field(default=0.0, init=False)

    def take(self, points: int) -> bool:
        """Pays for a query; False when the bucket does not hold that much now."""
        self._refill()
        if self.enforced and points > self._level:
            return False
        self._level = max(0.0, self._level - points)
        return True

    def give_back(self, points: float) -> None:
        self._level = min(float(BUCKET_SIZE), self._level + points)

    def status(self, used: int) -> dict[str, int]:
        available = int(self._level) if self.enforced else BUCKET_SIZE - used
        return {"maximumAvailable": BUCKET_SIZE, "currentlyAvailable": available, "restoreRate": RESTORE_RATE}

    def _refill(self) -> None:
        now = self.clock()
        self.give_back((now - self._since) * RESTORE_RATE)
        self._since = now
