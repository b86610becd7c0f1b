"""A batch too large for the broker, cut in two: records, sequences, bytes and futures follow."""

from collections.abc import Callable
from typing import Any

import pytest

import kprod.producer.future  # registers what futures need of the layers above
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.outcome.record_future import RecordFuture
from kprod.clock import ManualClock
from kprod.compression import compressor
from kprod.errors import RecordTooLarge
from kprod.model import Codec
from kprod.producer.batch import NO_SEQUENCE, ProducerBatch
from kprod.producer.batch_compression.batch_compressor import BatchCompressor
from kprod.producer.partition_queue import PartitionQueue
from kprod.producer.send_rules import SendRules
from kprod.producer.split import split
from kprod.producer.topic_queues import TopicQueues
from tests._core.plain_path import PlainPath
from tests.oracle import record_v2

assert kprod.producer.future is not None

BASE_MS = 1_700_000_000_000
PARTITION = 2
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class _Path(PlainPath):
    """A send path into one topic whose batches the test takes out."""

    def __init__(self) -> None:
        self.pool = ChunkPool(1 << 22, small_chunk_bytes=128, large_chunk_bytes=512)
        options = SendRules(max_block_ms=0, record_bytes_max=1 << 20)
        super().__init__(self.pool, ManualClock(), options)
        self.head = TopicQueues("orders", PARTITION + 1)
        self.topics["orders"] = self.head

    def make_batch(self, queue: Any, chain: ChunkChain) -> ProducerBatch:
        return ProducerBatch(queue, chain, 1 << 20, 77)

    @property
    def queue(self) -> PartitionQueue:
        return self.head.queues[PARTITION]


def _rows(count: int) -> list[Row]:
    """Records of all shapes, with timestamps on both sides of the first."""
    return [
        (
            BASE_MS + (-1) ** index * index * 1_000,
            None if index % 3 == 0 else b"key-%d" % index,
            None if index % 7 == 3 else b"value %d " % index * (index % 5),
            (("n", b"%d" % index), ("n", None), ("ключ", b""))[: index % 4],
        )
        for index in range(count)
    ]


def _sent(rows: list[Row], called: list[Any]) -> tuple[ProducerBatch, list[RecordFuture]]:
    """Send rows into one batch; `called` hears of each with its index."""
    path = _Path()
    futures = [
        path.send(
            "orders",
            value,
            key=key,
            headers=headers,
            partition=PARTITION,
            timestamp_ms=timestamp_ms,
            on_delivery=_hear(called, index),
        )
        for index, (timestamp_ms, key, value, headers) in enumerate(rows)
    ]
    path.queue.seal()
    (batch,) = path.queue.batches
    return batch, futures


def _hear(called: list[Any], index: int) -> Callable[[Any, Any], None]:
    return lambda metadata, error: called.append((index, metadata, error))


def _close(batch: ProducerBatch, codec: Codec = Codec.NONE) -> record_v2.DecodedBatch:
    """Close it as the sender does, and read what it would send."""
    if codec:
        BatchCompressor(compressor(codec)).pack(batch)
    batch.close(int(codec))
    assert batch.pieces is not None
    (decoded,) = record_v2.decode_batches(b"".join(batch.pieces))
    return decoded


def _contents(decoded: record_v2.DecodedBatch) -> list[Row]:
    return [(r.timestamp_ms, r.key, r.value, tuple(r.headers)) for r in decoded.records]


def _split_down(batch: ProducerBatch, levels: int, codec: Codec) -> list[ProducerBatch]:
    """Split a closed batch, and its parts, as often as said, closing each part."""
    if levels == 0 or batch.record_count == 1:
        return [batch]
    parts = split(batch)
    batch.forward(parts)
    batch.release()
    assert len(parts) >= 2
    for part in parts:
        _close(part, codec)
    return [leaf for part in parts for leaf in _split_down(part, levels - 1, codec)]


@pytest.mark.parametrize("codec", Codec)
def test_three_levels_keep_every_record(codec: Codec) -> None:
    """Keys, values, headers and timestamps come out as they went in, in order, in any codec."""
    rows = _rows(60)
    batch, _ = _sent(rows, [])
    _close(batch, codec)
    leaves = _split_down(batch, 3, codec)
    assert len(leaves) >= 8
    decoded = [_leaf(leaf) for leaf in leaves]
    assert [row for each in decoded for row in _contents(each)] == rows
    assert {each.attributes & 7 for each in decoded} == {codec}
    # Each part counts offsets and time from its own first record.
    assert {each.base_offset for each in decoded} == {0}
    assert all(each.base_timestamp_ms == each.records[0].timestamp_ms for each in decoded)


