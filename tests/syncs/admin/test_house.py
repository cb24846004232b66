"""The queue, times, settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from syncs.models import Schedule, Sync
from tests.syncs.admin.cast import url

ROOT = Path(__file__).resolve().parents[3]


def test_nothing_here_unpickles_a_task() -> None:
    """Pickles are code: the queue's own pages are closed."""
    assert not [model for model in admin.site._registry if model._meta.app_label == "django_q"]


def test_times_are_the_workspaces_here_too(sync: Sync, root: Client) -> None:
    """Case UI-01: the same instant reads the same for staff and for the merchant."""
    Schedule.objects.update(next_for="2026-10-25T00:30:00Z")
    for address in (url(Schedule, "changelist"), url(Schedule, "change", Schedule.objects.get().pk)):
        html = root.get(address).content.decode()
        assert "25 Oct 2026 02:30 CEST</time>" in html
        assert 'title="2026-10-25 00:30:00 UTC"' in html


def test_the_admin_has_a_policy_of_its_own(sync: Sync, root: Client) -> None:
    policy = root.get("/admin/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy


@pytest.mark.parametrize(("arguments", "environment"), [([], "test"), (["--deploy"], "production")])
def test_the_checks_are_clean(arguments: list[str], environment: str, django_db_blocker: Any) -> None:
    """In production with its keys set there is no warning left."""
    keys = {
        "VIGIL_ENV": environment,
        "SECRET_KEY": "a-long-and-random-looking-key-0123456789-abcdefghijklmnopqrstuvwxyz",
        "VIGIL_CREDENTIAL_KEYS": "one:" + "ab" * 32,
        "VIGIL_EFFECT_KEY": "cd" * 32,
        "ALLOWED_HOSTS": "vigil.example",
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", *arguments],
        cwd=ROOT,
        env={**os.environ, **keys},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "System check identified no issues (0 silenced).")
    assert done.stderr == ""
