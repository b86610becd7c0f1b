"""Message sets that are read: entries, wrappers and leftover bytes."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from kprod._core.record.message_set_builder import encode_message_set
from kprod._core.record.message_set_reader import MessageEntry, MessageSetReader, WrappedRecords
from kprod.errors import LocalProtocolError
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


def test_wrapper_offset_zero_means_offsets_from_zero() -> None:
    """Some librdkafka releases left 0 in the wrapper; the inner offsets then stand as they are."""
    written = message_set.encode(PLAIN, magic=1, codec=1, wrapper_offset=0)
    assert [row[0] for row in read(written)] == [0, 1, 2]


def test_v0_ignores_the_timestamp_type_bit() -> None:
    """The bit means nothing in V0."""
    written = message_set.encode_message((0, -1, None, b"v"), magic=0, attributes=8)
    (entry,) = MessageSetReader(written)
    assert entry.timestamp_type == 0
    assert [row[1] for row in entry] == [-1]


def test_an_entry_cut_at_the_end_is_left_over() -> None:
    """A fetch may end inside a message: whole ones are read, the rest is counted."""
    written = encode_message_set(PLAIN, magic=1)
    reader = MessageSetReader(written[:-1])
    assert [entry.offset for entry in reader] == [0, 1]
    assert reader.position + reader.trailing_bytes == len(written) - 1
    assert reader.trailing_bytes == 12 + 22 - 1


def test_without_checks_damage_is_only_told() -> None:
    """`check_crc=False` reads on, and `is_intact` says which message is damaged."""
    written = bytearray(encode_message_set(PLAIN, magic=1))
    second = len(encode_message_set(PLAIN[:1], magic=1))
    written[second + 20] ^= 1  # in its timestamp
    entries = MessageSetReader(written, check_crc=False)
    assert [entry.is_intact for entry in entries] == [True, False, True]


def test_an_entry_reads_the_same_twice() -> None:
    """Iterating an entry does not use it up."""
    written = encode_message_set(PLAIN, magic=1, codec=2, compress=compress)
    (entry,) = MessageSetReader(written, decompress=decompress)
    assert list(entry) == list(entry)


@pytest.mark.parametrize("as_type", [bytes, bytearray, memoryview])
def test_bytes_like_input_and_content(as_type: Callable[[bytes], bytes]) -> None:
    """Keys, values and buffers may be any contiguous bytes."""
    row = (0, 5, as_type(b"key"), as_type(b"value"))
    written = encode_message_set([row], magic=1)
    (entry,) = MessageSetReader(as_type(written))
    assert list(entry) == [(0, 5, b"key", b"value", ())]


@pytest.mark.parametrize("codec", [0, 2])
def test_messages_give_fields_beside_the_records(codec: int) -> None:
    """Inner messages have checksums of their own, and the offsets and timestamps that count."""
    rows = [(row[0] + 40, *row[1:]) for row in PLAIN]
    stamp = 77 if codec else None
    written = encode_message_set(
        rows, magic=1, codec=codec, compress=compress, log_append_time_ms=stamp
    )
    messages = [
        message
        for entry in MessageSetReader(written, decompress=decompress)
        for message in entry.messages()
    ]
    assert [message.offset for message in messages] == [40, 41, 42]
    assert [message.timestamp_ms for message in messages] == [stamp or row[1] for row in rows]
    assert all(message.is_intact and not message.is_wrapper for message in messages)
    assert [row[2:4] for message in messages for row in message] == [row[2:] for row in PLAIN]


def test_entries_are_made_by_the_reader_only() -> None:
    """An entry without a source would have nothing to read."""
    with pytest.raises(TypeError, match="MessageSetReader"):
        MessageEntry()
    with pytest.raises(TypeError, match="MessageEntry"):
        WrappedRecords()


def test_a_wrapper_needs_a_decompressor() -> None:
    """Opening one without is our mistake, not the peer's."""
    written = encode_message_set(PLAIN, magic=1, codec=1, compress=compress)
    (entry,) = MessageSetReader(written)
    with pytest.raises(LocalProtocolError, match="decompressor"):
        iter(entry)
