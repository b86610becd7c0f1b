"""Blocks of a fetch response: taken records, skipped records, and the position."""

import itertools
import random
from collections.abc import Sequence

import pytest

from kprod._core.record import decompression
from kprod.errors import CorruptRecord
from kprod.model import TimestampType
from kprod.record import blocks
from kprod.record.blocks import ConsumerRecord, PartitionStamp, RecordBlock
from kprod.record.control import ControlType, EndMarker, encode_marker_batch
from kprod.record.entries import read_entries
from tests._core.record.odd_records import MS, odd_log
from tests.oracle import message_set, record_v2

STAMP = PartitionStamp("orders", 3)


def rows(count: int) -> list[record_v2.RecordInput]:
    """Return `count` records with different values."""
    return [(MS + index, b"k%d" % index, b"v%d" % index, []) for index in range(count)]


def batch(base_offset: int, count: int, **fields: object) -> bytes:
    """Return a batch of `count` records."""
    return record_v2.encode_batch(rows(count), base_offset=base_offset, **fields)  # type: ignore[arg-type]


def marker(offset: int, control_type: ControlType, producer_id: int) -> bytes:
    """The end of a transaction."""
    made = encode_marker_batch(
        EndMarker(control_type, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=MS
    )
    return offset.to_bytes(8, "big") + bytes(made[8:])


def offsets(block: RecordBlock, step: int = 1_000) -> list[int]:
    """Read a block to its end."""
    found: list[int] = []
    while not block.exhausted:
        taken = block.take(step)
        assert taken or block.exhausted
        found += [record.offset for record in taken]
    return found


@pytest.mark.parametrize("codec", range(5))
def test_every_field(codec: int) -> None:
    """A record has all that was sent with it."""
    data = record_v2.encode_batch(
        [
            (MS, b"key", b"value", [("a", b"1"), ("a", None), ("", b"")]),
            (MS - 5, None, None, []),
            (MS + 9, b"", b"", [("ü", b"x" * 300)]),
        ],
        base_offset=7,
        partition_leader_epoch=4,
        codec=codec,
    )
    block = RecordBlock(data, STAMP, 0)
    first, second, third = block.take(9)
    assert (first.topic, first.partition, first.offset) == ("orders", 3, 7)
    assert (first.timestamp_ms, first.timestamp_type) == (MS, TimestampType.CREATE_TIME)
    assert first.leader_epoch == 4
    assert (first.key, first.value) == (b"key", b"value")
    assert first.headers == (("a", b"1"), ("a", None), ("", b""))
    assert first.headers[0].key == "a"
    assert (second.timestamp_ms, second.key, second.value, second.headers) == (
        MS - 5,
        None,
        None,
        (),
    )
    assert (third.key, third.value, third.headers) == (b"", b"", (("ü", b"x" * 300),))
    assert block.exhausted
    assert block.next_offset == 10
    assert block.size == len(data)
    assert block.decompressed_size == 0


def test_time_of_the_broker() -> None:
    """With LogAppendTime the broker's time counts, for all records of the batch."""
    data = record_v2.encode_batch(
        rows(2), base_offset=0, is_log_append_time=True, max_timestamp_ms=MS + 77
    )
    taken = RecordBlock(data, STAMP, 0).take(2)
    assert [record.timestamp_ms for record in taken] == [MS + 77] * 2
    assert taken[0].timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("from_offset", [0, 1, 4, 5, 11, 12])
def test_reading_begins_where_it_was_asked_to(from_offset: int, step: int) -> None:
    """Records below the first offset are skipped, wherever batches begin."""
    data = batch(0, 5) + batch(5, 1, codec=3) + batch(6, 6, codec=4)
    block = RecordBlock(data, STAMP, from_offset)
    assert offsets(block, step) == list(range(from_offset, 12))
    assert block.next_offset == 12


def test_take_takes_no_more_than_asked() -> None:
    """The position is after the taken records, not after the opened batch."""
    block = RecordBlock(batch(0, 5, codec=1) + batch(5, 3), STAMP, 0)
    assert block.take(0) == []
    assert [record.offset for record in block.take(2)] == [0, 1]
    assert (block.next_offset, block.exhausted) == (2, False)
    assert block.decompressed_size > 0
    assert [record.offset for record in block.take(4)] == [2, 3, 4, 5]
    assert block.next_offset == 6
    assert [record.offset for record in block.take(4)] == [6, 7]
    assert block.exhausted
    assert block.take(4) == []


def test_gaps_of_compaction_count() -> None:
    """The last offset of a batch counts, though its last records or all of them are gone."""
    data = (
        record_v2.encode_batch(rows(2), base_offset=0, offset_deltas=(1, 4), last_offset_delta=9)
        + record_v2.encode_batch([], base_offset=10, last_offset_delta=4)
        + record_v2.encode_batch(rows(1), base_offset=20)
        + record_v2.encode_batch([], base_offset=21, last_offset_delta=8)
    )
    block = RecordBlock(data, STAMP, 0)
    assert [record.offset for record in block.take(1)] == [1]
    assert block.next_offset == 2
    assert [record.offset for record in block.take(1)] == [4]
    assert block.next_offset == 15  # nothing else can be taken below it
    assert [record.offset for record in block.take(1)] == [20]
    assert block.next_offset == 30
    assert block.exhausted


@pytest.mark.parametrize("read_committed", [False, True])
def test_control_batches_are_never_shown(read_committed: bool) -> None:
    """The position skips markers, also at the end of the log."""
    data = (
        batch(0, 2, is_transactional=True, producer_id=9)
        + marker(2, ControlType.COMMIT, 9)
        + batch(3, 1)
        + marker(4, ControlType.COMMIT, 9)
    )
    block = RecordBlock(data, STAMP, 0, read_committed=read_committed)
    assert offsets(block) == [0, 1, 3]
    assert block.next_offset == 5


def test_aborted_transactions_are_passed_over() -> None:
    """Only aborted records are skipped: by producer, from its first offset to its marker."""
    data = (
        batch(0, 2, is_transactional=True, producer_id=1)  # aborted
        + batch(2, 2, is_transactional=True, producer_id=2)  # committed
        + batch(4, 1)  # outside a transaction
        + batch(5, 1, producer_id=1)  # idempotent only
        + marker(6, ControlType.ABORT, 1)
        + batch(7, 2, is_transactional=True, producer_id=1)  # its next one, committed
        + marker(9, ControlType.COMMIT, 1)
        + marker(10, ControlType.COMMIT, 2)
        + batch(11, 1, is_transactional=True, producer_id=1)  # aborted again
        + marker(12, ControlType.ABORT, 1)
    )
    aborted = [(1, 11), (1, 0)]
    block = RecordBlock(data, STAMP, 0, aborted=aborted, read_committed=True)
    assert offsets(block) == [2, 3, 4, 5, 7, 8]
    assert block.next_offset == 13
    assert offsets(RecordBlock(data, STAMP, 0, aborted=aborted)) == [0, 1, 2, 3, 4, 5, 7, 8, 11]


def test_a_transaction_that_began_before_the_block() -> None:
    """The first offset of an aborted transaction may be before the fetched range."""
    data = batch(100, 2, is_transactional=True, producer_id=1) + marker(102, ControlType.ABORT, 1)
    block = RecordBlock(data, STAMP, 100, aborted=[(1, 3)], read_committed=True)
    assert block.take(10) == []
    assert (block.exhausted, block.next_offset) == (True, 103)


def test_a_marker_that_compaction_emptied() -> None:
    """A control batch without a record ends nothing and is skipped."""
    emptied = record_v2.encode_batch(
        [],
        base_offset=3,
        last_offset_delta=0,
        is_control=True,
        is_transactional=True,
        producer_id=1,
    )
    block = RecordBlock(emptied + batch(4, 1), STAMP, 0, read_committed=True)
    assert offsets(block) == [4]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize("step", [1, 3, 100])
def test_old_formats(magic: int, codec: int, step: int) -> None:
    """Messages and wrappers of V0 and V1, among batches, from any offset on."""
    old: list[message_set.RecordInput] = [
        (offset, MS + offset, b"k" if offset % 2 else None, b"v%d" % offset) for offset in range(6)
    ]
    data = message_set.encode(old, magic=magic, codec=codec) + batch(6, 2)
    for from_offset in range(9):
        block = RecordBlock(data, STAMP, from_offset)
        taken = []
        while not block.exhausted:
            taken += block.take(step)
        assert [record.offset for record in taken] == list(range(from_offset, 8))
        assert block.next_offset == max(8, from_offset)
        for record in taken[: max(6 - from_offset, 0)]:
            assert record.value == b"v%d" % record.offset
            assert record.key == (b"k" if record.offset % 2 else None)
            assert record.timestamp_ms == (MS + record.offset if magic else -1)
            assert record.timestamp_type == (TimestampType.CREATE_TIME if magic else None)
            assert record.leader_epoch is None
            assert record.headers == ()


def test_broker_time_of_wrappers() -> None:
    """A V1 wrapper that the broker stamped gives its time to its records."""
    data = message_set.encode([(0, 5, None, b"v")], magic=1, codec=1, log_append_time_ms=MS)
    (record,) = RecordBlock(data, STAMP, 0).take(5)
    assert (record.timestamp_ms, record.timestamp_type) == (MS, TimestampType.LOG_APPEND_TIME)


def test_cut_at_every_byte() -> None:
    """Whole batches are read; a cut first batch is an error, whatever is left of it."""
    parts = [
        batch(0, 3),
        batch(3, 2, codec=4),
        message_set.encode([(5, MS, b"k", b"v")], magic=1),
        message_set.encode([(6, MS, b"k", b"v"), (7, MS, None, None)], magic=0, codec=3),
        batch(8, 1),
    ]
    ends = list(itertools.accumulate(map(len, parts)))
    counts = [3, 5, 6, 8, 9]
    data = b"".join(parts)
    for length in range(len(data) + 1):
        block = RecordBlock(data[:length], STAMP, 0)
        whole = sum(end <= length for end in ends)
        if 0 < length < ends[0]:
            with pytest.raises(CorruptRecord, match="first batch"):
                block.take(1)
            continue
        assert offsets(block) == list(range(counts[whole - 1] if whole else 0))
        assert block.next_offset == (counts[whole - 1] if whole else 0)


@pytest.mark.parametrize("codec", [0, 2])
def test_a_corrupt_batch_is_reported_behind_the_records_before_it(codec: int) -> None:
    """The error comes when nothing before it is left, names the place, and comes again."""
    bad = bytearray(batch(5, 3, codec=codec))
    bad[-1] ^= 1
    block = RecordBlock(batch(0, 5) + bytes(bad) + batch(8, 1), STAMP, 0)
    assert len(block.take(100)) == 5
    for _ in range(3):
        with pytest.raises(
            CorruptRecord, match=r"'orders', partition 3, offset 5: .*checksum"
        ) as caught:
            block.take(100)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 3, 5)
        assert (block.next_offset, block.exhausted) == (5, False)


