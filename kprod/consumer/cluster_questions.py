"""Implements the consumer's cluster queries: offsets by time, log ends, partitions of a topic.

Thread-safety: any thread.
Source: Kafka KafkaConsumer.offsetsForTimes, partitionsFor (clients 4.3.1).
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kprod._core.outcome.batch_result import BatchResult
from kprod.consumer.assignment import check_topic
from kprod.consumer.offset_lookup import FoundOffset, OffsetQuestion
from kprod.consumer.partition_texts import named
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.topic_watch import topic_error
from kprod.errors import KprodError, MetadataTimeout, own_copy
from kprod.model import TopicPartition

_SLICE_MS = 200  # interval of the checks whether the I/O thread still runs


class ClusterQuestions:
    """The cluster queries of one consumer."""

    def __init__(self, parts: ConsumerParts) -> None:
        """Start with no queries.

        Args:
            parts: The consumer's parts.
        """
        self._parts = parts

    def look_up(
        self, wanted: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, FoundOffset]:
        """Query the partition leaders for offsets.

        Args:
            wanted: A timestamp, or the constant of a log end, for each partition.
            timeout: Seconds; None for `default_api_timeout_ms`.

        Returns:
            Offsets by partition.

        Raises:
            KprodError: A broker rejects the query with an error that is not retriable.
            KprodTimeout: Not all leaders responded in time.
            ClosedError: The consumer is closed, or was closed during the call.
        """
        self._parts.check_open()
        found: dict[TopicPartition, FoundOffset] = {}
        errors: list[KprodError] = []
        done = BatchResult("", 0)  # a latch whose waits a signal handler may interrupt

        def take(key: TopicPartition, answer: FoundOffset) -> None:
            found[key] = answer
            if len(found) == len(wanted):
                done.complete()

        def fail(error: KprodError) -> None:
            errors.append(own_copy(error))
            done.complete()

        questions = [
            OffsetQuestion(key, timestamp, partial(take, key), fail)
            for key, timestamp in wanted.items()
        ]
        if not questions:
            return found
        self._parts.mailbox.post(partial(_each, self._parts.lookup.ask, questions))
        try:
            self._parts.wait_done(done, self._parts.until_ms(self._parts.api_limit(timeout)))
        finally:
            self._parts.mailbox.post(partial(_each, self._parts.lookup.withdraw, questions))
        for error in errors:
            raise error
        if len(found) < len(wanted):
            self._parts.check_open()
            missing = [key for key in wanted if key not in found]
            topic = missing[0].topic
            raise self._parts.timed_out(f"offsets of {named(missing)}", timeout, topic=topic)
        return found

    def partitions_for(self, topic: str, timeout: float | None) -> list[TopicPartition]:
        """Implement `Consumer.partitions_for`."""
        check_topic(topic)
        self._parts.check_open()
        until_ms = self._parts.until_ms(self._parts.api_limit(timeout))
        number = self._parts.metadata.request_refresh(topic)
        self._parts.client.wakeup()
        while not self._parts.metadata.has_refreshed(topic, number):
            self._parts.check_open()
            left_ms = 1 if until_ms is None else until_ms - self._parts.clock.now_ms()
            if left_ms <= 0:
                raise self._parts.timed_out(f"partitions of topic {topic!r}", timeout, topic=topic)
            if not self._parts.thread.is_started:
                self._parts.loop.run_once(self._parts.clock.now_ms())
                continue
            with contextlib.suppress(MetadataTimeout):
                self._parts.metadata.wait_for_update(
                    self._parts.metadata.version, min(left_ms, _SLICE_MS)
                )
        count = self._parts.metadata.snapshot.partition_count(topic)
        if count is None:
            raise topic_error(topic, self._parts.metadata.error_of(topic))
        return [TopicPartition(topic, number) for number in range(count)]


def _each(call: Callable[[OffsetQuestion], object], questions: Iterable[OffsetQuestion]) -> None:
    for question in questions:
        call(question)
