"""Commands as real processes: a signal leaves them at a clean place, and the same words go on (UX, section 4)."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from syncs.models import Delivery, Run, Sync
from tests.children import ROOT, SHORT, Shop, a_shop, database_url

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 60.0
INSTANT = "%Y-%m-%dT%H:%M:%SZ"
CALLS_SLOW = {"path": "/v3/contacts", "kind": "slow", "seconds": 0.05, "times": 100_000}


def process(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    given = {**os.environ, **SHORT, "DATABASE_URL": database_url(), "VIGIL_ENV": "test", **(environment or {})}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "manage.py", *arguments],
        cwd=ROOT,
        env={**given, "DJANGO_SETTINGS_MODULE": "config.settings", "LOG_LEVEL": "ERROR"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def wait_for_writes(sync: Sync, child: subprocess.Popen[str]) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and child.poll() is None:
        if Delivery.objects.filter(sync=sync, state="written").exists():
            return
        select.select([], [], [], 0.02)
    child.kill()
    raise AssertionError(f"Nothing was written: {child.communicate()}")


def backfill(shop: Shop) -> list[str]:
    name = shop.contacts.name
    window = ("--since", "2000-01-01T00:00:00Z", "--until", shop.contacts.published.published_at.strftime(INSTANT))
    return ["backfill", str(shop.contacts.pk), *window, "--confirm", name, "--no-input", "--json"]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_page_says_how_to_go_on_and_going_on_loses_nothing(
    signum: int, code: int, tmp_path: Path
) -> None:
    with a_shop(tmp_path) as shop:
        shop.brevo.control("faults", CALLS_SLOW)
        child = process(*backfill(shop))
        wait_for_writes(shop.contacts, child)
        child.send_signal(signum)
        out, err = child.communicate(timeout=SECONDS)

        run = Run.objects.get()
        assert child.returncode == code, err
        assert (run.state, json.loads(out)["exit"]) == ("waiting", code)
        assert "Stopping: the page in hand is finished first." in err
        assert f"Run {run.pk} keeps its place after the last whole page; nothing is lost." in err
        assert "manage.py backfill" in err and "Traceback" not in err
        assert not Delivery.objects.filter(state__in=["claimed", "sending", "in_doubt"]).exists()

        shop.brevo.control("faults", method="DELETE")
        again = process(*backfill(shop))
        out, err = again.communicate(timeout=SECONDS)
        assert again.returncode == 0, err
        assert json.loads(out)["run"] == run.pk
        held = shop.state()
        assert (held["contacts"], held["violations"]) == (json.loads(out)["states"]["written"], 0)


def test_wrong_use_is_one_sentence_and_no_traceback(transactional_db: None) -> None:
    child = process("sync_run", "nothing")
    out, err = child.communicate(timeout=SECONDS)
    assert (child.returncode, out) == (2, "")
    assert err == "There is no sync 'nothing': write its number or its name, and its --workspace.\n"


def test_a_database_that_is_away_is_a_line_of_the_doctor(tmp_path: Path) -> None:
    child = process("vigil_doctor", environment={"DATABASE_URL": f"postgres://nobody@/{tmp_path}/none"})
    out, err = child.communicate(timeout=SECONDS)
    assert (child.returncode, "Traceback" in err) == (9, False), err
    assert "bad  database: The database does not answer (OperationalError)." in out
    assert "migrations" not in out
