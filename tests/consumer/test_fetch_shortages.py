"""A fetch whose completion raises: it is made again, and no record comes twice or never."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.fetch_buffer import FetchBuffer, FetchedBlock, ResponseMemory
from kprod.consumer.position import AssignedPartition, new_start
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.consumer.shortages import Shortage
from tests.consumer.test_scripted import log_of
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import LogCluster

RECORDS = 12
BACKOFF_MS = 250  # `retry_backoff_ms` with jitter, and the time of the exchanges
CALM_MAX = 4  # allocations in a row without an error: there are no more


def _cluster(partitions: int) -> LogCluster:
    batches = [[b"%d" % number, b"x"] for number in range(0, RECORDS, 2)]
    return LogCluster(*(log_of(*batches) for _ in range(partitions)))


def _read(consumer: Consumer, cluster: LogCluster, partitions: int) -> int:
    """Read everything, each record once and in order; returns the milliseconds that it took."""
    began_ms = cluster.clock.now_ms()
    records = scripted_poll(consumer, partitions * RECORDS, seconds=5)
    took_ms = cluster.clock.now_ms() - began_ms
    records += scripted_poll(consumer, 1, seconds=0.5)  # there is no other
    for number in range(partitions):
        offsets = [record.offset for record in records if record.partition == number]
        assert offsets == list(range(RECORDS))
    return took_ms


def _check_settled(consumer: Consumer) -> None:
    """No memory is held for a block that nobody gets, and no partition counts as full."""
    parts = engine_of(consumer).parts
    parts.buffer.take_freed()
    assert parts.buffer.held_bytes == 0
    assert not any(it.ahead_count for it in parts.assignment.partitions.values())


def _shortages(partitions: int) -> Iterator[Shortage]:
    """Read with each allocation of a completion failing in turn."""
    usual_ms = -1
    calm_count = 0
    for allocation in itertools.count(1):
        cluster, shortage = _cluster(partitions), Shortage(2, allocation)
        with scripted_consumer(cluster, "orders", max_partition_fetch_bytes=100) as consumer:
            fetcher = engine_of(consumer).parts.fetcher
            completion = fetcher._on_fetched

            def complete(
                request: Any, outcome: Any, run: Any = shortage.run, real: Any = completion
            ) -> None:
                run(lambda: real(request, outcome))

            fetcher._on_fetched = complete
            took_ms = _read(consumer, cluster, partitions)
            _check_settled(consumer)
        if usual_ms < 0:
            usual_ms = took_ms
        assert took_ms < usual_ms + BACKOFF_MS
        yield shortage
        calm_count = 0 if shortage.has_raised else calm_count + 1
        if calm_count > CALM_MAX:
            return


@pytest.mark.parametrize("partitions", [1, 3])
def test_no_record_is_lost_or_comes_twice_without_memory_for_a_response(partitions: int) -> None:
    """A response about one partition, and one about several, are processed in different ways."""
    shortages = list(_shortages(partitions))
    assert all(shortage.was_called for shortage in shortages)
    assert sum(shortage.has_raised for shortage in shortages) >= 8 * partitions


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_any_other_exception_is_like_a_lost_connection(partitions: int, *, is_late: bool) -> None:
    """Before the response is processed, and after it."""
    cluster = _cluster(partitions)
    raised: list[object] = []
    with scripted_consumer(cluster, "orders", max_partition_fetch_bytes=100) as consumer:
        fetcher = engine_of(consumer).parts.fetcher
        completion = fetcher._on_fetched

        def complete(request: Any, outcome: Any) -> None:
            if outcome.body is None or raised:
                completion(request, outcome)
                return
            raised.append(outcome)
            if is_late:
                completion(request, outcome)
            raise RuntimeError("planted")

        fetcher._on_fetched = complete
        assert _read(consumer, cluster, partitions) < 2 * BACKOFF_MS
        _check_settled(consumer)
    assert raised


def test_a_partition_that_a_response_names_twice_is_taken_once() -> None:
    """The second part is of the same offset."""
    cluster = _cluster(2)
    changed: list[dict[str, Any]] = []

    def twice(served: LogCluster, node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.FETCH or changed:
            return None
        answer = served.usual_response(node_id, request)
        for topic in answer["responses"]:
            topic["partitions"] = topic["partitions"][:1] * 2
        changed.append(answer)
        return answer

    cluster.rules.append(twice)
    with scripted_consumer(cluster, "orders", max_partition_fetch_bytes=100) as consumer:
        _read(consumer, cluster, 2)
        _check_settled(consumer)
    assert len(changed[0]["responses"][0]["partitions"]) == 2


class _Crowded:
    """A queue that has room for some entries only."""

    def __init__(self, room: int) -> None:
        self.entries: list[object] = []
        self.room = room

    def append(self, entry: object) -> None:
        """Add an entry, or raise."""
        if len(self.entries) == self.room:
            raise MemoryError
        self.entries.append(entry)


@pytest.mark.parametrize("room", range(3))
def test_blocks_that_find_no_room_are_not_counted(room: int) -> None:
    """Their partitions stay where they are; the others free the memory."""
    buffer, memory = FetchBuffer(1_000, lambda: None), ResponseMemory(100)
    queue: Any = _Crowded(room)
    queues = buffer._arrived
    blocks: list[FetchedBlock] = []
    for number in range(3):
        partition = AssignedPartition(TopicPartition("orders", number), new_start(0))
        partition.fetch_from(5, -1)
        records = memoryview(bytes(30))
        blocks.append(FetchedBlock(partition, 1, 5, records, (), memory, 7, 2))
    buffer._arrived = queue
    with pytest.raises(MemoryError):
        buffer.add(blocks, memory)
    buffer._arrived = queues
    passed = [block in queue.entries for block in blocks]
    assert passed.count(True) == room
    for block, was_passed in zip(blocks, passed, strict=True):
        partition = block.partition
        assert (partition.fetch_offset, partition.fetch_epoch) == (
            (7, 2) if was_passed else (5, -1)
        )
        assert partition.ahead_count == was_passed
        buffer.free(block)
        assert partition.ahead_count == 0
    buffer.take_freed()
    assert buffer.held_bytes == 0
