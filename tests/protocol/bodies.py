"""Bodies for any message and version, made from the tables: one fixed sample, or a strategy."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kprod.protocol.codec import MessageCodec, request_codec, response_codec, structure_codec
from kprod.protocol.messages import MESSAGES
from kprod.protocol.schema import Field, Message, holds

_INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def all_versions() -> Iterator[tuple[Message, int]]:
    """Yield every message in every version."""
    for message in MESSAGES:
        for version in range(message.versions[0], message.versions[1] + 1):
            yield message, version


def codec_of(message: Message, version: int) -> MessageCodec:
    """Return the cached codec of a message."""
    if message.api_key < 0:
        return structure_codec(message.name, version)
    make = request_codec if message.name.endswith("Request") else response_codec
    return make(message.api_key, version)


def sample(message: Message, version: int) -> dict[str, Any]:
    """Return a body in which every field of the version has a value of its own."""
    return {f.name: _sample(f, version) for f in message.fields if holds(f.versions, version)}


def _sample(field: Field, version: int) -> Any:
    kind = field.kind
    if kind.startswith("[]"):
        element = field._replace(kind=kind.removeprefix("[]"))
        return [_sample(element, version)] * 2
    if kind == "struct":
        return {f.name: _sample(f, version) for f in field.fields if holds(f.versions, version)}
    seed = zlib.crc32(field.name.encode())
    if field.name == "error_code":
        return 3
    values: dict[str, Any] = {
        "bool": True,
        "float64": seed / 7,
        "string": f"s-{seed % 97}",
        "bytes": struct.pack(">I", seed),
        "records": struct.pack(">Q", seed),
        "uuid": UUID(int=seed << 64 | 5),
    }
    return values[kind] if kind in values else seed % 120 + 1


def bodies(message: Message, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for complete bodies of a message in one version."""
    return _struct(message.fields, version)


def _struct(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    present = {f.name: _value(f, version) for f in fields if holds(f.versions, version)}
    return st.fixed_dictionaries(present)


def _value(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.kind.startswith("[]"):
        element = field._replace(kind=field.kind.removeprefix("[]"), nullable=None)
        values: st.SearchStrategy[Any] = st.lists(_value(element, version), max_size=3)
    elif field.kind == "struct":
        values = _struct(field.fields, version)
    elif field.kind in _INTS:
        half = 2 ** (_INTS[field.kind] - 1)
        values = st.integers(-half, half - 1)
    else:
        values = _SCALARS[field.kind]
    return st.none() | values if holds(field.nullable, version) else values


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
    "uuid": st.uuids(),
}
