"""Random schemas and rows of every type that `value.format=json` takes, from a seed."""

import datetime as dt
import decimal
import random
import struct
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

DEPTH_MAX = 3
ROWS_MAX = 30
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "+05:30", "Australia/Lord_Howe")
# Java has escapes, pairs of surrogates and characters that are not written as themselves.
CHARACTERS = "abc é\"\\/\n\r\t\b\f\x00\x1f\x7f\u2028\u00a0€𝄞'<>&"


def random_schema(rng: random.Random) -> StructType:
    """Return a schema of one to eight columns."""
    return StructType([*_fields(rng, rng.randint(1, 8), 0)])


def random_rows(rng: random.Random, schema: StructType) -> list[dict[str, Any]]:
    """Return rows of a schema, some of their values null."""
    return [_value(rng, schema) for _ in range(rng.randint(1, ROWS_MAX))]


def _fields(rng: random.Random, count: int, depth: int) -> list[StructField]:
    return [StructField(f"c{at} {_name(rng)}", _type(rng, depth)) for at in range(count)]


def _type(rng: random.Random, depth: int) -> DataType:
    kinds = ("scalar", "decimal") if depth == DEPTH_MAX else ("scalar", "decimal", "nested")
    match rng.choices(kinds, weights=(6, 1, 3)[: len(kinds)])[0]:
        case "scalar":
            return rng.choice(list(_SCALAR_VALUES))()
        case "decimal":
            precision = rng.randint(1, 38)
            return DecimalType(precision, rng.randint(0, precision))
    match rng.randrange(3):
        case 0:
            return ArrayType(_type(rng, depth + 1))
        case 1:
            return MapType(StringType(), _type(rng, depth + 1))
    return StructType(_fields(rng, rng.randint(1, 4), depth + 1))


def _value(rng: random.Random, kind: DataType) -> Any:
    match kind:
        case StructType():
            return {field.name: _or_null(rng, field.dataType) for field in kind.fields}
        case ArrayType():
            return [_or_null(rng, kind.elementType) for _ in range(rng.randrange(4))]
        case MapType():
            return {_text(rng): _or_null(rng, kind.valueType) for _ in range(rng.randrange(4))}
        case DecimalType():
            return _decimal(rng, kind)
    return _SCALAR_VALUES[type(kind)](rng)


def _decimal(rng: random.Random, kind: DecimalType) -> decimal.Decimal:
    digits = rng.randrange(10 ** rng.randint(0, kind.precision))
    with decimal.localcontext(prec=38):
        return decimal.Decimal((rng.choice((0, 1)), tuple(map(int, str(digits))), -kind.scale))


def _whole(bits: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.randrange(2**bits) - 2 ** (bits - 1)


def _moment(rng: random.Random) -> dt.datetime:
    return dt.datetime(1850, 1, 1) + dt.timedelta(  # noqa: DTZ001 - Spark's own
        seconds=rng.randrange(10**10), microseconds=rng.randrange(10**6)
    )


def _or_null(rng: random.Random, kind: DataType) -> Any:
    return None if rng.randrange(4) == 0 else _value(rng, kind)


def _text(rng: random.Random) -> str:
    return "".join(rng.choices(CHARACTERS, k=rng.randrange(12)))


def _name(rng: random.Random) -> str:
    return _text(rng)[:3].replace("\0", "")


def _eighth(rng: random.Random) -> float:
    """Return a number that every Java writes alike."""
    return rng.choice((-1, 1)) * rng.randrange(100_000) / 8


def _double(rng: random.Random) -> float:
    bits: float = struct.unpack("d", rng.randbytes(8))[0]
    return rng.choice((bits, _eighth(rng)))


_SCALAR_VALUES: dict[type[DataType], Callable[[random.Random], Any]] = {
    BinaryType: lambda rng: rng.randbytes(rng.randrange(6)),
    BooleanType: lambda rng: rng.choice((True, False)),
    ByteType: _whole(8),
    DateType: lambda rng: dt.date.fromordinal(rng.randint(1, dt.date.max.toordinal())),
    DoubleType: _double,
    FloatType: _eighth,
    IntegerType: _whole(32),
    LongType: _whole(64),
    ShortType: _whole(16),
    StringType: _text,
    TimestampNTZType: _moment,
    TimestampType: lambda rng: _moment(rng).replace(tzinfo=dt.UTC),
}
