"""Members that close at any time in virtual time: the others wait for none of them.

Each session is 45 s, and a member that the coordinator still counts would be waited for so long.
"""

from typing import Any

import pytest

from kprod.consumer.consumer_face import engine_of
from kprod.consumer.group.member_state import MemberState
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.consumer.group.test_membership import Odd
from tests.consumer.group.virtual_group import (
    Listener,
    VirtualGroup,
    group_of,
    numbers,
    state_of,
)

SOON_S = 4.0
STRATEGIES = ["range", "cooperative-sticky"]


def is_shared(group: VirtualGroup, *members: Any) -> bool:
    """Whether these are soon the only members, and have all partitions."""
    group.poll(*members, seconds=SOON_S)
    owned = sorted(number for each in members for number in numbers(each))
    return owned == [0, 1, 2, 3] and member_count(group) == len(members)


def member_count(group: VirtualGroup) -> int:
    """How many members the coordinator counts."""
    return len(group.world.cluster.group("g").members)


def pass_until(group: VirtualGroup, member: Any, state: MemberState) -> None:
    """Let time pass without a poll until a member is in a state."""
    for _ in range(1_000):
        if state_of(member) is state:
            return
        group.pass_time(0.01)
    raise AssertionError(f"the member is {state_of(member).name}, never {state.name}")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_new_member_closes_while_its_join_is_parked(strategy: str) -> None:
    """The coordinator counts it as joined: it would get partitions, and maybe lead."""
    with VirtualGroup() as group:
        one, two, three = (group.member(partition_assignment_strategy=strategy) for _ in range(3))
        one.subscribe("orders")
        group.poll(one)
        two.subscribe("orders")
        group.pass_time(0.2)  # the first does not poll, so it does not join
        assert group_of(two).membership.identity.member_id
        two.close()
        assert member_count(group) == 1
        three.subscribe("orders")
        assert is_shared(group, one, three)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_member_closes_while_its_join_again_is_parked(strategy: str) -> None:
    """It is the leader, and the others would wait for its assignment."""
    with VirtualGroup() as group:
        one, two, three = (
            group.member("orders", partition_assignment_strategy=strategy) for _ in range(3)
        )
        group.poll(one, two, three, seconds=15)
        leader = group.world.cluster.group("g").leader_id
        first = next(it for it in (one, two, three) if it.group_metadata().member_id == leader)
        others = [it for it in (one, two, three) if it is not first]
        first.enforce_rebalance()
        group.poll(first, seconds=0.5)
        assert state_of(first) is MemberState.JOINING
        first.close()
        assert member_count(group) == 2
        assert is_shared(group, *others)


def test_records_of_a_close_in_a_parked_join_come_again(caplog: pytest.LogCaptureFixture) -> None:
    """A cooperative member keeps its partitions meanwhile; a log line tells of its last commit."""
    with VirtualGroup() as group:
        group.fill(5, 0, 1, 2, 3)
        settings: dict[str, Any] = {
            "partition_assignment_strategy": "cooperative-sticky",
            "auto_commit_interval_ms": 60_000,
        }
        one, two = (group.member("orders", **settings) for _ in range(2))
        group.poll(one, two, seconds=15)
        mine = numbers(one)
        one.enforce_rebalance()
        group.poll(one, seconds=0.5)
        assert state_of(one) is MemberState.JOINING
        one.close()
        assert "the commit before partitions are given up failed" in caplog.text
        again = group.poll(two, seconds=SOON_S)[two]
        places = sorted((it.partition, it.offset) for it in again if it.partition in mine)
        assert places == [(number, offset) for number in mine for offset in range(5)]


