"""Compacts the logs of a cluster, one log at a time, in slices that run between requests.

The first check is scheduled when a compacted partition ends its first segment, and checks repeat as
long as a partition has dirty segments. A check picks the log that needs compaction most and starts
a round. Each slice of the round runs in its own step of the broker's loop, so that a request waits
for one slice at most.

Rules.
    A round is aborted without harm when its topic is deleted or loses the policy `compact`, when
    its log is truncated, or when the cluster is closed.
    A log whose round failed is uncleanable until the cluster restarts; other logs are not affected
    (KAFKA-7215).
    `io_bytes_per_second` limits the bytes read and written, by a timer.

Thread-safety: the broker's thread.
Source: Kafka LogCleaner and LogCleanerManager (4.3). With a single thread an aborted round ends at
    once, so Kafka's states "aborted" and "paused" are not needed.
"""

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kprod.broker.config import EmbeddedConfig
from kprod.broker.log.cleaning.picker import Cleanable, Lags, cleanable
from kprod.broker.log.cleaning.round import (
    CleaningRound,
    RoundAborted,
    RoundSettings,
    RoundSummary,
)
from kprod.broker.log.cleaning.stats import CleanerStats
from kprod.broker.log.cleaning.survivors import Horizon
from kprod.broker.partition_transactions import last_stable_offset
from kprod.broker.rejection import Rejected
from kprod.broker.replication import Partition
from kprod.broker.scheduler import Scheduler
from kprod.broker.topics import TopicRegistry
from kprod.clock import Clock
from kprod.guarded_log import guarded_logger

if TYPE_CHECKING:
    from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode

_logger = guarded_logger("kprod.broker")
_MS_PER_S = 1_000


class CleanerContext(Scheduler, Protocol):
    """The parts of the cluster that the cleaner uses.

    Attributes:
        clock: The wall clock.
        topics: All topics.
        log_bytes: Total size of all logs.
    """

    clock: Clock
    topics: TopicRegistry
    log_bytes: int


class CleanerSettings(NamedTuple):
    """Settings of the cleaner.

    Attributes:
        buffer_bytes: Memory of the offset map (`log.cleaner.dedupe.buffer.size`).
        io_bytes_per_second: Upper limit of bytes read and written
            (`log.cleaner.io.max.bytes.per.second`).
        back_off_ms: Interval between two checks (`log.cleaner.backoff.ms`).
    """

    buffer_bytes: int
    io_bytes_per_second: int
    back_off_ms: int

    @classmethod
    def of_cluster(cls, config: EmbeddedConfig) -> "CleanerSettings":
        """Create the cleaner's settings from a cluster's."""
        return cls(
            config.cleaner_dedupe_buffer_size,
            config.cleaner_io_max_bytes_per_second,
            config.cleaner_backoff_ms,
        )


class _Work(NamedTuple):
    """A round in progress.

    Attributes:
        partition: The partition whose log is compacted.
        cleaning: The round.
        slices: The round's generator.
        started_ms: Start time, in milliseconds.
    """

    partition: Partition
    cleaning: CleaningRound
    slices: Generator[int]
    started_ms: int


