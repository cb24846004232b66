"""A local Shopify: `SANDBOX_TOKEN=TOKEN python -m connectors.sandbox.shopify`.

It serves the Admin GraphQL API of one shop on 127.0.0.1, on the main paths, with the vendor's own traps: silent
mis-readings of a filter, cursors that belong to their query, scopes that turn an answer into nothing, a wall sixty days
back. When it is ready it prints {"port": N}.
"""

import hmac
import itertools
import os
import sys
import zoneinfo
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from connectors.sandbox import cost, faults, invented, running, schema, shop
from connectors.sandbox.admin import DEFAULT_DOMAIN, DEFAULT_SCOPES, DEFAULT_ZONE, AdminApi
from connectors.sandbox.faults import ControlRefused, Faults, json_answer

GRAPHQL_PATH = "/admin/api/{version}/graphql.json"
TOKEN_HEADER = "X-Shopify-Access-Token"  # noqa: S105 (a header's name)
VERSION_HEADER = "X-Shopify-API-Version"
_BAD_TOKEN = "[API] Invalid API key or access token (unrecognized login or wrong password)"  # noqa: S105
_request_ids = itertools.count(1)


@dataclass(slots=True)
class Server:
    """The state behind the routes: the shop as started and as changed since, the token, what was asked."""

    load: Callable[[], shop.Shop]
    token: str
    scopes: tuple[str, ...]
    api: AdminApi
    faults: Faults = field(default_factory=Faults)
    token_valid: bool = True
    requests: int = 0

    def reset(self) -> None:
        """Back to how it was started."""
        self.api.shop = self.load()
        self.api.scopes, self.api.served = self.scopes, None
        self.token_valid, self.requests = True, 0
        self.api.bucket = cost.Bucket(self.api.bucket.enforced)
        self.faults.queued.clear()

    # -- vendor ----------------------------------------------------------------------------------------------------

    async def graphql(self, request: web.Request) -> web.Response:
        version = self.api.served_version(request.match_info["version"])
        if version is None:
            return json_answer({"errors": "Not Found"}, 404)
        headers = {VERSION_HEADER: version, "X-Request-Id": f"sandbox-{next(_request_ids)}"}
        if not self._knows(request.headers.get(TOKEN_HEADER, "")):
            return json_answer({"errors": _BAD_TOKEN}, 401)
        try:
            query, variables, operation = _asked(await request.json())
        except ValueError as problem:
            return json_answer({"errors": {"query": str(problem)}}, 400, headers)
        return json_answer(self.api.execute(version, query, variables, operation), 200, headers)

    def _knows(self, token: str) -> bool:
        return self.token_valid and hmac.compare_digest(token.encode(), self.token.encode())

    @web.middleware
    async def counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.requests += not request.path.startswith(faults.CONTROL)
        try:
            return await handler(request)
        except web.HTTPException as refused:
            return json_answer({"errors": "Not Found"}, refused.status)

    # -- control ---------------------------------------------------------------------------------------------------

    async def summary(self, request: web.Request) -> web.Response:
        known = self.api.shop
        return json_answer({"customers": len(known.customers), "orders": len(known.orders), "requests": self.requests})

    async def upsert(self, request: web.Request) -> web.Response:
        payload = await faults.payload_of(request)
        kind = str(payload.get("kind", "")).capitalize()
        if kind not in ("Customer", "Order"):
            raise ControlRefused('Set kind to "customer" or "order".')
        try:
            self.api.shop.put("Customer" if kind == "Customer" else "Order", payload.get("node") or {})
        except shop.NodeUnusable as problem:
            raise ControlRefused(f"The node {problem}: correct it.") from None
        return json_answer({"ok": True})

    async def remove(self, request: web.Request) -> web.Response:
        identity = shop.split_gid((await faults.payload_of(request)).get("id"))
        if identity is None:
            raise ControlRefused("Set id to gid://shopify/Customer/<number> or gid://shopify/Order/<number>.")
        return json_answer({"removed": self.api.shop.nodes(identity[0]).remove(identity[1])})

    async def set_scopes(self, request: web.Request) -> web.Response:
        wanted = (await faults.payload_of(request)).get("scopes")
        if not isinstance(wanted, list) or not all(isinstance(scope, str) for scope in wanted):
            raise ControlRefused('Set scopes to a list of names, for example ["read_customers"].')
        self.api.scopes = tuple(wanted)
        return json_answer({"scopes": wanted})

    async def set_token(self, request: web.Request) -> web.Response:
        valid = (await faults.payload_of(request)).get("valid")
        if not isinstance(valid, bool):
            raise ControlRefused("Set valid to true or false.")
        self.token_valid = valid
        return json_answer({"valid": valid})

    async def set_version(self, request: web.Request) -> web.Response:
        served = (await faults.payload_of(request)).get("served")
        if served is not None and served not in schema.SERVED_VERSIONS:
            raise ControlRefused(f"Set served to one of {', '.join(schema.SERVED_VERSIONS)}, or null for none.")
        self.api.served = served
        return json_answer({"served": served})

    async def start_over(self, request: web.Request) -> web.Response:
        self.reset()
        return json_answer({"ok": True})


