"""The compiled send path on its own: a subclass that discards takes the producer's place."""

import gc
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import kprod.producer.future  # registers what futures need of the layers above
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.send.partition_appender import PartitionAppender, TopicRoutes
from kprod.clock import ManualClock
from kprod.errors import BufferTimeout, ClosedError, KprodError, KprodTimeout, RecordTooLarge
from kprod.model import RecordMetadata
from kprod.producer.send_rules import SendRules
from tests._core.plain_path import PlainPath
from tests.oracle import record_v2

if TYPE_CHECKING:
    from kprod._core.outcome.record_future import RecordFuture

assert kprod.producer.future is not None

PARTITION_COUNT = 3


class _Batch:
    """A queue's contents: builder and result."""

    def __init__(self, queue: PartitionAppender, chain: ChunkChain, limit_bytes: int) -> None:
        self.builder = BatchBuilder(chain, limit_bytes)
        self.result = BatchResult(queue.topic, queue.partition)


class _Path(PlainPath):
    """A send path whose batches are never drained but by the test."""

    def __init__(
        self, *, capacity_bytes: int = 1 << 20, limit_bytes: int = 1 << 16, **options: Any
    ) -> None:
        self.pool = ChunkPool(capacity_bytes, small_chunk_bytes=128, large_chunk_bytes=256)
        self.clock = ManualClock()
        self.limit_bytes = limit_bytes
        self.wakes = 0
        self.while_waiting: Callable[[], object] = lambda: None
        super().__init__(
            self.pool,
            self.clock,
            SendRules(max_block_ms=1000, record_bytes_max=1 << 16, **options),
        )
        self.wake = self._count_wake

    def _count_wake(self) -> None:
        self.wakes += 1

    def open_topic(self, topic: str, timeout_ms: int) -> TopicRoutes:
        assert timeout_ms == 1000
        queues = [PartitionAppender(topic, partition) for partition in range(PARTITION_COUNT)]
        self.topics[topic] = TopicRoutes(topic, queues)
        return self.topics[topic]

    def make_batch(self, queue: PartitionAppender, chain: ChunkChain) -> _Batch:
        return _Batch(queue, chain, self.limit_bytes)

    def wait_for_memory(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        self.while_waiting()
        if not waiter.wait(0):
            raise BufferTimeout(f"nothing within {timeout_ms} ms")
        if waiter.closed:
            raise ClosedError("closed")

    def roll_sticky(self, head: TopicRoutes) -> None:
        head.sticky = (head.sticky + 1) % PARTITION_COUNT

    def choose_partition(self, head: TopicRoutes, key: Any, value: Any) -> int:
        del head, key
        return len(value) % PARTITION_COUNT

    def serialize(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any, Any]:
        del topic
        return key, value.encode(), headers

    def too_large_text(self, topic: str, size_bytes: int) -> str:
        return f"{size_bytes} for {topic}"

    def queue(self, partition: int) -> PartitionAppender:
        queue: PartitionAppender = self.topics["orders"].queues[partition]
        return queue

    def drain(self, partition: int) -> list[record_v2.DecodedRecord]:
        """Seal and close all batches of a partition, and give their memory back."""
        queue = self.queue(partition)
        queue.seal()
        records: list[record_v2.DecodedRecord] = []
        while queue.batches:
            batch = queue.batches.popleft()
            if batch.builder.record_count:
                (decoded,) = record_v2.decode_batches(b"".join(batch.builder.close()))
                records += decoded.records
            batch.builder.chain.release()
        return records


def _fill(path: _Path) -> None:
    """Send more than the pool holds."""
    for _ in range(100):
        path.send("orders", b"x" * 100, partition=0)


def test_a_record_reaches_its_partition_with_everything() -> None:
    """Key, value, headers, timestamp and partition are those of the call."""
    path = _Path()
    path.send(
        "orders",
        b"value",
        key=b"key",
        headers=[("h", b"1"), ("h", None)],
        partition=2,
        timestamp_ms=77,
    )
    (record,) = path.drain(2)
    assert record == (0, 77, b"key", b"value", (("h", b"1"), ("h", None)))
    assert path.pool.lent_bytes == 0


def test_without_timestamp_the_wall_clock_stamps() -> None:
    """The monotonic clock has another origin, so a mix-up would show."""
    path = _Path()
    path.send("orders", b"v", partition=0)
    assert path.drain(0)[0].timestamp_ms == path.clock.timestamp_ms()


def test_a_key_decides_the_partition_as_in_java() -> None:
    """murmur2("21") is −973932308: masked, modulo 3, that is partition 1."""
    path = _Path()
    path.send("orders", b"v", key=b"21")
    expected = (-973932308 & 0x7FFFFFFF) % PARTITION_COUNT
    assert [r.value for r in path.drain(expected)] == [b"v"]


@pytest.mark.parametrize("wrap", [bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_any_bytes_like_value_is_copied(wrap: Callable[[bytes], Any]) -> None:
    """A buffer may change, and shrink, after the call."""
    path = _Path()
    value = wrap(b"before")
    path.send("orders", value, key=wrap(b"k"), partition=0)
    if isinstance(value, bytearray):
        value[:] = b"x"
    record = path.drain(0)[0]
    assert (record.key, record.value) == (b"k", b"before")


def test_records_without_key_stick_until_the_batch_is_full() -> None:
    """The sticky partition is rolled when its batch takes no more."""
    path = _Path(limit_bytes=300)
    for _ in range(9):
        path.send("orders", b"x" * 60)
    assert [len(path.drain(partition)) for partition in range(PARTITION_COUNT)] == [3, 3, 3]


def test_keys_can_be_ignored() -> None:
    """With `partitioner_ignore_keys` a keyed record goes where the others go."""
    path = _Path(hashed_key_bytes_min=1 << 31)
    for number in range(20):
        path.send("orders", b"v", key=b"%d" % number)
    assert len(path.drain(0)) == 20


def test_partitioner_and_serializers_are_asked() -> None:
    """Their results are appended."""
    path = _Path(has_partitioner=True, has_serializers=True)
    path.send("orders", "four")
    assert [r.value for r in path.drain(1)] == [b"four"]


def test_the_first_record_of_a_batch_is_posted_and_wakes_once() -> None:
    """Appending to an open batch never wakes; a sender that is awake is left alone."""
    path = _Path()
    path.sender_sleeps = True
    for _ in range(3):
        path.send("orders", b"v", partition=0)
    path.send("orders", b"v", partition=1)
    assert list(path.inbox) == [path.queue(0), path.queue(1)]
    assert path.wakes == 1


def test_records_that_go_round_many_partitions_arrive_in_order() -> None:
    """Each send looks ahead at the next three queues: unused, open, sealed, full, or not there."""
    path, count, turns = _Path(limit_bytes=200), 120, 6
    path.topics["orders"] = TopicRoutes(
        "orders", [PartitionAppender("orders", p) for p in range(count)]
    )
    for turn in range(turns):
        for partition in range(turn, count):
            path.send("orders", b"%40d" % turn, partition=partition)
            if partition % 7 == turn:
                path.queue(min(partition + turn, count - 1)).seal()
    for partition in range(count):
        values = [int(record.value or b"") for record in path.drain(partition)]
        assert values == list(range(min(partition + 1, turns)))
    assert path.pool.lent_bytes == 0


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"value": "text"}, TypeError, "value must be bytes-like or None, got str: encode it"),
        ({"value": 7}, TypeError, "got int: serialize it, or set value_serializer"),
        ({"key": 1.5}, TypeError, "key must be bytes-like or None, got float"),
        ({"partition": -1}, ValueError, "partition must be >= 0, got -1"),
        ({"timestamp_ms": -2}, ValueError, "timestamp_ms must be >= 0, got -2"),
        ({"headers": [("h", "v")]}, TypeError, "header 'h' must be bytes-like or None, got str"),
        ({"value": b"x" * 65_536}, RecordTooLarge, "65623 for orders"),
    ],
)
def test_bad_input_is_rejected_and_nothing_is_appended(
    arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    """The error is raised by the call, and no memory is lost."""
    path = _Path()
    path.send("orders", b"good", partition=0)
    before = path.pool.lent_bytes
    with pytest.raises(error, match=match):
        path.send("orders", **{"value": b"v", "partition": 0, **arguments})
    assert path.pool.lent_bytes == before
    assert [r.value for r in path.drain(0)] == [b"good"]


def test_a_rejection_is_raised_by_every_send() -> None:
    """A closed producer says so."""
    path = _Path()
    path.closed_error = lambda: ClosedError("the producer is closed")
    with pytest.raises(ClosedError, match="is closed"):
        path.send("orders", b"v")


def test_an_exhausted_pool_makes_the_caller_wait_and_fails_with_its_memory_kept() -> None:
    """The waiter leaves the queue, and records appended before stay."""
    path = _Path(capacity_bytes=1024)
    with pytest.raises(BufferTimeout):
        _fill(path)
    assert path.pool.waiter_count == 0
    assert not path.pool.has_waiters
    count = len(path.drain(0))
    assert 5 < count < 12
    assert path.pool.lent_bytes == 0


def test_memory_that_comes_back_goes_to_the_waiter() -> None:
    """A drain during the wait lets the send continue, in a new batch on the granted chunks."""
    path = _Path(capacity_bytes=1024)
    drained: list[record_v2.DecodedRecord] = []
    path.while_waiting = lambda: drained.extend(path.drain(0))
    for number in range(50):
        path.send("orders", b"%03d" % number + b"x" * 97, partition=0)
    values = [r.value for r in drained + path.drain(0)]
    assert values == [b"%03d" % number + b"x" * 97 for number in range(50)]
    assert path.pool.lent_bytes == 0


def test_an_interrupted_wait_leaves_no_trace() -> None:
    """Whatever a signal handler raises in the wait, the line and the memory are as before."""
    path = _Path(capacity_bytes=1024)

    def interrupt() -> None:
        raise KeyboardInterrupt

    path.while_waiting = interrupt
    with pytest.raises(KeyboardInterrupt):
        _fill(path)
    assert path.pool.waiter_count == 0
    path.drain(0)
    assert path.pool.lent_bytes == 0


def test_closing_the_pool_wakes_the_waiter() -> None:
    """A send that waits for memory ends with the producer."""
    path = _Path(capacity_bytes=1024)
    path.while_waiting = path.pool.close
    with pytest.raises(ClosedError):
        _fill(path)


def test_a_future_resolves_with_its_own_offset_and_sizes() -> None:
    """Base offset plus index; the caller's timestamp unless the broker stamped."""
    path = _Path()
    first = path.send("orders", b"v", key=b"key", partition=0, timestamp_ms=5)
    second = path.send("orders", None, partition=0, timestamp_ms=6)
    result = path.queue(0).result
    assert result is not None
    assert not first.done()
    assert result.complete(100)
    assert first.result(0) == RecordMetadata("orders", 0, 100, 5, 3, 1)
    assert second.result(0) == RecordMetadata("orders", 0, 101, 6, -1, -1)
    path.drain(0)


def test_the_broker_s_timestamp_goes_before_the_caller_s() -> None:
    """Log append time is one time for the whole batch."""
    path = _Path()
    future = path.send("orders", b"v", partition=0, timestamp_ms=5)
    assert path.queue(0).result.complete(0, 999)  # type: ignore[union-attr]
    assert future.result(0).timestamp_ms == 999
    path.drain(0)


def test_an_error_is_raised_afresh_by_each_result() -> None:
    """Two callers get two exceptions of one kind, so that tracebacks do not pile up."""
    path = _Path()
    future = path.send("orders", b"v", partition=0)
    error = KprodError("lost")
    assert path.queue(0).result.complete(error=error)  # type: ignore[union-attr]
    raised = []
    for _ in range(2):
        with pytest.raises(KprodError, match="lost") as info:
            future.result(0)
        raised.append(info.value)
    assert raised[0] is not raised[1]
    assert future.exception(0) is error
    path.drain(0)


def test_record_errors_go_before_the_batch_s() -> None:
    """KIP-467: the broker names the records at fault."""
    path = _Path()
    futures = [path.send("orders", b"v", partition=0) for _ in range(3)]
    bad, rest = KprodError("bad record"), KprodError("part of a bad batch")
    path.queue(0).result.complete(error=rest, record_errors={1: bad})  # type: ignore[union-attr]
    assert [future.exception(0) for future in futures] == [rest, bad, rest]
    path.drain(0)


def test_callbacks_run_in_record_order_and_faults_are_isolated() -> None:
    """Each gets metadata or error; one that raises, whatever it raises, stops nothing."""
    path = _Path()
    seen: list[int] = []

    def note(metadata: RecordMetadata | None, error: KprodError | None) -> None:
        assert error is None
        assert metadata is not None
        seen.append(metadata.offset)
        raise SystemExit

    futures = [path.send("orders", b"v", partition=0, on_delivery=note) for _ in range(3)]
    futures[2].add_done_callback(lambda _: seen.append(-2))
    futures[0].add_done_callback(lambda _: seen.append(-1))
    path.queue(0).result.complete(10)  # type: ignore[union-attr]
    assert seen == [10, -1, 11, 12, -2]
    path.drain(0)


def test_a_late_done_callback_runs_at_once() -> None:
    """The record is settled already, so the caller's thread runs it."""
    path = _Path()
    future = path.send("orders", b"v", partition=0)
    path.queue(0).result.complete(0)  # type: ignore[union-attr]
    seen: list[RecordFuture] = []
    future.add_done_callback(seen.append)
    assert seen == [future]
    path.drain(0)


def test_a_batch_is_settled_once() -> None:
    """The second outcome is ignored, and says so."""
    result = BatchResult("orders", 0)
    assert result.complete(5)
    assert not result.complete(error=KprodError("late"))
    assert (result.base_offset, result.error) == (5, None)


def test_futures_follow_a_split_through_every_level() -> None:
    """Forwarded twice, each record finds its own part; callbacks move along."""
    path = _Path()
    offsets: list[int] = []
    futures = [
        path.send(
            "orders",
            b"v",
            partition=0,
            on_delivery=lambda metadata, _: offsets.append(metadata.offset),  # type: ignore[union-attr]
        )
        for _ in range(4)
    ]
    whole = path.queue(0).result
    assert whole is not None
    left, right, middle = (BatchResult("orders", 0) for _ in range(3))
    whole.forward([(0, left), (2, right)])
    last = BatchResult("orders", 0)
    right.forward([(0, middle), (1, last)])
    assert not whole.wait_finished(0)
    for part, offset in ((left, 10), (middle, 20), (last, 30)):
        part.complete(offset)
    assert whole.wait_finished(0)
    assert [future.result(0).offset for future in futures] == [10, 11, 20, 30]
    assert offsets == [10, 11, 20, 30]
    assert whole.failed_count(4) == 0
    path.drain(0)


def test_a_waiting_thread_is_woken_by_the_outcome() -> None:
    """`result` blocks until the batch is complete."""
    path = _Path()
    future = path.send("orders", b"v", partition=0)
    got: list[RecordMetadata] = []
    thread = threading.Thread(target=lambda: got.append(future.result(30)))
    thread.start()
    path.queue(0).result.complete(3)  # type: ignore[union-attr]
    thread.join(30)
    assert got[0].offset == 3
    path.drain(0)


def test_a_timeout_leaves_the_record_on_its_way() -> None:
    """The error says so, and a later result succeeds."""
    path = _Path()
    future = path.send("orders", b"v", partition=0)
    with pytest.raises(KprodTimeout, match="was not settled within 0 s; it continues"):
        future.result(0)
    path.queue(0).result.complete(0)  # type: ignore[union-attr]
    assert future.result(0).offset == 0
    path.drain(0)


def test_futures_are_not_tracked_by_the_garbage_collector() -> None:
    """A million kept futures must not be walked by each collection."""
    path = _Path()
    assert not gc.is_tracked(path.send("orders", b"v", partition=0))
    path.drain(0)
