"""Forgetting what the ledger need not keep (PRODUCT 2.5): what the tick does each minute, when an operator asks."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from syncs.engine import ledger
from syncs.services import outside

OLD = """
SELECT count(*) FROM syncs_delivery d
WHERE d.settled_at < vigil_now() - %s AND d.state NOT IN ('deferred', 'set_aside')
  AND NOT EXISTS (SELECT 1 FROM syncs_cursor c
                  WHERE c.sync_id = d.sync_id AND c.lane = d.lane AND c.until IS NOT NULL)
"""
"""What `engine/ledger` would delete now."""


def ledger_age() -> timedelta:
    """How long a settled row is kept."""
    return timedelta(days=settings.VIGIL_LEDGER_DAYS)


def ledger_prune_plan() -> int:
    """How many rows a prune would delete now. It changes nothing."""
    values: list[Any] = [ledger_age()]
    with connection.cursor() as cursor:
        cursor.execute(OLD, values)
        row = cursor.fetchone()
    number: int = row[0]
    return number


def ledger_prune() -> int:
    """Delete settled rows that are old enough and that no open read needs, in chunks; their number."""
    return asyncio.run(_prune())


async def _prune() -> int:
    given = outside.outside()
    try:
        return await ledger.prune(given.database, age=ledger_age())
    finally:
        await given.database.close()
