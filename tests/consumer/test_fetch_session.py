"""Fetch sessions as the client keeps them; the cases of Kafka's FetchSessionHandlerTest."""

import uuid
from typing import Any

import pytest

from kprod.cluster.snapshot import NO_TOPIC_ID
from kprod.consumer.fetch_session import FetchSession, Wanted
from kprod.consumer.position import AssignedPartition, new_start
from kprod.model import TopicPartition

IDS = {"foo": uuid.UUID(int=1), "bar": uuid.UUID(int=2)}
MAX_EPOCH = 2**31 - 1


def partition(topic: str, number: int) -> AssignedPartition:
    """A partition that is read from its beginning."""
    return AssignedPartition(TopicPartition(topic, number), new_start(0))


def wanted(it: AssignedPartition, offset: int = 0, *, topic_id: uuid.UUID | None = None) -> Wanted:
    """Return a partition's fields of a request."""
    known_id = IDS[it.key.topic] if topic_id is None else topic_id
    return Wanted(
        it, 1, topic_id=known_id, leader_epoch=0, offset=offset, last_epoch=-1, bytes_max=100
    )


def asked(fields: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset, in order."""
    return [
        (topic["topic"], entry["partition"], entry["fetch_offset"])
        for topic in fields["topics"]
        for entry in topic["partitions"]
    ]


def forgotten(fields: dict[str, Any]) -> list[tuple[str, list[int]]]:
    """Topic and partitions."""
    return [(it["topic"], it["partitions"]) for it in fields["forgotten_topics_data"]]


def session(fields: dict[str, Any]) -> tuple[int, int]:
    """Id and epoch."""
    return fields["session_id"], fields["session_epoch"]


def test_a_lone_request_is_foretold() -> None:
    """It names at most one partition, and forgets none."""
    one, foo, bar = FetchSession(), partition("foo", 0), partition("bar", 0)

    def change(*changed: Wanted) -> list[bool]:
        for it in changed:
            one.want(it)
        told = one.is_next_lone
        is_lone = one.next_request().is_lone
        one.note_response(5)
        return [told, is_lone]

    lone, other = [True, True], [False, False]
    assert change(wanted(foo)) == lone
    assert change() == lone
    assert change(wanted(foo, 1), wanted(bar)) == other
    assert change(wanted(foo, 2)) == lone
    assert change(wanted(foo, 3), wanted(bar, 1)) == other
    assert change(wanted(foo, 4, topic_id=uuid.UUID(int=9))) == other  # forgets the old topic
    one.drop(bar.key)
    assert change() == other
    assert change(wanted(foo, 5)) == other  # by its old id again
    one.want(wanted(bar))
    one.forget()
    assert change() == other


def test_sessionless() -> None:
    """A broker that gives no session is told everything each time."""
    one = FetchSession()
    foo = partition("foo", 0)
    one.want(wanted(foo))
    one.want(wanted(partition("foo", 1)))
    for offset in (0, 10):
        fields = one.next_request().fields()
        assert session(fields) == (0, 0)
        assert ("foo", 1, 0) in asked(fields)
        assert ("foo", 0, offset) in asked(fields)
        one.note_response(0)
        one.want(wanted(foo, 10))


def test_incrementals() -> None:
    """Only new, changed and forgotten partitions are sent; the epoch counts up."""
    one = FetchSession()
    first, second = partition("foo", 0), partition("foo", 1)
    one.want(wanted(first))
    one.want(wanted(second))
    assert session(one.next_request().fields()) == (0, 0)
    one.note_response(123)
    fields = one.next_request().fields()
    assert session(fields) == (123, 1)
    assert (asked(fields), forgotten(fields)) == ([], [])
    one.note_response(123)
    third = partition("bar", 0)
    one.want(wanted(third))
    one.want(wanted(second, 10))
    fields = one.next_request().fields()
    assert session(fields) == (123, 2)
    assert asked(fields) == [("bar", 0, 0), ("foo", 1, 10)]
    one.note_response(123)
    assert one.drop(first.key)
    assert not one.drop(first.key)
    fields = one.next_request().fields()
    assert (asked(fields), forgotten(fields)) == ([], [("foo", [0])])


def test_what_comes_and_goes_between_two_requests_is_not_said() -> None:
    """The broker never knew it; a partition that returns unchanged is not sent either."""
    one = FetchSession()
    first, second = partition("foo", 0), partition("foo", 1)
    one.want(wanted(first))
    one.next_request()
    one.note_response(7)
    one.want(wanted(second))
    one.drop(second.key)
    one.drop(first.key)
    one.want(wanted(first))
    fields = one.next_request().fields()
    assert (asked(fields), forgotten(fields)) == ([], [])


@pytest.mark.parametrize("is_known", [True, False])
def test_after_a_failure_everything_is_said_again(*, is_known: bool) -> None:
    """Lost on the way, the old session is closed by its id; a broker that lost it gets none."""
    one = FetchSession()
    one.want(wanted(partition("foo", 0)))
    one.next_request()
    one.note_response(123)
    one.next_request()
    if is_known:
        one.note_failure()
    else:
        one.forget()
    fields = one.next_request().fields()
    assert session(fields) == (123 if is_known else 0, 0)
    assert asked(fields) == [("foo", 0, 0)]
    one.note_response(124)
    assert session(one.next_request().fields()) == (124, 1)


def test_a_topic_that_was_made_again_is_forgotten_by_its_old_id() -> None:
    """And asked for by its new one."""
    one = FetchSession()
    foo = partition("foo", 0)
    one.want(wanted(foo))
    one.next_request()
    one.note_response(123)
    one.want(wanted(foo, topic_id=uuid.UUID(int=9)))
    fields = one.next_request().fields()
    assert fields["forgotten_topics_data"] == [
        {"topic": "foo", "topic_id": IDS["foo"], "partitions": [0]}
    ]
    assert [topic["topic_id"] for topic in fields["topics"]] == [uuid.UUID(int=9)]


def test_the_epoch_wraps_to_one() -> None:
    """0 and −1 mean something else."""
    one = FetchSession()
    one.want(wanted(partition("foo", 0)))
    one.next_request()
    one.note_response(5)
    one.epoch = MAX_EPOCH
    assert session(one.next_request().fields()) == (5, MAX_EPOCH)
    one.note_response(5)
    assert session(one.next_request().fields()) == (5, 1)


def test_ids_are_used_when_all_are_known() -> None:
    """One topic without an id makes all go by name."""
    one = FetchSession()
    one.want(wanted(partition("foo", 0)))
    assert one.goes_by_ids
    one.want(wanted(partition("bar", 0), topic_id=uuid.UUID(int=0)))
    assert not one.goes_by_ids


def test_a_session_is_closed_by_its_id() -> None:
    """Without one there is nothing to close."""
    one = FetchSession()
    assert one.closing_request() is None
    one.want(wanted(partition("foo", 0)))
    one.next_request()
    one.note_response(9)
    part = one.closing_request()
    assert part is not None
    assert session(part.fields()) == (9, -1)


def test_who_gave_records_goes_to_the_end() -> None:
    """So that in a full request nobody is served first for ever."""
    one = FetchSession()
    first, second = partition("foo", 0), partition("foo", 1)
    one.want(wanted(first))
    one.want(wanted(second))
    one.next_request()
    one.note_response(0)
    one.want(wanted(first, 5))
    assert asked(one.next_request().fields()) == [("foo", 1, 0), ("foo", 0, 5)]


@pytest.mark.parametrize("topic_id", [None, NO_TOPIC_ID])
def test_incremental_partition_removal(topic_id: uuid.UUID | None) -> None:
    """Two of three; then the broker has lost the session, and everything left is said again."""
    one = FetchSession()
    keys = [partition("foo", 0), partition("foo", 1), partition("bar", 0)]
    for key in keys:
        one.want(wanted(key, topic_id=topic_id))
    assert len(asked(one.next_request().fields())) == 3
    one.note_response(123)
    one.drop(keys[0].key)
    one.drop(keys[2].key)
    fields = one.next_request().fields()
    assert (session(fields), asked(fields)) == ((123, 1), [])
    assert sorted(forgotten(fields)) == [("bar", [0]), ("foo", [0])]
    one.forget()
    fields = one.next_request().fields()
    assert (session(fields), asked(fields), forgotten(fields)) == ((0, 0), [("foo", 1, 0)], [])


@pytest.mark.parametrize("topic_id", [IDS["foo"], NO_TOPIC_ID])
def test_a_session_of_which_everything_is_forgotten_goes_on_as_it_began(
    topic_id: uuid.UUID,
) -> None:
    """By ids or by names: nothing is left in it that could tell."""
    one = FetchSession()
    foo = partition("foo", 0)
    one.want(wanted(foo, topic_id=topic_id))
    assert one.goes_by_ids == (topic_id != NO_TOPIC_ID)
    one.next_request()
    one.note_response(123)
    one.drop(foo.key)
    assert one.goes_by_ids == (topic_id != NO_TOPIC_ID)
    assert one.next_request().fields()["forgotten_topics_data"] == [
        {"topic": "foo", "topic_id": topic_id, "partitions": [0]}
    ]


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0)])
def test_a_session_whose_ids_come_or_go_goes_by_names_first(before: int, after: int) -> None:
    """One request forgets a topic and adds it again; it is understood either way."""
    one = FetchSession()
    foo = partition("foo", 0)
    one.want(wanted(foo, topic_id=uuid.UUID(int=before)))
    one.next_request()
    one.note_response(123)
    one.want(wanted(foo, topic_id=uuid.UUID(int=after)))
    assert not one.goes_by_ids
    fields = one.next_request().fields()
    assert forgotten(fields) == [("foo", [0])]
    assert asked(fields) == [("foo", 0, 0)]
    assert one.goes_by_ids == bool(after)


def test_a_topic_that_was_removed_may_return_with_another_id() -> None:
    """In a later request of the same session."""
    one = FetchSession()
    foo, bar = partition("foo", 0), partition("bar", 0)
    one.want(wanted(foo))
    one.want(wanted(bar))
    one.next_request()
    one.note_response(123)
    one.drop(foo.key)
    assert forgotten(one.next_request().fields()) == [("foo", [0])]
    one.note_response(123)
    one.want(wanted(foo, topic_id=uuid.UUID(int=9)))
    fields = one.next_request().fields()
    assert (session(fields), asked(fields), forgotten(fields)) == ((123, 2), [("foo", 0, 0)], [])


def test_names_of_forgotten_topics_are_forgotten() -> None:
    """With the last partition of a topic, and when a topic has another id."""
    one = FetchSession()
    foo, bars = partition("foo", 0), [partition("bar", number) for number in range(2)]
    for it in (foo, *bars):
        one.want(wanted(it))
    one.next_request()
    one.note_response(7)
    one.drop(bars[0].key)
    one.next_request()
    assert one.names_by_id == {1: "foo", 2: "bar"}
    one.note_response(7)
    one.drop(bars[1].key)
    one.want(wanted(foo, topic_id=uuid.UUID(int=3)))
    one.next_request()
    assert one.names_by_id == {3: "foo"}
    one.note_response(7)
    one.want(wanted(bars[1]))
    one.next_request()
    assert one.names_by_id == {3: "foo", 2: "bar"}
