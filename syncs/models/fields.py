"""Field shorthands that keep the tables readable."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.db import models


def word(options: type[StrEnum], help_text: str, **more: Any) -> "models.CharField[str, str]":
    """A column that holds one word of ``options``."""
    return models.CharField(max_length=24, choices=[(o.value, o.value) for o in options], help_text=help_text, **more)


def one_of(column: str, options: Iterable[StrEnum]) -> models.Q:
    """The condition that ``column`` holds one of ``options``, in a stable order."""
    return models.Q(**{f"{column}__in": sorted(o.value for o in options)})
