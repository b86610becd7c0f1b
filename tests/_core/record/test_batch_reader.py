"""The V2 batch reader against golden bytes, three feeds, and everything that does not add up."""

import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from kprod._core.record.batch_reader import BatchReader, RecordBatch
from kprod.errors import CorruptRecord
from tests._core.batches import (
    BASE_MS,
    GOLDEN_IDEMPOTENT,
    GOLDEN_PLAIN,
    GOLDEN_RECORDS,
    NULL,
    START,
    batches,
    encoded_record,
    only_batch,
    sealed,
)
from tests.oracle import record_v2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def test_golden_batches() -> None:
    """Every field of both golden batches."""
    plain, idempotent = batches(GOLDEN_PLAIN + GOLDEN_IDEMPOTENT)
    assert list(plain) == list(idempotent) == GOLDEN_RECORDS
    assert list(plain.tuples()) == [record[2:] for record in GOLDEN_RECORDS]
    assert (plain.position, idempotent.position) == (0, 88)
    assert (plain.size_bytes, plain.length, len(plain.view)) == (88, 76, 88)
    assert bytes(idempotent.view) == GOLDEN_IDEMPOTENT
    assert bytes(plain.records_view) == GOLDEN_PLAIN[61:]
    assert (plain.base_offset, plain.last_offset, plain.last_offset_delta) == (0, 1, 1)
    assert (plain.partition_leader_epoch, plain.magic, plain.crc) == (-1, 2, 0x9871A850)
    assert (plain.attributes, plain.codec, plain.timestamp_type) == (0, 0, 0)
    assert (plain.is_transactional, plain.is_control, plain.delete_horizon_ms) == (0, 0, None)
    assert (plain.base_timestamp_ms, plain.max_timestamp_ms) == (BASE_MS, BASE_MS + 5)
    assert (plain.producer_id, plain.producer_epoch, plain.base_sequence) == (-1, -1, -1)
    assert (plain.last_sequence, plain.record_count) == (-1, 2)
    assert (idempotent.producer_id, idempotent.producer_epoch) == (4242, 7)
    assert (idempotent.base_sequence, idempotent.last_sequence) == (100, 101)
    assert plain.check_records(contiguous=True) == BASE_MS + 5


def test_whole_byte_by_byte_and_with_a_tail() -> None:
    """However the bytes arrive, the same batches come out, and the reader says what it lacks."""
    stream = GOLDEN_PLAIN + GOLDEN_IDEMPOTENT
    for length in range(len(stream) + 1):
        reader = batches(stream[:length])
        found = [list(batch) for batch in reader]
        whole, rest = divmod(length, 88)
        assert found == [GOLDEN_RECORDS] * whole
        assert reader.position == 88 * whole
        assert reader.remaining_bytes == rest
        assert reader.needed_bytes == (0 if rest == 0 else 12 if rest < 12 else 88)
        assert list(reader) == []


@pytest.mark.parametrize("codec", range(5))
def test_codecs(codec: int) -> None:
    """Batches of every codec, one after another."""
    rows = [(BASE_MS + index, b"k%d" % index, b"v" * 90, ()) for index in range(50)]
    buffer = record_v2.encode_batch(rows, codec=codec, base_offset=7) * 2
    for batch in batches(buffer):
        assert batch.codec == codec
        assert [record[2] for record in batch] == [row[1] for row in rows]
        assert batch.check_records(contiguous=True) == BASE_MS + 49
        assert next(iter(batch))[0] == 7


def test_compressed_without_decompress() -> None:
    """Headers of compressed batches can be read without a codec, records cannot."""
    (batch,) = BatchReader(record_v2.encode_batch([(0, None, b"v", ())], codec=1))
    assert batch.record_count == 1
    with pytest.raises(TypeError, match="codec 1"):
        iter(batch)


def test_flags_and_log_append_time() -> None:
    """The broker's time replaces the records' own; the other bits are told apart."""
    rows = [(BASE_MS, None, b"a", ()), (BASE_MS - 9, None, b"b", ())]
    batch = only_batch(
        record_v2.encode_batch(
            rows, is_log_append_time=True, is_transactional=True, max_timestamp_ms=99
        )
    )
    assert [record[1] for record in batch] == [99, 99]
    assert (batch.timestamp_type, batch.is_transactional, batch.is_control) == (1, True, False)
    assert batch.check_records() == 99
    control = only_batch(record_v2.encode_batch(rows, is_control=True))
    assert (control.timestamp_type, control.is_transactional, control.is_control) == (
        0,
        False,
        True,
    )
    assert [record[1] for record in control] == [BASE_MS, BASE_MS - 9]