def test_without_checksums() -> None:
    """A wrong checksum is not looked at then."""
    bad = bytearray(batch(0, 3))
    bad[17] ^= 1
    assert offsets(RecordBlock(bytes(bad), STAMP, 0, check_crcs=False)) == [0, 1, 2]


def test_malformed_records_within_a_batch() -> None:
    """Records before the malformed one are given."""
    data = batch(0, 3)
    lying = bytearray(data)
    lying[57:61] = (4).to_bytes(4, "big")  # one more than there are
    block = RecordBlock(bytes(lying), STAMP, 0, check_crcs=False)
    assert len(block.take(9)) == 3
    with pytest.raises(CorruptRecord, match=r"offset 3: .*record 3 of 4"):
        block.take(9)
    lying[57:61] = (2).to_bytes(4, "big")
    block = RecordBlock(bytes(lying), STAMP, 0, check_crcs=False)
    assert len(block.take(9)) == 2
    with pytest.raises(CorruptRecord, match=r"offset 2: .*left over"):
        block.take(9)


@pytest.mark.parametrize("count", [2**31 - 1, 10_000_000, -1])
def test_lying_counts(count: int) -> None:
    """A count that the bytes cannot hold is rejected before anything is allocated."""
    lying = bytearray(batch(0, 3))
    lying[57:61] = (count % 2**32).to_bytes(4, "big")
    with pytest.raises(CorruptRecord, match="record count"):
        RecordBlock(bytes(lying), STAMP, 0, check_crcs=False).take(1)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_decompression_is_bounded(codec: int) -> None:
    """A batch that grows past the limit is corrupt, in every codec."""
    data = record_v2.encode_batch([(MS, None, bytes(1 << 20), [])], base_offset=0, codec=codec)
    assert RecordBlock(data, STAMP, 0).take(1)[0].value == bytes(1 << 20)
    with pytest.raises(CorruptRecord, match=r"'orders', partition 3, offset 0: .*grow past"):
        RecordBlock(data, STAMP, 0, max_decompressed=1 << 19).take(1)


