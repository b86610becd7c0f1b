"""Ctrl-C for the processes that tests start.

A process inherits from its parent that SIGINT is ignored, and shells start background jobs like
that: `make test &` in a script would make every test of Ctrl-C wait without success.

Thread-safety: pytest's own thread, which is the main one.
"""

import signal
from collections.abc import Generator, Iterator

import pytest


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes started in this test are ended by Ctrl-C, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """A command that runs in this process leaves its handler of SIGTERM to no later test.

    On the main thread the direct path with TLS is closed while a handler in Python is installed.

    Returns:
        The result of the inner hooks.
    """
    before = signal.getsignal(signal.SIGTERM)
    result = yield
    if signal.getsignal(signal.SIGTERM) is not before:
        signal.signal(signal.SIGTERM, before)
    return result
