"""One directory's share of a disk: the first call that fails gives the directory up.

Rules.
    An `OSError` of any call takes the directory offline. A missing file does not where the caller
    tests whether it exists (`size`, `modified_ms`, `entries`). Afterwards no call reaches the
    operating system: data written around the failure is not reliable, and a failed sync must not be
    tried again.
    The only directory of a cluster is kept: there is no other to save, and a disk that was full may
    have room later. Each call fails or succeeds for itself.
    A test may let a directory fail after some calls, the only one too.

Thread-safety: the broker's thread.
Source: Kafka LogDirFailureChannel (4.3); KIP-112.
"""

import errno
from collections.abc import Callable, Sequence
from typing import TypeVar

from kprod.broker.log.disk import Disk, Entry
from kprod.broker.log.syncer import Done, Sync, Syncer

_T = TypeVar("_T")


class DirectoryOffline(OSError):
    """A directory has failed, and is used no more until the next start."""


class GuardedDisk:  # noqa: PLR0904 - a Disk has as many
    """A `Disk` for the paths of one directory.

    Attributes:
        failure: The error that took the directory offline; None while it is in use.
    """

    __slots__ = ("_calls_left", "_disk", "_gives_up", "_on_failure", "_path", "failure")

    def __init__(
        self, disk: Disk, path: str, *, gives_up: bool, on_failure: Callable[[OSError], object]
    ) -> None:
        """Guard a directory.

        Args:
            disk: The disk with the directory.
            path: The directory.
            gives_up: Whether the first failure takes it offline.
            on_failure: Is called once, within the call that failed.
        """
        self._disk = disk
        self._path = path
        self._gives_up = gives_up
        self._on_failure = on_failure
        self._calls_left: int | None = None
        self.failure: OSError | None = None

    def fail_after(self, call_count: int) -> None:
        """Let a call fail as that of a broken disk does.

        Args:
            call_count: Number of calls that succeed before.
        """
        self._calls_left = call_count

    def note(self, error: OSError) -> None:
        """Take the directory offline after a failure, unless it is the only one.

        Args:
            error: Error of a system call.
        """
        if self._gives_up:
            self._give_up(error)

    def create(self, path: str) -> None:
        """Create an empty file, or empty the one that has this name."""
        self._run(lambda: self._disk.create(path))

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self._look(lambda: self._disk.size(path))

    def modified_ms(self, path: str) -> int:
        """When a file was changed, in milliseconds since 1970."""
        return self._look(lambda: self._disk.modified_ms(path))

    def read(self, path: str, position: int, count_bytes: int) -> bytes:
        """Read; less is returned only at the end of the file."""
        return self._run(lambda: self._disk.read(path, position, count_bytes))

    def write(self, path: str, position: int, content: bytes | memoryview) -> None:
        """Write all of it."""
        self._run(lambda: self._disk.write(path, position, content))

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file."""
        self._run(lambda: self._disk.truncate(path, size_bytes))

    def sync(self, path: str) -> None:
        """Make a file's bytes survive."""
        self._run(lambda: self._disk.sync(path))

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive."""
        self._run(lambda: self._disk.sync_directory(path))

    def prepare_sync(self, path: str, *, is_directory: bool = False) -> Sync:
        """Take hold of a file, or a directory's names, to sync them later."""
        return self._run(lambda: self._disk.prepare_sync(path, is_directory=is_directory))

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or a directory; a file of the new name is replaced."""
        self._run(lambda: self._disk.rename(path, new_path))

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        self._run(lambda: self._disk.remove(path))

    def make_directory(self, path: str) -> None:
        """Make a directory, unless it exists."""
        self._run(lambda: self._disk.make_directory(path))

    def remove_directory(self, path: str) -> None:
        """Remove a directory and all that is in it, if it exists."""
        self._run(lambda: self._disk.remove_directory(path))

    def entries(self, path: str) -> list[Entry]:
        """Everything in a directory, by name."""
        return self._look(lambda: self._disk.entries(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory of that name."""
        return self._run(lambda: self._disk.exists(path))

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that a directory is on: all of them, and those that are free."""
        return self._run(lambda: self._disk.space(path))

    def lock(self, path: str) -> Callable[[], None]:
        """Take a file's lock for this process alone."""
        return self._run(lambda: self._disk.lock(path))

    def release(self, path: str) -> None:
        """Give up the descriptors of a directory's files."""
        self._disk.release(path)

    def close(self) -> None:
        """Give up all descriptors; may be called again."""
        self._disk.close()

    def _look(self, call: Callable[[], _T]) -> _T:
        """Call where a missing file is not a failure."""
        return self._run(call, harmless=(FileNotFoundError,))

    def _run(self, call: Callable[[], _T], *, harmless: tuple[type[OSError], ...] = ()) -> _T:
        self._check()
        try:
            return call()
        except OSError as error:
            if not isinstance(error, harmless):
                self.note(error)
            raise

    def _check(self) -> None:
        if self._calls_left is not None and self.failure is None:
            self._calls_left -= 1
            if self._calls_left < 0:
                self._give_up(OSError(errno.EIO, "the failure that a test asked for", self._path))
        if self.failure is not None:
            text = f"the directory has failed, and is not used until the next start: {self.failure}"
            raise DirectoryOffline(errno.EIO, text)

    def _give_up(self, error: OSError) -> None:
        if self.failure is None:
            self.failure = error
            self._disk.release(self._path)
            self._on_failure(error)


class GuardedSyncer:
    """The syncer of one directory: a sync that fails in the background is a failure of that."""

    __slots__ = ("_guard", "_syncer")

    def __init__(self, syncer: Syncer, guard: GuardedDisk) -> None:
        """Sync for a directory.

        Args:
            syncer: The syncer of all directories.
            guard: The guarded disk of this directory.
        """
        self._syncer = syncer
        self._guard = guard

    def start(self, wake: Callable[[], None]) -> None:
        """Say how the broker's thread is made to call `deliver`."""
        self._syncer.start(wake)

    def submit(self, syncs: Sequence[Sync], done: Done) -> None:
        """Hand a job over; `done` is called after a failure was noted."""

        def note(error: OSError | None) -> None:
            if error is not None:
                self._guard.note(error)
            done(error)

        self._syncer.submit(syncs, note)

    def deliver(self) -> None:
        """Call `done` of all jobs that have ended."""
        self._syncer.deliver()

    def wait(self) -> None:
        """Block until all jobs have ended, and call `done` of each."""
        self._syncer.wait()

    def close(self) -> None:
        """Give up all jobs that wait."""
        self._syncer.close()
