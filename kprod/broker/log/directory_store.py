"""A store in a directory: one file for each segment's batches and for each of its indexes.

Thread-safety: the broker's thread.
Source: Kafka FileRecords (4.3) for what the files hold.
"""

from kprod.broker.log.checkpoint import replace_file
from kprod.broker.log.disk import Disk
from kprod.broker.log.store import Table


class DirectoryRecordFile:
    """A segment's batches in a file.

    Attributes:
        size_bytes: Of the file.
    """

    __slots__ = ("_disk", "_path", "size_bytes")

    def __init__(self, disk: Disk, path: str, size_bytes: int) -> None:
        """Use a file.

        Args:
            disk: Holds it.
            path: Of the file, which exists.
            size_bytes: Its present size.
        """
        self._disk = disk
        self._path = path
        self.size_bytes: int = size_bytes

    def append(self, encoded: memoryview) -> None:
        """Write at the end; a write that fails leaves the file as it was.

        Args:
            encoded: One whole batch.

        Raises:
            OSError: The file cannot be written, or cannot be cut back after that.
        """
        self._disk.write(self._path, self.size_bytes, encoded)
        self.size_bytes += len(encoded)

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Read in one piece."""
        count_bytes = min(count_bytes, self.size_bytes - position)
        if count_bytes <= 0:
            return []
        return [memoryview(self._disk.read(self._path, position, count_bytes))]

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        self._disk.truncate(self._path, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """Sync the file's bytes, and its size."""
        self._disk.sync(self._path)


class DirectoryStore:
    """The files of one partition, in a directory of their own."""

    __slots__ = ("_directory", "_disk", "is_durable")

    def __init__(self, disk: Disk, directory: str) -> None:
        """Use a directory.

        Args:
            disk: Holds it.
            directory: Its path; it exists, and is this partition's alone.
        """
        self._disk = disk
        self._directory = directory
        self.is_durable: bool = True

    def __str__(self) -> str:
        """The directory's path."""
        return self._directory

    def create(self, name: str) -> DirectoryRecordFile:
        """Create an empty file, or empty the one that has this name."""
        path = self._path(name)
        self._disk.create(path)
        return DirectoryRecordFile(self._disk, path, 0)

    def open(self, name: str) -> DirectoryRecordFile:
        """Open a file that exists."""
        path = self._path(name)
        return DirectoryRecordFile(self._disk, path, self._disk.size(path))

    def load(self, name: str) -> bytes:
        """Read a file whole."""
        path = self._path(name)
        return self._disk.read(path, 0, self._disk.size(path))

    def save(self, name: str, table: Table) -> None:
        """Write a whole table, and replace any file that has this name."""
        # ext4 writes a file out at once when it is emptied and filled again, which takes 1 ms.
        self.remove(name)
        path = self._path(name)
        self._disk.create(path)
        self._disk.write(path, 0, table.encoded())

    def replace(self, name: str, table: Table) -> None:
        """Give a table's file new content, all or nothing, that survives a crash."""
        replace_file(self._disk, self._path(name), table.encoded())

    def modified_ms(self, name: str) -> int:
        """When a file was last changed, in milliseconds since 1970."""
        return self._disk.modified_ms(self._path(name))

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self._disk.exists(self._path(name))

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._disk.remove(self._path(name))

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file, and replace any file that has the new name."""
        self._disk.rename(self._path(name), self._path(new_name))

    def sync(self, name: str | None = None) -> None:
        """Sync a file, or the directory itself.

        Args:
            name: Of the file; None for the directory.
        """
        if name is None:
            self._disk.sync_directory(self._directory)
        else:
            self._disk.sync(self._path(name))

    def names(self) -> list[str]:
        """Names of all files, in order."""
        entries = self._disk.entries(self._directory)
        return [it.name for it in entries if not it.is_directory]

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
