"""A disk that stops at a chosen call and then loses unsynced bytes, in a torn state.

A file's bytes and a directory's names are kept twice: as they are seen, and as they would be after
a crash. `crash` keeps a prefix of a file's unsynced writes, torn at any byte, or any of their
512-byte sectors; and of the unsynced changes of names a prefix, or any of them.
"""

import random
from collections.abc import Callable, Sequence

from kprod.broker.log.disk import Entry
from kprod.broker.log.syncer import Done, Sync

SECTOR_BYTES = 512


class Stopped(BaseException):
    """The machine went off; no code of the broker may handle that."""


class File:
    """A file's bytes, and those that survive."""

    def __init__(self, content: bytes = b"") -> None:
        """Make a file whose bytes are synced."""
        self.content = bytearray(content)
        self.synced = bytes(content)
        self.unsynced: list[tuple[int, bytes | None]] = []  # a position, and None for a cut there

    def write(self, position: int, content: bytes | None) -> None:
        """Write or cut."""
        self.unsynced.append((position, content))
        apply(self.content, position, content)

    def sync(self) -> None:
        """Make all survive."""
        self.synced, self.unsynced = bytes(self.content), []

    def survived(self, rng: random.Random) -> bytes:
        """The bytes that survive a crash."""
        left = bytearray(self.synced)
        by_sector = rng.random() < 0.3
        kept = len(self.unsynced) if by_sector else rng.randint(0, len(self.unsynced))
        for number, (position, content) in enumerate(self.unsynced[:kept]):
            if content is None or not (by_sector or number == kept - 1):
                apply(left, position, content)
            elif by_sector:
                starts = range(0, len(content), SECTOR_BYTES)
                for start in (it for it in starts if rng.random() < 0.7):
                    apply(left, position + start, content[start : start + SECTOR_BYTES])
            else:
                apply(left, position, content[: rng.randint(0, len(content))])
        return bytes(left)


def apply(content: bytearray, position: int, written: bytes | None) -> None:
    """Write at a position, with zeros up to it, or cut there."""
    if written is None:
        del content[position:]
        return
    content.extend(bytes(max(position - len(content), 0)))
    content[position : position + len(written)] = written


Names = dict[str, File | None]  # None for a directory
Change = Callable[[Names], object]


