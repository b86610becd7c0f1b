"""The records of a batch: what cannot be, keys that repeat, and the types they are made as."""

from typing import TYPE_CHECKING

import pytest

from kprod._core.record.record_iterator import register_types
from kprod.errors import CorruptRecord
from tests._core.batches import GOLDEN_PLAIN, NULL, START, encoded_record, only_batch, sealed
from tests.oracle import record_v2

if TYPE_CHECKING:
    from tests.fuzz.target import Walk


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (b"\xff" * 7, "varint"),
        (b"\xff\xff\xff\xff\x10" + bytes(9), "varint"),
        (encoded_record(b"\x00" + b"\xff" * 9 + b"\x02" + bytes(4)), "varint"),
        (encoded_record(b"\x00" + b"\xff" * 12), "varint"),
        (b"\x0a" + bytes(6), "length is less than a record's"),
        (b"\x01" + bytes(7), "length is less than a record's"),
        (b"\x10" + bytes(7), "length is less than a record's or more"),
        (b"\xfe\xff\xff\xff\x0f" + bytes(9), "length is less than a record's or more"),
        (encoded_record(b"\x00\x00\x01" + NULL * 2 + b"\x00"), "offset is outside"),
        (encoded_record(b"\x00\x00\x02" + NULL * 2 + b"\x00"), "offset is outside"),
        (encoded_record(START + b"\x03" + NULL + b"\x00"), "key's length"),
        (encoded_record(START + b"\x08" + NULL + b"\x00"), "key's length"),
        (encoded_record(START + b"\xfe\xff\xff\xff\x0f" + NULL + b"\x00"), "key's length"),
        (encoded_record(START + NULL + b"\x03" + b"\x00"), "value's length"),
        (encoded_record(START + NULL + b"\x04" + b"\x00"), "value's length"),
        (encoded_record(START + NULL * 2 + b"\x01"), "header count"),
        (encoded_record(START + NULL * 2 + b"\x02"), "header count"),
        (encoded_record(START + NULL * 2 + b"\x02" + b"\x00"), "header count"),
        (encoded_record(START + NULL * 2 + b"\xfe\xff\xff\xff\x0f" + bytes(4)), "header count"),
        (encoded_record(START + NULL * 2 + b"\x02" + NULL * 2), "header key is null"),
        (encoded_record(START + NULL * 2 + b"\x02" + b"\x06a\x00"), "header key"),
        (encoded_record(START + NULL * 2 + b"\x02" + b"\x00\x03"), "header value's length"),
        (encoded_record(START + NULL * 2 + b"\x02" + b"\x00\x02"), "header value's length"),
        (encoded_record(START + NULL * 2 + b"\x02" + b"\x02\xff\x00"), "not UTF-8"),
        (encoded_record(START + NULL * 2 + b"\x02" + b"\x04\xc3\x28\x00"), "not UTF-8"),
        (encoded_record(START + NULL * 2 + b"\x00" + b"\x00"), "do not end where"),
        (encoded_record(START + NULL * 2 + b"\x02" + b"\x00\x00" + b"\x00"), "do not end where"),
        (
            encoded_record(START + NULL * 2 + b"\x00") + b"\x00",
            "record count 1, bytes left over after the last record: 1",
        ),
    ],
)
def test_impossible_records(records: bytes, reason: str) -> None:
    """Each way in which a record cannot be, on all three paths over it."""
    batch = only_batch(sealed(GOLDEN_PLAIN, records, count=1))
    paths: list[Walk] = [
        lambda: list(batch),
        lambda: list(batch.tuples()),
        batch.check_records,
    ]
    for path in paths:
        with pytest.raises(CorruptRecord, match=reason):
            path()


def test_fewer_records_than_counted() -> None:
    """A count above the number of records ends in a fault, after those records."""
    records = encoded_record(START + NULL * 2 + b"\x00")
    padded = encoded_record(START + b"\x14" + bytes(10) + NULL + b"\x00")
    batch = only_batch(sealed(GOLDEN_PLAIN, records + padded, count=3))
    found: list[object] = []
    with pytest.raises(CorruptRecord, match="record 2 of 3: a varint is cut off"):
        found.extend(batch)
    assert len(found) == 2
    iterator = iter(batch)
    assert [next(iterator)[3], next(iterator)[3]] == [None, None]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="record 2 of 3"):
            next(iterator)


def test_header_keys_are_reused_only_when_equal() -> None:
    """Keys that differ from the record before, in length, bytes or number, are their own."""
    headers = [
        (("trace", b"1"), ("kind", b"2")),
        (("trace", b"3"), ("king", b"4")),
        (("trac", b"5"),),
        (("traces", None), ("kïnd", b""), ("trace", b"6")),
        (),
        (("traces", b"7"), ("kïnd", b"8")),
    ]
    batch = only_batch(record_v2.encode_batch([(0, None, None, row) for row in headers]))
    assert [record[4] for record in batch] == headers
    assert [row[2] for row in batch.tuples()] == headers


@pytest.mark.parametrize("candidate", [list, 5, type("WithFields", (tuple,), {})])
def test_registered_types_are_plain_tuples(candidate: type[tuple[object, ...]]) -> None:
    """Only tuples without further fields can be made as records."""
    with pytest.raises(TypeError, match=r"tuple|fields"):
        register_types(candidate, tuple)
