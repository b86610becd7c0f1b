"""The producer for asyncio, as an application sees it.

`AsyncProducer` holds no delivery logic: it is the same engine, with another way to wait
(`kprod.aio.async_engine`). A subclass may use any name but `_kprod` for its own purposes.

Thread-safety: any number of event loops, in as many threads, may share a producer.
Source: aiokafka 0.14 for the names.
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from kprod._core.aio.async_send import AsyncSendMethod
from kprod.aio.async_engine import AsyncEngine
from kprod.config import given_settings
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Metrics
from kprod.model import RecordMetadata
from kprod.producer.health import ProducerHealth
from kprod.producer.interceptors import OnDelivery
from kprod.producer.producer import Producer
from kprod.producer.receipt import SendReceipt
from kprod.wording import plural

if TYPE_CHECKING:
    from kprod.config.producer_settings import ProducerSettings

_logger = guarded_logger(__name__)


class AsyncProducer(AsyncSendMethod):
    """Sends records to Kafka from asyncio, and says of each what became of it.

    Example:
        async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("orders", b"an order", key=b"customer")
            print(await future)

    Args:
        settings: Settings by their Kafka names, such as `{"linger.ms": 5}`.
        engine: A producer to share instead of creating one; then there must be no settings, and
            closing only flushes it.
        more_settings: Settings by their Python names, such as `linger_ms=5`.

    Raises:
        ConfigError: A setting is unknown, malformed or out of bounds.
        TypeError: Settings beside an engine that has its own, or `settings` is not a mapping.

    Thread-safety: any number of event loops and threads; any event loop of asyncio's kind.
    """

    _kprod: AsyncEngine  # None until `__init__` has run

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        /,
        *,
        engine: Producer | None = None,
        **more_settings: "Unpack[ProducerSettings]",
    ) -> None:
        if self._kprod is not None:
            raise RuntimeError("AsyncProducer.__init__ was called twice; make another one")
        given = given_settings("AsyncProducer", settings, more_settings)
        del settings, more_settings  # as in Producer
        super().__init__(AsyncEngine(given, engine))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an AsyncProducer cannot be pickled or copied, since it owns a thread and connections;"
            " pass its settings on, and make an AsyncProducer where it is used"
        )

    @property
    def client_id(self) -> str:
        """The name that brokers see; before `start` what the settings say, empty if nothing."""
        return _engine_of(self).client_id

    def metrics(self) -> Metrics:
        """The producer's metrics, as in `Producer.metrics`.

        A shared engine counts for all producers that share it.

        Returns:
            Values by name, by group; nothing before `start`, when there is nothing to count.

        Thread-safety: any thread, also after `close`.
        """
        return _engine_of(self).metrics()

    def health(self) -> ProducerHealth:
        """Whether records are taken, and whether a broker is connected, as `Producer.health`.

        Returns:
            The current state.

        Thread-safety: any thread; before `start` and after `close`, too.
        """
        return _engine_of(self).health()

    async def start(self) -> None:
        """Start; no effect on a started producer. Does not wait for brokers: sends do.

        Raises:
            ClosedError: It was closed.
        """
        _engine_of(self).start()

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
            Topic, partition, offset and timestamp of the acknowledged record.

        Raises:
            KprodError: The send failed, as for `send`; its `persistence` says whether the record
                may be in the log.
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
        """Send many records, as `Producer.send_many`, in a thread of its own.

        Iterables are read, and serializers called, in that thread. Cancelled, the call stops soon,
        at the latest when it has room for its next record; records accepted until then are sent.

        Args:
            topic: Name of the topic.
            values: The records' values.
            keys: The same number, or None.
            headers: The same number, or None.
            partitions: The same number, or None.
            timestamps_ms: The same number, or None.
            on_delivery: Called for each record, on the sender's thread.

        Returns:
            One receipt for all, when all are accepted; await it for their outcomes.

        Raises:
            Exception: As for `Producer.send_many`; the attribute `receipt` has the receipt of the
                accepted records.
            ClosedError: It is not open.
        """
        engine = _engine_of(self)
        others = {
            "keys": keys,
            "headers": headers,
            "partitions": partitions,
            "timestamps_ms": timestamps_ms,
        }
        return await engine.in_bulk(
            lambda producer: producer.send_many(topic, values, on_delivery=on_delivery, **others)
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
        """Send the rows of a table, as `Producer.send_arrow`, in a thread of its own.

        Cancelled, the call stops soon, at the latest when it has room for its next rows; the rows
        accepted until then are sent.

        Args:
            topic: Name of the topic.
            data: An object with `__arrow_c_stream__` or `__arrow_c_array__`.
            value: Name of the column of values, or None, which makes every row a tombstone.
            key: Name of the column of keys, or None.
            headers: Name of the column of headers, or None.
            partition: Name of the column of partitions, or None.
            timestamp: Name of the column of timestamps, or None.

        Returns:
            One receipt for all rows, when all are accepted; await it for their outcomes.

        Raises:
            Exception: As for `Producer.send_arrow`; the attribute `receipt` has the receipt of the
                accepted records.
            ClosedError: It is not open.
        """
        engine = _engine_of(self)
        names = {
            "value": value,
            "key": key,
            "headers": headers,
            "partition": partition,
            "timestamp": timestamp,
        }
        return await engine.in_bulk(lambda producer: producer.send_arrow(topic, data, **names))

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
        return await _engine_of(self).flush(timeout)

    async def close(self, timeout: float | None = None) -> int:  # noqa: ASYNC109 - as Producer.close
        """Flush, then end the engine, unless it is shared. Later sends raise `ClosedError`.

        Cancelled, it continues closing in the background.

        Args:
            timeout: Seconds for the flush; None waits until all is settled.

        Returns:
            How many records were not delivered by this call. 0 is success.
        """
        return await _engine_of(self).close(timeout)

    async def purge(self) -> int:
        """Drop all records that are certainly not in the log and not in flight.

        Returns:
            How many records were dropped; their futures fail with `Purged`.

        Raises:
            ClosedError: It is not open.
        """
        return await _engine_of(self).purge()

    def __repr__(self) -> str:
        name = type(self).__name__
        engine: AsyncEngine | None = self._kprod
        if engine is None:
            return f"<{name}, not made: its __init__ has not run>"
        return engine.described_as(name)

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
            client_id = _engine_of(self).client_id
            _logger.warning("%s: %d %s not delivered", client_id, undelivered, records)


def _engine_of(producer: AsyncProducer) -> AsyncEngine:
    """Return the engine of a producer; raises if its `__init__` has not run."""
    engine: AsyncEngine | None = producer._kprod  # noqa: SLF001 - the one access
    if engine is None:
        raise RuntimeError(
            "AsyncProducer.__init__ was not called, or it failed; a subclass calls"
            " super().__init__(...) before anything else"
        )
    return engine