def test_delete_horizon() -> None:
    """With the horizon's bit the base timestamp is the horizon, and deltas count from it."""
    batch = only_batch(
        record_v2.encode_batch(
            [(BASE_MS, b"k", None, ())], has_delete_horizon=True, base_timestamp_ms=BASE_MS + 60
        )
    )
    assert batch.delete_horizon_ms == BASE_MS + 60
    assert [record[1] for record in batch] == [BASE_MS]


def test_extremes() -> None:
    """The largest offsets, deltas, timestamps and sequences; the sequence wraps at 2**31."""
    rows = [(0, b"", b"", ()), (2**63 - 1, None, None, ()), (-(2**63), b"k", b"v", ())]
    batch = only_batch(
        record_v2.encode_batch(
            rows,
            base_offset=2**62,
            offset_deltas=(0, 2**31 - 2, 2**31 - 1),
            base_sequence=2**31 - 1,
            producer_id=2**63 - 1,
            producer_epoch=2**15 - 1,
        )
    )
    records = list(batch)
    assert [record[0] - 2**62 for record in records] == [0, 2**31 - 2, 2**31 - 1]
    assert [record[1] for record in records] == [0, 2**63 - 1, -(2**63)]
    assert [record[2] for record in records] == [b"", None, b"k"]
    assert batch.last_sequence == 2**31 - 2
    assert (batch.producer_id, batch.producer_epoch) == (2**63 - 1, 2**15 - 1)


def test_compacted_batch() -> None:
    """A compacted batch has gaps, or no records at all, and keeps its last offset."""
    gaps = only_batch(record_v2.encode_batch([(1, b"k", b"v", ())] * 2, offset_deltas=(3, 5)))
    assert [record[0] for record in gaps] == [3, 5]
    with pytest.raises(CorruptRecord, match="record count 2, last offset delta 5"):
        gaps.check_records(contiguous=True)
    empty = only_batch(record_v2.encode_batch([], last_offset_delta=9))
    assert (list(empty), empty.last_offset, empty.check_records()) == ([], 9, -1)


def test_every_single_byte_wrong() -> None:
    """One byte changed to anything: the checksum tells, or the fields outside it are read."""
    for place in range(len(GOLDEN_PLAIN)):
        for flip in (0x01, 0x80, 0xFF):
            buffer = bytearray(GOLDEN_PLAIN)
            buffer[place] ^= flip
            outside = place < 8 or 12 <= place < 16
            try:
                found = list(batches(buffer))
            except CorruptRecord:
                assert not outside or place < 8
            else:
                assert outside or not found


def test_without_checksum_only_corrupt_record() -> None:
    """Without the checksum a damaged batch reads differently or is corrupt, and nothing else."""
    outcomes: set[int] = set()
    for place in range(len(GOLDEN_PLAIN)):
        for byte in range(256):
            buffer = bytearray(GOLDEN_PLAIN)
            buffer[place] = byte
            try:
                outcomes.update(len(list(batch)) for batch in batches(buffer, check_crc=False))
            except CorruptRecord:
                outcomes.add(-1)
    assert outcomes == {-1, 2}


def test_no_checksum_on_demand() -> None:
    """A wrong checksum is ignored when asked for, and can be asked about."""
    buffer = bytearray(GOLDEN_PLAIN)
    buffer[17] ^= 1
    with pytest.raises(CorruptRecord, match="checksum 0x9971a850 does not match its 88 bytes"):
        list(batches(buffer))
    batch = only_batch(buffer, check_crc=False)
    assert not batch.has_valid_crc()
    assert list(batch) == GOLDEN_RECORDS


@pytest.mark.parametrize(
    ("offset", "layout", "number", "reason"),
    [
        (8, ">i", -1, "11 bytes, must be 61"),
        (8, ">i", 48, "60 bytes, must be 61"),
        (8, ">i", -(2**31), "must be 61"),
        (16, ">b", 0, "magic 0"),
        (16, ">b", 1, "magic 1"),
        (16, ">b", 3, "magic 3"),
        (16, ">b", -1, "magic 255"),
        (23, ">i", -1, "last offset delta -1"),
        (23, ">i", -(2**31), "last offset delta"),
        (0, ">q", 2**63 - 1, "base offset 9223372036854775807"),
        (57, ">i", -1, "record count -1"),
        (57, ">i", 4, "record count 4 in 27 bytes"),
        (57, ">i", 2**31 - 1, "record count 2147483647 in 27 bytes"),
    ],
)
def test_impossible_headers(offset: int, layout: str, number: int, reason: str) -> None:
    """Header fields that cannot be are rejected before anything follows them."""
    buffer = bytearray(GOLDEN_PLAIN)
    struct.pack_into(layout, buffer, offset, number)
    with pytest.raises(CorruptRecord, match=reason):
        list(batches(buffer, check_crc=False))


