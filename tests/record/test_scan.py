"""Scanning a log in pieces gives what reading it whole gives."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.errors import CorruptRecord
from kprod.record.scan import LogScanner
from tests.oracle import message_set, record_v2

V0 = message_set.encode([(0, -1, b"k", b"0")], magic=0)
V1 = message_set.encode([(1, 5, b"k", b"1")], magic=1, codec=1)
V2 = record_v2.encode_batch([(5, b"k", b"2", [("h", b"")])], base_offset=2, codec=4)
LOG = V0 + V1 + V2 + V2 + V1 + V0
POSITIONS = [0]
for _entry in (V0, V1, V2, V2, V1):
    POSITIONS.append(POSITIONS[-1] + len(_entry))


def scan(pieces: list[bytes]) -> tuple[list[int], int]:
    """Return the entries' positions, and the bytes left over."""
    scanner = LogScanner()
    found = [located.position for piece in pieces for located in scanner.feed(piece)]
    assert scanner.position + scanner.trailing_bytes == sum(len(piece) for piece in pieces)
    return found, scanner.trailing_bytes


def test_whole_byte_by_byte_and_with_a_tail() -> None:
    """The three feeds of every decoder."""
    assert scan([LOG]) == (POSITIONS, 0)
    assert scan([bytes([byte]) for byte in LOG]) == (POSITIONS, 0)
    assert scan([LOG, V2[:-1]]) == (POSITIONS, len(V2) - 1)
    assert scan([]) == ([], 0)
    assert scan([b"", b""]) == ([], 0)


@given(cuts=st.lists(st.integers(0, len(LOG)), max_size=8))
def test_any_cuts(cuts: list[int]) -> None:
    """The result does not depend on where the windows end."""
    borders = [0, *sorted(cuts), len(LOG)]
    pieces = [LOG[start:end] for start, end in pairwise(borders)]
    assert scan(pieces) == (POSITIONS, 0)


def test_entries_read_in_pieces_have_their_records() -> None:
    """An entry keeps its bytes when the scanner continues."""
    scanner = LogScanner()
    found = [located for byte in LOG for located in scanner.feed(bytes([byte]))]
    offsets = [record[0] for located in found for record in located.entry]
    assert offsets == [0, 1, 2, 2, 1, 0]


def test_damage_names_the_position_in_the_log() -> None:
    """The entries before it are given, and the text says where it cannot continue."""
    scanner = LogScanner()
    list(scanner.feed(V0))
    broken = V2[:16] + b"\7" + V2[17:]
    with pytest.raises(CorruptRecord, match=f"position {len(V0)} of the log"):
        list(scanner.feed(broken))
    assert scanner.position == len(V0)


def test_a_large_entry_in_small_pieces_is_joined_once() -> None:
    """Memory is the entry and its copy, not one copy per piece."""
    batch = record_v2.encode_batch([(0, None, bytes(4_000_000), [])])
    pieces = [batch[at : at + 65_536] for at in range(0, len(batch), 65_536)]
    scanner = LogScanner()
    tracemalloc.start()
    try:
        found = [located.position for piece in pieces for located in scanner.feed(piece)]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [0]
    assert peak_bytes < 2 * len(batch)
