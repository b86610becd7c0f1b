"""A store in a directory: one file for each segment's batches, and one for each of its indexes.

Thread-safety: the broker's thread.
Source: Kafka FileRecords (4.3) for the files' contents.
"""

from collections.abc import Sequence

from kprod.broker.log.checkpoint import replace_file
from kprod.broker.log.disk import Disk
from kprod.broker.log.store import Table
from kprod.broker.log.syncer import Done, InlineSyncer, Sync, Syncer

_INLINE = InlineSyncer()


class DirectoryRecordFile:
    """A segment's batches in a file.

    Attributes:
        size_bytes: Size of the file.
    """

    __slots__ = ("_disk", "_path", "size_bytes")

    def __init__(self, disk: Disk, path: str, size_bytes: int) -> None:
        """Use an existing file.

        Args:
            disk: The disk that holds the file.
            path: The file's path.
            size_bytes: Its present size.
        """
        self._disk = disk
        self._path = path
        self.size_bytes: int = size_bytes

    def append(self, encoded: memoryview) -> None:
        """Append a batch; if the write fails, the file is unchanged.

        Args:
            encoded: One whole batch.

        Raises:
            OSError: The file cannot be written, or cannot be truncated after a failed write.
        """
        self._disk.write(self._path, self.size_bytes, encoded)
        self.size_bytes += len(encoded)

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Read a range of bytes, in one piece."""
        count_bytes = min(count_bytes, self.size_bytes - position)
        if count_bytes <= 0:
            return []
        return [memoryview(self._disk.read(self._path, position, count_bytes))]

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        self._disk.truncate(self._path, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """Sync the file's bytes and its size."""
        self._disk.sync(self._path)


class DirectoryStore:
    """The files of one partition, in a directory of their own."""

    __slots__ = ("_directory", "_disk", "_syncer", "is_durable")

    def __init__(self, disk: Disk, directory: str, syncer: Syncer = _INLINE) -> None:
        """Use an existing directory.

        Args:
            disk: The disk that holds the files.
            directory: The directory's path; no other partition uses it.
            syncer: Runs the syncs of `sync_later`; by default at once.
        """
        self._disk = disk
        self._directory = directory
        self._syncer = syncer
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
        """Open an existing file."""
        path = self._path(name)
        return DirectoryRecordFile(self._disk, path, self._disk.size(path))

    def load(self, name: str) -> bytes:
        """Read a whole file."""
        path = self._path(name)
        return self._disk.read(path, 0, self._disk.size(path))

    def save(self, name: str, table: Table) -> None:
        """Write a whole table, replacing any file of that name."""
        # If a file is truncated and rewritten, ext4 flushes it immediately, which takes 1 ms.
        self.remove(name)
        path = self._path(name)
        self._disk.create(path)
        self._disk.write(path, 0, table.encoded())

    def replace(self, name: str, table: Table) -> None:
        """Replace a table's file atomically and durably."""
        replace_file(self._disk, self._path(name), table.encoded())

    def modified_ms(self, name: str) -> int:
        """Return when a file was last changed, in milliseconds since 1970."""
        return self._disk.modified_ms(self._path(name))

    def exists(self, name: str) -> bool:
        """Whether a file of that name exists."""
        return self._disk.exists(self._path(name))

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._disk.remove(self._path(name))

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file, replacing any file of the new name."""
        self._disk.rename(self._path(name), self._path(new_name))

    def sync(self, name: str | None = None) -> None:
        """Sync a file or, without a name, the directory.

        Args:
            name: Name of the file; None for the directory.
        """
        if name is None:
            self._disk.sync_directory(self._directory)
        else:
            self._disk.sync(self._path(name))

    def sync_later(self, names: Sequence[str | None], done: Done) -> None:
        """Hand files, or the directory, to the syncer.

        Args:
            names: Names of files; None for the directory.
            done: Called once on the broker's thread, with the error or None.

        Raises:
            OSError: A file cannot be opened; `done` is not called.
        """
        held: list[Sync] = []
        try:
            held.extend(map(self._prepared_sync, names))
        except OSError:
            for sync in held:
                sync.discard()
            raise
        self._syncer.submit(held, done)

    def wait_for_syncs(self) -> None:
        """Block until the syncer has nothing left, of any partition."""
        self._syncer.wait()

    def _prepared_sync(self, name: str | None) -> Sync:
        if name is None:
            return self._disk.prepare_sync(self._directory, is_directory=True)
        return self._disk.prepare_sync(self._path(name))

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        entries = self._disk.entries(self._directory)
        return [it.name for it in entries if not it.is_directory]

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
