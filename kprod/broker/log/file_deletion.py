"""Deletes the files of a dropped segment: immediately, or renamed first and removed after a delay.

During the delay an operator can save files that were deleted by mistake. Renamed files that are
left at the next start are removed.

Thread-safety: the broker's thread.
Source: Kafka LocalLog.deleteSegmentFiles, `file.delete.delay.ms` (4.3).
"""

from collections.abc import Callable, Sequence

from kprod.broker.log.file_names import DELETED_SUFFIX
from kprod.broker.log.store import Store
from kprod.broker.scheduler import After
from kprod.guarded_log import guarded_logger

DeleteFiles = Callable[[Store, Sequence[str], int], None]
"""Takes the store, the names of the files (some may not exist), and a delay in milliseconds."""
_logger = guarded_logger("kprod.broker")


def delete_at_once(store: Store, names: Sequence[str], _: int) -> None:
    """Remove files immediately; a store in memory thereby frees the memory."""
    for name in names:
        store.remove(name)


def delete_later(after: After) -> DeleteFiles:
    """Return a function that renames files and removes them after a delay.

    Args:
        after: Schedules a call after a delay.

    Returns:
        The function for `PartitionLog.delete_files`.
    """

    def delete(store: Store, names: Sequence[str], delay_ms: int) -> None:
        renamed = [name for name in names if store.exists(name)]
        for name in renamed:
            store.rename(name, name + DELETED_SUFFIX)
        # The files of the next segment must be renamed later than these, or a crash could leave a
        # gap.
        store.sync()
        after(delay_ms, lambda: _remove(store, renamed))

    return delete


def _remove(store: Store, renamed: Sequence[str]) -> None:
    try:
        for name in renamed:
            store.remove(name + DELETED_SUFFIX)
    except OSError as error:
        _logger.warning("deleted files of %s stay until the next start: %s", store, error)
