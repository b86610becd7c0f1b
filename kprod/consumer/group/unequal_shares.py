"""Sticky assignment where members subscribe to different topics.

Each member keeps what it has; free partitions go to the members with the least; then partitions
move from members with more to members with less, as long as a difference of two or more can be
made smaller. An assignment that is no better balanced than the one before is discarded.

Thread-safety: pure functions.
Source: Kafka AbstractStickyAssignor.GeneralAssignmentBuilder (clients 4.3.1).
"""

import bisect
from collections.abc import Callable, Iterable, Sequence

from kprod.consumer.group.assignments import Assigned, TopicRacks, partitions_of
from kprod.consumer.group.claims import Claims
from kprod.consumer.group.java_order import text_order
from kprod.consumer.group.movements import Movements
from kprod.consumer.group.rack_matches import RackMatches
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition

_SMALL_DIFFERENCE = 1  # a difference that one more move would only turn round


class UnequalShares:
    """One assignment.

    Attributes:
        assigned: Partitions by member id.
    """

    def __init__(
        self,
        members: Sequence[GroupMember],
        topics: TopicRacks,
        claims: Claims,
        racks: RackMatches,
    ) -> None:
        """Assign all partitions.

        Args:
            members: All members.
            topics: Racks of the replicas, by topic, in Java's order of names.
            claims: The former owners of partitions.
            racks: Compares racks.
        """
        self._racks = racks
        self._former = claims.former
        self._topics_of = {
            each.member_id: frozenset(name for name in each.topics if name in topics)
            for each in members
        }
        self._members_of = {
            name: [member for member, names in self._topics_of.items() if name in names]
            for name in topics
        }
        names = sorted(topics, key=lambda it: (len(self._members_of[it]), text_order(it)))
        self._size_of = {name: len(topics[name]) for name in names}
        self._keys = partitions_of({name: topics[name] for name in names})
        self.assigned: Assigned = {}
        self._owner_of: dict[TopicPartition, str] = {}
        self._must_move = False
        self._keep_owned(claims)
        self._order = sorted(map(self._rank, self.assigned))
        self._movements = Movements()
        self._is_balanced: bool | None = None
        self._balance()

    def _keep_owned(self, claims: Claims) -> None:
        for member, owned in claims.owned.items():
            kept = self.assigned[member] = []
            for key in owned:
                is_wanted = key.topic in self._topics_of[member]
                if not is_wanted or self._racks.mismatch(member, key):
                    self._must_move = True
                else:
                    kept.append(key)
                    self._owner_of[key] = member

    def _rank(self, member: str) -> tuple[int, bytes, str]:
        return len(self.assigned[member]), text_order(member), member

    def _balance(self) -> None:
        is_first = not self.assigned[self._order[-1][2]]
        free = [key for key in self._keys if key not in self._owner_of]
        if self._racks.are_used:
            for key in free:
                self._give_to_least(key, must_match=True)
        for key in free:
            if key not in self._owner_of:
                self._give_to_least(key, must_match=False)
        self._order = [it for it in self._order if self._can_take_part(it[2])]
        before = {member: list(keys) for member, keys in self.assigned.items()}
        score_before = self._score()
        if not self._must_move:
            self._move_all(free)
        has_moved = self._move_all(self._keys)
        if not is_first and has_moved and self._score() >= score_before:
            self.assigned = before

    def _give_to_least(self, key: TopicPartition, *, must_match: bool) -> None:
        for _, _, member in self._order:
            if key.topic in self._topics_of[member] and not (
                must_match and self._racks.mismatch(member, key)
            ):
                self._change(member, lambda it: it.append(key))
                self._owner_of[key] = member
                return

    def _change(self, member: str, change: Callable[[list[TopicPartition]], object]) -> None:
        """Change a member's partitions, and its place in the order."""
        del self._order[bisect.bisect_left(self._order, self._rank(member))]
        change(self.assigned[member])
        bisect.insort(self._order, self._rank(member))
        self._is_balanced = None

    def _can_take_part(self, member: str) -> bool:
        """Whether a member can get or lose a partition."""
        owned = self.assigned[member]
        if len(owned) < sum(self._size_of[name] for name in self._topics_of[member]):
            return True
        return any(self._can_move(key) for key in owned)

    def _can_move(self, key: TopicPartition) -> bool:
        return len(self._members_of[key.topic]) > 1

    def _score(self) -> int:
        """Sum of the differences of all pairs of members; 0 is perfectly balanced."""
        counts = sorted(len(self.assigned[member]) for _, _, member in self._order)
        last = len(counts) - 1
        return sum(count * (2 * at - last) for at, count in enumerate(counts))

    def _check_balance(self) -> bool:
        """Whether no move can make a difference smaller; computed once after each move."""
        if self._is_balanced is None:
            self._is_balanced = self._is_settled()
        return self._is_balanced

    def _is_settled(self) -> bool:
        if not self._order or self._order[-1][0] - self._order[0][0] <= _SMALL_DIFFERENCE:
            return True
        most: dict[str, int] = {}
        for count, _, member in self._order:
            for key in self.assigned[member]:
                most[key.topic] = max(most.get(key.topic, 0), count)
        return all(
            most.get(name, 0) - count <= _SMALL_DIFFERENCE
            for count, _, member in self._order
            for name in self._topics_of[member]
        )

    def _move_all(self, keys: Iterable[TopicPartition]) -> bool:
        """Move partitions until nothing can be improved; return whether any moved."""
        movable = [key for key in keys if self._can_move(key)]
        has_moved = False
        while True:
            is_changed = False
            for key in movable:
                if self._check_balance():
                    break
                is_changed |= self._move_if_better(key)
            has_moved |= is_changed
            if not is_changed:
                return has_moved

    def _move_if_better(self, key: TopicPartition) -> bool:
        count = len(self.assigned[self._owner_of[key]])
        former, _ = self._former.get(key, ("", 0))
        if (
            key.topic in self._topics_of.get(former, ())
            and count > len(self.assigned[former]) + _SMALL_DIFFERENCE
        ):
            self._move(key, former)
            return True
        least_count, _, least = next(
            it for it in self._order if key.topic in self._topics_of[it[2]]
        )
        if count <= least_count + _SMALL_DIFFERENCE:
            return False
        self._move(key, least)
        return True

    def _move(self, key: TopicPartition, new: str) -> None:
        moved = self._movements.instead_of(key, self._owner_of[key], new)
        old = self._owner_of[moved]
        self._movements.note(moved, old, new)
        self._change(old, lambda it: it.remove(moved))
        self._change(new, lambda it: it.append(moved))
        self._owner_of[moved] = new
