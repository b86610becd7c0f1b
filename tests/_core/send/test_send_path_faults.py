"""The send path when things go wrong in the middle: nothing is lost, doubled or left behind."""

import enum
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kprod.producer.future as future_module
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod._core.outcome import batch_result
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.record.compression_buffer import CompressionBuffer
from kprod._core.send.partition_appender import PartitionAppender, TopicRoutes
from kprod.clock import ManualClock
from kprod.errors import ClosedError
from kprod.model import RecordMetadata
from kprod.producer.send_rules import SendRules
from tests._core.plain_path import PlainPath

PARTITION_COUNT = 3


class _Batch:
    """A queue's contents: builder and result."""

    def __init__(self, queue: PartitionAppender, chain: ChunkChain) -> None:
        self.builder = BatchBuilder(chain, 1 << 16)
        self.result = BatchResult(queue.topic, queue.partition)


class _Path(PlainPath):
    """A send path over three partitions that nobody drains."""

    def __init__(
        self, capacity_bytes: int = 1 << 20, large_chunk_bytes: int = 256, **options: Any
    ) -> None:
        self.pool = ChunkPool(
            capacity_bytes, small_chunk_bytes=128, large_chunk_bytes=large_chunk_bytes
        )
        self.clock = ManualClock()
        self.while_opening: Callable[[], object] = lambda: None
        self.while_waiting: Callable[[], object] = lambda: None
        super().__init__(
            self.pool,
            self.clock,
            SendRules(max_block_ms=1000, record_bytes_max=1 << 16, **options),
        )
        queues = [PartitionAppender("orders", partition) for partition in range(PARTITION_COUNT)]
        self.topics["orders"] = TopicRoutes("orders", queues)

    def make_batch(self, queue: PartitionAppender, chain: ChunkChain) -> _Batch:
        self.while_opening()
        return _Batch(queue, chain)

    def wait_for_memory(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        assert timeout_ms == 1000
        self.while_waiting()
        assert waiter.wait(0)
        assert waiter.wait(0), "a satisfied waiter stays so, however often it is asked"

    def queue(self, partition: int) -> PartitionAppender:
        queue: PartitionAppender = self.topics["orders"].queues[partition]
        return queue

    @property
    def counts(self) -> list[int]:
        """Records in each partition's open batch."""
        builders = [self.queue(partition).builder for partition in range(PARTITION_COUNT)]
        return [builder.record_count if builder is not None else 0 for builder in builders]


@pytest.fixture
def restored() -> Iterator[None]:
    """The bridges of futures as they were."""
    yield
    batch_result.register(report_callback_error=future_module._report_callback_error)


class Topics(enum.StrEnum):
    """How many applications name theirs."""

    ORDERS = "orders"


def test_a_topic_may_be_any_kind_of_str() -> None:
    """A subclass is looked up as the text it is."""
    path = _Path()
    path.send(Topics.ORDERS, b"v", partition=0)
    assert path.counts == [1, 0, 0]


@pytest.mark.parametrize("sent_before", [False, True])
@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"topic": b"orders"}, TypeError, "topic must be str, got bytes"),
        ({"topic": None}, TypeError, "topic must be str, got NoneType"),
        ({"partition": 1.0}, TypeError, "partition must be int or None, got float"),
        ({"partition": "1"}, TypeError, "partition must be int or None, got str"),
        ({"partition": 1 << 70}, ValueError, "partition must fit 64 bits"),
        ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms must be int or None, got float"),
        ({"timestamp_ms": 1 << 63}, ValueError, "timestamp_ms must fit 64 bits"),
        ({"headers": 0}, TypeError, "headers must be pairs of .*, got int"),
        ({"headers": "ab"}, TypeError, "a header must be a pair .*, got str"),
        ({"headers": [("h", b"v", 1)]}, TypeError, "a header must be a pair .*, got a tuple of 3"),
        ({"headers": [(b"h", b"v")]}, TypeError, "a header's key must be str, got bytes"),
        (
            {"headers": [("\udc80", b"v")]},
            ValueError,
            "cannot be encoded as UTF-8: surrogates",
        ),
        ({"on_delivery": "call me"}, TypeError, "on_delivery must be callable or None, got str"),
    ],
)
def test_wrong_arguments_are_rejected_at_the_call(
    sent_before: bool, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    """Nothing is appended, nothing posted, no memory taken; also where a topic is known."""
    path = _Path()
    topic = path.topics["orders"].name  # the very same text is found without a look-up
    if sent_before:
        path.send(topic, b"v", partition=0)
    before = path.counts, len(path.inbox), path.pool.lent_bytes
    with pytest.raises(error, match=match):
        path.send(**{"topic": topic, "value": b"v", "partition": 0, **arguments})
    assert before == (path.counts, len(path.inbox), path.pool.lent_bytes)
    assert before[0] == [int(sent_before), 0, 0]


@pytest.mark.parametrize("headers", [(), [], {}, None])
def test_no_headers_come_in_many_shapes(headers: Any) -> None:
    """An empty mapping is as good as none."""
    path = _Path()
    path.send("orders", b"v", partition=0, headers=headers)
    builder = path.queue(0).builder
    assert builder is not None
    assert bytes(builder.records(CompressionBuffer())[-1:]) == b"\0"


def test_turns_are_taken_whatever_the_key() -> None:
    """Each partition gets one in turn, or each of those that may."""
    path = _Path(takes_turns=True)
    for _ in range(6):
        path.send("orders", b"v", key=b"same")
    assert path.counts == [2, 2, 2]
    path.topics["orders"].turns = [0, 2]
    for _ in range(4):
        path.send("orders", b"v")
    assert path.counts == [4, 2, 4]


@pytest.mark.parametrize(
    ("bytes_min", "key", "partition"),
    [(-1, None, 0), (0, None, 2), (0, b"", 0), (1, b"", 2), (1, b"123456789", 0xCBF43926 % 3)],
)
def test_short_keys_may_decide_nothing(bytes_min: int, key: bytes | None, partition: int) -> None:
    """Null counts as −1 bytes; CRC-32 of nothing is 0, so the sticky partition is another one."""
    path = _Path(key_hash=1, hashed_key_bytes_min=bytes_min)
    path.topics["orders"].sticky = 2
    path.send("orders", b"v", key=key)
    assert path.counts[partition] == 1


def test_a_first_record_takes_all_its_memory_at_once() -> None:
    """Two threads that each hold a first chunk and wait for a second would wait for ever."""
    path = _Path()
    path.send("orders", b"x" * 600, partition=0)
    assert path.queue(0).builder.chain.piece_count == 3  # type: ignore[union-attr]
    assert path.pool.lent_bytes == 3 * 256


def test_memory_that_the_system_does_not_have_is_not_counted_as_lent() -> None:
    """The pool would allow it, the allocator fails: at once, or after a wait in line."""
    path = _Path(capacity_bytes=1 << 58, large_chunk_bytes=1 << 58)
    with pytest.raises(MemoryError):
        path.send("orders", b"x" * 600, partition=0)
    assert path.pool.lent_bytes == 0

    path.send("orders", b"x", partition=0)

    def give_back() -> None:
        queue = path.queue(0)
        queue.seal()
        queue.batches.popleft().builder.chain.release()

    path.while_waiting = give_back
    with pytest.raises(MemoryError):
        path.send("orders", b"x" * 600, partition=1)
    assert path.pool.lent_bytes == 0
    assert path.pool.waiter_count == 0


def test_a_producer_that_closes_while_a_batch_is_opened_keeps_no_memory() -> None:
    """The end of all batches may have passed the queue already; so the batch is not put there."""
    path = _Path()

    def close() -> None:
        path.closed_error = lambda: ClosedError("closed")

    path.while_opening = close
    with pytest.raises(ClosedError):
        path.send("orders", b"v", partition=0)
    assert not path.queue(0).batches
    assert path.pool.lent_bytes == 0


def test_a_batch_opened_in_the_middle_by_another_is_used() -> None:
    """The one that came too late gives its memory back."""
    path = _Path()

    def overtake() -> None:
        path.while_opening = lambda: None
        path.send("orders", b"other", partition=0)

    path.while_opening = overtake
    path.send("orders", b"mine", partition=0)
    assert path.counts == [2, 0, 0]
    assert len(path.queue(0).batches) == 1
    assert path.pool.lent_bytes == 128


def test_time_counts_from_the_first_record_of_a_batch() -> None:
    """A batch opened long ago and never used is not old when a record comes."""
    path = _Path()

    def fail() -> None:
        path.while_opening = lambda: None
        raise KeyboardInterrupt

    path.while_opening = fail
    with pytest.raises(KeyboardInterrupt):
        path.send("orders", b"v", partition=0)
    chain = path.pool.try_chain()
    assert chain is not None
    assert path.queue(0).open(_Batch(path.queue(0), chain))
    path.clock.advance(50_000)
    path.send("orders", b"v", partition=0)
    assert path.queue(0).result.created_ms == path.clock.now_ms()  # type: ignore[union-attr]


@pytest.mark.parametrize("error", [BlockingIOError("full"), OSError(9, "closed")])
def test_a_wake_up_that_cannot_be_written_is_none_lost(error: OSError) -> None:
    """Full means that it wakes already; closed that nobody sleeps. The future comes back."""
    path = _Path()

    def wake() -> None:
        raise error

    path.wake = wake
    path.sender_sleeps = True
    assert not path.send("orders", b"v", partition=0).done()
    assert not path.sender_sleeps
    assert list(path.inbox) == [path.queue(0)]


@pytest.mark.usefixtures("restored")
def test_a_log_that_fails_stops_no_callback() -> None:
    """Two faults at once: the callback's, and its handler's."""
    told: list[BaseException] = []

    def report(error: BaseException) -> None:
        told.append(error)
        raise RuntimeError("the log is full")

    batch_result.register(report_callback_error=report)
    path = _Path()
    seen: list[int] = []

    def note(metadata: RecordMetadata | None, _: object) -> None:
        assert metadata is not None
        seen.append(metadata.offset)
        raise ZeroDivisionError

    for _ in range(3):
        path.send("orders", b"v", partition=0, on_delivery=note)
    result = path.queue(0).result
    assert result is not None
    assert result.complete(0)
    assert seen == [0, 1, 2]
    assert len(told) == 3
    assert result.finished


class _Sending:
    """Garbage that sends when it is collected."""

    def __init__(self, send: Callable[[], object]) -> None:
        self.itself = self
        self.send = send

    def __del__(self) -> None:
        self.send()


def test_finalizers_that_send_in_the_middle_of_a_send_disturb_nothing() -> None:
    """The garbage collector may run at any allocation; every callback still comes once."""
    path = _Path(capacity_bytes=1 << 22)
    delivered: list[int] = []
    sent = [0]

    def send() -> None:
        number = sent[0]
        sent[0] += 1
        path.send(
            "orders",
            b"x" * 90,
            partition=number % PARTITION_COUNT,
            headers=[("n", b"1")],
            on_delivery=lambda *_: delivered.append(number),
        )

    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(300):
            _Sending(send)
            send()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert sum(path.counts) == sent[0] == 600
    for partition in range(PARTITION_COUNT):
        for batch in path.queue(partition).batches:
            batch.result.complete(0)
    assert sorted(delivered) == list(range(600))
