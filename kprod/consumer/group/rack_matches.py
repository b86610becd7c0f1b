"""Racks of members and of partitions, as the sticky assignors use them.

Thread-safety: immutable.
Source: Kafka AbstractStickyAssignor.RackInfo (clients 4.3.1); KIP-881.
"""

from collections.abc import Sequence

from kprod.consumer.group.assignments import TopicRacks, racks_decide
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition


class RackMatches:
    """Compares the racks of members and of partitions.

    Attributes:
        are_used: Whether racks make a difference; otherwise no method excludes anything.
    """

    def __init__(self, members: Sequence[GroupMember], topics: TopicRacks) -> None:
        """Compare the racks of members and partitions.

        Args:
            members: All members.
            topics: Racks of the replicas, by topic.
        """
        rack_of = {each.member_id: each.rack for each in members if each.rack}
        self._topics = topics
        self._members_in: dict[str, int] = {}
        for rack in rack_of.values():
            self._members_in[rack] = self._members_in.get(rack, 0) + 1
        each_partition = [racks for partitions in topics.values() for racks in partitions]
        self.are_used: bool = racks_decide(self._members_in.keys(), each_partition)
        self._rack_of = rack_of if self.are_used else {}

    def mismatch(self, member: str, key: TopicPartition) -> bool:
        """Whether a member has a rack and a partition has no replica there."""
        rack = self._rack_of.get(member)
        return rack is not None and rack not in self._topics[key.topic][key.partition]

    def by_choice(self, keys: list[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions that few members are near to before others.

        Args:
            keys: Any partitions.

        Returns:
            The partitions; those with equally many members keep their order.
        """
        if not self._members_in:
            return keys
        return sorted(
            keys,
            key=lambda it: sum(
                self._members_in.get(rack, 0) for rack in self._topics[it.topic][it.partition]
            ),
        )

    def next_near(self, key: TopicPartition, members: Sequence[str], first: int) -> int | None:
        """Find a member in a rack of a partition.

        Args:
            key: The partition.
            members: The members to choose from.
            first: Position of the member to begin with; the search continues at the start.

        Returns:
            Position of the member; None if there is none.
        """
        racks = self._topics[key.topic][key.partition]
        for step in range(len(members)):
            at = (first + step) % len(members)
            if self._rack_of.get(members[at]) in racks:
                return at
        return None
