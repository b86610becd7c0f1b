"""Threads that wait, each on its own lock."""

import threading

from kprod.cluster.metadata_waiters import Waiter, WaitingRoom


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


def test_waiters_may_come_and_go_while_others_are_woken() -> None:
    """One that leaves is not woken any more; one that comes is left to the next event."""
    room = WaitingRoom()
    early, leaving, late = Waiter(), Waiter(), Waiter()

    class Neighbour(Waiter):
        """Lets another leave and a third come when it is woken."""

        def wake(self) -> None:
            room.leave(leaving)
            room.enter(late)
            super().wake()

    neighbour = Neighbour()
    for waiter in (early, neighbour, leaving):
        room.enter(waiter)

    room.wake_all()

    woken = [waiter.wait(0) for waiter in (early, neighbour, leaving, late)]
    assert woken == [True, True, False, False]
    assert len(room) == 1


def test_a_sleeping_thread_is_woken() -> None:
    """The lock of one waiter is released by another thread."""
    waiter, woken = Waiter(), []
    thread = threading.Thread(target=lambda: woken.append(waiter.wait(30_000)))
    thread.start()

    waiter.wake()
    thread.join(30)

    assert woken == [True]
