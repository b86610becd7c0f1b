"""A read on the direct path that meets a MemoryError."""

import threading
from typing import Any

import pytest

from kprod.consumer.consumer_face import engine_of
from kprod.consumer.fetch_repeat import FetchRepeat
from kprod.network import epoll_selector
from tests.consumer.direct_read.line import Line
from tests.consumer.direct_read.test_fetch_repeat import owned
from tests.consumer.reading import CLOCK, wait_until

pytestmark = pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)

PROMPT_MS = 5_000  # without a wakeup the I/O thread sleeps for a minute


class ShortRepeat(FetchRepeat):
    """A repeat that has no memory once to decide whether a response is the usual one."""

    threads: list[int]

    def accepts(self, *args: Any) -> bool:
        """Raise, or decide."""
        self.threads.append(threading.get_ident())
        if len(self.threads) == 1:
            raise MemoryError
        return bool(super().accepts(*args))


def _read_next(line: Line) -> None:
    """Wait for a record on the direct path, and get it at once."""
    wait_until(line.sleeps, "the I/O thread sleeps")
    began_ms = CLOCK.now_ms()
    with line.sending_when_waited_for():
        line.read()
    assert CLOCK.now_ms() - began_ms < PROMPT_MS


def test_without_memory_to_decide_the_response_goes_the_general_way(line: Line) -> None:
    """Nothing is lost, and the connection stays."""
    with owned(line) as usual:
        repeat = ShortRepeat(
            usual.fetcher,
            usual.metadata,
            plan=usual.plan,
            buffer=usual.buffer,
            topics=usual.repeat._topics,
        )
        repeat.threads = []
        line.direct._repeat = repeat
        request, transport = usual.request, usual.connection.channel.transport
        count = usual.fetcher.counts.fetch_count
    while not repeat.threads:  # the I/O thread may have read a response
        _read_next(line)
    assert repeat.threads[0] == threading.get_ident()
    with owned(line) as usual:
        assert usual.request is not request
        assert usual.connection.channel.transport is transport
        assert usual.fetcher.counts.fetch_count > count
    for _ in range(3):
        _read_next(line)
    assert len(repeat.threads) > 1


@pytest.mark.parametrize("is_late", [False, True])
def test_a_completion_that_raises_wakes_the_thread_that_fetches_again(
    line: Line, *, is_late: bool
) -> None:
    """Before the response is processed, and after it; no record comes twice or never."""
    fetcher = engine_of(line.consumer).parts.fetcher
    completion, reader = fetcher._on_fetched, threading.get_ident()
    raised: list[object] = []

    def complete(request: Any, outcome: Any) -> None:
        has_records = outcome.body is not None and outcome.body.records is not None
        if not has_records or raised or threading.get_ident() != reader:
            completion(request, outcome)
            return
        raised.append(outcome)
        if is_late:
            completion(request, outcome)
        raise MemoryError

    fetcher._on_fetched = complete
    while not raised:  # the first request has the real completion still
        with owned(line) as usual:
            usual.request.repeated = None  # it goes the general way
        _read_next(line)
    for _ in range(3):
        _read_next(line)
    with owned(line) as usual:
        usual.buffer.take_freed()
        assert usual.buffer.held_bytes == 0
        assert usual.partition.ahead_count == 0
        assert fetcher.asked_bytes == {usual.request.node_id: usual.request.bytes_max}
