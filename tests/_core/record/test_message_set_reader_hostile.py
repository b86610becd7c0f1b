"""Message sets from someone who means harm: CorruptRecord or "need more", nothing else."""

import struct
import tracemalloc
import zlib

import pytest

from kprod._core.record.message_set_reader import MessageSetReader
from kprod.errors import CorruptRecord
from tests.oracle import codecs, message_set

ROWS = [(0, 1_000, b"key", b"value"), (1, 1_001, None, b"w" * 40)]


def decompress(codec: int, payload: memoryview, magic: int) -> bytes:
    """Hand the wrapper's value through: here wrappers hold their set as it is."""
    assert codec in {1, 2, 3}
    assert magic in {0, 1}
    return bytes(payload)


def read(payload: bytes, *, check_crc: bool = True) -> tuple[int, int]:
    """Return how many records there are, and the bytes left over."""
    reader = MessageSetReader(payload, decompress=decompress, check_crc=check_crc)
    count = sum(1 for entry in reader for _ in entry)
    return count, reader.trailing_bytes


def wrapper(inner: bytes | None, *, magic: int = 1, codec: int = 1, offset: int = 1) -> bytes:
    """Return a wrapper message around `inner`, not compressed."""
    return message_set.encode_message((offset, 0, None, inner), magic=magic, attributes=codec)


def with_crc(entry: bytearray) -> bytes:
    """Put the right checksum on a changed entry, so that the change itself is looked at."""
    struct.pack_into(">I", entry, 12, zlib.crc32(entry[16:]))
    return bytes(entry)


@pytest.mark.parametrize("magic", [0, 1])
def test_cut_at_every_byte_needs_more(magic: int) -> None:
    """However a set is cut, whole messages are read and the rest is left over."""
    whole = message_set.encode(ROWS, magic=magic)
    first = len(message_set.encode(ROWS[:1], magic=magic))
    for length in range(len(whole)):
        expected = (0, length) if length < first else (1, length - first)
        assert read(whole[:length]) == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_cut_inside_is_corrupt(magic: int) -> None:
    """Inside a wrapper nothing more can come; a cut at any byte is damage."""
    inner = message_set.encode(ROWS, magic=magic)
    first = len(message_set.encode(ROWS[:1], magic=magic))
    for length in range(len(inner)):
        payload = wrapper(inner[:length], magic=magic)
        if length == first:
            assert read(payload) == (1, 0)
            continue
        with pytest.raises(CorruptRecord):
            read(payload)


@pytest.mark.parametrize("check_crc", [True, False])
@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_is_noticed_or_harmless(magic: int, check_crc: bool) -> None:
    """One wrong bit anywhere, in a plain set or a wrapper: entries, CorruptRecord, left over."""
    plain = message_set.encode(ROWS, magic=magic)
    noticed = 0
    for whole in (plain, wrapper(plain, magic=magic)):
        for bit in range(len(whole) * 8):
            payload = bytearray(whole)
            payload[bit // 8] ^= 1 << bit % 8
            try:
                count, _ = read(bytes(payload), check_crc=check_crc)
            except CorruptRecord:
                noticed += 1
            else:
                assert count <= len(ROWS)
    assert noticed > (len(plain) * 8 if check_crc else 100)


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 13])
def test_sizes_below_the_least_are_corrupt(size: int) -> None:
    """A size that no message can have is rejected before anything else is read."""
    with pytest.raises(CorruptRecord, match=f"size {size}, the least is 14"):
        read(struct.pack(">qi", 0, size) + bytes(40))


def test_v1_has_a_larger_least_size() -> None:
    """14 bytes are enough for V0 only."""
    with pytest.raises(CorruptRecord, match="the least for magic 1 is 22"):
        read(struct.pack(">qiIbb", 0, 14, 0, 1, 0) + bytes(40))


def test_the_largest_size_needs_more_and_takes_no_memory() -> None:
    """A size of 2³¹−1 with nothing behind it allocates nothing."""
    payload = struct.pack(">qiIbb", 0, 2**31 - 1, 0, 1, 0)
    tracemalloc.start()
    try:
        assert read(payload) == (0, len(payload))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * 1024


@pytest.mark.parametrize("magic", [2, 3, 127, -1, -128])
def test_other_magics_are_corrupt(magic: int) -> None:
    """Only 0 and 1 are message sets, and it shows before the entry is whole."""
    with pytest.raises(CorruptRecord, match=f"magic {magic}, expected 0 or 1"):
        read(struct.pack(">qiIb", 0, 1_000, 0, magic))


@pytest.mark.parametrize("size", [-(2**31), -2, 4, 2**31 - 1])
@pytest.mark.parametrize("position", [18, 25])
def test_wrong_key_and_value_sizes_are_corrupt(size: int, position: int) -> None:
    """A V0 message's key size is at 18, and behind a key of 3 bytes its value size at 25."""
    entry = bytearray(message_set.encode_message((0, -1, b"key", b"value"), magic=0))
    struct.pack_into(">i", entry, position, size)
    with pytest.raises(CorruptRecord, match="size"):
        read(with_crc(entry))


