"""Reads a partition's batches as they are stored, for `kprod dump`.

A consumer fetches the blocks; here they are taken before any record is decoded.

Thread-safety: one thread.
"""

from collections.abc import Iterator

from kprod._core.record.message_set_reader import MessageEntry
from kprod.compression import Buffer
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.fetch_buffer import FetchBuffer, FetchedBlock
from kprod.consumer.record_reading import ReadCall
from kprod.errors import KprodTimeout
from kprod.model import TopicPartition
from kprod.record.entries import LogEntry, read_entries

_POLL_S = 0.2


def raw_entries(
    consumer: Consumer, partition: TopicPartition, start: int, end: int
) -> Iterator[LogEntry]:
    """Yield the batches and messages of a range of offsets, without verifying checksums.

    Args:
        consumer: A consumer with `auto_offset_reset` earliest; its assignment is replaced.
        partition: The partition. If it loses records of the range meanwhile, it is read on from
            where it then begins.
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
    consumer.assign([partition])
    consumer.seek(partition, start)
    next_offset = start
    for records in _fetched(consumer, partition, end):
        for entry in read_entries(records, check_crc=False):
            last_offset = last_offset_of(entry)
            is_in_range = next_offset < end and _first_offset_of(entry) < end
            if is_in_range and next_offset <= last_offset:
                yield entry
            next_offset = max(next_offset, last_offset + 1)
        if next_offset >= end:
            return


def _fetched(consumer: Consumer, partition: TopicPartition, end: int) -> Iterator[Buffer]:
    """Yield the bytes of fetched blocks until the position is beyond the range."""
    engine = engine_of(consumer)
    parts = engine.parts
    limit_ms = parts.config.default_api_timeout_ms
    read_ms = parts.clock.now_ms()
    while True:
        call = ReadCall(lambda: _take(parts.buffer), _same, _no_block)
        block = engine.read(call, parts.until_ms(_POLL_S))
        if block is not None:
            yield block.records
            parts.buffer.free(block)
            engine.selection.on_freed(block.partition)
            read_ms = parts.clock.now_ms()
            continue
        place = parts.assignment.of(partition).place  # the start, or what it was reset to
        if place is not None and place.offset >= end:
            return
        if parts.clock.now_ms() - read_ms >= limit_ms:
            raise KprodTimeout(
                f"nothing was read from topic {partition.topic!r}, partition {partition.partition},"
                f" of the range up to offset {end} for {limit_ms} ms: {parts.metadata.trouble()}"
            )


def _first_offset_of(entry: LogEntry) -> int:
    """Return the first offset of an entry; of wrapped messages, which are not opened, 0."""
    if isinstance(entry, MessageEntry):
        return 0 if entry.is_wrapper else entry.offset
    return entry.base_offset


def last_offset_of(entry: LogEntry) -> int:
    """Return the last offset of an entry.

    Args:
        entry: A batch, or a message of an old format with the messages that it wraps.

    Returns:
        The offset of its last record.
    """
    return entry.offset if isinstance(entry, MessageEntry) else entry.last_offset


def _no_block() -> None:
    """Return what there is instead of a block."""


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
