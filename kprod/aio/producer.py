"""The producer for asyncio: the same engine, another way to wait.

`AsyncProducer` holds no delivery logic. Records are appended by the engine's own compiled path, in
the task that sends them; whatever a thread would sleep for, a task waits for in its loop: a topic's
partitions, room in the buffer, a batch's outcome. The engine's sender thread is the same one, so a
loop is never held up by the network, nor the network by a loop.

Thread-safety: any number of event loops, in as many threads, may share a producer.
Source: kprod's departure 22; aiokafka 0.14 for the names.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self
from weakref import WeakValueDictionary

from kprod._core.async_send import AsyncSendPath, Sending, not_open
from kprod._core.delivery_wait import FinishWait
from kprod._core.record_future import RecordFuture
from kprod.aio.room_line import RoomLine
from kprod.aio.waiting import in_own_thread, wait_through
from kprod.config import ProducerConfig, given_settings
from kprod.config.address import shown_addresses
from kprod.errors import ClosedError
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Metrics
from kprod.model import RecordMetadata
from kprod.producer.bulk import OnDelivery, stoppable
from kprod.producer.engine_parts import EngineParts
from kprod.producer.producer import Producer
from kprod.producer.receipt import SendReceipt
from kprod.wording import plural

_logger = guarded_logger(__name__)


class AsyncProducer(AsyncSendPath):
    """Sends records to Kafka from asyncio, and says of each what became of it.

    Args:
        settings: Settings by their Kafka names, such as `{"linger.ms": 5}`.
        engine: A producer to share instead of having one of its own; then there are no settings,
            and closing flushes it and leaves it open.
        more_settings: Settings by their Python names, such as `linger_ms=5`.

    Raises:
        ConfigError: A setting is unknown, malformed or out of bounds.
        TypeError: Settings beside an engine that has its own, or `settings` is no mapping.

    Thread-safety: any number of event loops and threads; any event loop of asyncio's kind.
    """

    engine: Producer | None
    _has_begun = False  # of an object whose `__init__` has not run

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        /,
        *,
        engine: Producer | None = None,
        **more_settings: object,
    ) -> None:
        if self._has_begun:
            raise RuntimeError("AsyncProducer.__init__ was called twice; make another one")
        given = given_settings("AsyncProducer", settings, more_settings)
        self._config: ProducerConfig | None = None
        if engine is None:
            self._config = ProducerConfig.parse(given)  # what is wrong is said here, not at start
        elif given:
            raise TypeError(f"an engine has its own settings; not used: {', '.join(given)}")
        self._given = given
        self._shares_engine = engine is not None
        self._is_closed = False
        self._start_lock = threading.Lock()  # guards: the change of `engine`, and `_is_closed`
        self._parts: EngineParts | None = None
        self._measured = engine  # what counts; unlike `engine` it stays when this is closed
        # One per loop that has somebody waiting, kept by those who wait.
        self._lines: WeakValueDictionary[asyncio.AbstractEventLoop, RoomLine] = (
            WeakValueDictionary()
        )
        if engine is not None:
            self._parts = engine.parts()
            self.engine = engine
        self._has_begun = True

    def _check_initialised(self) -> None:
        if not self._has_begun:
            raise RuntimeError(
                "AsyncProducer.__init__ was not called, or it failed; a subclass calls"
                " super().__init__(...) before anything else"
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an AsyncProducer cannot be pickled or copied, since it owns a thread and connections;"
            " pass its settings on, and make an AsyncProducer where it is used"
        )

    @property
    def client_id(self) -> str:
        """The name that brokers see; before `start` what the settings say, empty if nothing."""
        measured = self._measured
        if measured is not None:
            return measured.client_id
        return "" if self._config is None else self._config.client_id

    def metrics(self) -> Metrics:
        """What the producer has counted of itself, as `Producer.metrics`.

        An engine that is shared counts for all who share it.

        Returns:
            Values by name, by group; nothing before `start`, when there is nothing to count.

        Thread-safety: any thread; after `close`, too.
        """
        measured = self._measured
        return {} if measured is None else measured.metrics()

    async def start(self) -> None:
        """Begin; a producer that has begun goes on. Does not wait for brokers: sends do.

        Raises:
            ClosedError: It was closed.
        """
        self._check_initialised()
        with self._start_lock:
            if self._is_closed:
                raise ClosedError("the producer is closed; make another")
            if self.engine is None:
                engine = Producer(self._given)
                self._parts = engine.parts()
                self.engine = self._measured = engine

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,  # noqa: ANN401 - what serializers take
        key: Any = None,  # noqa: ANN401
        **more: Any,  # noqa: ANN401
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged.

        Args:
            topic: As for `send`.
            value: As for `send`.
            key: As for `send`.
            more: As for `send`.

        Returns:
            Where the record is.

        Raises:
            KprodError: As `send` raises, or as ended the send; its `persistence` says whether the
                record may be in the log.
        """
        return await (await self.send(topic, value, key, **more))

    async def send_many(  # noqa: PLR0913 - what a record is made of
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        headers: Iterable[Any] | None = None,
        partitions: Iterable[int | None] | None = None,
        timestamps_ms: Iterable[int | None] | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> SendReceipt:
        """Hand over many records, as `Producer.send_many`, in a thread of its own.

        Iterables are read, and serializers called, in that thread. Cancelled, the call stops soon,
        at the latest when it has room for its next record; what was accepted until then is sent.

        Args:
            topic: Name of the topic.
            values: One for each record.
            keys: As many, or None.
            headers: As many, or None.
            partitions: As many, or None.
            timestamps_ms: As many, or None.
            on_delivery: Called for each record, on the sender's thread.

        Returns:
            One receipt for all, when all are accepted; await it for their fates.

        Raises:
            Exception: As `Producer.send_many`; the attribute `receipt` has what was accepted.
            ClosedError: It is not open.
        """
        return await self._in_bulk(
            lambda engine: engine.send_many(
                topic,
                values,
                keys=keys,
                headers=headers,
                partitions=partitions,
                timestamps_ms=timestamps_ms,
                on_delivery=on_delivery,
            )
        )

    async def send_arrow(  # noqa: PLR0913 - what a record is made of
        self,
        topic: str,
        data: Any,  # noqa: ANN401 - whoever has the Arrow PyCapsule interface
        *,
        value: str | None = "value",
        key: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
    ) -> SendReceipt:
        """Hand over the rows of a table, as `Producer.send_arrow`, in a thread of its own.

        Cancelled, the call stops soon, at the latest when it has room for its next rows; what was
        accepted until then is sent.

        Args:
            topic: Name of the topic.
            data: Has `__arrow_c_stream__` or `__arrow_c_array__`.
            value: Name of the column of values, or None, which makes every row a tombstone.
            key: Name of the column of keys, or None.
            headers: Name of the column of headers, or None.
            partition: Name of the column of partitions, or None.
            timestamp: Name of the column of timestamps, or None.

        Returns:
            One receipt for all rows, when all are accepted; await it for their fates.

        Raises:
            Exception: As `Producer.send_arrow`; the attribute `receipt` has what was accepted.
            ClosedError: It is not open.
        """
        return await self._in_bulk(
            lambda engine: engine.send_arrow(
                topic,
                data,
                value=value,
                key=key,
                headers=headers,
                partition=partition,
                timestamp=timestamp,
            )
        )

    async def flush(self, timeout: float | None = None) -> int:  # noqa: ASYNC109 - as Producer.flush
        """Send everything that was accepted before this call, without waiting for linger.

        Args:
            timeout: Seconds; None waits until all is settled, which `delivery_timeout_ms` bounds.

        Returns:
            How many of those records are not delivered: failed, or not settled in time. 0 is
            success.

        Raises:
            ClosedError: It is not started.
        """
        self._needed()
        return await self._flush(timeout)

    async def _flush(self, timeout: float | None) -> int:  # noqa: ASYNC109 - as above
        assert self._parts is not None  # noqa: S101 - the caller knows
        covered = self._parts.start_flush()
        try:
            async with asyncio.timeout(timeout):
                await FinishWait([result for result, _ in covered])
        except TimeoutError:
            pass
        return sum(result.failed_count(count) for result, count in covered)

    async def close(self, timeout: float | None = None) -> int:  # noqa: ASYNC109 - as Producer.close
        """Flush, then end the engine, unless it is shared. Later sends raise `ClosedError`.

        Cancelled, it goes on closing in the background.

        Args:
            timeout: Seconds for the flush; None waits until all is settled.

        Returns:
            How many records were not delivered by this call. 0 is success.
        """
        self._check_initialised()
        with self._start_lock:
            engine = self.engine
            self._is_closed = True
        if engine is None:
            return 0
        if self._shares_engine:
            self.engine = None
            return await self._flush(timeout)
        return await in_own_thread(lambda: engine.close(timeout), f"kprod-close-{engine.client_id}")

    async def purge(self) -> int:
        """Drop every record that is certainly not in the log and not on its way there.

        Returns:
            How many records were dropped; their futures fail with `Purged`.

        Raises:
            ClosedError: It is not open.
        """
        self._needed()
        assert self.engine is not None  # noqa: S101 - needed, and there
        return await in_own_thread(self.engine.purge, f"kprod-purge-{self.engine.client_id}")

    def __repr__(self) -> str:
        name = type(self).__name__
        made = self.__dict__
        if "_measured" not in made:
            return f"<{name}, not made: its __init__ has not run>"
        engine, config = made["_measured"], made["_config"]
        if engine is None:
            servers = shown_addresses(config.bootstrap_servers)
            state = "closed" if made["_is_closed"] else "not started"
            return f"<{name} {self.client_id!r}, {state}, bootstrap_servers={servers!r}>"
        state = "closed" if made["_is_closed"] else "started"
        return f"<{name}, {state}, {'shares' if made['_shares_engine'] else 'has'} {engine!r}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        undelivered = await self.close()
        if undelivered and error is None:
            records = plural(undelivered, "record was", "records were")
            _logger.warning("%s: %d %s not delivered", self.client_id, undelivered, records)

    # What the compiled path leaves to Python.

    async def wait_and_send(self, sending: Sending) -> RecordFuture:
        """Wait for what a send misses, as often as something is missing."""
        assert self._parts is not None  # noqa: S101 - an attempt was made
        parts = self._parts
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + parts.max_block_ms / 1000
        while True:
            left_ms = int((ends_s - loop.time()) * 1000)
            if not sending.knows_topic:
                await wait_through(parts.opener.opening(sending.topic, left_ms), parts.metadata)
            elif not sending.knows_partition:
                await self._find_partition(parts, sending, left_ms)
            else:
                future = await self._line(parts).send(sending, left_ms / 1000)
                if future is not None:
                    return future

    async def _find_partition(self, parts: EngineParts, sending: Sending, left_ms: int) -> None:
        assert sending.partition is not None  # noqa: S101 - it is not known
        head = parts.topics[sending.topic]
        steps = parts.opener.finding(head, sending.partition, left_ms)
        await wait_through(steps, parts.metadata)

    async def _in_bulk(self, call: Callable[[Producer], SendReceipt]) -> SendReceipt:
        self._needed()
        engine = self.engine
        assert engine is not None  # noqa: S101 - needed, and there
        is_wanted = True

        def check() -> None:
            if not is_wanted:
                raise asyncio.CancelledError

        def run() -> SendReceipt:
            with stoppable(check):
                return call(engine)

        try:
            return await in_own_thread(run, f"kprod-bulk-{engine.client_id}")
        finally:
            is_wanted = False

    def _line(self, parts: EngineParts) -> RoomLine:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = RoomLine(parts.pool)
        return line

    def _needed(self) -> EngineParts:
        self._check_initialised()
        if self._parts is None or self.engine is None:
            raise not_open()
        return self._parts
