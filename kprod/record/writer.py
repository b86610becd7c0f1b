"""Writes a whole V2 batch, for a caller that has all its records.

The producer appends records as they come; conversion and the broker have them all. Both go through
the same compiled builder.

Thread-safety: pure functions.
Source: Kafka MemoryRecords.withRecords (clients 4.3.1) for the idea.
"""

from collections.abc import Sequence
from typing import TypeAlias

from kprod._core.memory.chunk import Chunk
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.record.batch_builder import AppendResult, BatchBuilder
from kprod._core.record.batch_rewrite import rewrite_log_append_time, rewrite_offsets
from kprod._core.record.compression_buffer import CompressionBuffer
from kprod.compression import compressor
from kprod.errors import LocalProtocolError
from kprod.model import Codec

Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""Offset, timestamp in ms, key, value, headers; a `Record` is one."""

_SIZE_BYTES_MAX = 2**31 - 1
_CHUNK_BYTES = 64 * 1024
_UNKNOWN_LEADER_EPOCH = -1


def write_batch(
    records: Sequence[Row],
    *,
    codec: Codec = Codec.NONE,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Write records as one V2 batch without a producer id.

    Args:
        records: At least one; each offset is one more than the previous one.
        codec: Any codec.
        log_append_time_ms: Timestamp that the broker sets on the records.

    Returns:
        The batch, its base offset that of the first record.

    Raises:
        LocalProtocolError: No records, or their offsets are not contiguous.
    """
    if not records:
        raise LocalProtocolError("a batch needs at least one record")
    builder = _builder()
    base_offset = records[0][0]
    for index, record in enumerate(records):
        if record[0] != base_offset + index:
            raise LocalProtocolError(
                f"offset {record[0]} where {base_offset + index} comes next in the batch"
            )
        _append(builder, record)
    if codec is not Codec.NONE:
        builder.pack(compressor(codec)(builder.records(CompressionBuffer())))
    batch = bytearray().join(builder.close(attributes=codec))
    if log_append_time_ms is not None:
        rewrite_log_append_time(batch, log_append_time_ms)
    rewrite_offsets(batch, base_offset, _UNKNOWN_LEADER_EPOCH)
    return bytes(batch)


def _builder() -> BatchBuilder:
    """Create a builder with its own memory."""
    pool = ChunkPool(_SIZE_BYTES_MAX, small_chunk_bytes=2048, large_chunk_bytes=_CHUNK_BYTES)
    return BatchBuilder(ChunkChain(pool, [Chunk(_CHUNK_BYTES)]), _SIZE_BYTES_MAX)


def _append(builder: BatchBuilder, record: Row) -> None:
    _, timestamp_ms, key, value, headers = record
    while (result := builder.try_append(timestamp_ms, key, value, headers)) is not (
        AppendResult.APPENDED
    ):
        if result is AppendResult.BATCH_FULL:
            raise LocalProtocolError(f"the batch would exceed {_SIZE_BYTES_MAX} bytes")
        builder.add_chunk(Chunk(max(builder.missing_bytes, _CHUNK_BYTES)))
