"""The progress of the public consumer class in its group: commits, and signs of life.

Thread-safety: any thread.
Source: Kafka KafkaConsumer (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kprod.consumer.commit_calls import OnCommit
from kprod.consumer.consumer_face import ConsumerFace, engine_of
from kprod.errors import ConfigError
from kprod.model import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kprod.record.blocks import ConsumerRecord


class GroupProgress(ConsumerFace):
    """The progress of a consumer with `group_id`.

    Thread-safety: any thread.
    """

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets, and wait until the group's coordinator has them.

        Args:
            offsets: The next offset to read by partition, as a number or `OffsetAndMetadata`; None
                for the positions, which are after the records of the last `poll`, and after the
                current record of an iteration; with `auto_offset_store` False for stored offsets.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Raises:
            CommitFailed: The partitions are another member's.
            CommitRetriable: The group rebalances; `poll`, then commit again.
            KprodTimeout: The coordinator has not confirmed in time.
            BrokerError: The coordinator rejects the offsets.
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is closed.

        Thread-safety: any thread. Commits take effect in the order of the calls.
        """
        engine_of(self).committing.commit(offsets, timeout)

    def store_offsets(
        self, offsets: "Mapping[tuple[str, int], int | OffsetAndMetadata] | ConsumerRecord"
    ) -> None:
        """Store offsets for the next commit; needs `auto_offset_store` False.

        Automatic commits, and commits without offsets, then take stored offsets, and nothing else.
        Offsets of partitions that are given up are committed in the rebalance, if
        `enable_auto_commit` is True, and forgotten.

        Args:
            offsets: A record that is done, or the next offset to read by partition. Replaces what
                was stored for the partition.

        Raises:
            CommitFailed: A partition is not assigned; nothing is stored.
            TypeError, ValueError: An argument is no record or offset, or out of bounds.
            ConfigError: The consumer has no `group_id`, or `auto_offset_store` is True.
            ClosedError: The consumer is closed.

        Thread-safety: any thread.
        """
        engine_of(self).committing.store(offsets)

    def commit_async(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """Commit offsets without waiting.

        Args:
            offsets: As for `commit`.
            callback: Called with the offsets, and the error or None, by a later `poll`, `commit` or
                `close`; callbacks are called in the order of the commits. Commits without a result
                at the end of `close` get `ClosedError`. Without a callback, errors are logged.

        Raises:
            CommitFailed: A partition is not assigned to this member any more.
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is closed.

        Thread-safety: any thread.
        """
        engine_of(self).committing.commit_async(offsets, callback)

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets that the group has committed.

        Args:
            partitions: Any partitions, assigned or not.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            Offsets by partition; None for one without.

        Raises:
            KprodTimeout: The coordinator did not answer in time.
            BrokerError: It rejects the question.
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is closed.

        Thread-safety: any thread.
        """
        return engine_of(self).committing.committed(partitions, timeout)

    def progress(self) -> None:
        """Say that work on the current records continues: restarts `max_poll_interval_ms`.

        Thread-safety: any thread.
        """
        parts = engine_of(self).parts
        parts.check_open()
        parts.activity.count += 1

    def enforce_rebalance(self, reason: str = "the application wants it") -> None:
        """Make the group distribute its partitions again.

        Args:
            reason: The reason, for the brokers' logs.

        Raises:
            TypeError: The reason is no text.
            ValueError: It is no text in Unicode.
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is closed.

        Thread-safety: any thread.
        """
        parts = engine_of(self).parts
        parts.check_open()
        if not isinstance(reason, str):
            raise TypeError(f"a reason is a text, not {type(reason).__name__}")
        reason.encode()  # raises ValueError for surrogates
        if parts.group is None:
            raise ConfigError("group_id is not set: there is no group to rebalance")
        membership = parts.group.membership
        parts.mailbox.post(lambda: membership.rejoin(reason))

    def group_metadata(self) -> GroupMetadata:
        """Return what identifies this member in a transaction that commits its offsets (KIP-447).

        Returns:
            The group, generation, member id and instance id, as of now.

        Raises:
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is closed.

        Thread-safety: any thread.
        """
        parts = engine_of(self).parts
        parts.check_open()
        if parts.group is None:
            raise ConfigError("group_id is not set: the consumer is a member of no group")
        identity = parts.group.membership.identity
        config = parts.config
        return GroupMetadata(
            config.group_id,
            identity.generation,
            identity.member_id,
            config.group_instance_id or None,
        )
