"""Assignment, positions and queries of the asynchronous consumer.

Methods that only change or read a value of the consumer are plain; those that may wait for a broker
are coroutines, and run in a thread of their own then.

Thread-safety: any thread; methods that change the assignment are for the reading task only.
Source: Kafka KafkaConsumer (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kprod.interfaces import AsyncRebalanceListener
from kprod.model import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import re

    from kprod.aio.async_consumer_engine import AsyncConsumerEngine


class AsyncConsumerFace:
    """A public object of an asynchronous consumer's engine."""

    _kprod: "AsyncConsumerEngine | None" = None


def engine_of_async(consumer: AsyncConsumerFace) -> "AsyncConsumerEngine":
    """Return the engine of an asynchronous consumer.

    Args:
        consumer: An `AsyncConsumer` or an instance of a subclass.

    Returns:
        Its engine.

    Raises:
        RuntimeError: `AsyncConsumer.__init__` has not run, since a subclass does not call it.
    """
    engine = consumer._kprod  # noqa: SLF001 - the one access
    if engine is None:
        raise RuntimeError(
            f"{type(consumer).__name__} was not made: its __init__ must call AsyncConsumer.__init__"
        )
    return engine


class AsyncPositions(AsyncConsumerFace):
    """The partitions of an asynchronous consumer, and their positions."""

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, and no others; see `Consumer.assign`.

        Args:
            partitions: `TopicPartition` objects or equal tuples.

        Raises:
            TypeError, ValueError: An argument is not a partition, or has an invalid name or number.
            ConcurrentPoll: Another thread is reading.
            KprodError: The consumer is a member of its group, or is not open.
        """
        engine_of_async(self).assign(partitions)

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        listener: AsyncRebalanceListener | None = None,
        *,
        pattern: "str | re.Pattern[str] | None" = None,
    ) -> None:
        """Read these topics: with `group_id` the group's share of them; see `Consumer.subscribe`.

        Args:
            topics: One topic name, or several.
            listener: Told by reads which partitions come and go; only with `group_id`. Its methods
                run in the loop, and may be coroutine functions.
            pattern: Read the topics whose names match this instead, as `Consumer.subscribe` does.

        Raises:
            TypeError: A topic is not a string.
            ValueError: No topic is given, or a name or the pattern is invalid.
            ConcurrentPoll, ClosedError: As for `assign`.
        """
        engine_of_async(self).subscribe(self, topics, listener, pattern)

    async def unsubscribe(self) -> None:
        """Stop reading, and leave the group, until `assign` or `subscribe` is called."""
        await engine_of_async(self).unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions; any thread."""
        return engine_of_async(self).consumer.assignment()

    def subscription(self) -> set[str]:
        """Return the subscribed topics; any thread."""
        return engine_of_async(self).consumer.subscription()

    def seek(
        self, partition: tuple[str, int], offset: int, leader_epoch: int | None = None
    ) -> None:
        """Set a partition's position; takes effect before the next record is returned.

        Args:
            partition: An assigned partition.
            offset: Offset of the next record; if it is not in the log, `auto_offset_reset` applies.
            leader_epoch: Leader epoch of the record before it, if known, to detect a truncation.

        Raises:
            KprodError: The partition is not assigned, or the consumer is not open.
            ValueError: The offset or the epoch is out of bounds.

        Thread-safety: any thread.
        """
        engine_of_async(self).consumer.seek(partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Set positions to the logs' start offsets; any thread.

        Args:
            *partitions: Assigned partitions; all if none is given.
        """
        engine_of_async(self).consumer.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Set positions to the logs' end offsets, to read only new records; any thread.

        Args:
            *partitions: Assigned partitions; all if none is given.
        """
        engine_of_async(self).consumer.seek_to_end(*partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until `resume`; fetched records are kept.

        Args:
            *partitions: Assigned partitions.

        Thread-safety: any thread.
        """
        engine_of_async(self).consumer.pause(*partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again; other partitions are not affected.

        Args:
            *partitions: Assigned partitions.

        Thread-safety: any thread.
        """
        engine_of_async(self).consumer.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions; any thread."""
        return engine_of_async(self).consumer.paused()

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return the number of offsets between position and log end, as of the newest response.

        Args:
            partition: An assigned partition.

        Returns:
            At least 0; None before the first response.

        Thread-safety: any thread.
        """
        return engine_of_async(self).consumer.lag(partition)

    def skip(self, record: Any) -> None:  # noqa: ANN401 - a record of any class
        """Continue after a record that a deserializer failed on.

        Args:
            record: `error.record` of a `DeserializationFailed`.

        Raises:
            KprodError: The partition is not assigned, or the consumer is not open or being read.
        """
        engine_of_async(self).consumer.skip(record)

    async def position(
        self,
        partition: tuple[str, int],
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.position
    ) -> int:
        """Return the offset of the next record to be returned.

        Args:
            partition: An assigned partition.
            timeout: Seconds to wait while the position is unknown; None for
                `default_api_timeout_ms`.

        Returns:
            The offset; inside an iteration, the one after the current record.

        Raises:
            NoOffset: The partition has no position, and `auto_offset_reset` is none.
            KprodTimeout: The position was still unknown when the time was over.
            KprodError: The partition is not assigned, or the consumer is not open.
        """
        own = engine_of_async(self)
        engine = own.engine
        if engine.parts.hand_over.place_of(engine.selection.partition(partition)) is not None:
            return own.consumer.position(partition, timeout)
        return await own.aside(lambda consumer: consumer.position(partition, timeout))

    async def offsets_for_times(
        self,
        timestamps_ms: Mapping[tuple[str, int], int],
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.offsets_for_times
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record at or after a time; see `Consumer.offsets_for_times`.

        Args:
            timestamps_ms: Milliseconds since 1970, by partition, which need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            By partition, the first record with that or a later timestamp; None if there is none.

        Raises:
            KprodTimeout: Not all leaders responded in time; the text says why.
            KprodError: A broker rejects the query, or the consumer is not open.
            ValueError: A time is negative.
        """
        own = engine_of_async(self)
        return await own.aside(lambda consumer: consumer.offsets_for_times(timestamps_ms, timeout))

    async def beginning_offsets(
        self,
        partitions: Iterable[tuple[str, int]],
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.beginning_offsets
    ) -> dict[TopicPartition, int]:
        """Return the start offsets of logs; otherwise like `offsets_for_times`.

        Args:
            partitions: Partitions, which need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            The log start offset of each partition.
        """
        keys = list(partitions)
        own = engine_of_async(self)
        return await own.aside(lambda consumer: consumer.beginning_offsets(keys, timeout))

    async def end_offsets(
        self,
        partitions: Iterable[tuple[str, int]],
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.end_offsets
    ) -> dict[TopicPartition, int]:
        """Return the offsets after the last readable records; otherwise like `offsets_for_times`.

        Args:
            partitions: Partitions, which need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            The high watermark of each partition; with `read_committed` the last stable offset.
        """
        keys = list(partitions)
        own = engine_of_async(self)
        return await own.aside(lambda consumer: consumer.end_offsets(keys, timeout))

    async def partitions_for(
        self,
        topic: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.partitions_for
    ) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Args:
            topic: The topic's name.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            All partitions, ascending.

        Raises:
            UnknownTopic: The topic does not exist.
            KprodTimeout: No broker responded in time.
        """
        own = engine_of_async(self)
        return await own.aside(lambda consumer: consumer.partitions_for(topic, timeout))
