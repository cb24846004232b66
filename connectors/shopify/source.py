"""Shopify as a source of customers and orders. It has no code that could write (PRODUCT 3.10).

Shopify answers 200 to nearly everything: a missing scope, a throttled call, a filter it did not understand. Every
answer goes through `_believed` before anything of it is used (PRODUCT 5.1, 5.2).
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from connectors import errors, http, protocol
from connectors.shopify import queries, records

KIND: Final = "shopify"
ALLOWED_HOSTS = ("*.myshopify.com",)
READ_DEADLINE = timedelta(seconds=30)
SETTLE = timedelta(minutes=2)
OVERLAP = timedelta(minutes=10)
SHORTEST_THROTTLE = timedelta(seconds=1)
LINE_PAGES = 40

TRAITS = protocol.SourceTraits(
    page_size=queries.PAGE_SIZES[protocol.Stream.CUSTOMERS],
    settle=SETTLE,
    overlap=OVERLAP,
    needs=MappingProxyType(
        {
            protocol.Stream.CUSTOMERS: frozenset({"read_customers"}),
            protocol.Stream.ORDERS: frozenset({"read_orders", "read_customers"}),
        }
    ),
    starts_with_history=frozenset({protocol.Stream.CUSTOMERS}),
)


def client(
    domain: str, token: str, *, base_url: str | None = None, transport: http.Transport | None = None
) -> http.Client:
    """The client for one shop; ``base_url`` stands in for https://{domain} on loopback (the sandbox)."""
    return http.Client(
        base_url or f"https://{domain}",
        {"X-Shopify-Access-Token": token, "Shopify-Search-Query-Debug": "1"},
        allowed_hosts=ALLOWED_HOSTS,
        allow_http_hosts=tuple(http.LOOPBACK) if base_url else (),
        transport=transport,
    )


