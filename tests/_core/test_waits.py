"""Signals that arrive in compiled code before it waits, where no system call is interrupted."""

import _thread
import contextlib
import os
import select
import signal
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
pytestmark = [
    pytest.mark.usefixtures("interruptible"),
    pytest.mark.skipif(not hasattr(select, "epoll"), reason="epoll is Linux's"),
]


def _ended_waits(wait: Callable[[], object], before: Callable[[], object]) -> list[object]:
    """Make two calls without a bytecode before, between and behind them, until one raises.

    Returns:
        The outcome of the second if it returned.
    """
    ended: list[object] = []
    with pytest.raises(KeyboardInterrupt):  # a signal that is still waiting is raised here
        ended.extend(islice(zip(iter(before, ended), iter(wait, ended), strict=False), 1))
    return ended


def _memory_waiter() -> MemoryWaiter:
    return MemoryWaiter(1, False, 2_048)


@pytest.mark.parametrize(
    "make", [partial(BatchResult, "orders", 0), BulkCompletion, _memory_waiter, EpollSocketWait]
)
def test_a_signal_that_arrived_before_the_wait(make: Callable[[], Any]) -> None:
    """Its handler runs at once."""
    made = make()
    wait = made.wait_finished if isinstance(made, BatchResult) else made.wait
    assert _ended_waits(partial(wait, WAIT_S), _thread.interrupt_main) == []


@contextlib.contextmanager
def _handler(act: Callable[[], object]) -> Generator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def _wait_signalled(wait: Callable[[float], object]) -> object:
    """Wait, with a signal that has arrived; returns the outcome of the wait."""
    signalled = iter(partial(_thread.interrupt_main, signal.SIGUSR1), wait)
    _, outcome = next(zip(signalled, iter(partial(wait, 10 * WAIT_S), wait), strict=False))
    return outcome


def test_the_handler_may_end_the_wait() -> None:
    """The wait does not begin, or ends at once."""
    result = BatchResult("orders", 0)
    with _handler(result.complete):
        assert _wait_signalled(result.wait_finished) is True
    completion = BulkCompletion()
    with _handler(completion.seal):
        assert _wait_signalled(completion.wait) is True
    socket_wait = EpollSocketWait()
    with _handler(socket_wait.wake):
        assert _wait_signalled(socket_wait.wait) is None


def test_the_handler_may_fork() -> None:
    """The wait ends in the child, and continues in its parent."""
    socket_wait, children = EpollSocketWait(), []

    def fork() -> None:
        children.append(os.fork())
        if children[0]:
            socket_wait.wake()
        else:
            socket_wait.close_after_fork()

    code = 1
    try:
        with _handler(fork):
            outcome = _wait_signalled(socket_wait.wait)
        code = int(outcome is not None)
    finally:
        if children and not children[0]:
            os._exit(code)
    assert (code, os.waitpid(children[0], 0)[1]) == (0, 0)


def test_an_error_of_a_handler_in_a_forked_child_is_raised() -> None:
    """It is not taken for that of the descriptor, which the child has closed."""
    socket_wait = EpollSocketWait()

    def fail(*_: object) -> None:
        socket_wait.close_after_fork()
        raise OSError("the handler's own")

    before = signal.signal(signal.SIGALRM, fail)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(OSError, match="the handler's own"):
            socket_wait.wait(WAIT_S)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_socket_wait_without_init_ends_at_once() -> None:
    """It has no descriptor; 0 would be the standard input of the process."""
    socket_wait = EpollSocketWait.__new__(EpollSocketWait)
    began_ms = SystemClock().now_ms()
    socket_wait.wait(WAIT_S)
    assert SystemClock().now_ms() < began_ms + WAIT_S * 1_000


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
