"""Keeps descriptors of many log files open, and closes the least recently used one first.

A cluster of 1,000 partitions has thousands of segment files, and a process often only 1,024
descriptors.

Invariants.
    At most `descriptors_max` descriptors are open. Each refers to the file that its path named when
    it was opened; so a descriptor must be closed (`forget`) before its file is removed.

Thread-safety: the broker's thread.
"""

import os
from collections import OrderedDict


class FilePool:
    """Open descriptors by path."""

    __slots__ = ("_descriptors", "_descriptors_max")

    def __init__(self, descriptors_max: int = 512) -> None:
        """Make an empty pool.

        Args:
            descriptors_max: Upper limit, at least 1.
        """
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._descriptors_max = descriptors_max

    def __len__(self) -> int:
        """Number of open descriptors."""
        return len(self._descriptors)

    def descriptor(self, path: str) -> int:
        """Return a descriptor for reading and writing; valid until the next call of the pool.

        Args:
            path: Path of an existing file.

        Returns:
            The descriptor; the pool closes it.
        """
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            self._descriptors.move_to_end(path)
            return descriptor
        while len(self._descriptors) >= self._descriptors_max:
            _, oldest = self._descriptors.popitem(last=False)
            os.close(oldest)
        descriptor = self._descriptors[path] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return descriptor

    def forget(self, path: str) -> None:
        """Close a file's descriptor, if it is open."""
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def forget_under(self, directory: str) -> None:
        """Close the descriptors of all files in a directory."""
        for path in [it for it in self._descriptors if it.startswith(f"{directory}/")]:
            self.forget(path)

    def close(self) -> None:
        """Close all descriptors; idempotent."""
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()
            os.close(descriptor)
