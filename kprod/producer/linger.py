# cython: annotation_typing=False, nonecheck=True
"""The linger rule: a batch's timer fires when linger is over, and again at its deadline.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A batch is its own timer task for both times. It is due immediately with `linger_ms` 0, and while a
send waits for memory.

Thread-safety: the sender.
Source: Kafka RecordAccumulator.ready (clients 4.3.1) for linger; kprod's departure 6 for deadlines.
"""

from collections.abc import Callable

from kprod.producer.batch import ProducerBatch
from kprod.producer.partition_queue import PartitionQueue
from kprod.timer.timer import Timer


class Linger:
    """Starts the timers of new batches, and reports due and expired batches."""

    def __init__(
        self,
        timer: Timer,
        *,
        linger_ms: int,
        delivery_timeout_ms: int,
        on_ready: Callable[[PartitionQueue], object],
        on_expired: Callable[[ProducerBatch], object],
    ) -> None:
        """Use a timer.

        Args:
            timer: The sender's timer.
            linger_ms: Maximum time that a batch waits for more records.
            delivery_timeout_ms: Time from the first record to the deadline; at least `linger_ms`.
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
        """Start the timers of batches that have records and no timer yet.

        Oldest first, so that deadlines in the same millisecond fire in the order of sending. A
        batch without records has no creation time yet; its first record posts the queue again.

        Args:
            queue: The queue of a partition.
            now_ms: Monotonic time.
        """
        fresh: list[ProducerBatch] = []
        # by index, since other threads append meanwhile
        for index in range(len(queue.batches) - 1, -1, -1):
            batch = queue.batches[index]
            if batch.is_armed:
                break
            if batch.builder.record_count:
                fresh.append(batch)
        for batch in reversed(fresh):
            batch.is_armed = True
            created_ms = batch.result.created_ms
            lingered_ms = created_ms + self._linger_ms
            # A wait for memory that begins later calls `ask_for_sweep`; its waiter is queued
            # before.
            if lingered_ms <= now_ms or queue.is_short_of_memory():
                batch.is_due = True
                self._arm(batch, created_ms + self._delivery_timeout_ms)
            else:
                self._arm(batch, lingered_ms)

    def arm_deadline(self, batch: ProducerBatch) -> None:
        """Start the deadline's timer of a batch that is due already."""
        self._arm(batch, batch.created_ms + self._delivery_timeout_ms)

    def _arm(self, batch: ProducerBatch, instant_ms: int) -> None:
        batch.on_due = self._on_due
        self._timer.add_at(instant_ms, batch)

    def _pass_instant(self, batch: ProducerBatch) -> None:
        """Timer callback: linger is over, or the delivery deadline has passed."""
        deadline_ms = batch.created_ms + self._delivery_timeout_ms
        if self._timer.now_ms >= deadline_ms:
            self._on_expired(batch)
            return
        self._timer.add_at(deadline_ms, batch)
        batch.is_due = True
        self._on_ready(batch.queue)
