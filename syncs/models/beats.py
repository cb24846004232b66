"""Is anybody at work?"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from django.db import models

from syncs.models import fields


class BeatKind(StrEnum):
    """What shows that it lives: a worker process every few seconds, the tick at the end of each of its rounds."""

    WORKER = "worker"
    TICK = "tick"


class Beat(models.Model):
    """The last sign of life of one process. An idle worker holds no lease and ends no run: only this tells of it."""

    kind = fields.word(BeatKind, "A worker process, or the tick.")
    holder = models.CharField(max_length=200, help_text="Which process: host, pid and its start.")
    at = models.DateTimeField(help_text="By the database's clock.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["kind", "holder"], name="beat_one_per_process"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.holder}"
