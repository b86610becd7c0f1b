"""Message sets that are built: layout, wrappers, offsets and timestamps."""

import struct
from typing import TypeAlias

import pytest

from kprod._core.record.message_set_builder import encode_message_set
from kprod._core.record.message_set_reader import MessageSetReader
from kprod.errors import LocalProtocolError, UnsupportedCodec
from tests.oracle import codecs, message_set

Row: TypeAlias = tuple[int, int, bytes | None, bytes | None]

PLAIN: list[Row] = [(0, 1_000, b"k", b"v"), (1, 1_003, None, b""), (2, 1_002, b"", None)]


def decompress(codec: int, payload: memoryview, magic: int) -> bytes:
    """Open a wrapper with the oracle's codecs."""
    return codecs.decompress(codec, bytes(payload), magic)


def compress(codec: int, payload: bytes, magic: int) -> bytes:
    """Make a wrapper with the oracle's codecs."""
    return codecs.compress(codec, payload, magic)


def read(payload: bytes) -> list[Row]:
    """Return the rows in a message set, headers dropped."""
    reader = MessageSetReader(payload, decompress=decompress)
    return [row[:4] for entry in reader for row in entry]


def test_v0_message_byte_for_byte() -> None:
    """Offset, size, checksum, magic, attributes, key and value stand where the format has them."""
    written = encode_message_set([(7, 99, b"k", b"val")], magic=0)
    offset_and_size = "0000000000000007" + "00000012"
    message = "316a1df0" + "00" + "00" + "00000001" + "6b" + "00000003" + "76616c"
    assert written.hex() == offset_and_size + message


def test_v1_message_has_the_timestamp_behind_the_attributes() -> None:
    """V1 puts eight bytes of milliseconds between attributes and key."""
    written = encode_message_set([(0, 258, None, b"v")], magic=1)
    assert written[16:].hex() == "0100" + "0000000000000102" + "ffffffff" + "00000001" + "76"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_written_bytes_equal_the_reference_s(magic: int, codec: int) -> None:
    """Same records, same codec library, same bytes as the slow encoder."""
    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    written = encode_message_set(rows, magic=magic, codec=codec, compress=compress)
    assert written == message_set.encode(rows, magic=magic, codec=codec)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_offsets_survive_gaps(magic: int, codec: int) -> None:
    """A compacted set keeps the offsets of the records that are left."""
    rows: list[Row] = [(100, 5, b"a", b"1"), (103, 6, b"b", b"2"), (110, 7, b"c", b"3")]
    written = encode_message_set(rows, magic=magic, codec=codec, compress=compress)
    assert [row[0] for row in read(written)] == [100, 103, 110]


def test_v0_has_no_timestamps() -> None:
    """Writing V0 drops them, reading gives −1."""
    assert [row[1] for row in read(encode_message_set(PLAIN, magic=0))] == [-1, -1, -1]


def test_v1_wrapper_has_last_offset_and_highest_timestamp() -> None:
    """The wrapper stands for all its records: last offset, maximum of their timestamps."""
    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    written = encode_message_set(rows, magic=1, codec=1, compress=compress)
    (entry,) = MessageSetReader(written)
    assert (entry.offset, entry.timestamp_ms, entry.codec) == (42, 1_003, 1)
    assert entry.is_wrapper
    assert entry.is_intact
    assert entry.timestamp_type == 0


@pytest.mark.parametrize(("magic", "first", "last"), [(0, 40, 42), (1, 0, 2)])
def test_inner_offsets_are_absolute_in_v0_and_relative_in_v1(
    magic: int, first: int, last: int
) -> None:
    """The wrapper's messages count as in the log in V0, from 0 in V1."""
    seen: list[int] = []

    def look(codec: int, payload: bytes, magic: int) -> bytes:
        seen.extend(entry.offset for entry in MessageSetReader(payload))
        return compress(codec, payload, magic)

    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    encode_message_set(rows, magic=magic, codec=1, compress=look)
    assert (seen[0], seen[-1]) == (first, last)


@pytest.mark.parametrize("codec", [0, 1])
def test_log_append_time_is_the_brokers(codec: int) -> None:
    """With the broker's timestamp type every record has the stamp, wrapped or not."""
    written = encode_message_set(
        PLAIN, magic=1, codec=codec, compress=compress, log_append_time_ms=77
    )
    assert written == message_set.encode(PLAIN, magic=1, codec=codec, log_append_time_ms=77)
    assert [row[1] for row in read(written)] == [77, 77, 77]
    assert all(entry.timestamp_type == 1 for entry in MessageSetReader(written))


def test_no_rows_make_an_empty_set() -> None:
    """Nothing to write is nothing, not a wrapper without messages."""
    assert encode_message_set([], magic=1, codec=1, compress=compress) == b""


@pytest.mark.parametrize("codec", [-1, 4, 5])
def test_codecs_of_later_formats_are_rejected(codec: int) -> None:
    """The codec zstd came with V2."""
    with pytest.raises(UnsupportedCodec, match=f"codec {codec}"):
        encode_message_set(PLAIN, magic=1, codec=codec, compress=compress)


def test_magic_2_is_rejected() -> None:
    """V2 is no message set."""
    with pytest.raises(LocalProtocolError, match="magic 0 or 1"):
        encode_message_set(PLAIN, magic=2)


@pytest.mark.parametrize("offsets", [(1, 1), (2, 1), (-1, 0)])
def test_offsets_must_ascend(offsets: tuple[int, int]) -> None:
    """Out of order they would come back as others."""
    with pytest.raises(LocalProtocolError, match="after offset"):
        encode_message_set([(offset, 0, None, b"") for offset in offsets], magic=1)


def test_a_failing_row_leaves_nothing_behind() -> None:
    """A value that is no bytes raises as Python does; nothing is written."""
    with pytest.raises(TypeError):
        encode_message_set([(0, 0, None, 5)], magic=1)  # type: ignore[list-item]


def test_sizes_are_those_of_the_format() -> None:
    """An empty V0 message is 26 bytes in the log, a V1 one 34."""
    for magic, size in ((0, 26), (1, 34)):
        written = encode_message_set([(0, 0, None, None)], magic=magic)
        assert len(written) == size
        assert struct.unpack_from(">i", written, 8) == (size - 12,)
