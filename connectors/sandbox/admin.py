"""Shopify's Admin GraphQL API over a shop: real GraphQL execution, the vendor's paging, search, scopes and prices."""

import base64
import bisect
import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from graphql import (
    DocumentNode,
    ExecutionResult,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLSchema,
    GraphQLSyntaxError,
    OperationDefinitionNode,
    execute_sync,
    parse,
    validate,
)
from graphql.execution.values import get_variable_values

from connectors.sandbox import cost, schema, search
from connectors.sandbox.shop import DEFAULT_CURRENCY, Kind, Node, Nodes, Row, Shop, SortKey, milliseconds, split_gid

MAX_PAGE = 250
MAX_IDS = 250
WALL_DAYS = 60
DEFAULT_DOMAIN = "demo-shop.myshopify.com"
DEFAULT_SCOPES = ("read_customers", "read_orders", "read_all_orders")
DEFAULT_ZONE = "Europe/London"
_KEPT_DOCUMENTS = 256
_DAY_MS = 86_400_000

_SORTS: Mapping[str, SortKey] = {
    "ID": "id", "UPDATED_AT": "updated_at", "CREATED_AT": "created_at", "PROCESSED_AT": "processed_at",
}  # fmt: skip
_SCOPE_DOCS = "https://shopify.dev/api/usage/access-scopes"
_LIMIT_DOCS = "https://shopify.dev/api/usage/rate-limits"
_VALIDATION_CODES = (
    ("Cannot query field", "undefinedField"),
    ("Unknown argument", "argumentNotAccepted"),
    ("is required, but it was not provided", "missingRequiredArguments"),
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A parsed and validated document, kept because the same few come again and again."""

    document: DocumentNode
    operations: Mapping[str | None, OperationDefinitionNode]
    fragments: Mapping[str, FragmentDefinitionNode]
    errors: tuple[dict[str, Any], ...]


@dataclass(slots=True)
class AdminApi:
    """One shop behind one token's scopes. `clock` gives seconds since 1970."""

    shop: Shop
    domain: str = DEFAULT_DOMAIN
    scopes: Collection[str] = DEFAULT_SCOPES
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo(DEFAULT_ZONE))
    clock: Callable[[], float] = time.time
    bucket: cost.Bucket = field(default_factory=cost.Bucket)
    served: str | None = None
    _documents: dict[tuple[str, str], Prepared] = field(default_factory=dict)
    _last_orders: tuple[int, dict[int, int]] = (-1, {})

    def served_version(self, asked: str) -> str | None:
        """The version that answers a request for `asked`: an expired one falls forward, an unknown one is None."""
        if asked not in (*schema.SERVED_VERSIONS, "unstable") and not _is_expired(asked):
            return None
        if self.served:
            return self.served
        return schema.OLDEST_SERVED if _is_expired(asked) else asked

    def execute(self, version: str, query: str, variables: Mapping[str, Any], operation: str | None) -> Node:
        """The body of the answer, as the vendor shapes it."""
        built = _schema(version)
        prepared = self._prepared(version, built, query)
        if prepared.errors:
            return {"errors": list(prepared.errors)}
        chosen = _operation(prepared, operation)
        if chosen is None:
            return {"errors": [{"message": "An operation name is required", "extensions": {"code": "BAD_REQUEST"}}]}
        coerced = get_variable_values(built, chosen.variable_definitions or (), dict(variables))
        if isinstance(coerced, list):
            return {"errors": [_invalid_variable(error) for error in coerced]}
        price = cost.Price(built, prepared.fragments, coerced)
        return self._pay_and_run(built, prepared, chosen, variables, price)

    def _prepared(self, version: str, built: GraphQLSchema, query: str) -> Prepared:
        kept = self._documents.get((version, query))
        if kept is None:
            if len(self._documents) >= _KEPT_DOCUMENTS:
                self._documents.clear()
            kept = self._documents[version, query] = _prepare(built, query)
        return kept

    def _pay_and_run(
        self,
        built: GraphQLSchema,
        prepared: Prepared,
        operation: OperationDefinitionNode,
        variables: Mapping[str, Any],
        price: cost.Price,
    ) -> Node:
        requested = price.of(operation)
        if requested > cost.MAX_QUERY_COST:
            return {"errors": [_too_expensive(requested)]}
        if not self.bucket.take(requested):
            return {"errors": [_throttled()], "extensions": {"cost": self._cost(requested, None)}}
        call = Call(self)
        result = execute_sync(
            built,
            prepared.document,
            context_value=call,
            variable_values=dict(variables),
            operation_name=operation.name.value if operation.name else None,
            field_resolver=_pick,
        )
        actual = min(requested, price.of(operation, call.sizes.get))
        self.bucket.give_back(requested - actual)
        return self._body(result, call, requested, actual)

    def _body(self, result: ExecutionResult, call: "Call", requested: int, actual: int) -> Node:
        body: Node = {}
        if result.errors:
            body["errors"] = [error.formatted for error in result.errors]
        body["data"] = result.data
        body["extensions"] = {"cost": self._cost(requested, actual)}
        if call.searches:
            body["extensions"]["search"] = call.searches
        return body

    def _cost(self, requested: int, actual: int | None) -> Node:
        return {
            "requestedQueryCost": requested,
            "actualQueryCost": actual,
            "throttleStatus": self.bucket.status(actual or 0),
        }

    def has_scope(self, scope: str) -> bool:
        """Whether the token may; any write scope includes the read one."""
        return scope in self.scopes or scope.replace("read_", "write_", 1) in self.scopes

    def visible_orders(self) -> search.Test | None:
        """The sixty-day wall: without read_all_orders, older orders are just absent. None when all are visible."""
        if self.has_scope("read_all_orders"):
            return None
        oldest = int(self.clock() * 1000) - WALL_DAYS * _DAY_MS
        return lambda row: row.created_at >= oldest

    def last_orders(self) -> dict[int, int]:
        """Customer number -> number of the order processed last."""
        if self._last_orders[0] != self.shop.orders.changes:
            latest: dict[int, tuple[int, int]] = {}
            for row in self.shop.orders.rows():
                if row.customer is not None:
                    latest[row.customer] = max(latest.get(row.customer, (0, 0)), row.key("processed_at"))
            self._last_orders = self.shop.orders.changes, {owner: number for owner, (_, number) in latest.items()}
        return self._last_orders[1]

    def shop_node(self) -> Node:
        now = datetime.fromtimestamp(self.clock(), UTC)
        return {
            "id": f"gid://shopify/Shop/{_number_of(self.domain)}",
            "name": self.domain.partition(".")[0].replace("-", " ").title(),
            "myshopifyDomain": self.domain,
            "currencyCode": DEFAULT_CURRENCY,
            "ianaTimezone": self.zone.key,
            "timezoneOffsetMinutes": search.offset_minutes(self.zone, now.date()),
            "setupRequired": False,
            "plan": {"publicDisplayName": "Grow", "partnerDevelopment": False, "shopifyPlus": False},
        }

    def installation(self) -> Node:
        return {
            "id": f"gid://shopify/AppInstallation/{_number_of('installation ' + self.domain)}",
            "accessScopes": [{"handle": scope} for scope in self.scopes],
            "app": {"id": "gid://shopify/App/318821793793", "title": "Vigil", "apiKey": _number_text(self.domain)},
        }


