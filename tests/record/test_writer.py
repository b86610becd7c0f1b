"""Writing a whole V2 batch at once."""

import pytest
from hypothesis import given

from kprod.errors import LocalProtocolError
from kprod.model import Codec, Header, Record
from kprod.record.writer import write_batch
from tests.oracle import record_v2
from tests.record import strategies


@given(rows=strategies.records_v2, codec=strategies.codecs_v2, base_offset=strategies.base_offsets)
def test_the_reference_reads_written_bytes(
    rows: list[record_v2.RecordInput], codec: int, base_offset: int
) -> None:
    """Any records, any codec; without compression even the same bytes."""
    records = [(base_offset + index, *row) for index, row in enumerate(rows)]
    written = write_batch(records, codec=Codec(codec))
    (decoded,) = record_v2.decode_batches(written)
    assert [tuple(row) for row in decoded.records] == records
    assert decoded.codec == codec
    if codec == Codec.NONE:
        assert written == record_v2.encode_batch(rows, base_offset=base_offset)


def test_records_larger_than_a_chunk() -> None:
    """The builder's memory grows with the records."""
    records = [Record(n, n, None, bytes([n]) * 200_000, (Header("h", None),)) for n in range(3)]
    (decoded,) = record_v2.decode_batches(write_batch(records))
    assert [row.value for row in decoded.records] == [record.value for record in records]


def test_log_append_time() -> None:
    """The stamp is the batch's, with its bit and a right checksum."""
    written = write_batch([Record(4, 1, None, b"")], log_append_time_ms=99)
    (decoded,) = record_v2.decode_batches(written)
    assert decoded.attributes == record_v2.LOG_APPEND_TIME_BIT
    assert [row.timestamp_ms for row in decoded.records] == [99]


def test_no_records_are_rejected() -> None:
    """An empty batch is no batch."""
    with pytest.raises(LocalProtocolError, match="at least one record"):
        write_batch([])


def test_gaps_are_rejected() -> None:
    """The builder counts offsets by itself."""
    with pytest.raises(LocalProtocolError, match="offset 3 where 1 comes next"):
        write_batch([Record(0, 0, None, b""), Record(3, 0, None, b"")])
