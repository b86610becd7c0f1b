"""Members of groups in virtual time: joins, rebalances, sessions, the poll interval, fencing."""

from typing import Any

import pytest

from kprod.consumer.group.member_state import TRANSITIONS, MemberEvent, MemberState, next_state
from kprod.errors import CommitFailed, KprodError
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, FencedInstanceId
from tests.consumer.group.virtual_group import (
    Listener,
    VirtualGroup,
    numbers,
    state_of,
)

P0 = TopicPartition("orders", 0)
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


def test_every_state_can_be_left_and_reached() -> None:
    """No state is a dead end, and a pair that the table lacks is an error."""
    left = {state for state, _ in TRANSITIONS}
    reached = {MemberState.LEFT, *TRANSITIONS.values()}
    assert left == set(MemberState) == reached
    assert {event for _, event in TRANSITIONS} == set(MemberEvent)
    with pytest.raises(AssertionError, match=r"SYNCED cannot happen .* LEFT"):
        next_state(MemberState.LEFT, MemberEvent.SYNCED)


def test_each_group_gets_everything() -> None:
    """Two groups read the same topic, and neither takes anything from the other."""
    with VirtualGroup() as group:
        group.fill(5, 0, 1, 2, 3)
        one, two = group.member("orders"), group.member("orders", group_id="other")
        found = group.poll(one, two)
        assert [len(found[each]) for each in (one, two)] == [20, 20]


@pytest.mark.parametrize("members", [2, 4, 5])
def test_the_members_of_a_group_share_a_topic(members: int) -> None:
    """Fewer, as many and more members than partitions; a record has one reader."""
    with VirtualGroup() as group:
        crew = [group.member("orders") for _ in range(members)]
        group.poll(*crew, seconds=10)
        shares = [numbers(each) for each in crew]
        assert sorted(number for share in shares for number in share) == [0, 1, 2, 3]
        assert all(state_of(each) is MemberState.STABLE for each in crew)
        group.fill(3, 0, 1, 2, 3)
        found = group.poll(*crew)
        places = [(it.partition, it.offset) for each in crew for it in found[each]]
        assert sorted(places) == [(number, offset) for number in range(4) for offset in range(3)]
        for each in crew:
            assert {it.partition for it in found[each]} == set(numbers(each))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_progress_is_handed_over(strategy: str) -> None:
    """A second member comes, and the first leaves: each record is read once."""
    with VirtualGroup() as group:
        settings: dict[str, Any] = {"partition_assignment_strategy": strategy}
        group.fill(5, 0, 1, 2, 3)
        one = group.member("orders", **settings)
        read = [(it.partition, it.offset) for it in group.poll(one)[one]]
        two = group.member("orders", **settings)
        group.poll(one, two, seconds=15)
        assert len(numbers(one)) == len(numbers(two)) == 2
        group.fill(5, 0, 1, 2, 3)
        found = group.poll(one, two)
        one.close(5)
        group.fill(5, 0, 1, 2, 3)
        rest = group.poll(two, seconds=15)
        assert numbers(two) == [0, 1, 2, 3]
        for records in (found[one], found[two], rest[two]):
            read += [(it.partition, it.offset) for it in records]
        assert sorted(read) == [(number, offset) for number in range(4) for offset in range(15)]


def test_an_eager_member_gives_up_everything() -> None:
    """The listener hears of it before and after."""
    with VirtualGroup() as group:
        listener = Listener()
        one = group.member("orders", listener=listener)
        group.poll(one)
        two = group.member("orders")
        group.poll(one, two, seconds=10)
        assert listener.calls[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3])]
        assert listener.calls[-1] == ("assigned", numbers(one))


def test_a_cooperative_member_gives_up_only_what_moves() -> None:
    """The rest stays assigned through both rebalances."""
    with VirtualGroup() as group:
        listener = Listener()
        settings: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}
        one = group.member("orders", listener=listener, **settings)
        group.poll(one)
        two = group.member("orders", **settings)
        group.poll(one, two, seconds=15)
        revoked = [keys for kind, keys in listener.calls if kind == "revoked"]
        assert revoked == [numbers(two)]
        assert sorted(numbers(one) + numbers(two)) == [0, 1, 2, 3]


def test_heartbeats_continue_while_the_application_works() -> None:
    """Long work, but shorter than `max_poll_interval_ms`, costs no partition."""
    with VirtualGroup() as group:
        one = group.member("orders", session_timeout_ms=6_000, max_poll_interval_ms=60_000)
        group.poll(one)
        generation = one.group_metadata().generation
        group.pass_time(40)
        group.poll(one)
        assert one.group_metadata().generation == generation
        assert numbers(one) == [0, 1, 2, 3]


