"""Connections: tested, never shown."""

from __future__ import annotations

import pytest
from django.test import Client

from connectors.errors import TokenRefused
from connectors.protocol import Identity
from syncs.models import Connection, Sync
from syncs.services import connections
from tests.factories import NOW
from tests.syncs.admin.cast import SECRET, browser, of_group, url


def test_the_slots_say_whether_they_are_filled_and_proved(sync: Sync, root: Client) -> None:
    address = url(Connection, "change", sync.source_id)
    assert "Filled, and not proved since it was entered. Test it." in root.get(address).content.decode()
    source = Connection.objects.get(pk=sync.source_id)
    source.proved_at, source.proved_fingerprint = NOW, source.fingerprint
    source.save()
    html = root.get(address).content.decode()
    assert "Filled, and proved at 8 Oct 2026 14:05 CEST." in html
    assert SECRET not in html
    assert source.fingerprint not in html


def test_a_test_lists_the_scopes_wanted_given_and_too_many(sync: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Identity("1", "acme.myshopify.com", ("read_customers", "write_customers"), NOW)
    monkeypatch.setattr(connections, "connection_test", lambda actor, connection: said)
    address = f"/admin/syncs/connection/{sync.source_id}/test/"
    html = browser(of_group("Vigil operators")).post(address, {"confirmed": "yes"}, follow=True).content.decode()
    for sentence in (
        "It belongs to acme.myshopify.com (1).",
        "Scopes given: read_customers, write_customers. Scopes wanted: read_customers, read_orders.",
        "Missing scopes: read_orders.",
        "This credential can write (write_customers). Give it read-only scopes.",
    ):
        assert sentence in html


def test_what_the_vendor_refuses_is_told_in_its_words(
    sync: Sync, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(actor: object, connection: object) -> Identity:
        raise TokenRefused("Shopify refused the access token (401). Reconnect Shopify.")

    monkeypatch.setattr(connections, "connection_test", refused)
    answer = root.post(f"/admin/syncs/connection/{sync.source_id}/test/", {"confirmed": "yes"}, follow=True)
    assert "Shopify refused the access token (401). Reconnect Shopify." in answer.content.decode()
