# cython: annotation_typing=False, nonecheck=True
"""When a batch becomes due: its timer fires when linger is over, and again at its deadline.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A batch is its own timer task, for both instants. It is due at once where `linger_ms` is 0, and
while a send waits for memory.

Thread-safety: the sender's thread.
Source: Kafka RecordAccumulator.ready (clients 4.3.1) for linger; kprod's departure 6 for deadlines.
"""

from collections.abc import Callable

from kprod.producer.batch import ProducerBatch
from kprod.producer.partition_queue import PartitionQueue
from kprod.timer.timer import Timer


class Linger:
    """Arms the timers of new batches, and passes on what they bring."""

    def __init__(
        self,
        timer: Timer,
        *,
        linger_ms: int,
        delivery_timeout_ms: int,
        on_ready: Callable[[PartitionQueue], object],
        on_expired: Callable[[ProducerBatch], object],
    ) -> None:
        """Arm batches on a timer.

        Args:
            timer: The sender's.
            linger_ms: How long a batch may wait for more records.
            delivery_timeout_ms: From the first record to the deadline; not less than linger.
            on_ready: Called with the queue of a batch that is due.
            on_expired: Called with a batch whose deadline has passed.
        """
        self._timer = timer
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._on_ready = on_ready
        self._on_expired = on_expired
        self._on_due = self._pass_instant

    def arm_new_batches(self, queue: PartitionQueue, now_ms: int) -> None:
        """Arm batches that have records and no timer yet.

        Oldest first, so that deadlines of the same millisecond pass in the order of sending. A
        batch without records has no time yet; its first record posts the queue again.

        Args:
            queue: Of one partition.
            now_ms: Monotonic time.
        """
        fresh: list[ProducerBatch] = []
        for index in range(len(queue.batches) - 1, -1, -1):  # others append meanwhile
            batch = queue.batches[index]
            if batch.is_armed:
                break
            if batch.builder.record_count:
                fresh.append(batch)
        for batch in reversed(fresh):
            batch.is_armed = True
            created_ms = batch.result.created_ms
            lingered_ms = created_ms + self._linger_ms
            # Of a wait that begins later, `ask_for_sweep` tells: the waiter is in line before.
            if lingered_ms <= now_ms or queue.is_short_of_memory():
                batch.is_due = True
                self._arm(batch, created_ms + self._delivery_timeout_ms)
            else:
                self._arm(batch, lingered_ms)

    def arm_deadline(self, batch: ProducerBatch) -> None:
        """Arm a batch that is due already, for its deadline alone."""
        self._arm(batch, batch.created_ms + self._delivery_timeout_ms)

    def _arm(self, batch: ProducerBatch, instant_ms: int) -> None:
        batch.on_due = self._on_due
        self._timer.add_at(instant_ms, batch)

    def _pass_instant(self, batch: ProducerBatch) -> None:
        """Linger is over, which is never after the delivery deadline; or that has passed."""
        deadline_ms = batch.created_ms + self._delivery_timeout_ms
        if self._timer.now_ms >= deadline_ms:
            self._on_expired(batch)
            return
        self._timer.add_at(deadline_ms, batch)
        batch.is_due = True
        self._on_ready(batch.queue)