@dataclass(slots=True)
class Call:
    """One execution: what its resolvers share and leave for the answer's extensions."""

    api: AdminApi
    searches: list[Node] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    def demand(self, scope: str, name: str) -> None:
        """Raises the vendor's ACCESS_DENIED when the token lacks `scope`."""
        if self.api.has_scope(scope):
            return
        wanted = f"`{scope}` access scope."
        raise GraphQLError(
            f"Access denied for {name} field. Required access: {wanted}",
            extensions={"code": "ACCESS_DENIED", "documentation": _SCOPE_DOCS, "requiredAccess": wanted},
        )

    def search(
        self, info: GraphQLResolveInfo, text: str | None, grammar: search.Grammar, nodes: Nodes
    ) -> search.Search:
        counting = info.field_name.endswith("Count")
        try:
            found = search.read(text, grammar, self.api.zone, nodes, counting)
        except search.EmptyValue:
            raise GraphQLError(
                "Internal error. Looks like something went wrong on our end.",
                extensions={"code": "INTERNAL_SERVER_ERROR"},
            ) from None
        if found.warnings:
            self.searches.append(
                {"path": [info.path.key], "query": text, "parsed": found.parsed, "warnings": list(found.warnings)}
            )
        return found

    def node(self, kind: Kind, number: int) -> Node | None:
        """The node, or None where there is none or the wall hides it."""
        row = self.api.shop.nodes(kind).row(number)
        wall = self.api.visible_orders() if kind == "Order" else None
        return None if row is None or (wall and not wall(row)) else self.api.shop.nodes(kind).node(number)


# -- documents and errors ----------------------------------------------------------------------------------------------


