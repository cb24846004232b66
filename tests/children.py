"""Worker processes that a test may kill: real children against sandbox vendors and the test's database."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection

from connectors import sandbox
from connectors.sandbox.running import Served
from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.models import Run, Sync

ROOT = Path(__file__).resolve().parent.parent
SHORT = {
    "VIGIL_CALL_SECONDS": "2",
    "VIGIL_SETTLE_SECONDS": "0.2",
    "VIGIL_RECOUNT_SECONDS": "0",
    "VIGIL_RETRY_SCALE": "0",
    "VIGIL_SLICE_SECONDS": "20",
}
WORK = """
import django; django.setup()
import sys, time
from syncs import services
from syncs.models import Run
for _ in range(200):
    if Run.objects.get(pk=int(sys.argv[1])).state == "finished":
        break
    services.tick()
    services.work()
    time.sleep(0.05)
"""
CUSTOMERS_RULE = {
    "stream": "customers",
    "list_id": 7,
    "mapping": [{"to": "FIRSTNAME", "source": "firstName"}, {"to": "LASTNAME", "source": "lastName"}],
}
ORDERS_RULE = {"stream": "orders", "events": ["order_placed"], "history_events": True}


def database_url() -> str:
    """The database this test uses, for a child."""
    settings = connection.settings_dict
    user, name = settings["USER"] or "postgres", settings["NAME"]
    password = f":{quote(settings['PASSWORD'])}" if settings["PASSWORD"] else ""
    host, port = settings["HOST"], settings["PORT"]
    if not host or host.startswith("/"):
        return f"postgres://{user}{password}@/{host}/{name}"
    return f"postgres://{user}{password}@{host}{f':{port}' if port else ''}/{name}"


@dataclass
class Shop:
    """A demo shop's two syncs between two sandbox vendors, published."""

    shopify: Served
    brevo: Served
    contacts: Sync
    orders: Sync

    def state(self) -> dict[str, Any]:
        """Everything the destination holds that a person would count."""
        summary = self.brevo.control("summary")
        return {name: summary[name] for name in ("contacts", "orders", "events", "duplicate_events", "violations")}

    def start(self, sync: Sync, lane: Lane) -> Run:
        return services.run_start(services.vigil("a test"), sync, lane=lane)


def child(run: Run, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
    """A worker that drives due runs until ``run`` is finished or it is killed."""
    given = {**os.environ, **SHORT, "DATABASE_URL": database_url(), "VIGIL_ENV": "test", **(environment or {})}
    given["DJANGO_SETTINGS_MODULE"] = "config.settings"
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", WORK, str(run.pk)],
        cwd=ROOT,
        env=given,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(run: Run, seconds: float = 60) -> Run:
    """Drive ``run`` to its end in a child that is not killed."""
    worker = child(run)
    try:
        _, said = worker.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        worker.kill()
        raise
    run.refresh_from_db()
    assert run.state == "finished", said.decode()[-2000:]
    return run


@contextmanager
def a_shop(folder: Path, **options: Any) -> Iterator[Shop]:
    """Two sandbox vendors and two published syncs between them; ``options`` are Shopify's."""
    actor = services.vigil("a test")
    with (
        sandbox.serving("shopify", token="shpat_of_a_test", domain="test-shop.myshopify.com", **options) as shopify,
        sandbox.serving("brevo", api_key="xkeysib-of-a-test", state=str(folder / "brevo.sqlite")) as brevo,
    ):
        workspace = services.workspace_create(actor, name="Test", slug="test")
        source = services.connection_create(
            actor,
            workspace,
            name="Shop",
            kind="shopify",
            options={"domain": "test-shop.myshopify.com", "base_url": shopify.url},
            secrets={"token": "shpat_of_a_test"},
        )
        destination = services.connection_create(
            actor,
            workspace,
            name="Mail",
            kind="brevo",
            options={"base_url": brevo.url},
            secrets={"api_key": "xkeysib-of-a-test"},
        )
        syncs = []
        for name, rule in (("Contacts", CUSTOMERS_RULE), ("Orders", ORDERS_RULE)):
            sync = services.sync_create(actor, workspace, name=name, source=source, destination=destination, rule=rule)
            preview = services.sync_preview(actor, sync)
            assert preview.publishable, preview.result["blocks"]
            services.sync_publish(actor, sync, digest=preview.digest)
            sync.refresh_from_db()
            syncs.append(sync)
        yield Shop(shopify, brevo, *syncs)
