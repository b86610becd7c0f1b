# cython: annotation_typing=False, nonecheck=True
"""All partition queues, and which of them are ready to send; driven by events, without scans.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Sending threads post a queue to the inbox when a batch gets its first record or is full. The sender
takes the inbox, starts each new batch's timer (linger, then delivery deadline), and puts a queue
into its leader's ready ring when its batch becomes sendable: full, lingered, flushed, or because a
send waits for memory. When such a wait begins, all batches become due, and so do batches that are
created during it. A queue that may not send now leaves its ring, and returns with the event that
ends the reason. So the cost of a turn depends on the ready partitions, not on all partitions.

Invariants.
    A queue is in at most one ring, or among the leaderless queues. A request has at most one batch
    for each partition; the partitions of a node take turns.

Thread-safety: any thread or the sender, as the sections of the class say. There is no lock that a
    thread could hold while a signal handler on it waits for the sender: `topics` grows by
    `setdefault`.
Source: Kafka RecordAccumulator (clients 4.3.1) for what must hold; KAFKA-13834, KAFKA-16226.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kprod._core.clock import SystemClock
from kprod._core.memory.chunk_pool import ChunkChain
from kprod._core.outcome.batch_result import BatchResult
from kprod.cluster.metadata import Metadata
from kprod.cluster.snapshot import ClusterSnapshot
from kprod.config import AccumulatorSettings
from kprod.producer.batch import ProducerBatch
from kprod.producer.linger import Linger
from kprod.producer.partition_queue import NO_NODE, PartitionQueue
from kprod.producer.partitioner import StickyPartitioner
from kprod.producer.queue_leaders import QueueLeaders
from kprod.producer.topic_queues import TopicQueues
from kprod.timer.timer import Timer

if TYPE_CHECKING:
    from kprod._core.send.partition_appender import TopicRoutes

_QUEUES_SEEN_MAX = 32  # of a node, so that the cost does not grow with the partitions


class RecordAccumulator:  # noqa: PLR0904 - what the sender asks and what the send path asks
    """The batches of all partitions, from append to drain."""

    def __init__(
        self,
        settings: AccumulatorSettings,
        metadata: Metadata,
        *,
        clock: SystemClock,
        timer: Timer,
        sticky: StickyPartitioner,
        on_expired: Callable[[ProducerBatch], object],
    ) -> None:
        """Create it without topics.

        Args:
            settings: Sizes and times of batches.
            metadata: Provides the leaders of partitions.
            clock: Read when a batch is created.
            timer: The sender's timer.
            sticky: Chooses sticky partitions.
            on_expired: Called by the timer with a batch whose delivery deadline has passed.
        """
        self._batch_bytes_max = settings.batch_size
        self._metadata = metadata
        self._clock = clock
        self.sticky = sticky
        self._linger = Linger(
            timer,
            linger_ms=settings.linger_ms,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            on_ready=self.mark_ready,
            on_expired=on_expired,
        )
        self._unfollowed: deque[TopicQueues] = deque()  # may be based on older metadata
        self._rings: dict[int, deque[PartitionQueue]] = {}
        self._leaderless: dict[PartitionQueue, None] = {}
        self._routed_snapshot = metadata.snapshot
        self._leaders = QueueLeaders(metadata)
        self.wants_sweep: bool = False
        self.topics: dict[str, TopicRoutes] = {}
        self.inbox: deque[PartitionQueue] = deque()

    # Methods of any thread.

    def topic_queues(self, topic: str, partition_count: int) -> TopicQueues:
        """Create a topic's queues, or those that are missing."""
        routes = self.topics.get(topic)
        if routes is None:
            made = TopicQueues(topic, partition_count)
            made.topic_id = self._metadata.snapshot.topic_id_of(topic)
            self.sticky.follow(made)
            self.sticky.roll(made)
            routes = self.topics.setdefault(
                topic, made
            )  # another thread may have created it meanwhile
        assert isinstance(routes, TopicQueues)  # noqa: S101 - nothing else puts routes there
        routes.grow(partition_count)
        self._unfollowed.append(routes)
        return routes

    def make_batch(self, queue: PartitionQueue, chain: ChunkChain) -> ProducerBatch:
        """Create a batch on a chain."""
        return ProducerBatch(queue, chain, self._batch_bytes_max, self._clock.now_ms())

    def roll_sticky(self, routes: TopicQueues) -> None:
        """Choose another sticky partition."""
        self.sticky.roll(routes)

    def ask_for_sweep(self) -> None:
        """Make the sender's next turn treat every batch with records as due."""
        self.wants_sweep = True

    def queues(self) -> Iterator[PartitionQueue]:
        """Return all queues."""
        for routes in list(self.topics.values()):
            yield from list(routes.queues)

    def incomplete(self) -> list[tuple[BatchResult, int]]:
        """Return the results of all unfinished batches, with their numbers of records."""
        return [
            (batch.result, batch.record_count)
            for queue in self.queues()
            for batch in list(queue.batches)
            if batch.record_count
        ]

    def holds(self, result: BatchResult) -> bool:
        """Whether a result belongs to an unfinished batch."""
        routes = self.topics.get(result.topic)
        if not isinstance(routes, TopicQueues) or result.partition >= len(routes.queues):
            return False
        batches = list(routes.queues[result.partition].batches)
        return any(batch.result is result for batch in batches)

    # Methods of the sender.

    @property
    def has_undrained(self) -> bool:
        """Whether any batch is unfinished."""
        return any(queue.batches for queue in self.queues())

    def has_news(self) -> bool:
        """Whether `take_inbox` has work."""
        return bool(self.inbox) or self.wants_sweep

    def ready_nodes(self) -> list[int]:
        """List the nodes whose rings are not empty."""
        return [node_id for node_id, ring in self._rings.items() if ring]

    def is_alone(self, queue: PartitionQueue) -> bool:
        """Whether a queue is in a ring, and no other in any."""
        return queue.ring_node_id != NO_NODE and sum(map(len, self._rings.values())) == 1

    def wants_routes(self) -> bool:
        """Whether a topic's metadata has changed, or a leader is unknown."""
        return (
            self._routed_snapshot is not self._metadata.snapshot
            or bool(self._leaderless)
            or bool(self._unfollowed)
        )

    @property
    def leaderless_topics(self) -> list[str]:
        """Topics with batches for a partition whose leader is unknown, without duplicates."""
        if not self._leaderless:  # the usual case; each turn checks
            return []
        return list(dict.fromkeys([queue.topic for queue in self._leaderless]))

    def take_inbox(self, now_ms: int) -> None:
        """Start the timers of new batches, and mark queues that became sendable as ready."""
        if self.wants_sweep:
            self.wants_sweep = False
            self._sweep()
        inbox = self.inbox
        while inbox:
            queue = inbox.popleft()
            self._linger.arm_new_batches(queue, now_ms)
            if queue.sendable_batch() is not None:
                self.mark_ready(queue)
            elif queue.is_short_of_memory():
                self._give_back_empty(queue)

    def route(self) -> list[PartitionQueue]:
        """Apply new metadata, if any, to topics' queues and leaders' rings.

        Returns:
            Queues of partitions that no longer exist; their batches cannot be sent.
        """
        snapshot, routed = self._metadata.snapshot, self._routed_snapshot
        gone = self._follow_topics(routed, snapshot)
        # A send that waited for memory may have opened a batch after its partition had gone.
        gone += [queue for queue in self._leaderless if queue.is_gone]
        if snapshot is routed:
            return gone
        self._routed_snapshot = snapshot
        moved = list(self._leaderless)
        self._leaderless.clear()
        for node_id, ring in self._rings.items():
            stay: deque[PartitionQueue] = deque()
            for queue in ring:
                leader = snapshot.leader_of(queue.topic, queue.partition)
                (stay if leader is not None and leader.node_id == node_id else moved).append(queue)
            self._rings[node_id] = stay
        for queue in moved:
            queue.ring_node_id = NO_NODE
            self.mark_ready(queue)
        return gone

    def _follow_topics(
        self, before: ClusterSnapshot, after: ClusterSnapshot
    ) -> list[PartitionQueue]:
        """Update topics whose metadata has changed; others cost a comparison of references."""
        # In order of arrival, since the order of a set of strings differs between processes.
        names = dict.fromkeys(
            [self._unfollowed.popleft().name for _ in range(len(self._unfollowed))]
        )
        if self.sticky.takes_turns and before.nodes.keys() != after.nodes.keys():
            names |= dict.fromkeys(after.topics)  # a leader's address may have become known
        else:
            names |= dict.fromkeys(after.topics_changed_since(before))
        gone: list[PartitionQueue] = []
        for name in names:
            routes, topic = self.topics.get(name), after.topics.get(name)
            if isinstance(routes, TopicQueues) and topic is not None:
                gone += routes.follow(topic)
                self.sticky.follow(routes)
        return gone

    def mark_ready(self, queue: PartitionQueue) -> None:
        """Put a queue into its leader's ring, or among the leaderless queues; idempotent."""
        if queue.ring_node_id != NO_NODE or (self._leaderless and queue in self._leaderless):
            return
        leader_id = self._leaders.leader_id_of(queue)
        if leader_id == NO_NODE:
            if queue.batches:  # an empty queue needs no leader, so nobody is asked for it
                self._leaderless[queue] = None
            return
        queue.ring_node_id = leader_id
        ring = self._rings.get(leader_id)
        if ring is None:
            ring = self._rings[leader_id] = deque()
        ring.append(queue)

    def mark_sendable(self) -> None:
        """Mark everything unsent as ready; `drain` skips what `may_send` forbids."""
        for queue in self.queues():
            if queue.sendable_batch() is not None:
                self.mark_ready(queue)

    def drain(
        self, node_id: int, size_max_bytes: int, may_send: Callable[[ProducerBatch], bool]
    ) -> list[ProducerBatch]:
        """Take batches for one request to a node, at most one for each partition.

        Args:
            node_id: Id of the leader.
            size_max_bytes: Maximum total size; a single batch may exceed it.
            may_send: Whether a batch's sequence allows sending it now.

        Returns:
            The batches, sealed, in the order of the ring; their queues count them as sent.
        """
        drained: list[ProducerBatch] = []
        ring = self._rings.get(node_id)
        if ring is None:
            return drained
        size_bytes = 0
        for _ in range(len(ring)):
            queue = ring[0]
            batch = queue.sendable_batch()
            if batch is None or queue.is_gated(node_id) or not may_send(batch):
                ring.popleft()
                queue.ring_node_id = NO_NODE
                continue
            if drained and size_bytes + batch.encoded_bytes > size_max_bytes:
                break
            ring.popleft()
            queue.ring_node_id = NO_NODE
            self._seal(queue, batch)
            queue.sent(batch, node_id)
            drained.append(batch)
            size_bytes += batch.encoded_bytes  # updated: records were appended until it was sealed
            if queue.drain_index < len(queue.batches) and queue.sendable_batch() is not None:
                self.mark_ready(queue)
        return drained

    def next_to_pack(self, node_id: int, count: int) -> list[ProducerBatch]:
        """Return batches that wait to be sent, that get no more records, and are not compressed.

        Args:
            node_id: Id of a leader, whose batches come first.
            count: Maximum number of batches.

        Returns:
            They stay in their queues and in the rings.
        """
        others = [ring for leader_id, ring in self._rings.items() if leader_id != node_id]
        found: list[ProducerBatch] = []
        for ring in (self._rings.get(node_id, ()), *others):
            for queue in islice(ring, _QUEUES_SEEN_MAX):
                found += queue.full_unpacked(count - len(found))
                if len(found) == count:
                    return found
        return found

    def retire(self, batch: ProducerBatch) -> None:
        """Seal a batch that is about to be settled.

        A record appended later would have a future that is never settled.
        """
        if batch.queue.builder is batch.builder:
            batch.queue.seal()

    def forget(self, batch: ProducerBatch) -> None:
        """Remove a finished or unused batch from its queue, and release its memory."""
        self.retire(batch)
        batch.cancel()
        batch.queue.remove(batch)
        if self._leaderless and not batch.queue.batches:
            self._leaderless.pop(batch.queue, None)
        batch.release()

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Replace a split batch by its parts, which are sent before later batches."""
        queue = batch.queue
        try:
            for part in parts:
                part.is_armed = True
                self._linger.arm_deadline(part)
            queue.replace(batch, parts)
        except BaseException:
            for part in parts:
                part.cancel()
            raise
        queue.rewind_later()  # first: none of the parts was sent
        batch.cancel()
        batch.release()
        self.mark_ready(queue)

    def abort(self, fail: Callable[[ProducerBatch], object]) -> None:
        """Settle every batch; the accumulator must not accept records any more.

        Args:
            fail: Settles a batch.
        """
        for queue in self.queues():
            for batch in list(queue.batches):
                self.retire(batch)
                fail(batch)
                self.forget(batch)

    def _sweep(self) -> None:
        """Make everything due; an empty open batch releases its memory."""
        for queue in self.queues():
            for index in range(queue.drain_index, len(queue.batches)):
                queue.batches[index].is_due = queue.batches[index].record_count > 0
            self._give_back_empty(queue)
            if queue.sendable_batch() is not None:
                self.mark_ready(queue)

    def _give_back_empty(self, queue: PartitionQueue) -> None:
        """Release the memory of an open batch without records."""
        for index in range(len(queue.batches) - 1, queue.drain_index - 1, -1):
            batch = queue.batches[index]
            if batch.record_count == 0:
                self.retire(batch)
                if batch.record_count == 0:  # checked again: a record may have been appended
                    self.forget(batch)

    def _seal(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if queue.builder is batch.builder:
            queue.seal()
            topic = self.topics.get(queue.topic)
            if isinstance(topic, TopicQueues) and topic.sticky == queue.partition:
                self.roll_sticky(topic)
