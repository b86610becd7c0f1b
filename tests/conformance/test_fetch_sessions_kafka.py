"""Fetch sessions, request by request: the embedded broker continues and ends them as Kafka does."""

from typing import Any, TypeAlias

import pytest

from kprod.broker.fetch_sessions import next_epoch
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.batches import GOOD
from tests.conformance.sides import Side, Sides
from tests.conformance.wire import Target

Told: TypeAlias = tuple[int, str, list[tuple[int, int, bool]]]
VERSIONS = [7, 12, 13, 17]


class Reader:
    """Fetches in sessions, and says what it was told in words that both brokers share."""

    def __init__(self, side: Side, target: Target, version: int) -> None:
        """Start without a session."""
        self._side = side
        self._target = target
        self._version = version
        self.session_id = 0
        self.epoch = 0

    def fetch(
        self,
        entries: dict[int, int] | None = None,
        *,
        forget: list[int] | None = None,
        version: int | None = None,
        max_bytes: int = 1 << 20,
    ) -> Told:
        """Fetch, and continue with the session of the response."""
        name = {"topic": self._target.topic, "topic_id": self._target.topic_id}
        asked = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for index, offset in (entries or {}).items()
        ]
        body: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": max_bytes,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [{**name, "partitions": asked}] if asked else [],
            "forgotten_topics_data": [{**name, "partitions": forget}] if forget else [],
        }
        answer = self._side.ask(ApiKey.FETCH, version or self._version, body)
        given = answer["session_id"]
        kind = "none" if not given else "same" if given == self.session_id else "new"
        if not answer["error_code"]:
            self.session_id, self.epoch = given, next_epoch(self.epoch)
        told = [
            (it["partition_index"], int(it["error_code"]), bool(it["records"]))
            for topic in answer["responses"]
            for it in topic["partitions"]
        ]
        return int(answer["error_code"]), kind, told


def told_by(sides: Sides, version: int, script: Any) -> list[Told]:
    """Run a script on a fresh topic of three partitions, on both sides."""

    def case(side: Side) -> list[Told]:
        target = side.create("sessions", partitions=3)
        return list(script(side, target, Reader(side, target, version)))

    told: list[Told] = sides.agreed(case)
    return told


@pytest.mark.parametrize("version", VERSIONS)
def test_only_changes_are_told(sides: Sides, version: int) -> None:
    """Nothing while nothing happens; records until they were read; forgotten partitions never."""

    def script(side: Side, target: Target, reader: Reader) -> Any:
        yield reader.fetch({0: 0, 1: 0, 2: 0})
        yield reader.fetch()
        side.produce(Target(target.topic, target.topic_id, 1), GOOD)
        yield reader.fetch()
        yield reader.fetch()
        yield reader.fetch({1: 3})
        yield reader.fetch(forget=[0])
        side.produce(target, GOOD)
        yield reader.fetch()
        yield reader.fetch({0: 0})

    told = told_by(sides, version, script)
    assert told[0][1:] == ("new", [(0, 0, False), (1, 0, False), (2, 0, False)])
    assert [len(it[2]) for it in told[1:]] == [0, 1, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_are_told_every_time(sides: Sides, version: int) -> None:
    """And their end once."""

    def script(_side: Side, _target: Target, reader: Reader) -> Any:
        yield reader.fetch({0: 9})
        yield reader.fetch()
        yield reader.fetch({0: 0})
        yield reader.fetch()
        yield reader.fetch({7: 0})
        yield reader.fetch()

    told = told_by(sides, version, script)
    assert [[code for _, code, _ in it[2]] for it in told] == [
        [ErrorCode.OFFSET_OUT_OF_RANGE],
        [ErrorCode.OFFSET_OUT_OF_RANGE],
        [ErrorCode.NONE],
        [],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_wrong_epochs_ids_and_versions(sides: Sides, version: int) -> None:
    """All are rejected with id 0, and the session is as it was."""

    def script(_side: Side, _target: Target, reader: Reader) -> Any:
        yield reader.fetch({0: 0})
        right = reader.session_id, reader.epoch
        for session_id, epoch in ((right[0], 2), (right[0], 9), (right[0] ^ (1 << 30), 1), (0, 1)):
            reader.session_id, reader.epoch = session_id, epoch
            yield reader.fetch()
        reader.session_id, reader.epoch = right
        yield reader.fetch(version=13 if version < 13 else 12)
        yield reader.fetch()

    told = told_by(sides, version, script)
    assert [it[0] for it in told] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.NONE,
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_how_sessions_end(sides: Sides, version: int) -> None:
    """By epoch −1, by a new one, by forgetting the last partition; and an empty beginning."""

    def script(_side: Side, _target: Target, reader: Reader) -> Any:
        yield reader.fetch({0: 0})
        reader.epoch = 0
        yield reader.fetch({0: 0})
        yield reader.fetch(forget=[0])
        reader.session_id = reader.epoch = 0
        yield reader.fetch({0: 0, 1: 0})
        ended = reader.session_id
        reader.epoch = -1
        yield reader.fetch({0: 0})
        reader.session_id, reader.epoch = ended, 1
        yield reader.fetch()
        reader.session_id = reader.epoch = 0
        yield reader.fetch()

    told = told_by(sides, version, script)
    assert [kind for _, kind, _ in told] == ["new", "new", "none", "new", "none", "none", "new"]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_gave_records_comes_last(sides: Sides, version: int) -> None:
    """With room for one batch, each partition has its turn; the first fetch moves none."""

    def script(side: Side, target: Target, reader: Reader) -> Any:
        for index in range(3):
            side.produce(Target(target.topic, target.topic_id, index), GOOD)
        yield reader.fetch({0: 0, 1: 0, 2: 0}, max_bytes=1)
        for _ in range(4):
            yield reader.fetch(max_bytes=1)

    told = told_by(sides, version, script)
    turns = [[index for index, _, has_records in it[2] if has_records] for it in told]
    assert turns == [[0], [0], [1], [2], [0]]
