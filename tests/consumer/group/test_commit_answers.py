"""Answers to commits in virtual time: none in a rebalance, and those that tell of the member."""

import logging
from typing import Any

import pytest

from kprod.errors import ClosedError, CommitFailed, KprodTimeout
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, FencedInstanceId
from tests.consumer.group.test_commits import MANUAL, P0, committed, poll_some
from tests.consumer.group.virtual_group import (
    Listener,
    VirtualGroup,
    group_of,
    numbers,
    state_of,
)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_poll_in_a_rebalance_waits_for_a_commit_as_long_as_it_may(strategy: str) -> None:
    """The coordinator is silent: each poll returns in time, and the rebalance goes through."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        listener = Listener()
        settings: dict[str, Any] = {
            "partition_assignment_strategy": strategy,
            "auto_commit_interval_ms": 60_000,
        }
        one = group.member("orders", listener=listener, request_timeout_ms=3_000, **settings)
        poll_some(one, 3)
        group.world.cluster.faults.drop(ApiKey.OFFSET_COMMIT)
        two = group.member("orders", **settings)
        clock, longest_ms = group.world.clock, 0
        while ("revoked", [0]) not in listener.calls and numbers(two) != [0]:
            before_ms = clock.now_ms()
            assert [it.offset for it in one.poll(0.1)] in ([], [3, 4])
            longest_ms = max(longest_ms, clock.now_ms() - before_ms)
            two.poll(0.1)
            if strategy == "cooperative-sticky" and clock.now_ms() > 60_000:
                break  # the one partition stays where it is
        assert longest_ms <= 200
        group.poll(one, two, seconds=15)
        assert sorted(numbers(one) + numbers(two)) == [0]


def test_no_record_is_returned_while_a_revocation_waits() -> None:
    """Else it would be committed by nobody and read by two owners."""
    with VirtualGroup(2) as group:
        group.fill(5, 0, 1)
        one = group.member("orders", request_timeout_ms=3_000, auto_commit_interval_ms=60_000)
        found = [(it.partition, it.offset) for it in poll_some(one, 3)]
        group.world.cluster.faults.drop(ApiKey.OFFSET_COMMIT)
        two = group.member("orders")
        while state_of(one).name == "STABLE":
            group.pass_time(0.1)
        before = [one.poll(0.1) for _ in range(5)]
        assert before == [[]] * 5
        rest = group.poll(one, two, seconds=20)
        for each in (one, two):
            found += [(it.partition, it.offset) for it in rest[each]]
        assert sorted(found) == [(number, offset) for number in range(2) for offset in range(5)]


def test_a_commit_that_is_not_confirmed_in_time_says_so() -> None:
    """The text names the commit, and the coordinator as the cause."""
    with VirtualGroup(1) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one)
        group.world.cluster.faults.drop(ApiKey.OFFSET_COMMIT)
        text = r"commit of orders-0 at offset 1 for group 'g' .* coordinator .* does not respond"
        before_ms = group.world.clock.now_ms()
        with pytest.raises(KprodTimeout, match=text) as raised:
            one.commit({P0: 1}, 1)
        assert group.world.clock.now_ms() - before_ms <= 1_010
        assert "no broker has answered" not in str(raised.value)


def test_an_answer_after_the_end_of_its_commits_is_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`close` has ended them; its loop runs until the member has left."""
    with VirtualGroup(1) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one)
        group.world.cluster.faults.delay(ApiKey.OFFSET_COMMIT, 500)
        told: list[object] = []
        one.commit_async({P0: 1}, lambda _, error: told.append(error))
        group.pass_time(0.1)
        group_of(one).commits.fail_all(ClosedError("the consumer is closed"))
        group.poll(one, seconds=1)
        assert committed(one) == 1
        assert [type(it) for it in told] == [ClosedError]
        assert [it for it in caplog.records if it.levelno >= logging.ERROR] == []


def test_a_fenced_commit_names_group_and_setting() -> None:
    """As every other sign of a second process with the id; the member has ended."""
    with VirtualGroup(1) as group:
        one = group.member("orders", group_instance_id="a", **MANUAL)
        group.poll(one)
        group.world.cluster.faults.fail_next(ApiKey.OFFSET_COMMIT, ErrorCode.FENCED_INSTANCE_ID)
        text = r"group 'g' uses group_instance_id='a'"
        with pytest.raises(FencedInstanceId, match=text):
            one.commit({P0: 1})
        assert state_of(one).name == "FENCED"
        with pytest.raises(FencedInstanceId, match=text):
            one.poll(0.1)


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_commit_of_a_lost_generation_makes_the_member_join_again(code: int) -> None:
    """At once, without a heartbeat: partitions are lost, and the group gives them again."""
    with VirtualGroup(1) as group:
        group.fill(2, 0)
        listener = Listener()
        settings: dict[str, Any] = {"heartbeat_interval_ms": 8_000, "session_timeout_ms": 10_000}
        one = group.member("orders", listener=listener, **settings, **MANUAL)
        group.poll(one)
        group.world.cluster.faults.fail_next(ApiKey.OFFSET_COMMIT, code)
        with pytest.raises(CommitFailed, match="orders-0"):
            one.commit({P0: 1})
        group.poll(one, seconds=0.5)
        assert listener.calls[1:2] == [("lost", [0])]
        group.poll(one, seconds=15)  # a coordinator that does know the old id waits for it
        assert listener.calls[2:] == [("assigned", [0])]
        one.commit({P0: 1})
        assert committed(one) == 1


def test_a_rejected_commit_of_a_rebalance_makes_the_member_join() -> None:
    """It does not wait for a heartbeat to hear of the rebalance."""
    with VirtualGroup(1) as group:
        one = group.member("orders", heartbeat_interval_ms=9_000, **MANUAL)
        group.poll(one)
        before = one.group_metadata().generation
        group.world.cluster.faults.fail_next(ApiKey.OFFSET_COMMIT, ErrorCode.REBALANCE_IN_PROGRESS)
        told: list[Any] = []
        one.commit_async({P0: 1}, lambda _offsets, error: told.append(type(error).__name__))
        group.poll(one, seconds=4)
        assert told == ["CommitRetriable"]
        assert one.group_metadata().generation > before
