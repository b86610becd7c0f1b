# cython: annotation_typing=False, nonecheck=True
"""A batch's timer: one task that knows its batch.

The cycle collector walks all that lives, again and again, and ten thousand batches that linger are
many objects: so this is one where a task, a closure, a bound method and a list would be four.

Thread-safety: the sender's.
"""

from collections.abc import Callable

from kprod._core.timer_task import TimerTask
from kprod.producer.batch import ProducerBatch


class BatchTask(TimerTask):
    """Calls a step with a batch; it may be added again by that step."""

    __slots__ = ("_batch", "_on_due")

    def __init__(self, batch: ProducerBatch, on_due: Callable[[ProducerBatch], object]) -> None:
        self._batch = batch
        self._on_due = on_due

    def run(self) -> object:
        """Call the step."""
        return self._on_due(self._batch)
