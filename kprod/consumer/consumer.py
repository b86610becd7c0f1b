"""The public consumer class: assign or subscribe, poll or iterate, close.

Positions and the queries of the cluster are in its bases. Every method delegates to the engine,
which `kprod.consumer.consumer_wiring` creates. A subclass may use any attribute name except
`_kprod`.

Thread-safety: one thread at a time reads; the other methods as documented.
Source: Kafka KafkaConsumer (clients 4.3.1).
"""

import re
import warnings
from collections.abc import Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from kprod.config import given_settings
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.consumer_wiring import ConsumerEnvironment, wired
from kprod.consumer.group_progress import GroupProgress
from kprod.consumer.log_offsets import LogOffsets
from kprod.consumer.partition_positions import PartitionPositions
from kprod.interfaces import RebalanceListener
from kprod.model import TopicPartition
from kprod.threads import current_ident

if TYPE_CHECKING:
    import pyarrow as pa

    from kprod.config.consumer_settings import ConsumerSettings
    from kprod.record.blocks import ConsumerRecord

__all__ = ["Consumer"]


class Consumer(PartitionPositions, GroupProgress, LogOffsets):
    """Reads records from Kafka.

    An I/O thread fetches ahead, within `fetch_buffer_memory`; the polling thread decodes records.

    Example:
        with Consumer("orders", bootstrap_servers="localhost:9092") as consumer:
            for record in consumer:
                print(record.partition, record.offset, record.value)

    Args:
        topics: Topics to subscribe to; without any, call `assign` or `subscribe` later.
        settings: Settings by their Kafka names, such as `{"fetch.max.bytes": 1_000_000}`.
        environment: Clock, random source and I/O, which tests and simulations replace.
        more_settings: Settings by their Python names, such as `fetch_max_bytes=1_000_000`.

    Raises:
        ConfigError: A setting is unknown, malformed or out of bounds.
        TypeError: A topic is not a string.
        ValueError: A topic name is invalid.

    Thread-safety: one thread at a time may poll, iterate or change the assignment. Any thread may
        seek, pause, resume, wake up and close.
    """

    def __init__(
        self,
        *topics: str,
        settings: Mapping[str, object] | None = None,
        environment: ConsumerEnvironment | None = None,
        **more_settings: "Unpack[ConsumerSettings]",
    ) -> None:
        if self._kprod is not None:
            raise RuntimeError("Consumer.__init__ was called twice; make another Consumer")
        if topics and isinstance(topics[0], Mapping) and settings is None:
            settings, topics = topics[0], topics[1:]
        given = given_settings("Consumer", settings, more_settings)
        del settings, more_settings  # secrets: tools may log the local variables of a traceback
        config = ConsumerConfig.parse(given)
        world = environment or ConsumerEnvironment()
        engine = wired(config, world)
        self._kprod = engine
        engine.start(self, is_threaded=world.is_threaded)
        if topics:
            try:
                engine.selection.subscribe(topics)
            except BaseException:
                engine.close(0)
                raise

    @property
    def client_id(self) -> str:
        """The client id that brokers see."""
        return engine_of(self).client_id

    # Assignment.

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, and no others.

        Partitions that remain assigned keep their positions. New ones start where
        `auto_offset_reset` says, or at the offset of a `seek` before their first record.

        Args:
            partitions: `TopicPartition` objects or equal tuples.

        Raises:
            TypeError, ValueError: An argument is not a partition, or has an invalid name or number.
            ConcurrentPoll: Another thread is reading.
            ClosedError: The consumer is closed, or was created in the parent process.
        """
        engine_of(self).selection.assign(partitions)

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        listener: RebalanceListener | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
    ) -> None:
        """Read these topics: with `group_id` the group's share of them, else every partition.

        Partitions that are added to a topic later are read from their beginning, since all their
        records are newer than the subscription; with `auto_offset_reset` "none" they need a `seek`.

        Args:
            topics: One topic name, or several.
            listener: Told by `poll` which partitions come and go; only with `group_id`.
            pattern: Instead of topics: read all topics whose names this regular expression matches
                at the beginning (`$` at its end: as a whole), without internal ones. The cluster's
                topics are compared every `metadata_max_age_ms`: new ones are read from their
                beginning, and deleted ones no more.

        Raises:
            TypeError: A topic is not a string, or the pattern is not one for strings.
            ValueError: No topic is given, or a name or the pattern is invalid.
            ConcurrentPoll, ClosedError: As for `assign`.
        """
        engine_of(self).selection.subscribe(topics, listener, pattern)

    def unsubscribe(self) -> None:
        """Stop reading, until `assign` or `subscribe` is called."""
        engine_of(self).selection.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions; any thread."""
        return set(engine_of(self).parts.assignment.partitions)

    def subscription(self) -> set[str]:
        """Return the subscribed topics, of a pattern those that match; any thread."""
        assignment = engine_of(self).parts.assignment
        return {*assignment.topics, *(assignment.shared or ())}

    # Records.

    def poll(
        self, timeout: float | None = None, max_records: int | None = None
    ) -> "list[ConsumerRecord]":
        """Return fetched records, as soon as there are any.

        Each call marks the records of the previous call as consumed: positions advance beyond them.

        Args:
            timeout: Seconds to wait for the first record; 0 does not wait, None waits without
                limit.
            max_records: Maximum number of records; None for `max_poll_records`.

        Returns:
            The records, ascending for each partition; empty if none arrived in time.

        Raises:
            CorruptRecord: The next batch of a partition cannot be read; `seek` beyond it to
                continue.
            DeserializationFailed: A deserializer raised; `skip` the record to continue.
            NoOffset: A partition has no position, and `auto_offset_reset` is none.
            LogTruncated: Records that were read no longer exist, and `auto_offset_reset` is none.
            UnknownTopic: A topic does not exist; raised again by a poll that returns nothing.
            BrokerError: A broker rejects a request for good; raised again as `UnknownTopic` is.
            WakeupError: `wakeup` was called.
            ConcurrentPoll: Another thread is reading, or the method is called during a poll.
            ClosedError: The consumer is closed, or was closed during the call.
            ValueError: An argument is out of bounds.

        No error loses a record: the next poll continues at the positions.
        """
        engine = engine_of(self)
        call, until_ms = engine.reading.poll_terms(timeout, max_records)
        return engine.read(call, until_ms)

    def poll_arrow(
        self,
        timeout: float | None = None,
        max_rows: int = 100_000,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        leader_epoch: bool = False,
        timestamp_type: bool = False,
    ) -> "pa.RecordBatch":
        """Return fetched records as columns; otherwise like `poll`.

        The columns `topic`, `partition`, `offset`, `timestamp`, `key`, `value` and `headers` have
        the names of Spark's Kafka source. Deserializers and interceptors are not called.

        Args:
            timeout: Seconds to wait for the first record; 0 does not wait, None waits without
                limit.
            max_rows: Maximum number of rows.
            max_bytes: No further row is added once keys, values and headers have this many bytes.
            leader_epoch: Whether to add a column with the leader epoch.
            timestamp_type: Whether to add a column with the timestamp type.

        Returns:
            A record batch of Arrow; without rows if no record arrived in time.

        Raises:
            ImportError: pyarrow is not installed; the text says how to install it.
            KprodError: As for `poll`.
            ValueError: An argument is out of bounds.
        """
        from kprod.consumer.arrow import arrow_call  # noqa: PLC0415 - an extra, if it is asked for

        engine = engine_of(self)
        call = arrow_call(
            engine,
            max_rows=max_rows,
            max_bytes=max_bytes,
            leader_epoch=leader_epoch,
            timestamp_type=timestamp_type,
        )
        engine.parts.reader = current_ident()
        return engine.read(call, engine.parts.until_ms(timeout))

    def __iter__(self) -> "Generator[ConsumerRecord]":
        """Iterate over records as they arrive.

        Asking for the next record marks the previous one as consumed. Leaving the loop loses
        nothing: another loop, or `poll`, continues after the last record.

        Yields:
            Records, without end; with `consumer_timeout_ms`, iteration ends after that time without
            a record. Errors are raised as by `poll`.
        """
        engine = engine_of(self)
        engine.parts.reader = current_ident()
        while (chunk := engine.reading.next_chunk()) is not None:
            yield from engine.parts.hand_over.records_of(chunk)

    def skip(self, record: Any) -> None:  # noqa: ANN401 - a record of any class
        """Continue after a record that a deserializer failed on.

        Args:
            record: `error.record` of a `DeserializationFailed`.

        Raises:
            KprodError: The partition is not assigned, or the consumer is closed or being read.
        """
        engine_of(self).reading.skip(record)

    def wakeup(self) -> None:
        """Make the current `poll`, or else the next one, raise `WakeupError`; any thread."""
        engine_of(self).reading.wakeup()

    # Metrics and shutdown.

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the consumer's metrics, under the names of Kafka's consumer.

        Returns:
            Values by group and name; an average without samples is NaN.

        Thread-safety: any thread, also after `close`.
        """
        return engine_of(self).metrics()

    def close(self, timeout: float | None = None, *, leave: bool | None = None) -> None:
        """Stop the I/O thread and close all connections; a `poll` in progress raises `ClosedError`.

        A member of a group commits first, and leaves the group, unless it is a static one. If
        another thread has polled last, the records of its last poll count as not done.

        Args:
            timeout: Seconds to wait for the end; None for no limit. The shutdown itself continues.
                If a listener takes longer, leaving the group may take a quarter of a second more.
            leave: Whether to leave the group, so that others get the partitions at once; False
                keeps them for `session_timeout_ms`. None: all but static members leave (KIP-1092).

        Raises:
            TypeError: `leave` is something else.
            ValueError: The timeout is negative or not a number.

        Thread-safety: any thread. Idempotent.
        """
        engine_of(self).close(timeout, leave=leave)

    def __repr__(self) -> str:
        name = type(self).__name__
        engine = self._kprod
        if engine is None:
            return f"<{name}, not made: its __init__ has not run to the end>"
        return engine.described_as(name)

    def __del__(self) -> None:
        engine = self._kprod
        if engine is not None and engine.state == "open":
            # Otherwise its thread would continue to fetch records that nobody can read.
            engine.end_soon()
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Consumer cannot be pickled or copied, since it owns a thread and connections; pass"
            " its settings on, and make a Consumer where it is used"
        )

    def __enter__(self) -> Self:
        engine_of(self).parts.check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        engine_of(self).is_failing = kind is not None
        self.close()