def _prepare(built: GraphQLSchema, query: str) -> Prepared:
    try:
        document = parse(query)
    except GraphQLSyntaxError as problem:
        error = {**problem.formatted, "extensions": {"code": "PARSE_ERROR"}}
        return Prepared(DocumentNode(definitions=()), {}, {}, (error,))
    operations = {
        (node.name.value if node.name else None): node
        for node in document.definitions
        if isinstance(node, OperationDefinitionNode)
    }
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    errors = tuple(_invalid(error) for error in validate(built, document))
    return Prepared(document, operations, fragments, errors)


def _operation(prepared: Prepared, name: str | None) -> OperationDefinitionNode | None:
    if name is None and len(prepared.operations) == 1:
        return next(iter(prepared.operations.values()))
    return prepared.operations.get(name)


def _invalid(error: GraphQLError) -> dict[str, Any]:
    code = next((code for text, code in _VALIDATION_CODES if text in error.message), "argumentLiteralsIncompatible")
    return {**error.formatted, "extensions": {"code": code}}


def _invalid_variable(error: GraphQLError) -> dict[str, Any]:
    return {**error.formatted, "extensions": {"code": "INVALID_VARIABLE"}}


def _bad_request(message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"code": "BAD_REQUEST"})


def _too_expensive(points: int) -> Node:
    return {
        "message": f"Query cost is {points}, which exceeds the single query max cost limit ({cost.MAX_QUERY_COST}).",
        "extensions": {
            "code": "MAX_COST_EXCEEDED",
            "cost": points,
            "maxCost": cost.MAX_QUERY_COST,
            "documentation": _LIMIT_DOCS,
        },
    }


def _throttled() -> Node:
    return {"message": "Throttled", "extensions": {"code": "THROTTLED", "documentation": _LIMIT_DOCS}}


def _is_expired(version: str) -> bool:
    return len(version) == 7 and version[4] == "-" and "2019-04" <= version < schema.OLDEST_SERVED


def _number_of(text: str) -> int:
    """A stable number for a name, so that another domain is another shop."""
    return 10**10 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _number_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# -- paging --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chain:
    """What a cursor belongs to: a connection, its filter, sort and direction."""

    name: str
    text: str
    sort: SortKey
    reverse: bool

    def mark(self) -> str:
        return hashlib.sha256(repr((self.name, self.text, self.sort, self.reverse)).encode()).hexdigest()[:12]

    def cursor(self, key: tuple[int, int]) -> str:
        """Two forms, as recorded: the search index counts milliseconds, the database writes its own time text."""
        value: int | str = key[0]
        if self.sort != "id" and not self.text:
            when = datetime.fromtimestamp(key[0] / 1000, UTC)
            value = when.strftime("%Y-%m-%d %H:%M:%S.%f")
        return _pack({"last_id": key[1], "last_value": value, "chain": self.mark()})

    def position(self, cursor: str) -> tuple[int, int]:
        """The key a cursor stands for; raises the vendor's BAD_REQUEST."""
        try:
            place = json.loads(base64.b64decode(cursor, validate=True))
            number, value, mark = int(place["last_id"]), place.get("last_value"), place.get("chain")
        except (ValueError, TypeError, KeyError):
            raise _bad_request("Malformed cursor") from None
        if mark != self.mark():
            raise _bad_request("Invalid cursor for current pagination sort.")
        return (milliseconds(value) if isinstance(value, str) else int(value), number)


def _pack(place: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps(place, separators=(",", ":")).encode()).decode()


def _keys(
    keys: list[tuple[int, int]], bounds: tuple[int, int] | None, after: tuple[int, int] | None, reverse: bool
) -> Iterator[tuple[int, int]]:
    """The keys of a chain from a position on, in its direction."""
    start = bisect.bisect_left(keys, (bounds[0], 0)) if bounds else 0
    end = bisect.bisect_left(keys, (bounds[1] + 1, 0)) if bounds else len(keys)
    if reverse:
        end = min(end, bisect.bisect_left(keys, after)) if after else end
        return (keys[place] for place in range(end - 1, start - 1, -1))
    start = max(start, bisect.bisect_right(keys, after)) if after else start
    return (keys[place] for place in range(start, end))


def _size(args: Mapping[str, Any]) -> int:
    if args.get("last") is not None or args.get("before") is not None:
        raise _bad_request("this sandbox pages forward only: use first and after")
    first = args.get("first")
    if first is None:
        raise _bad_request("you must provide one of first or last")
    if not 0 < first <= MAX_PAGE:
        raise _bad_request(f"first must be between 1 and {MAX_PAGE}")
    return int(first)


