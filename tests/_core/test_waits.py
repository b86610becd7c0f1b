"""Signals that arrive in compiled code before it waits, where no system call is interrupted."""

import _thread
import contextlib
import threading
from collections.abc import Callable, Generator
from functools import partial
from itertools import islice
from typing import Any

import pytest

from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.bulk_completion import BulkCompletion
from kprod.clock import SystemClock
from kprod.cluster.awaited_version import AwaitedVersion
from kprod.consumer.mailbox import Mailbox
from kprod.network.socket_wait import EpollSocketWait

WAIT_S = 5.0  # how long a broken wait keeps its test

# The interpreter runs handlers between bytecodes; no bytecode runs while built-in functions call
# one another. So a call in here counts as ended only if no handler ran in it.
pytestmark = pytest.mark.usefixtures("interruptible")


def _ended_waits(wait: Callable[[], object], before: Callable[[], object]) -> list[object]:
    """Make two calls without a bytecode before, between and behind them, until one raises.

    Returns:
        The outcome of the second if it returned.
    """
    ended: list[object] = []
    with pytest.raises(KeyboardInterrupt):  # a signal that is still waiting is raised here
        ended.extend(islice(zip(iter(before, ended), iter(wait, ended), strict=False), 1))
    return ended


@pytest.mark.parametrize(
    "wait",
    [
        BatchResult("orders", 0).wait_finished,
        BulkCompletion().wait,
        MemoryWaiter(1, False, 2_048).wait,
        EpollSocketWait().wait,
    ],
    ids=["batch", "bulk", "memory", "socket"],
)
def test_a_signal_that_arrived_before_the_wait(wait: Callable[[float], object]) -> None:
    """Its handler runs at once."""
    assert _ended_waits(partial(wait, WAIT_S), _thread.interrupt_main) == []


@contextlib.contextmanager
def _interruption(is_waiting: Callable[[], bool], end: Callable[[], object]) -> Generator[None]:
    """Have another thread set the signal, which interrupts no system call of this one.

    Args:
        is_waiting: Whether this thread waits.
        end: Ends a wait in which no handler has run in time.
    """
    is_over = threading.Event()

    def interrupt() -> None:
        while not is_waiting():
            is_over.wait(0.001)
        _thread.interrupt_main()
        if not is_over.wait(WAIT_S):
            end()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_signal_during_a_wait_for_news() -> None:
    """A consumer that waits without limit; its condition is a built-in function."""
    mailbox = Mailbox()
    waiters: Any = mailbox._waiters
    with _interruption(lambda: len(waiters) > 0, mailbox.notify):
        assert _ended_waits(partial(mailbox.wait, bool, SystemClock(), None), bool) == []


def test_a_signal_during_a_wait_for_metadata() -> None:
    """A call that waits for a topic."""
    version = AwaitedVersion()
    waiters: Any = version._waiters
    with _interruption(lambda: len(waiters) > 0, version.publish):
        assert _ended_waits(partial(version.wait_for_update, 0, 60_000), bool) == []
