# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Implements reading in the application's thread: poll, iterator chunks, waiting, wakeup.

Only one thread at a time may read or change the assignment; a second one gets an error, and waits
for no lock. So application code that a read calls, such as an interceptor, may call the methods
that do neither.

Thread-safety: one thread at a time; `wakeup` from any thread.
Source: Kafka KafkaConsumer.acquireAndEnsureOpen (clients 4.3.1).
"""

import sys
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from kprod._core.reader_claim import ReaderClaim
from kprod._core.signal_handlers import run_handlers
from kprod._core.threads import current_ident
from kprod.cluster.metadata_waiters import SLICE_MS
from kprod.consumer.iterator_chunk import IteratorChunk
from kprod.consumer.partition_texts import no_offset
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.position import OFFSET_MAX, AssignedPartition, Start, State, new_start
from kprod.errors import ConcurrentPoll, KprodError, WakeupError
from kprod.model import TopicPartition

Taken = TypeVar("Taken")
Result = TypeVar("Result")


class ReadCall(NamedTuple, Generic[Taken, Result]):
    """A kind of read, for a thread or a task.

    Attributes:
        take: Returns a true value when there are records.
        finish: Converts what `take` returned.
        nothing: Returns what `take` returns without records; new each time, as it may be changed.
        raises_problem: Whether to raise a problem of a topic at the deadline.
    """

    take: Callable[[], Taken]
    finish: Callable[[Taken], Result]
    nothing: Callable[[], Taken]
    raises_problem: bool = True


class Reading:
    """The reading part of one consumer."""

    def __init__(
        self, parts: ConsumerParts, restart: Callable[[AssignedPartition, Start, int | None], bool]
    ) -> None:
        """Start without a reading thread.

        Args:
            parts: The consumer's parts.
            restart: Sets a partition's position; see `Selection.restart`.
        """
        self._parts = parts
        self._restart = restart
        parts.alone = ReaderClaim(self._check, self.free_if_closed)
        self._is_woken = False
        self._is_forked = False
        config = parts.config
        self._intercepts = not parts.interceptors.is_empty
        self._resets_offsets = config.auto_offset_reset.name != "none"
        self._usual_count: int = config.max_poll_records
        self._usual_call: ReadCall[Any, Any] = self._records_call(self._usual_count)
        self._wakes = self.has_news  # bound once, not for each wait

    def forget_reader(self) -> None:
        """Forget the reading thread, which does not exist, or must not read, in a forked child."""
        self._is_forked = True
        self._parts.alone.holder = None

    def free_if_closed(self) -> None:
        """Free the fetched records if the consumer is closed and no thread reads; any thread.

        `close` calls it, and so does a read at its end, in case it was closed meanwhile.
        """
        is_closed = self._parts.closed_error is not None and not self._is_forked
        if is_closed and self._parts.alone.holder is None:
            self._parts.hand_over.clear()

    def poll_terms(
        self, timeout: float | None, max_records: int | None
    ) -> tuple[ReadCall[list[Any], list[Any]], int | None]:
        """Remember the calling thread, and read the arguments of its `poll`.

        Args:
            timeout: As for `poll`.
            max_records: As for `poll`.

        Returns:
            The read, and its deadline.

        Raises:
            TypeError, ValueError: An argument is no number, or out of bounds.
        """
        self._parts.reader = current_ident()
        return self.records_call(max_records), self._parts.until_ms(timeout)

    def records_call(self, max_records: int | None) -> ReadCall[list[Any], list[Any]]:
        """Return the read of `poll`.

        Args:
            max_records: As for `poll`.

        Returns:
            The read.

        Raises:
            TypeError, ValueError: `max_records` is no number, or out of bounds.
        """
        if max_records is None:
            return self._usual_call
        return self._records_call(_count_of(max_records))

    def _records_call(self, count: int) -> ReadCall[list[Any], list[Any]]:
        return ReadCall(partial(self._take, count), self._intercepted, list)

    def _take(self, count: int) -> list[Any]:
        return self._parts.hand_over.take(count)

    def _take_from_one(self, count: int) -> list[Any]:
        return self._parts.hand_over.take(count, True)  # noqa: FBT003

    def hand_out(self, call: ReadCall[Taken, Result], until_ms: int | None) -> Result:
        """Wait for records and return them; none is lost, whatever is raised in here.

        Args:
            call: The kind of read.
            until_ms: Deadline, monotonic; None for none.

        Returns:
            The result of `call.finish`.
        """
        parts, claim = self._parts, object()
        alone, hand_over = parts.alone, parts.hand_over
        result = self.begin(call, until_ms, claim)
        # No call from here to the return: an exception of a signal handler would lose the records,
        # and another thread that reads would be given them again.
        hand_over.is_complete = True
        alone.holder = None
        if parts.closed_error is not None:
            self.free_if_closed()
        return result

    def begin(
        self,
        call: ReadCall[Taken, Result],
        until_ms: int | None,
        claim: object,
        runs_steps: bool = True,  # noqa: FBT001, FBT002 - keywords cost time
    ) -> Result:
        """Wait for records, as `hand_out` does, but leave its last step to the caller.

        A signal handler may run when compiled code has returned to Python. So
        `ConsumerEngine.read` sets `HandOver.is_complete` and frees the claim, where nothing can be
        raised any more; until then a handler that reads, commits or closes finds the consumer being
        read.

        Args:
            call: As for `hand_out`.
            until_ms: As there.
            claim: An object of this call alone, which holds `ConsumerParts.alone` afterwards.
            runs_steps: False if the caller runs the steps for the polling thread by itself.

        Returns:
            The result of `call.finish`.
        """
        try:
            self._parts.alone.enter(claim)
            taken = self._read(call, until_ms, runs_steps)
            result: Result = self._finished(call, taken)
            run_handlers()  # of signals that arrived while compiled code decoded the records
        except BaseException:
            self.abandon(claim)
            raise
        return result

    def abandon(self, claim: object) -> None:
        """Free the claim of a call that an exception ends: its records are returned again."""
        alone = self._parts.alone
        if alone.holder is claim:
            alone.holder = None
        self.free_if_closed()

    def next_chunk(self) -> IteratorChunk | None:
        """Take records for the iterator.

        Returns:
            A chunk; None if no record arrived within `consumer_timeout_ms`.
        """
        parts, call = self._parts, self.chunk_call()
        limit_ms = parts.config.consumer_timeout_ms
        until_ms = None if limit_ms < 0 else parts.clock.now_ms() + limit_ms
        while True:
            chunk = self.hand_out(call, until_ms)
            if chunk is not False:
                return chunk

    def chunk_call(self) -> ReadCall[list[Any], IteratorChunk | Literal[False] | None]:
        """Return the read of an iterator's chunk; False if the interceptors leave no record."""
        parts = self._parts
        take = partial(self._take_from_one, parts.config.max_poll_records)
        return ReadCall(take, self._chunk_of, list, raises_problem=False)

    def _intercepted(self, records: list[Any]) -> list[Any]:
        return self._parts.interceptors.on_consume(records) if records else records

    def _chunk_of(self, records: list[Any]) -> IteratorChunk | Literal[False] | None:
        """Return a chunk; None without records, False if the interceptors leave none."""
        if not records:
            return None
        shown = self._parts.interceptors.on_consume(records)
        if not shown:
            return False
        return self._parts.hand_over.begin_chunk(records, shown, current_ident())

    def skip(self, record: Any) -> None:  # noqa: ANN401 - of any class with these attributes
        """Implement `Consumer.skip`."""
        if not 0 <= record.offset < OFFSET_MAX:
            raise ValueError(
                f"no record follows offset {record.offset}, which skip was called with"
            )
        with self._parts.alone:
            found = self._parts.assignment.of(TopicPartition(record.topic, record.partition))
            if not self._parts.hand_over.skip(found, record.offset):
                self._restart(found, new_start(record.offset + 1), None)

    def wakeup(self) -> None:
        """Implement `Consumer.wakeup`."""
        self._is_woken = True
        self._parts.hand_over.interrupt()
        self._parts.mailbox.notify()

    def _check(self, ident: Hashable) -> None:
        """Raise if a thread that has claimed the reading must not read."""
        self._parts.check_open()
        chunk = self._parts.hand_over.chunk
        if chunk is not None and chunk.ident != ident:
            raise ConcurrentPoll(
                "another thread iterates over this consumer; one thread at a time may read"
            )

    def _read(
        self,
        call: ReadCall[Taken, Result],
        until_ms: int | None,
        runs_steps: bool,  # noqa: FBT001
    ) -> Any:  # noqa: ANN401 - what `call` takes
        parts = self._parts
        activity = parts.activity
        activity.count += 1
        while True:
            parts.check_open()
            if runs_steps:
                parts.steps_until_ms = until_ms
                if not parts.mailbox.run_steps():
                    return call.nothing()
            if parts.group is not None:
                parts.group.check()
            if self._is_woken:
                self._is_woken = False
                raise WakeupError("wakeup() was called; poll again to continue")
            self._check_offsets()
            # The usual call is made in C: it is made for each record that is waited for.
            is_usual = call is self._usual_call
            taken: Any = parts.hand_over.take(self._usual_count) if is_usual else call.take()
            if taken:
                return taken
            parts.hand_over.drop_parked(self._restart)
            if until_ms is not None and parts.clock.now_ms() >= until_ms:
                problem = parts.topics.problem
                if problem is not None and call.raises_problem:
                    raise problem
                return taken
            activity.is_waiting = True
            try:
                self._wait(until_ms)
            finally:
                activity.is_waiting = False

    def _finished(self, call: ReadCall[Any, Any], taken: Any) -> Any:  # noqa: ANN401 - as above
        if call is self._usual_call and not self._intercepts:
            return taken
        return call.finish(taken)

    def _wait(self, until_ms: int | None) -> None:
        direct_read = self._parts.direct_read
        if direct_read is None:
            self._parts.wait(self._wakes, until_ms)
        elif not direct_read.wait(self._wakes, until_ms):
            slice_ms = self._parts.clock.now_ms() + SLICE_MS  # then the direct path may be open
            until_ms = slice_ms if until_ms is None else min(until_ms, slice_ms)
            self._parts.wait(self._wakes, until_ms)

    def has_news(self) -> bool:
        """Return whether another attempt may do something; any thread."""
        return (
            self._parts.hand_over.has_work()
            or self._parts.mailbox.has_steps
            or self._is_woken
            or self._parts.closed_error is not None
        )

    def _check_offsets(self) -> None:
        assignment = self._parts.assignment
        if not assignment.partitions and assignment.is_empty:
            raise KprodError("nothing to read: assign partitions or subscribe to topics first")
        if self._resets_offsets:
            return
        missing = [
            key
            for key, each in assignment.partitions.items()
            if each.has_no_offset and each.state is not State.HALTED
        ]
        if missing:
            raise no_offset(missing)


def _count_of(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"max_records is a whole number, not {type(given).__name__}")
    if given < 1:
        raise ValueError(f"max_records must be 1 or more, not {given}")
    return min(given, sys.maxsize)
