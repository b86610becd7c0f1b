"""Counters against a literal sum of the reports."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.metrics.counters import Counting, NotCounting
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod.clock import ManualClock

TURNS_AT_MS = 60_000
EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1 << 40), st.integers(0, 1_000)), max_size=20
)


class Batch(NamedTuple):
    """The measured fields of a batch."""

    builder: BatchBuilder
    result: BatchResult


def _batch(topic: str, values: list[bytes], created_ms: int) -> Batch:
    chain = ChunkPool(1 << 20).try_chain(large=True)
    assert chain is not None
    builder = BatchBuilder(chain, 1 << 16)
    for value in values:
        builder.try_append(1, None, value, ())
    builder.close()
    result = BatchResult(topic, 0)
    result.created_ms = created_ms
    return Batch(builder, result)


def test_a_request_of_two_batches() -> None:
    """The whole has both, each topic its own; times are from the batch's first record."""
    counting = Counting(ManualClock(), TURNS_AT_MS)
    first, second = _batch("a", [b"x" * 50] * 3, 100), _batch("b", [b"y"], 130)
    counting.produced([first, second], 150)
    whole = counting.producer
    assert (whole.batches, whole.records, whole.produce_requests) == (2, 4, 1)
    assert (whole.queued_ms, whole.queued_ms_max) == (50 + 20, 50)
    assert whole.encoded_bytes == first.builder.encoded_bytes + second.builder.encoded_bytes
    assert whole.encoded_bytes_max == first.builder.encoded_bytes
    assert whole.plain_bytes == first.builder.size_bytes + second.builder.size_bytes
    assert {name: topic.records for name, topic in counting.topics.items()} == {"a": 3, "b": 1}


def test_a_batch_may_be_younger_than_the_turn_that_sends_it() -> None:
    """Begun and filled after the turn's time was taken: it has not been queued for less than 0."""
    counting = Counting(ManualClock(), TURNS_AT_MS)
    counting.produced([_batch("a", [b"x"], 105)], 100)
    assert counting.producer.queued_ms == 0


@given(EVENTS)
def test_sums_and_peaks_of_requests(events: list[tuple[int, int, int]]) -> None:
    """The sums and peaks of all nodes together, and of each."""
    counting = Counting(ManualClock(), TURNS_AT_MS)
    for node_id, size_bytes, latency_ms in events:
        counting.requested(node_id, size_bytes)
        counting.responded(node_id, latency_ms)
        counting.answered(node_id, latency_ms, latency_ms // 2)
    whole = counting.producer
    assert whole.requests == whole.responses == whole.answers == len(events)
    assert whole.request_bytes == sum(size for _, size, _ in events)
    assert whole.request_bytes_max == max((size for _, size, _ in events), default=0)
    assert whole.latency_ms == sum(latency for _, _, latency in events)
    assert whole.throttled_ms_max == max((latency // 2 for _, _, latency in events), default=0)
    for node_id, node in counting.nodes.items():
        own = [event for event in events if event[0] == node_id]
        assert node.request_bytes == sum(size for _, size, _ in own)
        assert node.latency_ms_max == max(latency for _, _, latency in own)
    assert counting.nodes.keys() == {node_id for node_id, _, _ in events}


def test_sleep_and_work_are_told_apart() -> None:
    """And `turn` is called in the first turn past its time, not before."""
    turned: list[int] = []

    class Turning(Counting):
        def next_window(self, now_ms: int) -> int:
            turned.append(now_ms)
            return now_ms + 100

    clock = ManualClock()
    counting = Turning(clock, clock.now_ms() + 10)
    for asleep_ms, busy_ms in ((5, 2), (50, 3), (1, 1)):
        counting.falls_asleep()
        clock.advance(asleep_ms)
        counting.wakes_up()
        clock.advance(busy_ms)
        counting.has_served(clock.now_ms())
    whole = counting.producer
    assert (whole.selects, whole.waited_ns, whole.served_ns) == (3, 56_000_000, 6_000_000)
    assert turned == [5_000 + 60]


def test_the_silent_one_takes_the_same_calls() -> None:
    """Name by name."""
    calls = {name for name in dir(NotCounting) if not name.startswith("_")}
    assert calls == {name for name in dir(Counting) if not name.startswith("_")} - {
        "callers",
        "make_node",
        "make_topic",
        "next_window",
        "nodes",
        "producer",
        "topics",
    }
