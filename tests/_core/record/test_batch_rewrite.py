"""Rewriting a batch where it lies."""

import struct
from typing import TYPE_CHECKING

import pytest

from kprod._core.record.batch_reader import BatchReader
from kprod._core.record.batch_rewrite import rewrite_crc, rewrite_log_append_time, rewrite_offsets
from kprod.errors import CorruptRecord
from tests.oracle import record_v2

if TYPE_CHECKING:
    from tests.fuzz.target import Walk

ROWS = [(1_000, b"k", b"v", ()), (1_005, None, b"w", ())]


def test_offsets_and_epoch() -> None:
    """Both change, the checksum stays right, and the bytes after the batch are not touched."""
    batch = record_v2.encode_batch(ROWS)
    buffer = bytearray(batch + b"next")
    rewrite_offsets(buffer, 2**40, 12)
    (found,) = BatchReader(buffer)
    assert [record[0] for record in found] == [2**40, 2**40 + 1]
    assert found.partition_leader_epoch == 12
    assert buffer[16:] == batch[16:] + b"next"


def test_log_append_time() -> None:
    """All records take the broker's time, and the checksum is computed again."""
    buffer = bytearray(record_v2.encode_batch(ROWS, is_transactional=True, producer_id=5))
    rewrite_log_append_time(memoryview(buffer), 7_777)
    (found,) = BatchReader(buffer)
    assert [record[1] for record in found] == [7_777, 7_777]
    assert (found.timestamp_type, found.is_transactional, found.producer_id) == (1, True, 5)
    reference = record_v2.decode_batches(bytes(buffer))
    assert [record.timestamp_ms for record in reference[0].records] == [7_777, 7_777]


def test_crc() -> None:
    """The checksum of a changed batch is made right."""
    buffer = bytearray(record_v2.encode_batch(ROWS))
    struct.pack_into(">q", buffer, 43, 99)
    with pytest.raises(CorruptRecord, match="checksum"):
        list(BatchReader(buffer))
    rewrite_crc(buffer)
    (found,) = BatchReader(buffer)
    assert found.producer_id == 99


@pytest.mark.parametrize("length", [0, 11, 12, 60, 61, 75])
def test_not_a_whole_batch(length: int) -> None:
    """A buffer that does not begin with a whole batch is left alone."""
    buffer = bytearray(record_v2.encode_batch(ROWS)[:length])
    before = bytes(buffer)
    rewrites: list[Walk] = [
        lambda: rewrite_offsets(buffer, 1, 1),
        lambda: rewrite_log_append_time(buffer, 1),
        lambda: rewrite_crc(buffer),
    ]
    for rewrite in rewrites:
        with pytest.raises(CorruptRecord, match=f"{length} bytes do not begin"):
            rewrite()
    assert buffer == before


@pytest.mark.parametrize("length", [-1, 48, -(2**31), 2**31 - 1])
def test_length_that_lies(length: int) -> None:
    """The header's length is believed only within the buffer."""
    buffer = bytearray(record_v2.encode_batch(ROWS))
    struct.pack_into(">i", buffer, 8, length)
    with pytest.raises(CorruptRecord, match="do not begin"):
        rewrite_crc(buffer)


def test_read_only() -> None:
    """Bytes cannot be rewritten."""
    with pytest.raises(BufferError):
        rewrite_offsets(memoryview(record_v2.encode_batch(ROWS)), 1, 1)  # read-only view
