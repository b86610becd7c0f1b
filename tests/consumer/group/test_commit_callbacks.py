"""Callbacks of asynchronous commits: they commit again, meet a close that cannot wait, and fork."""

import os
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster
from kprod.errors import ClosedError, ConsumerForked, KprodError
from kprod.protocol.api import ApiKey
from tests.consumer.group.test_commits import MANUAL, P0, committed
from tests.consumer.group.test_membership import Odd
from tests.consumer.group.virtual_group import VirtualGroup, numbers
from tests.consumer.reading import consumer_of


@pytest.mark.parametrize("call", ["poll", "commit"])
def test_a_callback_that_commits_again_ends(call: str) -> None:
    """Without partitions a commit is done at once: its callback waits for the next call."""
    with VirtualGroup(1) as group:
        one = group.member(**MANUAL)
        one.assign([])
        told: list[KprodError | None] = []

        def again(_offsets: Any, error: KprodError | None) -> None:
            told.append(error)
            if len(told) < 1_000:
                one.commit_async(None, again)

        one.commit_async(None, again)
        if call == "commit":
            one.commit({})
        else:
            one.assign([P0])
            one.poll(0)
            one.assign([])
        assert 0 < len(told) < 100
        assert set(told) == {None}


@pytest.mark.parametrize("timeout", [0, 0.001])
def test_a_close_that_cannot_wait_tells_the_callbacks_that_it_ended(timeout: float) -> None:
    """In the order of the commits, and once; the close does not wait for the coordinator."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster:
        one = consumer_of(cluster, group_id="g", **MANUAL)
        one.assign([P0])
        one.commit({P0: 1})
        cluster.faults.drop(ApiKey.OFFSET_COMMIT)
        told: list[tuple[int, KprodError | None]] = []
        for offset in (2, 3):
            one.commit_async({P0: offset}, lambda it, error: told.append((it[P0].offset, error)))
        one.close(timeout)
        one.close(timeout)
        assert [offset for offset, _ in told] == [2, 3]
        assert all(isinstance(error, ClosedError) for _, error in told)


def fork_and_commit(consumer: Any) -> None:
    """Fork: the child's copy rejects a commit, and sends nothing."""
    child = os.fork()
    if not child:
        try:
            consumer.commit()
        except ConsumerForked:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_fork_in_a_commits_callback_leaves_the_parents_member_alone() -> None:
    """The parent commits and reads on in its generation."""
    with VirtualGroup(1) as group:
        group.fill(2, 0)
        one = group.member("orders", **MANUAL)
        group.poll(one)
        generation = one.group_metadata().generation
        told: list[Any] = []

        def fork(_offsets: Any, error: Any) -> None:
            fork_and_commit(one)
            told.append(error)

        one.commit_async({P0: 1}, fork)
        group.poll(one)
        one.commit({P0: 2})
        assert told == [None]
        assert committed(one) == 2
        assert one.group_metadata().generation == generation


def test_a_fork_in_an_assignor_leaves_the_parents_member_alone() -> None:
    """The parent's assignment is the group's."""
    made: list[Any] = []

    def result(members: Any, topics: Any) -> Any:
        fork_and_commit(made[0])
        keys = [(name, number) for name, racks in topics.items() for number in range(len(racks))]
        return {members[0].member_id: keys}

    with VirtualGroup() as group:
        made.append(group.member(partition_assignment_strategy=[Odd(result)]))
        made[0].subscribe("orders")
        group.poll(made[0])
        assert numbers(made[0]) == [0, 1, 2, 3]
