"""Frames out of a stream, in whatever pieces it comes."""

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.network.framing import RESPONSE_BYTES_MAX, FrameReader


def framed(*payloads: bytes) -> bytes:
    """The payloads as they travel."""
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def feed(reader: FrameReader, *pieces: bytes) -> list[bytes]:
    """Feed pieces; return the frames."""
    return [bytes(frame) for piece in pieces for frame in reader.feed(memoryview(piece))]


@given(
    payloads=st.lists(st.binary(min_size=4, max_size=40), max_size=6),
    cuts=st.lists(st.integers(0, 300), max_size=12),
)
def test_any_cut_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    """The frames do not depend on where the stream is cut."""
    stream = framed(*payloads)
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[low:high] for low, high in itertools.pairwise(borders)]
    reader = FrameReader()

    assert feed(reader, *pieces) == payloads
    assert reader.is_at_border
    assert reader.error is None


def test_byte_by_byte_and_with_a_tail() -> None:
    """The two other feeds: single bytes, and a whole frame with the next one's beginning."""
    stream = framed(b"first", b"second")
    reader = FrameReader()

    assert feed(reader, *[bytes([byte]) for byte in stream]) == [b"first", b"second"]
    assert feed(reader, stream + b"\0\0") == [b"first", b"second"]
    assert not reader.is_at_border


@pytest.mark.parametrize(
    ("length", "bytes_max"),
    [
        (-1, RESPONSE_BYTES_MAX),
        (-(2**31), 2**31 - 1),
        (0, 100),
        (3, 100),
        (101, 100),
        (2**31 - 1, 100),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_an_impossible_length_is_an_error(length: int, bytes_max: int, is_whole: bool) -> None:
    """Negative, shorter than a correlation id, or above the limit: nothing is read behind it."""
    reader = FrameReader(bytes_max=bytes_max)
    head = length.to_bytes(4, "big", signed=True)
    pieces = [head + b"more"] if is_whole else [head[:1], head[1:], b"more"]

    assert feed(reader, framed(b"good"), *pieces, framed(b"late")) == [b"good"]
    assert reader.error is not None
    assert f" {length} bytes" in str(reader.error)
    assert str(bytes_max) in str(reader.error)


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "looks like an HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "looks like a TLS server"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "looks like a TLS server"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "looks like an SSH server"),
        (b"220 mail.example ESMTP\r\n", "does not look like a Kafka broker"),
        (b"\xff\xfe\x01\x02\x03", "ff fe 01 02"),
    ],
)
def test_junk_is_recognised(beginning: bytes, expected: str) -> None:
    """Another protocol's greeting makes an impossible length; the error says what it looks like."""
    whole, split = FrameReader(), FrameReader()

    assert feed(whole, beginning) == feed(split, beginning[:2], beginning[2:]) == []
    assert expected in str(whole.error)
    assert expected in str(split.error)


def test_a_huge_length_takes_no_memory() -> None:
    """Memory follows the bytes that arrive, not the length that was announced."""
    readers = [FrameReader() for _ in range(1_000)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for reader in readers:
            feed(reader, RESPONSE_BYTES_MAX.to_bytes(4, "big"), b"few")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert all(reader.error is None for reader in readers)
    assert after - before < 1_000_000
