"""The bytes that members of a consumer group exchange: subscriptions and assignments.

They begin with a version of two bytes. A newer version than the newest known one is read as that
one, since each version only appends fields.

Thread-safety: pure functions.
Source: Kafka ConsumerProtocol, ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json
(clients 4.3.1); KIP-429 for owned partitions, KIP-792 for the generation, KIP-881 for the rack.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from kprod.consumer.group.java_order import text_order
from kprod.errors import RemoteProtocolError
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition
from kprod.protocol.codec import structure_codec

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
_VERSION = struct.Struct(">h")
_VERSION_MAX = 3


def encode_subscription(member: GroupMember, version: int = _VERSION_MAX) -> bytes:
    """Encode what a member tells the leader.

    Args:
        member: The member; its ids are not part of the bytes.
        version: 0 to 3.

    Returns:
        The bytes.
    """
    fields = {
        "topics": sorted(member.topics, key=text_order),
        "user_data": member.assignor_bytes,
        "owned_partitions": by_topic(sorted(member.owned, key=partition_order)),
        "generation_id": member.generation,
        "rack_id": member.rack or None,
    }
    return _VERSION.pack(version) + structure_codec("ConsumerProtocolSubscription", version).encode(
        fields
    )


def decode_subscription(member_id: str, instance_id: str | None, encoded: bytes) -> GroupMember:
    """Decode what a member tells the leader.

    Args:
        member_id: The member's id.
        instance_id: Its `group_instance_id`; None for a dynamic member.
        encoded: The bytes.

    Returns:
        The member.

    Raises:
        RemoteProtocolError: The bytes are no subscription.
    """
    fields = _decode("ConsumerProtocolSubscription", encoded)
    return GroupMember(
        member_id,
        instance_id,
        tuple(fields["topics"]),
        tuple(_partitions(fields["owned_partitions"])),
        max(fields["generation_id"], NO_GENERATION),
        fields["rack_id"] or None,
        fields["user_data"],
    )


def encode_assignment(
    partitions: Iterable[TopicPartition], assignor_bytes: bytes | None = None
) -> bytes:
    """Encode what the leader assigns to a member.

    Args:
        partitions: The member's partitions.
        assignor_bytes: The assignor's own bytes.

    Returns:
        The bytes.
    """
    fields = {"assigned_partitions": by_topic(partitions), "user_data": assignor_bytes}
    return _VERSION.pack(_VERSION_MAX) + structure_codec(
        "ConsumerProtocolAssignment", _VERSION_MAX
    ).encode(fields)


def decode_assignment(encoded: bytes) -> list[TopicPartition]:
    """Decode what the leader assigned.

    Args:
        encoded: The bytes; none at all from a coordinator whose leader left a member out.

    Returns:
        The partitions, each once.

    Raises:
        RemoteProtocolError: The bytes are no assignment.
    """
    if not encoded:
        return []
    fields = _decode("ConsumerProtocolAssignment", encoded)
    return list(dict.fromkeys(_partitions(fields["assigned_partitions"])))


def partition_order(key: TopicPartition) -> tuple[bytes, int]:
    """Return a sort key that orders partitions as Java does: by topic, then by number."""
    return text_order(key.topic), key.partition


def by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    """Group partitions as the protocol's structures do.

    Args:
        partitions: Any partitions.

    Returns:
        Topics in the order of their first partition, each with its partition numbers.
    """
    numbers: dict[str, list[int]] = {}
    for key in partitions:
        numbers.setdefault(key.topic, []).append(key.partition)
    return [{"topic": topic, "partitions": each} for topic, each in numbers.items()]


def _decode(name: str, encoded: bytes) -> dict[str, Any]:
    if len(encoded) < _VERSION.size:
        raise RemoteProtocolError(f"{name} of {len(encoded)} bytes has no version")
    (version,) = _VERSION.unpack_from(encoded)
    if version < 0:
        raise RemoteProtocolError(f"{name} has the version {version}")
    codec = structure_codec(name, min(version, _VERSION_MAX))
    fields, _ = codec.decode_prefix(memoryview(encoded)[_VERSION.size :])
    return dict(fields)


def _partitions(topics: Sequence[dict[str, Any]]) -> list[TopicPartition]:
    found = [TopicPartition(each["topic"], it) for each in topics for it in each["partitions"]]
    for key in found:
        if key.partition < 0:
            raise RemoteProtocolError(f"partition {key.partition} of topic {key.topic!r}")
    return found
