"""What a broker says of a log that readers must not miss: an offset is gone, the log was cut.

The I/O thread finds out; the thread that polls decides, by `auto_offset_reset`: an offset that is
not in the log comes behind the records that were fetched before it, a log that was cut makes what
was fetched of it void at once.

Thread-safety: `on_…` the I/O thread; the rest the thread that polls.
Source: KIP-320; Kafka FetchCollector.handleInitializeErrors and
SubscriptionState.maybeCompleteValidation (clients 4.3.1).
"""

from collections.abc import Callable
from functools import partial

from kprod.consumer.fetch_buffer import FetchedStep
from kprod.consumer.partition_texts import no_offset
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.position import AssignedPartition, Place, Start, State, new_start
from kprod.errors import LogTruncated
from kprod.guarded_log import guarded_logger

_logger = guarded_logger(__name__)


class LogFaults:
    """What happened to the logs that one consumer reads.

    Attributes:
        truncation_count: How often a log was cut.
    """

    def __init__(
        self, parts: ConsumerParts, restart: Callable[[AssignedPartition, Start], object]
    ) -> None:
        """Start with sound logs.

        Args:
            parts: Of the consumer.
            restart: Reads a partition from elsewhere.
        """
        self._parts = parts
        self._restart = restart
        self.truncation_count: int = 0

    def on_out_of_range(self, partition: AssignedPartition) -> None:
        """An offset is not in the log: reset or raise behind the records before it."""
        partition.move_to(State.HALTED)
        offset = partition.fetch_offset
        step = partial(self._reset, partition, partition.number, offset)
        self._parts.buffer.add_step(FetchedStep(partition, partition.number, step))

    def _reset(self, partition: AssignedPartition, number: int, offset: int) -> None:
        if partition.start.number != number:
            return
        key, policy = partition.key, self._parts.config.auto_offset_reset
        reason = f"offset {offset} is not in the log"
        if policy.name == "none":
            self._restart(partition, new_start(None))
            raise no_offset([key], f" ({reason})")
        self._restart(partition, new_start(None, policy=policy, reason=reason))

    def on_truncated(self, partition: AssignedPartition, end_offset: int, epoch: int) -> None:
        """A log was cut: fetched records of it are void."""
        partition.move_to(State.HALTED)
        self.truncation_count += 1
        self._parts.mailbox.hand(
            partial(
                self._go_back,
                partition,
                Place(partition.number, partition.fetch_offset, partition.fetch_epoch),
                end_offset,
                epoch,
            )
        )

    def _go_back(
        self, partition: AssignedPartition, was: Place, end_offset: int, epoch: int
    ) -> None:
        if partition.start.number != was.number:
            return
        self._parts.hand_over.settle()
        key, policy = partition.key, self._parts.config.auto_offset_reset
        place = self._parts.hand_over.place_of(partition) or was
        if end_offset >= place.offset:  # only prefetched records are void
            self._restart(partition, new_start(place.offset, place.epoch))
            self._parts.hand_over.drop_stale()
            return
        text = (
            f"the log of topic {key.topic}, partition {key.partition}, was cut: it was read up to"
            f" offset {place.offset}, and is the same up to"
            f" {end_offset if end_offset >= 0 else 'an offset that the leader does not know'}"
        )
        if policy.name == "none":
            self._restart(partition, new_start(None))
            self._parts.hand_over.drop_stale()
            error = LogTruncated(text + "; seek to continue")
            error.topic, error.partition = key
            error.offset, error.end_offset = place.offset, end_offset
            raise error
        if end_offset < 0:
            self._restart(partition, new_start(None, policy=policy, reason=text))
        else:
            _logger.warning("%s; reading continues there", text)
            self._restart(partition, new_start(end_offset, epoch))
        self._parts.hand_over.drop_stale()
