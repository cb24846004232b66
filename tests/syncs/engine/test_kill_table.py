"""The program ends at every critical point, for real; then the destination holds everything, once (PRODUCT 10.3)."""

from pathlib import Path

import pytest

from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.engine import crash
from syncs.models import Delivery, Finding
from tests.children import a_shop, child, finish

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"contacts": 213, "orders": 395, "events": 395, "duplicate_events": 0, "violations": 0}
"""What the generated shop comes to; see the sandbox's own tests."""

# (point, which time, what the dying worker needs to pass it)
TABLE: list[tuple[str, int, dict[str, str]]] = [
    ("after_acquire", 1, {}),
    ("before_claim", 2, {}),
    ("after_claim", 2, {}),
    ("before_call", 3, {}),
    ("after_call", 2, {}),
    ("after_settle", 2, {}),
    ("while_renewing", 2, {"VIGIL_LEASE_RENEW_SECONDS": "0.2"}),
    ("before_move", 2, {}),
    ("in_move", 2, {}),
    ("after_move", 2, {}),
    ("between_slices", 2, {"VIGIL_SLICE_SECONDS": "0"}),
    ("before_finish", 1, {}),
    ("in_finish", 1, {}),
]


def test_every_point_has_its_row() -> None:
    """The one point that only a failing run passes has a test of its own below."""
    assert {point for point, _, _ in TABLE} | {"between_state_and_finding"} == crash.POINTS


@pytest.mark.parametrize(("point", "times", "needs"), TABLE)
def test_a_worker_that_dies_here_loses_and_doubles_nothing(
    point: str, times: int, needs: dict[str, str], tmp_path: Path
) -> None:
    assert point in crash.POINTS
    with a_shop(tmp_path) as shop:
        assert finish(shop.start(shop.contacts, Lane.SCHEDULED)).outcome == "succeeded"
        run = shop.start(shop.orders, Lane.MANUAL)
        dying = child(run, {"VIGIL_CRASH": f"{point}:{times}", **needs})
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


def test_a_worker_that_dies_between_state_and_finding_leaves_neither(tmp_path: Path) -> None:
    """The end of a failed run and the finding about it are one transaction: both or none."""
    with a_shop(tmp_path) as shop:
        shop.shopify.control("token", {"valid": False})
        run = shop.start(shop.contacts, Lane.SCHEDULED)
        dying = child(run, {"VIGIL_CRASH": "between_state_and_finding"})
        _, said = dying.communicate(timeout=60)
        assert dying.returncode == crash.EXIT_CODE, said.decode()[-2000:]
        run.refresh_from_db()
        assert (run.state, Finding.objects.count()) == ("running", 0)

        services.leases_free_dead()
        finish(run)
        assert (run.outcome, run.error_code) == ("failed", "token_refused")
        assert Finding.objects.get().code == "run_failed"

        shop.shopify.control("token", {"valid": True})
        assert finish(shop.start(shop.contacts, Lane.SCHEDULED)).outcome == "succeeded"
        assert shop.state()["contacts"] == WHOLE["contacts"]
