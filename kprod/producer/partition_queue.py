# cython: annotation_typing=False, nonecheck=True
"""One partition's batches, oldest first, with a drain index between the sent and the unsent.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Sent batches stay at the head until they are answered. A retry rewinds the index: nothing is taken
out and put back, so there is no order to get wrong.

A queue whose sent batch failed sends nothing new until all its responses are in; then it rewinds
and sends the rest again in order, each with the bytes and the sequence it had.

Invariants.
    batches[:drain_index] are sent, batches[drain_index:] are not.
    in_flight_count counts the batches whose request is not complete, done ones included.
    More than one batch is in flight only after a success from the present leader, in the present
    topic of that name and in the present epoch: a broker takes any first sequence of a producer
    that it does not know.

Thread-safety: the sender's, but for what `PartitionAppender` shares with sending threads.
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
        drain_index: How many batches at the head are sent.
        in_flight_count: Batches whose request is not complete.
        leader_id: Cached leader, valid while `metadata_generation` is the accumulator's.
        metadata_generation: See `leader_id`.
        ring_node_id: The node in whose ready ring it stands; `NO_NODE` for none.
        sent_to: The node that its batches in flight were sent to; `NO_NODE` once their topic was
            deleted and created again.
        may_pipeline: A batch succeeded at `sent_to` since the last error.
        must_rewind: A sent batch failed; send nothing until the rest is answered.
        backoff_count: Back-offs that run; it waits for the longest.
        backoff_round: Counts up when back-offs end early; timers of an older round do nothing.
        is_gone: The topic was deleted and created again without this partition.
        next_sequence: For the next batch without one.
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
        """Whether a batch waits behind the drain index."""
        return self.drain_index < len(self.batches)

    def sendable_batch(self) -> "ProducerBatch | None":
        """Return the oldest unsent batch, if it is full, followed by another, or due.

        A batch with a verdict is not sent again, and no batch behind it before it has failed.
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

    def is_short_of_memory(self) -> bool:
        """Whether a send waits for memory of the pool that the newest batch has its memory from."""
        if not self.batches:
            return False
        batch = self.batches[-1]
        return batch.builder.chain.pool.has_waiters

    def is_oldest(self, batch: "ProducerBatch") -> bool:
        """Whether a batch is the first to be settled."""
        return bool(self.batches) and self.batches[0] is batch

    @property
    def unknown_fate_count(self) -> int:
        """How many batches at the head there are up to the last whose fate is unknown.

        Such a batch may be in the log: it keeps its sequence until its fate is known, or fails.
        """
        # By index: sending threads may append meanwhile, which would end an iteration.
        for index in range(len(self.batches) - 1, -1, -1):
            batch = self.batches[index]
            if batch.has_sequence and batch.maybe_persisted:
                return index + 1
        return 0

    def is_gated(self, leader_id: int) -> bool:
        """Whether nothing may be sent now: answers are awaited, or a back-off.

        Args:
            leader_id: The present leader.

        Returns:
            True while a back-off runs, or answers of another leader or from a deleted topic, of a
            batch that failed, or of the first batch to this leader are awaited.
        """
        if self.backoff_count:
            return True
        if self.in_flight_count == 0:
            return False
        return self.must_rewind or not self.may_pipeline or self.sent_to != leader_id

    def maybe_end_backoffs(self) -> None:
        """End the back-offs when no batch is left that was tried: nothing is spared by them."""
        if not self.backoff_count:
            return
        # By index: sending threads may append meanwhile, which would end an iteration.
        for index in range(len(self.batches)):
            if self.batches[index].attempts:
                return
        self.backoff_count = 0
        self.backoff_round += 1

    def sent(self, batch: "ProducerBatch", leader_id: int) -> None:
        """Move the drain index past a batch that goes into a request now."""
        if self.sent_to != leader_id:
            self.sent_to = leader_id
            self.may_pipeline = False
        batch.in_flight = True
        batch.attempts += 1
        self.drain_index += 1
        self.in_flight_count += 1

    def answered(self, batch: "ProducerBatch") -> None:
        """Note that a batch's request is complete; rewind when it was the last one awaited."""
        batch.in_flight = False
        self.in_flight_count -= 1
        if self.in_flight_count == 0 and self.must_rewind:
            self.must_rewind = False
            self.drain_index = 0

    def rewind_later(self) -> None:
        """Send the batches that are sent and not done again, once all their responses are in."""
        self.may_pipeline = False
        if self.in_flight_count == 0:
            self.drain_index = 0
        else:
            self.must_rewind = True

    def replace(self, batch: "ProducerBatch", parts: "list[ProducerBatch]") -> None:
        """Put the parts of a split batch where it stood, and let them answer for its records.

        All of it or, without memory, nothing: a part in no queue would never be settled.
        """
        index = 0
        while self.batches[index] is not batch:
            index += 1
        before = [self.batches[place] for place in range(index, -1, -1)]
        after = [*reversed(parts), *before[1:]]
        # Only at the end of a deque an addition that fails leaves it as it was.
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
        """Take a batch that is done out of the queue."""
        if self.batches and self.batches[0] is batch:
            self.batches.popleft()
            self.drain_index = max(self.drain_index - 1, 0)
            return
        # By index: sending threads may append meanwhile, which would end an iteration.
        for index in range(len(self.batches)):
            if self.batches[index] is batch:
                del self.batches[index]
                if index < self.drain_index:
                    self.drain_index -= 1
                return
