"""Rows as PySpark 4.0 hands them to a stream become the Arrow batches that other versions give."""

import datetime as dt
import random
import time
from collections.abc import Generator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, TimestampType

from kprod.spark import row_batches
from kprod.spark.row_batches import as_batches
from tests.spark.random_rows import random_rows, random_schema

SEEDS = 40


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Let the worker's local time be New York's, which has hours that are there twice.

    Yields:
        Nothing.
    """
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def from_spark(schema: StructType, row: dict[str, Any]) -> Any:
    """Return a row as PySpark gives it: a `Row`, with points in time in local time, zoneless."""
    return schema.fromInternal(schema.toInternal(row))  # type: ignore[arg-type]


def expected(value: Any, kind: DataType) -> Any:
    """Return a value as pyarrow reads it from an array."""
    match kind:
        case _ if value is None:
            return None
        case StructType():
            return {each.name: expected(value[each.name], each.dataType) for each in kind.fields}
        case ArrayType():
            return [expected(item, kind.elementType) for item in value]
        case MapType():
            return [(key, expected(item, kind.valueType)) for key, item in value.items()]
    return value


@pytest.mark.usefixtures("in_new_york")
def test_rows_of_any_schema() -> None:
    """Every value is as it was, points in time within other values too."""
    for seed in range(SEEDS):
        rng = random.Random(seed)
        schema = random_schema(rng)
        rows = random_rows(rng, schema)
        (batch,) = as_batches([from_spark(schema, row) for row in rows], schema)
        assert batch.to_pylist() == [expected(row, schema) for row in rows], seed


class _Context:
    """A task's, in which Spark has the session's time zone."""

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's
        return {"spark.sql.session.timeZone": "Asia/Kolkata"}.get(name)


@pytest.mark.usefixtures("in_new_york")
def test_points_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour that is there twice is told apart, and columns have the session's zone."""
    monkeypatch.setattr(TaskContext, "get", _Context)
    schema = StructType().add("at", TimestampType())
    moments = [dt.datetime(2026, 11, 1, hour, 30, tzinfo=dt.UTC) for hour in (5, 6)]
    (batch,) = as_batches([from_spark(schema, {"at": each}) for each in moments], schema)
    assert batch.schema.field("at").type == pa.timestamp("us", "Asia/Kolkata")
    assert batch.column("at").to_pylist() == moments


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows keep their order, and none is taken before there is room for it."""
    monkeypatch.setattr(row_batches, "BATCH_ROWS", 3)
    taken: list[int] = []

    def rows() -> Generator[tuple[str]]:
        for number in range(7):
            taken.append(number)
            yield (str(number),)

    batches = as_batches(rows(), StructType().add("n", StringType()))
    assert next(batches).to_pydict() == {"n": ["0", "1", "2"]}
    assert taken == [0, 1, 2]
    assert [batch.num_rows for batch in batches] == [3, 1]
    assert list(as_batches([], StructType().add("n", StringType()))) == []
