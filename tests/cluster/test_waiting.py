"""Threads that wait, each on its own lock."""

import threading

from kprod.cluster.waiting import Waiter, WaitingRoom


def test_wake_all_wakes_everyone_once() -> None:
    """Everyone in the room goes on; the room is empty."""
    room = WaitingRoom()
    waiters = [Waiter(), Waiter()]
    for waiter in waiters:
        room.enter(waiter)

    room.wake_all()
    room.wake_all()

    assert [waiter.wait(0) for waiter in waiters] == [True, True]
    assert len(room) == 0


def test_leave_gives_up_the_place() -> None:
    """A waiter that left is not woken; leaving after being woken is nothing."""
    room = WaitingRoom()
    waiter = Waiter()
    room.enter(waiter)

    room.leave(waiter)
    room.leave(waiter)
    room.wake_all()

    assert not waiter.wait(0)


def test_a_sleeping_thread_is_woken() -> None:
    """The lock of one waiter is released by another thread."""
    waiter, woken = Waiter(), []
    thread = threading.Thread(target=lambda: woken.append(waiter.wait(30_000)))
    thread.start()

    waiter.wake()
    thread.join(30)

    assert woken == [True]
