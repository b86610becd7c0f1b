"""Message sets against the slow reference, both ways, and against damage."""

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from kprod._core.record.message_set_builder import encode_message_set
from kprod._core.record.message_set_reader import MessageSetReader
from kprod.errors import CorruptRecord
from tests.oracle import codecs, message_set
from tests.record import strategies

Row: TypeAlias = tuple[int, int, bytes | None, bytes | None]


def decompress(codec: int, payload: memoryview, magic: int) -> bytes:
    """Open a wrapper with the oracle's codecs."""
    return codecs.decompress(codec, bytes(payload), magic)


def compress(codec: int, payload: bytes, magic: int) -> bytes:
    """Make a wrapper with the oracle's codecs."""
    return codecs.compress(codec, payload, magic)


def keep(_codec: int, payload: memoryview, _magic: int) -> bytes:
    """Take the wrapper's value for its message set."""
    return bytes(payload)


@st.composite
def rows_with_offsets(draw: st.DrawFn) -> list[Row]:
    """Rows whose offsets ascend, with gaps as compaction leaves them."""
    offset = draw(strategies.base_offsets)
    rows = []
    for timestamp_ms, key, value in draw(strategies.records_legacy):
        rows.append((offset, timestamp_ms, key, value))
        offset += draw(st.sampled_from([1, 1, 2]))
    return rows


@given(
    rows=rows_with_offsets(),
    magic=strategies.magics_legacy,
    codec=strategies.codecs_legacy,
    stamp=st.one_of(st.none(), strategies.timestamps_ms),
)
def test_writer_and_reader_agree_with_the_reference(
    rows: list[Row], magic: int, codec: int, stamp: int | None
) -> None:
    """Any records: the same bytes out, the same records back."""
    stamp = stamp if magic else None
    reference = message_set.encode(rows, magic=magic, codec=codec, log_append_time_ms=stamp)
    written = encode_message_set(
        rows, magic=magic, codec=codec, compress=compress, log_append_time_ms=stamp
    )
    assert written == reference
    read = [row for entry in MessageSetReader(reference, decompress=decompress) for row in entry]
    assert [row[:4] for row in read] == message_set.decode(reference)


@given(
    rows=rows_with_offsets(),
    magic=strategies.magics_legacy,
    changes=st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 2_000),
    wrapped=st.booleans(),
)
def test_damage_gives_corrupt_record_or_need_more(
    rows: list[Row],
    magic: int,
    changes: list[tuple[int, int]],
    cut: int,
    wrapped: bool,
) -> None:
    """Whatever bytes change or are missing, with checksums off, nothing else happens."""
    payload = bytearray(message_set.encode(rows, magic=magic))
    for position, byte in changes:
        payload[position % len(payload)] = byte
    damaged = bytes(payload[: cut % (len(payload) + 1)])
    if wrapped:
        row = (rows[-1][0], 0, None, damaged)
        damaged = message_set.encode_message(row, magic=magic, attributes=codecs.GZIP)
    reader = MessageSetReader(damaged, decompress=keep, check_crc=False)
    try:
        total = sum(len(row[2] or b"") + len(row[3] or b"") for entry in reader for row in entry)
    except CorruptRecord:
        return
    assert total <= len(damaged)
    assert reader.position + reader.trailing_bytes == len(damaged)
