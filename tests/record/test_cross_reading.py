"""kprod and other people's record code read each other, in every format and codec."""

import pytest
from hypothesis import given

from kprod.errors import CorruptRecord
from kprod.model import Codec
from kprod.record.entries import read_entries
from kprod.record.message_set import write_message_set
from kprod.record.writer import write_batch
from tests.oracle import record_v2
from tests.plugins.vectors import RecordVector, record_vectors
from tests.record import other_clients, strategies


def kprod_reads(raw: bytes) -> list[tuple[object, ...]]:
    """Read entries of any format with kprod."""
    return [tuple(record) for entry in read_entries(raw) for record in entry]


# Each example goes through every codec and format: drawing it costs more than encoding it.
@pytest.mark.parametrize("reader", other_clients.READERS, ids=other_clients.name_of)
@given(rows=strategies.records_v2, base_offset=strategies.base_offsets)
def test_others_read_our_batches(
    reader: other_clients.Reader, rows: list[record_v2.RecordInput], base_offset: int
) -> None:
    """V2 by kprod, read by the other client: five codecs, headers, nulls, timestamps."""
    records = [(base_offset + index, *row) for index, row in enumerate(rows)]
    for codec in Codec:
        assert reader(write_batch(records, codec=codec)) == records


@pytest.mark.parametrize("writer", other_clients.WRITERS, ids=other_clients.name_of)
@given(rows=strategies.records_v2)
def test_we_read_their_batches(
    writer: other_clients.Writer, rows: list[other_clients.Content]
) -> None:
    """V2 by the other client, read by kprod: five codecs, headers, nulls, timestamps."""
    records = [(offset, *row) for offset, row in enumerate(rows)]
    for codec in Codec:
        assert kprod_reads(writer(records, magic=2, codec=codec)) == records


@pytest.mark.parametrize("reader", other_clients.READERS, ids=other_clients.name_of)
@given(rows=strategies.records_legacy, base_offset=strategies.base_offsets)
def test_others_read_our_message_sets(
    reader: other_clients.Reader,
    rows: list[tuple[int, bytes | None, bytes | None]],
    base_offset: int,
) -> None:
    """V0 and V1 by kprod, read by the other client, in each of their four codecs."""
    records = [(base_offset + index, *row) for index, row in enumerate(rows)]
    for magic, codec in other_clients.legacy_formats(reader):
        raw = write_message_set(records, magic=magic, codec=codec)
        assert reader(raw) == [(row[0], row[1] if magic else -1, *row[2:], ()) for row in records]


@pytest.mark.parametrize("writer", other_clients.WRITERS, ids=other_clients.name_of)
@given(rows=strategies.records_legacy)
def test_we_read_their_message_sets(
    writer: other_clients.Writer, rows: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    """V0 and V1 by the other client, read by kprod, in each of their four codecs."""
    records = [(offset, *row, ()) for offset, row in enumerate(rows)]
    for magic, codec in other_clients.legacy_formats(writer):
        raw = writer(records, magic=magic, codec=codec)
        assert kprod_reads(raw) == [(row[0], row[1] if magic else -1, *row[2:]) for row in records]


@pytest.mark.parametrize("vector", record_vectors(), ids=lambda vector: vector.label)
def test_vectors(vector: RecordVector) -> None:
    """Bytes from Kafka's own library and from the Python clients are read as they were meant."""
    assert kprod_reads(vector.raw) == list(vector.records)
    entries = list(read_entries(vector.raw))
    assert {entry.codec for entry in entries} == {vector.codec}
    assert {entry.magic for entry in entries} == {vector.magic}


@pytest.mark.parametrize("vector", record_vectors(), ids=lambda vector: vector.label)
def test_vectors_with_one_bit_wrong(vector: RecordVector) -> None:
    """A wrong bit in what the checksum covers is CorruptRecord, from the first look."""
    for position in range(21, len(vector.raw), 7):
        damaged = bytearray(vector.raw)
        damaged[position] ^= 0x10
        try:
            kprod_reads(bytes(damaged))
        except CorruptRecord:
            continue
        # The offset and size fields of later messages lie outside any checksum.
        assert vector.magic < 2
        assert vector.codec == Codec.NONE
