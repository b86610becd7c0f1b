"""Reads what a topic has now: the range of offsets of each partition, and the records in it.

Records that are appended meanwhile are left out. A partition that loses its beginning meanwhile is
read on from where it then begins. With `read_uncommitted`, records of open and aborted transactions
are returned as well; transaction markers are not.

Thread-safety: as the consumer's.
Source: kcat's option -e for the idea.
"""

from collections.abc import Iterable, Iterator

from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.partition_texts import named
from kprod.consumer.parts import ConsumerParts
from kprod.errors import KprodTimeout, UnknownPartition, UnknownTopic
from kprod.model import TopicPartition
from kprod.record.blocks import ConsumerRecord

TOPIC_WAIT_MS = 5_000  # a topic that was just created is not known to every broker at once
_POLL_S = 0.2


def known_partitions(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    topic_wait_ms: int = TOPIC_WAIT_MS,
) -> list[TopicPartition]:
    """Return partitions of a topic that exist.

    Args:
        consumer: Any consumer.
        topic: The topic's name.
        partitions: Partition numbers; None for all.
        topic_wait_ms: Maximum time for an unknown topic to appear.

    Returns:
        The partitions, ascending.

    Raises:
        UnknownTopic: The topic does not exist.
        UnknownPartition: A requested partition does not exist.
        KprodError: As for `Consumer.partitions_for`.
    """
    known = _partitions_of(consumer, topic, topic_wait_ms)
    numbers = range(len(known)) if partitions is None else sorted(set(partitions))
    for number in numbers:
        if number >= len(known):
            raise UnknownPartition(
                f"topic {topic!r} has partitions 0 to {len(known) - 1}, not {number}"
            )
    return [known[number] for number in numbers]


def offset_ranges(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    topic_wait_ms: int = TOPIC_WAIT_MS,
) -> dict[TopicPartition, tuple[int, int]]:
    """Determine the present range of offsets of a topic's partitions.

    Args:
        consumer: Any consumer; its assignment does not change.
        topic: The topic's name.
        partitions: Partition numbers; None for all.
        topic_wait_ms: Maximum time for an unknown topic to appear.

    Returns:
        Start offset and end offset by partition, ascending; the end is exclusive.

    Raises:
        KprodError: As for `known_partitions` and `Consumer.end_offsets`.
    """
    keys = known_partitions(consumer, topic, partitions, topic_wait_ms=topic_wait_ms)
    starts, ends = consumer.beginning_offsets(keys), consumer.end_offsets(keys)
    return {key: (starts[key], ends[key]) for key in keys}


def records_to_end(
    consumer: Consumer,
    topic: str,
    partitions: Iterable[int] | None = None,
    *,
    topic_wait_ms: int = TOPIC_WAIT_MS,
) -> Iterator[ConsumerRecord]:
    """Yield the records that a topic has now.

    Args:
        consumer: A consumer with `auto_offset_reset` earliest; its assignment is replaced.
        topic: The topic's name.
        partitions: Partition numbers; None for all.
        topic_wait_ms: Maximum time for an unknown topic to appear.

    Yields:
        Records, ascending by offset within a partition.

    Raises:
        KprodTimeout: There was no progress for `default_api_timeout_ms`.
        KprodError: As for `offset_ranges` and `Consumer.poll`.
    """
    ranges = offset_ranges(consumer, topic, partitions, topic_wait_ms=topic_wait_ms)
    ends = {key: end for key, (start, end) in ranges.items() if start < end}
    consumer.assign(ends)
    for key in ends:
        consumer.seek(key, ranges[key][0])
    parts = engine_of(consumer).parts
    places: dict[TopicPartition, int] = {}
    moved_ms = parts.clock.now_ms()
    while ends:
        records = consumer.poll(_POLL_S)
        for record in records:
            key = TopicPartition(record.topic, record.partition)
            if record.offset < ends.get(key, 0):
                yield record
        before, places = places, {key: consumer.position(key) for key in ends}
        now_ms = parts.clock.now_ms()
        if records or places != before:
            moved_ms = now_ms
        elif now_ms - moved_ms >= parts.config.default_api_timeout_ms:
            raise KprodTimeout(_no_progress(parts, places))
        finished = [key for key in ends if places[key] >= ends[key]]
        for key in finished:
            del ends[key]
        consumer.pause(*finished)


def _partitions_of(consumer: Consumer, topic: str, topic_wait_ms: int) -> list[TopicPartition]:
    """Return a topic's partitions; each attempt waits for a refresh of the metadata."""
    clock = engine_of(consumer).parts.clock
    until_ms = clock.now_ms() + topic_wait_ms
    while True:
        try:
            return consumer.partitions_for(topic)
        except UnknownTopic:
            if clock.now_ms() >= until_ms:
                raise


def _no_progress(parts: ConsumerParts, places: dict[TopicPartition, int]) -> str:
    where = ", ".join(f"{key.partition} at {offset}" for key, offset in list(places.items())[:3])
    return (
        f"nothing was read from {named(list(places))} for {parts.config.default_api_timeout_ms} ms"
        f" (default_api_timeout_ms); {where}: {parts.metadata.trouble()}"
    )
