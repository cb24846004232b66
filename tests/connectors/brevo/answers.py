"""A Brevo that answers from a script and keeps what it was asked, and writes to give it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from connectors import protocol
from connectors.brevo import destination
from connectors.protocol import EffectKind, OrderLine, Receipt, Write

KEY = "xkeysib-0123456789abcdef"
ADDRESS = "ada@example.com"
SUBJECT = "shopify:linden:77"
DAY = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
DATE = {"date": "Mon, 30 Nov 2026 08:57:00 GMT"}


def contact_write(**changes: Any) -> Write:
    return Write(
        **{
            "kind": EffectKind.CONTACT,
            "id": "77",
            "effect_key": "c0ffee",
            "subject_id": SUBJECT,
            "address": ADDRESS,
            "attributes": {"FIRSTNAME": "Ada"},
            "list_id": 7,
            "consent_at": DAY,
            **changes,
        }
    )


def known(**changes: Any) -> Write:
    return contact_write(known=True, destination_id="21", **changes)


def withdrawal(**changes: Any) -> Write:
    return Write(
        **{
            "kind": EffectKind.WITHDRAWAL,
            "id": "77",
            "effect_key": "deed",
            "subject_id": SUBJECT,
            "list_id": 7,
            "known": True,
            "destination_id": "21",
            **changes,
        }
    )


def an_order(**changes: Any) -> protocol.Order:
    return protocol.Order(
        **{
            "name": "#1494",
            "status": "paid",
            "amount": "55.10",
            "currency": "EUR",
            "created_at": DAY,
            "updated_at": DAY + timedelta(minutes=1, microseconds=1500),
            "lines": (OrderLine("BO-50", 2, "27.55"),),
            "placed_at": DAY,
            "cancelled_at": None,
            "refunded_total": None,
            "test": False,
            **changes,
        }
    )


def order_write(number: int = 1, **changes: Any) -> Write:
    return Write(
        **{
            "kind": EffectKind.ORDER,
            "id": str(number),
            "effect_key": f"0{number}",
            "subject_id": SUBJECT,
            "destination_id": "21",
            "order": an_order(),
            **changes,
        }
    )


def event_write(**changes: Any) -> Write:
    return Write(
        **{
            "kind": EffectKind.EVENT,
            "id": "1:placed",
            "effect_key": "beef",
            "subject_id": SUBJECT,
            "destination_id": "21",
            "event_name": "order_placed",
            "event_at": DAY,
            "attributes": {"order": "#1494"},
            **changes,
        }
    )


def held(**changes: Any) -> dict[str, Any]:
    """A contact in Brevo's wire form."""
    attributes = {"FIRSTNAME": "Ada", "EXT_ID": SUBJECT, **changes.pop("attributes", {})}
    return {
        "id": 21,
        "email": ADDRESS,
        "emailBlacklisted": False,
        "smsBlacklisted": False,
        "createdAt": "2026-01-01T00:00:00.000Z",
        "modifiedAt": "2026-01-01T00:00:00.000Z",
        "listIds": [7],
        "listUnsubscribed": [],
        "attributes": attributes,
        "statistics": {},
        **changes,
    }


def refused(code: str, message: str = "No.", *duplicates: str) -> dict[str, Any]:
    more = {"metadata": {"duplicate_identifiers": list(duplicates)}} if duplicates else {}
    return {"code": code, "message": message, **more}


GONE = (404, refused("document_not_found", "Contact does not exist"))


class Brevo:
    """Answers one question after the other: (status, body[, headers]), or raises what it is given."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []
        self.keys: set[str | None] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, str(request.url.raw_path, "ascii"), body))
        self.keys.add(request.headers.get("api-key"))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, sent, *headers = answer
        content = b"" if sent is None else sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        return httpx.Response(status, content=content, headers={**DATE, **(headers[0] if headers else {})})

    def run(self, doing: Callable[[destination.BrevoDestination], Awaitable[Any]], **options: Any) -> Any:
        async def done() -> Any:
            client = destination.client(KEY, transport=httpx.MockTransport(self))
            brevo = destination.BrevoDestination(client, **options)
            try:
                return await doing(brevo)
            finally:
                await brevo.close()

        made = asyncio.run(done())
        assert self.answers == [], "not every answer was asked for"
        assert self.keys <= {KEY}
        return made

    def write(self, *writes: Write, seconds: float = 5.0) -> list[Receipt]:
        return list(self.run(lambda brevo: brevo.write(writes, by=time.monotonic() + seconds)))

    def calls(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.asked]

    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.asked]
