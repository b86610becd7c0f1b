"""Commits in virtual time: positions, explicit offsets, order, automatic ones, the end."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from kprod.consumer.consumer_metrics import COORDINATOR_GROUP, COORDINATOR_ROWS
from kprod.errors import CommitFailed, ConfigError, ConsumerForked, KprodError, NoOffset
from kprod.model import OffsetAndMetadata, TopicPartition
from tests.consumer.group.virtual_group import Listener, VirtualGroup, numbers

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
MANUAL: dict[str, Any] = {"enable_auto_commit": False}


def committed(consumer: Any, key: TopicPartition = P0) -> int | None:
    """The committed offset of a partition."""
    found = consumer.committed([key])[key]
    return None if found is None else found.offset


def poll_some(consumer: Any, count: int) -> list[Any]:
    """Poll until there are records."""
    for _ in range(100):
        records: list[Any] = consumer.poll(0.05, count)
        if records:
            return records
    raise AssertionError("no records")


def test_commit_takes_everything_that_was_returned() -> None:
    """The records of the last poll count as done."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders", **MANUAL)
        assert len(poll_some(one, 3)) == 3
        assert committed(one) is None
        one.commit()
        assert committed(one) == 3


def test_an_iterations_record_counts_once_it_is_in_hand() -> None:
    """As the text of `commit` says."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders", **MANUAL)
        for record in one:
            if record.offset == 2:
                one.commit()
                break
        assert committed(one) == 3


def test_offsets_have_metadata_and_epochs() -> None:
    """They come back as they were given."""
    with VirtualGroup(2) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one)
        given = OffsetAndMetadata(4, "half way", 0)
        one.commit({P0: given, ("orders", 1): 7})
        assert one.committed([P0, P1]) == {P0: given, P1: OffsetAndMetadata(7)}


def test_async_callbacks_come_in_order_and_before_a_later_commit_returns() -> None:
    """The newest offset wins."""
    with VirtualGroup(1) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one)
        told: list[tuple[int, KprodError | None]] = []
        for offset in range(1, 6):
            one.commit_async({P0: offset}, lambda it, error: told.append((it[P0].offset, error)))
        assert told == []
        one.commit({P0: 9})
        assert told == [(offset, None) for offset in range(1, 6)]
        assert committed(one) == 9


def test_a_callback_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next one is called."""
    with VirtualGroup(1) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one)
        told: list[int] = []
        one.commit_async({P0: 1}, lambda *_: 1 / 0)
        one.commit_async({P0: 2}, lambda it, _error: told.append(it[P0].offset))
        group.poll(one, seconds=1)
        assert told == [2]
        assert "division by zero" in caplog.text


def test_nothing_is_committed_before_it_was_asked_past() -> None:
    """The interval passes while the application has records in hand; the next poll confirms."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders", auto_commit_interval_ms=1_000)
        poll_some(one, 3)
        group.pass_time(5)
        assert committed(one) in {None, 0}
        poll_some(one, 1)
        group.pass_time(5)
        assert committed(one) == 3


def test_close_commits_what_was_returned() -> None:
    """Nothing is read twice, and the group knows that the member has left."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders")
        poll_some(one, 3)
        one.close(5)
        two = group.member("orders")
        assert [it.offset for it in group.poll(two)[two]] == [3, 4]


def fail_in_a_loop(consumer: Any) -> None:
    """Raise with the record at offset 3 in hand."""
    with consumer:
        for record in consumer:
            1 / (3 - record.offset)


def fail_after_a_poll(consumer: Any) -> None:
    """Raise with the records from offset 3 on in hand."""
    with consumer:
        poll_some(consumer, 3)
        records = poll_some(consumer, 2)
        1 / (3 - records[0].offset)


@pytest.mark.parametrize("fail", [fail_in_a_loop, fail_after_a_poll])
def test_an_exception_leaves_the_records_in_hand_to_the_next(
    fail: Callable[[Any], None],
) -> None:
    """A loop's record, or a poll's batch, is read again; the ones before are not."""
    with VirtualGroup(1) as group:
        group.fill(6, 0)
        one = group.member("orders")
        with pytest.raises(ZeroDivisionError):
            fail(one)
        two = group.member("orders")
        assert [it.offset for it in group.poll(two)[two]] == [3, 4, 5]


