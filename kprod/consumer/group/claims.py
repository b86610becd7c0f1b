"""The former owners of partitions, as the sticky assignors see them.

A partition that two members claim belongs to the one with the newer generation; if both have the
same, to neither.

Thread-safety: pure functions.
Source: Kafka AbstractStickyAssignor (clients 4.3.1); KIP-792 for generations.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kprod.consumer.group.assignments import Assigned, TopicRacks
from kprod.consumer.group.java_order import hash_map_order, text_hash
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition


class Claims(NamedTuple):
    """The former owners of partitions.

    Attributes:
        owned: Partitions by member id, in the order of Java's hash map.
        disputed: Partitions that two members of one generation claim.
        former: Members of older generations that had a partition, with that generation.
        are_subscriptions_equal: Whether all members subscribe to the same topics.
    """

    owned: Assigned
    disputed: frozenset[TopicPartition]
    former: dict[TopicPartition, tuple[str, int]]
    are_subscriptions_equal: bool


def settle_claims(members: Sequence[GroupMember], topics: TopicRacks) -> Claims:
    """Decide what each member has.

    Args:
        members: All members; `owned` and `generation` are their claims.
        topics: Racks of the replicas, by topic.

    Returns:
        The claims.
    """
    by_id = {each.member_id: each for each in members}
    order = [by_id[name] for name in hash_map_order(by_id, text_hash)]
    owned: Assigned = {}
    owner_of: dict[TopicPartition, GroupMember] = {}
    disputed: set[TopicPartition] = set()
    for member in order:
        kept = owned[member.member_id] = []
        for key in member.owned:
            if key.partition >= len(topics.get(key.topic, ())):
                continue
            other = owner_of.get(key)
            if other is not None and other.generation > member.generation:
                continue
            owner_of[key] = member
            if other is None:
                kept.append(key)
                continue
            if key in owned[other.member_id]:
                owned[other.member_id].remove(key)
            if other.generation == member.generation:
                disputed.add(key)
            else:
                kept.append(key)
    return Claims(
        owned,
        frozenset(disputed),
        _former(order),
        len({frozenset(each.topics) for each in members}) <= 1,
    )


def _former(members: Sequence[GroupMember]) -> dict[TopicPartition, tuple[str, int]]:
    """Return the newest of the old owners."""
    newest = max((each.generation for each in members), default=-1)
    former: dict[TopicPartition, tuple[str, int]] = {}
    for member in members:
        if member.generation >= newest:
            continue
        for key in member.owned:
            if key not in former or member.generation > former[key][1]:
                former[key] = (member.member_id, member.generation)
    return former