def test_a_value_shorter_than_the_message_is_corrupt() -> None:
    """Bytes between the value and the message's end belong to nothing."""
    entry = bytearray(message_set.encode_message((0, -1, None, b"value"), magic=0))
    struct.pack_into(">i", entry, 22, -1)
    with pytest.raises(CorruptRecord, match="5 bytes are left of the message"):
        read(with_crc(entry))


def test_wrong_checksum_is_corrupt_and_says_where() -> None:
    """The text names the byte, the offset and the checksum that the message claims."""
    entry = bytearray(message_set.encode(ROWS, magic=1))
    struct.pack_into(">I", entry, 12, 0xDEADBEEF)
    with pytest.raises(CorruptRecord, match="byte 0, offset 0: checksum is not 0xdeadbeef"):
        read(bytes(entry))


def test_wrong_checksum_inside_a_wrapper_is_corrupt() -> None:
    """Inner messages have checksums of their own."""
    inner = bytearray(message_set.encode(ROWS, magic=1))
    inner[-1] ^= 1
    with pytest.raises(CorruptRecord, match="checksum"):
        read(wrapper(bytes(inner)))
    assert read(wrapper(bytes(inner)), check_crc=False) == (2, 0)


def test_a_wrapper_in_a_wrapper_is_corrupt() -> None:
    """Nesting is forbidden, so depth can cost nothing."""
    nested = wrapper(wrapper(message_set.encode(ROWS, magic=1)))
    with pytest.raises(CorruptRecord, match="holds another wrapper"):
        read(nested)


@pytest.mark.parametrize(("inner", "text"), [(b"", "holds no message"), (None, "null value")])
def test_wrappers_without_messages_are_corrupt(inner: bytes | None, text: str) -> None:
    """A wrapper must hold at least one message."""
    with pytest.raises(CorruptRecord, match=text):
        read(wrapper(inner))


@pytest.mark.parametrize(("outer", "inner"), [(0, 1), (1, 0)])
def test_mixed_magics_are_corrupt(outer: int, inner: int) -> None:
    """A wrapper holds messages of its own format only."""
    with pytest.raises(CorruptRecord, match=f"magic {inner} inside magic {outer}"):
        read(wrapper(message_set.encode(ROWS, magic=inner), magic=outer))


@pytest.mark.parametrize("codec", [4, 5, 6, 7])
def test_unknown_codecs_are_corrupt(codec: int) -> None:
    """The codec zstd and numbers that mean nothing cannot be in these formats."""
    with pytest.raises(CorruptRecord, match=f"codec {codec} in magic 1"):
        read(wrapper(message_set.encode(ROWS, magic=1), codec=codec))


def test_wrapper_offset_below_its_records_is_corrupt() -> None:
    """It would make the first offset negative."""
    inner = message_set.encode([(0, 0, None, b""), (5, 0, None, b"")], magic=1)
    with pytest.raises(CorruptRecord, match="offset 4 does not go with inner offset 5"):
        read(wrapper(inner, offset=4))


def test_offsets_past_int64_are_corrupt() -> None:
    """Inner offsets out of order cannot push the sum over the largest offset."""
    inner = message_set.encode([(2**62, 0, None, b""), (0, 0, None, b"")], magic=1)
    with pytest.raises(CorruptRecord, match="does not go with inner offset"):
        read(wrapper(inner, offset=2**63 - 1))


@pytest.mark.parametrize("magic", [0, 1])
def test_negative_inner_offsets_are_corrupt(magic: int) -> None:
    """Offsets count from 0."""
    inner = message_set.encode_message((-1, 0, None, b""), magic=magic)
    with pytest.raises(CorruptRecord, match="negative inner offset -1"):
        read(wrapper(inner, magic=magic))


def test_memory_stays_below_twice_the_input() -> None:
    """Reading costs a record at a time, not a list of all."""
    payload = message_set.encode_message((0, 0, b"", b""), magic=1) * 20_000
    payload += wrapper(payload)
    tracemalloc.start()
    try:
        assert read(payload) == (40_000, 0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2 * len(payload) + 64 * 1024


def test_errors_of_the_decompressor_come_through() -> None:
    """The caller gets the exceptions of the codec layer."""

    def reject(codec: int, payload: memoryview, magic: int) -> bytes:
        raise CorruptRecord(f"too much: {codec} {magic} {payload!r}"[:9])

    payload = message_set.encode(ROWS, magic=1, codec=codecs.GZIP)
    with pytest.raises(CorruptRecord, match="too much"):
        list(next(MessageSetReader(payload, decompress=reject)))