def test_a_commit_after_revocation_is_rejected() -> None:
    """The text names partition and remedy, and the attribute the partition."""
    with VirtualGroup() as group:
        one = group.member("orders")
        group.poll(one)
        two = group.member("orders")
        group.poll(one, two, seconds=15)
        (lost, *_) = numbers(two)
        with pytest.raises(CommitFailed, match=rf"orders-{lost} cannot be committed") as raised:
            one.commit({("orders", lost): 1})
        assert raised.value.partitions == (("orders", lost),)


def test_without_a_group_there_are_no_commits() -> None:
    """The error names the setting."""
    with VirtualGroup(1) as group:
        one = group.member("orders", group_id="")
        for call in (one.commit, one.commit_async, one.group_metadata, one.enforce_rebalance):
            with pytest.raises(ConfigError, match="group_id is not set"):
                call()


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({P0: -1}, ValueError),
        ({P0: "3"}, TypeError),
        ({P0: True}, TypeError),
        ({"orders": 3}, TypeError),
        ([(P0, 3)], TypeError),
        ({P0: OffsetAndMetadata(1, "m", -2)}, ValueError),
        ({P0: OffsetAndMetadata(1, "m" * 40_000)}, ValueError),
        ({P0: OffsetAndMetadata(1, 5)}, TypeError),  # type: ignore[arg-type]  # is tested
    ],
)
def test_bad_offsets_are_rejected_at_the_door(offsets: Any, error: type[Exception]) -> None:
    """No request is sent for them."""
    with VirtualGroup(1) as group:
        one = group.member("orders")
        for call in (one.commit, one.commit_async):
            with pytest.raises(error):
                call(offsets)


def test_assigned_partitions_start_at_committed_offsets() -> None:
    """By hand, in a group: without a membership."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member()
        one.assign([P0])
        poll_some(one, 2)
        one.commit()
        one.close(5)
        two = group.member()
        two.assign([P0])
        assert [it.offset for it in group.poll(two)[two]] == [2, 3, 4]


def test_no_committed_offset_and_no_policy_is_an_error() -> None:
    """And a committed one is none."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders", auto_offset_reset="none", **MANUAL)
        with pytest.raises(NoOffset, match="orders-0"):
            group.poll(one)
        one.commit({P0: 3})
        one.close(5)
        two = group.member("orders", auto_offset_reset="none")
        assert [it.offset for it in group.poll(two)[two]] == [3, 4]


def test_metrics_count_commits_heartbeats_and_rebalances() -> None:
    """Under Kafka's names, in the order of the page."""
    with VirtualGroup(1) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one, seconds=10)
        one.commit()
        found = one.metrics()[COORDINATOR_GROUP]
        assert list(found) == [row.name for row in COORDINATOR_ROWS]
        assert (found["commit-total"], found["rebalance-total"]) == (1, 1)
        assert found["heartbeat-total"] >= 2
        assert found["last-heartbeat-seconds-ago"] < 3.5


class Acting(Listener):
    """A listener that does something when partitions come or go."""

    def __init__(self, act: Any) -> None:
        """Act by this function."""
        super().__init__()
        self.act = act

    def on_assigned(self, consumer: Any, keys: Any) -> None:
        """Note it, and act."""
        super().on_assigned(consumer, keys)
        self.act("assigned", consumer, keys)

    def on_revoked(self, consumer: Any, keys: Any) -> None:
        """Note it, and act."""
        super().on_revoked(consumer, keys)
        self.act("revoked", consumer, keys)


def test_a_seek_of_the_listener_comes_before_the_first_record() -> None:
    """Nothing is returned from before it."""

    def act(kind: str, consumer: Any, keys: Any) -> None:
        for key in keys if kind == "assigned" else ():
            consumer.seek(key, 3)

    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders", listener=Acting(act))
        assert [it.offset for it in group.poll(one)[one]] == [3, 4]


