"""Zigzag varints in records: the vectors of the format page, and nothing past their width.

The functions are inline in compiled modules; a builder writes with them, a reader reads with them.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.record.batch_builder import BatchBuilder
from kprod.errors import CorruptRecord
from kprod.record.reader import read_records

VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    -2: "03",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    2147483647: "feffffff0f",
    -2147483648: "ffffffff0f",
}
VARLONGS = {2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}
# Offset delta 1, no key, an empty value, no headers.
REST = bytes.fromhex("02010000")


def two_records(second: bytes) -> bytes:
    """A batch from time 0 of a bare record and one with these bytes behind its length."""
    first = bytes.fromhex("0c000000010000")
    records = first + bytes([2 * len(second)]) + second
    covered = struct.pack(">hiqqqhii", 0, 1, 0, 0, -1, -1, -1, 2) + records
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, 0) + covered


def second_timestamp(second: bytes) -> int:
    """The timestamp that a reader finds in the second record."""
    _, record = read_records(two_records(second), check_crc=False)
    return record.timestamp_ms


def encoded_delta(delta_ms: int) -> bytes:
    """The timestamp delta that a builder writes."""
    pool = ChunkPool(4_096, small_chunk_bytes=1_024, large_chunk_bytes=1_024)
    chain = pool.try_chain()
    assert chain is not None
    builder = BatchBuilder(chain, 1_024)
    builder.try_append(0, None, b"")
    builder.try_append(delta_ms, None, b"")
    batch = b"".join(builder.close())
    second = batch[61 + 7 :]
    assert second[0] == 2 * (len(second) - 1)
    return second[2 : -len(REST)]


@pytest.mark.parametrize(("value", "encoded"), (VARINTS | VARLONGS).items())
def test_vectors(value: int, encoded: str) -> None:
    """Both directions agree with the page; large numbers take up to ten bytes."""
    assert encoded_delta(value).hex() == encoded
    assert second_timestamp(b"\x00" + bytes.fromhex(encoded) + REST) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_comes_back(value: int) -> None:
    """Each in at most ten bytes."""
    encoded = encoded_delta(value)

    assert 1 <= len(encoded) <= 10
    assert second_timestamp(b"\x00" + encoded + REST) == value


@pytest.mark.parametrize("encoded", ["ffffffff", "ffffffffff01", "ffffffff1f", "ffffffff7f"])
def test_nothing_past_32_bits_is_read(encoded: str) -> None:
    """Cut off, too long, or with bits past the 32nd, where an offset delta should be."""
    with pytest.raises(CorruptRecord, match="varint is cut off or too long"):
        second_timestamp(b"\x00\x00" + bytes.fromhex(encoded))


@pytest.mark.parametrize("encoded", ["ff" * 9, "ff" * 9 + "02", "80" * 10 + "00"])
def test_nothing_past_64_bits_is_read(encoded: str) -> None:
    """The tenth byte of a timestamp delta may carry one bit."""
    with pytest.raises(CorruptRecord, match="varint is cut off or too long"):
        second_timestamp(b"\x00" + bytes.fromhex(encoded) + REST)
