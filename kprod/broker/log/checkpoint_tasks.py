"""Writes the checkpoints of all directories periodically, each file only if it has changed.

A write that fails is tried again in the next period; until then a restart checks more of the log
than necessary.

Thread-safety: the broker's thread.
Source: Kafka LogManager.startupWithConfigOverrides (4.3) for the intervals.
"""

from collections.abc import Callable, Mapping, Sequence

from kprod.broker.log.log_directory import LogDirectory
from kprod.broker.scheduler import After
from kprod.guarded_log import guarded_logger
from kprod.model import TopicPartition

INITIAL_DELAY_MS = 30_000
RECOVERY_POINTS_INTERVAL_MS = 60_000
START_OFFSETS_INTERVAL_MS = 60_000
HIGH_WATERMARKS_INTERVAL_MS = 5_000
_logger = guarded_logger("kprod.broker")

HighWatermarks = Callable[[], Mapping[TopicPartition, int]]


class CheckpointTasks:
    """Three periodic tasks on the timing wheel, one for each kind of checkpoint."""

    __slots__ = ("_after", "_directories", "_high_watermarks")

    def __init__(
        self, after: After, directories: Sequence[LogDirectory], high_watermarks: HighWatermarks
    ) -> None:
        """Create the tasks; `start` schedules them.

        Args:
            after: Schedules a call after a delay.
            directories: The directories whose checkpoints are written.
            high_watermarks: Returns the high watermarks of all partitions.
        """
        self._after = after
        self._directories = directories
        self._high_watermarks = high_watermarks

    def start(self) -> None:
        """Schedule each task's first run."""
        for task in (self._recovery_points, self._start_offsets, self._watermarks):
            self._after(INITIAL_DELAY_MS, task)

    def _recovery_points(self) -> None:
        self._each(LogDirectory.write_recovery_points)
        self._after(RECOVERY_POINTS_INTERVAL_MS, self._recovery_points)

    def _start_offsets(self) -> None:
        self._each(LogDirectory.write_start_offsets)
        self._after(START_OFFSETS_INTERVAL_MS, self._start_offsets)

    def _watermarks(self) -> None:
        watermarks = self._high_watermarks()
        self._each(lambda it: it.write_high_watermarks(watermarks))
        self._after(HIGH_WATERMARKS_INTERVAL_MS, self._watermarks)

    def _each(self, write: Callable[[LogDirectory], None]) -> None:
        for directory in (it for it in self._directories if it.failure is None):
            try:
                write(directory)
            except OSError as error:
                _logger.warning("a checkpoint in %s cannot be written: %s", directory.path, error)
