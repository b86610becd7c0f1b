"""Message sets, by example: layout, wrappers, offsets and timestamps."""

import struct
from collections.abc import Callable
from typing import TypeAlias

import pytest

from kprod._core import message_set as subject
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
    reader = subject.MessageSetReader(payload, decompress=decompress)
    return [row[:4] for entry in reader for row in entry]


def test_v0_message_byte_for_byte() -> None:
    """Offset, size, checksum, magic, attributes, key and value stand where the format has them."""
    written = subject.encode_message_set([(7, 99, b"k", b"val")], magic=0)
    offset_and_size = "0000000000000007" + "00000012"
    message = "316a1df0" + "00" + "00" + "00000001" + "6b" + "00000003" + "76616c"
    assert written.hex() == offset_and_size + message


def test_v1_message_has_the_timestamp_behind_the_attributes() -> None:
    """V1 puts eight bytes of milliseconds between attributes and key."""
    written = subject.encode_message_set([(0, 258, None, b"v")], magic=1)
    assert written[16:].hex() == "0100" + "0000000000000102" + "ffffffff" + "00000001" + "76"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_what_is_written_is_what_the_reference_writes(magic: int, codec: int) -> None:
    """Same records, same codec library, same bytes as the slow encoder."""
    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    written = subject.encode_message_set(rows, magic=magic, codec=codec, compress=compress)
    assert written == message_set.encode(rows, magic=magic, codec=codec)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_offsets_survive_gaps(magic: int, codec: int) -> None:
    """A compacted set keeps the offsets of the records that are left."""
    rows: list[Row] = [(100, 5, b"a", b"1"), (103, 6, b"b", b"2"), (110, 7, b"c", b"3")]
    written = subject.encode_message_set(rows, magic=magic, codec=codec, compress=compress)
    assert [row[0] for row in read(written)] == [100, 103, 110]


def test_v0_has_no_timestamps() -> None:
    """Writing V0 drops them, reading gives −1."""
    assert [row[1] for row in read(subject.encode_message_set(PLAIN, magic=0))] == [-1, -1, -1]


def test_v1_wrapper_has_last_offset_and_highest_timestamp() -> None:
    """The wrapper stands for all its records: last offset, maximum of their timestamps."""
    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    written = subject.encode_message_set(rows, magic=1, codec=1, compress=compress)
    (entry,) = subject.MessageSetReader(written)
    assert (entry.offset, entry.timestamp_ms, entry.codec) == (42, 1_003, 1)
    assert entry.is_wrapper
    assert entry.is_intact
    assert entry.timestamp_type == 0


@pytest.mark.parametrize(("magic", "first", "last"), [(0, 40, 42), (1, 0, 2)])
def test_inner_offsets_are_absolute_in_v0_and_relative_in_v1(
    magic: int, first: int, last: int
) -> None:
    """What goes into the wrapper counts as in the log in V0, from 0 in V1."""
    seen: list[int] = []

    def look(codec: int, payload: bytes, magic: int) -> bytes:
        seen.extend(entry.offset for entry in subject.MessageSetReader(payload))
        return compress(codec, payload, magic)

    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    subject.encode_message_set(rows, magic=magic, codec=1, compress=look)
    assert (seen[0], seen[-1]) == (first, last)


def test_wrapper_offset_zero_means_offsets_from_zero() -> None:
    """Some librdkafka releases left 0 in the wrapper; the inner offsets then stand as they are."""
    written = message_set.encode(PLAIN, magic=1, codec=1, wrapper_offset=0)
    assert [row[0] for row in read(written)] == [0, 1, 2]


@pytest.mark.parametrize("codec", [0, 1])
def test_log_append_time_is_the_brokers(codec: int) -> None:
    """With the broker's timestamp type every record has the stamp, wrapped or not."""
    written = subject.encode_message_set(
        PLAIN, magic=1, codec=codec, compress=compress, log_append_time_ms=77
    )
    assert written == message_set.encode(PLAIN, magic=1, codec=codec, log_append_time_ms=77)
    assert [row[1] for row in read(written)] == [77, 77, 77]
    assert all(entry.timestamp_type == 1 for entry in subject.MessageSetReader(written))


def test_v0_ignores_the_timestamp_type_bit() -> None:
    """The bit means nothing in V0."""
    written = message_set.encode_message((0, -1, None, b"v"), magic=0, attributes=8)
    (entry,) = subject.MessageSetReader(written)
    assert entry.timestamp_type == 0
    assert [row[1] for row in entry] == [-1]