def test_a_member_closes_while_its_sync_is_parked() -> None:
    """It closes while the leader's assignor runs, and its partitions would be read by nobody."""

    def result(members: Any, _topics: Any) -> Any:
        if len(members) > 1:
            group.pass_time(0.2)
            assert state_of(two) is MemberState.SYNCING
            two.close()
            assert member_count(group) == 1
        shares = [[("orders", it) for it in range(4)][at :: len(members)] for at in range(2)]
        return {each.member_id: share for each, share in zip(members, shares, strict=False)}

    with VirtualGroup() as group:
        one, two = (group.member(partition_assignment_strategy=[Odd(result)]) for _ in range(2))
        one.subscribe("orders")
        group.poll(one)
        two.subscribe("orders")
        two.poll(0.1)  # it asks its assignor for bytes, and joins
        assert is_shared(group, one)
        assert engine_of(two).state == "closed"


def test_a_member_closes_before_the_response_to_its_first_join() -> None:
    """The response tells its id, without which it cannot leave: no join would be complete."""
    with VirtualGroup() as group:
        one = group.member("orders")
        group.poll(one)
        two = group.member()
        group.world.cluster.faults.delay(ApiKey.JOIN_GROUP, 500)
        two.subscribe("orders")
        pass_until(group, two, MemberState.JOINING)
        group.pass_time(0.2)
        assert not group_of(two).membership.identity.member_id
        two.close()
        group.world.cluster.faults.clear()
        three = group.member("orders")
        assert is_shared(group, one, three)