def app(
    token: str,
    shop_folder: Path | None = None,
    *,
    domain: str = DEFAULT_DOMAIN,
    scopes: Collection[str] = DEFAULT_SCOPES,
    timezone: str = DEFAULT_ZONE,
    control_key: str | None = None,
    throttle: bool = False,
    clock: Callable[[], float] | None = None,
) -> web.Application:
    """The server as an aiohttp application; raises shop.ShopUnreadable, and running.Unusable for an unknown zone.

    `clock` gives seconds since 1970 and decides where the sixty-day wall stands.
    """

    def load() -> shop.Shop:
        return invented.generated_shop() if shop_folder is None else shop.load(shop_folder)

    api = AdminApi(load(), domain, tuple(scopes), _zone(timezone), bucket=cost.Bucket(throttle))
    if clock is not None:
        api.clock = clock
    server = Server(load, token, tuple(scopes), api)
    return _application(server, control_key)


def _application(server: Server, control_key: str | None) -> web.Application:
    application = web.Application(
        middlewares=[server.counted, faults.middleware(server.faults, control_key)], client_max_size=running.MAX_BODY
    )
    router = application.router
    router.add_post(GRAPHQL_PATH, server.graphql)
    faults.add_routes(router, server.faults)
    router.add_get(f"{faults.CONTROL}summary", server.summary)
    router.add_post(f"{faults.CONTROL}reset", server.start_over)
    router.add_post(f"{faults.CONTROL}upsert", server.upsert)
    router.add_delete(f"{faults.CONTROL}node", server.remove)
    router.add_post(f"{faults.CONTROL}scopes", server.set_scopes)
    router.add_post(f"{faults.CONTROL}token", server.set_token)
    router.add_post(f"{faults.CONTROL}version", server.set_version)
    return application


def _asked(body: object) -> tuple[str, dict[str, Any], str | None]:
    if not isinstance(body, dict) or not isinstance(body.get("query"), str):
        raise ValueError("Required parameter missing or invalid")
    variables = body.get("variables") or {}
    if not isinstance(variables, dict):
        raise ValueError("Variables must be an object")
    return body["query"], variables, body.get("operationName")


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise running.Unusable(f"{name} is no time zone: name one like Europe/London.") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    options = running.parser("shopify", "A local Shopify Admin API for tests and the demo.")
    options.add_argument("--shop", type=Path, help="folder with customers.jsonl and orders.jsonl; invented without")
    options.add_argument("--domain", default=DEFAULT_DOMAIN)
    options.add_argument("--scopes", default=",".join(DEFAULT_SCOPES), help="comma-separated")
    options.add_argument("--timezone", default=DEFAULT_ZONE, help="the shop's IANA zone")
    options.add_argument("--throttle", action="store_true", help="enforce the bucket of 2000 points")
    chosen = options.parse_args(arguments)

    def build() -> web.Application:
        try:
            return app(
                running.key("shopify"),
                chosen.shop,
                domain=chosen.domain,
                scopes=[scope for scope in chosen.scopes.split(",") if scope],
                timezone=chosen.timezone,
                control_key=running.control_key(),
                throttle=chosen.throttle,
            )
        except shop.ShopUnreadable as problem:
            raise running.Unusable(str(problem)) from None

    return running.main(build, chosen.port, chosen.die_with_parent)


if __name__ == "__main__":
    os.umask(running.PRIVATE)
    sys.exit(main())