def test_a_listener_may_commit_before_it_gives_up() -> None:
    """The new owner reads on from there."""

    def act(kind: str, consumer: Any, _keys: Any) -> None:
        if kind == "revoked":
            consumer.commit()

    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = group.member("orders", listener=Acting(act), **MANUAL)
        poll_some(one, 3)
        one.enforce_rebalance()
        found = group.poll(one, seconds=10)[one]
        assert [it.offset for it in found] == [3, 4]


def polls_that_raise(consumer: Any, kind: type[BaseException]) -> int:
    """Poll a hundred times; returns how often that raised."""
    count = 0
    for _ in range(100):
        try:
            consumer.poll(0.05)
        except kind:
            count += 1
    return count


@pytest.mark.parametrize("where", ["assigned", "revoked"])
@pytest.mark.parametrize("kind", [ZeroDivisionError, KprodError, KeyboardInterrupt])
def test_an_exception_of_a_listener_leaves_poll_once(where: str, kind: type[BaseException]) -> None:
    """The member goes through the rebalance all the same, and the listener is called once."""
    raised: list[str] = []

    def act(event: str, _consumer: Any, _keys: Any) -> None:
        if event == where and not raised:
            raised.append(event)
            raise kind("of the test")

    with VirtualGroup() as group:
        listener = Acting(act)
        one = group.member("orders", listener=listener)
        errors = polls_that_raise(one, kind)
        one.enforce_rebalance()
        errors += polls_that_raise(one, kind)
        assert errors == 1
        assert numbers(one) == [0, 1, 2, 3]
        assert [event for event, _ in listener.calls] == ["assigned", "revoked", "assigned"]


@pytest.mark.parametrize("kind", [ZeroDivisionError, KprodError, KeyboardInterrupt])
def test_partitions_move_although_a_cooperative_members_listener_raises(
    kind: type[BaseException],
) -> None:
    """The member settles, so that the new one gets partitions, and the listener is told once."""

    def act(event: str, _consumer: Any, _keys: Any) -> None:
        if event == "revoked":
            raise kind("of the test")

    cooperative: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}
    with VirtualGroup() as group:
        listener = Acting(act)
        one = group.member("orders", listener=listener, **cooperative)
        group.poll(one)
        two = group.member("orders", **cooperative)
        errors = 0
        for _ in range(40):
            try:
                group.poll(one, two, seconds=0.2)
            except kind:
                errors += 1
        assert errors == 1
        assert sorted(numbers(one) + numbers(two)) == [0, 1, 2, 3]
        assert [len(keys) for event, keys in listener.calls if event == "revoked"] == [2]
        listener.act = lambda *_: None  # closes without an error


def test_a_listener_must_not_poll_and_may_pause_and_close() -> None:
    """A nested poll is an error, a close ends the consumer."""
    seen: list[str] = []

    def act(event: str, consumer: Any, keys: Any) -> None:
        if event == "assigned":
            with pytest.raises(KprodError, match="being read by this thread already"):
                consumer.poll(0)
            with pytest.raises(KprodError, match="being read by this thread already"):
                consumer.unsubscribe()
            consumer.pause(*keys)
            consumer.close(5)
            seen.append(event)

    with VirtualGroup(1) as group:
        one = group.member("orders", listener=Acting(act))
        with pytest.raises(KprodError, match="closed"):
            group.poll(one)
        assert seen == ["assigned"]


def test_a_fork_in_a_listener_leaves_the_parents_member_alone() -> None:
    """The child's copy rejects calls, and sends nothing."""

    def act(event: str, consumer: Any, _keys: Any) -> None:
        if event != "assigned":
            return
        child = os.fork()
        if not child:
            try:
                consumer.commit()
            except ConsumerForked:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    with VirtualGroup(1) as group:
        group.fill(2, 0)
        one = group.member("orders", listener=Acting(act))
        assert [it.offset for it in group.poll(one)[one]] == [0, 1]
