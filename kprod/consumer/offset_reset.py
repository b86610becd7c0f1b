"""Finds the offset of a partition that has none, by its reset policy.

Thread-safety: the I/O thread.
Source: Kafka OffsetFetcher.resetPositionsIfNeeded (clients 4.3.1); KIP-1106.
"""

from collections.abc import Callable

from kprod.clock import Clock
from kprod.config.consumer_kinds import ResetPolicy
from kprod.consumer.offset_lookup import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FoundOffset,
    OffsetLookup,
    OffsetQuestion,
)
from kprod.consumer.position import AssignedPartition, Place, Start, State
from kprod.errors import KprodError
from kprod.guarded_log import guarded_logger

_logger = guarded_logger(__name__)


class OffsetReset:
    """Resets the partitions of one consumer."""

    def __init__(
        self,
        lookup: OffsetLookup,
        clock: Clock,
        *,
        on_place: Callable[[AssignedPartition], object],
        on_error: Callable[[AssignedPartition, KprodError], object],
    ) -> None:
        """Start with nothing to reset.

        Args:
            lookup: Asks the leaders.
            clock: Tells what time a duration before now is.
            on_place: Told of each partition whose offset is found.
            on_error: Told of failures that time may not mend.
        """
        self._lookup = lookup
        self._clock = clock
        self._on_place = on_place
        self._on_error = on_error
        self._questions: dict[AssignedPartition, OffsetQuestion] = {}

    def begin(self, partition: AssignedPartition, start: Start) -> None:
        """Find the offset of a start.

        Args:
            partition: In state RESETTING.
            start: Without an offset, and with a policy.
        """
        self._ask(partition, start, timestamp_of(start.policy, self._clock.timestamp_ms()))

    def cancel(self, partition: AssignedPartition) -> None:
        """Stop looking; nothing happens if nobody looks.

        Args:
            partition: Any.
        """
        question = self._questions.pop(partition, None)
        if question is not None:
            self._lookup.withdraw(question)

    def _ask(self, partition: AssignedPartition, start: Start, timestamp: int) -> None:
        self.cancel(partition)
        question = OffsetQuestion(
            partition.key,
            timestamp,
            lambda found: self._take(partition, start, timestamp, found),
            lambda error: self._on_error(partition, error),
        )
        self._questions[partition] = question
        self._lookup.ask(question)

    def _take(
        self, partition: AssignedPartition, start: Start, timestamp: int, found: FoundOffset
    ) -> None:
        self._questions.pop(partition, None)
        if partition.number != start.number:
            return
        if found.offset < 0:
            if timestamp == LATEST_TIMESTAMP:
                error = KprodError(f"the leader of {partition.key} knows no end of its log")
                self._on_error(partition, error)
            self._ask(partition, start, LATEST_TIMESTAMP)  # no record is so young
            return
        partition.resolved = Place(start.number, found.offset, found.leader_epoch)
        partition.fetch_from(found.offset, found.leader_epoch)
        if start.reason:
            _logger.warning(
                "topic %s, partition %d: %s; reading continues at offset %d (auto_offset_reset=%s)",
                partition.key.topic,
                partition.key.partition,
                start.reason,
                found.offset,
                start.policy,
            )
        partition.move_to(State.FETCHING)
        self._on_place(partition)


def timestamp_of(policy: ResetPolicy, now_ms: int) -> int:
    """Return what ListOffsets is asked for.

    Args:
        policy: Not "none".
        now_ms: Wall clock, milliseconds since 1970.

    Returns:
        A time, or the constant of an end of the log.
    """
    if policy.name == "by_duration":
        return max(0, now_ms - policy.duration_ms)
    return EARLIEST_TIMESTAMP if policy.name == "earliest" else LATEST_TIMESTAMP
