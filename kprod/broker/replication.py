"""One partition: its leader, its log, and simulated followers.

A follower is only the offset up to which it has copied. This is sufficient because a follower's log
is always a prefix of its leader's, so one log serves all replicas. When a follower that lags behind
becomes leader, the log is truncated to its offset.

A follower's lag is in milliseconds: with 0 it copies during the append, with n after n ms, with
None not until told. A follower that lags longer than `replica_lag_time_max_ms` leaves the in-sync
set and returns when it has caught up.

Invariants.
    high_watermark = the smallest end offset in the in-sync set; it never falls under one leader.
    The leader is in the in-sync set. The leader epoch rises with each change of leader.
    Every change that a waiting request could wait for is announced (`announce`).

Thread-safety: the broker's thread.
Source: Kafka Partition.scala and KIP-101 for leader epochs; the follower model is kprod's own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.batch_rewrite import rewrite_log_append_time
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.retention import RetentionLimits, apply_retention
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.rejection import Rejected, RejectedByLog
from kprod.broker.replica import Replica
from kprod.broker.scheduler import Scheduler
from kprod.broker.topic_config import TopicConfig
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches

if TYPE_CHECKING:
    from kprod.broker.log.producer_state import ProducerStates

NO_LEADER = -1


class PartitionContext(Scheduler, Protocol):
    """The parts of the cluster that a partition uses."""

    @property
    def replica_lag_time_max_ms(self) -> int:
        """Time after which a lagging follower leaves the in-sync set, in milliseconds."""

    def announce(self, partition: TopicPartition) -> None:
        """Check requests that wait for a partition."""

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker runs."""

    def note_growth(self, *, compacts: bool) -> None:
        """Schedule retention for a log that has a new segment.

        Args:
            compacts: Whether compaction must be scheduled, too.
        """


