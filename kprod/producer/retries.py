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
from kprod.producer.topic_queues import TopicQueues

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
        if self._has_new_leader(queue):
            self._accumulator.mark_ready(queue)  # no back-off for a new leader (KIP-951)
            return
        queue.backoff_count += 1
        backoff_is_over = partial(self._backoff_is_over, queue, queue.backoff_round)
        self._timer.start(batch.attempts - 1, backoff_is_over)

    def _has_new_leader(self, queue: PartitionQueue) -> bool:
        """Whether another node than the one last sent to leads the partition of the same topic."""
        # A topic that was created again has no new leader: old metadata makes it change to and fro,
        # each time with the other topic's leader. One read may bring such metadata and the
        # rejection behind it; the queues follow the metadata only afterwards.
        snapshot = self._metadata.snapshot
        routes = self._accumulator.topics.get(queue.topic)
        topic_id = snapshot.topic_id_of(queue.topic)
        if isinstance(routes, TopicQueues) and routes.is_recreated_as(topic_id):
            return False
        leader = snapshot.leader_of(queue.topic, queue.partition)
        return leader is not None and queue.sent_to not in {NO_NODE, leader.node_id}

    def _backoff_is_over(self, queue: PartitionQueue, backoff_round: int) -> None:
        if backoff_round == queue.backoff_round:
            queue.backoff_count -= 1
            self._accumulator.mark_ready(queue)
