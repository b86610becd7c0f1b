"""After each test: no new thread alive, no new file descriptor open.

A producer that leaves a thread or a socket behind passes its own test, and spoils a later one at
random. Every test is checked, and fails in its teardown with the names of what it left.

Objects of a fixture with a wider scope may stay: they exist before the first check.
A test that starts something lasting on purpose says so: `@pytest.mark.may_leak("what, and why")`.

Threads that are just ending are joined, not slept for. A server that lives on, in a thread of its
own, closes its end of a connection when it comes to it, so descriptors get a moment to go. They are
read from /proc or /dev/fd; where there is neither, threads alone are checked.

Thread-safety: runs in the thread of the tests.
"""

import dis
import gc
import os
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest

JOIN_TIMEOUT_S = 2.0
"""For all threads of a test together; one that ends by itself needs a few milliseconds."""

CLOSE_ROUNDS = 100
CLOSE_ROUND_S = 0.02
"""For the other end of a connection, which needs a few milliseconds."""

DESCRIPTORS = next(
    (path for path in (Path("/proc/self/fd"), Path("/dev/fd")) if path.exists()), None
)
HARMLESS_TARGETS = ("/dev/null", "/dev/urandom", "/dev/random")
"""Opened once and kept by libraries."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "may_leak(reason): threads or descriptors stay on purpose")


@pytest.fixture(autouse=True)  # ruff: ignore[pytest-fixture-autouse] - for every test
def no_leaks(request: pytest.FixtureRequest) -> Generator[None]:
    """Compare threads and descriptors after the test with those before it.

    Yields:
        Nothing.
    """
    if request.node.get_closest_marker("may_leak"):
        yield
        return
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    yield
    left = left_behind(threads, descriptors)
    if left:
        pytest.fail(f"left behind: {'; '.join(left)}", pytrace=False)


def left_behind(
    threads: Iterable[threading.Thread], descriptors: set[tuple[int, str]]
) -> list[str]:
    """Find objects that are alive or open now and were not before.

    Args:
        threads: The threads that existed before.
        descriptors: The descriptors that were open before, from `open_descriptors`.

    Returns:
        A description of each; empty if all is well.
    """
    if not (_new_threads(threads) or open_descriptors() - descriptors):
        return []
    limit_each_s = JOIN_TIMEOUT_S / max(1, len(_new_threads(threads)))
    for thread in _new_threads(threads):
        thread.join(limit_each_s)
    gc.collect()  # a descriptor in a dead cycle is the warning filter's to complain about
    never = threading.Event()
    for _ in range(CLOSE_ROUNDS):
        if open_descriptors() <= descriptors:
            break
        never.wait(CLOSE_ROUND_S)
    return [
        *(f"thread {thread.name!r}" for thread in _new_threads(threads)),
        *(
            f"descriptor {number} ({target})"
            for number, target in sorted(open_descriptors() - descriptors)
        ),
    ]


def open_descriptors() -> set[tuple[int, str]]:
    """List this process's open descriptors.

    Returns:
        Number and what it stands for; empty where the system does not tell.
    """
    if DESCRIPTORS is None:
        return set()
    return {
        (int(path.name), target)
        for path in DESCRIPTORS.iterdir()
        if (target := _target(path)) is not None and target not in HARMLESS_TARGETS
    }


def _target(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except FileNotFoundError:  # the descriptor of the listing itself
        return None
    except OSError:  # /dev/fd of macOS holds devices, not links
        return _kind(int(path.name))


def _kind(number: int) -> str | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return f"mode {status.st_mode:o}, inode {status.st_ino}"


def _new_threads(before: Iterable[threading.Thread]) -> list[threading.Thread]:
    known = set(before)
    return [
        thread
        for thread in threading.enumerate()
        if thread not in known and thread is not threading.current_thread()
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Reject a trace function that a test leaves: it would run, and need memory, in all others."""
    yield
    trace = sys.gettrace()
    if trace is not None and "pydevd" not in sys.modules:
        sys.settrace(None)
        pytest.fail(f"{item.nodeid} has left a trace function: {trace!r}", pytrace=False)
    if _is_followed() and not _WAS_FOLLOWED:
        sys.settrace(lambda *_: None)  # ends it
        sys.settrace(None)
        pytest.fail(f"{item.nodeid} has left a thread's trace function", pytrace=False)


def _is_followed() -> bool:
    """Whether the interpreter prepares functions for tracing (CPython 3.12 and later)."""
    _probe()  # it is prepared, or no longer, when it runs
    return any(
        "INSTRUMENTED" in each.opname for each in dis.get_instructions(_probe, adaptive=True)
    )


def _probe() -> None:
    pass


_WAS_FOLLOWED = _is_followed()  # by a debugger, or to measure coverage
