"""A topic's queues follow what changes in the cluster, and nothing else is looked at."""

import sys
from types import FrameType, MappingProxyType
from typing import Any

from kprod.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from kprod.producer import topic_queues
from kprod.producer.topic_queues import TopicQueues
from tests.producer.bench import TOPIC, Bench, topic_snapshot

TOPICS = 2_000
PARTITIONS = 4


def _lines_of_routing(bench: Bench) -> int:
    """How many lines of `topic_queues` new metadata costs."""
    lines = 0

    def count(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != topic_queues.__file__:
            return None
        lines += event == "line"
        return count

    previous = sys.gettrace()
    sys.settrace(count)
    try:
        bench.accumulator.route()
    finally:
        sys.settrace(previous)
    return lines


def _show(bench: Bench, topics: dict[str, TopicSnapshot]) -> None:
    bench.producer._kprod.metadata.snapshot = ClusterSnapshot(
        nodes=MappingProxyType(bench.nodes), topics=MappingProxyType(topics)
    )


def test_a_new_snapshot_costs_its_changes() -> None:
    """Two thousand topics; of one a leader changes, of another the number of partitions."""
    bench = Bench()
    topics = {
        name: topic_snapshot([0] * PARTITIONS, name=name)
        for name in (f"topic-{number}" for number in range(TOPICS))
    }
    _show(bench, topics)
    heads = [bench.producer._kprod.support.open_topic(name, 0) for name in topics]
    bench.accumulator.route()

    _show(bench, {**topics, "topic-7": topic_snapshot([1] * PARTITIONS, name="topic-7")})
    assert _lines_of_routing(bench) < 20
    _show(bench, {**topics, "topic-8": topic_snapshot([0] * (PARTITIONS + 1), name="topic-8")})
    assert _lines_of_routing(bench) < 40 + 4 * PARTITIONS

    counts = [head.partition_count for head in heads]
    assert counts == [PARTITIONS + (number == 8) for number in range(TOPICS)]
    bench.producer.close()


def test_a_topic_made_by_an_older_picture_follows_the_newer_one() -> None:
    """Another thread may have read the old number before the sender followed the new one."""
    bench = Bench(leaders=(0, 0))
    _show(bench, {TOPIC: topic_snapshot([0]), "late": topic_snapshot([0] * 4, name="late")})
    bench.turn()

    head = bench.accumulator.topic_queues("late", 2)
    bench.turn()

    assert head.partition_count == 4
    assert [queue.partition for queue in head.queues] == [0, 1, 2, 3]
    bench.producer.close()


def test_growing_a_topic_may_be_interrupted_by_growing_it() -> None:
    """At every line, by a smaller and by a larger number: each partition has one queue."""
    for smaller, larger in [(3, 5), (5, 3), (4, 4)]:
        line, was_interrupted = 0, True
        while was_interrupted:
            line += 1
            was_interrupted = _grow_interrupted(line, smaller, larger)
        assert line > 4


def _grow_interrupted(line: int, inner_count: int, outer_count: int) -> bool:
    head = TopicQueues("orders", 2)
    kept, left = list(head.queues), line
    inner: list[Any] = []

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if frame.f_code is not TopicQueues.grow.__code__:
            return None
        left -= event == "line"
        if left == 0 and not inner:
            head.grow(inner_count)
            inner.extend(head.queues)
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        head.grow(outer_count)
    finally:
        sys.settrace(previous)
    count = max(outer_count, inner_count if inner else 0)
    assert [queue.partition for queue in head.queues] == list(range(count))
    assert head.queues[: len(kept)] == kept
    assert head.queues[: len(inner)] == inner
    assert head.partition_count == count
    return bool(inner)


def test_batches_that_get_no_more_records() -> None:
    """The unsent ones behind which another was opened, until they are compressed."""
    bench = Bench((0,), linger_ms=60_000, batch_size=100, compression_type="gzip")
    for _ in range(4):
        bench.producer.send(TOPIC, b"v" * 90, partition=0)
    (queue,) = bench.accumulator.topics[TOPIC].queues
    assert len(queue.batches) == 4
    full = list(queue.batches)[:3]
    assert queue.full_unpacked(9) == full
    assert queue.full_unpacked(2) == full[:2]
    full[0].pack(b"squeezed")
    assert queue.full_unpacked(9) == full[1:]
    queue.drain_index = 2
    assert queue.full_unpacked(9) == full[2:]
    queue.drain_index = 0
    bench.producer.close(0)


def test_the_next_batches_of_a_leader_come_first() -> None:
    """In the order of the rings, and no more than asked for."""
    bench = Bench((0, 1, 0), linger_ms=60_000, batch_size=100, compression_type="gzip")
    for partition in range(3):
        for _ in range(3):
            bench.producer.send(TOPIC, b"v" * 90, partition=partition)
    accumulator = bench.accumulator
    accumulator.take_inbox(bench.clock.now_ms())
    numbers = [batch.queue.partition for batch in accumulator.next_to_pack(1, 10)]
    assert numbers == [1, 1, 0, 0, 2, 2]
    numbers = [batch.queue.partition for batch in accumulator.next_to_pack(0, 3)]
    assert numbers == [0, 0, 2]
    assert accumulator.next_to_pack(7, 1)[0].queue.partition == 0
    bench.producer.close(0)
