"""A local Brevo: `SANDBOX_API_KEY=KEY python -m connectors.sandbox.brevo --state FILE.sqlite`.

It serves contacts, lists, attributes, events and orders of one account under /v3 on 127.0.0.1 and keeps them in the
state file: a second start goes on where a first was killed. Without --state nothing is kept. When it is ready it prints
{"port": N}.
"""

import asyncio
import hmac
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from connectors.sandbox import brevo_commerce as commerce
from connectors.sandbox import brevo_contacts as contacts
from connectors.sandbox import brevo_wire as wire
from connectors.sandbox import faults, running
from connectors.sandbox.brevo_state import Json, State, StateUnusable
from connectors.sandbox.brevo_wire import Answer, Asked, Refused
from connectors.sandbox.faults import ControlRefused, Faults, json_answer

BASE = "/v3"
BATCH_SECONDS = 0.05
_CAMPAIGN = 3
_request_ids = itertools.count(1)

Endpoint = Callable[[State, Asked], Answer]

_ACCOUNT: Json = {
    "organization_id": "sandbox", "user_id": 1, "enterprise": False, "companyName": "Example Goods",
    "email": "owner@example.com", "firstName": "Ida", "lastName": "Ashdown",
    "address": {"street": "1 Example Row", "city": "Leeds", "zipCode": "LS1 4AP", "country": "United Kingdom"},
    "dateTimePreferences": {"timezone": "Europe/London", "timeFormat": "24h", "dateFormat": "dd-mm-yyyy"},
    "plan": [{"type": "free", "credits": 300, "creditsType": "sendLimit"}],
    "planVerticals": [],
    "relay": {"enabled": False, "data": {"userName": "owner@example.com", "relay": "smtp.example.com", "port": 587}},
    "marketingAutomation": {"enabled": False},
}  # fmt: skip


def _account(state: State, asked: Asked) -> Answer:
    return Answer(200, _ACCOUNT)


# The fixed paths stand before the one with an identifier in it.
ENDPOINTS: tuple[tuple[str, str, Endpoint], ...] = (
    ("GET", "/account", _account),
    ("GET", "/contacts", contacts.index),
    ("POST", "/contacts", contacts.create),
    ("POST", "/contacts/import", contacts.refuse_import),
    ("GET", "/contacts/lists", contacts.lists),
    ("POST", "/contacts/lists", contacts.add_list),
    ("GET", "/contacts/lists/{list}", contacts.show_list),
    ("POST", "/contacts/lists/{list}/contacts/add", contacts.add_members),
    ("POST", "/contacts/lists/{list}/contacts/remove", contacts.remove_members),
    ("GET", "/contacts/attributes", contacts.attributes),
    ("POST", "/contacts/attributes/{category}/{name}", contacts.add_attribute),
    ("GET", "/contacts/{identifier}", contacts.show),
    ("PUT", "/contacts/{identifier}", contacts.update),
    ("DELETE", "/contacts/{identifier}", contacts.remove),
    ("GET", "/events", commerce.events),
    ("POST", "/events", commerce.add_event),
    ("POST", "/events/batch", commerce.add_events),
    ("GET", "/orders", commerce.orders),
    ("POST", "/orders/status", commerce.keep_order),
    ("POST", "/orders/status/batch", commerce.accept_orders),
)


