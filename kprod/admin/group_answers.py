"""Reads the values of `group_values` from responses.

A member of a classic group sends bytes to its leader, and gets bytes from it, which only a
consumer's protocol gives a meaning.

Thread-safety: pure functions.
Source: ListGroupsResponse, DescribeGroupsResponse, ConsumerGroupDescribeResponse (Kafka 4.3.1).
"""

from collections.abc import Mapping
from typing import Any

from kprod.admin.group_values import (
    CLASSIC,
    CONSUMER,
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from kprod.consumer.group.protocol_data import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from kprod.errors import RemoteProtocolError
from kprod.model import Node, TopicPartition


def listing_of(entry: Mapping[str, Any], node_id: int) -> GroupListing:
    """Read a group of a ListGroups response.

    Args:
        entry: The group's fields.
        node_id: The broker that has sent it.

    Returns:
        The group.
    """
    return GroupListing(
        entry["group_id"],
        entry["protocol_type"],
        entry["group_state"],
        entry["group_type"].lower(),
        node_id,
    )


def described_classic(entry: Mapping[str, Any], node: Node) -> GroupDescription:
    """Read a group of a DescribeGroups response.

    Args:
        entry: The group's fields.
        node: The coordinator.

    Returns:
        The group.
    """
    is_consumer = entry["protocol_type"] == PROTOCOL_TYPE
    return GroupDescription(
        entry["group_id"],
        entry["group_state"],
        CLASSIC,
        entry["protocol_type"],
        entry["protocol_data"],
        node,
        tuple(_member(each, is_consumer=is_consumer) for each in entry["members"]),
    )


def described_consumers(entry: Mapping[str, Any], node: Node) -> GroupDescription:
    """Read a group of a ConsumerGroupDescribe response.

    Args:
        entry: The group's fields.
        node: The coordinator.

    Returns:
        The group.
    """
    return GroupDescription(
        entry["group_id"],
        entry["group_state"],
        CONSUMER,
        PROTOCOL_TYPE,
        entry["assignor_name"],
        node,
        tuple(_consumer(each) for each in entry["members"]),
    )


def _member(entry: Mapping[str, Any], *, is_consumer: bool) -> MemberDescription:
    metadata, assignment = bytes(entry["member_metadata"]), bytes(entry["member_assignment"])
    return MemberDescription(
        entry["member_id"],
        entry["group_instance_id"],
        entry["client_id"],
        entry["client_host"],
        _topics(metadata) if is_consumer else None,
        _partitions(assignment) if is_consumer else None,
        len(metadata),
        len(assignment),
    )


def _consumer(entry: Mapping[str, Any]) -> MemberDescription:
    assigned = [
        TopicPartition(topic["topic_name"], number)
        for topic in entry["assignment"]["topic_partitions"]
        for number in topic["partitions"]
    ]
    return MemberDescription(
        entry["member_id"],
        entry["instance_id"],
        entry["client_id"],
        entry["client_host"],
        tuple(entry["subscribed_topic_names"]),
        tuple(sorted(assigned)),
        metadata_bytes=0,
        assignment_bytes=0,
        epoch=entry["member_epoch"],
        pattern=entry["subscribed_topic_regex"] or None,
    )


def _topics(metadata: bytes) -> tuple[str, ...] | None:
    try:
        return decode_subscription("", None, metadata).topics if metadata else None
    except RemoteProtocolError:
        return None  # a member may send any bytes


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    try:
        return tuple(sorted(decode_assignment(assignment))) if assignment else None
    except RemoteProtocolError:
        return None
