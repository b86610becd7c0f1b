"""The duties of every assignor, whatever the group."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.consumer.group.assignments import Assigned
from kprod.consumer.group.assignors import BUILT_IN, assignors_of, is_cooperative
from kprod.consumer.group.java_order import hash_map_order, text_hash
from kprod.consumer.group.protocol_data import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kprod.consumer.group.sticky_data import decode_claim, encode_claim
from kprod.errors import RemoteProtocolError
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition
from tests.consumer.group.random_groups import Group, random_group

SEEDS = st.integers(min_value=0, max_value=2**32)
EAGER = ("range", "roundrobin", "sticky")
STICKY = ("sticky", "cooperative-sticky")


def assign(assignor: str, group: Group) -> Assigned:
    """One rebalance."""
    assigned = BUILT_IN[assignor].assign(group.told_to(assignor), group.topics)
    return {member: list(keys) for member, keys in assigned.items()}


def after(group: Group, assigned: Assigned, generation: int = 9) -> Group:
    """The same group with what it was assigned."""
    members = [
        each._replace(owned=tuple(assigned[each.member_id]), generation=generation)
        for each in group.members
    ]
    return Group(members, group.topics)


def with_equal_members(group: Group) -> Group:
    """The same group, all of whose members subscribe to all topics and have no rack."""
    topics = tuple(group.topics)
    return Group([it._replace(topics=topics, rack=None) for it in group.members], group.topics)


def wanted_by_anybody(group: Group) -> set[TopicPartition]:
    """The partitions of topics that a member subscribes to."""
    names = {name for each in group.members for name in each.topics}
    return {
        TopicPartition(name, number)
        for name, racks in group.topics.items()
        if name in names
        for number in range(len(racks))
    }


def check_whole(group: Group, assigned: Assigned) -> None:
    """Each partition has one owner, which subscribes to its topic."""
    keys = [key for each in assigned.values() for key in each]
    assert len(keys) == len(set(keys))
    assert set(keys) == wanted_by_anybody(group)
    for member in group.members:
        assert {key.topic for key in assigned[member.member_id]} <= set(member.topics)


@pytest.mark.parametrize("assignor", EAGER)
@given(seed=SEEDS)
def test_each_partition_has_one_owner(assignor: str, seed: int) -> None:
    """Nothing is left out, nothing is assigned twice."""
    group = random_group(seed)
    check_whole(group, assign(assignor, group))


@pytest.mark.parametrize("assignor", STICKY)
@given(seed=SEEDS)
def test_an_assignment_stays(assignor: str, seed: int) -> None:
    """A rebalance in which nothing has changed moves nothing, if no topics and racks differ."""
    group = with_equal_members(random_group(seed))
    first = after(group, assign(assignor, group))
    second = after(group, assign(assignor, first))
    third = assign(assignor, second)
    assert {name: set(keys) for name, keys in third.items()} == {
        each.member_id: set(each.owned) for each in second.members
    }
    check_whole(group, third)


@given(seed=SEEDS)
def test_a_leaving_member_moves_only_its_own(seed: int) -> None:
    """The others keep all that they have."""
    group = with_equal_members(random_group(seed))
    full = after(group, assign("sticky", group))
    rest = Group(full.members[1:], group.topics)
    if not rest.members:
        return
    assigned = assign("sticky", rest)
    counts = [len(keys) for keys in assigned.values()]
    assert max(counts) - min(counts) <= 1
    for each in rest.members:
        assert set(each.owned) <= set(assigned[each.member_id])


@given(seed=SEEDS)
def test_cooperative_moves_take_two_rebalances(seed: int) -> None:
    """The first gives away nothing that another member still has."""
    group = with_equal_members(random_group(seed))
    first = assign("cooperative-sticky", group)
    newest = max(each.generation for each in group.members)
    owner_of = {
        key: each.member_id
        for each in group.members
        if each.generation == newest
        for key in each.owned
    }
    for member, keys in first.items():
        for key in keys:
            assert owner_of.get(key, member) == member
    check_whole(group, assign("cooperative-sticky", after(group, first)))


@pytest.mark.parametrize("assignor", BUILT_IN)
def test_more_fewer_and_as_many_members_as_partitions(assignor: str) -> None:
    """Members without a partition are in the assignment, too."""
    for member_count in range(1, 7):
        members = [GroupMember(f"m{number}", topics=("t",)) for number in range(member_count)]
        assigned = assign(assignor, Group(members, {"t": [frozenset()] * 4}))
        counts = sorted(map(len, assigned.values()))
        assert sum(counts) == 4
        assert counts[-1] - counts[0] <= 1
        assert len(counts) == member_count


@pytest.mark.parametrize("assignor", BUILT_IN)
def test_nobody_and_nothing(assignor: str) -> None:
    """No members, no topics, topics without partitions."""
    assert assign(assignor, Group([], {})) == {}
    lone = Group([GroupMember("m", topics=("gone", "empty"))], {"empty": []})
    assert assign(assignor, lone) == {"m": []}


def test_mixing() -> None:
    """A member is cooperative only if all its assignors are."""
    assert is_cooperative(assignors_of(["cooperative-sticky"]))
    assert not is_cooperative(assignors_of(["range", "cooperative-sticky"]))
    assert not is_cooperative(assignors_of(["sticky"]))


def test_java_order() -> None:
    """Hashes and the order of a map, as Java's `HashMap` gives them."""
    assert text_hash("polygenelubricants") == 2**31
    assert text_hash("über") == 7604755
    # 2 is "b" and so on: small hashes are in the order of the hashes themselves.
    assert hash_map_order(["c", "a", "b"], text_hash) == ["a", "b", "c"]
    assert hash_map_order(["q", "a"], text_hash) == ["q", "a"]  # 0x71 and 0x61 share place 1


@given(encoded=st.binary(max_size=80))
def test_bytes_that_lie(encoded: bytes) -> None:
    """Bytes of other members give a value or the protocol's error."""
    partitions, generation = decode_claim(encoded)
    assert len(partitions) * 4 <= len(encoded)
    assert generation >= -(2**31)
    for decode in (decode_assignment, lambda it: decode_subscription("m", None, it)):
        try:
            found = decode(encoded)
        except RemoteProtocolError:
            continue
        assert len(found) <= max(len(encoded), len(GroupMember._fields))


def test_wire_formats() -> None:
    """All versions; a newer one is read as the newest known."""
    keys = (TopicPartition("a", 1), TopicPartition("b", 0))
    member = GroupMember("m", None, ("a", "b"), keys, 7, "r1", b"\x00")
    for version, want in (
        (0, member._replace(owned=(), generation=-1, rack=None)),
        (1, member._replace(generation=-1, rack=None)),
        (2, member._replace(rack=None)),
        (3, member),
    ):
        encoded = encode_subscription(member, version)
        assert encoded[:2] == struct.pack(">h", version)
        assert decode_subscription("m", None, encoded) == want
    newer = struct.pack(">h", 9) + encode_subscription(member)[2:] + b"more"
    assert decode_subscription("m", None, newer) == member
    assert decode_assignment(encode_assignment(keys)) == list(keys)
    assert decode_assignment(b"") == []
    assert decode_claim(encode_claim(keys, 7)) == (keys, 7)
    assert decode_claim(encode_claim(keys, 7)[:-4]) == (keys, -1)  # sticky's first version
