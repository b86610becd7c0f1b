"""Rows of Python as Arrow batches, for PySpark 4.0, whose streams have no Arrow writer.

Spark gives a point in time as a `datetime` without a zone, in the local time of the worker. The
batches have the session's time zone, as Spark's own Arrow batches do, where Spark tells it.

Thread-safety: pure functions.
"""

import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

__all__ = ["as_batches"]

BATCH_ROWS = 10_000  # as spark.sql.execution.arrow.maxRecordsPerBatch has it
_ZONE_PROPERTY = "spark.sql.session.timeZone"

_Convert = Callable[[Any], Any]


def as_batches(rows: Iterable[Any], schema: StructType) -> Iterator[Any]:
    """Gather rows.

    Args:
        rows: PySpark rows.
        schema: Theirs.

    Yields:
        pyarrow record batches of at most `BATCH_ROWS` rows.
    """
    zone = _session_zone()
    types = [_arrow_type(field.dataType, zone) for field in schema.fields]
    converters = [_converter(field.dataType) for field in schema.fields]
    remaining = iter(rows)
    while chunk := list(itertools.islice(remaining, BATCH_ROWS)):
        columns = [
            pa.array(values if convert is None else [convert(value) for value in values], kind)
            for values, convert, kind in zip(
                zip(*chunk, strict=True), converters, types, strict=True
            )
        ]
        yield pa.RecordBatch.from_arrays(columns, names=schema.names)


def _session_zone() -> str:
    context = TaskContext.get()
    told = None if context is None else context.getLocalProperty(_ZONE_PROPERTY)
    return told or "UTC"


def _arrow_type(kind: DataType, zone: str) -> Any:
    match kind:
        case TimestampType():
            return pa.timestamp("us", zone)
        case ArrayType():
            return pa.list_(_arrow_type(kind.elementType, zone))
        case MapType():
            return pa.map_(_arrow_type(kind.keyType, zone), _arrow_type(kind.valueType, zone))
        case StructType():
            return pa.struct(
                [pa.field(field.name, _arrow_type(field.dataType, zone)) for field in kind.fields]
            )
    return to_arrow_type(kind)


def _converter(kind: DataType) -> _Convert | None:
    """Return a function that converts values of this type for pyarrow; None if none is needed."""
    match kind:
        case TimestampType():
            return _or_none(lambda moment: moment.astimezone(dt.UTC))
        case ArrayType():
            item = _converter(kind.elementType)
            return item and _or_none(lambda values: [item(value) for value in values])
        case MapType():
            key, entry = (_converter(each) or _same for each in (kind.keyType, kind.valueType))
            return _or_none(lambda pairs: [(key(k), entry(v)) for k, v in pairs.items()])
        case StructType():
            fields = [_converter(field.dataType) or _same for field in kind.fields]
            return _or_none(
                lambda row: tuple(
                    convert(value) for convert, value in zip(fields, row, strict=True)
                )
            )
    return None


def _or_none(convert: _Convert) -> _Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
