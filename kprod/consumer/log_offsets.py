"""The queries of the public consumer class: offsets by time, log ends, partitions of a topic.

Thread-safety: any thread.
Source: Kafka KafkaConsumer (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping

from kprod.consumer.assignment import as_partition, as_partitions
from kprod.consumer.consumer_engine import ConsumerEngine
from kprod.consumer.consumer_face import ConsumerFace, engine_of
from kprod.consumer.offset_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kprod.model import OffsetAndTimestamp, TopicPartition

_TIME_MAX_MS = 2**63 - 1


class LogOffsets(ConsumerFace):
    """The offsets of logs, which need not be assigned, as brokers report them.

    Thread-safety: any thread.
    """

    def offsets_for_times(
        self, timestamps_ms: Mapping[tuple[str, int], int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record at or after a time, for each partition.

        Args:
            timestamps_ms: Milliseconds since 1970, by partition, which need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            By partition, the first record with that or a later timestamp; None if there is none.

        Raises:
            KprodTimeout: Not all leaders responded in time; the text says why.
            KprodError: A broker rejects the query with an error that is not retriable.
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
        """Return the start offsets of logs; otherwise like `offsets_for_times`.

        Args:
            partitions: Partitions, which need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            The log start offset of each partition.
        """
        return _ends(engine_of(self), partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets after the last readable records; otherwise like `offsets_for_times`.

        Args:
            partitions: Partitions, which need not be assigned.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            The high watermark of each partition; with `read_committed` the last stable offset.
        """
        return _ends(engine_of(self), partitions, LATEST_TIMESTAMP, timeout)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Args:
            topic: The topic's name.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            All partitions, ascending.

        Raises:
            UnknownTopic: The topic does not exist.
            KprodTimeout: No broker responded in time.

        Thread-safety: any thread.
        """
        return engine_of(self).questions.partitions_for(topic, timeout)


def _ends(
    engine: ConsumerEngine, partitions: Iterable[tuple[str, int]], at: int, timeout: float | None
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(as_partitions(partitions), at)
    found = engine.questions.look_up(wanted, timeout)
    return {key: found[key].offset for key in wanted}