class ShopifySource:
    """One shop, read through one client. See `protocol.Source` for what each method promises."""

    def __init__(self, client: http.Client, *, version: str = queries.VERSION) -> None:
        self.kind: str = KIND
        self.traits = TRAITS
        self._client = client
        self._version = version
        self._path = f"/admin/api/{version}/graphql.json"

    async def identify(self) -> protocol.Identity:
        found, answer = await self._ask("who", queries.WHO, {})
        records.require(found, queries.PREFLIGHT, "the answer")
        shop = _object(found["shop"], "shop")
        scopes = _object(found["currentAppInstallation"], "currentAppInstallation")["accessScopes"]
        return protocol.Identity(
            account=records.decimal_id(shop["id"], "Shop"),
            label=str(shop["myshopifyDomain"]),
            scopes=tuple(sorted({str(scope["handle"]) for scope in scopes or ()})),
            server_time=answer.server_time(),
            version_asked=self._version,
            version_served=answer.headers.get("x-shopify-api-version"),
        )

    async def count(self, stream: protocol.Stream, window: protocol.Window) -> protocol.Count:
        found, _ = await self._ask(
            f"{stream} count", queries.COUNTS[stream], queries.count_variables(window), probed=True
        )
        counted = _object(found.get("window"), "count")
        records.require(counted, queries.COUNT, "count")
        number = counted["count"]
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise _unreadable("its count is no number")
        return protocol.Count(records=number, exact=counted["precision"] == "EXACT")

    async def read_page(self, stream: protocol.Stream, window: protocol.Window, after: str | None) -> protocol.Page:
        variables = queries.page_variables(stream, window, after)
        found, answer = await self._ask(f"{stream} page", queries.PAGES[stream], variables)
        connection = _object(found.get(queries.ROOTS[stream]), queries.ROOTS[stream])
        nodes = _nodes(connection)
        following = _following(connection, nodes, after)
        if stream is protocol.Stream.ORDERS:
            nodes = [await self._with_all_lines(node) for node in nodes]
        read = tuple(records.record(stream, node, position) for position, node in enumerate(nodes))
        _check_window(read, window)
        _check_shown(stream, nodes)
        return protocol.Page(read, following, answer.headers.get("x-shopify-api-version", ""))

    async def reread(self, stream: protocol.Stream, ids: Sequence[str]) -> Sequence[protocol.Record | None]:
        """By the primary store, which no search index delays. A customer who was merged away is None."""
        if len(ids) > queries.REREAD_MOST:
            raise ValueError(f"at most {queries.REREAD_MOST} records are read again at once")
        gids = [queries.gid(stream, id) for id in ids]
        size = queries.PAGE_SIZES[stream]
        nodes = [node for start in range(0, len(gids), size) for node in await self._held(stream, gids[start:][:size])]
        again = [
            None if node is None else records.record(stream, node, position) for position, node in enumerate(nodes)
        ]
        _check_shown(stream, [node for node in nodes if node is not None])
        return again

    def query_digest(self, stream: protocol.Stream, window: protocol.Window) -> str:
        return queries.digest(stream, window, self._version)

    async def close(self) -> None:
        await self._client.close()

    async def _ask(
        self, label: str, query: str, variables: Mapping[str, Any], *, probed: bool = False
    ) -> tuple[Mapping[str, Any], http.Answer]:
        answer = await self._client.request(
            "POST",
            self._path,
            json={"query": query, "variables": dict(variables)},
            by=time.monotonic() + READ_DEADLINE.total_seconds(),
            writes=False,
            label=label,
        )
        return _believed(answer.json, probed=probed), answer

    async def _held(self, stream: protocol.Stream, gids: Sequence[str]) -> list[Any]:
        """The node of each id, in order; None where the shop holds none."""
        found, _ = await self._ask(f"{stream} again", queries.REREADS[stream], {"ids": list(gids)})
        nodes = found.get("nodes")
        if not isinstance(nodes, list) or len(nodes) != len(gids):
            raise _unreadable("it does not hold one place for each record asked for")
        for node, gid in zip(nodes, gids, strict=True):
            if node is not None and _object(node, "a record").get("id") != gid:
                raise _unreadable("it answered with another record than the one asked for")
        if stream is protocol.Stream.CUSTOMERS:
            return nodes
        return [None if node is None else await self._with_all_lines(node) for node in nodes]

    async def _with_all_lines(self, node: Any) -> Any:
        """The order with the lines beyond the first `LINES_PER_ORDER`, which need questions of their own."""
        records.require(node, queries.ORDER, "Order")
        lines = list(records.line_nodes(node["lineItems"]))
        after = _next_cursor(_object(node["lineItems"]["pageInfo"], "pageInfo"), None, bool(lines))
        if after is None:
            return node
        for _ in range(LINE_PAGES):
            connection = await self._line_page(node["id"], after)
            lines += records.line_nodes(connection)
            after = _next_cursor(_object(connection["pageInfo"], "pageInfo"), after, True)
            if after is None:
                return {**node, "lineItems": {"nodes": lines, "pageInfo": connection["pageInfo"]}}
        raise _unreadable("an order has lines without end")

    async def _line_page(self, order_id: str, after: str | None) -> Mapping[str, Any]:
        variables = {"ids": [order_id], "first": queries.LINES_PER_PAGE, "after": after}
        found, _ = await self._ask("order lines", queries.MORE_LINES, variables)
        nodes = found.get("nodes")
        if not isinstance(nodes, list) or len(nodes) != 1 or not isinstance(nodes[0], Mapping):
            raise _unreadable("an order that was just read is gone")
        if nodes[0].get("id") != order_id:
            raise _unreadable("it answered with another order than the one asked for")
        connection = nodes[0].get("lineItems")
        records.require(connection, queries.LINES, "lineItems")
        return _object(connection, "lineItems")


# --- Whether an answer can be believed --------------------------------------------------------------------------


