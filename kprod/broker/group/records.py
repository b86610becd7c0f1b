"""The records of `__consumer_offsets`, byte for byte as Kafka writes them.

A key begins with the record's type, a value with its version, both 16 bits; the rest is a structure
of Kafka's group-coordinator definitions. A record without a value is a tombstone.

Thread-safety: pure functions.
Source: Kafka GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde (4.3.1).
"""

import struct
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from kprod.errors import KprodError, RemoteProtocolError
from kprod.protocol.codec import structure_codec

LEGACY_OFFSET_TYPE, OFFSET_TYPE, GROUP_TYPE = 0, 1, 2
GROUP_VALUE_VERSION = 3
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
NO_TIMESTAMP = -1
NO_TOPIC_ID = uuid.UUID(int=0)
_INT16 = struct.Struct(">h")

LogRecord = tuple[bytes, bytes | None]
"""Key and value."""


class OffsetKey(NamedTuple):
    """A committed offset's group, topic and partition."""

    group_id: str
    topic: str
    partition: int


class Offset(NamedTuple):
    """A committed offset.

    Attributes:
        offset: Offset of the next record to read.
        leader_epoch: Leader epoch of the last record read; −1 if unknown.
        metadata: The client's text.
        commit_timestamp_ms: Wall clock time of the commit.
        expire_timestamp_ms: Wall clock time of expiry; −1 unless the client requested a retention
            time.
        topic_id: The topic's id; zero if unknown.
        log_offset: Offset of its record in `__consumer_offsets`; −1 before it is written.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: uuid.UUID = NO_TOPIC_ID
    log_offset: int = -1


class GroupValue(NamedTuple):
    """A group's record: key and fields; no fields for a tombstone."""

    group_id: str
    fields: Mapping[str, Any] | None


class OffsetValue(NamedTuple):
    """An offset's record: key and offset; no offset for a tombstone."""

    key: OffsetKey
    offset: Offset | None


def group_key(group_id: str) -> bytes:
    """The key of a group's record."""
    return _INT16.pack(GROUP_TYPE) + structure_codec("GroupMetadataKey", 0).encode(
        {"group": group_id}
    )


def offset_key(key: OffsetKey) -> bytes:
    """The key of an offset's record."""
    fields = {"group": key.group_id, "topic": key.topic, "partition": key.partition}
    return _INT16.pack(OFFSET_TYPE) + structure_codec("OffsetCommitKey", 0).encode(fields)


def group_record(group_id: str, fields: Mapping[str, Any]) -> LogRecord:
    """Encode a group's record.

    Args:
        group_id: Id of the group.
        fields: Fields of `GroupMetadataValue`.

    Returns:
        The record's key and value.
    """
    body = structure_codec("GroupMetadataValue", GROUP_VALUE_VERSION).encode(fields)
    return group_key(group_id), _INT16.pack(GROUP_VALUE_VERSION) + body


def offset_record(key: OffsetKey, offset: Offset) -> LogRecord:
    """Encode an offset's record; one with an expiry uses the version that has a field for it.

    Args:
        key: Group, topic and partition of the offset.
        offset: The committed offset.

    Returns:
        The record's key and value.
    """
    has_expiry = offset.expire_timestamp_ms != NO_TIMESTAMP
    version = OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VALUE_VERSION
    fields = {
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commit_timestamp": offset.commit_timestamp_ms,
        "expire_timestamp": offset.expire_timestamp_ms,
        "topic_id": offset.topic_id,
    }
    body = structure_codec("OffsetCommitValue", version).encode(fields)
    return offset_key(key), _INT16.pack(version) + body


def decoded(key: bytes, value: bytes | None, log_offset: int) -> GroupValue | OffsetValue | None:
    """Parse a record.

    Args:
        key: Its key.
        value: Its value; None for a tombstone.
        log_offset: The record's offset.

    Returns:
        The decoded record; None for an unknown type.

    Raises:
        RemoteProtocolError: The bytes are not a record of their type and version.
    """
    record_type = _number(key)
    if record_type == GROUP_TYPE:
        group_id = structure_codec("GroupMetadataKey", 0).decode(key[2:])["group"]
        return GroupValue(group_id, _decoded_value("GroupMetadataValue", value))
    if record_type in {LEGACY_OFFSET_TYPE, OFFSET_TYPE}:
        fields = structure_codec("OffsetCommitKey", 0).decode(key[2:])
        offset_of = OffsetKey(fields["group"], fields["topic"], fields["partition"])
        return OffsetValue(
            offset_of, _offset(_decoded_value("OffsetCommitValue", value), log_offset)
        )
    return None


def _decoded_value(name: str, value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        codec = structure_codec(name, _number(value))
    except RemoteProtocolError:
        raise
    except KprodError as error:
        raise RemoteProtocolError(f"a record of __consumer_offsets: {error}") from error
    return codec.decode(value[2:])


def _offset(fields: Mapping[str, Any] | None, log_offset: int) -> Offset | None:
    if fields is None:
        return None
    return Offset(
        offset=fields["offset"],
        leader_epoch=fields["leader_epoch"],
        metadata=fields["metadata"],
        commit_timestamp_ms=fields["commit_timestamp"],
        expire_timestamp_ms=fields["expire_timestamp"],
        topic_id=fields["topic_id"],
        log_offset=log_offset,
    )


def _number(encoded: bytes) -> int:
    if len(encoded) < _INT16.size:
        raise RemoteProtocolError(
            f"a key or value of __consumer_offsets has {len(encoded)} bytes; it begins with two"
        )
    number: int = _INT16.unpack_from(encoded)[0]
    return number
