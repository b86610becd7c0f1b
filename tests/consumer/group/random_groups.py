"""Random groups for tests of assignors: members, topics, and what the members had before."""

import random
from typing import NamedTuple

from kprod.consumer.group.assignments import Assigned
from kprod.consumer.group.sticky_data import encode_claim
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition

RACKS = ("r1", "r2", "r3")


class Group(NamedTuple):
    """A group before a rebalance."""

    members: list[GroupMember]
    topics: dict[str, list[frozenset[str]]]

    def told_to(self, assignor: str) -> list[GroupMember]:
        """The members as the leader sees them, with the bytes of an assignor."""
        if assignor == "cooperative-sticky":
            return self.members
        if assignor == "sticky":
            return [
                each._replace(
                    owned=(),
                    assignor_bytes=encode_claim(each.owned, each.generation)
                    if each.generation >= 0
                    else None,
                )
                for each in self.members
            ]
        return [each._replace(owned=()) for each in self.members]

    @property
    def are_subscriptions_equal(self) -> bool:
        """Whether all members read the same topics."""
        return len({frozenset(each.topics) for each in self.members}) == 1

    def moved(self, assigned: Assigned) -> int:
        """How many partitions are assigned to a member that did not have them."""
        owners = {key: each.member_id for each in self.members for key in each.owned}
        return sum(
            owners.get(key, member) != member for member, keys in assigned.items() for key in keys
        )


def random_group(seed: int) -> Group:
    """A group whose members come and go, some of them with an old generation."""
    rng = random.Random(seed)
    with_racks = rng.random() < 0.4
    topics = {
        f"t{number}": [
            frozenset(rng.sample(RACKS, rng.randint(1, 2))) if with_racks else frozenset()
            for _ in range(rng.randint(1, 9))
        ]
        for number in range(rng.randint(1, 5))
    }
    is_equal = rng.random() < 0.6
    names = [*topics, "absent"] if rng.random() < 0.1 else [*topics]
    members = []
    for number in range(rng.randint(1, 9)):
        wanted = tuple(names if is_equal else rng.sample(names, rng.randint(1, len(names))))
        members.append(
            GroupMember(
                f"{rng.choice(['a', 'consumer', 'ä'])}-{rng.randrange(10**6)}-{number}",
                f"i{rng.randrange(10**6)}-{number}" if rng.random() < 0.2 else None,
                wanted,
                (),
                -1,
                rng.choice(RACKS) if with_racks and rng.random() < 0.8 else None,
            )
        )
    return Group(_with_claims(members, topics, rng), topics)


def _with_claims(
    members: list[GroupMember], topics: dict[str, list[frozenset[str]]], rng: random.Random
) -> list[GroupMember]:
    """Give members what they may have had: each partition at most one owner in a generation."""
    claims: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
    generation_of = {each.member_id: rng.choice([5, 5, 5, 5, 4, -1]) for each in members}
    crowd = rng.sample(members, rng.randint(1, len(members)))
    keys = [TopicPartition(name, it) for name, racks in topics.items() for it in range(len(racks))]
    for key in keys:
        taken: set[int] = set()
        for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
            owner = rng.choice(crowd)
            generation = generation_of[owner.member_id]
            if key.topic in owner.topics and generation >= 0 and generation not in taken:
                taken.add(generation)
                claims[owner.member_id].append(key)
    return [
        each._replace(owned=tuple(claims[each.member_id]), generation=generation_of[each.member_id])
        for each in members
    ]


def difference(assigned: Assigned) -> int:
    """The sum of the differences of all pairs of members."""
    counts = sorted(map(len, assigned.values()))
    return sum(count * (2 * at - len(counts) + 1) for at, count in enumerate(counts))
