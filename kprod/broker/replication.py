"""One partition: its leader, its log, and followers that a test can hold back.

Followers are simulated: a follower is the offset that it has copied up to. That is enough because
a follower's log is always a prefix of its leader's, so one log serves all replicas; when
a follower that is behind becomes leader, the log is cut to what it had.

A follower's lag is in milliseconds: 0 copies within the append itself, n copies n ms later, None
copies nothing until told otherwise. One that stays behind longer than `replica_lag_time_max_ms`
leaves the in-sync set and comes back when it has caught up.

Invariants.
    high_watermark = the smallest end offset in the in-sync set, and never falls while the leader
    stays.
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
from kprod.broker.rejection import Refused, RejectedByLog
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
    """What a partition needs of its cluster."""

    @property
    def replica_lag_time_max_ms(self) -> int:
        """Milliseconds behind before a follower leaves the in-sync set."""

    def announce(self, partition: TopicPartition) -> None:
        """Tell waiting requests that a partition changed."""

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker runs."""

    def note_growth(self, *, compacts: bool) -> None:
        """Take note that a log has another segment, so that retention has something to do.

        Args:
            compacts: Whether the cleaner has, too.
        """


class Appended(NamedTuple):
    """Where a batch is."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int


class Partition:
    """A partition's state as its leader and the controller see it."""

    __slots__ = (
        "_batch_bytes_max",
        "_context",
        "_lag_checks",
        "config",
        "high_watermark",
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
        """Make a partition whose replicas all have the whole log.

        Args:
            name: Topic and index.
            nodes: The replicas' brokers, the preferred leader first; at least one.
            config: The topic's settings.
            log: The partition's own.
            context: Timer, waiting requests, running brokers.
            leader_epoch: The first leader's, or a higher one if the log has it.
        """
        self.name: TopicPartition = name
        self.replicas: dict[int, Replica] = {node_id: Replica(node_id, log) for node_id in nodes}
        self.log: PartitionLog = log
        self.producers: ProducerStates = log.producers
        log.name = name
        self.configure(config)
        self.high_watermark: int = log.log_end_offset
        self.producers.transactions.note_high_watermark(self.high_watermark)
        # A leader of a loaded log is a new leader of it (KIP-101).
        self.leader_epoch: int = max(leader_epoch, log.epochs.latest_epoch + 1)
        self.log.begin_epoch(self.leader_epoch, save=False)
        self._context = context
        self._lag_checks: set[int] = set()
        alive = [node_id for node_id in nodes if context.is_alive(node_id)]
        self.isr: list[int] = alive or list(nodes[:1])
        self.leader_id: int = alive[0] if alive else NO_LEADER

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether acks=all may append; more than all replicas are never asked for (KIP-966)."""
        return len(self.isr) >= min(self.config.min_insync_replicas, len(self.replicas))

    def append(
        self, batch: RecordBatch, encoded: memoryview, timestamp_ms: int, *, acks: int
    ) -> Appended:
        """Append a validated batch, or find that it is there already.

        Args:
            batch: The validated batch.
            encoded: The same bytes, writable; the log keeps them.
            timestamp_ms: Wall clock, for topics that stamp on append.
            acks: −1 demands enough in-sync replicas before anything is written.

        Returns:
            Its place; for a duplicate the place of the first.

        Raises:
            RejectedByLog: Too few in-sync replicas, or a wrong epoch or sequence.
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
        """Take other settings, for all that happens from now on."""
        self.config: TopicConfig = config
        self._batch_bytes_max = config.segment_bytes_max
        self.log.rules = SegmentRules.of_topic(config, is_durable=self.log.is_durable)

    def raise_start(self, offset: int) -> None:
        """Let the log begin later, on all replicas that copy.

        Args:
            offset: At most the high watermark; a lower one than now changes nothing.

        Raises:
            OSError: The leader epochs cannot be written.
        """
        self.log.raise_start(offset)
        for follower in self._followers():
            self._copy_later(follower)
        self._context.announce(self.name)

    @property
    def alive_followers(self) -> list[Replica]:
        """The followers on brokers that run."""
        return [it for it in self._followers() if self._context.is_alive(it.node_id)]

    def store(self, batch: RecordBatch, encoded: memoryview, now_ms: int) -> int:
        """Append a batch that was judged already.

        Args:
            batch: The judged batch.
            encoded: The same bytes, writable; the log keeps them.
            now_ms: Wall clock time.

        Returns:
            Its base offset.
        """
        segment_count = len(self.log.segments)
        base_offset = self.log.append(batch, encoded, leader_epoch=self.leader_epoch, now_ms=now_ms)
        ended = self.producers.remember(batch, base_offset)
        if ended is not None:
            self.log.note_ended(ended)
        if (
            self.log.syncs is not None
            and self.log.log_end_offset - self.log.recovery_point >= self.config.flush_messages
        ):
            self.log.flush()
        self.replicas[self.leader_id].log_end_offset = self.log.log_end_offset
        if len(self.replicas) > 1:
            for follower in self._followers():
                self._copy_later(follower)
        self._move_high_watermark()
        if len(self.log.segments) != segment_count:
            self._note_roll(now_ms)
        self._context.announce(self.name)
        return base_offset

    def set_lag(self, node_id: int, lag_ms: int | None) -> None:
        """Hold a follower back, or let it continue.

        Args:
            node_id: A replica other than the leader.
            lag_ms: 0 or more; None stops it. 0 lets it catch up at once.

        Raises:
            KeyError: The broker has no replica of this partition.
        """
        self.replicas[node_id].lag_ms = lag_ms
        if lag_ms is not None:
            self._copy_later(self.replicas[node_id])

    def catch_up(self, node_id: int, offset: int | None = None) -> None:
        """Let a follower copy now.

        Args:
            node_id: A replica.
            offset: Copy up to here, exclusive; None copies all.
        """
        if self._context.is_alive(node_id) and self.leader_id != NO_LEADER:
            end = self.log.log_end_offset
            self._copied(self.replicas[node_id], end if offset is None else min(offset, end))

    def lead(self, node_id: int) -> None:
        """Make a broker the leader; the log is cut to what its replica has.

        Args:
            node_id: Alive. A broker without a replica takes the old leader's and all it has.
        """
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
        """Lose every batch at or beyond an offset, on all replicas, as an unclean election does.

        Args:
            offset: The new end, or the start of the batch that holds it.
        """
        self.leader_epoch += 1
        self._cut(offset)
        self.log.begin_epoch(self.leader_epoch)
        self._context.announce(self.name)

    def broker_stopped(self, node_id: int) -> None:
        """Take note that a broker is gone: it leaves the in-sync set, its leadership moves."""
        if node_id not in self.replicas:
            return
        left = [other for other in self.isr if other != node_id]
        # The last in-sync replica stays in the set: only it may lead again without loss.
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
        """Take note that a broker is back: it leads if nobody else may, else it copies."""
        if node_id not in self.replicas:
            return
        if self.leader_id != NO_LEADER:
            self._copy_later(self.replicas[node_id])
        elif node_id in self.isr:
            self.lead(node_id)

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
        if not self.log.is_durable:  # memory must stay close to its limit
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
        reached = min(self.replicas[node_id].log_end_offset for node_id in self.isr)
        self.high_watermark = max(self.high_watermark, reached)
        self.producers.transactions.note_high_watermark(self.high_watermark)

    def _hand_over(self, node_id: int) -> None:
        if self.leader_id == NO_LEADER:
            raise Refused(
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
