"""A query's columns are judged by their Spark types, before any task."""

from itertools import starmap

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kprod.errors import ConfigError
from kprod.spark.columns import Columns, read_columns
from kprod.spark.options import read_options

TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()

TO_T = {"topic": "t"}


def deep(levels: int) -> DataType:
    """Return an array of arrays."""
    inner: DataType = INT
    for _ in range(levels):
        inner = ArrayType(inner)
    return inner


AS_JSON = {**TO_T, "value_format": "json"}


def struct(**fields: DataType) -> StructType:
    """Return a struct of these fields."""
    return StructType(list(starmap(StructField, fields.items())))


HEADERS = ArrayType(struct(key=TEXT, value=BYTES))


def columns_of(schema: StructType, **options: str) -> Columns:
    """Return the columns of a schema under some options, dots written as underscores."""
    given = {name.replace("_", "."): text for name, text in options.items()}
    return read_columns(schema, read_options({"bootstrap.servers": "one:9092", **given}))


def test_every_role_is_found_by_its_name() -> None:
    """The contract of Spark's own sink, and the timestamp."""
    found = columns_of(
        struct(
            value=BYTES,
            key=TEXT,
            headers=HEADERS,
            topic=TEXT,
            partition=INT,
            timestamp=TimestampType(),
            other=DoubleType(),
        )
    )
    assert repr(found) == (
        "Columns(value='value', key='key', headers='headers', topic='topic',"
        " partition='partition', timestamp='timestamp', fields=())"
    )


def test_the_topic_option_goes_before_the_column() -> None:
    """As in Spark's sink."""
    assert "topic=None" in repr(columns_of(struct(value=TEXT, topic=TEXT), topic="all"))


def test_roles_by_option() -> None:
    """A role's column may have another name, or none."""
    found = columns_of(
        struct(body=TEXT, id=TEXT, key=TEXT, timestamp=TEXT),
        topic="t",
        value_column="body",
        key_column="id",
        timestamp_column="",
    )
    assert "value='body', key='id'" in repr(found)
    assert "timestamp=None" in repr(found)


def test_json_takes_all_other_columns() -> None:
    """A column with a role of its own is no field, unless the role went to another column."""
    found = columns_of(
        struct(
            key=TEXT,
            a=INT,
            value=TEXT,
            b=struct(c=ArrayType(MapType(TEXT, DateType()))),
            topic=TEXT,
        ),
        topic="t",
        value_format="json",
    )
    assert "value=None" in repr(found)
    assert "fields=('a', 'value', 'b')" in repr(found)


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (struct(value=TEXT), {}, "no topic"),
        (struct(body=TEXT), TO_T, "no column 'value' among ['body']"),
        (
            struct(value=TEXT, Key=TEXT),
            TO_T,
            "column 'Key' would be left out, since the key's column is named 'key'",
        ),
        (
            struct(value=TEXT, TOPIC=TEXT),
            {},
            "did you mean 'TOPIC'? .option('topic.column', 'TOPIC') takes it",
        ),
        (
            struct(VALUE=TEXT),
            TO_T,
            "did you mean 'VALUE'? .option('value.column', 'VALUE') takes it",
        ),
        (struct(value=INT), TO_T, "column 'value' is int, and the value must be string or bin"),
        (struct(value=struct(a=INT)), TO_T, "to_json"),
        (struct(value=TEXT, key=LONG), TO_T, "the key must be string or binary"),
        (struct(value=TEXT, topic=INT), {}, "the topic must be string"),
        (struct(value=TEXT, partition=LONG), TO_T, "the partition must be int"),
        (struct(value=TEXT, headers=MapType(TEXT, BYTES)), TO_T, "the headers must be array<"),
        (struct(value=TEXT, headers=ArrayType(TEXT)), TO_T, "the headers must be array<"),
        (
            struct(value=TEXT, headers=ArrayType(struct(key=TEXT, value=TEXT))),
            TO_T,
            "the headers must be array<struct<key:string,value:binary>>",
        ),
        (struct(value=TEXT, timestamp=TEXT), TO_T, "the timestamp must be timestamp"),
        (struct(value=TEXT), {**TO_T, "key_column": "id"}, "there is no such column"),
        (StructType([*struct(value=TEXT), *struct(value=TEXT)]), TO_T, "more than once"),
        (struct(key=TEXT), AS_JSON, "no column is left"),
        (struct(a=ArrayType(struct(b=DayTimeIntervalType()))), AS_JSON, "column 'a[].b'"),
        (struct(a=deep(200)), AS_JSON, "levels deep"),
        (struct(a=struct(**{"b\0": INT})), AS_JSON, "where Arrow ends names"),
        (struct(a=MapType(INT, INT)), AS_JSON, "map<int,int>"),
        (struct(a=DayTimeIntervalType()), AS_JSON, "cast it to string"),
    ],
)
def test_a_wrong_column_is_explained(
    schema: StructType, options: dict[str, str], text: str
) -> None:
    """The text names the column, its type and the wanted one."""
    with pytest.raises(ConfigError) as caught:
        columns_of(schema, **options)
    assert text in str(caught.value)
