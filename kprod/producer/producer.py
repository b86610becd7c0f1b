"""The producer as an application sees it: send, flush, close.

`send` is compiled (`SendMethod`); everything else is asked of the engine, which
`kprod.producer.wiring` makes. A subclass may use any name but `_kprod` for its own purposes.

Thread-safety: `Producer` may be used by any number of threads.
Source: Kafka KafkaProducer (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from kprod._core.send.send_hooks import not_initialised
from kprod._core.send.send_path import SendMethod
from kprod.config import ProducerConfig, given_settings
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Metrics
from kprod.producer import future as _future  # registers the future's bridges
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


class _ClientId:
    """The client id that brokers see."""

    # Neither a property, since a subclass may have an attribute of this name, nor a
    # cached one, whose lock (Python 3.11) a forked child would inherit held.
    def __get__(self, producer: "Producer | None", kind: type | None = None) -> Any:  # noqa: ANN401
        return self if producer is None else engine_of(producer).client_id

    def __repr__(self) -> str:
        return "<the name that brokers see, a text>"  # what `help(Producer)` shows


class Producer(SendMethod):
    """Sends records to Kafka in the background, and says of each what became of it.

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
        TypeError: `settings` is no mapping, such as an address alone.

    Thread-safety: any thread may send, flush and close.
    """

    _kprod: ProducerEngine  # None until `__init__` has run

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
        config = ProducerConfig.parse(given_settings("Producer", settings, more_settings))
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
        """Hand over many records, each as `send` would take it; they are sent in the background.

        Iterables are read one record at a time, never ahead, so a generator of any length will do.
        Waits as `send` does: at most `max_block_ms` for each record.

        A record that `send` would refuse (a wrong type, a partition that does not exist, too large)
        is counted with its error in the receipt's `failures`, and the others continue.

        Args:
            topic: Name of the topic.
            values: One for each record: bytes-like, or None for a tombstone; anything at all with a
                `value_serializer`.
            keys: As many: bytes-like or None.
            headers: As many: pairs of a str and bytes-like or None, a mapping of them, or None.
            partitions: As many: 0-based; None lets the key or the partitioner decide.
            timestamps_ms: As many: milliseconds since 1970; None is now.
            on_delivery: Called as `on_delivery(metadata, error)` on the sender's thread for each
                record that was not refused, once it is settled.

        Returns:
            One receipt for all.

        Raises:
            TypeError: An argument is not iterable, or is one item where many are meant.
            ValueError: Arguments of different lengths, or an illegal topic name. Of iterables
                without a length only one that ends too early is an error, when it does.
            UnknownTopic: The cluster does not know the topic, and does not create it.
            MetadataTimeout: The topic's partitions could not be learnt within `max_block_ms`.
            BufferTimeout: No memory came free within `max_block_ms`.
            ClosedError: The producer is closed, or was made in a parent process.

        Whatever ends the call early, an iterable's own exceptions too, has the receipt of the
        records accepted until then in its attribute `receipt`.

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
        """Hand over the rows of a table, each as one record; they are sent in the background.

        Takes whatever has Arrow's PyCapsule interface: tables, record batches and streams of
        pyarrow, polars, DuckDB, pandas. A stream is read one array at a time. Waits as `send` does.

        Columns are sent as they are: serializers are not called. A null value is a tombstone, a
        null key none; a null partition, timestamp or list of headers is as if there were no such
        column. Interceptors, and a partitioner of the application's, see each record, at
        `send_many`'s speed.

        A row that `send` would refuse is counted with its error in the receipt's `failures`, and
        the others continue.

        Args:
            topic: Name of the topic.
            data: Has `__arrow_c_stream__` or `__arrow_c_array__`.
            value: Name of the column of values: binary or string of any kind, dictionaries of them,
                or fixed-size binary. None makes every row a tombstone.
            key: Name of the column of keys, of the same types.
            headers: Name of a column of lists of structs of `key` and `value`, or of maps.
            partition: Name of a column of integers.
            timestamp: Name of a column of timestamps of any unit, or of integers in milliseconds
                since 1970.

        Returns:
            One receipt for all rows.

        Raises:
            TypeError: Not a table, or a column's type cannot be sent; the text has the remedy.
            ValueError: There is no such column, an array is broken, or an illegal topic name.
            SerializationError: The stream failed.
            UnknownTopic: The cluster does not know the topic, and does not create it.
            MetadataTimeout: The topic's partitions could not be learnt within `max_block_ms`.
            BufferTimeout: No memory came free within `max_block_ms`.
            ClosedError: The producer is closed, or was made in a parent process.

        A mistake in the schema is raised before anything is sent. Whatever ends the call
        later has the receipt of the records accepted until then in its attribute `receipt`.

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
        """Send everything that was handed over before this call, without waiting for linger.

        Args:
            timeout: Seconds; None waits until all is settled, which `delivery_timeout_ms` bounds.

        Returns:
            How many of those records failed or were not settled in time. 0 is success.

        Raises:
            KprodError: Called from a delivery callback, which would wait for itself.
            ProducerForked: This is a forked child.
        """
        return engine_of(self).flush(timeout)

    def purge(self) -> int:
        """Drop every record that is certainly not in the log and not on its way there.

        Their futures fail with `Purged`, as not persisted. A record in flight, or possibly in the
        log, continues, and is settled later: so of one partition a dropped record's callback may
        run before that of a record sent earlier.

        Returns:
            How many records were dropped.

        Raises:
            ClosedError: The producer is closed, or was made in a parent process.
        """
        return engine_of(self).purge()

    def close(self, timeout: float | None = None) -> int:
        """Flush, then end the sender and all connections. Later sends raise `ClosedError`.

        A signal handler that raises into it (Ctrl-C) ends the waiting, not the records: they
        continue, and `close` may be called again, as the end of the interpreter does.

        Inside a delivery callback it waits for nothing: the sender ends when the callbacks at hand
        have run; records not settled by then fail.

        Args:
            timeout: Seconds for the flush; records not settled by then fail, and `close` returns
                within another half second even if a callback does not. None waits until all is
                settled and every callback has returned.

        Returns:
            How many records were not delivered by this call, or, inside a delivery callback, how
            many are not settled yet. 0 is success.

        Raises:
            ValueError: The timeout is negative or no number; nothing has happened.
            RuntimeError: `__init__` has not run, in a subclass that does not call it.
        """
        return engine_of(self).close(timeout)

    def metrics(self) -> Metrics:
        """What the producer has counted of itself, under the names of Kafka's own producer.

        `docs/metrics.md` lists them. Averages, maxima and rates are over the last 30 to 60 s; an
        average or maximum of nothing is NaN.

        Returns:
            Values by name, by group: `metrics()["producer-metrics"]["record-send-total"]`; a topic
            and a node have groups of their own, `producer-topic-metrics.orders` and
            `producer-node-metrics.node-1`.

        Thread-safety: any thread; after `close`, too.
        """
        return engine_of(self).metrics()

    def health(self) -> ProducerHealth:
        """Whether records are taken, and whether a broker is connected: for probes.

        It asks no broker and never blocks. `docs/production.md` has probes for Kubernetes.

        Returns:
            The state as it is now.

        Thread-safety: any thread; after `close`, too.
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
        producer: Of this class or a subclass.

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
