"""Signal handlers that `ssl` may run, and an interrupt that is raised later."""

import gc
import signal
import threading

import pytest

from kprod._core.signal_handlers import interrupt_later, may_run_handlers, settle_collector

# By a thread: its own handler of SIGALRM would count.
pytestmark = pytest.mark.timeout(60, method="thread")

MAIN = threading.get_ident()


def test_a_handler_in_python_counts() -> None:
    """Of any signal."""
    assert not may_run_handlers(MAIN)
    for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGRTMAX):
        previous = signal.signal(number, lambda *_: None)
        assert may_run_handlers(MAIN)
        signal.signal(number, previous)
    assert not may_run_handlers(MAIN)


def test_handlers_of_the_system_do_not() -> None:
    """A signal that is ignored runs nothing."""
    previous = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert not may_run_handlers(MAIN)
    signal.signal(signal.SIGUSR1, previous)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_does_not_but_its_handler_for_another_signal_does() -> None:
    """Only SIGINT can be raised again."""
    assert not may_run_handlers(MAIN)
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    assert may_run_handlers(MAIN)
    signal.signal(signal.SIGTERM, previous)


def test_other_threads_run_none() -> None:
    """The system's signals run on the main thread only."""
    previous = signal.signal(signal.SIGUSR1, lambda *_: None)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(may_run_handlers(MAIN)))
    thread.start()
    thread.join()
    signal.signal(signal.SIGUSR1, previous)
    assert found == [False]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_raised_later() -> None:
    """Between the next bytecodes."""
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come at either line
        interrupt_later()
        threading.Event().wait(30)


@pytest.mark.usefixtures("interruptible")
def test_a_collection_that_is_due_keeps_an_interrupt() -> None:
    """An interrupt that it meets is raised later."""
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - as above
            interrupt_later()
            settle_collector()
            threading.Event().wait(30)
    finally:
        gc.enable()
