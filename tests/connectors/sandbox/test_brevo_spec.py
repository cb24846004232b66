"""Requests and answers of the local Brevo, held against the vendor's published description."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

from tests.connectors.sandbox.callers import API_KEY, Brevo

ADA = {"email": "ada@example.com", "ext_id": "e1", "attributes": {"FIRSTNAME": "Ada"}, "listIds": [7]}
PRODUCTS = [{"productId": "p1", "variantId": "v1", "quantity": 1, "price": 5.5}]
ORDER = {
    "id": "o1", "createdAt": "2026-11-01T00:00:00Z", "updatedAt": "2026-11-01T00:00:00Z", "status": "paid",
    "amount": 5.5, "products": PRODUCTS, "identifiers": {"ext_id": "e1"}, "storeId": "s1",
}  # fmt: skip
EVENT = {"event_name": "placed", "identifiers": {"contact_id": 1}, "event_properties": {"order_id": "o1", "total": 5.5}}

# The calls of a whole account's life, each with the status it must have.
CALLS: tuple[tuple[str, str, Any, int], ...] = (
    ("GET", "/account", None, 200),
    ("GET", "/contacts/attributes", None, 200),
    ("POST", "/contacts/attributes/normal/VIP", {"type": "boolean"}, 201),
    ("POST", "/contacts/attributes/normal/VIP", {"type": "boolean"}, 400),
    ("GET", "/contacts/lists?limit=50&offset=0", None, 200),
    ("POST", "/contacts/lists", {"name": "New", "folderId": 1}, 201),
    ("POST", "/contacts/lists", {"name": "New", "folderId": 9}, 400),
    ("POST", "/contacts", ADA, 201),
    ("POST", "/contacts", ADA, 400),
    ("POST", "/contacts", {**ADA, "updateEnabled": True}, 204),
    ("POST", "/contacts", {"attributes": {"SMS": "+447700900123"}}, 201),
    ("POST", "/contacts", {"ext_id": "e3"}, 201),
    ("GET", "/contacts/ada@example.com?identifierType=email_id", None, 200),
    ("GET", "/contacts/e3?identifierType=ext_id", None, 200),
    ("GET", "/contacts/nobody@example.com", None, 404),
    ("PUT", "/contacts/ada@example.com", {"attributes": {"LASTNAME": "Fenn"}, "unlinkListIds": [7]}, 204),
    ("PUT", "/contacts/nobody@example.com", {"attributes": {}}, 404),
    ("PUT", "/contacts/1", {"ext_id": "e3"}, 400),
    ("GET", "/contacts?limit=2&sort=asc&modifiedSince=2026-01-01T00:00:00.000Z", None, 200),
    ("POST", "/contacts/lists/8/contacts/add", {"emails": ["ada@example.com", "x@example.com"]}, 201),
    ("POST", "/contacts/lists/8/contacts/add", {"ids": [1]}, 400),
    ("POST", "/contacts/lists/99/contacts/add", {"ids": [1]}, 404),
    ("POST", "/contacts/lists/8/contacts/remove", {"ids": [1, 77]}, 201),
    ("POST", "/contacts/lists/8/contacts/remove", {"all": True}, 201),
    ("POST", "/events", EVENT, 204),
    ("POST", "/events", {**EVENT, "identifiers": {"ext_id": "none"}}, 400),
    ("POST", "/events/batch", {"events": [EVENT]}, 202),
    ("POST", "/events/batch", {"events": [EVENT, {**EVENT, "identifiers": {"ext_id": "none"}}]}, 207),
    ("POST", "/events/batch", {"events": [{**EVENT, "identifiers": {"ext_id": "none"}}]}, 400),
    ("POST", "/orders/status", ORDER, 204),
    ("POST", "/orders/status", {**ORDER, "createdAt": "soon"}, 400),
    ("POST", "/orders/status/batch", {"orders": [ORDER], "historical": True}, 202),
    ("GET", "/orders?limit=100&sort=asc", None, 200),
    ("DELETE", "/contacts/1", None, 204),
    ("DELETE", "/contacts/1", None, 404),
)


class _Request:
    """openapi-core's view of a request; the vendor's host stands for ours."""

    host_url = "https://api.brevo.com"

    def __init__(self, request: httpx.Request) -> None:
        self.path, self.method = request.url.path, request.method.lower()
        self.content_type = request.headers.get("content-type", "")
        self.body = request.content or None
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(request.url.params.multi_items()), header=Headers(dict(request.headers))
        )


class _Response:
    def __init__(self, response: httpx.Response) -> None:
        self.status_code, self.headers = response.status_code, Headers(dict(response.headers))
        self.content_type = response.headers.get("content-type", "application/json").partition(";")[0]
        self.data = response.content or None


@pytest.fixture(scope="module")
def description(shared: Path) -> OpenAPI:
    path = shared / "api/schemas/brevo-openapi-strict-subset.yaml"
    return OpenAPI.from_dict(yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def test_every_request_and_answer_is_as_the_vendor_describes_it(brevo: Brevo, description: OpenAPI) -> None:
    statuses = []
    for method, path, body, _ in CALLS:
        answer = brevo.http.request(method, f"/v3{path}", json=body, headers={"api-key": API_KEY})
        _hold_against(description, answer)
        statuses.append((method, path, answer.status_code))
    assert statuses == [(method, path, status) for method, path, _, status in CALLS]


def test_who_opted_out_is_shown_as_the_vendor_describes_it(brevo: Brevo, description: OpenAPI) -> None:
    brevo.control("contacts", {"email": "ada@example.com", "listUnsubscribed": [7]})
    brevo.control("unsubscribe", {"email": "ada@example.com"})
    answer = brevo.http.get("/v3/contacts/ada@example.com")
    _hold_against(description, answer)
    assert answer.json()["statistics"]["unsubscriptions"]["userUnsubscription"]


def _hold_against(description: OpenAPI, answer: httpx.Response) -> None:
    request = _Request(answer.request)
    description.validate_request(request)
    description.validate_response(request, _Response(answer))
