"""The faults that a row can have: one table, and the check of a batch's rows against it.

The check is done by Arrow's kernels on whole columns, so that good rows cost no Python. A row with
several faults has the first of the table. The last five are only seen when a row is sent: by the
producer, which knows topics, partitions and sizes, or by the broker.

Thread-safety: pure functions.
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kprod.topic_name import name_fault

__all__ = ["RejectedRows", "RowFault", "fault_text", "reject"]


class RowFault(enum.Enum):
    """Why a row can never be a record; the value is used in reports and dead letters."""

    NULL_TOPIC = "null topic"
    ILLEGAL_TOPIC = "illegal topic"
    NEGATIVE_PARTITION = "negative partition"
    EARLY_TIMESTAMP = "timestamp before 1970"
    NULL_HEADER = "null header"
    NULL_HEADER_KEY = "null header key"
    HEADER_KEY_NOT_UTF8 = "header key not UTF-8"
    UNKNOWN_TOPIC = "unknown topic"
    UNUSABLE_TOPIC = "unusable topic"
    UNKNOWN_PARTITION = "unknown partition"
    TOO_LARGE = "too large"
    REJECTED = "rejected by the broker"


class RejectedRows(NamedTuple):
    """Rows with one fault.

    Attributes:
        fault: Theirs.
        rows: A pyarrow record batch with the columns of the batch that was checked.
    """

    fault: RowFault
    rows: Any


def reject(rows: Any) -> tuple[Any, list[RejectedRows]]:
    """Part sound rows from those at fault.

    Args:
        rows: A pyarrow record batch with columns named by roles.

    Returns:
        The sound rows in their order, and the others by fault; the very batch where there are none.
    """
    rejected = []
    for fault, role, find in _CHECKS:
        if role not in rows.schema.names:
            continue
        faulty = find(rows.column(role))
        if faulty is not None and faulty.true_count:
            rejected.append(RejectedRows(fault, rows.filter(faulty)))
            rows = rows.filter(pc.invert(faulty))
    return rows, rejected


def fault_text(fault: RowFault, row: dict[str, Any]) -> str:
    """Describe in one sentence why `reject` rejected a row.

    Args:
        fault: The row's fault.
        row: The row's fields by role, texts as bytes.

    Returns:
        The sentence, which holds no key and no value.
    """
    if fault is RowFault.ILLEGAL_TOPIC:
        return str(name_fault(_text(row["topic"])))
    return _TEXTS[fault].format_map(row)


_TEXTS = {
    RowFault.NULL_TOPIC: (
        "the topic is null: name one for all by .option('topic', …), or filter such rows"
    ),
    RowFault.NEGATIVE_PARTITION: "partition {partition} is negative; null leaves it to the key",
    RowFault.EARLY_TIMESTAMP: "timestamp {timestamp} ms is before 1970; null is now",
    RowFault.NULL_HEADER: "an entry of the headers is null",
    RowFault.NULL_HEADER_KEY: "the key of a header is null",
    RowFault.HEADER_KEY_NOT_UTF8: "the key of a header is not valid UTF-8",
}


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _are_null(column: Any) -> Any:
    return column.is_null() if column.null_count else None


def _are_illegal_topics(column: Any) -> Any:
    encoded = column.cast(pa.large_binary()).dictionary_encode()
    legal = [name_fault(_text(name)) is None for name in encoded.dictionary.to_pylist()]
    if all(legal):
        return None
    return pc.invert(pa.array(legal).take(encoded.indices))  # null topics are gone already


def _are_negative(column: Any) -> Any:
    least = pc.min(column)
    if not least.is_valid or least.as_py() >= 0:
        return None
    return pc.fill_null(pc.less(column, 0), False)  # noqa: FBT003 - Arrow's parameter


def _are_early(column: Any) -> Any:
    return _are_negative(column.cast(pa.int64()))


def _have_null_header(column: Any) -> Any:
    entries = pc.list_flatten(column)
    return _rows_with(column, entries.is_null()) if entries.null_count else None


def _have_null_header_key(column: Any) -> Any:
    keys = pc.struct_field(pc.list_flatten(column), [0])
    return _rows_with(column, keys.is_null()) if keys.null_count else None


def _have_broken_header_key(column: Any) -> Any:
    keys = pc.struct_field(pc.list_flatten(column), [0])
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        broken = [not _is_utf8(key) for key in keys.cast(pa.large_binary()).to_pylist()]
        return _rows_with(column, pa.array(broken, pa.bool_()))
    return None


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _rows_with(column: Any, faulty_entries: Any) -> Any:
    """Return which rows of a column of lists have one of the entries."""
    numbers = pc.unique(pc.list_parent_indices(column).filter(faulty_entries))
    return pc.is_in(pa.array(range(len(column)), numbers.type), value_set=numbers)


_CHECKS: tuple[tuple[RowFault, str, Callable[[Any], Any]], ...] = (
    (RowFault.NULL_TOPIC, "topic", _are_null),
    (RowFault.ILLEGAL_TOPIC, "topic", _are_illegal_topics),
    (RowFault.NEGATIVE_PARTITION, "partition", _are_negative),
    (RowFault.EARLY_TIMESTAMP, "timestamp", _are_early),
    (RowFault.NULL_HEADER, "headers", _have_null_header),
    (RowFault.NULL_HEADER_KEY, "headers", _have_null_header_key),
    (RowFault.HEADER_KEY_NOT_UTF8, "headers", _have_broken_header_key),
)
