"""Implements reading in the application's thread: poll, iterator chunks, waiting, wakeup.

Only one thread at a time may read or change the assignment; a second one gets an error, and waits
for no lock. So application code that a read calls, such as an interceptor, may call the methods
that do neither.

Thread-safety: one thread at a time; `wakeup` from any thread.
Source: Kafka KafkaConsumer.acquireAndEnsureOpen (clients 4.3.1).
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from kprod._core.reader_claim import ReaderClaim
from kprod.consumer.iterator_chunk import Chunk
from kprod.consumer.partition_texts import no_offset
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.position import AssignedPartition, Start, State, new_start
from kprod.errors import KprodError, WakeupError
from kprod.model import TopicPartition
from kprod.threads import current_ident


class Reading:
    """The reading part of one consumer.

    Attributes:
        alone: Excludes a second thread from reading and from changing the assignment.
    """

    def __init__(
        self, parts: ConsumerParts, restart: Callable[[AssignedPartition, Start], object]
    ) -> None:
        """Start without a reading thread.

        Args:
            parts: The consumer's parts.
            restart: Sets a partition's position.
        """
        self._parts = parts
        self._restart = restart
        self.alone: ReaderClaim = ReaderClaim(self._check)
        self._is_woken = False

    @property
    def is_idle(self) -> bool:
        """Whether no thread is reading."""
        return self.alone.is_free

    def forget_reader(self) -> None:
        """Forget the reading thread, which does not exist, or must not read, in a forked child."""
        self.alone.drop()

    def poll(self, timeout: float | None, max_records: int | None) -> list[Any]:
        """Implement `Consumer.poll`; the caller must call `complete` once it has the records."""
        count = (
            self._parts.config.max_poll_records if max_records is None else _count_of(max_records)
        )
        with self.alone:
            records = self._read(
                partial(self._parts.hand_over.take, count),
                self._parts.until_ms(timeout),
                raises_problem=True,
            )
            return self._parts.interceptors.on_consume(records) if records else records

    def read(self, take: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ANN401
        """Wait for a result other than a list of records, such as columns.

        Args:
            take: Returns a true value when there is a result.
            timeout: Seconds to wait.

        Returns:
            The last result of `take`.
        """
        with self.alone:
            return self._read(take, self._parts.until_ms(timeout), raises_problem=True)

    def next_chunk(self) -> Chunk | None:
        """Take records for the iterator.

        Returns:
            A chunk; None if no record arrived within `consumer_timeout_ms`.
        """
        limit_ms = self._parts.config.consumer_timeout_ms
        until_ms = None if limit_ms < 0 else self._parts.clock.now_ms() + limit_ms
        with self.alone:
            take = partial(
                self._parts.hand_over.take, self._parts.config.max_poll_records, from_one=True
            )
            while True:
                records = self._read(take, until_ms, raises_problem=False)
                if not records:
                    return None
                shown = self._parts.interceptors.on_consume(records)
                if shown:
                    return self._parts.hand_over.begin_chunk(records, shown, current_ident())
                self._parts.hand_over.complete(0)

    def skip(self, record: Any) -> None:  # noqa: ANN401 - of any class with these attributes
        """Implement `Consumer.skip`."""
        with self.alone:
            found = self._parts.assignment.of(TopicPartition(record.topic, record.partition))
            if not self._parts.hand_over.skip(found, record.offset):
                self._restart(found, new_start(record.offset + 1))

    def wakeup(self) -> None:
        """Implement `Consumer.wakeup`."""
        self._is_woken = True
        self._parts.hand_over.interrupt()
        self._parts.mailbox.notify()

    def _check(self, ident: Hashable) -> None:
        """Raise if a thread that has claimed the reading must not read."""
        self._parts.check_open()
        self._parts.hand_over.check_ident(ident)

    def _read(self, take: Callable[[], Any], until_ms: int | None, *, raises_problem: bool) -> Any:  # noqa: ANN401 - as `take` has it
        while True:
            self._parts.check_open()
            self._parts.mailbox.run_steps()
            if self._is_woken:
                self._is_woken = False
                raise WakeupError("wakeup() was called; poll again to continue")
            self._check_offsets()
            taken = take()
            if taken:
                return taken
            self._relieve()
            if until_ms is not None and self._parts.clock.now_ms() >= until_ms:
                problem = self._parts.topics.problem
                if problem is not None and raises_problem:
                    raise problem
                return taken
            self._parts.wait(self._has_news, until_ms)

    def _has_news(self) -> bool:
        return (
            self._parts.hand_over.has_work
            or self._parts.mailbox.has_steps
            or self._is_woken
            or self._parts.closed_error is not None
        )

    def _check_offsets(self) -> None:
        if self._parts.assignment.is_empty:
            raise KprodError("nothing to read: assign partitions or subscribe to topics first")
        if self._parts.config.auto_offset_reset.name != "none":
            return
        missing = [
            key
            for key, each in self._parts.assignment.partitions.items()
            if each.has_no_offset and each.state is not State.HALTED
        ]
        if missing:
            raise no_offset(missing)

    def _relieve(self) -> None:
        """Free the memory that paused partitions hold beyond their share; it is fetched again."""
        for partition in self._parts.hand_over.drop_parked():
            place = self._parts.hand_over.place_of(partition)
            if place is not None:
                self._restart(partition, new_start(place.offset, place.epoch))


def _count_of(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"max_records is a whole number, not {type(given).__name__}")
    if given < 1:
        raise ValueError(f"max_records must be 1 or more, not {given}")
    return given
