"""JSON objects of whole rows, held to the standard library's reader."""

import datetime as dt
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.errors import ConfigError
from kprod.spark.json_values import find_zone, json_objects

INSTANT = dt.datetime(2013, 1, 2, 3, 4, 5, 678)  # noqa: DTZ001 - Arrow has its own zone
TEXTS = st.text(alphabet=st.characters(codec="utf-8"))
VALUES = st.fixed_dictionaries(
    {
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | TEXTS,
        "float": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.none() | st.booleans(),
        "list": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        "struct": st.none()
        | st.fixed_dictionaries({"a": st.none() | TEXTS, "b": st.none() | st.integers(0, 9)}),
        "map": st.none() | st.dictionaries(TEXTS, st.none() | st.integers(0, 9), max_size=3),
    }
)
SCHEMA = pa.schema(
    [
        ("whole", pa.int64()),
        ("text", pa.string()),
        ("float", pa.float64()),
        ("flag", pa.bool_()),
        ("list", pa.list_(pa.string())),
        ("struct", pa.struct([("a", pa.string()), ("b", pa.int8())])),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)


def written(rows: pa.RecordBatch) -> list[str]:
    """Return each row as the module writes it."""
    return [text.decode() for text in json_objects(rows).to_pylist()]


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """Return what `to_json` of Spark says of a row: no field that is null, in structs neither."""
    kept = {name: value for name, value in row.items() if value is not None}
    if "struct" in kept:
        kept["struct"] = {n: v for n, v in kept["struct"].items() if v is not None}
    return kept


@given(st.lists(VALUES, max_size=5), st.integers(0, 5))
def test_any_row_reads_back_equal(rows: list[dict[str, Any]], begin: int) -> None:
    """Also of a slice, whose columns share their buffers with the rows before it."""
    columns = [
        pa.array(
            [list(r["map"].items()) if n == "map" and r["map"] is not None else r[n] for r in rows],
            SCHEMA.field(n).type,
        )
        for n in SCHEMA.names
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA).slice(begin)
    assert [json.loads(text) for text in written(batch)] == [expected(r) for r in rows[begin:]]


def test_what_json_has_no_number_for() -> None:
    """Texts, as Spark writes them."""
    rows = pa.record_batch({"x": [math.nan, math.inf, -math.inf, 1.5, None]})
    assert written(rows) == [
        '{"x":"NaN"}',
        '{"x":"Infinity"}',
        '{"x":"-Infinity"}',
        '{"x":1.5}',
        "{}",
    ]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([decimal.Decimal("1.50")], pa.decimal128(10, 2)), "1.50"),
        (pa.array([dt.date(2013, 1, 2)]), '"2013-01-02"'),
        (
            pa.array([INSTANT], pa.timestamp("us", "Asia/Tokyo")),
            '"2013-01-02T12:04:05.000+09:00"',
        ),
        (
            pa.array([INSTANT], pa.timestamp("us")),
            '"2013-01-02T03:04:05.000"',
        ),
        (pa.array(["a"]).dictionary_encode(), '"a"'),
        (pa.array([{}], pa.struct([])), "{}"),
        (pa.array([["a", None]], pa.large_list(pa.large_string())), '["a",null]'),
        (pa.array([[[1], None, []]]), "[[1],null,[]]"),
        (pa.array([True]), "true"),
        (pa.array([0.1], pa.float32()), "0.1"),
        (pa.array([3.0]), "3.0"),
        (pa.array([-3.0], pa.float32()), "-3.0"),
        (pa.array([-0.0]), "-0.0"),
        (pa.array([[1.0, None, 1e20]]), "[1.0,null,1.0E20]"),
    ],
)
def test_one_of_each_type(column: Any, text: str) -> None:
    """Types that Spark sends and Arrow has a form for."""
    assert written(pa.RecordBatch.from_arrays([column], names=["x"])) == [f'{{"x":{text}}}']


def test_a_row_of_nulls_is_an_empty_object() -> None:
    """None of the rows is lost for it."""
    rows = pa.record_batch({"a": pa.nulls(3), "b": pa.array([None, 1, None])})
    assert written(rows) == ["{}", '{"b":1}', "{}"]
    assert written(rows.slice(0, 0)) == []


def test_a_session_in_any_zone() -> None:
    """Names of Java's that Python does not know, too; another is an error that says what to do."""
    names = ("UTC", "GMT+8", "+05:30", "UTC-01:00:30", "-11")
    assert [find_zone(name) for name in names] == [0, 28_800, 19_800, -3_630, -39_600]
    assert str(find_zone("Europe/Berlin")) == "Europe/Berlin"
    with pytest.raises(ConfigError, match="tzdata"):
        find_zone("Nowhere/Land")
