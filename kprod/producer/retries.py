"""Decides which batch is retried, and after which back-off.

Thread-safety: the sender.
Source: Kafka Sender.canRetry (clients 4.3.1), KIP-580 for the back-off, KIP-951 for new leaders.
"""

from functools import partial

from kprod.cluster.metadata import Metadata
from kprod.config import SenderSettings
from kprod.errors import KprodError
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Recorder
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.batch import ProducerBatch
from kprod.producer.partition_queue import NO_NODE, PartitionQueue
from kprod.producer.retry_timer import RetryTimer

_logger = guarded_logger(__name__)


class Retries:
    """Retries batches.

    Args:
        settings: Number of retries, and back-off.
        accumulator: Holds the batches.
        metadata: Provides the leaders.
        timer: Timer for the back-off.
        recorder: Called with each retry.
    """

    __slots__ = (
        "_accumulator",
        "_metadata",
        "_recorder",
        "_retries",
        "_timer",
    )

    def __init__(
        self,
        settings: SenderSettings,
        *,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        timer: RetryTimer,
        recorder: Recorder,
    ) -> None:
        self._retries = settings.retries
        self._accumulator = accumulator
        self._metadata = metadata
        self._timer = timer
        self._recorder = recorder

    def are_used_up(self, batch: ProducerBatch) -> bool:
        """Whether the batch was attempted as often as `retries` allows."""
        return batch.attempts > self._retries

    def send_again(self, batch: ProducerBatch, error: KprodError) -> None:
        """Retry a batch: immediately at a new leader, otherwise after a back-off.

        Args:
            batch: The oldest unsettled batch of its queue.
            error: The reason.
        """
        queue = batch.queue
        _logger.debug("Sending %s-%d again: %s", queue.topic, queue.partition, error)
        self._recorder.retried(queue.topic, batch.record_count)
        leader = self._metadata.snapshot.leader_of(queue.topic, queue.partition)
        # Not for a topic that was created again: old metadata makes it change to and fro.
        if leader is not None and queue.sent_to not in {NO_NODE, leader.node_id}:
            self._accumulator.mark_ready(queue)  # no back-off for a new leader (KIP-951)
            return
        queue.backoff_count += 1
        backoff_is_over = partial(self._backoff_is_over, queue, queue.backoff_round)
        self._timer.start(batch.attempts - 1, backoff_is_over)

    def _backoff_is_over(self, queue: PartitionQueue, backoff_round: int) -> None:
        if backoff_round == queue.backoff_round:
            queue.backoff_count -= 1
            self._accumulator.mark_ready(queue)