def test_too_large_a_batch() -> None:
    """A length past the caller's bound is corrupt; without a bound the reader waits for more."""
    buffer = bytearray(GOLDEN_PLAIN)
    struct.pack_into(">i", buffer, 8, 2**31 - 13)
    reader = batches(buffer)
    assert list(reader) == []
    assert reader.needed_bytes == 2**31 - 1
    with pytest.raises(CorruptRecord, match="2147483647 bytes, must be 61 to 1000"):
        list(BatchReader(buffer, batch_bytes_max=1_000))


def test_count_that_decompressed_bytes_cannot_hold() -> None:
    """The count is compared with the bytes again once they are decompressed."""
    buffer = bytearray(record_v2.encode_batch([(0, None, b"v", ())], codec=1))
    struct.pack_into(">i", buffer, 57, 1_000_000)
    batch = only_batch(buffer, check_crc=False)
    with pytest.raises(CorruptRecord, match="record count 1000000 in 8 bytes"):
        iter(batch)


def test_corrupt_compressed_block() -> None:
    """An error of the codec makes the batch corrupt; so does an unknown codec."""
    buffer = bytearray(record_v2.encode_batch([(0, None, b"v" * 99, ())], codec=3))
    buffer[64] ^= 0xFF
    with pytest.raises(CorruptRecord, match="lz4"):
        iter(only_batch(buffer, check_crc=False))
    buffer = bytearray(GOLDEN_PLAIN)
    buffer[22] = 5
    with pytest.raises(CorruptRecord, match="no codec 5"):
        iter(only_batch(buffer, check_crc=False))


def test_buffer_stays_held() -> None:
    """A batch keeps its buffer from moving; without one the buffer is free again."""
    buffer = bytearray(GOLDEN_PLAIN)
    batch = only_batch(buffer)
    with pytest.raises(BufferError):
        buffer.append(0)
    iterator = iter(batch)
    del batch
    with pytest.raises(BufferError):
        buffer.append(0)
    assert list(iterator) == GOLDEN_RECORDS
    del iterator
    buffer.append(0)
    assert len(buffer) == 89


def test_memory_follows_the_bytes() -> None:
    """Counts and lengths that lie cost no memory: less than twice the input and 64 KiB."""
    lies = [
        sealed(GOLDEN_PLAIN, encoded_record(START + NULL * 2 + record_v2.encode_varint(n)), count=1)
        for n in (1, 100, 2**20, 2**31 - 1)
    ]
    buffer = bytearray(GOLDEN_PLAIN)
    struct.pack_into(">i", buffer, 57, 2**31 - 1)
    lies.append(bytes(buffer))
    for lie in lies:
        tracemalloc.start()
        try:
            with pytest.raises(CorruptRecord):
                list(only_batch(lie, check_crc=False))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < 2 * len(lie) + 64 * 1024


ROWS_OF_ALL_SIZES: dict[str, list[record_v2.RecordInput]] = {
    "many empty": [(0, None, b"", ())] * 20_000,
    "headers": [(0, b"k", b"v", [("h", b"x" * 20), ("n", None)] * 3)] * 3_000,
    "values": [(0, b"k" * 100, b"v" * 1_000, ())] * 500,
    "one value": [(0, None, b"v" * 400_000, ())],
}


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("rows", ROWS_OF_ALL_SIZES.values(), ids=ROWS_OF_ALL_SIZES)
def test_reading_costs_a_record_at_a_time(rows: list[record_v2.RecordInput], codec: int) -> None:
    """Whole reads stay below twice the input and 64 KiB; what a codec gives is not counted."""
    records = record_v2.encode_batch(rows)[61:]
    buffer = record_v2.encode_batch(rows, codec=codec)

    def give(_codec: int, _payload: memoryview) -> bytes:
        return records

    walks: list[Callable[[RecordBatch], Iterable[object]]] = [iter, RecordBatch.tuples]
    for walk in walks:
        tracemalloc.start()
        try:
            count = sum(1 for batch in BatchReader(buffer, decompress=give) for _ in walk(batch))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert count == len(rows)
        uncompressed = records if codec else buffer
        assert peak_bytes < 2 * len(uncompressed) + 64 * 1024


def test_only_the_reader_makes_batches() -> None:
    """A batch or an iterator without a buffer cannot be had."""
    with pytest.raises(TypeError, match="comes from a BatchReader"):
        RecordBatch()
    with pytest.raises(TypeError, match="comes from a RecordBatch"):
        type(iter(only_batch(GOLDEN_PLAIN)))()
