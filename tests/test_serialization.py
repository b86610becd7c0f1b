"""Serializers: plain ones, any callable, those that ask for a context, and how they fail."""

import json
import struct
import sys
from functools import partial
from typing import Any

import pytest

from kprod import serialization
from kprod.errors import SerializationError
from kprod.serialization import (
    RecordSerializers,
    SerializationContext,
    serialize_float,
    serialize_int,
    serialize_int32,
    serialize_json,
    serialize_str,
)
from tests.producer.bench import TOPIC, Bench


@pytest.mark.parametrize(
    ("serializer", "value", "expected"),
    [
        (serialize_str, "naïve", "naïve".encode()),
        (serialize_int, -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        (serialize_int, 2**63 - 1, b"\x7f" + b"\xff" * 7),
        (serialize_int32, 258, b"\x00\x00\x01\x02"),
        (serialize_float, 0.5, struct.pack(">d", 0.5)),
        (serialize_json, {"é": [1, None, True, 1.5, "x"]}, '{"é":[1,null,true,1.5,"x"]}'.encode()),
    ],
)
def test_plain_ones_write_what_kafkas_own_do(
    serializer: Any, value: object, expected: bytes
) -> None:
    """Big-endian, UTF-8; and null is null, never the bytes of a word."""
    assert serializer(value) == expected
    assert serializer(None) is None


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (serialize_str, 5),
        (serialize_int, "5"),
        (serialize_int, 2**63),
        (serialize_int32, 2**31),
        (serialize_float, "x"),
        (serialize_json, object()),
    ],
)
def test_what_does_not_fit_is_rejected_at_the_send(serializer: Any, value: object) -> None:
    """Nothing is sent, and the error says which serializer failed and why."""
    bench = Bench(value_serializer=serializer)
    with pytest.raises(SerializationError, match=r"the value_serializer failed for 'orders': ."):
        bench.producer.send(TOPIC, value)
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_json_is_the_same_without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library writes what orjson writes, and no NaN, which is not JSON."""
    values: list[Any] = [{"a": 1, "ü": "\n"}, [1.5, -3, False], "x", 0]
    fast = [serialize_json(value) for value in values]
    serialization._json_writer.cache_clear()
    monkeypatch.setitem(sys.modules, "orjson", None)
    assert [serialize_json(value) for value in values] == fast
    assert serialize_json(None) is None
    with pytest.raises(ValueError, match="JSON"):
        serialize_json(float("nan"))
    serialization._json_writer.cache_clear()


def test_key_and_value_have_their_own() -> None:
    """Serializers run in this order; fields without one are unchanged."""
    bench = Bench((0,), key_serializer=serialize_int, value_serializer=serialize_json, linger_ms=0)
    future = bench.producer.send(TOPIC, {"a": 1}, key=7)
    tombstone = bench.producer.send(TOPIC, None, key=7)
    bench.run(3)
    assert future.result(0)[4:] == (8, 7)
    assert tombstone.result(0)[4:] == (8, -1)
    assert RecordSerializers(None, str.encode).run("t", 5, "v", None) == (5, b"v", None)
    bench.producer.close(0)


def _needs(value: object, where: SerializationContext) -> bytes:
    return f"{where.topic}/{where.field}/{value}".encode()


def _named(value: object, ctx: SerializationContext | None = None) -> bytes:
    assert ctx is not None
    return _needs(value, ctx)


def _named_in_full(value: object, context: SerializationContext | None = None) -> bytes:
    assert context is not None
    return _needs(value, context)


class _Callable:
    def __call__(self, obj: object, ctx: SerializationContext | None = None) -> bytes:
        assert ctx is not None
        return _needs(obj, ctx)


@pytest.mark.parametrize("serializer", [_needs, _named, _named_in_full, _Callable()])
def test_a_context_says_where_the_bytes_go(serializer: Any) -> None:
    """To every callable that needs a second argument, or has one of that name."""
    run = RecordSerializers(serializer, serializer).run
    assert run("orders", 1, 2, None) == (b"orders/key/1", b"orders/value/2", [])


@pytest.mark.parametrize(
    ("serializer", "value", "expected"),
    [
        (str.encode, "v", b"v"),
        (bytes, b"v", b"v"),
        (bytearray, b"v", b"v"),
        (memoryview, b"v", b"v"),
        (lambda value: value, b"v", b"v"),
        (lambda value, protocol=2: b"%d" % (value * protocol), 3, b"6"),
        (partial(json.JSONEncoder().encode), "v", None),
    ],
)
def test_other_callables_get_one_argument(serializer: Any, value: Any, expected: Any) -> None:
    """Built-ins and functions whose second argument is something else."""
    run = RecordSerializers(None, serializer).run
    if expected is None:
        with pytest.raises(SerializationError, match="returned str for 't': it must return bytes"):
            run("t", None, value, None)
    else:
        assert run("t", None, value, {"h": b"x"}) == (None, expected, {"h": b"x"})


def test_a_serializer_may_add_headers() -> None:
    """After the application's own, whether these are pairs or a mapping."""

    def serialize(value: bytes, ctx: SerializationContext) -> bytes:
        ctx.headers.append(("schema", ctx.field.encode()))
        return value

    run = RecordSerializers(serialize, serialize).run
    added = [("schema", b"key"), ("schema", b"value")]
    assert run("t", b"k", b"v", {"h": b"x"})[2] == [("h", b"x"), *added]
    assert run("t", b"k", b"v", (("h", b"x"),))[2] == [("h", b"x"), *added]
    assert run("t", b"k", b"v", None)[2] == added


def test_an_asynchronous_serializer_is_rejected() -> None:
    """Its coroutine is closed, and the error says what to use."""

    async def serialize(value: bytes) -> bytes:  # noqa: RUF029 - a coroutine is the point
        return value

    with pytest.raises(SerializationError, match="use the serializer that is not asynchronous"):
        RecordSerializers(None, serialize).run("t", None, b"v", None)


def test_no_code_comes_from_a_setting() -> None:
    """A name of a function is no function."""
    with pytest.raises(ValueError, match="value_serializer"):
        Bench(value_serializer="os.system")
