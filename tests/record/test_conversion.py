"""Conversion between formats: fields kept, fields lost, batches rejected."""

import pytest
from hypothesis import given

from kprod.errors import CorruptRecord, LocalProtocolError, UnsupportedCodec
from kprod.model import Codec, Header, Record
from kprod.record.conversion import down_convert, up_convert
from kprod.record.entries import read_entries
from kprod.record.message_set import read_message_set, write_message_set
from kprod.record.reader import read_batches
from tests.oracle import message_set, record_v2
from tests.plugins.vectors import RecordVector, record_vectors
from tests.record import strategies

ROWS: list[record_v2.RecordInput] = [
    (1_000, b"k", b"v", [("h", b"x")]),
    (1_005, None, b"w", []),
    (1_003, b"", None, [("n", None)]),
]
LEGACY: list[message_set.RecordInput] = [(7, 1_000, b"k", b"v"), (8, 1_005, None, b"w")]


def legacy_records(payload: bytes) -> list[message_set.DecodedRecord]:
    """Read with the slow reference."""
    return message_set.decode(payload)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_down_keeps_offsets_codec_and_contents(magic: int, codec: int) -> None:
    """Headers go, in V0 timestamps too; the rest stays."""
    batch = record_v2.encode_batch(ROWS, base_offset=50, codec=codec)
    lowered = down_convert(batch, magic)
    assert legacy_records(lowered) == [
        (50 + index, row[0] if magic else -1, row[1], row[2]) for index, row in enumerate(ROWS)
    ]
    assert {entry.codec for entry in read_message_set(lowered)} == {codec}


def test_down_keeps_gaps() -> None:
    """A compacted batch keeps its records' offsets."""
    batch = record_v2.encode_batch(ROWS, codec=1, base_offset=9, offset_deltas=[0, 4, 11])
    lowered = down_convert(batch, 1)
    assert [row.offset for row in legacy_records(lowered)] == [9, 13, 20]


@pytest.mark.parametrize("codec", [0, 3])
def test_down_keeps_the_brokers_timestamp(codec: int) -> None:
    """The broker's timestamps are kept."""
    batch = record_v2.encode_batch(
        ROWS, codec=codec, is_log_append_time=True, max_timestamp_ms=7_777
    )
    lowered = down_convert(batch, 1)
    assert {row.timestamp_ms for row in legacy_records(lowered)} == {7_777}
    assert {entry.timestamp_type for entry in read_message_set(lowered)} == {1}


def test_down_drops_control_batches() -> None:
    """Old formats know no transactions; their markers would look like records."""
    marker = record_v2.encode_batch(
        [(5, bytes(4), bytes(6), [])], is_control=True, is_transactional=True, base_offset=3
    )
    lowered = down_convert(record_v2.encode_batch(ROWS) + marker, 0)
    assert [row.offset for row in legacy_records(lowered)] == [0, 1, 2]
    assert down_convert(marker, 1) == b""


@pytest.mark.parametrize("magic", [0, 1])
def test_down_rejects_zstd(magic: int) -> None:
    """The text says where the batch is."""
    batches = record_v2.encode_batch(ROWS) + record_v2.encode_batch(ROWS, codec=4)
    with pytest.raises(UnsupportedCodec, match=rf"zstd batch at byte 92 .* magic {magic}"):
        down_convert(batches, magic)


def test_down_leaves_older_entries_as_they_are() -> None:
    """A batch that is old enough is copied byte for byte, and V1 goes down to V0."""
    old = message_set.encode(LEGACY, magic=0, codec=1) + message_set.encode(LEGACY, magic=1)
    assert down_convert(old, 1) == old
    lowered = down_convert(old, 0)
    assert [row.timestamp_ms for row in legacy_records(lowered)] == [-1] * 4
    assert down_convert(old, 2) == old


def test_down_leaves_out_cut_messages() -> None:
    """The tail of a fetch is no entry."""
    batch = record_v2.encode_batch(ROWS)
    assert down_convert(batch + batch[:-1], 1) == down_convert(batch, 1)


def test_down_rejects_damage() -> None:
    """A wrong checksum is not passed on with a right one."""
    batch = bytearray(record_v2.encode_batch(ROWS))
    batch[-1] ^= 1
    with pytest.raises(CorruptRecord):
        down_convert(bytes(batch), 1)


