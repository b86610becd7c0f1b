"""What consumers say to each other inside of a group's messages, as far as the broker reads it.

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
    """Read which topics consumers want.

    Args:
        subscriptions: One of each member.

    Returns:
        All topics; None if one of the subscriptions cannot be read.
    """
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            # The first version is the beginning of every later one.
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
    """Read which partitions a consumer was assigned.

    Args:
        assignment: The member's.

    Returns:
        Partitions by topic; None if it cannot be read.
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