def test_an_entry_cut_at_the_end_is_left_over() -> None:
    """A fetch may end inside a message: what is whole is read, the rest is counted."""
    written = subject.encode_message_set(PLAIN, magic=1)
    reader = subject.MessageSetReader(written[:-1])
    assert [entry.offset for entry in reader] == [0, 1]
    assert reader.position + reader.trailing_bytes == len(written) - 1
    assert reader.trailing_bytes == 12 + 22 - 1


def test_without_checks_damage_is_only_told() -> None:
    """`check_crc=False` reads on, and `is_intact` says which message is damaged."""
    written = bytearray(subject.encode_message_set(PLAIN, magic=1))
    second = len(subject.encode_message_set(PLAIN[:1], magic=1))
    written[second + 20] ^= 1  # in its timestamp
    entries = subject.MessageSetReader(written, check_crc=False)
    assert [entry.is_intact for entry in entries] == [True, False, True]


def test_an_entry_reads_the_same_twice() -> None:
    """Iterating an entry does not use it up."""
    written = subject.encode_message_set(PLAIN, magic=1, codec=2, compress=compress)
    (entry,) = subject.MessageSetReader(written, decompress=decompress)
    assert list(entry) == list(entry)


@pytest.mark.parametrize("as_type", [bytes, bytearray, memoryview])
def test_bytes_like_input_and_content(as_type: Callable[[bytes], bytes]) -> None:
    """Keys, values and buffers may be any contiguous bytes."""
    row = (0, 5, as_type(b"key"), as_type(b"value"))
    written = subject.encode_message_set([row], magic=1)
    (entry,) = subject.MessageSetReader(as_type(written))
    assert list(entry) == [(0, 5, b"key", b"value", ())]


@pytest.mark.parametrize("codec", [0, 2])
def test_messages_give_fields_beside_the_records(codec: int) -> None:
    """Inner messages have checksums of their own, and the offsets and timestamps that count."""
    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    stamp = 77 if codec else None
    written = subject.encode_message_set(
        rows, magic=1, codec=codec, compress=compress, log_append_time_ms=stamp
    )
    messages = [
        message
        for entry in subject.MessageSetReader(written, decompress=decompress)
        for message in entry.messages()
    ]
    assert [message.offset for message in messages] == [40, 41, 42]
    assert [message.timestamp_ms for message in messages] == [stamp or row[1] for row in rows]
    assert all(message.is_intact and not message.is_wrapper for message in messages)
    assert [row[2:4] for message in messages for row in message] == [row[2:] for row in PLAIN]


def test_no_rows_make_an_empty_set() -> None:
    """Nothing to write is nothing, not a wrapper without messages."""
    assert subject.encode_message_set([], magic=1, codec=1, compress=compress) == b""


@pytest.mark.parametrize("codec", [-1, 4, 5])
def test_codecs_of_later_formats_are_refused(codec: int) -> None:
    """The codec zstd came with V2."""
    with pytest.raises(UnsupportedCodec, match=f"codec {codec}"):
        subject.encode_message_set(PLAIN, magic=1, codec=codec, compress=compress)


def test_magic_2_is_refused() -> None:
    """V2 is no message set."""
    with pytest.raises(LocalProtocolError, match="magic 0 or 1"):
        subject.encode_message_set(PLAIN, magic=2)


@pytest.mark.parametrize("offsets", [(1, 1), (2, 1), (-1, 0)])
def test_offsets_must_ascend(offsets: tuple[int, int]) -> None:
    """Out of order they would come back as others."""
    with pytest.raises(LocalProtocolError, match="after offset"):
        subject.encode_message_set([(offset, 0, None, b"") for offset in offsets], magic=1)


def test_a_failing_row_leaves_nothing_behind() -> None:
    """A value that is no bytes raises as Python does; nothing is written."""
    with pytest.raises(TypeError):
        subject.encode_message_set([(0, 0, None, 5)], magic=1)  # type: ignore[list-item]


def test_entries_are_made_by_the_reader_only() -> None:
    """An entry without a source would have nothing to read."""
    with pytest.raises(TypeError, match="MessageSetReader"):
        subject.MessageEntry()
    with pytest.raises(TypeError, match="MessageEntry"):
        subject.WrappedRecords()


def test_a_wrapper_needs_a_decompressor() -> None:
    """Opening one without is our mistake, not the peer's."""
    written = subject.encode_message_set(PLAIN, magic=1, codec=1, compress=compress)
    (entry,) = subject.MessageSetReader(written)
    with pytest.raises(LocalProtocolError, match="decompressor"):
        iter(entry)


def test_sizes_are_those_of_the_format() -> None:
    """An empty V0 message is 26 bytes in the log, a V1 one 34."""
    for magic, size in ((0, 26), (1, 34)):
        written = subject.encode_message_set([(0, 0, None, None)], magic=magic)
        assert len(written) == size
        assert struct.unpack_from(">i", written, 8) == (size - 12,)
