"""Returns records as Arrow columns, without creating an object for each record.

Keys and values are the records' bytes. Deserializers and interceptors are not called, since they
take objects.

Thread-safety: the polling thread.
Source: the Arrow PyCapsule interface; the column names are those of Spark's Kafka source.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from kprod._core.arrow.arrow_records import ArrowColumns
from kprod.consumer.consumer_engine import ConsumerEngine
from kprod.consumer.record_reading import ReadCall

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMN_BYTES_MAX = 2**31 - 1  # offsets in a binary column have 32 bits


def arrow_call(
    engine: ConsumerEngine,
    *,
    max_rows: int,
    max_bytes: int,
    leader_epoch: bool,
    timestamp_type: bool,
) -> ReadCall[int, "pa.RecordBatch"]:
    """Return the read of `poll_arrow`.

    Args:
        engine: The consumer's engine.
        max_rows: As for `Consumer.poll_arrow`.
        max_bytes: As there.
        leader_epoch: As there.
        timestamp_type: As there.

    Returns:
        The read, which can be made once.

    Raises:
        ClosedError: The consumer is closed, or was created in the parent process.
        ImportError: pyarrow is not installed.
        TypeError, ValueError: An argument is no number, or out of bounds.
    """
    engine.parts.check_open()  # a forked child may never get the lock of an import
    record_batch = _record_batch()
    _check("max_rows", max_rows)
    _check("max_bytes", max_bytes)
    columns = ArrowColumns(leader_epoch=leader_epoch, timestamp_type=timestamp_type)
    take = partial(engine.parts.hand_over.take_columns, columns, max_rows, max_bytes)
    return ReadCall(take, lambda _: record_batch(columns), int)


def _check(name: str, given: object) -> None:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name} is a whole number, not {type(given).__name__}")
    if not 1 <= given <= _COLUMN_BYTES_MAX:
        raise ValueError(f"{name} must be from 1 to {_COLUMN_BYTES_MAX}, not {given}")


def _record_batch() -> Any:  # noqa: ANN401 - pyarrow has no types
    try:
        from pyarrow import record_batch  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(
            "poll_arrow needs pyarrow: pip install 'kprod[arrow]'", name="pyarrow"
        ) from error
    return record_batch
