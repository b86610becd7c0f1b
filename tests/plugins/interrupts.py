"""Ctrl-C for the processes that tests start.

A process inherits from its parent that SIGINT is ignored, and shells start background jobs like
that: `make test &` in a script would make every test of Ctrl-C wait without success.

Thread-safety: pytest's own thread, which is the main one.
"""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes started in this test are ended by Ctrl-C, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
