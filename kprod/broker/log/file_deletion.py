"""How the files of a dropped segment go: at once, or renamed now and removed later.

A user who deleted too much has a while to save renamed files. Those that are still there at the
next start are removed then.

Thread-safety: the broker's thread.
Source: Kafka LocalLog.deleteSegmentFiles, `file.delete.delay.ms` (4.3).
"""

from collections.abc import Callable, Sequence

from kprod.broker.log.file_names import DELETED_SUFFIX
from kprod.broker.log.store import Store
from kprod.broker.scheduler import After
from kprod.guarded_log import guarded_logger

DeleteFiles = Callable[[Store, Sequence[str], int], None]
"""Gets the store, the files' names, of which some may not exist, and a delay in milliseconds."""
_logger = guarded_logger("kprod.broker")


def delete_at_once(store: Store, names: Sequence[str], _: int) -> None:
    """Remove files when they are dropped, as for a store in memory, to give the memory back."""
    for name in names:
        store.remove(name)


def delete_later(after: After) -> DeleteFiles:
    """Rename files when they are dropped, and remove them after a while.

    Args:
        after: Runs something later.

    Returns:
        What a log calls.
    """

    def delete(store: Store, names: Sequence[str], delay_ms: int) -> None:
        renamed = [name for name in names if store.exists(name)]
        for name in renamed:
            store.rename(name, name + DELETED_SUFFIX)
        # The next segment's files go later only: after a crash there must be no gap.
        store.sync()
        after(delay_ms, lambda: _remove(store, renamed))

    return delete


def _remove(store: Store, renamed: Sequence[str]) -> None:
    try:
        for name in renamed:
            store.remove(name + DELETED_SUFFIX)
    except OSError as error:
        _logger.warning("deleted files of %s stay until the next start: %s", store, error)
