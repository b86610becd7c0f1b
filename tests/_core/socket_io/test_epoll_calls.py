"""The calls of epoll for each record."""

import os
import select
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from kprod._core.clock import SystemClock
from kprod._core.socket_io.epoll_calls import change_events, wait_for_one

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="epoll is Linux's")


class Rung(Exception):
    """The alarm."""


@pytest.fixture(name="pipe")
def make_pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_the_events_are_those_that_were_set_last(pipe: tuple[int, int]) -> None:
    """A descriptor without events is silent, though it is readable."""
    reads, writes = pipe
    with select.epoll() as epoll:
        epoll.register(reads, select.EPOLLIN)
        os.write(writes, b"x")
        assert epoll.poll(0) == [(reads, select.EPOLLIN)]
        change_events(epoll.fileno(), reads, 0)
        assert epoll.poll(0) == []
        change_events(epoll.fileno(), reads, select.EPOLLIN)
        assert epoll.poll(0) == [(reads, select.EPOLLIN)]


def test_a_wait_ends_with_an_event(pipe: tuple[int, int]) -> None:
    """It takes none of a pipe's bytes."""
    reads, writes = pipe
    with select.epoll() as epoll:
        epoll.register(reads, select.EPOLLIN)
        os.write(writes, b"x")
        assert wait_for_one(epoll.fileno(), 3_600_000) == -1
        assert os.read(reads, 2) == b"x"
        assert wait_for_one(epoll.fileno(), 0) == -1
        assert wait_for_one(epoll.fileno(), -5) == -1


def test_a_signal_handler_runs_during_a_wait(pipe: tuple[int, int]) -> None:
    """After one that returns, the time left is told; the exception of another is raised."""
    rung: list[int] = []

    def ring(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature
        rung.append(number)
        if len(rung) > 1:
            raise Rung

    reads, _ = pipe
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with select.epoll() as epoll:
            epoll.register(reads, select.EPOLLIN)
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            assert 3_000_000 < wait_for_one(epoll.fileno(), 3_600_000) < 3_600_000
            with pytest.raises(Rung):
                wait_for_one(epoll.fileno(), 3_600_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(rung) == 2


def test_an_interrupted_wait_is_not_longer(pipe: tuple[int, int]) -> None:
    """The time before the signal counts."""
    reads, _ = pipe
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with select.epoll() as epoll:
            epoll.register(reads, select.EPOLLIN)
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            began_ms, left_ms, rounds = SystemClock().now_ms(), 100, 0
            while left_ms >= 0:
                left_ms, rounds = wait_for_one(epoll.fileno(), left_ms), rounds + 1
            assert rounds > 3
            assert SystemClock().now_ms() - began_ms >= 99  # both clocks are cut to milliseconds
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_closed_epoll_is_an_error() -> None:
    """As for any call of the system."""
    with pytest.raises(OSError, match="Bad file"):
        wait_for_one(-1, 0)
    with pytest.raises(OSError, match="Bad file"):
        change_events(-1, 0, 0)
