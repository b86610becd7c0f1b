"""Where a log's bytes are kept: named files that grow at the end, in memory or elsewhere.

A `Store` belongs to one partition. Everything above it (segments, look-up, retention) works on
these two protocols and does not know the kind of store.

Thread-safety: the broker's thread.
Source: Kafka FileRecords and LogSegment for what a log needs of a file.
"""

from typing import Protocol


class RecordFile(Protocol):
    """One segment's batches, one after another."""

    @property
    def size_bytes(self) -> int:
        """Bytes in the file; the position of the next append."""

    def append(self, encoded: memoryview) -> None:
        """Write one whole batch at the end.

        Args:
            encoded: The batch; a store in memory keeps this buffer, and nobody may change it.
        """

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Read a range of bytes.

        Args:
            position: The first byte of a batch, or the end of the file.
            count_bytes: At least 0; less is returned only at the end of the file.

        Returns:
            The bytes in order, in pieces of the store's choice; none of them is empty. The first
            piece holds the first batch's header, as far as it is within `count_bytes`.
        """

    def truncate(self, size_bytes: int) -> None:
        """Drop all bytes from a batch's first byte on.

        Args:
            size_bytes: The new size, at most the present one.
        """

    def sync(self) -> None:
        """Make the bytes survive a crash of the operating system."""


class Table(Protocol):
    """What a store can save beside the batches: an index."""

    def encoded(self) -> bytes:
        """The content of its file."""


class Store(Protocol):
    """The files of one partition.

    Attributes:
        is_durable: Whether they survive the process.
    """

    is_durable: bool

    def create(self, name: str) -> RecordFile:
        """Create an empty file, and replace any file that has this name."""

    def open(self, name: str) -> RecordFile:
        """Open a file that exists."""

    def load(self, name: str) -> bytes:
        """Read a file whole.

        Raises:
            FileNotFoundError: There is none; a store in memory keeps no tables.
        """

    def save(self, name: str, table: Table) -> None:
        """Write a table whole; a store in memory does nothing."""

    def replace(self, name: str, table: Table) -> None:
        """Give a table's file new content, all or nothing, that survives a crash."""

    def modified_ms(self, name: str) -> int:
        """When a file was last changed, in milliseconds since 1970; 0 where nobody knows."""

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file that exists; its open `RecordFile` must not be used any more."""

    def sync(self, name: str | None = None) -> None:
        """Make something survive a crash of the operating system.

        Args:
            name: A file, whose bytes are synced; None for creations, renames and removals.
        """

    def names(self) -> list[str]:
        """Names of all files, in order."""
