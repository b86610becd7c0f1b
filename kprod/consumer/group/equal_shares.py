"""Sticky assignment where all members subscribe to the same topics.

Each member keeps what it has, up to its share; the others' partitions go to the members with the
least, in turn. The result is balanced, and no other balanced assignment moves fewer partitions.

Thread-safety: pure functions.
Source: Kafka AbstractStickyAssignor.ConstrainedAssignmentBuilder (clients 4.3.1).
"""

from kprod.consumer.group.assignments import Assigned, TopicRacks, partitions_of
from kprod.consumer.group.claims import Claims
from kprod.consumer.group.java_order import text_order
from kprod.consumer.group.rack_matches import RackMatches
from kprod.model import TopicPartition


class EqualShares:
    """One assignment.

    Attributes:
        assigned: Partitions by member id.
        moving: The new owner of each partition that another member must give up first.
    """

    def __init__(self, topics: TopicRacks, claims: Claims, racks: RackMatches) -> None:
        """Assign all partitions.

        Args:
            topics: Racks of the replicas, by topic, in Java's order of names.
            claims: The former owners of partitions.
            racks: Compares racks.
        """
        self._claims = claims
        self._racks = racks
        keys = partitions_of(topics)
        self._least, self._more_count = divmod(len(keys), len(claims.owned))
        self._most = self._least + (self._more_count > 0)
        self._more_left = self._more_count  # members that may still get one more than the least
        self._below: list[str] = []  # members with fewer than the least
        self._at_least: list[str] = []  # members with exactly the least that may get one more
        self._given_up: dict[TopicPartition, str] = {}
        self.assigned: Assigned = {member: [] for member in claims.owned}
        self.moving: dict[TopicPartition, str] = {}
        kept = self._keep_owned()
        self._below.sort(key=text_order)
        self._at_least.sort(key=text_order)
        left = racks.by_choice([key for key in keys if key not in kept])
        self._assign_in_turn(self._assign_near(left) if racks.are_used else left)

    def _keep_owned(self) -> set[TopicPartition]:
        kept: set[TopicPartition] = set()
        for member, owned in self._claims.owned.items():
            far = [key for key in owned if self._racks.mismatch(member, key)]
            self._given_up.update(dict.fromkeys(far, member))
            near = sorted(
                (it for it in owned if it not in far and it not in self._claims.disputed),
                key=lambda it: (it.partition, text_order(it.topic)),
            )
            share = self._share_of(member, len(near))
            self.assigned[member] += near[:share]
            kept.update(near[:share])
            self._given_up.update(dict.fromkeys(near[share:], member))
        return kept

    def _share_of(self, member: str, owned_count: int) -> int:
        """Return how many of its partitions a member keeps, and note whether it may get more."""
        if owned_count < self._least:
            self._below.append(member)
        elif owned_count >= self._most and self._more_left:
            self._note_one_more()
            return self._most
        elif self._more_left:
            self._at_least.append(member)
        return self._least

    def _note_one_more(self) -> None:
        self._more_left -= 1
        if not self._more_left:
            self._at_least.clear()

    def _assign_near(self, keys: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members in their racks; return those that remain."""
        rest = []
        first = 0
        for key in keys:
            at = self._racks.next_near(key, self._below, first)
            if at is not None:
                first = self._give_below(key, at)
                continue
            at = self._racks.next_near(key, self._at_least, 0)
            if at is None:
                rest.append(key)
                continue
            self._give(key, self._at_least.pop(at))
            self._note_one_more()
        return rest

    def _give_below(self, key: TopicPartition, at: int) -> int:
        """Assign a partition to a member with less than the least; return whose turn is next."""
        member = self._below[at]
        count = self._give(key, member)
        if count < self._least:
            return (at + 1) % len(self._below)
        del self._below[at]
        if count < self._most and self._more_left:
            self._at_least.append(member)
        return at % len(self._below) if self._below else 0

    def _assign_in_turn(self, keys: list[TopicPartition]) -> None:
        at = 0
        for key in keys:
            if not self._below:
                self._give(key, self._at_least.pop(0))
                continue
            at = 0 if at >= len(self._below) else at
            member = self._below[at]
            if self._give(key, member) == self._least:
                self._at_least.append(self._below.pop(at))
            else:
                at += 1

    def _give(self, key: TopicPartition, member: str) -> int:
        """Assign a partition; return how many the member has now."""
        self.assigned[member].append(key)
        if self._given_up.get(key, member) != member or key in self._claims.disputed:
            self.moving[key] = member
        return len(self.assigned[member])
