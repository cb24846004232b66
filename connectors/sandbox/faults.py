"""Faults on demand, and the control door both sandbox servers have under /_control/.

The door opens on the loopback interface only and for the header `X-Control-Key`; a vendor's path never begins so.
"""

import asyncio
import hmac
import ipaddress
import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

CONTROL = "/_control/"
CONTROL_HEADER = "X-Control-Key"
HTML_STATUS = 502
DEFAULT_SECONDS = 5.0

FaultKind = Literal["status", "timeout_before", "timeout_after", "reset_after", "html", "slow"]
_KEYS = frozenset({"path", "method", "kind", "status", "body", "headers", "times", "after", "seconds"})
_NUMBERS = ("status", "times", "after", "seconds")
_HTML = "<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Something went wrong</h1></body></html>"


class FaultUnclear(ValueError):
    """A fault that cannot be set; its text is one sentence that says what to do."""


@dataclass(slots=True)
class Fault:
    """What is to go wrong on a path: for the next `times` calls, once `after` calls went through."""

    path: str
    kind: FaultKind
    method: str | None = None
    status: int = 503
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    after: int = 0
    seconds: float = DEFAULT_SECONDS

    @classmethod
    def of(cls, payload: object) -> "Fault":
        """From the control API's JSON; raises FaultUnclear."""
        if not isinstance(payload, dict) or not isinstance(payload.get("path"), str):
            raise FaultUnclear("Send a JSON object with at least path and kind.")
        if unknown := sorted(set(payload) - _KEYS):
            raise FaultUnclear(f"Leave out {', '.join(unknown)}: a fault has only {', '.join(sorted(_KEYS))}.")
        if payload.get("kind") not in get_args(FaultKind):
            raise FaultUnclear(f"Set kind to one of {', '.join(get_args(FaultKind))}.")
        if wrong := sorted(name for name in _NUMBERS if not isinstance(payload.get(name, 0), int | float)):
            raise FaultUnclear(f"Send a number for {', '.join(wrong)}.")
        if payload["kind"] == "html":
            payload = {"status": HTML_STATUS, **payload}
        return cls(**payload)

    def concerns(self, method: str, path: str) -> bool:
        return path.startswith(self.path) and self.method in (None, method) and self.times > 0


class Faults:
    """The queue of faults; the first one that concerns a call is used up on it."""

    def __init__(self) -> None:
        self.queued: list[Fault] = []

    def take(self, method: str, path: str) -> Fault | None:
        for fault in self.queued:
            if not fault.concerns(method, path):
                continue
            if fault.after > 0:
                fault.after -= 1
                return None
            fault.times -= 1
            return fault
        return None


async def suffer(fault: Fault, request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers a call as the fault wants; only `slow`, `timeout_after` and `reset_after` carry the call out.

    `html` sends a page of HTML, or its body where that is text: as it is, whether or not it is whole JSON.
    """
    if fault.kind == "slow":
        await asyncio.sleep(fault.seconds)
        return await handler(request)
    if fault.kind in ("timeout_after", "reset_after"):
        await handler(request)
    if fault.kind in ("timeout_before", "timeout_after"):
        await asyncio.sleep(fault.seconds)
    if fault.kind in ("timeout_before", "timeout_after", "reset_after"):
        _cut(request)
        return web.Response(status=500)
    if fault.kind == "html":
        text = fault.body if isinstance(fault.body, str) else _HTML
        return web.Response(status=fault.status, text=text, content_type="text/html", headers=fault.headers)
    if fault.body is None:
        return web.Response(status=fault.status, headers=fault.headers)
    return json_answer(fault.body, fault.status, fault.headers)


def _cut(request: web.Request) -> None:
    """Resets the connection, so that the caller never sees an answer."""
    transport = request.transport
    if transport is None:
        return
    wire = transport.get_extra_info("socket")
    if wire is not None:
        # A linger time of zero makes the close a reset, not an orderly end.
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def json_answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON answer; text that is no valid UTF-8 (lone surrogates) travels escaped."""
    try:
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        content = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(body=content, status=status, headers=headers, content_type="application/json", charset="utf-8")


def middleware(faults: Faults, control_key: str | None) -> Middleware:
    """Guards the control door and lets every other call meet its fault."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(CONTROL):
            refused = _refused(request, control_key)
            return refused if refused is not None else await _controlled(request, handler)
        fault = faults.take(request.method, request.path)
        return await handler(request) if fault is None else await suffer(fault, request, handler)

    return guard


async def _controlled(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (FaultUnclear, ControlRefused) as problem:
        return json_answer({"error": str(problem)}, 400)


def _refused(request: web.Request, control_key: str | None) -> web.Response | None:
    if not control_key or not request.remote or not ipaddress.ip_address(request.remote).is_loopback:
        return json_answer({"error": "There is no control door here: start the sandbox with --control-key."}, 404)
    if not hmac.compare_digest(request.headers.get(CONTROL_HEADER, "").encode(), control_key.encode()):
        return json_answer({"error": f"Send the control key in the header {CONTROL_HEADER}."}, 403)
    return None


class ControlRefused(ValueError):
    """A control request that cannot be carried out; its text is one sentence that says what to do."""


async def payload_of(request: web.Request) -> dict[str, Any]:
    """The JSON object of a control request; raises ControlRefused."""
    try:
        payload = await request.json() if request.can_read_body else {}
    except ValueError:
        raise ControlRefused("Send a JSON object.") from None
    if not isinstance(payload, dict):
        raise ControlRefused("Send a JSON object.")
    return payload


def add_routes(router: web.UrlDispatcher, faults: Faults) -> None:
    """POST and DELETE /_control/faults."""

    async def add(request: web.Request) -> web.Response:
        faults.queued.append(Fault.of(await payload_of(request)))
        return json_answer({"queued": len(faults.queued)})

    async def clear(request: web.Request) -> web.Response:
        faults.queued.clear()
        return json_answer({"queued": 0})

    router.add_post(f"{CONTROL}faults", add)
    router.add_delete(f"{CONTROL}faults", clear)
