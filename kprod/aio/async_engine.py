"""Uses a producer's engine from asyncio: the same engine, with waits that do not block the loop.

Records are appended by the engine's own compiled path, in the task that sends them; whatever a
thread would sleep for, a task waits for in its loop: a topic's partitions, room in the buffer, a
batch's outcome. The engine's sender thread is the same one, so a loop is never held up by the
network, nor the network by a loop.

Thread-safety: any number of event loops, in as many threads.
Source: kprod's departure 22.
"""

import asyncio
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from kprod._core.aio.async_send import AsyncSendPath, Sending, not_open
from kprod._core.outcome.record_future import RecordFuture
from kprod.aio.memory_wait_queue import MemoryWaitQueue
from kprod.aio.producer_waits import until_finished, wait_through
from kprod.aio.task_waits import in_own_thread
from kprod.config import ProducerConfig
from kprod.config.address import shown_addresses
from kprod.errors import ClosedError
from kprod.metrics.recorder import Metrics
from kprod.producer.health import ProducerHealth
from kprod.producer.producer import Producer, engine_of
from kprod.producer.producer_engine import ProducerEngine
from kprod.producer.receipt import SendReceipt
from kprod.producer.send_support import stoppable
from kprod.threads import make_lock


class AsyncEngine(AsyncSendPath):
    """One asynchronous producer without its public face.

    Attributes:
        engine: The producer's engine; None before the start. It is kept after the close, for its
            metrics.
    """

    def __init__(self, given: Mapping[str, object], shared: Producer | None) -> None:
        """Check the arguments; nothing runs yet.

        Args:
            given: Settings by any of their names.
            shared: A producer whose engine is used; then there must be no settings.

        Raises:
            TypeError: Settings beside an engine that has its own, or `shared` is not a Producer.
        """
        self._config: ProducerConfig | None = None
        if shared is None:
            self._config = ProducerConfig.parse(given)  # mistakes are reported here, not at start
        elif not isinstance(shared, Producer):
            raise TypeError(f"engine must be a kprod.Producer, got {type(shared).__name__}")
        elif given:
            raise TypeError(f"an engine has its own settings; not used: {', '.join(given)}")
        self._given = given
        self._is_shared = shared is not None
        self._producer: Producer | None = None  # whose engine it is; a subclass may do more
        self._is_closed = False
        self._start_lock = make_lock()  # guards: the change of `engine`, and `_is_closed`
        self.engine: ProducerEngine | None = None
        # One for each loop with waiting tasks; the waiting tasks keep it.
        self._lines: WeakValueDictionary[asyncio.AbstractEventLoop, MemoryWaitQueue] = (
            WeakValueDictionary()
        )
        if shared is not None:
            self._adopt(shared)

    def _adopt(self, producer: Producer) -> None:
        """Open, with a producer's engine."""
        self._producer = producer
        self.engine = engine_of(producer)
        self.send_path = self.engine.path

    @property
    def client_id(self) -> str:
        """See `AsyncProducer.client_id`."""
        if self.engine is not None:
            return self.engine.client_id
        return "" if self._config is None else self._config.client_id

    def metrics(self) -> Metrics:
        """See `AsyncProducer.metrics`."""
        return {} if self._producer is None else self._producer.metrics()

    def health(self) -> ProducerHealth:
        """See `AsyncProducer.health`."""
        if self._producer is not None and not self._is_closed:
            return self._producer.health()
        reason = "the producer is closed" if self._is_closed else "the producer is not started"
        return ProducerHealth(is_alive=False, is_connected=False, reason=reason)

    def start(self) -> None:
        """See `AsyncProducer.start`."""
        with self._start_lock:
            if self._is_closed:
                raise ClosedError("the producer is closed; make another")
            if self.engine is None:
                self._adopt(Producer(self._given))

    async def flush(self, timeout: float | None) -> int:  # noqa: ASYNC109 - as Producer.flush
        """See `AsyncProducer.flush`."""
        return await _flush(self._open_engine(), timeout)

    async def close(self, timeout: float | None) -> int:  # noqa: ASYNC109 - as Producer.close
        """See `AsyncProducer.close`."""
        with self._start_lock:
            engine, self._is_closed = self.engine, True
            is_open = self.send_path is not None
        if engine is None or not is_open:
            return 0
        if self._is_shared:
            self.send_path = None
            return await _flush(engine, timeout)
        return await in_own_thread(lambda: engine.close(timeout), f"kprod-close-{engine.client_id}")

    async def purge(self) -> int:
        """See `AsyncProducer.purge`."""
        producer = self._open_producer()
        return await in_own_thread(producer.purge, f"kprod-purge-{self.client_id}")

    async def in_bulk(self, call: Callable[[Producer], SendReceipt]) -> SendReceipt:
        """Run a bulk call in a separate thread; a cancellation ends it soon.

        Args:
            call: Function of the producer that accepts the records.

        Returns:
            The function's result; its exceptions are passed on.

        Raises:
            ClosedError: It is not open.
        """
        producer = self._open_producer()
        is_wanted = True

        def check() -> None:
            if not is_wanted:
                raise asyncio.CancelledError

        def run() -> SendReceipt:
            with stoppable(check):
                return call(producer)

        try:
            return await in_own_thread(run, f"kprod-bulk-{self.client_id}")
        finally:
            is_wanted = False

    def described_as(self, name: str) -> str:
        """Describe the producer and its state for people.

        Args:
            name: Name of the public class.

        Returns:
            The `repr` of the public object.
        """
        if self._producer is None:
            assert self._config is not None  # noqa: S101 - settings, or an engine from the first
            servers = shown_addresses(self._config.bootstrap_servers)
            state = "closed" if self._is_closed else "not started"
            # The engine numbers clients without an id, and there is none yet.
            named = f"{name} {self.client_id!r}" if self.client_id else name
            return f"<{named}, {state}, bootstrap_servers={servers!r}>"
        if self._is_shared:
            state = "closed" if self._is_closed else "open"
            return f"<{name}, {state}, shares {self._producer!r}>"
        return engine_of(self._producer).described_as(name)

    async def wait_and_send(self, sending: Sending) -> RecordFuture:
        """Wait for what a send misses, as often as something is missing."""
        engine = self.engine
        assert engine is not None  # noqa: S101 - an attempt was made
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + engine.config.max_block_ms / 1000
        while True:
            left_ms = int((ends_s - loop.time()) * 1000)
            if not sending.knows_topic:
                await wait_through(engine.opener.opening(sending.topic, left_ms), engine.metadata)
            elif not sending.knows_partition:
                await _find_partition(engine, sending, left_ms)
            else:
                future = await self._line(engine).send(sending, left_ms / 1000)
                if future is not None:
                    return future

    def _line(self, engine: ProducerEngine) -> MemoryWaitQueue:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = MemoryWaitQueue(engine.pool)
        return line

    def _open_producer(self) -> Producer:
        if self._producer is None or self.send_path is None:
            raise not_open()
        return self._producer

    def _open_engine(self) -> ProducerEngine:
        if self.engine is None or self.send_path is None:
            raise not_open()
        return self.engine


async def _flush(engine: ProducerEngine, timeout: float | None) -> int:  # noqa: ASYNC109 - as above
    covered = engine.start_flush()
    try:
        async with asyncio.timeout(timeout):
            await until_finished(result for result, _ in covered)
    except TimeoutError:
        pass
    return sum(result.failed_count(count) for result, count in covered)


async def _find_partition(engine: ProducerEngine, sending: Sending, left_ms: int) -> None:
    assert sending.partition is not None  # noqa: S101 - it is not known
    routes = engine.path.topics[sending.topic]
    steps = engine.opener.finding(routes, sending.partition, left_ms)
    await wait_through(steps, engine.metadata)
