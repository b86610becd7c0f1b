"""A segment's sparse index from offsets to positions.

An entry is the offset of a batch's last record, relative to the segment's base offset, and the
batch's position. A lookup finds the newest entry at or below an offset; the scan of batch headers
starts there.

Complexity: O(log n) for a lookup, amortized O(1) for an append.

Invariants.
    Offsets and positions rise strictly.

Thread-safety: the broker's thread.
Source: Kafka OffsetIndex (4.3).
"""

import bisect
import operator
import struct
import sys
from array import array

ENTRY_BYTES = 8
_ENTRY = struct.Struct(">II")


def rises(values: "array[int]") -> bool:
    """Whether the values rise strictly."""
    return all(map(operator.lt, values, values[1:]))


def last_position(content: bytes, size_bytes: int) -> int:
    """Return the position in the last entry of an `.index` file.

    Args:
        content: The whole new content.
        size_bytes: Size of the segment.

    Returns:
        The position; 0 if there is no entry.

    Raises:
        ValueError: The file ends within an entry, or the position is beyond the segment's end.
    """
    if len(content) % ENTRY_BYTES:
        raise ValueError(f"an index of {len(content)} bytes ends within an entry")
    if not content:
        return 0
    _, position = _ENTRY.unpack_from(content, len(content) - ENTRY_BYTES)
    if position >= size_bytes or (position == 0 and len(content) > ENTRY_BYTES):
        raise ValueError(f"an index ends with position {position} of {size_bytes}")
    return int(position)


class OffsetIndex:
    """Pairs of relative offset and position."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        """Make an empty index."""
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._offsets)

    def encoded(self) -> bytes:
        """Return the content of an `.index` file: pairs of relative offset and position."""
        pairs = array("I", bytes(8 * len(self._offsets)))
        pairs[0::2] = self._offsets
        pairs[1::2] = self._positions
        if sys.byteorder == "little":
            pairs.byteswap()
        return pairs.tobytes()

    @classmethod
    def decoded(cls, content: bytes, size_bytes: int) -> "OffsetIndex":
        """Parse the content of an `.index` file.

        Args:
            content: The whole new content.
            size_bytes: Size of the segment.

        Returns:
            The index.

        Raises:
            ValueError: The size is not a multiple of an entry's, the entries do not rise, or one is
                beyond the segment's end.
        """
        if len(content) % ENTRY_BYTES:
            raise ValueError(f"an index of {len(content)} bytes ends within an entry")
        pairs = array("I", content)
        if sys.byteorder == "little":
            pairs.byteswap()
        index = cls()
        index._offsets, index._positions = pairs[0::2], pairs[1::2]
        if not rises(index._offsets) or not rises(index._positions):
            raise ValueError("entries of an index do not rise")
        if index._positions and index._positions[-1] >= size_bytes:
            raise ValueError("an index has a position beyond its segment's end")
        return index

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry.

        Args:
            relative_offset: Offset of the batch's last record minus the base offset; above the last
                entry's.
            position: Position of the batch in the segment, in bytes.
        """
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def floor_position(self, relative_offset: int) -> int:
        """Find the newest entry at or below an offset.

        Args:
            relative_offset: Offset minus the base offset; a negative one is below every entry.

        Returns:
            The entry's position; 0 if there is none.
        """
        if relative_offset < 0:
            return 0
        index = bisect.bisect_right(self._offsets, relative_offset) - 1
        return self._positions[index] if index >= 0 else 0

    def ceiling(self, relative_offset: int, size_bytes: int) -> tuple[int, int] | None:
        """Find the batch that contains or follows an offset; needs an entry for each batch.

        Args:
            relative_offset: Offset minus the base offset.
            size_bytes: Size of the segment, where the last batch ends.

        Returns:
            Position and size of the first batch that ends at or beyond the offset; None if there is
            none.
        """
        index = bisect.bisect_left(self._offsets, relative_offset)
        positions = self._positions
        if index == len(positions):
            return None
        position = positions[index]
        end = positions[index + 1] if index + 1 < len(positions) else size_bytes
        return position, end - position

    def ceiling_offset(self, position: int) -> int | None:
        """Find the first entry at or beyond a position.

        Args:
            position: A position in bytes.

        Returns:
            The entry's relative offset; None if there is none.
        """
        index = bisect.bisect_left(self._positions, position)
        return self._offsets[index] if index < len(self._offsets) else None

    def truncate(self, size_bytes: int) -> None:
        """Remove the entries of batches at or beyond a position."""
        kept = bisect.bisect_left(self._positions, size_bytes)
        del self._offsets[kept:]
        del self._positions[kept:]
