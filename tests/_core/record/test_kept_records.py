"""Records that compaction keeps, beside a rule of a few lines and the slow decoder."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.record.kept_records import KeptRecords
from kprod._core.record.offset_map import OffsetMap
from kprod.errors import CorruptRecord
from kprod.record.reader import read_batches
from tests.oracle.record_v2 import encode_batch

SECRET = bytes(range(16))
BASE_MS = 1_700_000_000_000
keys = st.none() | st.sampled_from([b"", b"a", b"b", b"c"])
values = st.none() | st.binary(max_size=100)
times = st.integers(0, 2**40)
headers = st.lists(st.tuples(st.sampled_from(["h", "ü"]), st.none() | st.binary(max_size=9)))
rows_of = st.lists(st.tuples(times, keys, values, headers.map(tuple)), min_size=1, max_size=80)


def batch_of(rows: list[Any], **fields: Any) -> Any:
    """A batch of these rows."""
    return next(read_batches(encode_batch(rows, **fields)))


def again(batch: Any, section: bytes, **fields: Any) -> list[Any]:
    """Read records as those of a batch with another base timestamp."""
    count = fields.pop("record_count")
    encoded = bytearray(batch.view[:61]) + section
    encoded[8:12] = (len(encoded) - 12).to_bytes(4, "big")
    encoded[21:23] = (0).to_bytes(2, "big")
    encoded[57:61] = count.to_bytes(4, "big")
    if "base_ms" in fields:
        encoded[27:35] = fields["base_ms"].to_bytes(8, "big", signed=True)
    return list(next(read_batches(encoded, check_crc=False)))


@given(rows_of, st.integers(0, 4), st.integers(-1, 90), st.booleans(), st.data())
def test_the_newest_of_each_key_stay(
    rows: list[Any], codec: int, covered: int, drops_tombstones: bool, data: st.DataObject
) -> None:
    """Whatever the map does not cover stays; keys may have newer offsets behind the batch."""
    batch = batch_of(rows, codec=codec)
    offsets = OffsetMap(100_000, SECRET)
    offsets.learn(batch, 0)
    newer = data.draw(st.sets(st.sampled_from([b"", b"a", b"b", b"c"])))
    later = [(1, key, b"later", ()) for key in sorted(newer)]
    if later:
        offsets.learn(batch_of(later, base_offset=len(rows)), 0)
    offsets.pass_over(covered)
    newest = {key: it for it, (_, key, _, _) in enumerate(rows) if key is not None}
    expected = [
        it
        for it, (_, key, value, _) in enumerate(rows)
        if it > offsets.latest_offset
        or (
            key is not None
            and key not in newer
            and newest[key] == it
            and not (value is None and drops_tombstones)
        )
    ]

    kept = KeptRecords(batch, offsets, drops_tombstones)

    left = [it for it in batch if it.offset in expected]
    assert kept.record_count == len(left)
    keyless = [it for it, row in enumerate(rows) if row[1] is None and it <= offsets.latest_offset]
    assert kept.invalid_count == len(keyless)
    assert kept.max_timestamp_ms == max((it.timestamp_ms for it in left), default=-1)
    assert kept.has_tombstone == any(it.value is None for it in left)
    assert again(batch, kept.copied(), record_count=len(left)) == left
    horizon_ms = data.draw(times)
    stamped = kept.stamped(horizon_ms)
    assert again(batch, stamped, record_count=len(left), base_ms=horizon_ms) == left


def test_without_a_map_all_stay() -> None:
    """As a marker's record does."""
    batch = batch_of([(BASE_MS, None, None, ()), (BASE_MS + 5, b"k", b"v", ())])
    kept = KeptRecords(batch, None, drops_tombstones=True)
    assert (kept.record_count, kept.invalid_count, kept.has_tombstone) == (2, 0, True)
    assert kept.copied() == bytes(batch.records_view)


def test_times_of_the_broker_become_the_records() -> None:
    """A batch with the time of its append gives that to each record."""
    rows = [(BASE_MS, b"k", b"v", ()), (BASE_MS + 5, b"l", b"w", ())]
    batch = batch_of(rows, is_log_append_time=True, max_timestamp_ms=BASE_MS + 99)
    kept = KeptRecords(batch, None, drops_tombstones=False)
    assert kept.max_timestamp_ms == BASE_MS + 99


def test_a_malformed_record_is_an_error() -> None:
    """A length that reaches beyond the batch."""
    encoded = bytearray(encode_batch([(1, b"a", b"v", ()), (1, b"b", b"v", ())]))
    encoded[-9] = 0x7E  # the second record's length, 63
    with pytest.raises(CorruptRecord):
        KeptRecords(next(read_batches(encoded, check_crc=False)), None, drops_tombstones=False)


def test_bytes_that_change_meanwhile_harm_no_memory() -> None:
    """The records are read again within the bounds that were checked."""
    encoded = bytearray(encode_batch([(1, b"a", b"v", ()), (1, b"b", b"v", ())]))
    batch = next(read_batches(encoded))
    kept = KeptRecords(batch, None, drops_tombstones=False)
    encoded[61:] = b"\xff" * (len(encoded) - 61)
    assert len(kept.copied()) == len(encoded) - 61
    with pytest.raises(CorruptRecord, match="changed"):
        kept.stamped(5)
