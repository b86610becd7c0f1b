"""Tracks which part of a log on disk survives a crash of the operating system, and syncs the rest.

Invariants.
    Everything below the recovery point is synced. A successful sync raises it; a truncation of the
    log lowers it, since later batches must be checked after a crash.
    A failed sync is not repeated: the operating system may have dropped the bytes and would report
    success.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog.flush and LocalLog.flush (4.3).
"""

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kprod.broker.log.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    segment_file_name,
)
from kprod.broker.log.segment import Segment
from kprod.broker.log.store import Store
from kprod.guarded_log import guarded_logger

if TYPE_CHECKING:
    from kprod.broker.log.flush_stats import FlushStats

_logger = guarded_logger("kprod.broker")


class LogSyncs:
    """The recovery point of one log, and its syncs.

    Attributes:
        is_sound: Whether no sync has failed; nothing may be appended otherwise.
        flushed_ms: When the task for `flush.ms` last had it synced, by the monotonic clock; −1
            before its first look.
        recovery_point: All below it is synced.
        stats: Counts the flushes; None for a log without an owner.
    """

    __slots__ = (
        "_change_count",
        "_has_new_names",
        "_pending_count",
        "_store",
        "flushed_ms",
        "is_sound",
        "recovery_point",
        "stats",
    )

    def __init__(self, store: Store, recovery_point: int) -> None:
        """Create the tracker of a log whose files are synced up to an offset.

        Args:
            store: The store with the log's files.
            recovery_point: The offset.
        """
        self._store = store
        self._change_count = 0
        self._has_new_names = False
        self._pending_count = 0
        self.flushed_ms: int = -1
        self.is_sound: bool = True
        self.recovery_point: int = recovery_point
        self.stats: FlushStats | None = None

    def note_new_name(self) -> None:
        """Record that a file was created or renamed: the directory must be synced, too."""
        self._has_new_names = True

    def end_segment(self, segment: Segment, end_offset: int) -> None:
        """Record that the active segment ends, of which earlier syncs left out the indexes.

        Syncs that have not returned no longer raise the recovery point; the one of the roll does.

        Args:
            segment: The active segment, whose indexes were just written.
            end_offset: End offset of the log, for which a snapshot was just written.

        Raises:
            OSError: The files cannot be synced.
        """
        self._change_count += 1
        if self.recovery_point >= end_offset:
            # After a crash, a segment below the recovery point is trusted, indexes included.
            self.is_sound = False
            segment.sync_indexes(self._store)
            self._store.sync(segment_file_name(end_offset, SNAPSHOT_SUFFIX))
            self.is_sound = True

    def note_cut(self, end_offset: int) -> bool:
        """Record that the log is about to be truncated.

        Args:
            end_offset: End offset that the log will have.

        Returns:
            Whether the recovery point went down; it must be written down before the cut.
        """
        self._change_count += 1
        self._has_new_names = True
        if end_offset >= self.recovery_point:
            return False
        self.recovery_point = end_offset
        return True

    def flush(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Sync everything now.

        Args:
            segments: The segments from the recovery point on, the active one last.
            end_offset: End offset of the log.

        Raises:
            OSError: It cannot be synced now, or could not be before.
        """
        if self._pending_count:
            # It would not be told of an error that one of these is told of.
            self._store.wait_for_syncs()
        if self._is_flushed(end_offset):
            return
        if not self.is_sound:
            raise OSError(f"{self._store}: an earlier sync failed, and is not tried again")
        start_ns = self._begin()
        self.is_sound = False
        for name in self._names_of(segments):
            self._store.sync(name)
        if self._has_new_names:
            self._store.sync()
            self._has_new_names = False
        self.is_sound = True
        self.recovery_point = end_offset
        self._end(start_ns)

    def flush_later(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Have everything synced in the background; then the recovery point moves.

        Args:
            segments: The segments from the recovery point on, the active one last.
            end_offset: End offset of the log.

        Raises:
            OSError: A file cannot be opened.
        """
        if self._is_flushed(end_offset) or not self.is_sound:
            return
        names = [*self._names_of(segments), None]
        on_done = functools.partial(
            self._note_synced, end_offset, self._change_count, self._begin()
        )
        self._pending_count += 1
        self._has_new_names = False
        try:
            self._store.sync_later(names, on_done)
        except OSError:
            self._pending_count -= 1
            self._has_new_names = True
            raise

    def _is_flushed(self, end_offset: int) -> bool:
        return self.recovery_point >= end_offset and not self._has_new_names

    def _names_of(self, segments: Sequence[Segment]) -> Iterator[str]:
        """The segments' files; the active one's indexes are not written yet."""
        for segment in segments:
            is_active = segment is segments[-1]
            yield segment_file_name(segment.base_offset, LOG_SUFFIX)
            for suffix in (SNAPSHOT_SUFFIX,) if is_active else (*INDEX_SUFFIXES, SNAPSHOT_SUFFIX):
                name = segment_file_name(segment.base_offset, suffix)
                if self._store.exists(name):
                    yield name

    def _begin(self) -> int:
        return 0 if self.stats is None else self.stats.begin()

    def _end(self, start_ns: int) -> None:
        if self.stats is not None:
            self.stats.end(start_ns)

    def _note_synced(
        self, offset: int, change_count: int, start_ns: int, error: OSError | None
    ) -> None:
        self._pending_count -= 1
        if error is None:
            self._end(start_ns)
        if error is not None:
            self.is_sound = False
            _logger.error(
                "%s: nothing is appended until the next start, since a sync failed: %s",
                self._store,
                error,
            )
        elif change_count == self._change_count:  # else there may be other batches or files below
            self.recovery_point = max(self.recovery_point, offset)
