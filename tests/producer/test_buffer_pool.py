"""Waits for memory: which callers wait, how long, and their errors."""

import threading
from typing import Any

import pytest

from kprod._core.memory.chunk_pool import ChunkChain
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.send.partition_appender import PartitionAppender, TopicRoutes
from kprod.clock import SystemClock
from kprod.config import AccumulatorSettings
from kprod.errors import BufferTimeout, ClosedError, LocalProtocolError
from kprod.producer.buffer_pool import BufferPool
from kprod.producer.send_rules import SendRules
from tests._core.plain_path import PlainPath

LARGE = 16_384
WAIT_S = 30.0  # ends a broken test, never its rhythm


def _settings(**changes: Any) -> AccumulatorSettings:
    plain: dict[str, Any] = {
        "batch_size": 1_000_000,
        "linger_ms": 5,
        "buffer_memory": 4 * LARGE,
        "max_block_ms": 30_000,
        "max_request_size": 1_048_576,
        "delivery_timeout_ms": 120_000,
        "on_buffer_full": "block",
    }
    return AccumulatorSettings(**{**plain, **changes})


class _Batch:
    def __init__(self, queue: PartitionAppender, chain: ChunkChain) -> None:
        self.builder = BatchBuilder(chain, 1_000_000)
        self.result = BatchResult(queue.topic, queue.partition)


