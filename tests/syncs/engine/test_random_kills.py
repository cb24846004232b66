"""SIGKILL at random moments, again and again; then everything is there, once (PRODUCT 10.3).

``VIGIL_KILLS`` (5) says how often, ``VIGIL_KILL_SEED`` (1) where; with 100 kills or more the orders of a real shop are
used where they are at hand: its orders are upserts, its events are appends that can be asked about.
"""

import os
import random
import time
from pathlib import Path

import pytest

from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.models import Delivery, Run
from tests.children import ROOT, a_shop, child, finish

pytestmark = pytest.mark.django_db(transaction=True)

KILLS = int(os.environ.get("VIGIL_KILLS", "5"))
SEED = int(os.environ.get("VIGIL_KILL_SEED", "1"))
REAL = ROOT.parent / "shared" / "data" / "online-retail-2"
MANY = 100


def shop_options() -> dict[str, str]:
    return {"shop": str(REAL)} if KILLS >= MANY and REAL.exists() else {}


def written(run: Run) -> int:
    return Delivery.objects.filter(run=run, state="written").count()


def test_a_worker_killed_at_random_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    in_doubt: list[int] = []
    with a_shop(tmp_path, **shop_options()) as shop:
        people = finish(shop.start(shop.contacts, Lane.SCHEDULED), seconds=120)
        run = shop.start(shop.orders, Lane.MANUAL)
        before = 0
        for _ in range(KILLS):
            worker = child(run)
            until = time.monotonic() + 30
            # Let it do some work first: a kill before the first claim shows nothing.
            while worker.poll() is None and time.monotonic() < until and written(run) <= before:
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 0.05 if KILLS >= MANY else 0.4))
            worker.kill()
            worker.communicate()
            in_doubt.append(Delivery.objects.filter(state="sending").count())
            before = written(run)
            services.leases_free_dead()
            run.refresh_from_db()
            if run.state == "finished":
                break
        finish(run, seconds=300)
        state = shop.state()
        expected = run.states["written"] + run.states.get("already_delivered", 0)
        print(f"\n{len(in_doubt)} kills over {sum(run.states.values())} records; in doubt per kill: {in_doubt}")
        assert run.outcome == "succeeded"
        assert sum(run.states.values()) == run.evidence["rows_seen"]
        assert state == {
            "contacts": people.states["written"],
            "orders": expected,
            "events": expected,
            "duplicate_events": 0,
            "violations": 0,
        }
        assert not Delivery.objects.filter(state__in=["claimed", "sending", "in_doubt"]).exists()
        assert len(in_doubt) >= 2, "most of the run was there to be killed"
