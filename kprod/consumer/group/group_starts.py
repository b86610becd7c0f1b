"""Starts partitions at the offsets that their group has committed.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator.initWithCommittedOffsetsIfNeeded (clients 4.3.1).
"""

from collections.abc import Callable
from typing import NamedTuple

from kprod.consumer.group.committed_offsets import CommittedOffsets, CommittedQuestion
from kprod.consumer.position import NO_EPOCH, AssignedPartition, Place, Start, State
from kprod.errors import KprodError
from kprod.model import OffsetAndMetadata


class StartListener(NamedTuple):
    """Functions for a partition whose group has responded.

    Attributes:
        placed: Called with a partition whose offset is known.
        validating: Called with one whose offset is known, and must be validated first.
        resetting: Called with one without an offset, for which a policy finds one.
        without_offset: Called with one that has neither offset nor policy, and its start.
        failed: Called with failures that are not retriable.
    """

    placed: Callable[[AssignedPartition], object]
    validating: Callable[[AssignedPartition], object]
    resetting: Callable[[AssignedPartition, Start], object]
    without_offset: Callable[[AssignedPartition, Start], object]
    failed: Callable[[AssignedPartition, KprodError], object]


class GroupStarts:
    """The starts of one consumer's partitions."""

    def __init__(self, committed: CommittedOffsets, listener: StartListener) -> None:
        """Start with none.

        Args:
            committed: Asks the coordinator.
            listener: Called with the results.
        """
        self._committed = committed
        self._listener = listener
        self._questions: dict[AssignedPartition, CommittedQuestion] = {}

    def begin(self, partition: AssignedPartition, start: Start) -> None:
        """Ask for the committed offset of a partition.

        Args:
            partition: A partition in state INITIAL.
            start: Its start.
        """
        self.cancel(partition)
        question = CommittedQuestion(
            partition.key,
            lambda found: self._take(partition, start, found),
            lambda error: self._listener.failed(partition, error),
        )
        self._questions[partition] = question
        self._committed.ask([question])

    def cancel(self, partition: AssignedPartition) -> None:
        """Ignore the response for a partition; does nothing if there is no question.

        Args:
            partition: Any partition.
        """
        question = self._questions.pop(partition, None)
        if question is not None:
            self._committed.withdraw([question])

    def _take(
        self, partition: AssignedPartition, start: Start, found: OffsetAndMetadata | None
    ) -> None:
        """Take the offset; a second call finishes what an exception has interrupted."""
        if partition.number != start.number:
            return
        if partition.state is State.INITIAL:
            self._place(partition, start, found)
        if partition.state is State.RESETTING:
            self._listener.resetting(partition, start)
        elif partition.state is State.FETCHING:
            self._listener.placed(partition)
        elif partition.state is State.VALIDATING:
            self._listener.validating(partition)
        else:
            self._listener.without_offset(partition, start)
        self._questions.pop(partition, None)

    @staticmethod
    def _place(partition: AssignedPartition, start: Start, found: OffsetAndMetadata | None) -> None:
        """Move a partition to the state that follows; it stays INITIAL without any offset."""
        if found is None:
            if start.policy.name != "none":
                partition.move_to(State.RESETTING)
            return
        partition.resolved = Place(start.number, found.offset, found.leader_epoch)
        partition.fetch_from(found.offset, found.leader_epoch)
        is_known = found.leader_epoch != NO_EPOCH
        partition.move_to(State.VALIDATING if is_known else State.FETCHING)
