"""The one Django application of the house so far."""

from django.apps import AppConfig


class SyncsConfig(AppConfig):
    name = "syncs"
    verbose_name = "Syncs"
