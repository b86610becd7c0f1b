"""A store in a directory: one plain file for each segment's batches and for each index.

Files are read and written with `pread` and `pwrite`, never mapped: a mapped file that is cut, or
that meets a full disk, ends the process with SIGBUS.

Thread-safety: the broker's thread.
Source: Kafka FileRecords (4.3) for what the files hold.
"""

import contextlib
import os
from pathlib import Path

from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.store import Table


class DirectoryRecordFile:
    """A segment's batches in a file.

    Attributes:
        size_bytes: Of the file.
    """

    __slots__ = ("_path", "_pool", "size_bytes")

    def __init__(self, pool: FilePool, path: str, size_bytes: int) -> None:
        """Use a file.

        Args:
            pool: Opens it.
            path: Of the file, which exists.
            size_bytes: Its present size.
        """
        self._pool = pool
        self._path = path
        self.size_bytes = size_bytes

    def append(self, encoded: memoryview) -> None:
        """Write at the end; a write that fails leaves the file as it was.

        Args:
            encoded: One whole batch.

        Raises:
            OSError: The file cannot be written, or cannot be cut back after that.
        """
        descriptor = self._pool.descriptor(self._path)
        written = 0
        try:
            while written < len(encoded):
                position = self.size_bytes + written
                written += os.pwrite(descriptor, encoded[written:], position)
        except OSError:
            os.ftruncate(descriptor, self.size_bytes)
            raise
        self.size_bytes += written

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Read with one call, in one piece."""
        count_bytes = min(count_bytes, self.size_bytes - position)
        if count_bytes <= 0:
            return []
        return [memoryview(os.pread(self._pool.descriptor(self._path), count_bytes, position))]

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        os.ftruncate(self._pool.descriptor(self._path), size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """Sync the file's bytes, and its size."""
        os.fsync(self._pool.descriptor(self._path))


class DirectoryStore:
    """The files of one partition, in a directory of their own."""

    __slots__ = ("_directory", "_pool")

    def __init__(self, directory: Path, pool: FilePool) -> None:
        """Use a directory; it is made if it does not exist, but not its parent.

        Args:
            directory: For this partition alone.
            pool: Shared by the stores of a process.
        """
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._pool = pool

    def create(self, name: str) -> DirectoryRecordFile:
        """Make an empty file; one of that name is emptied."""
        path = self._path(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o644))
        return DirectoryRecordFile(self._pool, path, 0)

    def open(self, name: str) -> DirectoryRecordFile:
        """Open a file that exists."""
        path = self._path(name)
        return DirectoryRecordFile(self._pool, path, Path(path).stat().st_size)

    def save(self, name: str, table: Table) -> None:
        """Write a table whole; one of that name is replaced."""
        # ext4 writes a file out at once when it is emptied and filled again, which takes 1 ms.
        self.remove(name)
        (self._directory / name).write_bytes(table.encoded())

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._pool.forget(self._path(name))
        with contextlib.suppress(FileNotFoundError):
            (self._directory / name).unlink()

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file; one of the new name is replaced."""
        for path in (self._path(name), self._path(new_name)):
            self._pool.forget(path)
        (self._directory / name).replace(self._directory / new_name)

    def sync(self) -> None:
        """Sync the directory itself."""
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def names(self) -> list[str]:
        """Names of all files, in order."""
        return sorted(it.name for it in self._directory.iterdir() if it.is_file())

    def _path(self, name: str) -> str:
        return str(self._directory / name)