class _Path(PlainPath):
    """Sends into a real pool; nothing is drained but by `release`."""

    def __init__(self, **changes: Any) -> None:
        settings = _settings(**changes)
        self.shortages = 0
        self.arrived = threading.Semaphore(0)
        self.pool = BufferPool(settings, self._on_shortage)
        rules = SendRules(max_block_ms=settings.max_block_ms, record_bytes_max=1 << 20)
        super().__init__(self.pool, SystemClock(), rules)
        queues = [PartitionAppender("orders", partition) for partition in range(8)]
        self.topics["orders"] = TopicRoutes("orders", queues)

    def _on_shortage(self) -> None:
        self.shortages += 1
        self.arrived.release()

    def make_batch(self, queue: PartitionAppender, chain: ChunkChain) -> _Batch:
        return _Batch(queue, chain)

    def wait_for_memory(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        self.pool.wait_for(waiter, timeout_ms)

    def take(self, partition: int, chunk_count: int) -> None:
        """Send a record that needs this many large chunks, or raise."""
        self.send("orders", b"x" * (chunk_count * LARGE - 200), partition=partition)

    def release(self, partition: int) -> None:
        """Give a partition's memory back."""
        queue = self.topics["orders"].queues[partition]
        batch = queue.batches.popleft()
        if queue.builder is batch.builder:
            queue.seal()
        batch.builder.chain.release()

    def start(self, partition: int, chunk_count: int) -> "_Sender":
        """Take in a thread of its own, and come back when it is in the queue."""
        sender = _Sender(self, partition, chunk_count)
        sender.start()
        assert self.arrived.acquire(timeout=WAIT_S)
        return sender


class _Sender(threading.Thread):
    """One `send` that waits for memory, and how it ended."""

    def __init__(self, path: _Path, partition: int, chunk_count: int) -> None:
        super().__init__()
        self._path, self._partition, self._count = path, partition, chunk_count
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._path.take(self._partition, self._count)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def ended(self) -> Exception | None:
        """Wait for its end; why it failed, or None."""
        self.join(WAIT_S)
        assert not self.is_alive()
        return self.error


def test_a_large_request_is_not_overtaken() -> None:
    """It came first: every byte that comes back is its own until it has enough."""
    path = _Path()
    for partition in range(4):
        path.take(partition, 1)
    large, small = path.start(4, 3), path.start(5, 1)
    path.release(0)
    path.release(1)
    assert path.pool.waiter_count == 2
    assert path.pool.available_bytes == 0
    path.release(2)
    assert large.ended() is None
    assert path.pool.waiter_count == 1
    path.release(3)
    assert small.ended() is None
    assert path.pool.lent_bytes == 4 * LARGE


def test_one_return_satisfies_as_many_as_it_can() -> None:
    """In the order of their arrival."""
    path = _Path()
    path.take(0, 4)
    first, second, third = path.start(1, 2), path.start(2, 2), path.start(3, 1)
    path.release(0)
    assert first.ended() is second.ended() is None
    assert path.pool.waiter_count == 1
    path.release(1)
    assert third.ended() is None


def test_a_newcomer_does_not_take_what_the_first_in_line_needs() -> None:
    """Though there is enough for it."""
    path = _Path()
    path.take(0, 3)
    large = path.start(1, 3)
    newcomer = path.start(2, 1)
    assert path.pool.waiter_count == 2
    path.release(0)
    assert large.ended() is newcomer.ended() is None


def test_a_waiter_that_gives_up_leaves_its_part_to_the_next() -> None:
    """A timeout returns partial grants and the place in line; the text has the figures."""
    path = _Path(max_block_ms=30)
    path.take(0, 3)
    with pytest.raises(
        BufferTimeout,
        match=r"needs 32768 more bytes of buffer; 16384 of buffer_memory=65536 are available, 1"
        r" sends? waits? for some, and no more came free within max_block_ms=30\. Send slower, or"
        r" raise buffer_memory or max_block_ms",
    ):
        path.take(1, 2)
    assert path.pool.waiter_count == 0
    assert path.pool.available_bytes == LARGE
    path.take(1, 1)
    assert path.shortages == 1


@pytest.mark.parametrize("changes", [{"max_block_ms": 0}, {"on_buffer_full": "raise"}])
def test_a_caller_that_may_not_wait_is_told_at_once(changes: dict[str, Any]) -> None:
    """And the open batches are sent all the same, so that the next send may succeed."""
    path = _Path(**changes)
    path.take(0, 4)
    with pytest.raises(BufferTimeout, match="0 of buffer_memory=65536 are available"):
        path.take(1, 1)
    assert (path.shortages, path.pool.waiter_count) == (1, 0)


def test_raising_names_its_own_remedy() -> None:
    """`max_block_ms` would not help."""
    path = _Path(on_buffer_full="raise")
    path.take(0, 4)
    with pytest.raises(BufferTimeout, match=r"on_buffer_full is 'raise'.*let sends wait"):
        path.take(1, 1)


def test_closing_wakes_everyone_and_memory_still_comes_back() -> None:
    """Nobody joins the line afterwards."""
    path = _Path()
    path.take(0, 3)
    waiting = [path.start(1, 2), path.start(2, 1)]
    path.pool.close()
    assert all(isinstance(sender.ended(), ClosedError) for sender in waiting)
    with pytest.raises(ClosedError):
        path.take(3, 4)
    assert path.pool.waiter_count == 0
    path.release(0)
    assert path.pool.lent_bytes == 0


def test_many_threads_at_the_limit_all_get_through() -> None:
    """Four senders and a drain that gives back: nobody is left waiting, nothing is left lent."""
    path = _Path(buffer_memory=3 * LARGE)
    done = threading.Event()

    def run(partition: int) -> None:
        for number in range(200):
            path.send("orders", b"x" * (number * 97 % 30_000), partition=partition)

    def drain() -> None:
        while True:
            is_last = done.is_set()
            for partition, queue in enumerate(path.topics["orders"].queues):
                for _ in list(queue.batches):
                    path.release(partition)
            if is_last:
                return
            path.arrived.acquire(timeout=0.001)

    drainer = threading.Thread(target=drain)
    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in [drainer, *threads]:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    done.set()
    drainer.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert (path.pool.lent_bytes, path.pool.waiter_count) == (0, 0)
    assert path.pool.cached_bytes <= path.pool.capacity_bytes


@pytest.mark.parametrize("poisons", [True, False])
def test_returned_memory_is_poisoned_if_asked_for(poisons: bool) -> None:
    """The pattern makes use after return visible; without it memory stays as it was."""
    pool = BufferPool(_settings(), lambda: None, poisons=poisons)
    chain = pool.try_chain()
    assert chain is not None
    (chunk,) = chain.chunks()
    chain.release()
    assert (bytes(chunk) == b"\xdd" * 2048) == poisons
    with pytest.raises(LocalProtocolError, match="released twice"):
        chain.release()