def _believed(body: Any, *, probed: bool) -> Mapping[str, Any]:
    """The ``data`` of an answer that is whole: no errors, no filter misread. Raises as `_raise_for` says."""
    if not isinstance(body, Mapping):
        raise _unreadable("it is no JSON object")
    if "errors" in body:
        _raise_for(body)
    if not isinstance(body.get("data"), Mapping):
        raise _unreadable("it holds no data")
    warned = _warned_roots(body)
    if probed and "probe" not in warned:
        raise errors.Unreadable(
            "Shopify did not warn about a filter that is wrong on purpose, so a misread filter would go unseen. "
            "Nothing was used.",
            code="detector_blind",
        )
    if warned - ({"probe"} if probed else set()):
        raise errors.Unreadable(
            "Shopify warns that it did not understand the filter; what it answered is something else. "
            "Nothing of it was used.",
            code="search_warning",
        )
    believed: Mapping[str, Any] = body["data"]
    return believed


def _warned_roots(body: Mapping[str, Any]) -> set[str]:
    """The root fields whose filter Shopify warns about; "" stands for a warning that names none."""
    extensions = body.get("extensions")
    searches = extensions.get("search") if isinstance(extensions, Mapping) else None
    if searches is None:
        return set()
    if not isinstance(searches, list):
        return {""}
    return {_root(search) for search in searches if not isinstance(search, Mapping) or search.get("warnings")}


def _root(search: Any) -> str:
    path = search.get("path") if isinstance(search, Mapping) else None
    return str(path[0]) if isinstance(path, list) and path else ""


Error = Mapping[str, Any]


