"""Stored offsets, interceptors that are told of commits, and how a closed consumer leaves."""

from typing import Any

import pytest

from kprod.errors import ClosedError, CommitFailed, ConfigError
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.group.test_commits import committed, poll_some
from tests.consumer.group.virtual_group import Listener, VirtualGroup, numbers

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
STORE: dict[str, Any] = {"enable.auto.offset.store": False, "auto_commit_interval_ms": 1_000}


def stored(group: VirtualGroup, *topics: str, **settings: Any) -> Any:
    """A member that stores offsets."""
    return group.member(*topics or ("orders",), auto_offset_store=False, **settings)


def members_of(group: VirtualGroup) -> list[Any]:
    """The group's members, as its coordinator knows them."""
    found = group.ask(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]})["groups"][0]["members"]
    return list(found)


class Told:
    """An interceptor that notes the commits."""

    def __init__(self) -> None:
        """Start without commits."""
        self.commits: list[dict[TopicPartition, int]] = []

    def on_consume(self, records: Any) -> Any:
        """Pass them on."""
        return records

    def on_commit(self, offsets: Any) -> None:
        """Note them; the mapping may be changed, and a failure is ignored."""
        self.commits.append({key: it.offset for key, it in offsets.items()})
        offsets.clear()
        raise ZeroDivisionError("an interceptor's fault")

    def close(self) -> None:
        """Nothing is held."""


class Bare:
    """An interceptor without `on_commit`."""

    def on_consume(self, records: Any) -> Any:
        """Pass them on."""
        return records

    def close(self) -> None:
        """Nothing is held."""


def test_only_stored_offsets_are_committed_at_intervals() -> None:
    """Whatever the application has asked past; a record stores the offset after it."""
    with VirtualGroup(2) as group:
        group.fill(5, 0, 1)
        one = stored(group, auto_commit_interval_ms=1_000)
        records = [it for it in group.poll(one)[one] if it.partition == 0]
        group.poll(one)
        assert (committed(one, P0), committed(one, P1)) == (None, None)
        one.store_offsets(records[2])
        group.poll(one, seconds=2)
        assert (committed(one, P0), committed(one, P1)) == (3, None)
        one.store_offsets({P1: OffsetAndMetadata(2, "half", 0), P0: 1})
        group.poll(one, seconds=2)
        assert one.committed([P0, P1]) == {
            P0: OffsetAndMetadata(1),
            P1: OffsetAndMetadata(2, "half", 0),
        }


def test_commits_without_offsets_take_what_is_stored() -> None:
    """Once; explicit offsets are committed as they are."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = stored(group, enable_auto_commit=False)
        poll_some(one, 4)
        one.commit()
        assert committed(one) is None
        one.store_offsets({P0: 2})
        one.commit_async()
        one.commit()
        assert committed(one) == 2
        one.commit({P0: 3})
        one.commit()  # nothing is stored since
        assert committed(one) == 3


def test_a_revocation_commits_and_forgets_what_is_stored() -> None:
    """Also what the listener stores in `on_revoked`; positions are not committed."""

    class Storing(Listener):
        """Stores an offset of the partition that goes."""

        def on_revoked(self, consumer: Any, keys: Any) -> None:
            """Store it."""
            super().on_revoked(consumer, keys)
            if P1 in keys:
                consumer.store_offsets({P1: 4})

    with VirtualGroup(2) as group:
        group.fill(5, 0, 1)
        one = stored(group, listener=Storing(), auto_commit_interval_ms=600_000)
        group.poll(one)
        one.store_offsets({P0: 3, P1: 2})
        two = stored(group, auto_commit_interval_ms=600_000)
        group.poll(one, two, seconds=15)
        assert (committed(one, P0), committed(one, P1)) == (3, 4)
        (lost,) = numbers(two)
        with pytest.raises(CommitFailed, match=rf"orders-{lost} cannot be stored") as raised:
            one.store_offsets({("orders", lost): 5})
        assert raised.value.partitions == (("orders", lost),)
        one.close(5)
        two.close(5)
        other = group.member()
        assert (committed(other, P0), committed(other, P1)) == (3, 4)


def test_close_commits_what_is_stored_and_no_more() -> None:
    """Records that were handed out are read again."""
    with VirtualGroup(1) as group:
        group.fill(5, 0)
        one = stored(group)
        poll_some(one, 4)
        poll_some(one, 1)
        one.store_offsets({P0: 2})
        one.close(5)
        two = group.member("orders")
        assert [it.offset for it in group.poll(two)[two]] == [2, 3, 4]


def test_what_cannot_be_stored_is_rejected() -> None:
    """The setting, the assignment, the value, the state."""
    with VirtualGroup(1) as group:
        with pytest.raises(ConfigError, match="auto_offset_store is True"):
            group.member("orders").store_offsets({P0: 1})
        with pytest.raises(ConfigError, match="group_id is not set"):
            stored(group, group_id="").store_offsets({P0: 1})
        by_hand = group.member(auto_offset_store=False, group_id="h")
        with pytest.raises(CommitFailed, match=r"before assign\(\) has it"):
            by_hand.store_offsets({P0: 1})
        by_hand.assign([P0])
        for wrong in (None, "orders", [(P0, 1)], {P0: "1"}):
            with pytest.raises(TypeError):
                by_hand.store_offsets(wrong)  # type: ignore[arg-type]  # is tested
        with pytest.raises(ValueError, match="from 0"):
            by_hand.store_offsets({P0: -1})
        by_hand.store_offsets({P0: 1})
        by_hand.commit()
        assert committed(by_hand) == 1
        by_hand.close(5)
        with pytest.raises(ClosedError):
            by_hand.store_offsets({P0: 1})


def test_both_spellings_of_the_setting() -> None:
    """Kafka's clients in C call it `enable.auto.offset.store`."""
    with VirtualGroup(1) as group:
        one = group.member("orders", settings=STORE)
        group.poll(one)
        one.store_offsets({P0: 0})
        two = group.member(group_id="h", enable_auto_offset_store=False)
        two.assign([P0])
        two.store_offsets({P0: 1})
        for each in (one, two):
            each.commit()
        assert (committed(one), committed(two)) == (0, 1)


