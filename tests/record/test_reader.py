"""Reading through the layer that has codecs and record types."""

import pytest

from kprod.errors import CorruptRecord
from kprod.model import Header, Record
from kprod.record.reader import read_batches, read_records
from tests.oracle import record_v2

ROWS = [(5, b"k", b"v", [("h", b"x")]), (6, None, None, [])]


def test_records_are_named() -> None:
    """Records and headers come as the model's types."""
    (batch,) = read_batches(record_v2.encode_batch(ROWS, codec=4, base_offset=40))
    first, second = batch
    assert isinstance(first, Record)
    assert first == Record(40, 5, b"k", b"v", (Header("h", b"x"),))
    assert isinstance(first.headers[0], Header)
    assert first.headers[0].key == "h"
    assert second == Record(41, 6, None, None)
    assert repr(second).startswith("Record(offset=41, timestamp_ms=6")


def test_control_batches_are_left_out() -> None:
    """An application's view has no control records; a batch cut off at the end is left out too."""
    buffer = record_v2.encode_batch(ROWS) + record_v2.encode_batch(ROWS, is_control=True) * 2
    buffer += record_v2.encode_batch(ROWS, codec=2, base_offset=6) + b"cut"
    assert [record.offset for record in read_records(buffer)] == [0, 1, 6, 7]


def test_bounds_are_passed_on() -> None:
    """Checksums and the size bound reach the reader."""
    buffer = bytearray(record_v2.encode_batch(ROWS))
    with pytest.raises(CorruptRecord, match="must be 61 to 70"):
        list(read_batches(buffer, batch_bytes_max=70))
    buffer[20] ^= 1
    with pytest.raises(CorruptRecord, match="checksum"):
        list(read_records(buffer))
    assert len(list(read_records(buffer, check_crc=False))) == 2
