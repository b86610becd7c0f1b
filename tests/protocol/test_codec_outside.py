"""kprod's bytes read, and written again, by two libraries that nobody here wrote.

kio and kafka-python must find in our bytes the values that we put there, field by field, and write
the same bytes again. Both generate their code from Kafka's definitions by means of their own.
"""

import dataclasses
import datetime as dt
import enum
import importlib
import io
import re
import warnings
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from kprod.protocol.messages import MESSAGES
from kprod.protocol.schema import Message
from tests.protocol.bodies import codec_of, sample

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas the old way
    from kafka.protocol import admin, consumer, metadata, producer, sasl

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_KAFKA_PYTHON = (admin, consumer, metadata, producer, sasl)

# kafka-python renames the fields of authorized operations and reads them as sets of bits, so that
# only their bytes are compared. Its schemas are those of Kafka 4, and lack the fields of what
# was withdrawn.
_FIRST_IN_KAFKA_PYTHON = {"ListOffsetsRequest": 1, "ListOffsetsResponse": 1}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _kio_class(message: Message, version: int) -> Any:
    name, kind = _snake(message.name), "data"
    if message.api_key >= 0:
        name, _, kind = name.rpartition("_")
    elif name.endswith("header"):
        kind = "header"
    module = f"kio.schema.{name}.v{version}.{kind}"
    try:
        return getattr(importlib.import_module(module), message.name)
    except ModuleNotFoundError:
        return None


def _plain(value: Any) -> Any:
    """Turn kio's values, and ours, into what can be compared; kio's names have no unit."""
    if isinstance(value, dict):
        return {
            name.removesuffix("_").removesuffix("_ms"): _plain(each) for name, each in value.items()
        }
    if dataclasses.is_dataclass(value):
        return {
            f.name.removesuffix("_").removesuffix("_ms"): _plain(getattr(value, f.name))
            for f in dataclasses.fields(value)
        }
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(milliseconds=1)
    return int(value) if isinstance(value, enum.IntEnum) else value


_IN_KIO = [m for m in MESSAGES if _kio_class(m, m.versions[1]) is not None]


@pytest.mark.parametrize("message", _IN_KIO, ids=lambda m: m.name)
def test_kio_reads_and_writes_the_same(message: Message) -> None:
    """Values agree field by field, and so do the bytes."""
    compared = 0
    for version in range(message.versions[0], message.versions[1] + 1):
        kio_class = _kio_class(message, version)
        if kio_class is None:  # a version that Kafka 4 withdrew
            continue
        body = sample(message, version)
        ours = codec_of(message, version).encode(body)
        entity, size = entity_reader(kio_class)(ours, 0)
        assert size == len(ours)
        assert _plain(entity) == _plain(body)
        written = io.BytesIO()
        entity_writer(kio_class)(written, entity)
        assert written.getvalue() == ours
        compared += 1
    assert compared > 0


def _kafka_python_class(message: Message) -> Any:
    for package in _KAFKA_PYTHON:
        if hasattr(package, message.name):
            return getattr(package, message.name)
    return None


def _agrees(theirs: Any, ours: Any) -> bool:
    if isinstance(ours, dict):
        named = ((n, v) for n, v in ours.items() if not n.endswith("authorized_operations"))
        return all(_agrees(getattr(theirs, name), value) for name, value in named)
    if isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(_agrees, theirs, ours))
    return bool(theirs == ours)


_IN_KAFKA_PYTHON = [m for m in MESSAGES if m.api_key >= 0 and _kafka_python_class(m) is not None]


@pytest.mark.parametrize("message", _IN_KAFKA_PYTHON, ids=lambda m: m.name)
def test_kafka_python_reads_and_writes_the_same(message: Message) -> None:
    """Values agree field by field, and so do the bytes."""
    first = _FIRST_IN_KAFKA_PYTHON.get(message.name, message.versions[0])
    for version in range(first, message.versions[1] + 1):
        body = sample(message, version)
        if message.name == "ApiVersionsResponse":
            body["error_code"] = 0  # with an error it reads version 0, whatever was asked
        ours = codec_of(message, version).encode(body)
        read = _kafka_python_class(message)[version].decode(ours)
        assert _agrees(read, body)
        read._header = None  # some of its encoders look for one
        assert bytes(read.encode()) == ours