def test_interceptors_are_told_of_every_commit() -> None:
    """Sync, async, automatic, the last one; not of failures, and in the application's thread."""
    with VirtualGroup(1) as group:
        group.fill(9, 0)
        told = Told()
        one = group.member("orders", interceptors=[Bare(), told], auto_commit_interval_ms=4_000)
        poll_some(one, 2)
        one.commit()
        assert told.commits == [{P0: 2}]
        one.commit_async({P0: 1})
        group.pass_time(1)
        assert told.commits == [{P0: 2}]  # nobody has polled
        poll_some(one, 2)
        assert told.commits == [{P0: 2}, {P0: 1}]
        group.poll(one, seconds=5)
        assert told.commits[2:] == [{P0: 9}]
        with pytest.raises(CommitFailed):
            one.commit({("orders", 7): 1})
        group.fill(1, 0)
        poll_some(one, 1)
        one.close(5)
        assert told.commits[3:] == [{P0: 10}]


def test_an_interceptor_that_commits_is_told_of_it_by_a_later_call() -> None:
    """Not inside of itself, again and again."""

    class Committing(Told):
        """Commits whenever it is told of a commit."""

        def on_commit(self, offsets: Any) -> None:
            """Commit the next offset."""
            self.commits.append({key: it.offset for key, it in offsets.items()})
            if len(self.commits) < 3:
                one.commit({P0: offsets[P0].offset + 1})

    with VirtualGroup(1) as group:
        told = Committing()
        one = group.member("orders", interceptors=[told], enable_auto_commit=False)
        group.poll(one)
        one.commit({P0: 1})
        assert told.commits == [{P0: 1}]
        group.poll(one)
        assert told.commits == [{P0: 1}, {P0: 2}, {P0: 3}]
        assert committed(one) == 3


@pytest.mark.parametrize(
    ("instance_id", "leave", "is_member"),
    [
        ("", None, False),
        ("", True, False),
        ("", False, True),
        ("a", None, True),
        ("a", True, False),
        ("a", False, True),
    ],
)
def test_close_leaves_the_group_as_it_is_told(
    instance_id: str, leave: bool | None, is_member: bool
) -> None:
    """By default all but static members leave; commits and `on_revoked` come in any case."""
    with VirtualGroup(1) as group:
        group.fill(3, 0)
        listener = Listener()
        static: dict[str, Any] = {"group_instance_id": instance_id, "session_timeout_ms": 6_000}
        one = group.member("orders", listener=listener, **static)
        poll_some(one, 3)
        one.close(5, leave=leave)
        assert bool(members_of(group)) is is_member
        assert listener.calls[-1] == ("revoked", [0])
        assert committed(group.member()) == 3
        group.pass_time(7)
        assert members_of(group) == []


def test_leave_is_a_flag() -> None:
    """Anything else is rejected, and the consumer stays open."""
    with VirtualGroup(1) as group:
        one = group.member("orders")
        with pytest.raises(TypeError, match="leave is None, True or False"):
            one.close(5, leave="yes")  # type: ignore[arg-type]  # is tested
        group.poll(one)
        assert numbers(one) == [0]
