"""What the queue calls. A task is a hint that carries one id; rows decide (PRODUCT 8.6). Dotted paths never move."""

from syncs import services


def work(run_id: int) -> None:
    """Look for work; run ``run_id`` is the reason, not the limit."""
    services.work()


def tick() -> None:
    """Each minute: plan, recover, poke."""
    services.tick()
