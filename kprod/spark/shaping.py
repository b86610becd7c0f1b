"""From a batch of a query's rows to what the producer sends: one table per topic.

All of it is done on columns, by Arrow and by compiled code. Rows keep their order within a topic.

Thread-safety: pure functions.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kprod.spark.columns import Columns
from kprod.spark.json_values import json_objects

__all__ = ["TopicRows", "shape", "split_by_topic"]

_TOPIC = "topic"


class TopicRows(NamedTuple):
    """Rows for one topic.

    Attributes:
        topic: The topic's name.
        rows: A pyarrow record batch with the columns `value` and, where the query has them, `key`,
            `headers`, `partition`, `timestamp`.
    """

    topic: str
    rows: Any


def shape(batch: Any, columns: Columns) -> Any:
    """Rename each role's column to its role, and drop the others.

    Args:
        batch: A pyarrow record batch of the query's rows.
        columns: The column of each role.

    Returns:
        A record batch; `topic` is among its columns where the query chooses the topic.
    """
    if columns.value is None:
        value = json_objects(batch.select(list(columns.fields)))
    else:
        value = batch.column(columns.value)
    named = {"value": value}
    for role in ("key", "headers", _TOPIC, "partition", "timestamp"):
        name = getattr(columns, role)
        if name is not None:
            named[role] = batch.column(name)
    stamps = named.get("timestamp")
    if stamps is not None and pa.types.is_integer(stamps.type):
        named["timestamp"] = stamps.cast(pa.timestamp("ms"))
    return pa.RecordBatch.from_arrays(list(named.values()), names=list(named))


def split_by_topic(rows: Any, topic: str | None) -> Iterator[TopicRows]:
    """Split rows by their topic.

    Args:
        rows: A record batch of `shape`, whose topics are all names.
        topic: The topic of all of them; None takes the column `topic`.

    Yields:
        Each topic's rows once, in the order in which the topics first come.
    """
    if topic is not None:
        yield TopicRows(topic, rows)
        return
    topics = rows.column(_TOPIC)
    rows = rows.drop_columns([_TOPIC])
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield TopicRows(names[0], rows)
        return
    indices = encoded.indices
    # Stable, so that rows of one topic keep their order.
    ordered = rows.take(pc.sort_indices(indices))
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(indices).to_pylist()}
    begin = 0
    for index, name in enumerate(names):
        count = counts[index]
        yield TopicRows(name, ordered.slice(begin, count))
        begin += count