def test_last_offset_of_all() -> None:
    """No position can be behind the largest offset."""
    data = batch(2**63 - 1, 1)
    with pytest.raises(CorruptRecord, match="after which"):
        RecordBlock(data, STAMP, 0).take(1)


def test_overlapping_batches_give_an_offset_once() -> None:
    """Taken records are not returned again, though the broker sends them again."""
    assert offsets(RecordBlock(batch(0, 5) + batch(3, 5), STAMP, 0)) == list(range(8))


@pytest.mark.parametrize("codec", [0, 3])
def test_views(codec: int) -> None:
    """Contents as read-only views of the block's memory, which they keep."""
    data = bytearray(batch(0, 2, codec=codec) + message_set.encode([(2, 0, b"k2", b"v2")], magic=1))
    block = RecordBlock(memoryview(data), STAMP, 0, as_views=True)
    taken = block.take(5)
    assert block.exhausted
    del block
    assert [bytes(record.value) for record in taken] == [b"v0", b"v1", b"v2"]
    assert all(isinstance(record.key, memoryview) and record.key.readonly for record in taken)
    nothing = RecordBlock(record_v2.encode_batch([(MS, None, None, [])]), STAMP, 0, as_views=True)
    assert [(record.key, record.value) for record in nothing.take(1)] == [(None, None)]


