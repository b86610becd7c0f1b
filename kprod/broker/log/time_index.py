"""A segment's sparse index from timestamps to offsets.

An entry holds the largest timestamp so far, and the relative offset of the last record of the first
batch with that timestamp. All records before that batch have smaller timestamps.

Complexity: O(log n) for a lookup, amortized O(1) for an append.

Invariants.
    Timestamps and offsets rise strictly.

Thread-safety: the broker's thread.
Source: Kafka TimeIndex (4.3).
"""

import bisect
import struct
from array import array
from typing import NamedTuple

from kprod.broker.log.offset_index import rises

_ENTRY = struct.Struct(">qI")
ENTRY_BYTES = _ENTRY.size


class TimeEntry(NamedTuple):
    """A timestamp and the first batch that has it.

    Attributes:
        timestamp_ms: The largest timestamp so far, −1 if no batch has one.
        relative_offset: Offset of the batch's last record minus the segment's base offset.
    """

    timestamp_ms: int
    relative_offset: int


_NO_TIMESTAMP = -1
NO_TIME = TimeEntry(_NO_TIMESTAMP, 0)


class TimeIndex:
    """Pairs of timestamp and relative offset."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        """Make an empty index."""
        self._timestamps = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._timestamps)

    def encoded(self) -> bytes:
        """Return the content of a `.timeindex` file: pairs of timestamp and offset."""
        return b"".join(map(_ENTRY.pack, self._timestamps, self._offsets))

    @classmethod
    def decoded(cls, content: bytes) -> "TimeIndex":
        """Parse the content of a `.timeindex` file.

        Args:
            content: The whole new content.

        Returns:
            The index.

        Raises:
            ValueError: The size is not a multiple of an entry's, or the entries do not rise.
        """
        if len(content) % _ENTRY.size:
            raise ValueError(f"an index by time of {len(content)} bytes ends within an entry")
        index = cls()
        for timestamp_ms, relative_offset in _ENTRY.iter_unpack(content):
            index._timestamps.append(timestamp_ms)
            index._offsets.append(relative_offset)
        if not rises(index._timestamps) or not rises(index._offsets):
            raise ValueError("entries of an index by time do not rise")
        return index

    @property
    def last(self) -> TimeEntry:
        """The newest entry; `NO_TIME` if there is none."""
        if not self._timestamps:
            return NO_TIME
        return TimeEntry(self._timestamps[-1], self._offsets[-1])

    def maybe_append(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add an entry, if its timestamp is above the newest one's.

        Args:
            timestamp_ms: The largest timestamp so far; −1 for none adds nothing.
            relative_offset: As in `TimeEntry`.
        """
        timestamps = self._timestamps
        if timestamp_ms > (timestamps[-1] if timestamps else _NO_TIMESTAMP):
            timestamps.append(timestamp_ms)
            self._offsets.append(relative_offset)

    def floor(self, timestamp_ms: int) -> TimeEntry:
        """Return the newest entry at or below a timestamp; `NO_TIME` if there is none."""
        index = bisect.bisect_right(self._timestamps, timestamp_ms) - 1
        return TimeEntry(self._timestamps[index], self._offsets[index]) if index >= 0 else NO_TIME

    def truncate(self, next_relative_offset: int) -> None:
        """Remove the entries at or beyond an offset."""
        kept = bisect.bisect_left(self._offsets, next_relative_offset)
        del self._timestamps[kept:]
        del self._offsets[kept:]
