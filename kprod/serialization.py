"""Serializers: what turns an application's keys and values into bytes.

Any callable is possible. One with a second parameter named `ctx` or `context`, or with a second
required parameter, gets a context of the form that confluent-kafka's Schema Registry serializers
use; so these can be used unchanged, and nothing of that package is imported here.

A serializer that raises, or returns anything but bytes, ends `send` before anything is sent.

Thread-safety: serializers run in every thread that sends.
Source: confluent-kafka 2.16 `SerializationContext`; Kafka StringSerializer, IntegerSerializer,
LongSerializer, DoubleSerializer (clients 4.3.1) for the plain ones' bytes.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from types import CoroutineType
from typing import Any, Literal

from kprod.errors import SerializationError

__all__ = [
    "RecordSerializers",
    "SerializationContext",
    "serialize_float",
    "serialize_int",
    "serialize_int32",
    "serialize_json",
    "serialize_str",
]

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")
_CONTEXT_NAMES = {"ctx", "context"}


class SerializationContext:
    """The record's field that one call of a serializer is for.

    Attributes:
        topic: The record's topic.
        field: "key" or "value".
        headers: The record's headers; a serializer may append to them.
    """

    __slots__ = ("field", "headers", "topic")

    def __init__(
        self,
        *,
        topic: str,
        field: Literal["key", "value"],
        headers: list[tuple[str, Any]] | None = None,
    ) -> None:
        self.topic: str = topic
        self.field: Literal["key", "value"] = field
        self.headers: list[tuple[str, Any]] = [] if headers is None else headers

    def __repr__(self) -> str:
        return f"SerializationContext({self.topic!r}, {self.field!r}, {self.headers!r})"


def serialize_str(value: str | None) -> bytes | None:
    """UTF-8; null stays null."""
    return None if value is None else str.encode(value)


def serialize_int(value: int | None) -> bytes | None:
    """Signed, 64 bits, big-endian, as Kafka's LongSerializer; null stays null."""
    return None if value is None else _INT64.pack(value)


def serialize_int32(value: int | None) -> bytes | None:
    """Signed, 32 bits, big-endian, as Kafka's IntegerSerializer; null stays null."""
    return None if value is None else _INT32.pack(value)


def serialize_float(value: float | None) -> bytes | None:
    """IEEE 754, 64 bits, big-endian, as Kafka's DoubleSerializer; null stays null."""
    return None if value is None else _FLOAT64.pack(value)


def serialize_json(value: Any) -> bytes | None:  # noqa: ANN401 - whatever JSON can say
    """JSON in UTF-8 without spaces, by orjson where it is installed; None is null, no "null".

    orjson also supports dataclasses, dates and UUIDs, and rejects integers beyond 64 bits.

    Args:
        value: A value of str, int, float, bool, None, lists and mappings.

    Returns:
        The text's bytes; None for None.
    """
    if value is None:
        return None
    return _json_writer()(value)


@cache
def _json_writer() -> Callable[[Any], bytes]:
    """Import orjson, or the standard library's json without it, for the first value in JSON."""
    try:
        from orjson import dumps  # noqa: PLC0415 - an extra
    except ImportError:
        from json import JSONEncoder  # noqa: PLC0415 - orjson's programs do without

        write = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
        return lambda value: write(value).encode()
    return dumps


class RecordSerializers:
    """The serializers of one producer.

    Thread-safety: immutable.
    """

    __slots__ = ("_key", "_value")

    def __init__(self, key: Callable[..., Any] | None, value: Callable[..., Any] | None) -> None:
        """Determine how to call each deserializer.

        Args:
            key: Deserializer of keys; None leaves keys unchanged.
            value: Deserializer of values; None leaves values unchanged.
        """
        self._key = None if key is None else _Serializer(key, "key")
        self._value = None if value is None else _Serializer(value, "value")

    def run(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - an application's own
        """Serialize the key, then the value.

        Args:
            topic: The record's topic.
            key: The key, as given to `send`.
            value: The deserialized value.
            headers: The record's headers.

        Returns:
            Key and value as bytes or None, and the headers with what serializers appended.

        Raises:
            SerializationError: A serializer raised, or returned something else.
        """
        if self._key is not None:
            key, headers = self._key.run(topic, key, headers)
        if self._value is not None:
            value, headers = self._value.run(topic, value, headers)
        return key, value, headers


class _Serializer:
    """A deserializer, and whether it takes a context."""

    __slots__ = ("_call", "_field", "_takes_context")

    def __init__(self, call: Callable[..., Any], field: Literal["key", "value"]) -> None:
        self._call = call
        self._field = field
        self._takes_context = takes_context(call)

    def run(self, topic: str, given: Any, headers: Any) -> tuple[Any, Any]:  # noqa: ANN401 - an application's own
        arguments: tuple[Any, ...] = (given,)
        if self._takes_context:
            headers = _as_list(headers)
            where = SerializationContext(topic=topic, field=self._field, headers=headers)
            arguments = (given, where)
        try:
            made = self._call(*arguments)
        except Exception as error:
            raise SerializationError(
                f"the {self._field}_serializer failed for {topic!r}: {error}"
            ) from error
        if made is not None and not isinstance(made, bytes):
            self._check(made, topic)
        return made, headers

    def _check(self, made: Any, topic: str) -> None:  # noqa: ANN401 - anything at all
        """Reject a value that is not bytes-like, which a serializer may return by mistake."""
        try:
            memoryview(made)
        except TypeError:
            remedy = "it must return bytes"
            if isinstance(made, CoroutineType):
                made.close()
                remedy = "use the serializer that is not asynchronous"
            raise SerializationError(
                f"the {self._field}_serializer returned {type(made).__name__} for {topic!r}:"
                f" {remedy}"
            ) from None


def takes_context(call: Callable[..., Any]) -> bool:
    """Whether a serializer or deserializer takes a `SerializationContext`.

    Args:
        call: Any callable.

    Returns:
        True if it has a second positional argument that is required, or named as one.
    """
    import inspect  # noqa: PLC0415 - it takes long to load, and most producers have no serializer

    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):  # some built-ins do not say
        return False
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    if len(positional) < 2:  # noqa: PLR2004 - the second is the context
        return False
    second = positional[1]
    return second.default is second.empty or second.name in _CONTEXT_NAMES


def _as_list(headers: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - an application's own
    if headers is None:
        return []
    return list(headers.items() if isinstance(headers, Mapping) else headers)
