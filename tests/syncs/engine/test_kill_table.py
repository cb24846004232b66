"""The program ends at every critical point, for real; then the destination holds everything, once (PRODUCT 10.3)."""

from pathlib import Path

import pytest

from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.engine import crash
from syncs.models import Delivery
from tests.children import a_shop, child, finish

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"contacts": 213, "orders": 395, "events": 395, "duplicate_events": 0, "violations": 0}
"""What the generated shop comes to; see the sandbox's own tests."""

# Points that a run of two slices and no renewal passes; the others have tests of their own.
TABLE = [
    ("after_acquire", 1),
    ("before_claim", 2),
    ("after_claim", 2),
    ("before_call", 3),
    ("after_call", 2),
    ("after_settle", 2),
    ("before_move", 2),
    ("in_move", 2),
    ("after_move", 2),
    ("before_finish", 1),
    ("in_finish", 1),
]


@pytest.mark.parametrize(("point", "times"), TABLE)
def test_a_worker_that_dies_here_loses_and_doubles_nothing(point: str, times: int, tmp_path: Path) -> None:
    assert point in crash.POINTS
    with a_shop(tmp_path) as shop:
        assert finish(shop.start(shop.contacts, Lane.SCHEDULED)).outcome == "succeeded"
        run = shop.start(shop.orders, Lane.MANUAL)
        dying = child(run, {"VIGIL_CRASH": f"{point}:{times}"})
        _, said = dying.communicate(timeout=60)
        assert dying.returncode == crash.EXIT_CODE, said.decode()[-2000:]
        in_doubt = Delivery.objects.filter(state="sending").count()
        assert in_doubt <= 2 * 100, "no more than the calls in flight"

        services.leases_free_dead()
        finish(run)

        assert (run.outcome, run.verdict) == ("succeeded", "proven")
        assert shop.state() == WHOLE
        assert sum(run.states.values()) == 1000
        assert not Delivery.objects.filter(state__in=["claimed", "sending", "in_doubt"]).exists()
