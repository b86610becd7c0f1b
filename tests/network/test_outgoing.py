"""Pieces of a request, written in any steps."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.network.outgoing import OutgoingFrame, iov_max


@given(
    pieces=st.lists(st.binary(max_size=20), max_size=30),
    count_max=st.integers(1, 8),
    bytes_max=st.integers(1, 50),
    taken=st.lists(st.integers(1, 60), min_size=1, max_size=30),
)
def test_any_steps_write_every_byte_once(
    pieces: list[bytes], count_max: int, bytes_max: int, taken: list[int]
) -> None:
    """However much the socket takes each time, what it gets is the pieces, in order."""
    frame = OutgoingFrame([memoryview(piece) for piece in pieces])
    written, turn = b"", 0
    while not frame.is_written:
        chosen = frame.next_pieces(count_max, bytes_max)
        assert 1 <= len(chosen) <= count_max
        offered = b"".join(chosen)
        step = offered[: taken[turn % len(taken)]]
        written += step
        frame.advance(len(step))
        assert frame.written_bytes == len(written)
        turn += 1 if step else 0
        if not offered:
            frame.advance(0)
    assert written == b"".join(pieces)
    assert frame.size_bytes == len(written)


def test_nothing_taken_changes_nothing() -> None:
    """A full socket is asked again with the same bytes, as TLS demands."""
    frame = OutgoingFrame([b"abc", b"def"])
    frame.advance(2)

    first = [bytes(piece) for piece in frame.next_pieces(10, 10)]
    frame.advance(0)

    assert [bytes(piece) for piece in frame.next_pieces(10, 10)] == first == [b"c", b"def"]


def test_pieces_are_bounded_by_bytes_too() -> None:
    """The last piece may pass the limit, since pieces are not cut for it."""
    frame = OutgoingFrame([b"x" * 10] * 100)

    assert len(frame.next_pieces(100, 25)) == 3


def test_pieces_are_held() -> None:
    """The frame refers to the very pieces until it is dropped."""
    piece = bytearray(b"abc")

    assert OutgoingFrame([piece]).pieces[0] is piece


@pytest.mark.parametrize(
    ("limit", "expected"), [(1024, 1024), (-1, 1024), (16, 16), (10_000, 1024)]
)
def test_the_systems_limit_is_used(
    monkeypatch: pytest.MonkeyPatch, limit: int, expected: int
) -> None:
    """Unlimited (−1) and larger limits are taken as 1,024."""
    monkeypatch.setattr(os, "sysconf", lambda _: limit)

    assert iov_max() == expected


def test_a_renewed_frame_is_written_from_its_beginning() -> None:
    """In place of all its pieces."""
    frame = OutgoingFrame([b"ab", b"c"])
    frame.advance(3)
    assert frame.is_written

    frame.renew(b"defg")

    assert not frame.is_written
    assert frame.next_pieces(10, 10) == [b"defg"]
    frame.advance(1)
    assert [bytes(piece) for piece in frame.next_pieces(10, 10)] == [b"efg"]
