"""Parses the consumers' subscriptions and assignments, as far as the broker needs them.

Thread-safety: pure functions.
Source: Kafka ConsumerProtocol (clients 4.3.1).
"""

import struct
from collections.abc import Iterable

from kprod.errors import KprodError
from kprod.protocol.codec import structure_codec

CONSUMER_TYPE = "consumer"
"""The protocol type of consumers."""

_VERSION = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Parse the topics that consumers subscribe to.

    Args:
        subscriptions: The subscription of each member.

    Returns:
        All topics; None if a subscription cannot be parsed.
    """
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            # Every later version begins with the first version.
            fields, _ = structure_codec("ConsumerProtocolSubscription", 0).decode_prefix(
                memoryview(subscription)[_VERSION.size :]
            )
        except KprodError:
            return None
        if len(subscription) < _VERSION.size:
            return None
        topics.update(fields["topics"])
    return frozenset(topics)


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """Parse the partitions assigned to a consumer.

    Args:
        assignment: The member's assignment.

    Returns:
        Partitions by topic; None if it cannot be parsed.
    """
    if not assignment:
        return {}
    try:
        fields, _ = structure_codec("ConsumerProtocolAssignment", 0).decode_prefix(
            memoryview(assignment)[_VERSION.size :]
        )
    except KprodError:
        return None
    return {it["topic"]: list(it["partitions"]) for it in fields["assigned_partitions"]}
