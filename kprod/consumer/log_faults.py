"""Handles two log faults that a reader must learn of: an offset out of range, a truncated log.

The I/O thread detects a fault; the polling thread handles it according to `auto_offset_reset`. An
offset out of range takes effect after the records that were fetched before it; a truncation
discards the log's fetched records at once.

Thread-safety: `on_…` on the I/O thread; other methods on the polling thread.
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
    """The log faults of one consumer.

    Attributes:
        truncation_count: Number of log truncations found.
    """

    def __init__(
        self, parts: ConsumerParts, restart: Callable[[AssignedPartition, Start, int], bool]
    ) -> None:
        """Start with no faults.

        Args:
            parts: The consumer's parts.
            restart: Sets a partition's position.
        """
        self._parts = parts
        self._restart = restart
        self.truncation_count: int = 0
        self._untold: tuple[int, LogTruncated] | None = None  # with the number of the new start

    def on_out_of_range(self, partition: AssignedPartition) -> None:
        """Handle an offset out of range: reset or raise, after the records before it."""
        offset = partition.fetch_offset
        step = partial(self._reset, partition, partition.number, offset)
        self._parts.buffer.add_step(FetchedStep(partition, partition.number, step))
        partition.move_to(State.HALTED)  # last: without a step it would be halted for ever

    def _reset(self, partition: AssignedPartition, number: int, offset: int) -> None:
        if partition.start.number != number:
            return
        key, policy = partition.key, self._parts.config.auto_offset_reset
        reason = f"offset {offset} is not in the log"
        if policy.name == "none":
            if self._restart(partition, new_start(None), number):
                raise no_offset([key], f" ({reason})")
            return
        self._restart(partition, new_start(None, policy=policy, reason=reason), number)

    def on_truncated(self, partition: AssignedPartition, end_offset: int, epoch: int) -> None:
        """Handle a truncated log: discard the records fetched from it."""
        was = Place(partition.number, partition.fetch_offset, partition.fetch_epoch)
        self._parts.mailbox.hand(partial(self._go_back, partition, was, end_offset, epoch))
        partition.move_to(State.HALTED)  # last: without a step it would be halted for ever
        self.truncation_count += 1

    def _go_back(
        self, partition: AssignedPartition, was: Place, end_offset: int, epoch: int
    ) -> None:
        if partition.start.number != was.number:
            self._parts.hand_over.drop_stale()  # an interrupted call may have omitted this
            self._raise_untold(partition)  # and this
            return
        self._parts.hand_over.settle()
        key, policy = partition.key, self._parts.config.auto_offset_reset
        place = self._parts.hand_over.place_of(partition) or was
        if end_offset >= place.offset:  # only prefetched records are discarded
            # An epoch that the log does not know would be found to diverge again and again.
            self._restart(partition, new_start(place.offset, min(place.epoch, epoch)), was.number)
            self._parts.hand_over.drop_stale()
            return
        text = (
            f"the log of topic {key.topic}, partition {key.partition}, was cut: it was read up to"
            f" offset {place.offset}, and is the same up to"
            f" {end_offset if end_offset >= 0 else 'an offset that the leader does not know'}"
        )
        if policy.name == "none":
            error = LogTruncated(text + "; seek to continue")
            error.topic, error.partition = key
            error.offset, error.end_offset = place.offset, end_offset
            start = new_start(None)
            self._untold = start.number, error
            self._restart(partition, start, was.number)
            self._parts.hand_over.drop_stale()
            self._raise_untold(partition)
            return
        if end_offset < 0:
            self._restart(partition, new_start(None, policy=policy, reason=text), was.number)
        else:
            _logger.warning("%s; reading continues there", text)
            self._restart(partition, new_start(end_offset, epoch), was.number)
        self._parts.hand_over.drop_stale()

    def _raise_untold(self, partition: AssignedPartition) -> None:
        """Raise the error of a truncation, unless the application has sought since."""
        untold = self._untold
        if untold is not None and untold[0] == partition.start.number:
            self._untold = None  # its traceback holds the application's frames
            raise untold[1]
