"""The V2 batch reader against the slow reference, and against damage of any kind."""

import contextlib
import struct
from collections.abc import Callable
from functools import partial
from itertools import starmap
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from kprod._core.record.batch_reader import BatchReader, RecordBatch
from kprod.compression import decompress
from kprod.errors import CorruptRecord
from tests.oracle import record_v2
from tests.oracle.record_v2 import BatchFields, DecodedRecord

nullable = st.one_of(st.none(), st.binary(max_size=70))
headers = st.lists(st.tuples(st.text(max_size=10), nullable), max_size=4)
timestamps = st.one_of(st.integers(-1, 2_000_000_000_000), st.integers(-(2**61), 2**61))
rows = st.lists(st.tuples(timestamps, nullable, nullable, headers), max_size=12)
fields = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": st.integers(0, 2**63 - 2**31),
        "codec": st.integers(0, 4),
        "producer_id": st.integers(-1, 2**63 - 1),
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "base_sequence": st.integers(-1, 2**31 - 1),
        "is_transactional": st.booleans(),
        "is_control": st.booleans(),
        "is_log_append_time": st.booleans(),
        "has_delete_horizon": st.booleans(),
        "partition_leader_epoch": st.integers(-1, 2**31 - 1),
        "base_timestamp_ms": st.integers(-(2**61), 2**61),
        "max_timestamp_ms": st.integers(-1, 2**63 - 1),
    },
)
Chosen = list[tuple[list[record_v2.RecordInput], dict[str, int]]]
batches = st.lists(st.tuples(rows, fields), max_size=3)
HEADER_NAMES = [
    "base_offset",
    "partition_leader_epoch",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
]


def _encode(chosen: Chosen) -> bytes:
    return b"".join(
        record_v2.encode_batch(some, **cast("BatchFields", named)) for some, named in chosen
    )


@given(chosen=batches, tail=st.binary(max_size=11))
def test_same_as_the_reference(chosen: Chosen, tail: bytes) -> None:
    """Whatever the reference writes reads the same, field by field and record by record."""
    buffer = _encode(chosen)
    reader = BatchReader(buffer + tail, decompress=decompress)
    found = list(reader)
    expected = record_v2.decode_batches(buffer)
    assert len(found) == len(expected)
    assert reader.remaining_bytes == len(tail)
    for batch, reference in zip(found, expected, strict=True):
        for name in HEADER_NAMES:
            assert getattr(batch, name) == getattr(reference, name)
        assert batch.length == reference.batch_length
        assert list(starmap(DecodedRecord, batch)) == list(reference.records)
        assert list(batch.tuples()) == [record[2:] for record in reference.records]
        latest_ms = max((record.timestamp_ms for record in reference.records), default=-1)
        assert batch.check_records() == max(latest_ms, -1)


@given(
    chosen=batches,
    damage=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 40),
)
def test_damage_is_corrupt_or_read(
    chosen: Chosen,
    damage: list[tuple[int, int]],
    cut: int,
) -> None:
    """Damaged bytes are corrupt, or read; the three paths over the records agree on which."""
    buffer = bytearray(_encode(chosen))
    for place, byte in damage:
        if buffer:
            buffer[place % len(buffer)] = byte
    reader = BatchReader(buffer[: len(buffer) - cut], check_crc=False, decompress=decompress)
    for batch in _sound_headers(reader):
        verdict = _reads(batch.check_records)
        assert _reads(partial(_walk_records, batch)) is verdict
        assert _reads(partial(_walk_tuples, batch)) is verdict


def _sound_headers(reader: BatchReader) -> list[RecordBatch]:
    """The batches before the first that is corrupt."""
    found = []
    with contextlib.suppress(CorruptRecord):
        for batch in reader:
            found.append(batch)  # noqa: PERF402 - keeps those before the error
    return found


def _walk_records(batch: RecordBatch) -> list[object]:
    return list(batch)


def _walk_tuples(batch: RecordBatch) -> list[object]:
    return list(batch.tuples())


def _reads(walk: Callable[[], object]) -> bool:
    try:
        walk()
    except CorruptRecord:
        return False
    return True


@given(chosen=batches, size=st.integers(1, 97))
def test_fed_in_pieces(chosen: Chosen, size: int) -> None:
    """A stream fed piece by piece gives the batches of the whole, each as soon as it is there."""
    buffer = _encode(chosen)
    pending = b""
    found = []
    for start in range(0, len(buffer), size):
        pending += buffer[start : start + size]
        reader = BatchReader(pending, decompress=decompress)
        found += [bytes(batch.view) for batch in reader]
        assert reader.remaining_bytes < max(reader.needed_bytes, 1)
        pending = pending[reader.position :]
    assert not pending
    assert b"".join(found) == buffer


@given(numbers=st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * 2), place=st.integers(0, 15))
def test_any_header_number(numbers: tuple[int, int], place: int) -> None:
    """Any two 32-bit numbers anywhere in the header are corrupt or read."""
    buffer = bytearray(record_v2.encode_batch([(0, b"k", b"v", [("h", None)])] * 3))
    for shift, number in enumerate(numbers):
        struct.pack_into(">i", buffer, (place * 4 + 11 * shift) % 57, number)
    count = 0
    try:
        for batch in BatchReader(buffer, check_crc=False, decompress=decompress):
            count += len(list(batch))
    except CorruptRecord:
        count = -1
    assert count in {-1, 0, 1, 2, 3}
