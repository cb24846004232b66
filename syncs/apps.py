"""The one Django application of the house so far."""

from django.apps import AppConfig


class SyncsConfig(AppConfig):
    name = "syncs"
    verbose_name = "Syncs"

    def ready(self) -> None:
        from syncs import checks  # noqa: F401 - registers itself; models are ready only now
