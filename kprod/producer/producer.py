"""The public producer class: send, flush, close.

`send` is compiled (`SendMethod`); other methods delegate to the engine, which
`kprod.producer.wiring` creates. A subclass may use any attribute name except `_kprod`.

Thread-safety: `Producer` may be used by any number of threads.
Source: Kafka KafkaProducer (clients 4.3.1).
"""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from kprod._core.send.send_hooks import not_initialised
from kprod._core.send.send_path import SendMethod
from kprod.config import ProducerConfig, given_settings
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Metrics
from kprod.producer import future as _future  # registers the future's conversions
from kprod.producer.health import ProducerHealth
from kprod.producer.interceptors import OnDelivery
from kprod.producer.producer_engine import ProducerEngine
from kprod.producer.receipt import SendReceipt
from kprod.producer.wiring import Environment, wired
from kprod.wording import plural

if TYPE_CHECKING:
    from kprod.config.producer_settings import ProducerSettings

__all__ = ["Producer", "engine_of"]

_logger = guarded_logger(__name__)
_OWN_NAME = "_kprod"  # the only private attribute of the class
del _future


if TYPE_CHECKING:

    class _CallSend:
        """`produce` is confluent-kafka's name: call `send`, which returns a future."""

    class _NothingToPoll:
        """`poll` is confluent-kafka's: kprod's own thread calls `on_delivery`; leave it out."""


class _ClientId:
    """The client id that brokers see."""

    # Neither a property, since a subclass may have an attribute of this name, nor a
    # cached one, whose lock (Python 3.11) a forked child would inherit held.
    def __get__(self, producer: "Producer | None", kind: type | None = None) -> Any:  # noqa: ANN401
        return self if producer is None else engine_of(producer).client_id

    def __repr__(self) -> str:
        return "<the name that brokers see, a text>"  # what `help(Producer)` shows


