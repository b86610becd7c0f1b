"""Many records in one call: what an application calls, and what is refused before anything is sent.

The loop is compiled (`kprod._core.bulk`); every record goes the way of `send`.

Thread-safety: any thread.
Source: kafka-python's `send` for the names of what a record is made of.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sized
from typing import Any, NoReturn

from kprod._core.append import SendPath
from kprod._core.arrow_rows import ArrowRows
from kprod._core.arrow_send import ArrowCall
from kprod._core.arrow_source import ArrowSource
from kprod._core.bulk import BulkCall, Column
from kprod._core.send_hooks import not_initialised
from kprod.errors import KprodError
from kprod.model import RecordMetadata
from kprod.producer.receipt import SendReceipt

OnDelivery = Callable[[RecordMetadata | None, KprodError | None], object]

_call = threading.local()

# What can be iterated and never means one item for each record.
_SCALARS = (str, bytes, bytearray, memoryview, Mapping)


class BulkSendPath(SendPath):
    """A send path that takes many records in one call."""

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
        is counted with its error in the receipt's `failures`, and the others go on.

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

        Whatever ends the call early, an iterable's own exceptions too, has the receipt of what was
        accepted until then in its attribute `receipt`.

        Thread-safety: any thread.
        """
        columns = {
            "keys": keys,
            "headers": headers,
            "partitions": partitions,
            "timestamps_ms": timestamps_ms,
        }
        _check_lengths({"values": values, **columns})
        given = _column("values", values)
        others = [None if c is None else _column(role, c) for role, c in columns.items()]
        call = BulkCall(self, topic, on_delivery)
        receipt = SendReceipt(call.head.name, call.tally)
        with _answering(receipt):
            call.run(given, others)
        return receipt

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
        the others go on.

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

        What is wrong with the schema is raised before anything is sent. Whatever ends the call
        later has the receipt of what was accepted until then in its attribute `receipt`.

        Thread-safety: any thread.
        """
        names = {
            "value": value,
            "key": key,
            "headers": headers,
            "partition": partition,
            "timestamp": timestamp,
        }
        call = ArrowCall(self, topic, ArrowRows(ArrowSource(data), names))
        receipt = SendReceipt(call.head.name, call.tally)
        with _answering(receipt):
            call.run_table()
        return receipt

    def breathe(self) -> None:
        """Let signal handlers and other threads have a turn, as entering any function does.

        A call that was made `stoppable` may end here.
        """
        check = getattr(_call, "check", None)
        if check is not None:
            check()

    def _check_initialised(self) -> None:
        if self.refusal is not_initialised:
            raise self.refusal()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Producer cannot be pickled or copied, since it owns a thread and connections; pass"
            " its settings on, and make a Producer where it is used"
        )


@contextlib.contextmanager
def stoppable(check: Callable[[], object]) -> Generator[None, None, None]:
    """Let a bulk send of this thread be ended from elsewhere, between two of its records.

    Args:
        check: Called every some thousand records; what it raises ends the call.

    Yields:
        Nothing.
    """
    _call.check = check
    try:
        yield
    finally:
        del _call.check


def _check_lengths(columns: Mapping[str, object]) -> None:
    """Refuse columns whose lengths are known and differ."""
    lengths = {role: len(column) for role, column in columns.items() if isinstance(column, Sized)}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{role} {length}" for role, length in lengths.items())
        raise ValueError(
            f"each record needs one of each, and the lengths differ: {told}; for one item for all"
            " records, give itertools.repeat(item)"
        )


def _column(role: str, items: Iterable[Any]) -> Column:
    if isinstance(items, _SCALARS):
        raise TypeError(
            f"{role} must be an iterable with one item for each record, got"
            f" {type(items).__name__}; for one item for all records, give itertools.repeat(item)"
        )
    return Column(items, role)


@contextlib.contextmanager
def _answering(receipt: SendReceipt) -> Generator[None, None, None]:
    """Close the account when the call ends, and hand it over if that is too early."""
    try:
        yield
    except BaseException as error:
        error.receipt = receipt  # type: ignore[attr-defined]  # an exception takes any attribute
        raise
    finally:
        receipt.seal()