def _connection(
    info: GraphQLResolveInfo, nodes: Nodes, grammar: search.Grammar, wall: search.Test | None, args: Mapping[str, Any]
) -> Node:
    call: Call = info.context
    call.sizes[str(info.path.key)] = 0
    first = _size(args)
    sort = _SORTS.get(args["sortKey"])
    if sort is None:
        raise _bad_request(f"this sandbox does not sort by {args['sortKey']}")
    found = call.search(info, args.get("query"), grammar, nodes)
    chain = Chain(nodes.kind, found.text, sort, bool(args.get("reverse")))
    after = chain.position(args["after"]) if args.get("after") else None
    kept: list[tuple[int, int]] = []
    for key in _keys(nodes.in_order(sort), found.bounds.get(sort), after, chain.reverse):
        row = nodes.row(key[1])
        if row is not None and (wall is None or wall(row)) and found.matches(row):
            kept.append(key)
            if len(kept) > first:
                break
    page = kept[:first]
    call.sizes[str(info.path.key)] = len(page)
    return _page([(chain.cursor(key), nodes.node(key[1])) for key in page], len(kept) > first, after is not None)


def _page(items: list[tuple[str, Node | None]], has_next: bool, has_previous: bool) -> Node:
    return {
        "edges": [{"cursor": cursor, "node": node} for cursor, node in items],
        "nodes": [node for _, node in items],
        "pageInfo": {
            "hasNextPage": has_next,
            "hasPreviousPage": has_previous,
            "startCursor": items[0][0] if items else None,
            "endCursor": items[-1][0] if items else None,
        },
    }


def _count(nodes: Nodes, found: search.Search, wall: search.Test | None, limit: int | None) -> Node:
    if found is search.EVERYTHING and wall is None:
        total = len(nodes)
    else:
        total = sum(1 for row in _candidates(nodes, found) if (wall is None or wall(row)) and found.matches(row))
    if limit is not None and total > limit:
        return {"count": limit, "precision": "AT_LEAST"}
    return {"count": total, "precision": "EXACT"}


def _candidates(nodes: Nodes, found: search.Search) -> Iterator[Row]:
    for sort in ("updated_at", "created_at", "processed_at"):
        if sort in found.bounds:
            keys = _keys(nodes.in_order(_SORTS[sort.upper()]), found.bounds[sort], None, False)
            return (row for _, number in keys if (row := nodes.row(number)))
    return nodes.rows()


# -- resolvers ---------------------------------------------------------------------------------------------------------


def _pick(source: Any, info: GraphQLResolveInfo, **args: Any) -> Any:
    return source.get(info.field_name)


def _customers(_: Any, info: GraphQLResolveInfo, **args: Any) -> Node:
    info.context.demand("read_customers", "customers")
    return _connection(info, info.context.api.shop.customers, search.CUSTOMERS, None, args)


def _orders(_: Any, info: GraphQLResolveInfo, **args: Any) -> Node:
    info.context.demand("read_orders", "orders")
    api: AdminApi = info.context.api
    return _connection(info, api.shop.orders, search.ORDERS, api.visible_orders(), args)


def _customers_count(_: Any, info: GraphQLResolveInfo, limit: int | None = None, query: str | None = None) -> Node:
    info.context.demand("read_customers", "customersCount")
    nodes = info.context.api.shop.customers
    return _count(nodes, info.context.search(info, query, search.CUSTOMERS_COUNT, nodes), None, limit)


def _orders_count(
    _: Any, info: GraphQLResolveInfo, limit: int | None = None, query: str | None = None, **args: Any
) -> Node:
    info.context.demand("read_orders", "ordersCount")
    api: AdminApi = info.context.api
    found = info.context.search(info, query, search.ORDERS, api.shop.orders)
    return _count(api.shop.orders, found, api.visible_orders(), limit)


_READ_SCOPES: Mapping[Kind, tuple[str, str]] = {
    "Customer": ("read_customers", "customer"),
    "Order": ("read_orders", "order"),
}


def _by_gid(call: Call, gid: str, wanted: Kind | None = None) -> Node | None:
    identity = split_gid(gid)
    if identity is None or (wanted is not None and identity[0] != wanted):
        return None
    call.demand(*_READ_SCOPES[identity[0]])
    return call.node(*identity)


def _customer(_: Any, info: GraphQLResolveInfo, id: str) -> Node | None:
    return _by_gid(info.context, id, "Customer")


def _order(_: Any, info: GraphQLResolveInfo, id: str) -> Node | None:
    return _by_gid(info.context, id, "Order")