@pytest.mark.parametrize("magic", [-1, 3])
def test_unknown_magics_are_rejected(magic: int) -> None:
    """There are three formats."""
    with pytest.raises(LocalProtocolError, match="there are 0 to 2"):
        down_convert(b"", magic)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_up_makes_one_batch(magic: int, codec: int) -> None:
    """A wrapper, or plain messages after one another, become one batch of the same codec."""
    (batch,) = up_convert(message_set.encode(LEGACY, magic=magic, codec=codec))
    (decoded,) = record_v2.decode_batches(batch)
    assert decoded.codec == codec
    assert decoded.producer_id == -1
    assert [tuple(row) for row in decoded.records] == [
        (offset, timestamp_ms if magic else -1, key, value, ())
        for offset, timestamp_ms, key, value in LEGACY
    ]


@pytest.mark.parametrize("codec", [0, 2])
def test_up_keeps_gaps_in_batches_of_their_own(codec: int) -> None:
    """A batch counts its records' offsets, so a gap begins another."""
    rows = [(5, 1, None, b"a"), (6, 1, None, b"b"), (9, 1, None, b"c")]
    batches = up_convert(message_set.encode(rows, magic=1, codec=codec))
    decoded = [record_v2.decode_batches(batch)[0] for batch in batches]
    assert [[row.offset for row in batch.records] for batch in decoded] == [[5, 6], [9]]


def test_up_numbers_records_for_a_log() -> None:
    """Given a base, offsets are the log's; producers write what they like there."""
    old = message_set.encode([(0, 1, None, b"a")], magic=1) * 2
    old += message_set.encode([(0, 1, None, b"c"), (1, 1, None, b"d")], magic=1, codec=1)
    batches = up_convert(old, base_offset=100)
    offsets = [
        row.offset for batch in batches for row in record_v2.decode_batches(batch)[0].records
    ]
    assert offsets == [100, 101, 102, 103]
    assert len(batches) == 2


def test_up_keeps_the_brokers_timestamp() -> None:
    """Messages with different stamps cannot share a batch: it has one."""
    old = message_set.encode(LEGACY, magic=1, codec=1, log_append_time_ms=50)
    old += message_set.encode([(9, 0, None, b"")], magic=1, log_append_time_ms=60)
    old += message_set.encode([(10, 0, None, b"")], magic=1, log_append_time_ms=70)
    batches = [record_v2.decode_batches(batch)[0] for batch in up_convert(old)]
    assert [batch.max_timestamp_ms for batch in batches] == [50, 60, 70]
    assert [row.timestamp_ms for batch in batches for row in batch.records] == [50, 50, 60, 70]


def test_up_passes_v2_on() -> None:
    """Batches in a log of mixed formats stay as they are."""
    batch = record_v2.encode_batch(ROWS, base_offset=9, codec=4)
    old = message_set.encode(LEGACY, magic=1)
    assert up_convert(old + batch)[1] == batch
    with pytest.raises(LocalProtocolError, match="rewrite_offsets"):
        up_convert(old + batch, base_offset=0)


def test_nothing_converts_to_nothing() -> None:
    """Empty in, empty out."""
    assert down_convert(b"", 0) == b""
    assert up_convert(b"") == []


@pytest.mark.parametrize("vector", record_vectors(), ids=lambda vector: vector.label)
def test_vectors_survive_conversion(vector: RecordVector) -> None:
    """Other clients' records keep the fields that the formats share, down and up."""
    if vector.codec == Codec.ZSTD or "marker" in vector.name:
        return
    lowered = down_convert(vector.raw, 1)
    raised = b"".join(up_convert(lowered))
    expected = [Record(row.offset, row.timestamp_ms, row.key, row.value) for row in vector.records]
    assert [record for batch in read_batches(raised) for record in batch] == expected
    assert [Record._make(row) for entry in read_entries(lowered) for row in entry] == expected


@given(
    rows=strategies.records_v2,
    codec=strategies.codecs_legacy,
    base_offset=strategies.base_offsets,
)
def test_down_and_up_lose_only_headers(
    rows: list[record_v2.RecordInput], codec: int, base_offset: int
) -> None:
    """V2 to V1 and back: the same records without headers."""
    batch = record_v2.encode_batch(rows, codec=codec, base_offset=base_offset)
    (again,) = up_convert(down_convert(batch, 1))
    (decoded,) = record_v2.decode_batches(again)
    assert [tuple(row) for row in decoded.records] == [
        (base_offset + index, row[0], row[1], row[2], ()) for index, row in enumerate(rows)
    ]


def test_records_write_as_they_were_read() -> None:
    """A `Record` is a row to write; its headers are dropped."""
    record = Record(3, 5, b"k", b"v", (Header("h", b"x"),))
    (entry,) = read_message_set(write_message_set([record], magic=1))
    assert list(entry) == [(3, 5, b"k", b"v", ())]