class LogCleaner:
    """Selects logs and compacts them.

    Attributes:
        stats: Statistics of the last round.
        uncleanable: Partitions whose rounds failed, with the reasons.
    """

    __slots__ = (
        "_context",
        "_is_armed",
        "_looked_ms",
        "_owed_bytes",
        "_settings",
        "_work",
        "stats",
        "uncleanable",
    )

    def __init__(self, context: CleanerContext, settings: CleanerSettings) -> None:
        """Create a cleaner that has no check scheduled.

        Args:
            context: The cluster.
            settings: Buffer size, limits and intervals.
        """
        self._context = context
        self._settings = settings
        self._is_armed = False
        self._looked_ms = context.clock.now_ms()
        self._owed_bytes = 0
        self._work: _Work | None = None
        self.stats: CleanerStats = CleanerStats()
        self.uncleanable: dict[TopicPartition, str] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a round is in progress."""
        return self._work is not None

    def arm(self) -> None:
        """Schedule a check; does nothing if one is scheduled already."""
        if not self._is_armed:
            self._is_armed = True
            self._context.after(self._settings.back_off_ms, self._check)

    def start(self) -> None:
        """Schedule a check soon, if any loaded log may be compacted."""
        partitions = self._context.topics.partitions()
        if any(_is_compacted(it) and len(it.log.segments) > 1 for it in partitions):
            self.arm()

    def close(self) -> None:
        """Abort the round in progress and remove the files that it wrote."""
        if self._work is not None:
            work, self._work = self._work, None
            work.slices.close()

    def clean_now(self, partition: Partition) -> RoundSummary:
        """Roll a partition's log and compact all of it before returning.

        Args:
            partition: A partition whose policy has `compact`.

        Returns:
            A summary of all rounds; a round that fills its offset map is followed by another.

        Raises:
            Rejected: The policy has no `compact`.
            OSError: A file cannot be read or written.
            CorruptRecord: A batch is corrupt.
        """
        if not _is_compacted(partition):
            policy = partition.config.cleanup_policy
            raise Rejected(
                ErrorCode.POLICY_VIOLATION,
                f"{partition.name} has cleanup.policy={policy!r}, which does not have compact",
            )
        if self.is_busy:
            self.close()
            self.arm()  # the round may have been another partition's
        if not partition.log.segments:
            return RoundSummary()
        partition.log.roll(self._context.clock.timestamp_ms())
        total = RoundSummary()
        while True:
            part = self._part(partition)
            if not part.dirty_bytes:
                return total
            work = self._begin(partition, part)
            self._context.log_bytes -= partition.log.size_bytes
            try:
                _finish(work)
            finally:
                self._context.log_bytes += partition.log.size_bytes
            self._end(work)
            total.add(work.cleaning.summary)

    def candidates(self) -> list[tuple[Partition, Cleanable]]:
        """The partitions that may be compacted, with their dirty parts."""
        partitions = [it for it in self._context.topics.partitions() if _is_compacted(it)]
        known = [it for it in partitions if it.name not in self.uncleanable]
        found: list[tuple[Partition, Cleanable]] = []
        for partition in known:
            try:
                found.append((partition, self._part(partition)))
            except OSError as error:
                _logger.warning("%s is not looked at by the cleaner: %s", partition.name, error)
        return found

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the searches, by Kafka's names; `stats` has those of the rounds."""
        parts = [part for _, part in self.candidates()]
        failed = [it for it in self._context.topics.partitions() if it.name in self.uncleanable]
        return {
            "max-dirty-percent": 100 * max((it.dirty_ratio for it in parts), default=0.0),
            "time-since-last-run-ms": self._context.clock.now_ms() - self._looked_ms,
            "uncleanable-partitions-count": len(failed),
            "uncleanable-bytes": sum(it.log.size_bytes for it in failed),
        }

    def _check(self) -> None:
        self._is_armed = False
        if self._work is not None:
            return  # the end of the round in progress checks again
        self._looked_ms = self._context.clock.now_ms()
        candidates = self.candidates()
        needy = [it for it in candidates if it[1].needs_cleaning(lags_of(it[0]))]
        if needy:
            self._work = work = self._begin(*max(needy, key=lambda it: it[1].dirty_ratio))
            self._context.soon(partial(self._go_on, work))
        elif any(len(it.log.segments) > 1 and part.dirty_bytes for it, part in candidates):
            self.arm()

    def _begin(self, partition: Partition, part: Cleanable) -> _Work:
        horizon = Horizon(self._context.clock.timestamp_ms(), partition.config.delete_retention_ms)
        settings = RoundSettings(self._settings.buffer_bytes, horizon)
        cleaning = CleaningRound(partition.log, part, settings)
        return _Work(partition, cleaning, cleaning.run(), self._context.clock.now_ms())

    def _go_on(self, work: _Work) -> None:
        """Run one slice of a round, unless the round was aborted."""
        if self._work is not work:
            return
        if not self._is_wanted(work.partition):
            self.close()
            self._check()
            return
        log = work.partition.log
        before_bytes = log.size_bytes
        try:
            cost_bytes = next(work.slices, None)
        except RoundAborted:
            self._work, cost_bytes = None, 0
        except Exception as error:  # noqa: BLE001 - of this log alone; it must not stop the broker
            self._give_up(work, error)
            cost_bytes = 0
        finally:
            self._context.log_bytes += log.size_bytes - before_bytes
        if cost_bytes is None:
            self._work = None
            self._end(work)
        if self._work is None:
            self._check()
            return
        self._continue_after(work, cost_bytes or 0)

    def _is_wanted(self, partition: Partition) -> bool:
        """Whether a partition still exists and still has the policy `compact`."""
        known = self._context.topics.partition(*partition.name)
        return known is partition and _is_compacted(partition)

    def _continue_after(self, work: _Work, cost_bytes: int) -> None:
        self._owed_bytes += cost_bytes
        go_on = partial(self._go_on, work)
        syncs = work.cleaning.syncs
        if syncs.is_pending and not cost_bytes:
            syncs.on_end = partial(self._context.soon, go_on)
            return
        pause_ms = self._owed_bytes * _MS_PER_S // self._settings.io_bytes_per_second
        if pause_ms:
            self._owed_bytes = 0
            self._context.after(pause_ms, go_on)
        else:
            self._context.soon(go_on)

    def _end(self, work: _Work) -> None:
        seconds = (self._context.clock.now_ms() - work.started_ms) / _MS_PER_S
        self.stats.note(work.cleaning.summary, seconds)

    def _give_up(self, work: _Work, error: Exception) -> None:
        self._work = None
        name = work.partition.name
        self.uncleanable[name] = str(error) or type(error).__name__
        _logger.error("%s is not compacted until the next start", name, exc_info=error)

    def _part(self, partition: Partition) -> Cleanable:
        return cleanable(
            partition.log,
            lags_of(partition),
            limit_offset=last_stable_offset(partition),
            now_ms=self._context.clock.timestamp_ms(),
        )


def lags_of(partition: Partition) -> Lags:
    """The compaction lags of a partition, from its topic's settings."""
    config = partition.config
    return Lags(
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.min_cleanable_dirty_ratio,
    )


def _is_compacted(partition: Partition) -> bool:
    return partition.config.compacts and not partition.is_offline


def _finish(work: _Work) -> None:
    """Run all slices of a round, and wait for its syncs."""
    for _ in work.slices:
        if work.cleaning.syncs.is_pending:
            work.partition.log.store.wait_for_syncs()