@dataclass(slots=True)
class Server:
    """The account behind the routes."""

    state: State
    api_key: str
    batch_seconds: float = BATCH_SECONDS
    faults: Faults = field(default_factory=Faults)
    requests: int = 0

    # -- vendor --------------------------------------------------------------------------------------------------------

    def serve(self, method: str, path: str, endpoint: Endpoint) -> Handler:
        """An endpoint as an aiohttp handler."""
        place = f"{method} {path}"

        async def handle(request: web.Request) -> web.Response:
            asked = Asked(place, request.match_info, request.query, await request.read())
            answer = self._answer(endpoint, asked)
            if endpoint is commerce.accept_orders and answer.status == 202:
                self._apply_later(answer.body["batchId"])
            return _response(answer)

        return handle

    def _answer(self, endpoint: Endpoint, asked: Asked) -> Answer:
        try:
            return endpoint(self.state, asked)
        except Refused as refused:
            return Answer(refused.status, refused.body)
        except (UnicodeEncodeError, OverflowError):
            # A lone surrogate or a number over 64 bits: nothing a database can hold.
            return Answer(400, wire.invalid("A value in the request is invalid").body)

    @web.middleware
    async def guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Counts, asks for the key, and words the errors of the router in the vendor's way."""
        if request.path.startswith(faults.CONTROL):
            return await handler(request)
        self.requests += 1
        given = request.headers.get("api-key")
        if given is None:
            return _response(Answer(401, _refusal("unauthorized", "authentication not found in headers")))
        if not hmac.compare_digest(given.encode(), self.api_key.encode()):
            return _response(Answer(401, _refusal("unauthorized", "Key not found")))
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed:
            return _response(Answer(405, _refusal("method_not_allowed", "Method not allowed")))
        except web.HTTPException as refused:
            return _response(Answer(refused.status, _refusal("document_not_found", "Not found")))

    def _apply_later(self, batch: int) -> None:
        asyncio.get_running_loop().call_later(self.batch_seconds, commerce.apply_batch, self.state, batch)

    async def lifetime(self, application: web.Application) -> AsyncIterator[None]:
        """Takes up the batches a former start left, and closes the state at the end."""
        for batch in commerce.waiting_batches(self.state):
            self._apply_later(batch)
        yield
        self.state.close()

    # -- control -------------------------------------------------------------------------------------------------------

    async def summary(self, request: web.Request) -> web.Response:
        return json_answer({**self.state.summary(), "requests": self.requests})

    async def dump(self, request: web.Request) -> web.Response:
        return json_answer(commerce.dump(self.state))

    async def reset(self, request: web.Request) -> web.Response:
        self.state.reset()
        self.faults.queued.clear()
        self.requests = 0
        return json_answer({"ok": True})

    async def unsubscribe(self, request: web.Request) -> web.Response:
        """A person unsubscribes: from all campaigns, or from one list."""
        payload = await faults.payload_of(request)
        number = payload.get("list_id")
        with self.state.change():
            contact = self.state.contact("email", str(payload.get("email", "")).lower())
            if contact is None:
                raise ControlRefused("Nobody has this address: create the contact first.")
            if number is None:
                contact.email_blocked = True
                event = {"campaignId": _CAMPAIGN, "eventTime": self.state.now(), "ip": "192.0.2.1"}
                contact.unsubscriptions.append(event)
            elif self.state.has_list(number):
                self.state.leave(contact.id, number)
            else:
                raise ControlRefused("There is no such list: create it first.")
            self.state.save_contact(contact)
        return json_answer({"ok": True})

    async def seed(self, request: web.Request) -> web.Response:
        """A contact that is simply there: email, ext_id, attributes, listIds, listUnsubscribed and the two flags."""
        payload = await faults.payload_of(request)
        try:
            with self.state.change():
                return json_answer({"id": _seed(self.state, payload)})
        except Refused as refused:
            raise ControlRefused(f"{refused}: correct it.") from None


def _seed(state: State, payload: Json) -> int:
    email = wire.email_key(str(payload.get("email", "")))
    attributes, sms = contacts.storable(state, payload)
    keys = {"email": email, "ext_id": wire.typed(payload, "ext_id", str), "sms": sms}
    if email is None or any(value and state.contact(column, value) for column, value in keys.items()):
        raise wire.invalid("The address is unusable, or it, the ext_id or the number is taken")
    contact = state.add_contact(**keys)
    contact.attributes = attributes
    contact.email_blocked = bool(payload.get("emailBlacklisted"))
    contact.sms_blocked = bool(payload.get("smsBlacklisted"))
    for number in wire.whole_numbers(payload, "listIds"):
        state.join(contact.id, number, "seed")
    for number in wire.whole_numbers(payload, "listUnsubscribed"):
        state.leave(contact.id, number)
    state.save_contact(contact)
    return contact.id


def _refusal(code: str, message: str) -> Json:
    return {"code": code, "message": message}


def _response(answer: Answer) -> web.Response:
    headers = {"sib-request-id": f"sandbox-{next(_request_ids)}"}
    if answer.body is None:
        return web.Response(status=answer.status, headers=headers)
    return json_answer(answer.body, answer.status, headers)


def app(
    api_key: str,
    state_file: Path | None = None,
    *,
    batch_seconds: float = BATCH_SECONDS,
    control_key: str | None = None,
    clock: Callable[[], float] = time.time,
) -> web.Application:
    """The server as an aiohttp application; raises brevo_state.StateUnusable. `clock` gives seconds since 1970."""
    server = Server(State(state_file, clock), api_key, batch_seconds)
    application = web.Application(
        middlewares=[server.guarded, faults.middleware(server.faults, control_key)], client_max_size=running.MAX_BODY
    )
    application.cleanup_ctx.append(server.lifetime)
    router = application.router
    for method, path, endpoint in ENDPOINTS:
        router.add_route(method, BASE + path, server.serve(method, path, endpoint))
    faults.add_routes(router, server.faults)
    controls: dict[str, Any] = {"reset": server.reset, "unsubscribe": server.unsubscribe, "contacts": server.seed}
    for name, handler in controls.items():
        router.add_post(f"{faults.CONTROL}{name}", handler)
    router.add_get(f"{faults.CONTROL}summary", server.summary)
    router.add_get(f"{faults.CONTROL}dump", server.dump)
    return application


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    options = running.parser("brevo", "A local Brevo API for tests and the demo.")
    options.add_argument("--state", type=Path, help="SQLite file that keeps the account; nothing is kept without")
    options.add_argument("--batch-seconds", type=float, default=BATCH_SECONDS, help="delay of order batches")
    chosen = options.parse_args(arguments)

    def build() -> web.Application:
        try:
            return app(
                running.key("brevo"),
                chosen.state,
                batch_seconds=chosen.batch_seconds,
                control_key=running.control_key(),
            )
        except StateUnusable as problem:
            raise running.Unusable(str(problem)) from None

    return running.main(build, chosen.port, chosen.die_with_parent)


if __name__ == "__main__":
    os.umask(running.PRIVATE)
    sys.exit(main())
