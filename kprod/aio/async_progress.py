"""The progress of the asynchronous consumer in its group: commits, and signs of life.

Thread-safety: any event loop.
Source: Kafka KafkaConsumer (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kprod.aio.async_positions import AsyncConsumerFace, engine_of_async
from kprod.consumer.commit_calls import OnCommit
from kprod.model import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kprod.record.blocks import ConsumerRecord


class AsyncProgress(AsyncConsumerFace):
    """The progress of an asynchronous consumer with `group_id`."""

    async def commit(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.commit
    ) -> None:
        """Commit offsets, and wait until the group's coordinator has them.

        Cancelled, it has committed or not: the request is not taken back.

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
            ClosedError: The consumer is not open.

        Commits take effect in the order of the calls.
        """
        await engine_of_async(self).commit(offsets, timeout)

    def commit_async(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> None:
        """Commit offsets without waiting; see `Consumer.commit_async`.

        Args:
            offsets: As for `commit`.
            callback: A plain function, called in the running loop with the offsets, and the error
                or None, by a later read or `close`, in the order of the commits. Without one,
                errors are logged.

        Raises:
            CommitFailed: A partition is not assigned to this member any more.
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is not open.
            RuntimeError: There is a callback, and no loop runs in this thread.
            TypeError: The callback is no plain function.
        """
        engine_of_async(self).commit_async(offsets, callback)

    def store_offsets(
        self, offsets: "Mapping[tuple[str, int], int | OffsetAndMetadata] | ConsumerRecord"
    ) -> None:
        """Store offsets for the next commit; see `Consumer.store_offsets`.

        Args:
            offsets: A record that is done, or the next offset to read by partition.

        Raises:
            CommitFailed: A partition is not assigned; nothing is stored.
            ConfigError: The consumer has no `group_id`, or `auto_offset_store` is True.
            ClosedError: The consumer is not open.
        """
        engine_of_async(self).consumer.store_offsets(offsets)

    async def committed(
        self,
        partitions: Iterable[tuple[str, int]],
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.committed
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets that the group has committed; see `Consumer.committed`.

        Args:
            partitions: Any partitions, assigned or not.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            Offsets by partition; None for one without.

        Raises:
            KprodTimeout: The coordinator did not answer in time.
            KprodError: It rejects the question, or the consumer is not open.
        """
        keys = list(partitions)
        own = engine_of_async(self)
        return await own.aside(lambda consumer: consumer.committed(keys, timeout))

    def progress(self) -> None:
        """Say that work on the current records continues: restarts `max_poll_interval_ms`."""
        engine_of_async(self).consumer.progress()

    def enforce_rebalance(self, reason: str = "the application wants it") -> None:
        """Make the group distribute its partitions again.

        Args:
            reason: The reason, for the brokers' logs.

        Raises:
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is not open.
        """
        engine_of_async(self).consumer.enforce_rebalance(reason)

    def group_metadata(self) -> GroupMetadata:
        """Return the member's identity for transactions; see `Consumer.group_metadata`.

        Returns:
            The group, generation, member id and instance id, as of now.

        Raises:
            ConfigError: The consumer has no `group_id`.
            ClosedError: The consumer is not open.
        """
        return engine_of_async(self).consumer.group_metadata()
