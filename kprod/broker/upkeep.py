"""Periodic work on a cluster's partitions: retention, flushes, and the expiry of producers.

The first append that gives a task work schedules it, and it is repeated while work is left; so an
idle cluster has no timers. A run processes a limited number of partitions in one step.

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
    """The parts of the cluster that the tasks use.

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
        """Check requests that wait for a partition."""


class Upkeep:
    """The periodic tasks of one cluster."""

    __slots__ = ("_context", "_sweeps")

    def __init__(self, context: UpkeepContext) -> None:
        """Create the tasks without scheduling them.

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
        """Schedule all tasks soon, if there are partitions; Kafka does the same after a start."""
        if any(partition.log.size_bytes for partition in self._context.topics.partitions()):
            for sweep in self._sweeps:
                sweep.arm(INITIAL_DELAY_MS)

    def arm(self) -> None:
        """Schedule all tasks; does nothing for those that are scheduled."""
        for sweep in self._sweeps:
            sweep.arm()

    def apply_retention(self, partition: Partition) -> None:
        """Drop the segments of a partition that retention allows to drop."""
        if partition.is_offline:
            return
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
    """Calls a function for every partition, in each interval in which there is work."""

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
        """Create a task without scheduling it.

        Args:
            scheduler: Calls functions later.
            partitions: Returns the current partitions.
            interval_ms: Interval between two runs, at least 1.
            action: The function.
            is_needed: Whether a partition will need another run.
        """
        self._scheduler = scheduler
        self._partitions = partitions
        self._interval_ms = interval_ms
        self._action = action
        self._is_needed = is_needed
        self._is_armed = False

    def arm(self, delay_ms: int | None = None) -> None:
        """Schedule a run; does nothing if one is scheduled.

        Args:
            delay_ms: Delay of the run; the interval by default.
        """
        if not self._is_armed:
            self._is_armed = True
            delay_ms = self._interval_ms if delay_ms is None else delay_ms
            self._scheduler.after(delay_ms, self._begin)

    def _begin(self) -> None:
        # A copy, since topics may change between two slices.
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
