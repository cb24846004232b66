"""What the tests of this room call the sandboxes with, and small shops to serve."""

import json
from pathlib import Path
from typing import Any

import httpx

from connectors import sandbox

TOKEN = "shpat_test"
API_KEY = "xkeysib-test"


class Shopify:
    def __init__(self, served: sandbox.Served, http: httpx.Client) -> None:
        self.served, self.http, self.control = served, http, served.control

    def ask(self, text: str, version: str = "2026-10", /, **variables: Any) -> dict[str, Any]:
        answer = self.post({"query": text, "variables": variables}, version)
        assert answer.status_code == 200
        return answer.json()

    def post(self, body: Any, version: str = "2026-10", token: str = TOKEN) -> httpx.Response:
        path = f"/admin/api/{version}/graphql.json"
        return self.http.post(path, json=body, headers={"X-Shopify-Access-Token": token})


class Brevo:
    def __init__(self, served: sandbox.Served, http: httpx.Client) -> None:
        self.served, self.http, self.control = served, http, served.control

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        # Escaped, so that text which is no UTF-8 can be sent as well.
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        answer = self.http.request(method, f"/v3{path}", content=content, headers=headers, params=query)
        return answer.status_code, answer.json() if answer.content else None

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        return self.call("POST", path, body)

    def get(self, path: str, **query: Any) -> Any:
        status, body = self.call("GET", path, **query)
        assert status == 200, body
        return body

    def dump(self) -> dict[str, Any]:
        return self.control("dump")

    def violations(self) -> list[str]:
        return [violation["kind"] for violation in self.dump()["violations"]]


def http_client(served: sandbox.Served) -> httpx.Client:
    return httpx.Client(base_url=served.url, headers={"api-key": API_KEY}, trust_env=False, timeout=20)


def customer(number: int, updated: str = "2026-05-01T10:00:00Z", **more: Any) -> dict[str, Any]:
    gid = f"gid://shopify/Customer/{number}"
    return {"id": gid, "createdAt": "2026-01-01T00:00:00Z", "updatedAt": updated, **more}


def write_shop(folder: Path, customers: list[Any], orders: list[Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, nodes in (("customers", customers), ("orders", orders)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(node) + "\n" for node in nodes), "utf-8")
    return folder
