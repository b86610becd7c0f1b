"""Rows as JSON objects, made by Arrow's kernels: no Python code runs per row.

The form is that of Spark's `to_json`: null fields are left out, nulls in arrays stay, numbers that
JSON lacks are the texts "NaN", "Infinity" and "-Infinity". Two things differ. Points in time are in
UTC with all six digits, whatever the session's time zone; and numbers are written as Arrow writes
them (1e+20), which read back the same.

Thread-safety: functions of their arguments.
Source: RFC 8259; Spark 4.1 JacksonGenerator for which nulls are written.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["json_objects"]

# Named escapes first: the backslash before whatever brings new ones.
_ESCAPES = (
    ("\\", "\\\\"),
    ('"', '\\"'),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("\b", "\\b"),
    ("\f", "\\f"),
)
_OTHER_CONTROLS = tuple(chr(code) for code in range(0x20) if chr(code) not in "\n\r\t\b\f")
_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'
_NEEDS_NUMBERED_ESCAPE = r"[\x00-\x07\x0b\x0e-\x1f]"
_INSTANT = "%Y-%m-%dT%H:%M:%S"  # seconds come with the type's own digits


def json_objects(names: Sequence[str], columns: Iterable[Any]) -> Any:
    """Write one object per row.

    Args:
        names: Of the columns; they become the objects' keys.
        columns: Arrow arrays of one length, of types that `read_columns` lets pass.

    Returns:
        A string array without nulls.
    """
    fields = [
        pc.binary_join_element_wise(f"{quoted(name)}:", _text(column), "")
        for name, column in zip(names, columns, strict=True)
    ]
    # Arrow drops a row of which everything is skipped. So each begins with an empty text, and the
    # comma behind that becomes the brace.
    joined = pc.binary_join_element_wise("", *fields, ",", null_handling="skip")
    begun = pc.binary_replace_slice(joined, start=0, stop=1, replacement="{")
    return pc.binary_join_element_wise(begun, "}", "")


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    escaped: str = _escaped(pa.array([text]))[0].as_py()
    return f'"{escaped}"'


def _text(column: Any) -> Any:  # noqa: PLR0911 - a table of types
    """Each value in JSON; null where it is null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _text(column.dictionary_decode())
    if pa.types.is_struct(kind):
        return _structs(column)
    if pa.types.is_map(kind):
        return _maps(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(column)
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_timestamp(kind):
        return _in_quotes(_instants(column))
    if pa.types.is_date(kind):
        return _in_quotes(pc.cast(column, pa.string()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _in_quotes(_escaped(pc.cast(column, pa.string())))
    return pc.cast(column, pa.string())  # whole numbers, decimals, booleans, nothing at all


def _in_quotes(texts: Any) -> Any:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: Any) -> Any:
    if not pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return texts
    for plain, escape in _ESCAPES:
        texts = pc.replace_substring(texts, plain, escape)
    if pc.any(pc.match_substring_regex(texts, _NEEDS_NUMBERED_ESCAPE)).as_py():
        for control in _OTHER_CONTROLS:
            texts = pc.replace_substring(texts, control, f"\\u{ord(control):04X}")
    return texts


def _floats(column: Any) -> Any:
    texts = pc.cast(column, pa.string())
    # Arrow writes 3.0 as 3, which readers take for a whole number; `to_json` writes 3.0.
    is_whole = pc.match_substring_regex(texts, "^-?[0-9]+$")
    texts = pc.if_else(is_whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    finite = pc.is_finite(column)
    if pc.all(finite).as_py() is not False:
        return texts
    names = pc.if_else(
        pc.is_nan(column), '"NaN"', pc.if_else(pc.less(column, 0), '"-Infinity"', '"Infinity"')
    )
    return pc.if_else(finite, texts, names)


def _instants(column: Any) -> Any:
    if column.type.tz is None:
        return pc.strftime(column, format=_INSTANT)
    return pc.strftime(pc.cast(column, pa.timestamp("us", "UTC")), format=f"{_INSTANT}Z")


def _structs(column: Any) -> Any:
    kind = column.type
    names = [kind.field(at).name for at in range(kind.num_fields)]
    objects = json_objects(names, column.flatten()) if names else _constant("{}", len(column))
    return pc.if_else(column.is_valid(), objects, pa.scalar(None, pa.string()))


def _lists(column: Any) -> Any:
    items = _or_null(_text(column.values))
    return _joined(column, items, "[", "]")


def _maps(column: Any) -> Any:
    keys = _in_quotes(_escaped(pc.cast(column.keys, pa.string())))
    entries = pc.binary_join_element_wise(keys, _or_null(_text(column.items)), ":")
    return _joined(column, entries, "{", "}")


def _joined(column: Any, items: Any, begin: str, end: str) -> Any:
    """Join the items of each list; the offsets are the column's own, so slices stay slices."""
    of_texts = pa.LargeListArray if pa.types.is_large_list(column.type) else pa.ListArray
    lists = of_texts.from_arrays(column.offsets, items)
    joined = pc.binary_join_element_wise(begin, pc.binary_join(lists, ","), end, "")
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.string()))


def _or_null(texts: Any) -> Any:
    return pc.fill_null(texts, "null")


def _constant(text: str, count: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), count)
