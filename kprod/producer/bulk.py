"""Bulk sends: checks the arguments before anything is sent, and returns the receipt.

The loop is compiled (`kprod._core.send.bulk_send`); every record is treated as by `send`.

Thread-safety: any thread.
Source: kafka-python's `send` for the names of a record's parts.
"""

import contextlib
from collections.abc import Generator, Iterable, Mapping, Sized
from typing import Any

from kprod._core.arrow.arrow_rows import ArrowRows
from kprod._core.arrow.arrow_send import ArrowCall
from kprod._core.arrow.arrow_source import ArrowSource
from kprod._core.send.bulk_columns import Column
from kprod._core.send.bulk_send import BulkCall
from kprod._core.send.send_path import SendPath
from kprod.producer.interceptors import OnDelivery
from kprod.producer.receipt import SendReceipt

# Iterable types that never mean one item for each record.
_SCALARS = (str, bytes, bytearray, memoryview, Mapping)


def send_many(
    path: SendPath,
    topic: str,
    values: Iterable[Any],
    others: Mapping[str, Iterable[Any] | None],
    *,
    on_delivery: OnDelivery | None,
) -> SendReceipt:
    """Implement `Producer.send_many`.

    Args:
        path: The producer's send path.
        topic: Name of the topic.
        values: The records' values.
        others: Keys, headers, partitions and timestamps, in this order, by argument name.
        on_delivery: Called for each record.

    Returns:
        The receipt of all records.
    """
    _check_lengths({"values": values, **others})
    given = _column("values", values)
    beside = [None if c is None else _column(role, c) for role, c in others.items()]
    call = BulkCall(path, topic, on_delivery)
    with _receipt_of(call) as receipt:
        call.run(given, beside)
    return receipt


def send_arrow(
    path: SendPath,
    topic: str,
    table: Any,  # noqa: ANN401 - whoever has the Arrow PyCapsule interface
    names: Mapping[str, str | None],
) -> SendReceipt:
    """Implement `Producer.send_arrow`.

    Args:
        path: The producer's send path.
        topic: Name of the topic.
        table: An object with `__arrow_c_stream__` or `__arrow_c_array__`.
        names: Column names by role.

    Returns:
        The receipt of all rows.
    """
    call = ArrowCall(path, topic, ArrowRows(ArrowSource(table), names))
    with _receipt_of(call) as receipt:
        call.run_table()
    return receipt


class ArrowFeed:
    """One bulk send of tables that come one after the other; batches stay open between them.

    A table of a megabyte would end a small batch in each partition if it were sent alone. And its
    rows are copied while the processor's caches still have them.

    `end` must be called in any case: until then the last batches are not sent.

    Thread-safety: a feed belongs to one thread.

    Args:
        path: The producer's send path.
        topic: Name of the topic.
        names: Column names by role; every table must have these columns.
    """

    __slots__ = ("_call", "_names", "_path", "_topic")

    def __init__(self, path: SendPath, topic: str, names: Mapping[str, str | None]) -> None:
        self._path = path
        self._topic = topic
        self._names = names
        self._call: ArrowCall | None = None

    def send(self, table: Any) -> None:  # noqa: ANN401 - as in `send_arrow`
        """Append the rows of a table.

        Args:
            table: An object with `__arrow_c_stream__` or `__arrow_c_array__`.

        Raises:
            KprodError: No further record can be appended.
        """
        rows = ArrowRows(ArrowSource(table), self._names)
        if self._call is None:
            self._call = ArrowCall(self._path, self._topic, rows)
        self._call.append(rows)

    def end(self) -> SendReceipt | None:
        """Send the last batches.

        Returns:
            The receipt of all rows; None if there was no table.
        """
        call, self._call = self._call, None
        if call is None:
            return None
        with _receipt_of(call) as receipt:
            call.end()
        return receipt


def _check_lengths(columns: Mapping[str, object]) -> None:
    """Reject columns whose known lengths differ."""
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
def _receipt_of(call: BulkCall) -> Generator[SendReceipt, None, None]:
    """Close the account when the call ends; an exception gets the receipt as an attribute."""
    receipt = SendReceipt(call.routes.name, call.account)
    try:
        yield receipt
    except BaseException as error:
        error.receipt = receipt  # type: ignore[attr-defined]  # an exception takes any attribute
        raise
    finally:
        call.account.seal()