def _raise_for(body: Mapping[str, Any]) -> None:
    """Raise what the errors of an answer mean. What stays outranks what passes: a missing scope among time-outs
    is a missing scope."""
    found = body["errors"]
    listed: list[Error] = [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
    if not listed or len(listed) != len(found):
        raise _unreadable("it reports errors in a form that means nothing")
    for code, meaning in _MEANINGS.items():
        for item in listed:
            if _code(item) == code:
                raise meaning(item, body)
    raise _unreadable(f"it reports an error of the kind {http.clean(_code(listed[0])) or '(none)'}")


def _code(error: Error) -> str:
    extensions = error.get("extensions")
    return str(extensions.get("code", "")) if isinstance(extensions, Mapping) else ""


def _scope_missing(error: Error, body: Mapping[str, Any]) -> errors.ConnectorError:
    wanted = str(error["extensions"].get("requiredAccess", "")) or str(error.get("message", ""))
    scopes = sorted(set(re.findall(r"\b(?:read|write)_[a-z_]+\b", wanted)))
    if scopes and "not approved" not in str(error.get("message", "")):
        return errors.ScopeMissing(
            f"The token lacks the scope {' and '.join(scopes)}: grant it to the app in Shopify, then connect again."
        )
    return errors.ScopeMissing(
        "The scopes are granted, and Shopify still denies customer data: the app is not approved for protected "
        "customer data, or the shop's plan does not include it. Ask for approval in Shopify.",
        code="protected_data_denied",
    )


def _too_expensive(error: Error, body: Mapping[str, Any]) -> errors.ConnectorError:
    return errors.Refused("Shopify finds the query too expensive; asking again does not help.", code="query_too_costly")


def _query_refused(error: Error, body: Mapping[str, Any]) -> errors.ConnectorError:
    return errors.Refused(
        "Shopify does not understand the query in this API version; this release of Vigil cannot read it.",
        code="query_refused",
    )


def _bad_request(error: Error, body: Mapping[str, Any]) -> errors.ConnectorError:
    if "cursor" in str(error.get("message", "")).lower():
        return errors.CursorStale("Shopify does not accept the page cursor any more; the window is read again.")
    return _query_refused(error, body)


def _throttled(error: Error, body: Mapping[str, Any]) -> errors.ConnectorError:
    return errors.Throttled("Shopify throttles this shop's calls; the page is asked for again.", wait=_wait(body))


def _internal(error: Error, body: Mapping[str, Any]) -> errors.ConnectorError:
    return errors.Passing("Shopify reports an internal error; the page is asked for again.")


_MEANINGS: Mapping[str, Callable[[Error, Mapping[str, Any]], errors.ConnectorError]] = MappingProxyType(
    {
        "ACCESS_DENIED": _scope_missing,
        "PARSE_ERROR": _query_refused,
        "undefinedField": _query_refused,
        "INVALID_VARIABLE": _query_refused,
        "argumentLiteralsIncompatible": _query_refused,
        "MAX_COST_EXCEEDED": _too_expensive,
        "BAD_REQUEST": _bad_request,
        "THROTTLED": _throttled,
        "INTERNAL_SERVER_ERROR": _internal,
    }
)


def _wait(body: Mapping[str, Any]) -> timedelta | None:
    """(requested - available) / restore rate, at least a second; None when the answer does not hold the figures."""
    try:
        cost = body["extensions"]["cost"]
        status = cost["throttleStatus"]
        seconds = (cost["requestedQueryCost"] - status["currentlyAvailable"]) / status["restoreRate"]
        return max(timedelta(seconds=float(seconds)), SHORTEST_THROTTLE)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None


# --- Whether a page agrees with itself --------------------------------------------------------------------------


def _nodes(connection: Mapping[str, Any]) -> list[Any]:
    edges = connection.get("edges")
    if not isinstance(edges, list) or not all(isinstance(edge, Mapping) and "node" in edge for edge in edges):
        raise _unreadable("its page holds no edges")
    return [edge["node"] for edge in edges]


def _following(connection: Mapping[str, Any], nodes: list[Any], after: str | None) -> str | None:
    paging = _object(connection.get("pageInfo"), "pageInfo")
    records.require(paging, queries.PAGE_INFO, "pageInfo")
    return _next_cursor(paging, after, bool(nodes))


def _next_cursor(paging: Mapping[str, Any], after: str | None, filled: bool) -> str | None:
    """The cursor of the next page, None at the end; Unreadable for a page that contradicts itself (PRODUCT 1.7)."""
    more, end = paging.get("hasNextPage"), paging.get("endCursor")
    if not isinstance(more, bool) or not (end is None or isinstance(end, str)):
        raise _unreadable("its page says neither whether more follows nor where")
    if more and end is None:
        raise errors.Unreadable("Shopify promises more pages and names no cursor.", code="page_contradiction")
    if end is not None and end == after and (more or filled):
        raise errors.Unreadable(
            "Shopify's pages do not advance: the same cursor came twice.", code="page_contradiction"
        )
    return end if more else None


def _check_window(read: Iterable[protocol.Record], window: protocol.Window) -> None:
    """A row from before the window says that the filter was not applied. One from after it does not: the index that
    filters lags the rows it points to."""
    if window.since is None:
        return
    since = queries.floor(window.since)
    if any(record.updated_at is not None and record.updated_at < since for record in read):
        raise errors.Unreadable(
            "Shopify answered with records from before the window asked for: the filter was not applied. "
            "Nothing of it was used.",
            code="outside_window",
        )


def _check_shown(stream: protocol.Stream, nodes: Iterable[Mapping[str, Any]]) -> None:
    if records.look_redacted(stream, nodes):
        raise errors.Unreadable(
            "Shopify blanked every e-mail, phone, name and address of a page: its approval for protected "
            "customer data, or the shop's plan, no longer covers this app. Nothing of it was used.",
            code="redacted",
        )


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _unreadable(f"{name} is missing")
    return value


def _unreadable(what: str) -> errors.Unreadable:
    return errors.Unreadable(f"Shopify's answer cannot be believed: {what}. Nothing of it was used.")
