"""Stores in directories, for tests."""

from pathlib import Path

from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.system_disk import SystemDisk


def made_store(directory: Path, pool: FilePool) -> DirectoryStore:
    """A store in a directory, which is made if it does not exist."""
    directory.mkdir(exist_ok=True)
    return DirectoryStore(SystemDisk(pool), str(directory))
