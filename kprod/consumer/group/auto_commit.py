"""Commits positions at intervals: never beyond the records that the application has asked past.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator.maybeAutoCommitOffsetsAsync (clients 4.3.1); librdkafka #1122 and
#2609 for the loss when offsets of unprocessed records are committed.
"""

from collections.abc import Callable, Mapping

from kprod.config.settings_slices import GroupSettings
from kprod.consumer.assignment import Assignment
from kprod.consumer.group.commits import Commit, Commits
from kprod.consumer.group.coordinator_link import FOREVER_MS
from kprod.consumer.group.membership import Membership
from kprod.consumer.position import AssignedPartition
from kprod.errors import KprodError
from kprod.guarded_log import guarded_logger
from kprod.model import OffsetAndMetadata, TopicPartition

OnCommitted = Callable[[Mapping[TopicPartition, OffsetAndMetadata]], object]

_logger = guarded_logger(__name__)


class AutoCommit:
    """The automatic commits of one consumer."""

    def __init__(
        self,
        settings: GroupSettings,
        commits: Commits,
        membership: Membership,
        assignment: Assignment,
        *,
        on_committed: OnCommitted,
    ) -> None:
        """Start without commits.

        Args:
            settings: The group's settings.
            commits: Sends the commits.
            membership: The consumer's membership.
            assignment: The assigned partitions.
            on_committed: Called with the offsets of each commit that succeeded.
        """
        self._on_committed = on_committed
        self._settings = settings
        self._commits = commits
        self._membership = membership
        self._assignment = assignment
        self._due_ms = 0
        self._is_stopped = False
        self._committed: dict[TopicPartition, int] = {}

    def run(self, now_ms: int) -> int:
        """Commit if it is time.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next commit.
        """
        interval_ms = self._settings.auto_commit_interval_ms
        is_stopped = self._is_stopped or not self._settings.enable_auto_commit
        if is_stopped or not self._assignment.partitions:
            return FOREVER_MS
        if now_ms < self._due_ms:
            return self._due_ms - now_ms
        self._due_ms = now_ms + max(1, interval_ms)
        if self._commits.is_idle and not self._membership.is_between_generations:
            self._commit(now_ms)
        return self._due_ms - now_ms

    def stop(self) -> None:
        """Commit no more, because the consumer is being closed, which commits for the last time."""
        self._is_stopped = True

    def resume(self) -> None:
        """Commit again, because an exception has ended the close."""
        self._is_stopped = False

    def _commit(self, now_ms: int) -> None:
        owned = self._assignment.partitions
        places = places_of(owned) if self._settings.auto_offset_store else stored_of(owned)
        changed = {key: it for key, it in places.items() if self._committed.get(key) != it.offset}
        if changed:
            until_ms = now_ms + self._settings.request_timeout_ms
            self._commits.post(
                Commit(
                    changed,
                    until_ms,
                    lambda error: self._end(changed, error),
                    waits_for_topics=False,  # it would hold up the commits of other topics
                )
            )

    def _end(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KprodError | None
    ) -> None:
        if error is None:
            owned = self._assignment.partitions
            kept = {key: it for key, it in self._committed.items() if key in owned}
            self._committed = {**kept, **{key: it.offset for key, it in offsets.items()}}
            self._on_committed(offsets)
        elif not error.retriable:
            _logger.warning("an automatic commit failed: %s", error)


def places_of(
    partitions: Mapping[TopicPartition, AssignedPartition],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the positions that the application has asked past.

    Args:
        partitions: Assigned partitions.

    Returns:
        Offsets by partition; without those whose position is unknown.
    """
    found = {}
    for key, partition in partitions.items():
        place = partition.place
        if place is not None:
            found[key] = OffsetAndMetadata(place.offset, leader_epoch=place.epoch)
    return found


def stored_of(
    partitions: Mapping[TopicPartition, AssignedPartition],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets that the application has stored.

    Args:
        partitions: Assigned partitions.

    Returns:
        Offsets by partition; without those that have none, or whose newest one is committed.
    """
    return {key: each.stored for key, each in partitions.items() if each.stored is not None}
