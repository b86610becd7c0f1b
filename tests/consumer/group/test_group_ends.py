"""Ends of a membership in virtual time: nothing that is not done is committed, and nothing else."""

import threading
from typing import Any

import pytest

from kprod.consumer.consumer_face import engine_of
from kprod.model import TopicPartition
from tests.consumer.group.test_commits import (
    MANUAL,
    P0,
    Acting,
    committed,
    fail_after_a_poll,
    fail_in_a_loop,
    poll_some,
)
from tests.consumer.group.virtual_group import Listener, VirtualGroup, numbers, state_of
from tests.interruptions import Interrupted


@pytest.mark.parametrize("fail", [fail_in_a_loop, fail_after_a_poll])
def test_a_listeners_commit_leaves_out_the_records_of_a_failed_block(fail: Any) -> None:
    """The records in hand are not done, also when `on_revoked` commits the positions."""

    def act(kind: str, consumer: Any, _keys: Any) -> None:
        if kind == "revoked":
            consumer.commit()

    with VirtualGroup(1) as group:
        group.fill(6, 0)
        one = group.member("orders", listener=Acting(act), **MANUAL)
        with pytest.raises(ZeroDivisionError):
            fail(one)
        two = group.member("orders")
        assert [it.offset for it in group.poll(two)[two]] == [3, 4, 5]


def test_close_waits_for_asynchronous_commits() -> None:
    """They are confirmed before the partitions are given up."""
    with VirtualGroup(1) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one)
        told: list[tuple[int, object]] = []
        for offset in (1, 2, 3):
            one.commit_async({P0: offset}, lambda it, error: told.append((it[P0].offset, error)))
        one.close(5)
        assert told == [(1, None), (2, None), (3, None)]


def test_close_does_not_wait_for_automatic_commits_that_come_after_it() -> None:
    """Without a coordinator each would have to be waited for, beyond the close's own limit."""
    with VirtualGroup(1) as group:
        group.fill(9, 0)
        one = group.member(auto_commit_interval_ms=1)
        one.assign([P0])
        assert group.poll(one, seconds=2)[one]
        group.fill(9, 0)
        assert one.poll(1)
        group.is_silent = True
        began_ms = group.world.clock.now_ms()
        one.close(0.5)
        took_ms = group.world.clock.now_ms() - began_ms  # of virtual time
        group.is_silent = False
    assert took_ms <= 500 + 250 + 50  # the leave has a quarter of a second more, and some turns


def test_automatic_commits_go_on_after_a_close_that_an_exception_ended() -> None:
    """The consumer is still open."""

    def act(kind: str, _consumer: Any, _keys: Any) -> None:
        if kind == "revoked" and not interrupted:
            interrupted.append(kind)
            raise Interrupted

    interrupted: list[str] = []
    with VirtualGroup(1) as group:
        group.fill(9, 0)
        listener = Acting(act)
        one = group.member(auto_commit_interval_ms=100)
        one.subscribe(["orders"], listener)
        poll_some(one, 3)
        with pytest.raises(Interrupted):
            one.close(5)
        one.subscribe(["orders"], listener)
        poll_some(one, 3)
        one.poll(0.05, 1)  # asks past the six records before
        group.pass_time(3)
        assert committed(one) == 6


def test_a_rebalance_waits_for_the_listeners_asynchronous_commits() -> None:
    """The new owner reads on from there."""

    def act(kind: str, consumer: Any, _keys: Any) -> None:
        if kind == "revoked":
            consumer.commit_async()

    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders", listener=Acting(act), **MANUAL)
        poll_some(one, 3)
        one.enforce_rebalance()
        assert [it.offset for it in group.poll(one, seconds=10)[one]] == [3, 4]


def test_another_threads_close_leaves_the_batch_in_hand_to_the_next() -> None:
    """The thread that polled may still work on it."""
    with VirtualGroup(1) as group:
        group.fill(6, 0)
        one = group.member("orders")
        poll_some(one, 2)
        poll_some(one, 2)
        closing = threading.Thread(target=one.close, args=(5,))
        closing.start()
        closing.join()
        two = group.member("orders")
        assert [it.offset for it in group.poll(two)[two]] == [2, 3, 4, 5]


def test_an_exit_leaves_the_batch_in_hand_to_the_next() -> None:
    """The batches before are committed."""
    with VirtualGroup(1) as group:
        group.fill(6, 0)
        one = group.member("orders")
        poll_some(one, 2)
        poll_some(one, 2)
        engine = engine_of(one)
        engine.close_soon()
        assert engine.close_at_exit(5) == 0
        assert engine.state == "closed"
        two = group.member("orders")
        assert [it.offset for it in group.poll(two)[two]] == [2, 3, 4, 5]


def member_with_an_assignment_to_take(group: VirtualGroup, listener: Listener) -> Any:
    """A member whose coordinator has answered, and that has not polled since."""
    one = group.member("orders", listener=listener)
    while not engine_of(one).parts.mailbox.has_steps:
        group.pass_time(0.1)
    return one


def test_an_assignment_of_a_group_that_was_left_is_not_taken() -> None:
    """The partitions that were assigned by hand remain."""
    with VirtualGroup(2) as group:
        listener = Listener()
        one = member_with_an_assignment_to_take(group, listener)
        one.unsubscribe()
        one.assign([TopicPartition("orders", 1)])
        one.poll(0.2)
        assert numbers(one) == [1]
        assert listener.calls == []


def test_an_assignment_before_a_second_subscription_is_not_taken() -> None:
    """The member joins again, and takes the new one."""
    with VirtualGroup(2) as group:
        listener = Listener()
        one = member_with_an_assignment_to_take(group, listener)
        one.unsubscribe()
        one.subscribe("orders", listener)
        one.poll(0)
        assert numbers(one) == []
        group.poll(one, seconds=10)
        assert state_of(one).name == "STABLE"
        assert listener.calls == [("assigned", [0, 1])]


def test_closing_twice_commits_once() -> None:
    """The second close finds nothing to do."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders")
        poll_some(one, 3)
        one.close(5)
        one.close(5)
        two = group.member("orders")
        assert committed(two) == 3
