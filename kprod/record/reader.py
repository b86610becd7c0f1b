"""Reading record batches of format V2: the compiled reader, with codecs and record types filled in.

`kprod._core` knows neither codecs nor the types above it; this module provides both. A caller that
needs records uses `read_batches`.

Thread-safety: a reader belongs to one thread at a time.
Source: Kafka MemoryRecords and DefaultRecordBatch (clients 4.3.1) for what a reader accepts.
"""

from collections.abc import Iterator

from kprod._core.record.batch_reader import BatchReader
from kprod._core.record.record_iterator import register_types
from kprod.compression import Buffer, decompress
from kprod.model import Header, Record

register_types(Record, Header)


def read_batches(
    buffer: Buffer, *, check_crc: bool = True, batch_bytes_max: int = 2_147_483_647
) -> BatchReader:
    """Iterate the batches of a buffer.

    Args:
        buffer: Consecutive batches, the last perhaps cut off.
        check_crc: Whether to verify checksums.
        batch_bytes_max: A larger batch is corrupt; at least 61.

    Returns:
        The iterator of `RecordBatch`. When it is over, its `remaining_bytes` says how many bytes
        of a batch cut off are left, and `needed_bytes` how many that batch has.
    """
    return BatchReader(
        buffer, check_crc=check_crc, decompress=decompress, batch_bytes_max=batch_bytes_max
    )


def read_records(buffer: Buffer, *, check_crc: bool = True) -> Iterator[Record]:
    """Iterate the application's records of all whole batches; control batches are left out.

    Args:
        buffer: The bytes, as for `read_batches`.
        check_crc: Whether to verify checksums.

    Yields:
        Records in the order of the log, those of aborted transactions included.

    Raises:
        CorruptRecord: The bytes are not valid batches; records before them were given.
    """
    for batch in read_batches(buffer, check_crc=check_crc):
        if not batch.is_control:
            yield from batch
