# cython: annotation_typing=False, nonecheck=True
"""One partition's batches, oldest first, with a drain index between the sent and the unsent ones.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Sent batches stay at the head until their response arrives. A retry rewinds the index: no batch is
removed and inserted again, so the order cannot change.

A queue whose sent batch failed sends nothing new until all its responses have arrived; then it
rewinds and sends the remaining batches again in order, each with the same bytes and sequence.

Invariants.
    batches[:drain_index] are sent, batches[drain_index:] are not. in_flight_count counts the
    batches whose request is not complete, including those that are done. More than one batch is in
    flight only after a success from the current leader, in the current topic of that name and in
    the current epoch: a broker accepts any first sequence of an unknown producer.

Thread-safety: the sender; the fields of `PartitionAppender` are shared with sending threads.
Source: franz-go's recBuf and batchDrainIdx for the idea, its issue 223 for the last invariant.
"""

from typing import TYPE_CHECKING

from kprod._core.send.partition_appender import PartitionAppender

if TYPE_CHECKING:
    from collections import deque

    from kprod.producer.batch import ProducerBatch

NO_NODE = -1


class PartitionQueue(PartitionAppender):
    """The log of one partition.

    Attributes:
        drain_index: Number of sent batches at the head.
        in_flight_count: Number of batches whose request is not complete.
        leader_id: Cached leader, valid while `metadata_generation` is the accumulator's.
        metadata_generation: See `leader_id`.
        ring_node_id: Id of the node whose ready ring has the queue; `NO_NODE` for none.
        sent_to: Id of the node that its batches in flight were sent to; `NO_NODE` once their topic
            was deleted and created again.
        may_pipeline: Whether a batch succeeded at `sent_to` since the last error.
        must_rewind: Whether a sent batch failed, so that nothing is sent until the other responses
            have arrived.
        backoff_count: Number of running back-offs; the queue waits for the longest.
        backoff_round: Incremented when back-offs end early; timers of an older round do nothing.
        is_gone: Whether the topic was deleted and created again without this partition.
        next_sequence: Sequence for the next batch without one.
    """

    batches: "deque[ProducerBatch]"

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(topic, partition)
        self.drain_index: int = 0
        self.in_flight_count: int = 0
        self.leader_id = NO_NODE
        self.metadata_generation = -1
        self.ring_node_id = NO_NODE
        self.sent_to: int = NO_NODE
        self.may_pipeline: bool = False
        self.must_rewind: bool = False
        self.is_gone = False
        self.backoff_count: int = 0
        self.backoff_round: int = 0
        self.next_sequence = 0

    @property
    def has_unsent(self) -> bool:
        """Whether there is a batch after the drain index."""
        return self.drain_index < len(self.batches)

    def sendable_batch(self) -> "ProducerBatch | None":
        """Return the oldest unsent batch, if it is full, followed by another, or due.

        A batch with a verdict is not sent again, and later batches only after it has failed.
        """
        if self.drain_index >= len(self.batches):
            return None
        batch = self.batches[self.drain_index]
        builder = batch.builder
        if builder.record_count == 0 or batch.verdict is not None:
            return None
        if batch.is_due or builder is not self.builder or builder.is_full:
            return batch
        return None

    def full_unpacked(self, count: int) -> "list[ProducerBatch]":
        """Return the first unsent batches that get no more records and are not compressed.

        Args:
            count: Maximum number of batches, so that the cost does not grow with the queue.
        """
        found: list[ProducerBatch] = []
        # By index: sending threads may append meanwhile, which would invalidate an iterator.
        for index in range(self.drain_index, len(self.batches)):
            batch = self.batches[index]
            if batch.builder is self.builder:
                break
            if batch.is_unpacked and batch.record_count and batch.verdict is None:
                found.append(batch)
                if len(found) == count:
                    break
        return found

    def is_short_of_memory(self) -> bool:
        """Whether a send waits for memory of the newest batch's pool."""
        if not self.batches:
            return False
        batch = self.batches[-1]
        return batch.builder.chain.pool.has_waiters

    def is_oldest(self, batch: "ProducerBatch") -> bool:
        """Whether a batch is the next to be settled."""
        return bool(self.batches) and self.batches[0] is batch

    @property
    def unknown_outcome_count(self) -> int:
        """Number of batches at the head, up to the last one whose outcome is unknown.

        A batch of unknown outcome may be in the log: it keeps its sequence until its outcome is
        known, or fails.
        """
        # By index: sending threads may append meanwhile, which would invalidate an iterator.
        for index in range(len(self.batches) - 1, -1, -1):
            batch = self.batches[index]
            if batch.has_sequence and batch.maybe_persisted:
                return index + 1
        return 0

    def is_gated(self, leader_id: int) -> bool:
        """Whether nothing may be sent now, because of awaited responses or a back-off.

        Args:
            leader_id: Id of the current leader.

        Returns:
            True while a back-off runs, or while responses are awaited from another leader, from a
            deleted topic, for a failed batch, or for the first batch to this leader.
        """
        if self.backoff_count:
            return True
        if self.in_flight_count == 0:
            return False
        return self.must_rewind or not self.may_pipeline or self.sent_to != leader_id

    def maybe_end_backoffs(self) -> None:
        """End the back-offs if no attempted batch is left, since they would spare nothing."""
        if not self.backoff_count:
            return
        # By index: sending threads may append meanwhile, which would invalidate an iterator.
        for index in range(len(self.batches)):
            if self.batches[index].attempts:
                return
        self.backoff_count = 0
        self.backoff_round += 1

    def sent(self, batch: "ProducerBatch", leader_id: int) -> None:
        """Move the drain index beyond a batch that is put into a request."""
        if self.sent_to != leader_id:
            self.sent_to = leader_id
            self.may_pipeline = False
        batch.in_flight = True
        batch.attempts += 1
        self.drain_index += 1
        self.in_flight_count += 1

    def answered(self, batch: "ProducerBatch") -> None:
        """Record that a batch's request is complete; rewinds if it was the last one awaited."""
        batch.in_flight = False
        self.in_flight_count -= 1
        if self.in_flight_count == 0 and self.must_rewind:
            self.must_rewind = False
            self.drain_index = 0

    def rewind_later(self) -> None:
        """Send the unfinished sent batches again, once all responses have arrived."""
        self.may_pipeline = False
        if self.in_flight_count == 0:
            self.drain_index = 0
        else:
            self.must_rewind = True

    def replace(self, batch: "ProducerBatch", parts: "list[ProducerBatch]") -> None:
        """Replace a split batch by its parts, and make them report the outcome of its records.

        Atomic: without memory nothing changes, since a part in no queue would never be settled.
        """
        index = 0
        while self.batches[index] is not batch:
            index += 1
        before = [self.batches[place] for place in range(index, -1, -1)]
        after = [*reversed(parts), *before[1:]]
        # Only an append at the end of a deque leaves it unchanged if it fails.
        for _ in before:
            self.batches.popleft()
        placed = 0
        try:
            for placed_batch in after:
                self.batches.appendleft(placed_batch)
                placed += 1
            batch.forward(parts)
        except BaseException:
            while placed:
                self.batches.popleft()
                placed -= 1
            for placed_batch in before:
                self.batches.appendleft(placed_batch)
            raise
        if index < self.drain_index:
            self.drain_index += len(parts) - 1

    def remove(self, batch: "ProducerBatch") -> None:
        """Remove a finished batch from the queue."""
        if self.batches and self.batches[0] is batch:
            self.batches.popleft()
            self.drain_index = max(self.drain_index - 1, 0)
            return
        # By index: sending threads may append meanwhile, which would invalidate an iterator.
        for index in range(len(self.batches)):
            if self.batches[index] is batch:
                del self.batches[index]
                if index < self.drain_index:
                    self.drain_index -= 1
                return
