"""Finds the start offset of a partition by its reset policy.

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
    """The resets of one consumer's partitions."""

    def __init__(
        self,
        lookup: OffsetLookup,
        clock: Clock,
        *,
        on_place: Callable[[AssignedPartition], object],
        on_error: Callable[[AssignedPartition, KprodError], object],
    ) -> None:
        """Start with no resets.

        Args:
            lookup: Queries the leaders.
            clock: The wall clock, for policies with a duration.
            on_place: Called with each partition whose offset was found.
            on_error: Called with failures that may not be retriable.
        """
        self._lookup = lookup
        self._clock = clock
        self._on_place = on_place
        self._on_error = on_error
        self._questions: dict[AssignedPartition, OffsetQuestion] = {}

    def begin(self, partition: AssignedPartition, start: Start) -> None:
        """Find the offset of a start.

        Args:
            partition: A partition in state RESETTING.
            start: A start with a policy and without an offset.
        """
        self._ask(partition, start, timestamp_of(start.policy, self._clock.timestamp_ms()))

    def cancel(self, partition: AssignedPartition) -> None:
        """Cancel a reset; does nothing if there is none.

        Args:
            partition: Any partition.
        """
        question = self._questions.pop(partition, None)
        if question is not None:
            self._lookup.withdraw(question)

    def _ask(self, partition: AssignedPartition, start: Start, timestamp: int) -> None:
        self.cancel(partition)
        question = OffsetQuestion(
            partition.key,
            timestamp,
            lambda found: self._take(partition, start, found),
            lambda error: self._on_error(partition, error),
        )
        self._questions[partition] = question
        self._lookup.ask(question)

    def _take(self, partition: AssignedPartition, start: Start, found: FoundOffset) -> None:
        """Take the offset; a second call finishes what an exception has interrupted."""
        if partition.number != start.number:
            return
        if partition.state is State.RESETTING:
            if found.offset < 0:
                self._ask(partition, start, LATEST_TIMESTAMP)  # no record is that new
                return
            self._place(partition, start, found)
        self._on_place(partition)
        self._questions.pop(partition, None)

    @staticmethod
    def _place(partition: AssignedPartition, start: Start, found: FoundOffset) -> None:
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


def timestamp_of(policy: ResetPolicy, now_ms: int) -> int:
    """Return the timestamp field of the ListOffsets request for a policy.

    Args:
        policy: Any policy except "none".
        now_ms: Wall clock, milliseconds since 1970.

    Returns:
        A timestamp, or the constant of a log end.
    """
    if policy.name == "by_duration":
        return max(0, now_ms - policy.duration_ms)
    return EARLIEST_TIMESTAMP if policy.name == "earliest" else LATEST_TIMESTAMP