def test_an_exhausted_block_frees_its_bytes() -> None:
    """A bytearray cannot change its size while something points into it."""
    data = bytearray(batch(0, 2))
    block = RecordBlock(data, STAMP, 0)
    taken = block.take(1)
    with pytest.raises(BufferError):
        data.clear()
    taken += block.take(1)
    data.clear()
    assert [record.value for record in taken] == [b"v0", b"v1"]


def test_nothing_is_lost_when_a_call_fails() -> None:
    """Ctrl-C within a decompression: the next call gives what this one had taken."""
    calls: list[int] = []

    def interrupted(codec: int, payload: memoryview, magic: int, limit: int) -> bytes:
        calls.append(codec)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return blocks._decompress(codec, payload, magic, limit)

    decompression.register_decompressor(interrupted)
    try:
        block = RecordBlock(batch(0, 2, codec=1) + batch(2, 2, codec=1), STAMP, 0)
        with pytest.raises(KeyboardInterrupt):
            block.take(10)
        assert offsets(block) == [0, 1, 2, 3]
    finally:
        decompression.register_decompressor(blocks._decompress)


def test_bad_arguments() -> None:
    """Impossible arguments are rejected by the constructor."""
    with pytest.raises(ValueError, match="from_offset=-1"):
        RecordBlock(b"", STAMP, -1)
    with pytest.raises(TypeError):
        RecordBlock("text", STAMP, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        RecordBlock(b"", None, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_the_plain_reader(seed: int) -> None:
    """Odd records in every format and codec, taken in odd steps, are what the reader reads."""
    rng = random.Random(seed)
    content = odd_log(rng)
    expected = [tuple(row) for entry in read_entries(content) for row in entry]
    block = RecordBlock(content, STAMP, 0)
    taken: list[ConsumerRecord] = []
    while not block.exhausted:
        taken += block.take(rng.randrange(1, 30))
    assert fields(taken) == expected


def fields(taken: Sequence[ConsumerRecord]) -> list[tuple[object, ...]]:
    """The fields that the plain reader gives, too."""
    return [(each.offset, each.timestamp_ms, each.key, each.value, each.headers) for each in taken]
