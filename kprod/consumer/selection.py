# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Assignment and positions: assign, subscribe, seek, pause, position.

Calls from any thread (seek, pause, resume) replace a single value and interrupt the reading thread;
one thread at a time changes the assignment. The module is compiled for the reason that `hand_over`
gives: a seek that a signal handler ends either happened or did not.

Thread-safety: as documented for each method of `Consumer`.
Source: Kafka KafkaConsumer (clients 4.3.1); KAFKA-20539 for partitions that are added to a topic.
"""

import re
from collections.abc import Iterable, Mapping
from functools import partial

from kprod.config.consumer_kinds import ResetPolicy
from kprod.consumer.assignment import as_partitions, check_topic
from kprod.consumer.fetch_buffer import AHEAD_MAX
from kprod.consumer.partition_texts import named, no_offset
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.position import OFFSET_MAX, AssignedPartition, Start, group_start, new_start
from kprod.consumer.topic_pattern import TopicPattern, as_pattern
from kprod.errors import KprodError
from kprod.model import TopicPartition

EARLIEST = ResetPolicy("earliest")
LATEST = ResetPolicy("latest")
_EPOCH_MAX = 2**31 - 1


class Selection:
    """The partitions of one consumer and their positions."""

    def __init__(self, parts: ConsumerParts) -> None:
        """Start with no partitions.

        Args:
            parts: The consumer's parts.
        """
        self._parts = parts
        self._added: frozenset[str] = frozenset()  # topics that came after their pattern

    def assign(self, given: Iterable[object]) -> None:
        """Implement `Consumer.assign`."""
        keys = as_partitions(given)
        with self._parts.alone:
            self._parts.leave_group()
            policy = self._parts.config.auto_offset_reset
            in_group = self._parts.group is not None
            self.replace(
                {
                    key: group_start(policy) if in_group else new_start(None, policy=policy)
                    for key in keys
                }
            )

    def subscribe(
        self, given: str | Iterable[str] | None, listener: object = None, pattern: object = None
    ) -> None:
        """Implement `Consumer.subscribe`."""
        if pattern is not None:
            self._subscribe_pattern(given, listener, as_pattern(pattern))
            return
        names = _names_of(given)
        with self._parts.alone:
            if self._parts.group is not None:
                self._parts.join_group(names, listener)
                return
            kept = {
                key: each.start
                for key, each in self._parts.assignment.partitions.items()
                if key.topic in names and key.topic in self._parts.assignment.topics
            }
            self.replace(kept, names)

    def _subscribe_pattern(self, topics: object, listener: object, pattern: TopicPattern) -> None:
        if topics is not None and topics != ():
            raise ValueError(
                "name topics or a pattern, not both: one pattern may match all of them"
            )
        with self._parts.alone:
            assignment = self._parts.assignment
            if self._parts.group is not None:
                self._parts.join_group(None, listener, pattern)
                return
            kept = {
                key: each.start
                for key, each in assignment.partitions.items()
                if key.topic in assignment.topics
            }
            # The present topics are read on until those of the cluster are known.
            self.replace(kept, assignment.topics, pattern=pattern)

    def note_topics(self, pattern: TopicPattern, names: frozenset[str]) -> None:
        """Make the polling thread compare the cluster's topics with a pattern; the I/O thread.

        Args:
            pattern: The pattern for which they were asked.
            names: All topics that may be read.
        """
        self._parts.mailbox.hand(partial(self._match, pattern, names))
        self._parts.hand_over.interrupt()

    def _match(self, pattern: TopicPattern, names: frozenset[str]) -> None:
        assignment = self._parts.assignment
        if assignment.pattern is not pattern:
            return
        found, added = pattern.match(names)
        topics = tuple(sorted(found))
        if self._parts.group is not None:
            self._parts.match_group(topics, added)
            pattern.matched = found
            return
        kept = {
            key: each.start
            for key, each in assignment.partitions.items()
            if key.topic in found and key.topic in assignment.topics
        }
        self._added |= added
        if topics != assignment.topics:
            self.replace(kept, topics, pattern=pattern)
        pattern.matched = found

    def unsubscribe(self) -> None:
        """Implement `Consumer.unsubscribe`."""
        with self._parts.alone:
            self._parts.leave_group()
            self.replace({})

    def note_missing(self, partition: AssignedPartition, start: Start) -> None:
        """Make `poll` raise that a partition has no offset, not even its group's; the I/O thread.

        Args:
            partition: An assigned partition.
            start: The start that was tried.
        """
        step = partial(self.restart, partition, new_start(None), start.number)
        self._parts.mailbox.hand(step)

    def note_partitions(self, topic: str, count: int) -> None:
        """Make the polling thread assign a subscribed topic's new partitions; the I/O thread."""
        known = self._parts.assignment.partitions
        if any(TopicPartition(topic, number) not in known for number in range(count)):
            self._parts.mailbox.hand(partial(self._add_partitions, topic, count))

    def _add_partitions(self, topic: str, count: int) -> None:
        """Assign a subscribed topic's new partitions; the polling thread."""
        known = self._parts.assignment.partitions
        if topic not in self._parts.assignment.topics:
            return
        if self._parts.config.exclude_internal_topics:
            entry = self._parts.metadata.snapshot.topics.get(topic)
            if entry is not None and entry.is_internal:
                self._parts.assignment.topics = tuple(
                    it for it in self._parts.assignment.topics if it != topic
                )
                raise KprodError(
                    f"topic {topic!r} is the cluster's own; set exclude_internal_topics=False to"
                    " read it"
                )
        policy = self._parts.config.auto_offset_reset
        is_grown = topic in self._added or any(key.topic == topic for key in known)
        if is_grown and policy.name != "none":
            policy = EARLIEST  # all its records are newer than the subscription
        added = (TopicPartition(topic, number) for number in range(count))
        self._parts.assignment.add(
            {key: new_start(None, policy=policy) for key in added if key not in known}
        )
        self._parts.client.wakeup()

    def replace(
        self,
        starts: Mapping[TopicPartition, Start],
        topics: tuple[str, ...] = (),
        shared: tuple[str, ...] | None = None,
        pattern: TopicPattern | None = None,
    ) -> None:
        """Replace the assignment; partitions that remain keep their positions.

        Args:
            starts: Start positions of the new partitions.
            topics: Topics that are read as a whole.
            shared: Topics that are read as a member of a group; None for no member.
            pattern: The pattern that determines the topics; None if they are named.
        """
        self._parts.hand_over.settle()
        before, assignment = self._parts.assignment.partitions, self._parts.assignment
        no_start = new_start(None)
        assignment.replace(starts, topics, shared, pattern)
        # No call of Python code from here on, so that a change is made as a whole.
        after = assignment.partitions
        for key, each in before.items():
            if after.get(key) is not each:
                each.start = no_start  # the I/O thread fetches no more for it
        self._parts.hand_over.drop_stale()
        self._parts.client.wakeup()

    def partition(self, key: object) -> AssignedPartition:
        """Return an assigned partition; raises if the consumer is closed."""
        self._parts.check_open()
        return self._parts.assignment.of(key)

    def partitions(self, keys: Iterable[object]) -> list[AssignedPartition]:
        """Return assigned partitions, all without keys; raises if the consumer is closed."""
        self._parts.check_open()
        found = [self._parts.assignment.of(key) for key in as_partitions(keys)]
        return found or list(self._parts.assignment.partitions.values())

    def restart(
        self, partition: AssignedPartition, start: Start, replaced_number: int | None = None
    ) -> bool:
        """Change a partition's position; any thread.

        Args:
            partition: An assigned partition.
            start: A new start.
            replaced_number: Number of the start to replace; None for any.

        Returns:
            False if the partition has another start, because another thread has set one.
        """
        if replaced_number is not None and partition.start.number != replaced_number:
            return False
        partition.start = start
        self._parts.hand_over.interrupt()
        self._parts.mailbox.post(
            lambda: self._parts.loop.take_start(partition, self._parts.clock.now_ms())
        )
        return True

    def seek(self, key: object, offset: int, epoch: int | None) -> None:
        """Implement `Consumer.seek`."""
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise TypeError(f"an offset is a whole number, not {type(offset).__name__}")
        if not 0 <= offset <= OFFSET_MAX:
            raise ValueError(f"an offset is from 0 to {OFFSET_MAX}, not {offset}")
        if epoch is not None and not 0 <= epoch <= _EPOCH_MAX:
            raise ValueError(f"a leader epoch is from 0 to {_EPOCH_MAX}, not {epoch}")
        self.restart(self.partition(key), new_start(offset, -1 if epoch is None else epoch))

    def seek_by(self, keys: Iterable[object], policy: ResetPolicy) -> None:
        """Move positions to the start or the end of the logs.

        Args:
            keys: Assigned partitions; all if empty.
            policy: The reset policy that finds the offset.
        """
        for partition in self.partitions(keys):
            self.restart(partition, new_start(None, policy=policy))

    def pause(self, keys: Iterable[object]) -> None:
        """Implement `Consumer.pause`."""
        for partition in self.partitions(as_partitions(keys)) if keys else ():
            partition.paused = True
            self._consider(partition)
        self._parts.hand_over.interrupt()

    def resume(self, keys: Iterable[object]) -> None:
        """Implement `Consumer.resume`."""
        for partition in self.partitions(as_partitions(keys)) if keys else ():
            partition.paused = False
            self._consider(partition)
            self._parts.mailbox.hand(partial(self._parts.hand_over.resume, partition))

    def on_freed(self, partition: AssignedPartition) -> None:
        """Continue fetching a partition after a block was freed; the polling thread.

        The I/O thread is woken only if it did not fetch for lack of space or memory.
        """
        ahead_count = partition.fetched_count - partition.consumed_count
        if ahead_count >= AHEAD_MAX - 1 or self._parts.buffer.is_short:
            self._consider(partition)

    def _consider(self, partition: AssignedPartition) -> None:
        self._parts.mailbox.post(
            lambda: self._parts.loop.consider(partition, self._parts.clock.now_ms())
        )

    def position(self, key: object, timeout: float | None) -> int:
        """Implement `Consumer.position`."""
        partition = self.partition(key)
        place = self._parts.hand_over.place_of(partition)
        if place is None:
            until_ms = self._parts.until_ms(self._parts.api_limit(timeout))
            while (place := self._parts.hand_over.place_of(partition)) is None:
                partition = self.partition(key)  # another thread may have assigned others
                if partition.has_no_offset:
                    raise no_offset([partition.key])
                if until_ms is not None and self._parts.clock.now_ms() >= until_ms:
                    raise self._parts.timed_out(
                        f"the position of {named([partition.key])}",
                        timeout,
                        topic=partition.key.topic,
                    )
                self._parts.wait(partial(self._is_placed, partition), until_ms)
        return place.offset

    def _is_placed(self, partition: AssignedPartition) -> bool:
        return (
            self._parts.hand_over.place_of(partition) is not None
            or self._parts.closed_error is not None
            or partition.has_no_offset
        )

    def lag(self, key: object) -> int | None:
        """Implement `Consumer.lag`."""
        partition = self.partition(key)
        place = self._parts.hand_over.place_of(partition)
        end = partition.high_watermark
        if self._parts.config.isolation_level == "read_committed":
            end = partition.last_stable_offset
        return None if place is None or end < 0 else max(0, end - place.offset)


def _names_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Check the names of topics to subscribe to."""
    if given is None:
        raise ValueError("name at least one topic or a pattern; unsubscribe() reads nothing more")
    if isinstance(given, re.Pattern):
        raise TypeError("a compiled pattern is subscribed by subscribe(pattern=…)")
    topics = [given] if isinstance(given, str) else list(given)
    if not topics:
        raise ValueError("name at least one topic; unsubscribe() reads nothing more")
    return tuple(dict.fromkeys(check_topic(topic) for topic in topics))
