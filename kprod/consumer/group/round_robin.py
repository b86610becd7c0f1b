"""Assigns the partitions of all topics to the members in turn.

Thread-safety: pure functions.
Source: Kafka RoundRobinAssignor (clients 4.3.1).
"""

from collections.abc import Sequence
from itertools import cycle

from kprod.consumer.group.assignments import (
    Assigned,
    TopicRacks,
    existing,
    in_member_order,
    partitions_of,
)
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition


class RoundRobinAssignor:
    """Implements `PartitionAssignor` under the name "roundrobin"."""

    name: str = "roundrobin"
    is_cooperative: bool = False

    def assignor_bytes(self, owned: Sequence[TopicPartition], generation: int) -> None:
        """Return None: the assignor remembers nothing."""

    def assign(self, members: Sequence[GroupMember], topics: TopicRacks) -> Assigned:
        """Implement `PartitionAssignor.assign`.

        Args:
            members: All members.
            topics: Racks of the replicas, by topic.

        Returns:
            Partitions by member id.
        """
        assigned: Assigned = {each.member_id: [] for each in members}
        wanted = frozenset().union(*(each.topics for each in members))
        turn = cycle(in_member_order(members))
        for key in partitions_of(existing(topics)):
            if key.topic in wanted:
                member = next(each for each in turn if key.topic in each.topics)
                assigned[member.member_id].append(key)
        return assigned
