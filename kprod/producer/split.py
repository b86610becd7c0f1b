"""Splits a batch that the broker rejects as too large, by decoding it (KIP-126).

The parts keep the records, their order, creation time and sequences. Their memory is not from the
pool: the batch may hold all of it, and waiting for memory would wait for this thread itself.

Thread-safety: the sender.
Source: KIP-126; Kafka ProducerBatch.split (clients 4.3.1), KAFKA-5340, KAFKA-5700.
"""

from kprod._core.layout import BatchLayout
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.record.batch_builder import AppendResult
from kprod.errors import LocalProtocolError
from kprod.model import Record
from kprod.producer.batch import NO_SEQUENCE, ProducerBatch
from kprod.producer.transaction.sequences import advance
from kprod.record.reader import read_records


def split(batch: ProducerBatch) -> list[ProducerBatch]:
    """Split a closed batch of more than one record into parts of about half its size.

    Args:
        batch: An unfinished batch. It still reports the outcome of its records; see
            `PartitionQueue.replace`.

    Returns:
        At least two parts, in order, not yet in any queue.

    Raises:
        LocalProtocolError: A record does not fit an empty part; impossible.
    """
    assert batch.pieces is not None  # noqa: S101 - it came back from a broker
    limit_bytes = (batch.builder.size_bytes + BatchLayout.BATCH_OVERHEAD_BYTES) // 2 + 1
    parts: list[ProducerBatch] = []
    sequence = batch.base_sequence
    for record in read_records(b"".join(batch.pieces)):
        if not parts or not _try_append(parts[-1], record):
            if parts and sequence != NO_SEQUENCE:
                sequence = advance(sequence, parts[-1].record_count)
            parts.append(_part_of(batch, sequence, limit_bytes))
            if not _try_append(parts[-1], record):
                raise LocalProtocolError("an empty batch rejected its first record")
    return parts


def _part_of(batch: ProducerBatch, sequence: int, limit_bytes: int) -> ProducerBatch:
    pool = ChunkPool(2 * batch.builder.size_bytes + (1 << 16))
    chunk = pool.try_chunk(large=False)
    assert chunk is not None  # noqa: S101 - the pool is new and large enough
    part = ProducerBatch(batch.queue, ChunkChain(pool, [chunk]), limit_bytes, batch.created_ms)
    part.attempts = batch.attempts - 1  # a split is not an attempt
    part.maybe_persisted = batch.maybe_persisted
    part.is_due = True
    part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
    part.base_sequence = sequence
    return part


def _try_append(part: ProducerBatch, record: Record) -> bool:
    """Append a record, extending the chain as needed; False if the part is full."""
    builder = part.builder
    while True:
        outcome = builder.try_append(record.timestamp_ms, record.key, record.value, record.headers)
        if outcome is not AppendResult.NEED_CHUNKS:
            return outcome is AppendResult.APPENDED
        chunk = builder.chain.pool.try_chunk()
        assert chunk is not None  # noqa: S101 - the pool holds twice the whole
        builder.add_chunk(chunk)