class CrashDisk:  # noqa: PLR0904 - a Disk has as many
    """A disk in memory.

    Attributes:
        calls: Changes and syncs so far.
        stop_at: The call at which the machine goes off; None for never.
    """

    def __init__(self, seed: int) -> None:
        """Make an empty disk with one directory, `/`."""
        self.rng = random.Random(seed)
        self.calls = 0
        self.stop_at: int | None = None
        self.names: Names = {"": None}
        self.synced_names: Names = {"": None}
        self.changes: list[tuple[str, Change]] = []

    def crash(self) -> None:
        """Lose unsynced bytes; then continue."""
        self.stop_at = None
        in_order = self.rng.random() < 0.5
        kept = self.rng.randint(0, len(self.changes)) if in_order else len(self.changes)
        for _, change in self.changes[:kept]:
            if in_order or self.rng.random() < 0.5:
                change(self.synced_names)
        self.changes = []
        left = {
            path: file if file is None else File(file.survived(self.rng))
            for path, file in self.synced_names.items()
        }
        parents = {path for path, file in left.items() if file is None}
        reachable = {it: file for it, file in left.items() if _has_parents(it, parents)}
        self.names, self.synced_names = dict(reachable), dict(reachable)

    def _call(self) -> None:
        self.calls += 1
        if self.stop_at is not None and self.calls >= self.stop_at:
            raise Stopped

    def _change(self, path: str, change: Change) -> None:
        self._call()
        change(self.names)
        self.changes.append((path.rpartition("/")[0], change))

    def _file(self, path: str) -> File:
        file = self.names.get(path)
        if file is None:
            raise FileNotFoundError(path)
        return file

    def create(self, path: str) -> None:
        """Make an empty file, or empty one."""
        old = self.names.get(path)
        if old is not None:
            self._call()
            old.write(0, None)
            return
        file = File()
        self._change(path, lambda names: names.__setitem__(path, file))

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return len(self._file(path).content)

    def modified_ms(self, path: str) -> int:  # noqa: ARG002 - a Disk's
        """Always the same."""
        return 0

    def read(self, path: str, position: int, count_bytes: int) -> bytes:
        """Read."""
        return bytes(self._file(path).content[position : position + count_bytes])

    def write(self, path: str, position: int, content: bytes | memoryview) -> None:
        """Write; the call that is stopped may have written already."""
        file = self._file(path)
        will_stop = self.stop_at is not None and self.calls + 1 >= self.stop_at
        if not will_stop or self.rng.random() < 0.5:
            file.write(position, bytes(content))
        self._call()

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut."""
        self._call()
        self._file(path).write(size_bytes, None)

    def sync(self, path: str) -> None:
        """Make a file's bytes survive."""
        self._call()
        self._file(path).sync()

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive."""
        self._call()
        self._sync_names(path)

    def _sync_names(self, path: str) -> None:
        path = path.rstrip("/")
        for directory, change in self.changes:
            if directory == path:
                change(self.synced_names)
        self.changes = [it for it in self.changes if it[0] != path]

    def prepare_sync(self, path: str, *, is_directory: bool = False) -> "HeldFile":
        """Take hold of a file or a directory."""
        if is_directory:
            return HeldFile(self, lambda: self._sync_names(path))
        return HeldFile(self, self._file(path).sync)

    def rename(self, path: str, new_path: str) -> None:
        """Rename, a directory with all that is in it."""

        def change(names: Names) -> None:
            for old in [it for it in names if it == path or it.startswith(f"{path}/")]:
                names[new_path + old[len(path) :]] = names.pop(old)

        self._change(path, change)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        if path in self.names:
            self._change(path, lambda names: names.pop(path, None))

    def make_directory(self, path: str) -> None:
        """Make a directory, unless it exists."""
        if path not in self.names:
            self._change(path, lambda names: names.setdefault(path, None))

    def remove_directory(self, path: str) -> None:
        """Remove a directory and all that is in it."""

        def change(names: Names) -> None:
            for old in [it for it in names if it == path or it.startswith(f"{path}/")]:
                del names[old]

        if path in self.names:
            self._change(path, change)

    def entries(self, path: str) -> list[Entry]:
        """Everything in a directory."""
        found = [it for it in self.names if it.rpartition("/")[0] == path and it]
        return sorted(Entry(it.rpartition("/")[2], self.names[it] is None) for it in found)

    def exists(self, path: str) -> bool:
        """Whether there is something of that name."""
        return path in self.names

    def space(self, path: str) -> tuple[int, int]:  # noqa: ARG002 - a Disk's
        """As large as one likes."""
        return 1 << 40, 1 << 39

    def lock(self, path: str) -> Callable[[], None]:
        """Give a lock that nobody has; the machine's end frees it."""
        if path not in self.names:
            self.create(path)
        return lambda: None

    def release(self, path: str) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Do nothing."""


class HeldFile:
    """Something that is to be synced later."""

    def __init__(self, disk: CrashDisk, sync: Callable[[], object]) -> None:
        """Hold it."""
        self._disk = disk
        self._sync = sync

    def run(self) -> None:
        """Sync it; a call of the disk as any other."""
        self._disk._call()
        self._sync()

    def discard(self) -> None:
        """Do nothing."""


class LateSyncer:
    """Runs jobs some while after they were handed over, at calls of `run_some`."""

    def __init__(self, rng: random.Random) -> None:
        """Make it without a job."""
        self._rng = rng
        self._jobs: list[tuple[Sequence[Sync], Done]] = []

    def submit(self, syncs: Sequence[Sync], done: Done) -> None:
        """Keep a job."""
        self._jobs.append((syncs, done))

    def run_some(self) -> None:
        """Run the oldest job, one time in three."""
        if self._jobs and self._rng.random() < 1 / 3:
            self._run_oldest()

    def start(self, wake: Callable[[], None]) -> None:
        """Do nothing: there is no thread."""

    def deliver(self) -> None:
        """Do nothing: `done` is called when a job runs."""

    def wait(self) -> None:
        """Run all jobs."""
        while self._jobs:
            self._run_oldest()

    def close(self) -> None:
        """Give up all jobs."""
        self._jobs.clear()

    def _run_oldest(self) -> None:
        syncs, done = self._jobs.pop(0)
        for sync in syncs:
            sync.run()
        done(None)


def _has_parents(path: str, directories: set[str]) -> bool:
    while path:
        path = path.rpartition("/")[0]
        if path not in directories:
            return False
    return True
