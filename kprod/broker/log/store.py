"""The store of a log: named files that grow at their end, in memory or on disk.

A `Store` belongs to one partition. The layers above (segments, lookup, retention) use these two
protocols and do not know the kind of store.

Thread-safety: the broker's thread.
Source: Kafka FileRecords and LogSegment, for the file operations that a log needs.
"""

from collections.abc import Sequence
from typing import Protocol

from kprod.broker.log.syncer import Done


class RecordFile(Protocol):
    """One segment's batches, one after another."""

    @property
    def size_bytes(self) -> int:
        """Size of the file, and the position of the next append."""

    def append(self, encoded: memoryview) -> None:
        """Append one whole batch.

        Args:
            encoded: The batch; a store in memory keeps this buffer, so it must not be modified.
        """

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Read a range of bytes.

        Args:
            position: The first byte of a batch, or the end of the file.
            count_bytes: At least 0; fewer bytes are returned only at the end of the file.

        Returns:
            The bytes in order, in non-empty pieces of any size. The first piece contains the first
            batch's header, as far as it is within `count_bytes`.
        """

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file at the first byte of a batch.

        Args:
            size_bytes: The new size, at most the present one.
        """

    def sync(self) -> None:
        """Make the bytes survive a crash of the operating system."""


class Table(Protocol):
    """An index, which a store can save beside the batches."""

    def encoded(self) -> bytes:
        """Return the content of the table's file."""


class Store(Protocol):
    """The files of one partition.

    Attributes:
        is_durable: Whether the logs survive the process.
    """

    is_durable: bool

    def create(self, name: str) -> RecordFile:
        """Create an empty file, replacing any file of that name."""

    def open(self, name: str) -> RecordFile:
        """Open an existing file."""

    def load(self, name: str) -> bytes:
        """Read a whole file.

        Raises:
            FileNotFoundError: The file does not exist; a store in memory has no tables.
        """

    def save(self, name: str, table: Table) -> None:
        """Write a whole table; a store in memory does nothing."""

    def replace(self, name: str, table: Table) -> None:
        """Replace a table's file atomically and durably."""

    def modified_ms(self, name: str) -> int:
        """Return when a file was last changed, in milliseconds since 1970; 0 if unknown."""

    def exists(self, name: str) -> bool:
        """Whether a file of that name exists."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def rename(self, name: str, new_name: str) -> None:
        """Rename an existing file; its open `RecordFile` must not be used any more."""

    def sync(self, name: str | None = None) -> None:
        """Make changes survive a crash of the operating system.

        Args:
            name: A file, whose bytes are synced; None for created, renamed and removed names.
        """

    def sync_later(self, names: Sequence[str | None], done: Done) -> None:
        """Have something made to survive a crash in the background; see `syncer`.

        Args:
            names: As for `sync`, in this order.
            done: Called once on the broker's thread, with the error or None.

        Raises:
            OSError: A file cannot be opened; `done` is not called.
        """

    def wait_for_syncs(self) -> None:
        """Block until all that was handed over has ended, and `done` was called."""

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
