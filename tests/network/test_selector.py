"""Sleeping and being woken, by each of the two selectors; what only one does is beside it."""

import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from kprod.errors import ClosedError
from kprod.network import epoll_selector
from kprod.network.epoll_selector import EpollSelector
from kprod.network.selector import EVENT_READ, EVENT_WRITE, SystemSelector

LONG_MS = 30_000  # a limit that ends a broken test, never its rhythm

AnySelector = EpollSelector | SystemSelector

KINDS = [
    SystemSelector,
    pytest.param(
        EpollSelector,
        marks=pytest.mark.skipif(not epoll_selector.IS_AVAILABLE, reason="no epoll here"),
    ),
]


@pytest.fixture(params=KINDS)
def selector(request: pytest.FixtureRequest) -> Iterator[AnySelector]:
    """A selector of each kind, which is closed afterwards."""
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def system() -> Iterator[SystemSelector]:
    """The portable selector."""
    made = SystemSelector()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets."""
    near, far = socket.socketpair()
    yield near, far
    near.close()
    far.close()


def has_pending_wakeup(selector: AnySelector) -> bool:
    """Whether the next sleep would end at once."""
    if isinstance(selector, EpollSelector):
        return selector._epoll.poll(0) != []
    try:
        return bool(selector._wake_reader.recv(100, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_events_come_with_their_owner(
    selector: AnySelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Readable, writable, both, and not watched any more."""
    near, far = pair
    selector.register(near, EVENT_READ, "owner")
    assert selector.select(0) == []

    far.send(b"x")
    assert selector.select(LONG_MS) == [("owner", EVENT_READ)]
    selector.modify(near, EVENT_READ | EVENT_WRITE, "other")
    assert selector.select(LONG_MS) == [("other", EVENT_READ | EVENT_WRITE)]
    selector.modify(near, EVENT_WRITE, "other")
    assert selector.select(LONG_MS) == [("other", EVENT_WRITE)]
    selector.unregister(near)
    assert selector.select(0) == []


def test_unread_bytes_are_reported_again(
    selector: AnySelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    """One read per turn may leave bytes behind."""
    near, far = pair
    selector.register(near, EVENT_READ, "owner")
    far.send(b"xyz")

    assert selector.select(LONG_MS) == [("owner", EVENT_READ)]
    near.recv(1)
    assert selector.select(LONG_MS) == [("owner", EVENT_READ)]


def test_a_wakeup_does_not_hide_an_event(
    selector: AnySelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Both are told in one turn."""
    near, far = pair
    selector.register(near, EVENT_READ, "owner")
    far.send(b"x")
    selector.wakeup()

    assert selector.select(LONG_MS) == [("owner", EVENT_READ)]


def test_a_wakeup_before_the_sleep_ends_it_at_once(selector: AnySelector) -> None:
    """It is remembered, however often it came."""
    selector.wakeup()
    selector.wakeup()

    assert selector.select(LONG_MS) == []
    assert not has_pending_wakeup(selector)


def test_a_wakeup_serves_one_sleep(selector: AnySelector) -> None:
    """The next one lasts its time again."""
    selector.wakeup()
    selector.select(LONG_MS)

    assert not has_pending_wakeup(selector)
    assert selector.select(1) == []


@pytest.mark.parametrize("by_waker", [False, True])
def test_another_thread_ends_the_sleep(selector: AnySelector, by_waker: bool) -> None:
    """Whenever it comes, before the sleep or in it."""
    done: list[int] = []
    for _ in range(50):
        thread = threading.Thread(target=selector.waker if by_waker else selector.wakeup)
        thread.start()
        selector.select(LONG_MS)
        done.append(1)
        thread.join()

    assert len(done) == 50


def test_any_number_of_wakeups_end_one_sleep(selector: AnySelector) -> None:
    """Also more than the channel takes: the rest are not waited for."""
    for _ in range(100_000):
        selector.wakeup()
    selector.select(LONG_MS)

    assert not has_pending_wakeup(selector)


def test_a_handler_may_wait_for_the_sleeper_while_its_thread_wakes_it(
    system: SystemSelector,
) -> None:
    """At every line of `wakeup`: the client continues sleeping and waking."""
    lines = 0

    def serve() -> None:
        nonlocal lines
        lines += 1
        client = threading.Thread(target=system.select, args=(0,), daemon=True)
        client.start()
        client.join(10)
        assert not client.is_alive()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_name != "wakeup":
            return None
        if event == "line":
            serve()
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        system.wakeup()
    finally:
        sys.settrace(previous)
    assert lines > 2


def test_no_byte_is_left_behind(selector: AnySelector) -> None:
    """After wake-ups from many threads the channel is empty, or the next sleep would be none."""
    for _ in range(50):
        threads = [threading.Thread(target=selector.wakeup) for _ in range(3)]
        for thread in threads:
            thread.start()
        selector.select(LONG_MS)
        for thread in threads:
            thread.join(30)
    selector.select(0)

    assert not has_pending_wakeup(selector)


def test_a_wakeup_after_close_is_nothing() -> None:
    """An application thread may be late."""
    made = SystemSelector()
    made.close()

    made.wakeup()
    assert made._wake_writer is None


def test_the_descriptor_is_open_for_as_long_as_somebody_may_write_to_it() -> None:
    """Closed by the last who has it, so that its number is nobody else's before."""
    made = SystemSelector()
    waker = made.waker
    assert made._wake_writer is not None
    number = made._wake_writer.fileno()
    made.close()
    assert stat.S_ISSOCK(os.fstat(number).st_mode)
    with pytest.raises(BrokenPipeError):
        waker()
    with pytest.raises(ClosedError):
        _ = made.waker
    del waker
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_the_channel_is_a_local_pair(system: SystemSelector) -> None:
    """No TCP port that a stranger could connect to."""
    assert system._wake_reader.family == socket.AF_UNIX
