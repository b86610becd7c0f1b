"""Transaction markers."""

import struct

import pytest

from kprod.errors import CorruptRecord
from kprod.model import Record
from kprod.record.control import ControlType, EndMarker, decode_marker, encode_marker_batch
from kprod.record.reader import read_batches
from tests.oracle import record_v2


@pytest.mark.parametrize("control_type", ControlType)
def test_marker_batch(control_type: ControlType) -> None:
    """The batch is what the reference makes of the same record, and reads back."""
    marker = EndMarker(control_type, 17)
    batch = encode_marker_batch(marker, producer_id=9, producer_epoch=3, timestamp_ms=1_234)
    key, value = struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 17)
    assert batch == record_v2.encode_batch(
        [(1_234, key, value, ())],
        producer_id=9,
        producer_epoch=3,
        is_control=True,
        is_transactional=True,
    )
    (found,) = read_batches(batch)
    (record,) = found
    assert decode_marker(record) == marker
    assert (found.is_control, found.is_transactional, found.base_sequence) == (True, True, -1)


@pytest.mark.parametrize("number", [-1, 2, 3, 4, 99])
def test_other_control_records(number: int) -> None:
    """Kinds that end no transaction are skipped."""
    assert decode_marker(Record(0, 0, struct.pack(">hh", 0, number), None)) is None


def test_later_versions() -> None:
    """A later version may be longer; its known fields are read."""
    record = Record(0, 0, struct.pack(">hhq", 1, 1, 5), struct.pack(">hiq", 1, 8, 5))
    assert decode_marker(record) == EndMarker(ControlType.COMMIT, 8)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", None),
        (b"\x00\x00\x00", None),
        (struct.pack(">hh", -1, 1), struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", 0, 1), None),
        (struct.pack(">hh", 0, 1), b"\x00\x00\x00\x00\x00"),
        (struct.pack(">hh", 0, 0), struct.pack(">hi", -1, 1)),
    ],
)
def test_malformed(key: bytes | None, value: bytes | None) -> None:
    """Short keys and values and negative versions are corrupt."""
    with pytest.raises(CorruptRecord, match=r"control record|marker"):
        decode_marker(Record(0, 0, key, value))
