"""A lock for compiled code."""

import signal
import threading
from types import FrameType

import pytest

from kprod._core.turn_lock import TurnLock


class Rung(Exception):
    """The alarm."""


def test_one_thread_holds_it() -> None:
    """Another attempt fails until it is released."""
    lock = TurnLock()
    assert lock.try_acquire()
    assert lock.locked()
    assert not lock.try_acquire()
    lock.release()
    assert not lock.locked()
    assert lock.try_acquire()


def test_what_nobody_holds_is_not_released() -> None:
    """Else two threads could hold it."""
    lock = TurnLock()
    with pytest.raises(RuntimeError, match="nobody holds"):
        lock.release()
    assert lock.try_acquire()
    assert not lock.try_acquire()


def test_a_thread_waits_for_it() -> None:
    """Until any other thread releases it, and without the GIL."""
    lock = TurnLock()
    lock.acquire()
    taken: list[bool] = []

    def take() -> None:
        lock.acquire()
        taken.append(True)

    thread = threading.Thread(target=take)
    thread.start()
    assert not taken
    lock.release()
    thread.join()
    assert taken
    assert lock.locked()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the alarm is POSIX's")
def test_a_signal_handler_ends_the_wait() -> None:
    """As for the locks of Python; the lock stays its holder's."""

    def ring(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature
        raise Rung

    lock = TurnLock()
    lock.acquire()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Rung):
            lock.acquire()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    lock.release()
    assert lock.try_acquire()