def _nodes(_: Any, info: GraphQLResolveInfo, ids: list[str]) -> list[Node | GraphQLError | None]:
    if len(ids) > MAX_IDS:
        raise _bad_request(f"The input array size of {len(ids)} is greater than the maximum allowed of {MAX_IDS}.")
    return [_by_gid_or_error(info.context, gid) for gid in ids]


def _by_gid_or_error(call: Call, gid: str) -> Node | GraphQLError | None:
    try:
        return _by_gid(call, gid)
    except GraphQLError as denied:
        return denied


def _order_customer(order: Node, info: GraphQLResolveInfo) -> Node | None:
    owner = order.get("customer")
    if owner is None:
        return None
    return _by_gid(info.context, owner.get("id", ""), "Customer")


def _last_order(customer: Node, info: GraphQLResolveInfo) -> Node | None:
    info.context.demand("read_orders", "lastOrder")
    identity = split_gid(customer["id"])
    number = info.context.api.last_orders().get(identity[1]) if identity else None
    return None if number is None else info.context.node("Order", number)


def _line_items(order: Node, info: GraphQLResolveInfo, **args: Any) -> Node:
    first = _size(args)
    lines = order["lineItems"]
    rows: list[Node] = lines["nodes"]
    start = _line_position(args["after"], len(rows)) if args.get("after") else 0
    items: list[tuple[str, Node | None]] = [
        (_pack({"last_id": _line_number(row["id"]), "last_value": place}), row)
        for place, row in enumerate(rows[start : start + first], start + 1)
    ]
    # A stored order may hold only its first lines and say so; past them there is nothing more to serve.
    says_more = bool(lines.get("pageInfo", {}).get("hasNextPage"))
    return _page(items, start + first < len(rows) or (says_more and bool(items)), start > 0)


def _line_position(cursor: str, lines: int) -> int:
    try:
        return min(int(json.loads(base64.b64decode(cursor, validate=True))["last_value"]), lines)
    except (ValueError, TypeError, KeyError):
        raise _bad_request("Malformed cursor") from None


def _line_number(gid: str) -> int:
    return int(gid.rsplit("/", 1)[-1])


def _refunds(order: Node, info: GraphQLResolveInfo, first: int | None = None) -> list[Node]:
    return list(order["refunds"][:first])


def _location(source: Node, info: GraphQLResolveInfo) -> Node | None:
    info.context.demand("read_locations", "sourceLocation")
    return source.get("sourceLocation")


def _product(line: Node, info: GraphQLResolveInfo) -> Node | None:
    info.context.demand("read_products", "product")
    return line.get("product")


def _versions(_: Any, info: GraphQLResolveInfo) -> list[Node]:
    known = ["2025-10", *schema.SERVED_VERSIONS, "2027-01", "unstable"]
    names = {schema.NEWEST_SERVED: " (Latest)", "2027-01": " (Release candidate)"}
    return [
        {"handle": handle, "displayName": handle + names.get(handle, ""), "supported": handle in schema.SERVED_VERSIONS}
        for handle in known
    ]


_RESOLVERS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("QueryRoot", "customers"): _customers,
    ("QueryRoot", "orders"): _orders,
    ("QueryRoot", "customersCount"): _customers_count,
    ("QueryRoot", "ordersCount"): _orders_count,
    ("QueryRoot", "customer"): _customer,
    ("QueryRoot", "order"): _order,
    ("QueryRoot", "nodes"): _nodes,
    ("QueryRoot", "shop"): lambda _, info: info.context.api.shop_node(),
    ("QueryRoot", "currentAppInstallation"): lambda _, info: info.context.api.installation(),
    ("QueryRoot", "publicApiVersions"): _versions,
    ("Customer", "lastOrder"): _last_order,
    ("CustomerEmailAddress", "sourceLocation"): _location,
    ("CustomerPhoneNumber", "sourceLocation"): _location,
    ("CustomerSmsMarketingConsent", "sourceLocation"): _location,
    ("CustomerWhatsAppMarketingConsent", "sourceLocation"): _location,
    ("Order", "customer"): _order_customer,
    ("Order", "lineItems"): _line_items,
    ("Order", "refunds"): _refunds,
    ("LineItem", "product"): _product,
}
_bound: dict[str, GraphQLSchema] = {}


def _schema(version: str) -> GraphQLSchema:
    if version not in _bound:
        built = schema.build(version)
        for (type_name, name), resolver in _RESOLVERS.items():
            cast(GraphQLObjectType, built.type_map[type_name]).fields[name].resolve = resolver
        _bound[version] = built
    return _bound[version]
