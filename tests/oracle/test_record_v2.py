"""The reference for V2 against bytes and decoders from outside."""

import pytest
from hypothesis import given

from tests.oracle import record_v2
from tests.plugins.vectors import RecordVector, record_vectors
from tests.record import other_clients, strategies

GOLDEN_RECORDS: list[record_v2.RecordInput] = [
    (1_700_000_000_000, b"k0", b"v0", ()),
    (1_700_000_000_005, None, b"v1", (("h", b"x"), ("n", None))),
]
GOLDEN_PLAIN = (
    "00000000000000000000004cffffffff029871a8500000000000010000018bcfe568000000018bcfe56805ffff"
    "ffffffffffffffffffffffff0000000214000000046b30047630001e000a02010476310402680278026e01"
)
GOLDEN_PRODUCER = (
    "00000000000000000000004cffffffff0225179f8c0000000000010000018bcfe568000000018bcfe568050000"
    "0000000010920007000000640000000214000000046b30047630001e000a02010476310402680278026e01"
)
VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}


def test_golden_batches() -> None:
    """The two batches that kafka-python decoded and checked come out byte for byte."""
    assert record_v2.encode_batch(GOLDEN_RECORDS).hex() == GOLDEN_PLAIN
    with_producer = record_v2.encode_batch(
        GOLDEN_RECORDS, producer_id=4242, producer_epoch=7, base_sequence=100
    )
    assert with_producer.hex() == GOLDEN_PRODUCER


@pytest.mark.parametrize(("number", "encoded"), VARINTS.items())
def test_varints(number: int, encoded: str) -> None:
    """The borders of each length, and the extremes."""
    assert record_v2.encode_varint(number).hex() == encoded
    read = record_v2.decode_varint(bytes.fromhex(encoded), 0, bits=64)
    assert read == (number, len(encoded) // 2)


@pytest.mark.parametrize("vector", record_vectors(2), ids=lambda vector: vector.label)
def test_other_clients_batches(vector: RecordVector) -> None:
    """Other clients' batches are read as they were meant, and their codec is recognised."""
    batches = record_v2.decode_batches(vector.raw)
    assert [tuple(row) for batch in batches for row in batch.records] == list(vector.records)
    assert {batch.codec for batch in batches} == {vector.codec}


@pytest.mark.parametrize("reader", other_clients.READERS, ids=other_clients.name_of)
@given(
    records=strategies.records_v2,
    codec=strategies.codecs_v2,
    base_offset=strategies.base_offsets,
)
def test_other_clients_read_the_reference(
    reader: other_clients.Reader,
    records: list[record_v2.RecordInput],
    codec: int,
    base_offset: int,
) -> None:
    """kafka-python and aiokafka read what the reference writes."""
    raw = record_v2.encode_batch(records, codec=codec, base_offset=base_offset)
    expected = [(base_offset + index, *record) for index, record in enumerate(records)]
    assert reader(raw) == expected


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda raw: raw[:80] + b"", "batch length"),
        (lambda raw: raw + b"\0", "bytes left"),
        (lambda raw: raw[:16] + b"\1" + raw[17:], "magic 1"),
        (lambda raw: raw[:-1] + b"\0", "checksum"),
    ],
)
def test_damage_is_rejected(change: other_clients.Change, text: str) -> None:
    """The reference raises on whatever is not whole and valid."""
    with pytest.raises(record_v2.MalformedError, match=text):
        record_v2.decode_batches(change(bytes.fromhex(GOLDEN_PLAIN)))