class Producer(SendMethod):
    """Sends records to Kafka in the background, and reports the outcome of each.

    Example:
        with Producer(bootstrap_servers="localhost:9092") as producer:
            future = producer.send("orders", b"an order", key=b"customer")
            print(future.result(10))

    Args:
        settings: Settings by their Kafka names, such as `{"linger.ms": 5}`.
        environment: Clock, random source and I/O, which tests and simulations replace.
        more_settings: Settings by their Python names, such as `linger_ms=5`.

    Raises:
        ConfigError: A setting is unknown, malformed or out of bounds.
        TypeError: `settings` is not a mapping, but for example an address.

    Thread-safety: any thread may send, flush and close.
    """

    _kprod: ProducerEngine  # None until `__init__` has run

    if TYPE_CHECKING:
        # A caller of confluent-kafka's names reads the type's name in the checker's error.
        # The union lets a subclass have methods of these names, as it may.
        produce: "_CallSend | Callable[..., Any]"
        poll: "_NothingToPoll | Callable[..., Any]"

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        /,
        *,
        environment: Environment | None = None,
        **more_settings: "Unpack[ProducerSettings]",
    ) -> None:
        if getattr(type(self), _OWN_NAME) is not getattr(SendMethod, _OWN_NAME):
            raise TypeError(
                f"{type(self).__name__} has an attribute _kprod of its own; kprod keeps the"
                " producer behind that name: choose another"
            )
        if self._kprod is not None:
            raise RuntimeError("Producer.__init__ was called twice; make another Producer")
        given = given_settings("Producer", settings, more_settings)
        del settings, more_settings  # secrets: tools may log the local variables of a traceback
        config = ProducerConfig.parse(given)
        world = environment or Environment()
        engine = wired(config, world)
        super().__init__(engine.path, engine)
        engine.start(self, is_threaded=world.is_threaded)

    client_id: _ClientId = _ClientId()

    def send_many(  # noqa: PLR0913 - what a record is made of
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
        """Send many records, each as `send` would; they are sent in the background.

        Iterables are read one record at a time, so a generator of any length is possible. The call
        may wait as `send` does, at most `max_block_ms` for each record.

        A record that `send` would reject (wrong type, nonexistent partition, too large) is listed
        with its error in the receipt's `failures`, and the remaining records are sent.

        Args:
            topic: Name of the topic.
            values: One for each record: bytes-like, or None for a tombstone; any object with a
                `value_serializer`.
            keys: The same number: bytes-like or None.
            headers: The same number: pairs of a str and bytes-like or None, a mapping of them, or
                None.
            partitions: The same number: 0-based; None lets the key or the partitioner decide.
            timestamps_ms: The same number: milliseconds since 1970; None for now.
            on_delivery: Called as `on_delivery(metadata, error)` on the sender's thread for each
                accepted record, once it is settled.

        Returns:
            The receipt of all records.

        Raises:
            TypeError: An argument is not iterable, or is a single item.
            ValueError: The arguments have different lengths, or the topic name is invalid. An
                iterable without a length raises this only when it ends too early.
            UnknownTopic: The cluster does not know the topic, and does not create it.
            MetadataTimeout: The topic's partitions could not be fetched within `max_block_ms`.
            BufferTimeout: No memory was freed within `max_block_ms`.
            ClosedError: The producer is closed, or was created in the parent process.

        Any exception of the call, even one of an iterable, has the receipt of the records accepted
        so far as its attribute `receipt`.

        Thread-safety: any thread.
        """
        others = {
            "keys": keys,
            "headers": headers,
            "partitions": partitions,
            "timestamps_ms": timestamps_ms,
        }
        from kprod.producer import bulk  # noqa: PLC0415 - eleven compiled modules, if asked for

        return bulk.send_many(engine_of(self).path, topic, values, others, on_delivery=on_delivery)

    def send_arrow(  # noqa: PLR0913 - what a record is made of
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
        """Send the rows of a table, each as one record; they are sent in the background.

        Accepts any object with Arrow's PyCapsule interface: tables, record batches and streams of
        pyarrow, polars, DuckDB, pandas. A stream is read one array at a time. The call may wait as
        `send` does.

        Columns are sent unchanged: serializers are not called. A null value is a tombstone, a null
        key is no key; a null partition, timestamp or header list counts as absent. Interceptors,
        and a partitioner of the application, are called for each record, at the speed of
        `send_many`.

        A row that `send` would reject is listed with its error in the receipt's `failures`, and the
        remaining rows are sent.

        Args:
            topic: Name of the topic.
            data: An object with `__arrow_c_stream__` or `__arrow_c_array__`.
            value: Name of the column of values: binary or string of any kind, dictionary-encoded or
                fixed-size binary. None makes every row a tombstone.
            key: Name of the column of keys, of the same types.
            headers: Name of a column of lists of structs of `key` and `value`, or of maps.
            partition: Name of a column of integers.
            timestamp: Name of a column of timestamps of any unit, or of integers in milliseconds
                since 1970.

        Returns:
            The receipt of all rows.

        Raises:
            TypeError: The argument is not a table, or a column's type cannot be sent; the text says
                what to do.
            ValueError: A column does not exist, an array is malformed, or the topic name is
                invalid.
            SerializationError: The stream failed.
            UnknownTopic: The cluster does not know the topic, and does not create it.
            MetadataTimeout: The topic's partitions could not be fetched within `max_block_ms`.
            BufferTimeout: No memory was freed within `max_block_ms`.
            ClosedError: The producer is closed, or was created in the parent process.

        An error in the schema is raised before anything is sent. Any later exception has the
        receipt of the records accepted so far as its attribute `receipt`.

        Thread-safety: any thread.
        """
        names = {
            "value": value,
            "key": key,
            "headers": headers,
            "partition": partition,
            "timestamp": timestamp,
        }
        from kprod.producer import bulk  # noqa: PLC0415 - as in send_many

        return bulk.send_arrow(engine_of(self).path, topic, data, names)

    def flush(self, timeout: float | None = None) -> int:
        """Send all earlier records without waiting for linger, and wait until they are settled.

        Args:
            timeout: Seconds; None waits until all is settled, which `delivery_timeout_ms` bounds.

        Returns:
            The number of those records that failed or were not settled in time; 0 means success.

        Raises:
            KprodError: Called from a delivery callback, which would wait for itself.
            ProducerForked: This is a forked child.
        """
        return engine_of(self).flush(timeout)

    def purge(self) -> int:
        """Drop all records that are certainly not in the log and not in flight.

        Their futures fail with `Purged`, as not persisted. Records in flight, or possibly in the
        log, are not affected and are settled later: so in a partition, the callback of a dropped
        record may run before that of an earlier record.

        Returns:
            The number of dropped records.

        Raises:
            ClosedError: The producer is closed, or was created in the parent process.
        """
        return engine_of(self).purge()

    def close(self, timeout: float | None = None) -> int:
        """Flush, then stop the sender and close all connections. Later sends raise `ClosedError`.

        An exception of a signal handler (Ctrl-C) ends the wait, not the delivery: records are still
        sent, and `close` may be called again, as the interpreter's exit does.

        In a delivery callback it does not wait: the sender ends when the current callbacks have
        run, and records not settled by then fail.

        Args:
            timeout: Seconds for the flush; records not settled by then fail, and `close` returns
                within another half second even if a callback does not. None waits until all records
                are settled and every callback has returned.

        Returns:
            The number of records that this call did not deliver or, in a delivery callback, that
            are not settled yet; 0 means success.

        Raises:
            ValueError: The timeout is negative or not a number; nothing has happened.
            RuntimeError: `Producer.__init__` has not run, since a subclass does not call it.
        """
        return engine_of(self).close(timeout)

    def metrics(self) -> Metrics:
        """Return the producer's metrics, under the names of Kafka's producer.

        `docs/metrics.md` lists them. Averages, maxima and rates cover the last 30 to 60 s; an
        average or maximum without samples is NaN.

        Returns:
            Values by group and name: `metrics()["producer-metrics"]["record-send-total"]`. Each
            topic and node has a group of its own, `producer-topic-metrics.orders` and
            `producer-node-metrics.node-1`.

        Thread-safety: any thread, also after `close`.
        """
        return engine_of(self).metrics()

    def health(self) -> ProducerHealth:
        """Return whether records are accepted, and whether a broker is connected, for probes.

        Sends no request and never blocks. `docs/production.md` has probes for Kubernetes.

        Returns:
            The current state.

        Thread-safety: any thread, also after `close`.
        """
        return engine_of(self).health()

    def __repr__(self) -> str:
        name = type(self).__name__
        engine: ProducerEngine | None = self._kprod
        if engine is None:  # a subclass has not called `__init__`, or it raised
            return f"<{name}, not made: its __init__ has not run to the end>"
        return engine.described_as(name)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Producer cannot be pickled or copied, since it owns a thread and connections; pass"
            " its settings on, and make a Producer where it is used"
        )

    def __enter__(self) -> Self:
        engine_of(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        undelivered = self.close()
        if undelivered:
            records = plural(undelivered, "record was", "records were")
            client_id = engine_of(self).client_id
            _logger.warning("%s: %d %s not delivered", client_id, undelivered, records)


def engine_of(producer: Producer) -> ProducerEngine:
    """Return the engine of a producer.

    Args:
        producer: A `Producer` or an instance of a subclass.

    Returns:
        Its engine.

    Raises:
        RuntimeError: `Consumer.__init__` has not run, since a subclass does not call it.
    """
    engine: ProducerEngine | None = producer._kprod  # noqa: SLF001 - the one access
    if engine is None:
        error: RuntimeError = not_initialised()
        raise error
    return engine
