"""Maps a query's columns to a record's fields: as Spark's own Kafka sink does, with additions.

Checked once, by Spark's types, before any task runs; tasks then trust the batches they get.

Thread-safety: immutable values; functions of their arguments.
Source: Spark 4.1 Kafka integration guide, the table of columns. The timestamp is kprod's own.
"""

import difflib
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kprod.errors import ConfigError
from kprod.spark.options import COLUMN_ROLES, SinkOptions, ValueFormat

__all__ = ["Columns", "read_columns"]

_JSON_DEPTH_MAX = 90
_JSON_SCALARS = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    NullType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The column of each role; None where no column has it.

    Attributes:
        value: The record's value; None where it is made of `fields`.
        topic: The row's topic; None if an option names the topic.
        timestamp: A point in time, or milliseconds since 1970.
        fields: Columns of a JSON value, in the query's order.

    Thread-safety: immutable.
    """

    value: str | None
    key: str | None
    headers: str | None
    topic: str | None
    partition: str | None
    timestamp: str | None
    fields: tuple[str, ...] = ()


def read_columns(schema: StructType, options: SinkOptions) -> Columns:
    """Find each role's column and check its type.

    Args:
        schema: Schema of the rows.
        options: Options of the write.

    Returns:
        The column of each role.

    Raises:
        ConfigError: A column is missing, has a wrong type, or occurs twice.
    """
    names = schema.fieldNames()
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"columns {sorted(twice)} are there more than once; rename or drop one")
    found = {role: _column(schema, role, options) for role in COLUMN_ROLES}
    if found["topic"] is None and options.topic is None:
        raise ConfigError(
            "no topic: give one by .option('topic', …), or have a column named topic"
            f"{_nearest('topic', names)}"
        )
    if options.topic is not None:
        found["topic"] = None  # the option overrides the column, as in Spark's sink
    fields: tuple[str, ...] = ()
    if options.value_format is ValueFormat.JSON:
        fields = _json_fields(schema, options)
        found["value"] = None
    elif found["value"] is None:
        raise ConfigError(
            f"no column {_name_of('value', options)!r} among {names}{_nearest('value', names)}:"
            " rename one, name it by .option('value.column', …), or use"
            " .option('value.format', 'json') for an object of all columns"
        )
    else:
        _reject_twins(names, [role for role in COLUMN_ROLES if found[role] is None], options)
    return Columns(**found, fields=fields)


def _reject_twins(names: list[str], roles: list[str], options: SinkOptions) -> None:
    """Reject a column that only the case of its letters keeps from its role: it would be lost."""
    for name in names:
        role = name.lower()
        if role not in roles or role in options.columns or (role == "topic" and options.topic):
            continue
        raise ConfigError(
            f"column {name!r} would be left out, since the {role}'s column is named {role!r}:"
            f" rename it, or say .option('{role}.column', {name!r}) to take it, or"
            f" .option('{role}.column', '') to leave it out"
        )


def _name_of(role: str, options: SinkOptions) -> str:
    return options.columns.get(role, role)


def _column(schema: StructType, role: str, options: SinkOptions) -> str | None:
    if role == "value" and options.value_format is ValueFormat.JSON:
        return None
    name = _name_of(role, options)
    if name not in schema.fieldNames():
        if name and role in options.columns:
            raise ConfigError(
                f"{role}.column={name!r}: there is no such column among {schema.fieldNames()}"
            )
        return None
    wanted = _TYPES[role]
    given = schema[name].dataType
    if not _fits(role, given):
        raise ConfigError(
            f"column {name!r} is {given.simpleString()}, and the {role} must be {wanted}"
            f"{_REMEDIES.get(role, '')}"
        )
    return name


_TYPES = {
    "value": "string or binary",
    "key": "string or binary",
    "headers": "array<struct<key:string,value:binary>>",
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp, or bigint (milliseconds since 1970)",
}
_REMEDIES = {
    "value": ": cast it, or use to_json(struct(…)), to_avro(…) or .option('value.format', 'json')",
    "key": ": cast it",
    "partition": ": cast it",
    "timestamp": ": cast it, or name another column by .option('timestamp.column', …)",
}


def _fits(role: str, given: DataType) -> bool:
    match role:
        case "value" | "key":
            return isinstance(given, StringType | BinaryType)
        case "topic":
            return isinstance(given, StringType)
        case "partition":
            return isinstance(given, IntegerType)
        case "timestamp":
            return isinstance(given, TimestampType | LongType)
        case _:
            return _are_headers(given)


def _are_headers(given: DataType) -> bool:
    if not isinstance(given, ArrayType) or not isinstance(given.elementType, StructType):
        return False
    fields = given.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


def _json_fields(schema: StructType, options: SinkOptions) -> tuple[str, ...]:
    reserved = {_name_of(role, options) for role in COLUMN_ROLES if role != "value"}
    fields = [field for field in schema.fields if field.name not in reserved]
    if not fields:
        raise ConfigError(f"value.format=json: no column is left for it besides {sorted(reserved)}")
    for field in fields:
        _check_json(field.name, field.dataType)
    return tuple(field.name for field in fields)


def _check_json(path: str, given: DataType, depth: int = 1) -> None:
    if "\0" in path:
        raise ConfigError(
            f"value.format=json: the name of {path!r} has a NUL in it, where Arrow ends names;"
            " rename it"
        )
    if depth > _JSON_DEPTH_MAX:
        raise ConfigError(
            f"value.format=json: column {path!r:.200} is nested more than {_JSON_DEPTH_MAX} levels"
            " deep; use to_json(…) and value.format=raw"
        )
    match given:
        case StructType():
            for inner in given.fields:
                _check_json(f"{path}.{inner.name}", inner.dataType, depth + 1)
            return
        case ArrayType():
            _check_json(f"{path}[]", given.elementType, depth + 1)
            return
        case MapType() if isinstance(given.keyType, StringType):
            _check_json(f"{path}{{}}", given.valueType, depth + 1)
            return
        case _ if isinstance(given, _JSON_SCALARS):
            return
    raise ConfigError(
        f"value.format=json: column {path!r} is {given.simpleString()}, which kprod does not write"
        " as JSON: cast it to string, or use to_json(…) and value.format=raw"
    )


def _nearest(wanted: str, names: list[str]) -> str:
    written = {name.lower(): name for name in names}
    close = difflib.get_close_matches(wanted, list(written), n=1)
    if not close:
        return ""
    name = written[close[0]]
    return f" (did you mean {name!r}? .option('{wanted}.column', {name!r}) takes it)"
