"""The bound on output and its counters."""

import pytest

from kprod.compression.limits import BoundedOutput
from kprod.errors import CorruptRecord


@pytest.mark.parametrize(
    ("input_bytes", "limit_bytes", "allowed_bytes"),
    [
        (0, 64 << 20, 4 << 20),
        (4_194, 64 << 20, 4 << 20),
        (4_195, 64 << 20, 4_195_000),
        (10_000, 64 << 20, 10_000_000),
        (100_000, 64 << 20, 64 << 20),
        (10_000, 1_000, 1_000),
    ],
)
def test_allowed_bytes(input_bytes: int, limit_bytes: int, allowed_bytes: int) -> None:
    """1,000 : 1 counts between 4 MiB and the absolute limit."""
    assert BoundedOutput("gzip", input_bytes, limit_bytes).allowed_bytes == allowed_bytes


def test_pieces_are_joined_in_order() -> None:
    """Pieces add up to the bound and no further; a rejected piece is not kept."""
    output = BoundedOutput("gzip", 10, 6)
    output.add(b"abc")
    output.add(b"")
    output.require(3)
    with pytest.raises(CorruptRecord, match="gzip: 10 compressed bytes grow past 6 bytes"):
        output.add(b"wxyz")
    output.add(b"def")
    assert output.remaining_bytes == 0
    assert output.joined() == b"abcdef"


def test_single_piece_is_not_copied() -> None:
    """One piece is handed on as it is."""
    piece = b"a piece"
    output = BoundedOutput("gzip", 10, 100)
    output.add(piece)
    assert output.joined() is piece
