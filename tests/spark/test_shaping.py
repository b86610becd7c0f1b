"""Batches of a query become batches of records: columns by role, rows by topic."""

import datetime as dt
from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kprod.spark.columns import Columns
from kprod.spark.shaping import shape, split_by_topic

NONE = Columns(value=None, key=None, headers=None, topic=None, partition=None, timestamp=None)


def test_columns_get_their_roles() -> None:
    """Others are dropped, and milliseconds become a point in time."""
    batch = pa.record_batch({"body": ["a"], "other": [1], "at": [1_000], "id": [b"k"]})
    columns = replace(NONE, value="body", key="id", timestamp="at")
    assert shape(batch, columns).to_pylist() == [
        {"value": "a", "key": b"k", "timestamp": dt.datetime(1970, 1, 1, 0, 0, 1)}  # noqa: DTZ001 - Arrow has none here
    ]


def test_json_of_the_fields_only() -> None:
    """The value is made of columns without a role."""
    batch = pa.record_batch({"a": [1], "key": ["k"], "b": ["x"]})
    columns = replace(NONE, key="key", fields=("a", "b"))
    assert shape(batch, columns).to_pylist() == [{"value": b'{"a":1,"b":"x"}', "key": "k"}]


def test_one_topic_for_all() -> None:
    """Nothing is copied or looked at."""
    rows = pa.record_batch({"value": ["a", "b"]})
    assert list(split_by_topic(rows, "t")) == [("t", rows)]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(0, 5))
def test_rows_keep_their_order_within_a_topic(topics: list[str], begin: int) -> None:
    """Each row goes to its topic once."""
    batch = pa.record_batch(
        {
            "value": pa.array([str(n) for n in range(len(topics))], pa.string()),
            "topic": pa.array(topics, pa.string()),
        }
    ).slice(begin)
    wanted: dict[str, list[str]] = {}
    for row in batch.to_pylist():
        wanted.setdefault(row["topic"], []).append(row["value"])
    found = {
        part.topic: part.rows.column("value").to_pylist() for part in split_by_topic(batch, None)
    }
    assert found == wanted
