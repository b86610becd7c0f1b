# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""One turn of the I/O thread: commands, due retries, requests, then the sockets.

The I/O thread owns all network state: connections, metadata, offset queries, fetches. It decodes no
record and never waits for the application's threads. Application code runs on it in two places
only: in log handlers, and in the interceptors' `close` at its end; no lock is held in either.

Thread-safety: the I/O thread.
Source: Kafka ConsumerNetworkThread.runOnce (clients 4.3.1).
"""

from typing import TYPE_CHECKING, NamedTuple

from kprod.cluster.metadata import Metadata
from kprod.consumer.assignment import Assignment
from kprod.consumer.fetch_buffer import FetchBuffer
from kprod.consumer.fetch_plan import FetchPlan
from kprod.consumer.fetcher import Fetcher
from kprod.consumer.group.group_parts import GroupParts
from kprod.consumer.mailbox import Mailbox
from kprod.consumer.offset_lookup import OffsetLookup
from kprod.consumer.offset_reset import OffsetReset
from kprod.consumer.position import NO_EPOCH, AssignedPartition, State
from kprod.consumer.topic_listing import TopicListing
from kprod.consumer.topic_watch import TopicWatch
from kprod.consumer.truncation import Truncation
from kprod.network.client import NetworkClient

if TYPE_CHECKING:
    from kprod.cluster.snapshot import ClusterSnapshot

POLL_MAX_MS = 60_000  # nothing depends on it; limits the cost of a lost wakeup


class LoopParts(NamedTuple):
    """The parts that a turn uses."""

    client: NetworkClient
    metadata: Metadata
    mailbox: Mailbox
    assignment: Assignment
    buffer: FetchBuffer
    lookup: OffsetLookup
    reset: OffsetReset
    truncation: Truncation
    plan: FetchPlan
    fetcher: Fetcher
    topics: TopicWatch
    listing: TopicListing
    group: GroupParts | None = None


class ConsumerLoop:
    """Runs the turns of one consumer."""

    def __init__(self, parts: LoopParts) -> None:
        """Start with no partitions.

        Args:
            parts: The consumer's parts.
        """
        self._parts = parts
        self._assignment_version = 0
        self._metadata_version = 0
        self._snapshot: ClusterSnapshot = parts.metadata.snapshot
        self._read: dict[AssignedPartition, None] = {}
        self._topics: list[str] = []

    def run_once(self, now_ms: int) -> None:
        """Run one turn.

        Args:
            now_ms: Monotonic time, not below an earlier turn's.
        """
        parts = self._parts
        parts.mailbox.run_commands()
        parts.buffer.take_freed()
        if parts.assignment.version != self._assignment_version:
            self._take_assignment(now_ms)
        if parts.metadata.snapshot is not self._snapshot:
            self._take_snapshot(now_ms)
        if parts.metadata.version != self._metadata_version:
            self._metadata_version = parts.metadata.version
            parts.topics.look(now_ms)
        parts.topics.look_for_rejection()
        in_group = () if parts.group is None else parts.group.membership.wanted_topics
        for topic in (*self._topics, *parts.lookup.topics(), *in_group):
            parts.metadata.add_topic(topic, now_ms)  # unused topics are forgotten
        wait_ms = min(
            POLL_MAX_MS if parts.group is None else parts.group.run(now_ms),
            parts.lookup.send(now_ms),
            parts.listing.send(now_ms),
            parts.truncation.send(now_ms),
            parts.fetcher.send(now_ms),
        )
        parts.buffer.tell()
        parts.client.poll(0 if parts.mailbox.has_commands else wait_ms, now_ms)

    def take_start(self, partition: AssignedPartition, now_ms: int) -> None:
        """Process the newest start of a partition.

        Args:
            partition: A partition that is or was assigned.
            now_ms: Monotonic time.
        """
        start = partition.start
        if partition.number == start.number or partition not in self._read:
            return
        parts = self._parts
        partition.number = start.number
        partition.retry_at_ms = partition.failures = partition.cut_off_count = 0
        self._cancel(partition)
        if start.offset is not None:
            partition.fetch_from(start.offset, start.epoch)
            if start.epoch != NO_EPOCH:
                partition.move_to(State.VALIDATING)
                parts.truncation.begin(partition)
            else:
                partition.move_to(State.FETCHING)
        elif start.asks_group and parts.group is not None:
            partition.move_to(State.INITIAL)
            parts.group.starts.begin(partition, start)
        elif partition.has_no_offset:
            partition.move_to(State.INITIAL)
        else:
            partition.move_to(State.RESETTING)
            parts.reset.begin(partition, start)
        self.take_place(partition, now_ms)

    def take_place(self, partition: AssignedPartition, now_ms: int) -> None:
        """Fetch a partition from its present offset, or stop fetching it.

        Args:
            partition: A partition whose state has changed.
            now_ms: Monotonic time.
        """
        if partition not in self._read:
            return
        if partition.state is State.FETCHING:
            partition.leader_epoch = self._parts.metadata.snapshot.leader_epoch_of(*partition.key)
        self._parts.plan.consider(partition, now_ms)

    def consider(self, partition: AssignedPartition, now_ms: int) -> None:
        """Decide again whether to fetch a partition: a block was freed, or it was paused.

        Args:
            partition: A partition that is or was assigned.
            now_ms: Monotonic time.
        """
        if partition in self._read:
            self._parts.plan.consider(partition, now_ms)

    def close(self) -> None:
        """Close all connections."""
        self._parts.client.close()

    def _take_assignment(self, now_ms: int) -> None:
        parts = self._parts
        self._assignment_version = parts.assignment.version
        read = dict.fromkeys(parts.assignment.partitions.values())
        for partition in self._read:
            if partition not in read:
                self._cancel(partition)
                parts.plan.drop(partition)
        self._read = read
        self._topics = parts.assignment.names
        for partition in read:
            self.take_start(partition, now_ms)
        parts.topics.look(now_ms)

    def _cancel(self, partition: AssignedPartition) -> None:
        """Cancel the requests of an older start."""
        parts = self._parts
        parts.reset.cancel(partition)
        parts.truncation.cancel(partition)
        parts.topics.forget_problem(partition.key)
        if parts.group is not None:
            parts.group.starts.cancel(partition)

    def _take_snapshot(self, now_ms: int) -> None:
        snapshot = self._parts.metadata.snapshot
        changed = set(snapshot.topics_changed_since(self._snapshot))
        self._snapshot = snapshot
        for partition in self._read:
            if partition.key.topic in changed:
                self._take_leader(partition, snapshot.leader_epoch_of(*partition.key))
                self._parts.plan.consider(partition, now_ms)

    def _take_leader(self, partition: AssignedPartition, epoch: int) -> None:
        """Validate a position after a change of leader, if the last record's epoch is known."""
        if partition.state is not State.FETCHING or epoch == partition.leader_epoch:
            return
        is_known = NO_EPOCH not in {epoch, partition.leader_epoch, partition.fetch_epoch}
        partition.leader_epoch = epoch if epoch != NO_EPOCH else partition.leader_epoch
        if is_known:
            partition.move_to(State.VALIDATING)
            self._parts.truncation.begin(partition)