class Appended(NamedTuple):
    """The position of an appended batch."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int


class Partition:
    """A partition's state as its leader and the controller see it.

    Attributes:
        is_offline: Whether its directory has failed: nobody leads it until the cluster is started
            again.
    """

    __slots__ = (
        "_batch_bytes_max",
        "_context",
        "_lag_checks",
        "config",
        "high_watermark",
        "is_offline",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "name",
        "producers",
        "replicas",
    )

    def __init__(
        self,
        name: TopicPartition,
        nodes: Sequence[int],
        config: TopicConfig,
        *,
        log: PartitionLog,
        context: PartitionContext,
        leader_epoch: int = 0,
    ) -> None:
        """Create a partition; all replicas have the whole log.

        Args:
            name: Topic and partition number.
            nodes: Brokers of the replicas, at least one; the first is the preferred leader.
            config: The topic's settings.
            log: The partition's log.
            context: Timer, waiting requests, and running brokers.
            leader_epoch: Epoch of the first leader; a higher one in the log takes precedence.
        """
        self.name: TopicPartition = name
        self.replicas: dict[int, Replica] = {node_id: Replica(node_id, log) for node_id in nodes}
        self.log: PartitionLog = log
        self.producers: ProducerStates = log.producers
        log.name = name
        self.configure(config)
        self.high_watermark: int = log.log_end_offset
        self.is_offline: bool = False
        self.producers.transactions.note_high_watermark(self.high_watermark)
        # The first leader after loading a log needs a new epoch (KIP-101).
        self.leader_epoch: int = max(leader_epoch, log.epochs.latest_epoch + 1)
        self.log.begin_epoch(self.leader_epoch, save=False)
        self._context = context
        self._lag_checks: set[int] = set()
        alive = [node_id for node_id in nodes if context.is_alive(node_id)]
        self.isr: list[int] = alive or list(nodes[:1])
        self.leader_id: int = alive[0] if alive else NO_LEADER

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether acks=all may append; the minimum is at most the number of replicas (KIP-966)."""
        count = len(self.isr)
        return count >= self.config.min_insync_replicas or count >= len(self.replicas)

    def append(
        self, batch: RecordBatch, encoded: memoryview, timestamp_ms: int, *, acks: int
    ) -> Appended:
        """Append a validated batch, unless it is a duplicate.

        Args:
            batch: The validated batch.
            encoded: The same bytes, writable; the log keeps the buffer.
            timestamp_ms: Wall clock time, for topics with log-append time.
            acks: −1 requires enough in-sync replicas.

        Returns:
            The position; for a duplicate that of the original.

        Raises:
            RejectedByLog: Too few in-sync replicas, or an invalid epoch or sequence.
        """
        if len(encoded) > self._batch_bytes_max or self.log.syncs is not None:
            self._check_log(len(encoded))
        if acks == -1 and not self.has_enough_in_sync:
            raise RejectedByLog(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} in-sync replicas of {self.name}, "
                f"{self.config.min_insync_replicas} needed (min.insync.replicas)",
            )
        if batch.producer_id >= 0:
            known = self.producers.duplicate_of(batch)
            if known is not None:
                return Appended(known.base_offset, known.last_offset, known.timestamp_ms)
            code, text = self.producers.check(batch)
            if code != ErrorCode.NONE:
                raise RejectedByLog(code, text)
        log_append_time_ms = -1
        if self.config.message_timestamp_type == "LogAppendTime":
            rewrite_log_append_time(encoded, timestamp_ms)
            batch = next(read_batches(encoded, check_crc=False))
            log_append_time_ms = timestamp_ms
        base_offset = self.store(batch, encoded, timestamp_ms)
        return Appended(base_offset, base_offset + batch.last_offset_delta, log_append_time_ms)

    def configure(self, config: TopicConfig) -> None:
        """Apply new settings."""
        self.config: TopicConfig = config
        self._batch_bytes_max = config.segment_bytes_max
        self.log.rules = SegmentRules.of_topic(config, is_durable=self.log.is_durable)

    def raise_start(self, offset: int) -> None:
        """Raise the log start offset, on all replicas that copy.

        Args:
            offset: The new start, at most the high watermark; a lower one than the present is
                ignored.

        Raises:
            OSError: The leader epochs cannot be written.
        """
        self.log.raise_start(offset)
        for follower in self._followers():
            self._copy_later(follower)
        self._context.announce(self.name)

    @property
    def alive_followers(self) -> list[Replica]:
        """The followers on running brokers."""
        return [it for it in self._followers() if self._context.is_alive(it.node_id)]

    def store(self, batch: RecordBatch, encoded: memoryview, now_ms: int) -> int:
        """Append a batch that was checked already.

        Args:
            batch: The batch.
            encoded: The same bytes, writable; the log keeps the buffer.
            now_ms: Wall clock time.

        Returns:
            Its base offset.
        """
        log = self.log
        roll_count = log.roll_count
        base_offset = log.append(batch, encoded, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if batch.producer_id >= 0:
            ended = self.producers.remember(batch, base_offset)
            if ended is not None:
                log.note_ended(ended)
        if (
            log.syncs is not None
            and log.log_end_offset - log.recovery_point >= self.config.flush_messages
        ):
            log.flush()
        self.replicas[self.leader_id].log_end_offset = log.log_end_offset
        if len(self.replicas) > 1:
            for follower in self._followers():
                self._copy_later(follower)
        self._move_high_watermark()
        if log.roll_count != roll_count:
            self._note_roll(now_ms)
        self._context.announce(self.name)
        return base_offset

    def set_lag(self, node_id: int, lag_ms: int | None) -> None:
        """Set a follower's lag.

        Args:
            node_id: A replica other than the leader.
            lag_ms: Delay, 0 or more; 0 copies everything now, None stops copying.

        Raises:
            KeyError: The broker has no replica of this partition.
        """
        self.replicas[node_id].lag_ms = lag_ms
        if lag_ms is not None:
            self._copy_later(self.replicas[node_id])

    def catch_up(self, node_id: int, offset: int | None = None) -> None:
        """Make a follower copy now.

        Args:
            node_id: The follower's broker.
            offset: End of the range to copy, exclusive; None copies everything.
        """
        if self._context.is_alive(node_id) and self.leader_id != NO_LEADER:
            end = self.log.log_end_offset
            self._copied(self.replicas[node_id], end if offset is None else min(offset, end))

    def lead(self, node_id: int) -> None:
        """Make a broker the leader; the log is truncated to its replica's end.

        Args:
            node_id: A running broker. One without a replica takes over the old leader's.

        Raises:
            Rejected: The partition is offline, or has no leader to take over from.
        """
        self.check_online()
        if node_id not in self.replicas:
            self._hand_over(node_id)
        replica = self.replicas[node_id]
        if node_id == self.leader_id:
            return
        replica.lag_ms = 0
        self.leader_id = node_id
        self.leader_epoch += 1
        if node_id not in self.isr:
            self.isr = [node_id]
        self._cut(replica.log_end_offset)
        self.log.begin_epoch(self.leader_epoch)
        for follower in self._followers():
            self._copy_later(follower)
        self._move_high_watermark()
        self._context.announce(self.name)

    def truncate(self, offset: int) -> None:
        """Drop every batch with an offset at or beyond the given one, as an unclean election does.

        Args:
            offset: The new end; the batch that contains it is dropped.
        """
        self.leader_epoch += 1
        self._cut(offset)
        self.log.begin_epoch(self.leader_epoch)
        self._context.announce(self.name)

    def go_offline(self) -> None:
        """Take note that the log's directory has failed, which all replicas share."""
        self.is_offline = True
        self.leader_id = NO_LEADER
        self.leader_epoch += 1  # not written: there is nothing left to write to
        self._context.announce(self.name)

    def why_not_led_by(self, node_id: int) -> ErrorCode:
        """Say why a broker does not serve the partition.

        Args:
            node_id: The broker that was asked.

        Returns:
            KAFKA_STORAGE_ERROR of a partition that is offline, NOT_LEADER_OR_FOLLOWER where
            another broker leads, NONE of the leader.
        """
        if self.is_offline and node_id in self.replicas:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE if self.leader_id == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def broker_stopped(self, node_id: int) -> None:
        """Handle the stop of a broker: remove it from the in-sync set and move its leadership."""
        if node_id not in self.replicas or self.is_offline:
            return
        left = [other for other in self.isr if other != node_id]
        # The last in-sync replica stays in the set: only it may become leader without loss.
        self.isr = left or self.isr
        if self.leader_id != node_id:
            self._move_high_watermark()
            self._context.announce(self.name)
            return
        if left:
            self.lead(left[0])
            return
        self.leader_id = NO_LEADER
        self.leader_epoch += 1
        self.log.begin_epoch(self.leader_epoch)
        self._context.announce(self.name)

    def broker_started(self, node_id: int) -> None:
        """Handle the start of a broker: it becomes leader if no other may, else it copies."""
        if node_id not in self.replicas or self.is_offline:
            return
        if self.leader_id != NO_LEADER:
            self._copy_later(self.replicas[node_id])
        elif node_id in self.isr:
            self.lead(node_id)

    def check_online(self) -> None:
        """See that the log's directory has not failed.

        Raises:
            Rejected: It has.
        """
        if self.is_offline:
            raise Rejected(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the directory of {self.name} has failed; the partition is offline until the "
                "cluster is started again",
            )

    def _check_log(self, size_bytes: int) -> None:
        limit_bytes = self._batch_bytes_max
        if size_bytes > limit_bytes:
            raise RejectedByLog(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the batch has {size_bytes} bytes; a segment of {self.name} may have "
                f"{limit_bytes} (segment.bytes)",
            )
        if self.log.syncs is not None and not self.log.syncs.is_sound:
            raise RejectedByLog(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"a sync of {self.name} failed: nothing is appended until the broker is restarted",
            )

    def _note_roll(self, now_ms: int) -> None:
        self._context.note_growth(compacts=self.config.compacts)
        if not self.log.is_durable:  # memory use must stay close to the limit
            limits = RetentionLimits.of_topic(self.config)._replace(retention_ms=-1)
            apply_retention(self.log, limits, high_watermark=self.high_watermark, now_ms=now_ms)

    def _followers(self) -> list[Replica]:
        return [replica for node_id, replica in self.replicas.items() if node_id != self.leader_id]

    def _copy_later(self, replica: Replica) -> None:
        if replica.lag_ms == 0:
            self.catch_up(replica.node_id)
            return
        self._watch_lag(replica)
        if replica.lag_ms is not None:
            offset = self.log.log_end_offset
            node_id = replica.node_id
            self._context.after(replica.lag_ms, lambda: self.catch_up(node_id, offset))

    def _copied(self, replica: Replica, offset: int) -> None:
        replica.log_end_offset = max(replica.log_end_offset, offset)
        has_new_start = replica.log_start_offset != self.log.log_start_offset
        replica.log_start_offset = self.log.log_start_offset
        caught_up = replica.log_end_offset >= self.log.log_end_offset
        if caught_up and replica.node_id not in self.isr:
            self.isr.append(replica.node_id)
        before = self.high_watermark
        self._move_high_watermark()
        if self.high_watermark != before or has_new_start:
            self._context.announce(self.name)

    def _watch_lag(self, replica: Replica) -> None:
        node_id = replica.node_id
        if node_id not in self.isr or node_id in self._lag_checks:
            return
        self._lag_checks.add(node_id)
        wanted = self.log.log_end_offset
        self._context.after(
            self._context.replica_lag_time_max_ms, lambda: self._judge_lag(replica, wanted)
        )

    def _judge_lag(self, replica: Replica, wanted: int) -> None:
        self._lag_checks.discard(replica.node_id)
        if replica.node_id == self.leader_id or replica.node_id not in self.isr:
            return
        if replica.log_end_offset < min(wanted, self.log.log_end_offset):
            self.isr.remove(replica.node_id)
            self._move_high_watermark()
            self._context.announce(self.name)
        elif replica.log_end_offset < self.log.log_end_offset:
            self._watch_lag(replica)

    def _move_high_watermark(self) -> None:
        ends = [self.replicas[node_id].log_end_offset for node_id in self.isr]
        reached = min(ends)
        if reached > self.high_watermark:
            self.high_watermark = reached
            self.producers.transactions.note_high_watermark(reached)

    def _hand_over(self, node_id: int) -> None:
        if self.leader_id == NO_LEADER:
            raise Rejected(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"{self.name} has no leader that broker {node_id} could take over from",
            )
        old = self.replicas.pop(self.leader_id)
        old.node_id = node_id
        self.replicas = {node_id: old, **self.replicas}
        self.isr = [node_id, *(other for other in self.isr if other != self.leader_id)]

    def _cut(self, offset: int) -> None:
        if offset < self.log.log_end_offset:
            self.log.truncate_to(offset)
            self.producers.rebuild(self.log.batches())
        end = self.log.log_end_offset
        for replica in self.replicas.values():
            replica.log_end_offset = min(replica.log_end_offset, end)
        if self.leader_id != NO_LEADER:
            self.replicas[self.leader_id].log_end_offset = end
        self.high_watermark = min(self.high_watermark, end)
        self.producers.transactions.note_high_watermark(self.high_watermark)
