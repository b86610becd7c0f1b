"""The sticky assignors: balanced, and as few partitions as possible change their owner.

The eager one gives up all partitions before a rebalance, so a member sends its last assignment as
the assignor's own bytes. The cooperative one sends what it owns; partitions that move are left out
of the assignment until their owners have given them up.

Thread-safety: pure functions.
Source: Kafka StickyAssignor and CooperativeStickyAssignor (clients 4.3.1); KIP-54, KIP-429.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from kprod.consumer.group.assignments import Assigned, TopicRacks, existing
from kprod.consumer.group.claims import Claims, settle_claims
from kprod.consumer.group.equal_shares import EqualShares
from kprod.consumer.group.rack_matches import RackMatches
from kprod.consumer.group.sticky_data import decode_claim, encode_claim
from kprod.consumer.group.unequal_shares import UnequalShares
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition

_GENERATION = struct.Struct(">i")
_UNKNOWN_GENERATION = -1


class StickyAssignor:
    """Implements `PartitionAssignor` under the name "sticky"."""

    name: str = "sticky"
    is_cooperative: bool = False

    def assignor_bytes(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the last assignment, and its generation; None before the first."""
        return None if generation == _UNKNOWN_GENERATION else encode_claim(owned, generation)

    def assign(self, members: Sequence[GroupMember], topics: TopicRacks) -> Assigned:
        """Implement `PartitionAssignor.assign`.

        Args:
            members: All members.
            topics: Racks of the replicas, by topic.

        Returns:
            Partitions by member id.
        """
        claimants = []
        for each in members:
            owned, generation = decode_claim(each.assignor_bytes)
            claimants.append(each._replace(owned=owned, generation=generation))
        return _assign(claimants, topics).assigned


class CooperativeStickyAssignor:
    """Implements `PartitionAssignor` under the name "cooperative-sticky"."""

    name: str = "cooperative-sticky"
    is_cooperative: bool = True

    def assignor_bytes(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the generation, for members that do not read it from the subscription."""
        del owned
        return _GENERATION.pack(generation)

    def assign(self, members: Sequence[GroupMember], topics: TopicRacks) -> Assigned:
        """Implement `PartitionAssignor.assign`.

        Args:
            members: All members.
            topics: Racks of the replicas, by topic.

        Returns:
            Partitions by member id, without those that another member must give up first.
        """
        claimants = [each._replace(generation=_generation_of(each)) for each in members]
        assigned, moving = _assign(claimants, topics)
        if moving is None:
            moving = _moving(members, assigned)
        for key, member in moving.items():
            assigned[member].remove(key)
        return assigned


class _Result(NamedTuple):
    assigned: Assigned
    moving: dict[TopicPartition, str] | None


def _assign(members: Sequence[GroupMember], topics: TopicRacks) -> _Result:
    wanted = frozenset().union(*(each.topics for each in members))
    known = {name: each for name, each in existing(topics).items() if name in wanted}
    if not members:
        return _Result({}, {})
    claims: Claims = settle_claims(members, known)
    racks = RackMatches(members, known)
    if claims.are_subscriptions_equal:
        equal = EqualShares(known, claims, racks)
        return _Result(equal.assigned, equal.moving)
    return _Result(UnequalShares(members, known, claims, racks).assigned, None)


def _generation_of(member: GroupMember) -> int:
    if member.generation != _UNKNOWN_GENERATION:
        return member.generation
    encoded = member.assignor_bytes
    if encoded is None or len(encoded) < _GENERATION.size:
        return _UNKNOWN_GENERATION
    return max(_UNKNOWN_GENERATION, int(_GENERATION.unpack_from(encoded)[0]))


def _moving(members: Sequence[GroupMember], assigned: Assigned) -> dict[TopicPartition, str]:
    """Return the new owners of partitions that other members must give up first."""
    given_up = {
        key for each in members for key in set(each.owned).difference(assigned[each.member_id])
    }
    owned_by = {each.member_id: frozenset(each.owned) for each in members}
    return {
        key: member
        for member, keys in assigned.items()
        for key in keys
        if key in given_up and key not in owned_by[member]
    }
