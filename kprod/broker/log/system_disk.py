"""The `Disk` of the operating system: plain files, accessed by position.

Files are never memory-mapped: truncating a mapped file, or a full disk, would kill the process with
SIGBUS. Locks are those that Java uses (`fcntl.lockf`), so that a running Kafka and this broker
exclude each other. Such a lock does not exclude its own process, and closing any descriptor of the
file releases it; so a process-wide table is checked before the file is opened.

Thread-safety: the broker's thread; `lock` from any thread.
Source: Kafka FileRecords and FileLock (4.3).
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from kprod.broker.log.disk import Entry
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.syncer import Sync
from kprod.broker.rejection import DirectoryRejected

_locked: dict[str, int] = {}  # guarded by: _lock; the process id that took each lock
_lock = threading.Lock()


class SystemDisk:
    """Files by path, with a pool of descriptors."""

    __slots__ = ("_pool",)

    def __init__(self, pool: FilePool | None = None) -> None:
        """Create a disk.

        Args:
            pool: A pool of descriptors; None creates one.
        """
        self._pool = FilePool() if pool is None else pool

    def create(self, path: str) -> None:
        """Create an empty file, or empty the one that has this name."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o644))

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        return os.stat(path).st_size  # noqa: PTH116 - without the parts that a Path parses

    def modified_ms(self, path: str) -> int:
        """Return when a file was last changed, in milliseconds since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116 - as above

    def read(self, path: str, position: int, count_bytes: int) -> bytes:
        """Read a range of bytes; repeats the call if it returns fewer."""
        descriptor = self._pool.descriptor(path)
        content = os.pread(descriptor, count_bytes, position)
        while len(content) < count_bytes:
            missing = count_bytes - len(content)
            piece = os.pread(descriptor, missing, position + len(content))
            if not piece:
                break
            content += piece
        return content

    def write(self, path: str, position: int, content: bytes | memoryview) -> None:
        """Write all bytes; restore the file's previous size if the write fails.

        Raises:
            OSError: The file cannot be written, or cannot be truncated after a failed write.
        """
        descriptor = self._pool.descriptor(path)
        written = 0
        try:
            written = os.pwrite(descriptor, content, position)
            while written < len(content):
                written += os.pwrite(descriptor, content[written:], position + written)
        except OSError:
            if written:
                os.ftruncate(descriptor, position)
            raise

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file."""
        os.ftruncate(self._pool.descriptor(path), size_bytes)

    def sync(self, path: str) -> None:
        """Sync a file's bytes and its size."""
        os.fsync(self._pool.descriptor(path))

    def sync_directory(self, path: str) -> None:
        """Sync the names in a directory."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def prepare_sync(self, path: str, *, is_directory: bool = False) -> Sync:
        """Open a file or a directory for a later sync, with its own descriptor."""
        if is_directory:
            return _HeldDescriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return _HeldDescriptor(os.dup(self._pool.descriptor(path)))

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or a directory; an existing file of the new name is replaced."""
        self._pool.forget(path)
        self._pool.forget(new_path)
        if Path(path).is_dir():
            self._pool.forget_under(path)
        Path(path).replace(new_path)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        self._pool.forget(path)
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()

    def make_directory(self, path: str) -> None:
        """Create a directory, unless it exists."""
        Path(path).mkdir(exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its content, if it exists."""
        self._pool.forget_under(path)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name."""
        with os.scandir(path) as found:
            return sorted(Entry(it.name, it.is_dir()) for it in found)

    def exists(self, path: str) -> bool:
        """Whether a file or a directory of that name exists."""
        try:
            os.stat(path)  # noqa: PTH116 - as above
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def space(self, path: str) -> tuple[int, int]:
        """Return the total and the free bytes of the volume that holds a directory."""
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def lock(self, path: str) -> Callable[[], None]:
        """Lock a file, which is created if it does not exist.

        Returns:
            A function that releases the lock; further calls do nothing.

        Raises:
            DirectoryRejected: Another process, or another cluster of this process, has the lock.
        """
        import fcntl  # noqa: PLC0415 - not there on Windows, where nothing durable is served

        name = str(Path(path).resolve())
        with _lock:
            if _locked.get(name) == os.getpid():
                raise DirectoryRejected(f"{path} is locked by another cluster of this process")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                os.close(descriptor)
                text = f"{path} is locked by another process: a broker runs on this directory"
                raise DirectoryRejected(text) from None
            except BaseException:
                os.close(descriptor)
                raise
            _locked[name] = os.getpid()
        return _Release(name, descriptor)

    def release(self, path: str) -> None:
        """Close the descriptors of a directory's files, as they are."""
        self._pool.forget_under(path)

    def close(self) -> None:
        """Close all descriptors; idempotent."""
        self._pool.close()


class _HeldDescriptor:
    """A descriptor that is synced once, and closed."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def run(self) -> None:
        try:
            os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def discard(self) -> None:
        os.close(self._descriptor)


class _Release:
    """Releases a lock once."""

    __slots__ = ("_descriptor", "_name", "_owner_pid")

    def __init__(self, name: str, descriptor: int) -> None:
        self._name = name
        self._descriptor: int | None = descriptor
        self._owner_pid = os.getpid()

    def __call__(self) -> None:
        with _lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            os.close(descriptor)
            if self._owner_pid == os.getpid():
                _locked.pop(self._name, None)