def _leaf(leaf: ProducerBatch) -> record_v2.DecodedBatch:
    assert leaf.pieces is not None
    (decoded,) = record_v2.decode_batches(b"".join(leaf.pieces))
    return decoded


@pytest.mark.parametrize("base_sequence", [0, 5, 2**31 - 60, 2**31 - 30, 2**31 - 1])
def test_sequences_continue_from_part_to_part(base_sequence: int) -> None:
    """Part follows part without a gap, and 0 follows 2³¹−1, wherever the border lies."""
    batch, _ = _sent(_rows(60), [])
    batch.assign(4242, 7, base_sequence)
    _close(batch)
    expected = base_sequence
    for leaf in _split_down(batch, 3, Codec.NONE):
        decoded = _leaf(leaf)
        assert (decoded.producer_id, decoded.producer_epoch) == (4242, 7)
        assert decoded.base_sequence == leaf.base_sequence == expected
        expected = (expected + decoded.record_count) % 2**31
    assert expected == (base_sequence + 60) % 2**31


def test_without_idempotence_there_are_no_sequences() -> None:
    """Parts of a batch without a sequence have none."""
    batch, _ = _sent(_rows(20), [])
    _close(batch)
    parts = split(batch)
    assert {part.base_sequence for part in parts} == {NO_SEQUENCE}
    assert {_close(part).producer_id for part in parts} == {-1}


def test_parts_are_about_half() -> None:
    """Each part is smaller than the whole, so that splitting comes to an end."""
    batch, _ = _sent(_rows(60), [])
    _close(batch)
    parts = split(batch)
    assert len(parts) in {2, 3}  # what did not fit the second half begins a third
    assert max(part.builder.size_bytes for part in parts) < 0.6 * batch.builder.size_bytes


@pytest.mark.parametrize("count", [2, 3])
def test_one_large_record_among_small_ones(count: int) -> None:
    """A record larger than half the batch gets a part of its own size, and splitting ends."""
    rows: list[Row] = [
        (BASE_MS, None, b"x" * 5_000 if index == 1 else b"y", ()) for index in range(count)
    ]
    batch, _ = _sent(rows, [])
    _close(batch)
    leaves = _split_down(batch, 8, Codec.NONE)
    assert [leaf.record_count for leaf in leaves] == [1] * count
    assert [row for leaf in leaves for row in _contents(_leaf(leaf))] == rows


def test_futures_and_callbacks_follow_their_records() -> None:
    """Each future ends with the offset of its record, each callback once, in record order."""
    called: list[Any] = []
    rows = _rows(60)
    batch, futures = _sent(rows, called)
    _close(batch)
    leaves = _split_down(batch, 3, Codec.NONE)
    assert not any(future.done() for future in futures)
    offset = 1_000
    for leaf in leaves:
        leaf.succeed(offset, -1)
        offset += leaf.record_count
    found = [future.result(0) for future in futures]
    assert [metadata.offset for metadata in found] == list(range(1_000, 1_060))
    assert [metadata.timestamp_ms for metadata in found] == [row[0] for row in rows]
    assert called == [(index, metadata, None) for index, metadata in enumerate(found)]


def test_a_part_that_fails_fails_its_records_alone() -> None:
    """The error of one part reaches the futures of its records and no other."""
    called: list[Any] = []
    batch, futures = _sent(_rows(40), called)
    _close(batch)
    first, second = parts = split(batch)
    batch.forward(parts)
    second.fail(RecordTooLarge("too large for the broker"))
    first.succeed(0, -1)
    outcomes = [future.exception(0) is None for future in futures]
    assert outcomes == [True] * first.record_count + [False] * second.record_count
    assert batch.result.failed_count(40) == second.record_count
    assert sorted(index for index, _, _ in called) == list(range(40))


def test_parts_keep_their_attempts() -> None:
    """Creation time, attempts and doubt come from the whole; being cut is not an attempt."""
    batch, _ = _sent(_rows(10), [])
    _close(batch)
    batch.attempts, batch.maybe_persisted = 3, True
    for part in split(batch):
        assert (part.created_ms, part.attempts, part.maybe_persisted) == (batch.created_ms, 2, True)
        assert part.is_due


def test_the_whole_gives_its_memory_back() -> None:
    """Parts live outside the pool: the whole returns every byte, and nothing is lost."""
    batch, _ = _sent(_rows(60), [])
    pool = batch.builder.chain.pool
    _close(batch)
    parts = split(batch)
    batch.release()
    assert pool.lent_bytes == 0
    assert sum(part.record_count for part in parts) == 60