def test_a_late_response_to_a_join_of_a_former_membership_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The member has unsubscribed meanwhile; it subscribes again, and gets everything."""
    with VirtualGroup() as group:
        one = group.member()
        group.world.cluster.faults.delay(ApiKey.JOIN_GROUP, 500, times=2, handled=True)
        one.subscribe("orders")
        while not group_of(one).membership.identity.member_id:
            group.pass_time(0.01)
        group.pass_time(0.2)
        one.unsubscribe()
        group.pass_time(0.5)
        assert state_of(one) is MemberState.LEFT
        one.subscribe("orders")
        assert is_shared(group, one)
    assert [it.message for it in caplog.records if it.levelname == "ERROR"] == []


@pytest.mark.parametrize("unsubscribes", [False, True])
def test_a_member_closes_while_it_looks_for_the_coordinator(*, unsubscribes: bool) -> None:
    """It leaves when the coordinator is found, though it has unsubscribed a moment ago."""
    with VirtualGroup() as group:
        one, two = (group.member("orders", enable_auto_commit=False) for _ in range(2))
        group.poll(one, two, seconds=15)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        group.world.cluster.faults.fail_next(ApiKey.FIND_COORDINATOR, code, times=3)
        group.world.cluster.disconnect_clients(0)
        group.pass_time(0.05)
        if unsubscribes:
            two.unsubscribe()
        two.close()
        assert is_shared(group, one)


def test_a_static_member_closes_for_good_while_its_first_join_is_parked() -> None:
    """It does not know its id yet, and leaves by its instance id."""
    with VirtualGroup() as group:
        one = group.member("orders")
        group.poll(one)
        two = group.member("orders", group_instance_id="a")
        group.pass_time(0.2)
        assert not group_of(two).membership.identity.member_id
        assert member_count(group) == 2
        two.close(leave=True)
        assert member_count(group) == 1
        assert is_shared(group, one)


@pytest.mark.parametrize("subscribes", [False, True])
def test_a_static_member_that_has_unsubscribed_closes_for_good(*, subscribes: bool) -> None:
    """The coordinator has not learned of the first end, and still counts it."""
    with VirtualGroup() as group:
        one = group.member("orders", group_instance_id="a")
        group.poll(one)
        one.unsubscribe()
        group.pass_time(0.2)
        assert member_count(group) == 1
        if subscribes:
            one.subscribe("orders")
        one.close(leave=True)
        assert member_count(group) == 0


@pytest.mark.parametrize("is_known", [True, False])
def test_a_close_of_the_next_membership_tells_of_the_earlier_one(*, is_known: bool) -> None:
    """It has unsubscribed while its join was parked; the next membership has sent nothing yet."""
    with VirtualGroup() as group:
        one = group.member("orders")
        group.poll(one)
        two = group.member()
        if not is_known:
            group.world.cluster.faults.delay(ApiKey.JOIN_GROUP, 500)
        two.subscribe("orders")
        pass_until(group, two, MemberState.JOINING)
        group.pass_time(0.2)
        assert bool(group_of(two).membership.identity.member_id) is is_known
        two.unsubscribe()
        two.subscribe("orders")
        before_ms = group.world.clock.now_ms()
        two.close()
        assert group.world.clock.now_ms() - before_ms <= 1_000
        assert member_count(group) == 1
        group.world.cluster.faults.clear()
        three = group.member("orders")
        assert is_shared(group, one, three)


def test_a_member_closes_while_its_heartbeat_is_in_flight() -> None:
    """The request to leave follows it."""
    with VirtualGroup() as group:
        one, two = (group.member("orders", enable_auto_commit=False) for _ in range(2))
        group.poll(one, two, seconds=15)
        group.world.cluster.faults.delay(ApiKey.HEARTBEAT, 500)
        group.pass_time(3.2)
        two.close()
        group.world.cluster.faults.clear()
        assert is_shared(group, one)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_a_coordinator_that_has_moved_is_told_where_it_is(code: ErrorCode) -> None:
    """The request is sent again, to the coordinator that is found then."""
    with VirtualGroup() as group:
        one, two = (group.member("orders", enable_auto_commit=False) for _ in range(2))
        group.poll(one, two, seconds=15)
        group.world.cluster.faults.fail_next(ApiKey.LEAVE_GROUP, code, times=2)
        two.close()
        assert not group.world.cluster.faults.untriggered()
        assert is_shared(group, one)


def test_a_member_leaves_though_metadata_is_due() -> None:
    """Metadata goes first, and the request to leave after it."""
    with VirtualGroup() as group:
        one, two = (group.member("orders", enable_auto_commit=False) for _ in range(2))
        group.poll(one, two, seconds=15)
        engine_of(two).parts.metadata.request_update()
        two.close()
        assert is_shared(group, one)


def test_a_coordinator_that_does_not_let_a_member_leave_is_asked_once() -> None:
    """The error is final; the close ends at once."""
    with VirtualGroup() as group:
        one = group.member("orders", enable_auto_commit=False)
        group.poll(one)
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        group.world.cluster.faults.fail_next(ApiKey.LEAVE_GROUP, code)
        before_ms = group.world.clock.now_ms()
        one.close()
        assert group.world.clock.now_ms() - before_ms <= 500
        assert member_count(group) == 1


def test_a_close_does_not_wait_long_for_a_coordinator_that_is_silent() -> None:
    """Five seconds at most: the member then ends with its session."""
    with VirtualGroup() as group:
        one = group.member("orders", enable_auto_commit=False)
        group.poll(one)
        group.world.cluster.faults.drop(ApiKey.LEAVE_GROUP)
        before_ms = group.world.clock.now_ms()
        one.close()
        assert group.world.clock.now_ms() - before_ms <= 5_500
        assert member_count(group) == 1


class SlowListener(Listener):
    """A listener that takes longer than the close may."""

    def __init__(self, group: VirtualGroup, seconds: float) -> None:
        """Take so long in `on_revoked`."""
        super().__init__()
        self._group, self._seconds = group, seconds

    def on_revoked(self, consumer: Any, keys: Any) -> None:
        """Let time pass."""
        super().on_revoked(consumer, keys)
        self._group.world.clock.advance(round(self._seconds * 1_000))


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_listener_that_uses_up_the_limit_does_not_keep_the_member(*, is_silent: bool) -> None:
    """The leave is sent nevertheless, and a silent coordinator is waited for a quarter second."""
    with VirtualGroup() as group:
        listener = SlowListener(group, 3.0)
        one = group.member("orders", listener=listener)
        group.poll(one)
        if is_silent:
            group.world.cluster.faults.drop(ApiKey.LEAVE_GROUP)
        before_ms = group.world.clock.now_ms()
        one.close(1)
        assert listener.calls[-1] == ("revoked", [0, 1, 2, 3])
        assert group.world.clock.now_ms() - before_ms <= 3_500
        assert member_count(group) == (1 if is_silent else 0)
