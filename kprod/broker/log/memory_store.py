"""A store in memory: a file is the list of its batches' own buffers, and nothing is copied.

Thread-safety: the broker's thread.
"""

import bisect


class MemoryRecordFile:
    """Batches and their positions.

    Attributes:
        size_bytes: Sum of the batches' sizes.
    """

    __slots__ = ("_batches", "_positions", "size_bytes")

    def __init__(self) -> None:
        """Make an empty file."""
        self._batches: list[memoryview] = []
        self._positions: list[int] = []
        self.size_bytes = 0

    def append(self, encoded: memoryview) -> None:
        """Keep a batch's buffer."""
        self._batches.append(encoded)
        self._positions.append(self.size_bytes)
        self.size_bytes += len(encoded)

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Give views of the stored buffers, one for each batch; the last may be cut off."""
        pieces: list[memoryview] = []
        index = bisect.bisect_left(self._positions, position)
        while count_bytes > 0 and index < len(self._batches):
            batch = self._batches[index]
            pieces.append(batch if len(batch) <= count_bytes else batch[:count_bytes])
            count_bytes -= len(batch)
            index += 1
        return pieces

    def truncate(self, size_bytes: int) -> None:
        """Drop the batches from a position on."""
        kept = bisect.bisect_left(self._positions, size_bytes)
        del self._batches[kept:]
        del self._positions[kept:]
        self.size_bytes = size_bytes


class MemoryStore:
    """Files that only their segments refer to."""

    __slots__ = ()

    def create(self, name: str) -> MemoryRecordFile:  # noqa: ARG002 - a store's; memory has no names
        """Make an empty file."""
        return MemoryRecordFile()

    def remove(self, name: str) -> None:
        """Do nothing: the segment that is dropped held the only reference."""
