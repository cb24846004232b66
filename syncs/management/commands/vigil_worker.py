"""``manage.py vigil_worker``: a django-q2 cluster that stops the way runs need it (PRODUCT 8.9).

django-q2 alone waits for its workers' tasks when it is told to stop, but tells the workers nothing; a slice would go on
for a minute. Here every worker learns of it through a pipe that the main process closes, by stopping or by dying, and
ends its slice at the page in hand. SIGTERM belongs to the main process alone.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import Error, connection, transaction
from django.utils import timezone
from django_q.cluster import Cluster
from django_q.models import Schedule
from django_q.signals import post_spawn

from syncs import services
from syncs.models.beats import BeatKind

log = logging.getLogger(__name__)

TICK = "syncs.tasks.tick"
TICK_NAME = "tick each minute"
TICK_MINUTES = 1
BEAT_SECONDS = 20.0
"""Between two signs of life of a worker process."""
REMIND_SECONDS = 0.2
"""Between two SIGTERMs to a worker that is to stop: one that comes between two tasks is spent on nothing."""
PR_SET_PDEATHSIG = 1


def ensure_tick() -> None:
    """Exactly one row of the queue's timetable ticks, as it should; one bad row would block them all."""
    wanted = {
        "name": TICK_NAME,
        "func": TICK,
        "hook": None,
        "args": None,
        "kwargs": None,
        "schedule_type": Schedule.MINUTES,
        "minutes": TICK_MINUTES,
        "repeats": -1,
        "cron": None,
        "cluster": None,
        "intended_date_kwarg": None,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        # Two workers that start together would each make one.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [TICK])
        kept = Schedule.objects.filter(func=TICK).order_by("pk").first() or Schedule()
        for name, value in wanted.items():
            setattr(kept, name, value)
        kept.next_run = min(kept.next_run or timezone.now(), timezone.now())
        kept.save()
        Schedule.objects.filter(func=TICK).exclude(pk=kept.pk).delete()


def beat_for_ever() -> None:
    """Tell the database every few seconds that this process lives; on a connection of this thread's own."""
    while True:
        beat_once()
        time.sleep(BEAT_SECONDS)


def beat_once() -> None:
    """One sign of life. A database that does not answer is no reason to stop: the next one is tried."""
    try:
        services.beat(BeatKind.WORKER)
    except Error as error:
        log.warning("A sign of life could not be written (%s).", type(error).__name__)
    finally:
        connection.close()


class Lifeline:
    """A pipe whose one writing end the main process holds."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._open = True
        os.register_at_fork(after_in_child=self.let_go)

    def let_go(self) -> None:
        """Closes the writing end: in the main process to say stop, in each forked one because it is not its own."""
        if self._open:
            self._open = False
            os.close(self._write)

    def watch(self, **_: Any) -> None:
        """In a new worker: end its slice when the cluster stops, and show meanwhile that it lives."""
        threading.Thread(target=self._remind, name="lifeline", daemon=True).start()
        threading.Thread(target=beat_for_ever, name="beat", daemon=True).start()

    def _remind(self) -> None:
        os.read(self._read, 1)
        while True:
            # Only a task that listens is told: an idle worker would die of it, and may hold the queue's lock.
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(REMIND_SECONDS)


class StoppingCluster(Cluster):  # type: ignore[misc]
    """A cluster whose workers end their slices when it stops."""

    def __init__(self, lifeline: Lifeline) -> None:
        super().__init__()
        self._lifeline = lifeline

    def sig_handler(self, signum: int, frame: object) -> None:
        self._lifeline.let_go()
        if self.sentinel is None:
            sys.exit(0)
        super().sig_handler(signum, frame)


def die_with_parents() -> None:
    """On Linux each forked process is killed with the one that forked it: no orphan takes tasks for ever."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        os.register_at_fork(after_in_child=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))


class Command(BaseCommand):
    help = "Runs a cluster of the queue's workers until SIGTERM or SIGINT; they end their pages and keep their places."

    def handle(self, *args: Any, **options: Any) -> None:
        ensure_tick()
        # No open connection goes through the fork.
        connection.close()
        die_with_parents()
        lifeline = Lifeline()
        post_spawn.connect(lifeline.watch, weak=False)
        StoppingCluster(lifeline).start()
