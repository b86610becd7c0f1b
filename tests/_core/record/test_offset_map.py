"""The map of newest offsets beside a dictionary, and its hash beside the published vectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.record.offset_map import OffsetMap, siphash
from kprod.errors import CorruptRecord
from kprod.record.reader import read_batches
from tests.oracle.record_v2 import encode_batch

SECRET = bytes(range(16))
SLOT_BYTES = 24
# From the reference implementation (vectors_sip128): the first n bytes of 0, 1, 2 …
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    60: "e3040c00eb28f15366ca73cbd872e740",
    61: "7697009a6a831dfecca91c5993670f7a",
    62: "5853542321f567a005d547a4f04759bd",
    63: "5150d1772f50834a503e069a973fbd7c",
}
Rows = list[tuple[bytes | None, bytes | None]]


def learned(offsets: OffsetMap, rows: Rows, *, base_offset: int = 0, first_offset: int = 0) -> bool:
    """Put a batch of these keys and values into a map."""
    stamped = [(1, key, value, ()) for key, value in rows]
    batch = next(read_batches(encode_batch(stamped, base_offset=base_offset)))
    return offsets.learn(batch, first_offset)


@pytest.mark.parametrize("size", VECTORS)
def test_the_hash_is_siphash(size: int) -> None:
    """SipHash-2-4 with 128 bits."""
    assert siphash(SECRET, bytes(range(size))).hex() == VECTORS[size]


@pytest.mark.parametrize("size", [0, 15, 17])
def test_the_secret_has_16_bytes(size: int) -> None:
    """Neither fewer nor more."""
    with pytest.raises(ValueError, match=f"{size} bytes, must have 16"):
        siphash(bytes(size), b"")
    with pytest.raises(ValueError, match=f"{size} bytes, must have 16"):
        OffsetMap(100, bytes(size))


keys = st.none() | st.binary(max_size=20) | st.integers(0, 5).map(lambda it: b"%d" % it)


@given(st.lists(st.lists(keys, min_size=1, max_size=80), max_size=6), st.integers(0, 40))
def test_a_map_agrees_with_a_dictionary(batches: list[list[bytes | None]], first: int) -> None:
    """Each key's last offset, among the records that are not skipped."""
    offsets, expected = OffsetMap(SLOT_BYTES * 600, SECRET), dict[bytes, int]()
    at = 0
    for batch in batches:
        assert learned(offsets, [(it, b"v") for it in batch], base_offset=at, first_offset=first)
        numbered = enumerate(batch, at)
        expected |= {key: it for it, key in numbered if key is not None and it >= first}
        at += len(batch)
    assert len(offsets) == len(expected)
    assert {key: offsets.get(key) for key in expected} == expected
    assert offsets.get(b"a key that nobody wrote") == -1
    assert offsets.latest_offset == max(expected.values(), default=-1)


@given(st.integers(1, 200), st.integers(1, 300))
def test_a_full_map_ends_at_the_last_key_that_fit(slots: int, key_count: int) -> None:
    """At nine tenths of its slots; the keys before it are known, the others are not."""
    offsets = OffsetMap(SLOT_BYTES * slots, SECRET)
    room = max(int(slots * 0.9), 1)
    fits = learned(offsets, [(b"%d" % it, b"v") for it in range(key_count)])
    assert fits == (key_count <= room)
    known = min(room, key_count)
    assert len(offsets) == known
    assert offsets.utilization == known / room
    assert offsets.latest_offset == known - 1
    assert [offsets.get(b"%d" % it) for it in range(key_count)] == [
        it if it < known else -1 for it in range(key_count)
    ]


def test_a_map_takes_no_memory_before_its_first_key() -> None:
    """A round of a log without dirty batches needs none: more than any machine has is no error."""
    offsets = OffsetMap(2**62, SECRET)
    assert len(offsets) == 0
    with pytest.raises(MemoryError, match="cleaner_dedupe_buffer_size"):
        offsets.get(b"k")


def test_offsets_without_records_are_passed_over() -> None:
    """The latest offset never goes back."""
    offsets = OffsetMap(1_000, SECRET)
    offsets.pass_over(7)
    offsets.pass_over(3)
    assert offsets.latest_offset == 7


def test_a_malformed_record_is_an_error() -> None:
    """A length that reaches beyond the batch."""
    encoded = bytearray(encode_batch([(1, b"a", b"v", ()), (1, b"b", b"v", ())]))
    offsets = OffsetMap(1_000, SECRET)
    encoded[-9] = 0x7E  # the second record's length, 63
    with pytest.raises(CorruptRecord):
        offsets.learn(next(read_batches(encoded, check_crc=False)), 0)