def test_an_application_that_stalls_leaves_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others get its partitions, its late commit fails, and its next poll joins again."""
    with VirtualGroup() as group:
        listener = Listener()
        group.fill(5, 0, 1, 2, 3)
        one = group.member("orders", listener=listener, max_poll_interval_ms=20_000)
        group.poll(one)
        two = group.member("orders")
        group.poll(one, two, seconds=15)
        lost = [(key.topic, key.partition) for key in one.assignment()]
        group.poll(two, seconds=30)
        assert numbers(two) == [0, 1, 2, 3]
        assert "max_poll_interval_ms=20000" in caplog.text
        late = f"orders-{lost[0][1]} .* group 'g'.*max_poll_interval_ms"
        with pytest.raises(CommitFailed, match=late):
            one.commit({lost[0]: 3})
        group.poll(one, two, seconds=15)
        assert ("lost", sorted(number for _, number in lost)) in listener.calls
        assert sorted(numbers(one) + numbers(two)) == [0, 1, 2, 3]


def test_progress_counts_as_a_poll() -> None:
    """Work of any length keeps its partitions as long as it says so."""
    with VirtualGroup() as group:
        one = group.member("orders", max_poll_interval_ms=20_000)
        group.poll(one)
        generation = one.group_metadata().generation
        for _ in range(5):
            group.pass_time(15)
            one.progress()
        group.poll(one)
        assert one.group_metadata().generation == generation


def test_a_rebalance_follows_when_partitions_are_added() -> None:
    """The new ones are read from their beginning, though the policy is latest."""
    topic = {"name": "orders", "count": 2, "assignments": None}
    body = {"topics": [topic], "timeout_ms": 1_000, "validate_only": False}
    with VirtualGroup(partitions=1) as group:
        one = group.member("orders", auto_offset_reset="latest", metadata_max_age_ms=1_000)
        group.fill(2, 0)
        group.poll(one)
        group.ask(ApiKey.CREATE_PARTITIONS, 1, body)
        group.fill(3, 1)
        found = group.poll(one, seconds=20)[one]
        assert numbers(one) == [0, 1]
        assert [it.offset for it in found if it.partition == 1] == [0, 1, 2]


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """Within its session: the generation and the other's partitions stay."""
    with VirtualGroup() as group:
        listener = Listener()
        one = group.member("orders", group_instance_id="a")
        two = group.member("orders", group_instance_id="b", listener=listener)
        group.poll(one, two, seconds=15)
        mine, generation = numbers(one), two.group_metadata().generation
        one.close(5)
        calls = list(listener.calls)
        again = group.member("orders", group_instance_id="a")
        group.poll(again, two, seconds=15)
        assert numbers(again) == mine
        assert two.group_metadata().generation == generation
        assert listener.calls == calls


def test_a_static_leader_that_comes_back_sees_what_was_added_meanwhile() -> None:
    """Partitions that nobody has are read, from their beginning in this case (KIP-814)."""
    topic = {"name": "orders", "count": 2, "assignments": None}
    body = {"topics": [topic], "timeout_ms": 1_000, "validate_only": False}
    with VirtualGroup(partitions=1) as group:
        one = group.member("orders", group_instance_id="a")
        group.poll(one)
        generation = one.group_metadata().generation
        one.close(5)
        group.ask(ApiKey.CREATE_PARTITIONS, 1, body)
        group.fill(3, 1)
        again = group.member("orders", group_instance_id="a")
        found = group.poll(again, seconds=15)[again]
        assert numbers(again) == [0, 1]
        assert [it.offset for it in found if it.partition == 1] == [0, 1, 2]
        assert again.group_metadata().generation == generation + 1


