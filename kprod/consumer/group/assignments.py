"""The common part of the assignors: the types of their arguments, and the order of members.

Thread-safety: pure functions.
Source: Kafka AbstractPartitionAssignor (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from kprod.consumer.group.java_order import text_order
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition

TopicRacks: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""The racks of each partition's replicas, by topic; the position is the partition number."""

Assigned: TypeAlias = dict[str, list[TopicPartition]]
"""Partitions by member id."""


def existing(topics: TopicRacks) -> dict[str, Sequence[frozenset[str]]]:
    """Return the topics that have partitions.

    Args:
        topics: Any topics.

    Returns:
        Those with at least one partition, in Java's order of their names.
    """
    return {name: topics[name] for name in sorted(topics, key=text_order) if topics[name]}


def partitions_of(topics: TopicRacks) -> list[TopicPartition]:
    """Return all partitions of topics, in the topics' order, ascending.

    Args:
        topics: Any topics.

    Returns:
        The partitions.
    """
    return [TopicPartition(name, it) for name, racks in topics.items() for it in range(len(racks))]


def in_member_order(members: Iterable[GroupMember]) -> list[GroupMember]:
    """Sort members as range and round-robin do: static ones first, by instance id.

    Args:
        members: Any members.

    Returns:
        Static members by instance id, then dynamic ones by member id.
    """
    return sorted(
        members,
        key=lambda it: (
            (1, text_order(it.member_id))
            if it.instance_id is None
            else (0, text_order(it.instance_id))
        ),
    )


def racks_decide(
    member_racks: AbstractSet[str], partition_racks: Iterable[AbstractSet[str]]
) -> bool:
    """Whether racks can make a difference (KIP-881).

    Args:
        member_racks: Racks of the members.
        partition_racks: Racks of each partition's replicas.

    Returns:
        True if a member shares a rack with a replica, and not every partition has all racks.
    """
    each = list(partition_racks)
    every = frozenset().union(*each)
    return not every.isdisjoint(member_racks) and any(racks != every for racks in each)
