"""Gives a test run its own PostgreSQL before anything reads the settings; loaded by ``-p tests.plugin``.

A ``conftest.py`` would be too late: pytest-django reads the settings in ``pytest_load_initial_conftests``, which a
wrapper round that hook precedes. Workers of pytest-xdist inherit ``DATABASE_URL`` from the process that started the
server, and only that one ends it. With ``DATABASE_URL`` set from outside that server is used and nothing is started.
"""

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Generator
from types import FrameType

import pytest

from local import postgres

ENVIRONMENT = {
    "VIGIL_ENV": "test",
    "SECRET_KEY": "only-for-tests-and-for-nothing-else-0123456789",
    # Zone data come from the pinned package on every machine (PRODUCT 8.2).
    "PYTHONTZPATH": "",
}


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, object, object]:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if not os.environ.get("DATABASE_URL"):
        os.environ["DATABASE_URL"] = _server_for_this_run().url()
    return (yield)


def _server_for_this_run() -> postgres.Server:
    """A server that ends with this process, however that ends; if by SIGKILL, the next run removes it."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave)
    held = contextlib.ExitStack()
    atexit.register(held.close)
    try:
        server = held.enter_context(postgres.temporary())
        server.ensure_database()
    except postgres.PostgresUnavailable as error:
        raise pytest.UsageError(str(error)) from error
    return server


def _leave(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)
