"""Fetch sessions: the changes alone are asked for, and told."""

from typing import Any

import pytest

from kprod.broker.fetch_sessions import EVICTION_MS, FetchSessions, next_epoch
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch

TOPIC = "orders"


class Reader:
    """A client that fetches in sessions."""

    def __init__(self, world: World, version: int = 12) -> None:
        """Start without a session."""
        self._client = world.client()
        self._version = version
        self.session_id = 0
        self.epoch = 0

    def fetch(
        self,
        entries: dict[int, int] | None = None,
        *,
        forget: list[int] | None = None,
        topic: str = TOPIC,
        **fields: Any,
    ) -> dict[int, dict[str, Any]]:
        """Fetch partitions from given offsets; return the response's partitions."""
        asked = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for partition, offset in (entries or {}).items()
        ]
        body = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [{"topic": topic, "partitions": asked}] if asked else [],
            "forgotten_topics_data": [{"topic": topic, "partitions": forget}] if forget else [],
            **fields,
        }
        self.answer = self._client.ask(ApiKey.FETCH, self._version, body)
        if not self.answer["error_code"]:
            self.session_id = self.answer["session_id"]
            self.epoch = next_epoch(self.epoch)
        return {
            it["partition_index"]: it
            for topic_told in self.answer["responses"]
            for it in topic_told["partitions"]
        }


@pytest.fixture
def world() -> World:
    """A cluster with a topic of three partitions."""
    return World(brokers=1, topics={TOPIC: 3})


def sessions_of(world: World) -> FetchSessions:
    """Those of the only broker."""
    return world.cluster._kprod.engine.state.fetch_sessions[0]


def produce(world: World, partition: int) -> None:
    """Append one batch."""
    world.client().produced(batch(), partition=partition)


def test_only_changes_are_told(world: World) -> None:
    """Unchanged partitions cost nothing."""
    reader = Reader(world)
    assert reader.fetch({0: 0, 1: 0, 2: 0}).keys() == {0, 1, 2}
    assert reader.session_id > 0
    assert reader.fetch() == {}
    produce(world, 1)
    told = reader.fetch()
    assert told.keys() == {1}
    assert told[1]["records"]
    assert reader.fetch().keys() == {1}  # it has records still: the offset is the same
    assert reader.fetch({1: 1}) == {}
    assert reader.answer["session_id"] == reader.session_id


def test_partitions_are_added_and_forgotten(world: World) -> None:
    """One request may do both."""
    produce(world, 2)
    reader = Reader(world)
    reader.fetch({0: 0, 1: 0})
    assert reader.fetch({2: 0}, forget=[0]).keys() == {2}
    produce(world, 0)
    produce(world, 1)
    assert reader.fetch({2: 1}).keys() == {1}


def test_what_gave_records_comes_last(world: World) -> None:
    """A limit on the bytes starves none."""
    for partition in range(3):
        produce(world, partition)
    reader = Reader(world)
    reader.fetch({0: 0, 1: 0, 2: 0}, max_bytes=1)
    found = [next(iter(told)) for told in (reader.fetch(max_bytes=1) for _ in range(4))]
    assert found == [0, 1, 2, 0]


def test_errors_are_told_every_time_and_their_end_once(world: World) -> None:
    """An offset that is out of range, until another is asked for."""
    reader = Reader(world)
    assert reader.fetch({0: 5})[0]["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert reader.fetch()[0]["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert reader.fetch({0: 0})[0]["error_code"] == ErrorCode.NONE
    assert reader.fetch() == {}


def test_wrong_epochs_and_ids(world: World) -> None:
    """Rejected with id 0; the session itself is as it was."""
    reader = Reader(world)
    reader.fetch({0: 0})
    right_id, right_epoch = reader.session_id, reader.epoch
    for epoch in (right_epoch + 1, 5):
        reader.epoch = epoch
        assert reader.fetch() == {}
        told = (reader.answer["error_code"], reader.answer["session_id"])
        assert told == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    reader.session_id, reader.epoch = right_id + 1, right_epoch
    assert reader.fetch() == {}
    assert reader.answer["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    reader.session_id = right_id
    assert reader.fetch() == {}
    assert reader.answer["error_code"] == ErrorCode.NONE


def test_names_and_ids_do_not_mix(world: World) -> None:
    """A session that began with names cannot continue with ids."""
    reader = Reader(world, version=12)
    reader.fetch({0: 0})
    other = Reader(world, version=13)
    other.session_id, other.epoch = reader.session_id, reader.epoch
    other.fetch()
    assert other.answer["error_code"] == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_ends(world: World) -> None:
    """By epoch −1, by a new one in its place, or when its last partition is forgotten."""
    reader = Reader(world)
    reader.fetch({0: 0})
    first = reader.session_id
    reader.epoch = 0
    reader.fetch({0: 0})
    assert reader.session_id != first
    assert len(sessions_of(world)) == 1
    reader.fetch(forget=[0])
    assert reader.answer["session_id"] == 0
    assert len(sessions_of(world)) == 0
    reader.epoch = reader.session_id = 0
    reader.fetch({0: 0})
    reader.epoch = -1
    assert reader.fetch({0: 0}).keys() == {0}
    assert reader.answer["session_id"] == 0
    assert len(sessions_of(world)) == 0


def test_epochs_wrap() -> None:
    """0 is for the beginning alone."""
    assert next_epoch(0) == 1
    assert next_epoch(2**31 - 1) == 1


def topics(size: int) -> list[dict[str, Any]]:
    """A request's topics with that number of partitions."""
    entries = [{"partition": index} for index in range(size)]
    return [{"topic": TOPIC, "topic_id": None, "partitions": entries}]


def test_slots() -> None:
    """A new session takes the place of a stale one, or of a small one that is old enough."""
    sessions = FetchSessions(slots=2)
    large = sessions.begin(topics(5), api_version=12, now_ms=0)
    small = sessions.begin(topics(2), api_version=12, now_ms=0)
    assert large is not None
    assert small is not None
    assert sessions.begin(topics(9), api_version=12, now_ms=EVICTION_MS) is None
    body: dict[str, Any] = {"topics": [], "forgotten_topics_data": []}
    for session in (large, small):
        body |= {"session_id": session.session_id, "session_epoch": session.epoch}
        assert sessions.go_on(body, api_version=12, now_ms=EVICTION_MS) is session
    later_ms = EVICTION_MS + 1
    assert sessions.begin(topics(1), api_version=12, now_ms=later_ms) is None  # smaller than both
    third = sessions.begin(topics(2), api_version=12, now_ms=later_ms)
    assert third is not None  # in the place of `small`
    body |= {"session_id": small.session_id, "session_epoch": small.epoch}
    gone = sessions.go_on(body, api_version=12, now_ms=later_ms)
    assert gone == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    stale_ms = 2 * EVICTION_MS + 2
    assert sessions.begin(topics(1), api_version=12, now_ms=stale_ms) is not None
    assert len(sessions) == 2
