"""Uses a consumer's engine from asyncio: the same engine, with waits that do not block the loop.

The I/O thread is the same one, so a loop is never held up by the network, nor fetching by a loop.

Thread-safety: one event loop at a time; `start` and `close` from any.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kprod._core.aio.loop_mailbox import LoopSignal
from kprod.aio.async_reading import AsyncReading
from kprod.aio.loop_listener import LoopListener
from kprod.aio.task_waits import in_own_thread, settled_within
from kprod.config.address import shown_addresses
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.assignment import check_topic
from kprod.consumer.commit_calls import OnCommit
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_engine import ConsumerEngine
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.group_end import settle_at_end
from kprod.consumer.parts import ConsumerParts, check_timeout
from kprod.errors import ClosedError, KprodError
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.threads import make_lock

T = TypeVar("T")


class AsyncConsumerEngine:
    """One asynchronous consumer without its public class."""

    __slots__ = (
        "_config",
        "_consumer",
        "_given",
        "_is_closed",
        "_reading",
        "_start_lock",
        "_topics",
    )

    def __init__(self, topics: tuple[str, ...], given: Mapping[str, object]) -> None:
        """Check the arguments; nothing runs yet.

        Args:
            topics: Topics to subscribe to at the start.
            given: Settings by any of their names.

        Raises:
            ConfigError: A setting is unknown, malformed or out of bounds.
            TypeError, ValueError: A topic is not a string, or its name is invalid.
        """
        self._config = ConsumerConfig.parse(given)
        self._topics = tuple(check_topic(topic) for topic in topics)
        self._given = given
        self._is_closed = False
        self._start_lock = make_lock()  # guards: the change of `_consumer`, and `_is_closed`
        self._consumer: Consumer | None = None  # kept after the close, for its metrics
        self._reading: AsyncReading | None = None

    @property
    def client_id(self) -> str:
        """See `AsyncConsumer.client_id`."""
        return (
            (self._config.client_id or "") if self._consumer is None else self._consumer.client_id
        )

    @property
    def is_unclosed(self) -> bool:
        """Whether it was started and not closed."""
        return self._consumer is not None and not self._is_closed

    def start(self) -> None:
        """See `AsyncConsumer.start`."""
        with self._start_lock:
            if self._is_closed:
                raise ClosedError("the consumer is closed; make another")
            if self._consumer is None:
                self._consumer = Consumer(*self._topics, settings=self._given)

    @property
    def consumer(self) -> Consumer:
        """The synchronous consumer.

        Raises:
            ClosedError: It was not started, or is closed.
        """
        if self._consumer is None:
            state = "closed; make another" if self._is_closed else "not started: await start()"
            raise ClosedError(f"the consumer is {state}")
        return self._consumer

    @property
    def engine(self) -> ConsumerEngine:
        """The synchronous consumer's engine; raises as `consumer` does."""
        return engine_of(self.consumer)

    @property
    def reading(self) -> AsyncReading:
        """The reading part; raises as `consumer` does."""
        if self._reading is None:
            self._reading = AsyncReading(self.engine)
        return self._reading

    def metrics(self) -> dict[str, dict[str, float]]:
        """See `AsyncConsumer.metrics`."""
        return {} if self._consumer is None else self._consumer.metrics()

    async def aside(self, call: Callable[[Consumer], T]) -> T:
        """Run a call that waits for brokers in a thread of its own.

        Args:
            call: A method of the synchronous consumer that does not read.

        Returns:
            The call's result; its exceptions are passed on.

        Raises:
            ClosedError: It was not started, or is closed.
        """
        consumer = self.consumer
        return await in_own_thread(lambda: call(consumer), f"kprod-ask-{consumer.client_id}")

    def subscribe(
        self, face: object, topics: str | Iterable[str] | None, listener: object, pattern: object
    ) -> None:
        """See `AsyncConsumer.subscribe`."""
        wrapped = None if listener is None else LoopListener(face, listener)
        self.engine.selection.subscribe(topics, wrapped, pattern)
        self.reading.listener = wrapped

    async def unsubscribe(self) -> None:
        """See `AsyncConsumer.unsubscribe`."""
        if self.engine.parts.group is None:
            self.consumer.unsubscribe()
        else:
            await self.aside(Consumer.unsubscribe)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """See `AsyncConsumer.assign`."""
        if self.engine.parts.assignment.shared is not None:
            raise KprodError("the consumer is a member of its group: await unsubscribe() first")
        self.consumer.assign(partitions)

    async def commit(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None,
        timeout: float | None,  # noqa: ASYNC109 - as Consumer.commit
    ) -> None:
        """See `AsyncConsumer.commit`."""
        engine = self.engine
        errors: list[KprodError] = []
        signal = LoopSignal()

        def end(error: KprodError | None) -> None:
            errors.extend([] if error is None else [error])
            signal.release()

        check_timeout(timeout)
        engine.committing.begin(offsets, timeout, end)
        # The commit ends by itself at its deadline; the second is for the I/O thread's turn.
        limit_s = engine.parts.api_limit(timeout) + 1
        if not await settled_within(signal.future, limit_s):
            engine.parts.check_open()
            raise engine.parts.timed_out("the commit", timeout)
        for error in errors:
            raise error

    def commit_async(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None,
        callback: OnCommit | None,
    ) -> None:
        """See `AsyncConsumer.commit_async`."""
        if inspect.iscoroutinefunction(callback):
            raise TypeError(
                f"{callback!r:.80} is a coroutine function, which nobody would wait for: give a"
                " plain function, or make a task of commit()"
            )
        told = None if callback is None else _in_loop(callback, asyncio.get_running_loop())
        self.engine.committing.commit_async(offsets, told)

    async def close(
        self,
        timeout: float | None,  # noqa: ASYNC109 - as Consumer.close
        *,
        is_failing: bool = False,
        leave: bool | None = None,
    ) -> None:
        """See `AsyncConsumer.close`; a failing application has not processed the record in hand."""
        with self._start_lock:
            consumer, self._is_closed = self._consumer, True
        if consumer is not None:
            is_failing = (self._reading is not None and self._reading.end()) or is_failing
            engine_of(consumer).is_failing = is_failing
            self._settle(engine_of(consumer).parts, is_failing=is_failing)
            await in_own_thread(
                lambda: consumer.close(timeout, leave=leave), f"kprod-close-{consumer.client_id}"
            )

    @staticmethod
    def _settle(parts: ConsumerParts, *, is_failing: bool) -> None:
        """End an iteration here: the thread that closes is not the one that it belongs to."""
        with contextlib.suppress(KprodError), parts.alone:  # it is closed, or a thread reads
            settle_at_end(parts.hand_over, is_failing=is_failing)

    def close_soon(self) -> None:
        """Stop the I/O thread, without waiting for it."""
        if self._consumer is not None:
            engine_of(self._consumer).end_soon()

    def described_as(self, name: str) -> str:
        """Describe the consumer and its state for people.

        Args:
            name: Name of the public class.

        Returns:
            The `repr` of the public object.
        """
        if self._consumer is not None:
            return engine_of(self._consumer).described_as(name)
        state = "closed" if self._is_closed else "not started"
        servers = shown_addresses(self._config.bootstrap_servers)
        named = f"{name} {self.client_id!r}" if self.client_id else name
        return f"<{named}, {state}, bootstrap_servers={servers!r}>"


def _in_loop(callback: OnCommit, loop: asyncio.AbstractEventLoop) -> OnCommit:
    """Return a callback for another thread, which has the application's called in its loop."""
    if not callable(callback):
        raise TypeError(f"a callback is a function, not {type(callback).__name__}")

    def tell(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KprodError | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(callback, offsets, error)

    return tell
