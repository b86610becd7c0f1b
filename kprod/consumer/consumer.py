"""The consumer as an application sees it: assign or subscribe, poll or iterate, seek, close.

Everything is asked of the engine, which `kprod.consumer.consumer_wiring` makes. A subclass may use
any name but `_kprod` for its own purposes.

Thread-safety: one thread at a time reads; the rest any thread, as each method says.
Source: Kafka KafkaConsumer (clients 4.3.1).
"""

import warnings
from collections.abc import Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from kprod.config import given_settings
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.assignment import as_partition, as_partitions
from kprod.consumer.consumer_engine import ConsumerEngine
from kprod.consumer.consumer_wiring import ConsumerEnvironment, wired
from kprod.consumer.offset_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kprod.consumer.selection import EARLIEST, LATEST
from kprod.model import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kprod.config.consumer_settings import ConsumerSettings

__all__ = ["Consumer"]

_OWN_NAME = "_kprod"  # the only private name of the class
_TIME_MAX_MS = 2**63 - 1


class Consumer:  # noqa: PLR0904 - what applications of Kafka expect of one
    """Reads records from Kafka, as they come.

    A thread of its own fetches ahead, within `fetch_buffer_memory`; records are decoded where they
    are used, in the thread that polls or iterates.

    Example:
        with Consumer("orders", bootstrap_servers="localhost:9092") as consumer:
            for record in consumer:
                print(record.partition, record.offset, record.value)

    Args:
        topics: Topics to read as a whole, as `subscribe` does; none leaves it to `assign`.
        settings: Settings by their Kafka names, such as `{"fetch.max.bytes": 1_000_000}`.
        environment: For tests and simulations.
        more_settings: Settings by their Python names, such as `fetch_max_bytes=1_000_000`.

    Raises:
        ConfigError: A setting is unknown, malformed or out of bounds.
        TypeError: A topic is no text.
        ValueError: No topic can have such a name.

    Thread-safety: one thread at a time may poll, iterate or change the assignment; any thread may
    seek, pause, resume, wake up and close.
    """

    _kprod: ConsumerEngine | None = None

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
        config = ConsumerConfig.parse(given_settings("Consumer", settings, more_settings))
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
        """The name that brokers see."""
        return engine_of(self).client_id

    # What to read.

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, and no others.

        Partitions that were assigned before keep their positions; new ones begin where
        `auto_offset_reset` says, or where `seek` does before the first record of theirs came.

        Args:
            partitions: Of type `TopicPartition`, or tuples like them.

        Raises:
            TypeError, ValueError: Not partitions, or a name or number that none can have.
            ConcurrentPoll: Somebody reads.
            ClosedError: The consumer is closed, or was made in a parent process.
        """
        engine_of(self).selection.assign(partitions)

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read every partition of these topics, and no others.

        Partitions that are added to a topic later are read from their beginning, since none of
        their records can be older than the subscription; unless `auto_offset_reset` is none.

        Args:
            topics: One name or several.

        Raises:
            TypeError: A topic is no text.
            ValueError: No topics, or no topic can have such a name.
            ConcurrentPoll, ClosedError: As `assign`.
        """
        engine_of(self).selection.subscribe(topics)

    def unsubscribe(self) -> None:
        """Read nothing more, until `assign` or `subscribe` says what."""
        engine_of(self).selection.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read now; any thread."""
        return set(engine_of(self).parts.assignment.partitions)

    def subscription(self) -> set[str]:
        """Return the topics that are read as a whole; any thread."""
        return set(engine_of(self).parts.assignment.topics)

    # Records.

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Any]:
        """Return records that have come, as soon as there are any.

        Asking again says that those before are done: the positions move behind them then.

        Args:
            timeout: Seconds to wait for the first one; 0 does not wait, None waits for ever.
            max_records: At most so many; None for `max_poll_records`.

        Returns:
            Of each partition in ascending order of offsets; empty when none came in time.

        Raises:
            CorruptRecord: The next batch of a partition cannot be read; `seek` behind it.
            DeserializationFailed: A deserializer raised; `skip` the record to continue.
            NoOffset: A partition has no position, and `auto_offset_reset` is none.
            LogTruncated: Records that were read are gone, and `auto_offset_reset` is none.
            UnknownTopic: A topic does not exist; raised again only by a poll that finds nothing.
            BrokerError: A broker refuses, for a reason that waiting cannot change; likewise.
            WakeupError: `wakeup` was called.
            ConcurrentPoll: Another thread reads, or this is called from within a poll.
            ClosedError: The consumer is closed, or was closed meanwhile.
            ValueError: An argument is out of bounds.

        None of these loses a record: the next poll continues where the positions are.
        """
        engine = engine_of(self)
        records = engine.reading.poll(timeout, max_records)
        engine.parts.hand_over.complete(len(records))
        return records

    def poll_arrow(
        self,
        timeout: float | None = None,
        max_rows: int = 100_000,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        leader_epoch: bool = False,
        timestamp_type: bool = False,
    ) -> "pa.RecordBatch":
        """Return records that have come as columns, as `poll` returns them as a list.

        Columns: `topic`, `partition`, `offset`, `timestamp`, `key`, `value`, `headers`, as Spark's
        Kafka source names them. Deserializers and interceptors are not called.

        Args:
            timeout: Seconds to wait for the first record; 0 does not wait, None waits for ever.
            max_rows: At most so many.
            max_bytes: No row is begun behind so many bytes of keys, values and headers.
            leader_epoch: Whether to add this column.
            timestamp_type: Likewise.

        Returns:
            A batch, without rows when none came in time.

        Raises:
            ImportError: pyarrow is missing; the text has the remedy.
            KprodError: As `poll`.
            ValueError: An argument is out of bounds.
        """
        from kprod.consumer.arrow import poll_arrow  # noqa: PLC0415 - an extra, if it is asked for

        return poll_arrow(
            engine_of(self),
            timeout,
            max_rows=max_rows,
            max_bytes=max_bytes,
            leader_epoch=leader_epoch,
            timestamp_type=timestamp_type,
        )

    def __iter__(self) -> Generator[Any]:
        """Return an iterator over records as they come.

        Asking for the next one says that this one is done. Leaving the loop loses nothing: another
        loop, or `poll`, continues behind the last record.

        Yields:
            Records, without end; with `consumer_timeout_ms` until nothing has come for so long.
            Errors are raised as by `poll`.
        """
        engine = engine_of(self)
        while (chunk := engine.reading.next_chunk()) is not None:
            yield from engine.parts.hand_over.records_of(chunk)

    def skip(self, record: Any) -> None:  # noqa: ANN401 - a record of any class
        """Continue behind a record that a deserializer failed on.

        Args:
            record: `error.record` of a `DeserializationFailed`.

        Raises:
            KprodError: Its partition is not assigned, or the consumer is closed or being read.
        """
        engine_of(self).reading.skip(record)

    def wakeup(self) -> None:
        """End the present `poll`, or else the next one, with `WakeupError`; any thread."""
        engine_of(self).reading.wakeup()

    # Where to read.

    def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record to be handed out.

        Args:
            partition: Assigned.
            timeout: Seconds to wait while it is not known; None for `default_api_timeout_ms`.

        Returns:
            An offset; between two records of a loop, the one behind the record in hand.

        Raises:
            NoOffset: It has none, and `auto_offset_reset` is none.
            KprodTimeout: It was not known in time.
            KprodError: It is not assigned, or the consumer is closed.

        Thread-safety: any thread.
        """
        return engine_of(self).selection.position(partition, timeout)

    def seek(
        self, partition: tuple[str, int], offset: int, leader_epoch: int | None = None
    ) -> None:
        """Read a partition from an offset; takes effect before the next record is handed out.

        Args:
            partition: Assigned.
            offset: Of the next record to be handed out; if it is not in the log,
                `auto_offset_reset` decides.
            leader_epoch: Of the record before it, if it is known: then it is found out whether the
                log still has that record.

        Raises:
            KprodError: It is not assigned, or the consumer is closed.
            ValueError: The offset or the epoch is out of bounds.

        Thread-safety: any thread.
        """
        engine_of(self).selection.seek(partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Read from the first record of the log; any thread.

        Args:
            *partitions: Assigned; none for all that are.
        """
        engine_of(self).selection.seek_by(partitions, EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Read only records that are appended from now on; any thread.

        Args:
            *partitions: Assigned; none for all that are.
        """
        engine_of(self).selection.seek_by(partitions, LATEST)

    def offsets_for_times(
        self, timestamps_ms: Mapping[tuple[str, int], int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first records of a time.

        Args:
            timestamps_ms: Milliseconds since 1970, at least 0, by partition; they need not be
                assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            By partition, the first record stamped then or later; None where there is none.

        Raises:
            KprodTimeout: Not all leaders answered in time; the text says why.
            KprodError: A broker refuses for a reason that waiting cannot change.
            ValueError: A time is negative.
            ClosedError: The consumer is closed.

        Thread-safety: any thread.
        """
        wanted: dict[TopicPartition, int] = {}
        for partition, timestamp_ms in timestamps_ms.items():
            if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms <= _TIME_MAX_MS:
                raise ValueError(f"a time is milliseconds since 1970, not {timestamp_ms!r:.40}")
            wanted[as_partition(partition)] = timestamp_ms
        found = engine_of(self).questions.look_up(wanted, timeout)
        return {
            key: OffsetAndTimestamp(*found[key]) if found[key].offset >= 0 else None
            for key in wanted
        }

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the first offsets of logs; as `offsets_for_times`.

        Args:
            partitions: They need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            By partition, where its log begins.
        """
        return _ends(engine_of(self), partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Find the offsets behind the last records that may be read; as `offsets_for_times`.

        Args:
            partitions: They need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            By partition, the high watermark; with `read_committed` the last stable offset.
        """
        return _ends(engine_of(self), partitions, LATEST_TIMESTAMP, timeout)

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets there are behind the position, as of the newest response.

        Args:
            partition: Assigned.

        Returns:
            At least 0; None before the first response. Offsets without a record count, such as
            those that compaction has emptied.

        Thread-safety: any thread.
        """
        return engine_of(self).selection.lag(partition)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out nothing of these partitions until `resume`; fetched records are kept.

        Args:
            *partitions: Assigned.

        Thread-safety: any thread.
        """
        engine_of(self).selection.pause(partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Hand out records of these partitions again; others are not changed.

        Args:
            *partitions: Assigned.

        Thread-safety: any thread.
        """
        engine_of(self).selection.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused; any thread."""
        partitions = engine_of(self).parts.assignment.partitions
        return {key for key, each in partitions.items() if each.paused}

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Find the partitions of a topic.

        Args:
            topic: Its name.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            All, ascending.

        Raises:
            UnknownTopic: The cluster does not know it.
            KprodTimeout: No broker answered in time.

        Thread-safety: any thread.
        """
        return engine_of(self).questions.partitions_for(topic, timeout)

    # Its life.

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return what the consumer has counted, under the names of Kafka's own consumer.

        Returns:
            Values by name, by group; an average of nothing is NaN.

        Thread-safety: any thread, after `close`, too.
        """
        return engine_of(self).metrics()

    def close(self, timeout: float | None = None) -> None:
        """End the thread and all connections; a `poll` in progress raises `ClosedError`.

        Args:
            timeout: Seconds to wait for the end, which takes milliseconds as a rule; None waits
                until it has come. The end itself does not depend on it.

        Raises:
            ValueError: The timeout is negative or no number.

        Thread-safety: any thread. Again does nothing.
        """
        engine_of(self).close(timeout)

    def __repr__(self) -> str:
        name = type(self).__name__
        engine = self._kprod
        if engine is None:
            return f"<{name}, not made: its __init__ has not run to the end>"
        return engine.described_as(name)

    def __del__(self) -> None:
        engine = self._kprod
        if engine is not None and engine.state == "open":
            # Its thread would fetch for ever; nobody can read what it fetches.
            engine.close_soon()
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
        self.close()


def engine_of(consumer: Consumer) -> ConsumerEngine:
    """Return the engine of a consumer.

    Args:
        consumer: Of this class or a subclass.

    Returns:
        Its engine.

    Raises:
        RuntimeError: Its `__init__` has not run, in a subclass that does not call it.
    """
    engine = consumer._kprod  # noqa: SLF001 - the one way behind the face
    if engine is None:
        raise RuntimeError(
            f"{type(consumer).__name__} was not made: its __init__ must call Consumer.__init__"
        )
    return engine


def _ends(
    engine: ConsumerEngine,
    partitions: Iterable[tuple[str, int]],
    timestamp: int,
    timeout: float | None,
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(as_partitions(partitions), timestamp)
    found = engine.questions.look_up(wanted, timeout)
    return {key: found[key].offset for key in wanted}
