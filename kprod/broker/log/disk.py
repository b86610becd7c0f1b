"""What a durable log asks of the operating system: files and directories, by path.

Everything that the broker keeps goes through one `Disk`, so that tests can put one in its place
that loses unsynced writes.

Invariants.
    The bytes given to `write` are in the file when it returns; a file's bytes survive a crash of
    the operating system once `sync` has returned. A name that was made, changed or removed survives
    once its directory was synced, too.

Thread-safety: the broker's thread.
Source: kprod's own.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """Return the names in a directory.

    Attributes:
        name: Without the directory.
        is_directory: Whether it is one itself.
    """

    name: str
    is_directory: bool


class Disk(Protocol):
    """Files and directories; paths are absolute, and their parts exist."""

    def create(self, path: str) -> None:
        """Create an empty file, or empty the one that has this name."""

    def size(self, path: str) -> int:
        """Bytes of a file."""

    def modified_ms(self, path: str) -> int:
        """When a file was changed, in milliseconds since 1970."""

    def read(self, path: str, position: int, count_bytes: int) -> bytes:
        """Read; less is returned only at the end of the file."""

    def write(self, path: str, position: int, content: bytes | memoryview) -> None:
        """Write all of it; a write that fails leaves the file with its size of before."""

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file."""

    def sync(self, path: str) -> None:
        """Make a file's bytes survive."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive."""

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or a directory; a file of the new name is replaced."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def make_directory(self, path: str) -> None:
        """Make a directory, unless it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory and all that is in it, if it exists."""

    def entries(self, path: str) -> list[Entry]:
        """Everything in a directory, by name."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory of that name."""

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that a directory is on: all of them, and those that are free."""

    def lock(self, path: str) -> Callable[[], None]:
        """Take a file's lock for this process alone.

        Returns:
            What gives it back.

        Raises:
            DirectoryRejected: It is taken.
        """

    def close(self) -> None:
        """Give up all descriptors; may be called again."""
