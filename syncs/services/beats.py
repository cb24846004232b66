"""Signs of life: who works here now (PRODUCT 8.5, 8.7). A row per process, by the database's clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import connection

from syncs.models.beats import BeatKind
from syncs.services import outside

KEPT: Final = timedelta(days=1)
"""How long the last sign of a process that ended is kept."""

BEAT = """
INSERT INTO syncs_beat (kind, holder, at) VALUES (%s, %s, vigil_now())
ON CONFLICT (kind, holder) DO UPDATE SET at = vigil_now()
"""
FORGET = "DELETE FROM syncs_beat WHERE at < vigil_now() - make_interval(secs => %s)"


def beat(kind: BeatKind) -> None:
    """This process lives, or has ended a tick."""
    with connection.cursor() as cursor:
        cursor.execute(BEAT, [kind.value, outside.holder()])


def beats_forget() -> None:
    """Drop the signs of processes that ended long ago."""
    with connection.cursor() as cursor:
        cursor.execute(FORGET, [KEPT.total_seconds()])
