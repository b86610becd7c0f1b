"""Where a record without key and partition goes: one partition at a time, the short queues first.

Such records stick to one partition until its batch is closed, full or drained; then another is
drawn, with weights that favour partitions whose queues are short. So batches are whole, and a slow
broker gets less.

Thread-safety: `TopicQueues.draw` any thread, under the interpreter lock.
Source: KIP-480 for the moment of change, KIP-794 for the weights; kprod's departure 13.
"""

import bisect
import itertools
import random
from collections.abc import Callable

from kprod._core.append import TopicHead
from kprod.producer.partition_queue import PartitionQueue

WEIGHTS_LIFE_MS = 20  # weighing ten thousand queues for each batch would cost more than it gains


class TopicQueues(TopicHead):
    """A topic's queues, and the weights by which the next sticky partition is drawn."""

    queues: list[PartitionQueue]

    __slots__ = ("_candidates", "_cumulated_weights", "_weighed_at_ms")

    def __init__(self, name: str, partition_count: int) -> None:
        super().__init__(name, [])
        self.grow(partition_count)
        self._candidates: list[int] = []
        self._cumulated_weights: list[int] = []
        self._weighed_at_ms = -WEIGHTS_LIFE_MS

    def grow(self, partition_count: int) -> None:
        """Make queues for partitions that were added."""
        for partition in range(len(self.queues), partition_count):
            self.queues.append(PartitionQueue(self, partition))

    def draw(self, source: random.Random, now_ms: int, has_leader: Callable[[int], bool]) -> int:
        """Draw a partition for the records to come.

        Args:
            source: Of randomness.
            now_ms: Monotonic.
            has_leader: Whether a partition can be sent to; those that cannot are left out, unless
                that leaves none.

        Returns:
            A partition's number.
        """
        if now_ms - self._weighed_at_ms >= WEIGHTS_LIFE_MS:
            self._weigh(has_leader)
            self._weighed_at_ms = now_ms
        drawn = source.randrange(self._cumulated_weights[-1])
        return self._candidates[bisect.bisect_right(self._cumulated_weights, drawn)]

    def _weigh(self, has_leader: Callable[[int], bool]) -> None:
        everyone = range(len(self.queues))
        self._candidates = [p for p in everyone if has_leader(p)] or list(everyone)
        lengths = [len(self.queues[p].batches) for p in self._candidates]
        longest = max(lengths)
        self._cumulated_weights = list(
            itertools.accumulate(longest + 1 - length for length in lengths)
        )
