"""Periodic work on a cluster's partitions: retention, flushes, and the expiry of producers.

A task is armed by the first append that gives it something to do, and runs again as long as there
is something left: an idle cluster says that its next step is due when something arrives. A run
looks at a bounded number of partitions in one step.

Thread-safety: the broker's thread.
Source: Kafka LogManager's log-retention and log-flusher tasks, and ProducerStateManager's expiry
    (4.3).
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

from kprod.broker.config import EmbeddedConfig
from kprod.broker.log.retention import RetentionLimits, apply_retention
from kprod.broker.replication import Partition
from kprod.broker.scheduler import Scheduler
from kprod.broker.topics import TopicRegistry
from kprod.clock import Clock
from kprod.guarded_log import guarded_logger
from kprod.model import TopicPartition

INITIAL_DELAY_MS = 30_000
PRODUCER_EXPIRY_INTERVAL_MS = 600_000
OFF_MS = 2**63 - 1
"""An interval that never comes."""
_PARTITIONS_PER_STEP = 64
_logger = guarded_logger("kprod.broker")


class UpkeepContext(Scheduler, Protocol):
    """The state of a cluster, as far as its upkeep needs it.

    Attributes:
        config: The cluster's settings.
        clock: The wall clock.
        topics: All topics.
        log_bytes: Total size of all logs.
    """

    config: EmbeddedConfig
    clock: Clock
    topics: TopicRegistry
    log_bytes: int

    def announce(self, partition: TopicPartition) -> None:
        """Tell waiting requests that a partition changed."""


class Upkeep:
    """The tasks of one cluster."""

    __slots__ = ("_context", "_sweeps")

    def __init__(self, context: UpkeepContext) -> None:
        """Make the tasks; none is armed yet.

        Args:
            context: The cluster's state.
        """
        self._context = context
        self._sweeps = [
            PartitionSweep(
                context,
                context.topics.partitions,
                interval_ms=context.config.retention_check_interval_ms,
                action=self.apply_retention,
                is_needed=lambda partition: bool(partition.log.size_bytes),
            ),
            PartitionSweep(
                context,
                context.topics.partitions,
                interval_ms=PRODUCER_EXPIRY_INTERVAL_MS,
                action=self._expire_producers,
                is_needed=lambda partition: bool(len(partition.producers)),
            ),
        ]
        if context.config.flush_scheduler_interval_ms != OFF_MS:
            flushes = PartitionSweep(
                context,
                context.topics.partitions,
                interval_ms=context.config.flush_scheduler_interval_ms,
                action=self._flush_old,
                is_needed=lambda partition: partition.log.is_durable,
            )
            self._sweeps.append(flushes)

    def start(self) -> None:
        """Let all tasks run soon, as Kafka does after a start, if there is anything to look at."""
        if any(partition.log.size_bytes for partition in self._context.topics.partitions()):
            for sweep in self._sweeps:
                sweep.arm(INITIAL_DELAY_MS)

    def arm(self) -> None:
        """See to it that all tasks run; a second call changes nothing."""
        for sweep in self._sweeps:
            sweep.arm()

    def apply_retention(self, partition: Partition) -> None:
        """Drop the segments of a partition that are too old, too many, or before its start."""
        context = self._context
        before_bytes = partition.log.size_bytes
        limits = RetentionLimits.of_topic(partition.config)
        log, now_ms = partition.log, context.clock.timestamp_ms()
        try:
            apply_retention(log, limits, high_watermark=partition.high_watermark, now_ms=now_ms)
        except OSError as error:
            _logger.warning("old segments of %s stay: %s", partition.name, error)
        if log.size_bytes != before_bytes:
            context.log_bytes -= before_bytes - log.size_bytes
            context.announce(partition.name)

    def _flush_old(self, partition: Partition) -> None:
        syncs, now_ms = partition.log.syncs, self._context.clock.now_ms()
        if syncs is None:
            return
        if syncs.flushed_ms < 0:
            syncs.flushed_ms = now_ms
        if now_ms - syncs.flushed_ms < partition.config.flush_ms:
            return
        syncs.flushed_ms = now_ms
        try:
            partition.log.flush_later()
        except OSError as error:
            _logger.warning("%s is not synced: %s", partition.name, error)

    def _expire_producers(self, partition: Partition) -> None:
        expiration_ms = self._context.config.producer_id_expiration_ms
        partition.producers.expire(self._context.clock.timestamp_ms(), expiration_ms)


class PartitionSweep:
    """Applies a function to every partition, each interval in which there is need."""

    __slots__ = ("_action", "_interval_ms", "_is_armed", "_is_needed", "_partitions", "_scheduler")

    def __init__(
        self,
        scheduler: Scheduler,
        partitions: Callable[[], Iterator[Partition]],
        *,
        interval_ms: int,
        action: Callable[[Partition], object],
        is_needed: Callable[[Partition], bool],
    ) -> None:
        """Make a task that is not armed yet.

        Args:
            scheduler: Runs functions later.
            partitions: All partitions at that time.
            interval_ms: Between two runs, at least 1.
            action: Is called with each.
            is_needed: Whether a partition will have need of another run.
        """
        self._scheduler = scheduler
        self._partitions = partitions
        self._interval_ms = interval_ms
        self._action = action
        self._is_needed = is_needed
        self._is_armed = False

    def arm(self, delay_ms: int | None = None) -> None:
        """See to it that a run comes; a second call changes nothing.

        Args:
            delay_ms: Until the run; the interval if not given.
        """
        if not self._is_armed:
            self._is_armed = True
            delay_ms = self._interval_ms if delay_ms is None else delay_ms
            self._scheduler.after(delay_ms, self._begin)

    def _begin(self) -> None:
        # A list, since topics may come and go between two slices.
        self._continue(iter(list(self._partitions())), needed=False)

    def _continue(self, left: Iterator[Partition], *, needed: bool) -> None:
        some = list(itertools.islice(left, _PARTITIONS_PER_STEP))
        for partition in some:
            self._action(partition)
            needed = needed or self._is_needed(partition)
        if some:
            self._scheduler.soon(lambda: self._continue(left, needed=needed))
            return
        self._is_armed = False
        if needed:
            self.arm()
