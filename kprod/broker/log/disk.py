"""The file operations of a durable log: files and directories, by path.

The broker accesses all stored data through one `Disk`, so that tests can replace it by one that
loses unsynced writes.

Invariants.
    Bytes given to `write` are in the file when it returns, and survive a crash of the operating
    system once `sync` has returned. A created, changed or removed name survives once its directory
    is synced, too.

Thread-safety: the broker's thread.
Source: kprod's own.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kprod.broker.log.syncer import Sync


class Entry(NamedTuple):
    """A name in a directory.

    Attributes:
        name: The name, without the directory.
        is_directory: Whether the name is a directory's.
    """

    name: str
    is_directory: bool


class Disk(Protocol):
    """File operations; paths are absolute, and all parent directories exist."""

    def create(self, path: str) -> None:
        """Create an empty file, or empty the one that has this name."""

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""

    def modified_ms(self, path: str) -> int:
        """Return when a file was last changed, in milliseconds since 1970."""

    def read(self, path: str, position: int, count_bytes: int) -> bytes:
        """Read a range of bytes; returns fewer only at the end of the file."""

    def write(self, path: str, position: int, content: bytes | memoryview) -> None:
        """Write all bytes; if that fails, the file keeps its previous size."""

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file."""

    def sync(self, path: str) -> None:
        """Make a file's bytes durable."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def prepare_sync(self, path: str, *, is_directory: bool = False) -> Sync:
        """Open a file or a directory, to sync it later, even if it is renamed meanwhile."""

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or a directory; an existing file of the new name is replaced."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def make_directory(self, path: str) -> None:
        """Create a directory, unless it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its content, if it exists."""

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name."""

    def exists(self, path: str) -> bool:
        """Whether a file or a directory of that name exists."""

    def space(self, path: str) -> tuple[int, int]:
        """Return the total and the free bytes of the volume that holds a directory."""

    def lock(self, path: str) -> Callable[[], None]:
        """Lock a file for this process.

        Returns:
            A function that releases the lock.

        Raises:
            DirectoryRejected: The file is locked already.
        """

    def release(self, path: str) -> None:
        """Give up the descriptors of a directory's files; nothing is written or synced."""

    def close(self) -> None:
        """Close all descriptors; idempotent."""
