"""Threads that wait, each on its own lock."""

import _thread
import threading

from kprod.cluster.metadata_waiters import MetadataWaiters


def locked() -> _thread.LockType:
    """The number of responses, which a thread waits for."""
    lock = threading.Lock()
    lock.acquire()
    return lock


def test_wake_all_wakes_everyone_once() -> None:
    """Everyone continues, and nobody waits any more."""
    waiting = MetadataWaiters()
    waiters = [locked(), locked()]
    for waiter in waiters:
        waiting.add(waiter)

    waiting.wake_all()
    waiting.wake_all()

    assert [waiter.acquire(blocking=False) for waiter in waiters] == [True, True]
    assert len(waiting) == 0


def test_leave_gives_up_the_place() -> None:
    """A waiter that left is not woken; leaving after being woken is nothing."""
    waiting = MetadataWaiters()
    waiter = locked()
    waiting.add(waiter)

    waiting.remove(waiter)
    waiting.remove(waiter)
    waiting.wake_all()

    assert not waiter.acquire(blocking=False)


def test_waiters_may_come_and_go_while_others_are_woken() -> None:
    """One that leaves is not woken any more; one that comes is left to the next event."""
    waiting = MetadataWaiters()
    early, leaving, late = locked(), locked(), locked()

    class Neighbour:
        """Lets another leave and a third come when it is woken."""

        def release(self) -> None:
            waiting.remove(leaving)
            waiting.add(late)

    for waiter in (early, Neighbour(), leaving):
        waiting.add(waiter)

    waiting.wake_all()

    woken = [waiter.acquire(blocking=False) for waiter in (early, leaving, late)]
    assert woken == [True, False, False]
    assert len(waiting) == 1


def test_a_sleeping_thread_is_woken() -> None:
    """The lock of one waiter is released by another thread."""
    waiter, woken = locked(), []
    thread = threading.Thread(target=lambda: woken.append(waiter.acquire(timeout=30)))
    thread.start()

    waiter.release()
    thread.join(30)

    assert woken == [True]
