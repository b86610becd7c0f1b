"""Reads a partition's batches as they are stored, for `kprod dump`.

A consumer fetches the blocks; here they are taken before any record is decoded.

Thread-safety: one thread.
"""

from collections.abc import Iterator

from kprod._core.record.message_set_reader import MessageEntry
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.fetch_buffer import FetchBuffer, FetchedBlock
from kprod.errors import KprodTimeout
from kprod.model import TopicPartition
from kprod.record.entries import LogEntry, read_entries


def raw_entries(
    consumer: Consumer, partition: TopicPartition, start: int, end: int
) -> Iterator[LogEntry]:
    """Yield the batches and messages of a range of offsets, without verifying checksums.

    Args:
        consumer: A consumer with `auto_offset_reset` earliest; its assignment is replaced.
        partition: The partition.
        start: The first offset.
        end: The offset after the last one.

    Yields:
        Entries in order, including transaction markers. The first one may contain records before
        the start, the last one records after the end.

    Raises:
        CorruptRecord: A batch or message is malformed.
        KprodTimeout: Nothing was fetched for `default_api_timeout_ms`.
        KprodError: As for `Consumer.poll`.
    """
    engine = engine_of(consumer)
    parts = engine.parts
    consumer.assign([partition])
    consumer.seek(partition, start)
    limit_ms = parts.config.default_api_timeout_ms
    next_offset = start
    while next_offset < end:
        block = engine.reading.hand_out(
            lambda: _take(parts.buffer), parts.until_ms(limit_ms / 1_000), _same
        )
        if block is None:
            raise KprodTimeout(
                f"nothing was read from topic {partition.topic!r}, partition {partition.partition}"
                f" at offset {next_offset} of {end} for {limit_ms} ms: {parts.metadata.trouble()}"
            )
        for entry in read_entries(block.records, check_crc=False):
            last_offset = last_offset_of(entry)
            if next_offset <= last_offset and next_offset < end:
                next_offset = last_offset + 1
                yield entry
        parts.buffer.free(block)
        engine.selection.on_freed(block.partition)


def last_offset_of(entry: LogEntry) -> int:
    """Return the last offset of an entry.

    Args:
        entry: A batch, or a message of an old format with the messages that it wraps.

    Returns:
        The offset of its last record.
    """
    return entry.offset if isinstance(entry, MessageEntry) else entry.last_offset


def _same(block: FetchedBlock | None) -> FetchedBlock | None:
    return block


def _take(buffer: FetchBuffer) -> FetchedBlock | None:
    """Remove the next block; a step before it is run."""
    while (entry := buffer.first()) is not None:
        buffer.remove_first()
        is_current = entry.number == entry.partition.start.number
        if isinstance(entry, FetchedBlock):
            if is_current:
                return entry
            buffer.free(entry)
        else:
            entry.partition.consumed_count += 1
            if is_current:
                entry.run()
    return None
