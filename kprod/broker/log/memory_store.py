"""A store in memory: a file is a list of the appended buffers; nothing is copied.

Thread-safety: the broker's thread.
"""

import bisect
from collections.abc import Sequence

from kprod.broker.log.store import Table
from kprod.broker.log.syncer import Done


class MemoryRecordFile:
    """The batches of a segment, with their positions.

    Attributes:
        size_bytes: Total size of the batches.
    """

    __slots__ = ("_batches", "_positions", "size_bytes")

    def __init__(self) -> None:
        """Make an empty file."""
        self._batches: list[memoryview] = []
        self._positions: list[int] = []
        self.size_bytes: int = 0

    def append(self, encoded: memoryview) -> None:
        """Append a batch's buffer, without copying it."""
        self._batches.append(encoded)
        self._positions.append(self.size_bytes)
        self.size_bytes += len(encoded)

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Return views of the stored buffers, one for each batch; the last may be cut off."""
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

    def sync(self) -> None:
        """Do nothing: memory does not survive the process."""


class MemoryStore:
    """Files of batches by name; tables are not stored, since indexes are in memory anyway."""

    __slots__ = ("_files", "is_durable")

    def __init__(self) -> None:
        """Make an empty store."""
        self.is_durable: bool = False
        self._files: dict[str, MemoryRecordFile] = {}

    def __str__(self) -> str:
        """Describe the store as being in memory."""
        return "a log in memory"

    def create(self, name: str) -> MemoryRecordFile:
        """Make an empty file."""
        file = self._files[name] = MemoryRecordFile()
        return file

    def open(self, name: str) -> MemoryRecordFile:
        """Open an existing file."""
        return self._files[name]

    def load(self, name: str) -> bytes:
        """Raise FileNotFoundError: tables are not stored."""
        raise FileNotFoundError(name)

    def save(self, name: str, table: Table) -> None:
        """Do nothing."""

    def replace(self, name: str, table: Table) -> None:
        """Do nothing."""

    def modified_ms(self, name: str) -> int:  # noqa: ARG002 - a Store's
        """Return 0, since nothing is ever loaded."""
        return 0

    def exists(self, name: str) -> bool:
        """Whether a file of that name exists."""
        return name in self._files

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._files.pop(name, None)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file."""
        self._files[new_name] = self._files.pop(name)

    def sync(self, name: str | None = None) -> None:
        """Do nothing: memory does not survive the process."""

    def sync_later(self, names: Sequence[str | None], done: Done) -> None:  # noqa: ARG002 - a Store's
        """Call `done`: nothing is to be synced."""
        done(None)

    def wait_for_syncs(self) -> None:
        """Do nothing: nothing waits."""

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        return sorted(self._files)
