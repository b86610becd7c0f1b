"""Reads a file of batches that another process wrote, up to the first corrupt batch.

Thread-safety: the broker's thread.
Source: Kafka LogSegment.recover (4.3).
"""

from collections.abc import Iterator

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.store import RecordFile
from kprod.errors import CorruptRecord
from kprod.record.reader import read_batches

# Bounds the memory of a recovery; a larger batch gets a larger window.
_WINDOW_BYTES = 1 << 17


def sound_batches(file: RecordFile) -> Iterator[RecordBatch]:
    """Read batches and verify their checksums.

    Args:
        file: A file that begins with a batch; its size must not change.

    Yields:
        The batches in order; iteration ends at the first one that is cut off or has a wrong
        checksum.
    """
    position, window_bytes = 0, _WINDOW_BYTES
    while position < file.size_bytes:
        left_bytes = file.size_bytes - position
        window = joined(file.read(position, min(window_bytes, left_bytes)))
        reader = read_batches(window, check_crc=True)
        consumed_bytes = 0
        try:
            for batch in reader:
                consumed_bytes += batch.size_bytes
                yield batch
        except CorruptRecord:
            return
        position += consumed_bytes
        if not consumed_bytes:
            if len(window) == left_bytes or reader.needed_bytes > left_bytes:
                return  # the last batch is cut off
            window_bytes = max(window_bytes, reader.needed_bytes)


def joined(pieces: list[memoryview]) -> bytes | memoryview:
    """Join the pieces of a read."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
