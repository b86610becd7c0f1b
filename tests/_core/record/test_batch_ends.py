"""The end of the last whole batch in a response, of every format, and of bytes that are none."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.record.batch_ends import NONE_FOLLOWS, BatchEnd, last_batch
from tests.oracle import record_v2

OFFSET_MAX = 2**63 - 1


def _batch(offset: int, count: int = 3, epoch: int = 5) -> bytes:
    rows: list[record_v2.RecordInput] = [(1, None, b"v", [])] * count
    made = record_v2.encode_batch(rows, base_offset=offset)
    return made[:12] + struct.pack(">i", epoch) + made[16:]


def _message(offset: int, magic: int = 1) -> bytes:
    body = bytes(4) + bytes([magic]) + bytes(30)
    return struct.pack(">qi", offset, len(body)) + body


def _end(records: bytes) -> tuple[int, int] | None:
    end = last_batch(memoryview(records))
    return None if end is None else (end.next_offset, end.leader_epoch)


def test_the_last_of_several() -> None:
    """Its offsets and its epoch count, not those before it."""
    assert _end(_batch(10) + _batch(13, 1, 6)) == (14, 6)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic: int) -> None:
    """A message has one offset, and no epoch, however long it is."""
    assert _end(_message(7, magic)) == (8, -1)
    assert _end(_batch(4) + _message(7, magic) + bytes(5)) == (8, -1)
    assert _end(struct.pack(">qi", 9, 80) + bytes(4) + bytes([magic]) + bytes(75)) == (10, -1)


@pytest.mark.parametrize("size_bytes", range(200))
def test_a_part_of_a_batch_is_left_out(size_bytes: int) -> None:
    """Wherever the response ends."""
    whole = _batch(10) + _batch(13)
    first = len(_batch(10))
    wanted = None if size_bytes < first else (13, 5) if size_bytes < len(whole) else (16, 5)
    assert _end(whole[:size_bytes]) == wanted


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1])
def test_an_impossible_length_ends_the_search(length: int) -> None:
    """Decoding reports it."""
    bad = struct.pack(">qi", 20, length) + bytes(60)
    assert _end(bad) is None
    assert _end(_batch(10) + bad) == (13, 5)


def test_the_last_offset_there_is() -> None:
    """Nothing can follow it; after an offset below 0 no position can be."""
    assert _end(_batch(OFFSET_MAX - 3)) == (OFFSET_MAX, 5)
    for offset in (OFFSET_MAX - 2, OFFSET_MAX):
        assert _end(_batch(offset)) == (NONE_FOLLOWS, 5)
    assert _end(_message(OFFSET_MAX)) == (NONE_FOLLOWS, -1)
    for offset in (-1, -(2**63)):
        assert _end(_batch(offset)) == (0, 5)


@pytest.mark.parametrize("step", [2, -1])
def test_a_view_with_gaps_is_refused(step: int) -> None:
    """Else bytes outside of it would be read."""
    with pytest.raises(BufferError):
        last_batch(memoryview(bytes(64))[::step])


def test_a_released_view_is_refused() -> None:
    """Its memory may be another's."""
    view = memoryview(bytearray(64))
    view.release()
    with pytest.raises(ValueError, match="released"):
        last_batch(view)


@given(st.binary(max_size=300))
def test_any_bytes(records: bytes) -> None:
    """An end or none, and no read beyond them."""
    end = last_batch(memoryview(records))
    assert end is None or isinstance(end, BatchEnd)
