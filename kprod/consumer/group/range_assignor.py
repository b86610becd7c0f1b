"""Assigns neighbouring partitions of each topic to each member.

Topics with the same members and number of partitions are assigned alike, so that equal keys of both
meet in one member. Where racks are known and decide, a member first gets partitions with a replica
in its rack; topics that belong together only move together.

Thread-safety: pure functions.
Source: Kafka RangeAssignor (clients 4.3.1); KIP-881 for racks.
"""

from collections.abc import Callable, Sequence

from kprod.consumer.group.assignments import (
    Assigned,
    TopicRacks,
    existing,
    in_member_order,
    racks_decide,
)
from kprod.consumer.group.protocol_data import partition_order
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition


class RangeAssignor:
    """Implements `PartitionAssignor` under the name "range"."""

    name: str = "range"
    is_cooperative: bool = False

    def assignor_bytes(self, owned: Sequence[TopicPartition], generation: int) -> None:
        """Return None: the assignor remembers nothing."""

    def assign(self, members: Sequence[GroupMember], topics: TopicRacks) -> Assigned:
        """Implement `PartitionAssignor.assign`.

        Args:
            members: All members.
            topics: Racks of the replicas, by topic.

        Returns:
            Partitions by member id, sorted.
        """
        assigned: Assigned = {each.member_id: [] for each in members}
        ordered = in_member_order(members)
        shares = [
            _TopicShares(name, racks, [it for it in ordered if name in it.topics], assigned)
            for name, racks in existing(topics).items()
        ]
        if any(each.racks_decide for each in shares):
            for group in _co_partitioned(shares):
                _assign_by_rack(group)
        for each in shares:
            each.assign_ranges(lambda _member, _partition: True)
        return {name: sorted(each, key=partition_order) for name, each in assigned.items()}


class _TopicShares:
    """How many partitions of one topic each member may still get."""

    def __init__(
        self,
        topic: str,
        racks: Sequence[frozenset[str]],
        members: Sequence[GroupMember],
        assigned: Assigned,
    ) -> None:
        self.topic = topic
        self.racks = racks
        self.members = tuple(it.member_id for it in members)
        self.rack_of = {it.member_id: it.rack for it in members if it.rack}
        self.racks_decide: bool = racks_decide(frozenset(self.rack_of.values()), racks)
        self._assigned = assigned
        self._left = dict.fromkeys(range(len(racks)))
        self._counts = dict.fromkeys(self.members, 0)
        self._share, self._extra_count = divmod(len(racks), len(members)) if members else (0, 0)

    def room(self, member: str) -> int:
        """Number of partitions that a member may still get."""
        return max(0, self._share + (self._extra_count > 0) - self._counts[member])

    def matches(self, member: str, partition: int) -> bool:
        """Whether a partition has a replica in the member's rack, or the member has none."""
        rack = self.rack_of.get(member)
        return rack is None or rack in self.racks[partition]

    def assign_ranges(self, may_assign: Callable[[str, int], bool]) -> None:
        """Give each member the first of the remaining partitions that it may get."""
        for member in self.members:
            fitting = [it for it in self._left if may_assign(member, it)]
            self.give(member, fitting[: self.room(member)])

    def give(self, member: str, partitions: Sequence[int]) -> None:
        """Assign partitions to a member."""
        self._assigned[member] += [TopicPartition(self.topic, it) for it in partitions]
        self._counts[member] += len(partitions)
        if partitions and self._counts[member] > self._share:
            self._extra_count -= 1
        for partition in partitions:
            del self._left[partition]


def _co_partitioned(shares: Sequence[_TopicShares]) -> list[list[_TopicShares]]:
    """Group topics with the same members and number of partitions."""
    groups: dict[tuple[tuple[str, ...], int], list[_TopicShares]] = {}
    for each in shares:
        # Kafka counts the partitions only where a member of the topic has a rack.
        count = len(each.racks) if each.rack_of else 0
        groups.setdefault((each.members, count), []).append(each)
    return list(groups.values())


def _assign_by_rack(group: Sequence[_TopicShares]) -> None:
    first = group[0]
    if len(group) == 1:
        if first.racks_decide:
            first.assign_ranges(first.matches)
        return
    remaining = dict.fromkeys(first.members)
    for partition in range(len(first.racks) if first.rack_of else 0):
        for member in remaining:
            if all(it.matches(member, partition) and it.room(member) > 0 for it in group):
                break
        else:
            continue
        for each in group:
            each.give(member, [partition])
        if not any(it.room(member) for it in group):
            del remaining[member]
