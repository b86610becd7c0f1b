# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Creates codecs from the protocol tables: one for each message and version, on first use.

A codec holds a plan that `kprod._core` reads and writes by. Values are plain:
ints (error codes, times in milliseconds, offsets), str, bytes, `uuid.UUID`, lists, dicts keyed by
Kafka's field names in snake case. `records` are memoryviews of the input, so the input lives as
long as they do.

Invariants.
    decode(encode(body)) gives body back, defaults filled in.
    A field that the version lacks decodes to its default and, unless it may be ignored, encodes
    only with that default.

Thread-safety: any thread; codecs are immutable and cached for good.
Source: Kafka's message definitions (kafka-clients 4.3.1) and KIP-482.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from kprod._core.wire.wire_bounds import Bounds
from kprod._core.wire.wire_plan import FieldPlan, Flag, Kind, StructPlan
from kprod._core.wire.wire_reader import decode, decode_prefix
from kprod._core.wire.wire_writer import default_bytes, encode
from kprod.errors import UnsupportedVersion
from kprod.protocol.messages import MESSAGES
from kprod.protocol.schema import BytesLike, Field, Message, holds

_BY_NAME: Final = {message.name: message for message in MESSAGES}
_KEYED: Final = [message for message in MESSAGES if message.api_key >= 0]
REQUESTS: Final = {m.api_key: m for m in _KEYED if m.name.endswith("Request")}
RESPONSES: Final = {m.api_key: m for m in _KEYED if m.name.endswith("Response")}

_ZEROS: Final[Mapping[Kind, object]] = {
    Kind.BOOL: False,
    Kind.FLOAT64: 0.0,
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.RECORDS: b"",
    Kind.UUID: UUID(int=0),
}


class MessageCodec:
    """Reads and writes one message in one version.

    Attributes:
        name: Kafka's name of the message.
        version: Version of the message.
        flexible: Whether the version has compact lengths and tagged fields.

    Thread-safety: any thread.
    """

    def __init__(self, message: Message, version: int) -> None:
        """Make the plan of a message.

        Args:
            message: The message's table.
            version: One of the table's versions.

        Raises:
            UnsupportedVersion: The table has no such version.
        """
        if not holds(message.versions, version):
            low, high = message.versions
            text = f"{message.name} has versions {low} to {high} in kprod, not {version}"
            raise UnsupportedVersion(text)
        self.name: str = message.name
        self.version = version
        self.flexible: bool = message.flexible is not None and version >= message.flexible
        where = f"{message.name} v{version}:"
        self._plan = _Compiler(version, flexible=self.flexible).struct(where, message.fields)

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """Write a message.

        Args:
            body: Values by field name; missing ones take their default.

        Returns:
            The message's bytes, without header or size.

        Raises:
            LocalProtocolError: An unknown key, a wrong type, a number out of range, a null or a
                value that this version cannot express; the text names message, version and field.
        """
        return encode(self._plan, body)

    def decode(self, buffer: BytesLike, bounds: Bounds | None = None) -> dict[str, Any]:
        """Read a message that fills a buffer.

        Args:
            buffer: The message's bytes, without header or size.
            bounds: Limits of the decoded fields; None for no limits beyond the input's size.

        Returns:
            All fields that any version has; those that this version lacks with their default.

        Raises:
            RemoteProtocolError: The bytes are not this message, end early or continue after it, or
                hold more than the bounds allow.
        """
        return decode(self._plan, buffer, bounds)

    def decode_prefix(
        self, buffer: BytesLike, bounds: Bounds | None = None
    ) -> tuple[dict[str, Any], int]:
        """Read a message that a buffer begins with.

        Args:
            buffer: The message's bytes and whatever follows.
            bounds: The bounds, as for `decode`.

        Returns:
            The fields, and the number of bytes read.

        Raises:
            RemoteProtocolError: The bytes are not this message or end early, or hold too much.
        """
        return decode_prefix(self._plan, buffer, bounds)


@functools.cache
def request_codec(api_key: int, version: int) -> MessageCodec:
    """Return the codec of a request's body.

    Args:
        api_key: An `ApiKey` that kprod has tables for.
        version: One of the table's versions.

    Returns:
        The codec, the same one each time.

    Raises:
        UnsupportedVersion: kprod does not know the request or the version.
    """
    return MessageCodec(_known(REQUESTS, api_key), version)


@functools.cache
def response_codec(api_key: int, version: int) -> MessageCodec:
    """Return the codec of a response's body.

    Args:
        api_key: An `ApiKey` that kprod has tables for.
        version: One of the table's versions.

    Returns:
        The codec, the same one each time.

    Raises:
        UnsupportedVersion: kprod does not know the response or the version.
    """
    return MessageCodec(_known(RESPONSES, api_key), version)


@functools.cache
def structure_codec(name: str, version: int) -> MessageCodec:
    """Return the codec of a header or of a structure that travels inside another message.

    Args:
        name: Kafka's name, such as `RequestHeader` or `ConsumerProtocolSubscription`.
        version: One of the table's versions.

    Returns:
        The codec, the same one each time.

    Raises:
        UnsupportedVersion: kprod has no such version.
    """
    return MessageCodec(_BY_NAME[name], version)


def _known(messages: Mapping[int, Message], api_key: int) -> Message:
    message = messages.get(api_key)
    if message is None:
        text = f"kprod has no tables for API key {int(api_key)}"
        raise UnsupportedVersion(text)
    return message


class _Compiler:
    """Turns the tables of one message into plans for one version."""

    __slots__ = ("_flexible", "_version")

    def __init__(self, version: int, *, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible

    def struct(self, where: str, fields: tuple[Field, ...]) -> StructPlan:
        """Plan a structure."""
        present, tagged, absent = [], [], []
        for field in fields:
            plan = self._field(where, field)
            if not holds(field.versions, self._version):
                absent.append(plan)
            elif holds(field.tagged, self._version):
                tagged.append((field.tag, plan, default_bytes(plan)))
            else:
                present.append(plan)
        return StructPlan(where, present, tagged, absent, self._flexible)

    def _field(self, where: str, field: Field) -> FieldPlan:
        is_array = field.kind.startswith("[]")
        inner_kind = Kind[field.kind.removeprefix("[]").upper()]
        path = f"{where} {field.name}" if where.endswith(":") else f"{where}.{field.name}"
        shape: FieldPlan | StructPlan | None = None
        if inner_kind is Kind.STRUCT:
            shape = self.struct(path, field.fields)
        kind = Kind.ARRAY if is_array else inner_kind
        if is_array:
            compact = Flag.COMPACT if self._flexible else Flag(0)
            shape = FieldPlan("[]", path, inner_kind, compact, _ZEROS.get(inner_kind, 0), shape)
        default = _ZEROS.get(kind, 0) if field.default == 0 else field.default
        return FieldPlan(field.name, where, kind, self._flags(field), default, shape)

    def _flags(self, field: Field) -> Flag:
        flags = Flag(0)
        if holds(field.nullable, self._version):
            flags |= Flag.NULLABLE
        if self._flexible and not field.fixed_length:
            flags |= Flag.COMPACT
        if field.ignorable:
            flags |= Flag.IGNORABLE
        return flags