def test_the_response_to_a_join_of_a_former_membership_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The member has unsubscribed while its join waited; it subscribes again, and shares."""
    with VirtualGroup() as group:
        one = group.member("orders")
        group.poll(one)
        two = group.member("orders")
        group.poll(two, seconds=0.5)  # the first does not join again
        assert state_of(two) is MemberState.JOINING
        two.unsubscribe()
        group.poll(one)
        assert state_of(two) is MemberState.LEFT
        two.subscribe("orders")
        group.poll(one, two, seconds=15)
        assert sorted([*numbers(one), *numbers(two)]) == [0, 1, 2, 3]
        assert numbers(two)
    assert [it.message for it in caplog.records if it.levelname == "ERROR"] == []


def test_a_fenced_static_member_says_so() -> None:
    """A second process with the same id takes over; the first raises, names id and group."""
    with VirtualGroup() as group:
        one = group.member("orders", group_instance_id="a")
        group.poll(one)
        two = group.member("orders", group_instance_id="a")
        group.poll(two, seconds=10)
        with pytest.raises(FencedInstanceId, match=r"'g' uses group_instance_id='a'"):
            group.poll(one, seconds=10)
        assert numbers(two) == [0, 1, 2, 3]
        assert numbers(one) == []


def test_a_removed_member_loses_its_partitions_and_joins_again() -> None:
    """The coordinator forgets it: `on_lost`, a new id, and everything is read on."""
    with VirtualGroup() as group:
        listener = Listener()
        one = group.member("orders", listener=listener)
        group.poll(one)
        before = one.group_metadata().member_id
        group.world.cluster.expire_member("g", before)
        group.poll(one, seconds=10)
        assert ("lost", [0, 1, 2, 3]) in listener.calls
        assert numbers(one) == [0, 1, 2, 3]
        assert one.group_metadata().member_id != before


def test_a_rebalance_during_the_sync_is_no_error() -> None:
    """Another member has joined before the leader's assignment: the member joins again at once."""
    with VirtualGroup() as group:
        one = group.member("orders")
        group.world.cluster.faults.fail_next(ApiKey.SYNC_GROUP, ErrorCode.REBALANCE_IN_PROGRESS)
        group.poll(one)
        assert numbers(one) == [0, 1, 2, 3]
        assert not group.world.cluster.faults.untriggered()


def test_unsubscribing_leaves_the_group() -> None:
    """Another member gets the partitions at once."""
    with VirtualGroup() as group:
        one = group.member("orders")
        group.poll(one)
        one.unsubscribe()
        two = group.member("orders")
        group.poll(two)
        assert numbers(two) == [0, 1, 2, 3]
        assert state_of(one) is MemberState.LEFT


def test_a_changed_subscription_is_a_rebalance() -> None:
    """Partitions of a topic that is no longer subscribed to are given up."""
    with VirtualGroup() as group:
        group.world.cluster.create_topic("bills", 2)
        one = group.member("orders", "bills")
        group.poll(one)
        assert len(one.assignment()) == 6
        one.subscribe("bills")
        group.poll(one, seconds=10)
        assert {key.topic for key in one.assignment()} == {"bills"}


class Odd:
    """An assignor of the application."""

    name = "odd"
    is_cooperative = False

    def __init__(self, result: Any) -> None:
        """Return this."""
        self.result = result

    def assignor_bytes(self, owned: Any, generation: int) -> bytes | None:
        """Return none."""
        del owned, generation
        return None

    def assign(self, members: Any, topics: Any) -> Any:
        """Return the result."""
        return self.result(members, topics)


def test_the_application_may_assign() -> None:
    """Its assignor gives the leader everything."""

    def result(members: Any, topics: Any) -> Any:
        keys = [(name, number) for name, racks in topics.items() for number in range(len(racks))]
        return {members[0].member_id: keys}

    with VirtualGroup() as group:
        one = group.member("orders", partition_assignment_strategy=[Odd(result)])
        group.poll(one)
        assert numbers(one) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda _members, _topics: 1 / 0, "failed: ZeroDivisionError"),
        (lambda _members, _topics: {"x": []}, "knows a member 'x'"),
        (lambda members, _topics: {members[0].member_id: [("orders", 9)]}, "orders-9"),
        (lambda members, _topics: {members[0].member_id: [("orders", 0)] * 2}, "orders-0 twice"),
    ],
)
def test_an_assignor_that_fails_is_an_error_of_poll(result: Any, text: str) -> None:
    """The member tries again, and no one gets a partition."""
    with VirtualGroup() as group:
        one = group.member("orders", partition_assignment_strategy=[Odd(result)])
        with pytest.raises(KprodError, match=f"'odd' .*{text}"):
            group.poll(one)
        assert numbers(one) == []


def test_a_moved_coordinator_is_found_again() -> None:
    """The generation survives, and commits arrive."""
    with VirtualGroup() as group:
        group.fill(2, 0)
        one = group.member("orders")
        group.poll(one)
        generation = one.group_metadata().generation
        group.world.cluster.disconnect_clients(0)
        one.commit()
        group.poll(one)
        committed = one.committed([P0])[P0]
        assert committed is not None
        assert committed.offset == 2
        assert one.group_metadata().generation == generation
