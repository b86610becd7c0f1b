"""Waiting for a topic's partitions to be known, within the rest of `max_block_ms`.

The steps `opening` and `finding` are generators that request metadata, decide when to give up, and
yield whenever newer metadata is needed. Their driver waits for it: here a thread sleeps; an event
loop has its own driver.

The error says why a topic cannot be used: the broker's reason, or which address could not be
reached and why, never one text for all cases.

Thread-safety: any thread. On the sender's own thread (a delivery callback that sends) nothing
waits: the response could not arrive before the callback returns.
Source: Kafka KafkaProducer.waitOnMetadata (clients 4.3.1); kprod's departures 11 and 20.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple, NoReturn, TypeVar

from kprod._core.send.partition_appender import TopicRoutes
from kprod.clock import Clock
from kprod.cluster.metadata import Metadata
from kprod.errors import KprodError, MetadataTimeout, UnknownPartition, UnknownTopic
from kprod.producer.accumulator import RecordAccumulator
from kprod.topic_name import name_fault

T = TypeVar("T")


class Newer(NamedTuple):
    """The condition that steps wait for: metadata newer than `version`.

    When the wait times out, its MetadataTimeout is thrown into them.
    """

    version: int
    timeout_ms: int


TopicSteps = Generator[Newer, object, T]


class TopicOpener:
    """Makes a topic's queues once its partitions are known."""

    __slots__ = ("_accumulator", "_clock", "_max_block_ms", "_metadata", "_wake")

    def __init__(
        self,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        *,
        clock: Clock,
        wake: Callable[[], object],
        max_block_ms: int,
    ) -> None:
        """Keep the metadata to wait for, and the queues to open.

        Args:
            metadata: Gives the partitions of a topic; opening a topic requests its metadata.
            accumulator: Keeps the queues.
            clock: Measures waits.
            wake: Makes the sender ask its question now.
            max_block_ms: The setting's value, for error texts.
        """
        self._metadata = metadata
        self._accumulator = accumulator
        self._clock = clock
        self._wake = wake
        self._max_block_ms = max_block_ms

    def open(self, topic: str, timeout_ms: int) -> TopicRoutes:
        """Let the calling thread take the steps of `opening`, and return its topic."""
        return self._sleep_through(self.opening(topic, timeout_ms))

    def await_partition(self, routes: TopicRoutes, partition: int, timeout_ms: int) -> None:
        """Let the calling thread take the steps of `finding`."""
        self._sleep_through(self.finding(routes, partition, timeout_ms))

    def _sleep_through(self, steps: TopicSteps[T]) -> T:
        step: Callable[[], Newer] = partial(next, steps)
        while True:
            try:
                wanted = step()
            except StopIteration as end:
                found: T = end.value
                return found
            try:
                self._metadata.wait_for_update(wanted.version, wanted.timeout_ms)
            except MetadataTimeout as error:
                step = partial(steps.throw, error)
            else:
                step = partial(next, steps)

    def opening(self, topic: str, timeout_ms: int) -> TopicSteps[TopicRoutes]:
        """Wait until a topic's partitions are known.

        Args:
            topic: An exact str.
            timeout_ms: At most 0 does not wait.

        Returns:
            Its queues.

        Yields:
            The metadata version to wait for.

        Raises:
            ValueError: The name is invalid.
            UnknownTopic: The cluster does not have it, or forbids it.
            MetadataTimeout: Nobody could be asked in time.
        """
        _check_topic_name(topic)
        metadata = self._metadata
        ends_ms = self._clock.now_ms() + timeout_ms
        refresh: int | None = None
        while True:
            version = metadata.version  # read first, so that no response is missed
            count = metadata.snapshot.partition_count(topic)
            if count:
                return self._accumulator.topic_queues(topic, count)  # noqa: B901 - what steps give
            left_ms = ends_ms - self._clock.now_ms()
            is_refreshed = refresh is not None and metadata.has_refreshed(topic, refresh)
            error = metadata.error_of(topic)
            # A rejection that was asked for before this call may be out of date.
            if error is not None and not error.retriable and (is_refreshed or left_ms <= 0):
                raise UnknownTopic(f"topic {topic!r} cannot be used: {error}") from error
            if refresh is None or is_refreshed:
                refresh = metadata.request_refresh(topic)
            self._wake()
            if left_ms <= 0:
                self._give_up(topic)
            try:
                yield Newer(version, left_ms)
            except MetadataTimeout:
                self._give_up(topic)

    def finding(self, routes: TopicRoutes, partition: int, timeout_ms: int) -> TopicSteps[None]:
        """Refresh once; the partition may be new.

        Args:
            routes: The topic.
            partition: A partition number that is not below the known number of partitions.
            timeout_ms: At most 0 does not wait.

        Yields:
            The metadata update to wait for.

        Raises:
            UnknownPartition: It is not.
        """
        metadata = self._metadata
        ends_ms = self._clock.now_ms() + timeout_ms
        refresh = metadata.request_refresh(routes.name)
        self._wake()
        why = ""
        while True:
            version = metadata.version  # read first, so that no response is missed
            is_refreshed = metadata.has_refreshed(routes.name, refresh)
            count = metadata.snapshot.partition_count(routes.name) or 0
            # The response to a question from before this call may be older than the partition.
            if partition < count or is_refreshed or why:
                break
            try:
                yield Newer(version, max(ends_ms - self._clock.now_ms(), 0))
            except MetadataTimeout:
                why = f" (no newer response within max_block_ms={self._max_block_ms})"
        if partition >= count:
            raise UnknownPartition(
                f"topic {routes.name!r} has no partition {partition}: its last is"
                f" {(count or routes.partition_count) - 1}{why}"
            )
        self._accumulator.topic_queues(routes.name, count)

    def _give_up(self, topic: str) -> NoReturn:
        within = f"within max_block_ms={self._max_block_ms}"
        error: KprodError | None = self._metadata.error_of(topic)
        if error is not None:
            raise UnknownTopic(
                f"topic {topic!r} did not become known {within}: {error}; create it, or let the"
                " broker do so (auto.create.topics.enable, allow_auto_create_topics)"
            ) from error
        raise MetadataTimeout(
            f"the partitions of {topic!r} could not be fetched {within}:"
            f" {self._metadata.trouble(topic)}"
        )


def _check_topic_name(topic: str) -> None:
    fault = name_fault(topic)
    if fault is not None:
        raise ValueError(fault)
