"""Nothing that is kept shows whose data it is: what previews hold is masked before it is stored (PRODUCT 2.5, 10.1).

There is therefore nothing to reveal, and no page that would.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.engine import preview as previewing
from syncs.models import Preview
from syncs.models.workspaces import Role
from tests import children, factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = str(tmp_path)


def everything_kept() -> dict[str, str]:
    """Each table's rows as text."""
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"SELECT string_agg(t::text, E'\\n') FROM \"{table}\" t")
            found[table] = cursor.fetchone()[0] or ""
    return found


def people_of(shop: children.Shop) -> set[str]:
    """Addresses, numbers and names of everybody whom the destination knows by now."""
    found: set[str] = set()
    for contact in shop.brevo.control("dump")["contacts"]:
        found |= {contact["email"], *(contact["attributes"].get(name) for name in ("FIRSTNAME", "LASTNAME", "SMS"))}
    return {text for text in found if text and len(text) > 3}


def test_no_table_holds_an_address_a_name_or_a_number_after_previews_and_runs(tmp_path: Path) -> None:
    with children.a_shop(tmp_path) as shop:
        children.finish(shop.start(shop.contacts, Lane.SCHEDULED))
        children.finish(shop.start(shop.orders, Lane.MANUAL))
        services.sync_preview(services.vigil(), shop.contacts)
        people = people_of(shop)
        assert len(people) > 200
        kept = everything_kept()
    assert Preview.objects.count() >= 3 and len(kept["syncs_delivery"]) > 100_000
    texts = {table: set(re.findall(r"[^\s\"'(),:{}\[\]\\]+", text)) for table, text in kept.items()}
    assert {table: words & people for table, words in texts.items() if words & people} == {}
    assert [table for table, text in kept.items() if re.search(r"\w@\w", text)] == []


def test_a_preview_is_masked_for_everybody_alike(db: None) -> None:
    """Superusers too: what is masked when it is stored, nobody can unmask."""
    sync = factories.healthy()
    shown = {"to": "FIRSTNAME", "old": previewing.mask("Grace"), "new": previewing.mask("Ada")}
    row = {"id": "11", "state": "update", "reason": "", "fields": [shown]}
    preview = factories.preview(sync, result=factories.result(rows=[row]))
    path = f"/w/{sync.workspace.slug}/syncs/{sync.pk}/preview/{preview.pk}/"
    for person in (factories.member(sync.workspace, Role.PUBLISHER), factories.superuser()):
        client = Client()
        client.force_login(person)
        text = client.get(path).content.decode()
        assert "G••••" in text and "A••" in text
        assert "Grace" not in text and "Ada" not in text


@pytest.mark.parametrize(
    ("value", "masked"),
    [("Ada", "A••"), ("ada@shop.example", "a••••••••"), ("", ""), (None, None), ("+49151234567", "+••••••••")],
)
def test_a_mask_keeps_the_first_character_and_no_more_than_eight_dots(value: str | None, masked: str | None) -> None:
    assert previewing.mask(value) == masked
