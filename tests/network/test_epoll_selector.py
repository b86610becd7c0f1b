"""Behaviour of epoll and its eventfd alone; the rest is in `test_selector`."""

import errno
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.errors import ClosedError
from kprod.network import epoll_selector
from kprod.network.epoll_selector import EpollSelector
from kprod.network.selector import EVENT_READ, EVENT_WRITE

LONG_MS = 30_000  # a limit that ends a broken test, never its rhythm

pytestmark = pytest.mark.skipif(not epoll_selector.IS_AVAILABLE, reason="no epoll here")


@pytest.fixture
def selector() -> Iterator[EpollSelector]:
    """A selector that is closed afterwards."""
    made = EpollSelector()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets."""
    near, far = socket.socketpair()
    yield near, far
    near.close()
    far.close()


def test_a_hang_up_is_told_to_readers_and_writers(
    selector: EpollSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    """A waiter for either finds out."""
    near, far = pair
    selector.register(near, EVENT_READ, "owner")
    far.close()

    assert selector.select(LONG_MS) == [("owner", EVENT_READ | EVENT_WRITE)]


def test_a_closed_descriptor_can_be_given_up(
    selector: EpollSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    """The kernel has forgotten it already; the selector forgets it too."""
    near, _ = pair
    selector.register(near, EVENT_READ, "owner")
    selector._epoll.unregister(near)
    selector.unregister(near)

    assert selector.select(0) == []


def test_a_wakeup_after_close_is_nothing() -> None:
    """An application thread may be late; it must not write into another's descriptor."""
    made = EpollSelector()
    waker = made.waker
    made.close()
    near, far = socket.socketpair()  # takes the descriptors that came free

    made.wakeup()
    waker()
    with pytest.raises(ClosedError):
        _ = made.waker
    with near, far:
        for end in (near, far):
            end.setblocking(False)
            with pytest.raises(BlockingIOError):
                end.recv(1)


def test_the_descriptor_is_open_for_as_long_as_somebody_may_write_to_it() -> None:
    """Closed by the last who has it, so that its number is nobody else's before."""
    made = EpollSelector()
    waker = made.waker
    assert made._wake is not None
    number = made._wake.fileno()
    made.close()
    assert str(Path(f"/proc/self/fd/{number}").readlink()) == "anon_inode:[eventfd]"
    del waker
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_errors_count_as_both() -> None:
    """A reader and a writer both find an error."""
    assert epoll_selector._from_epoll(select.EPOLLERR) == EVENT_READ | EVENT_WRITE
    assert epoll_selector._from_epoll(select.EPOLLOUT) == EVENT_WRITE


def test_a_selector_without_init_has_no_descriptor(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """It changes no events; 0 would be the standard input of the process."""
    near, _ = pair
    selector = EpollSelector.__new__(EpollSelector)

    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        selector.modify(near, EVENT_READ, None)
    assert raised.value.errno == errno.EBADF
    with pytest.raises(ClosedError):
        _ = selector.waker
    selector.wakeup()
