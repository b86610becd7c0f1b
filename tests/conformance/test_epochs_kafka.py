"""Leader epochs, frame by frame: the embedded broker answers as Apache Kafka does."""

import uuid
from typing import Any

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.batches import GOOD
from tests.conformance.sides import Side, Sides, plain
from tests.conformance.wire import Target


def ends(side: Side, target: Target, version: int, *entries: dict[str, int]) -> Any:
    """Ask where epochs end."""
    wanted = [{"partition": target.partition, **entry} for entry in entries]
    topics = [{"topic": target.topic, "partitions": wanted}]
    body = {"replica_id": -1, "topics": topics}
    (topic,) = side.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, body)["topics"]
    return plain(topic["partitions"])


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize("is_empty", [False, True])
def test_ends_of_epochs(sides: Sides, version: int, is_empty: bool) -> None:
    """The present one, one that never was, and none; of an empty log as well."""

    def case(side: Side) -> Any:
        target = side.create("epochs")
        if not is_empty:
            assert side.produce(target, GOOD)["error_code"] == ErrorCode.NONE
        epochs = [0, 1, -1]
        return [ends(side, target, version, {"leader_epoch": it}) for it in epochs]

    told = [(it["leader_epoch"], it["end_offset"]) for (it,) in sides.agreed(case)]
    assert told == [(0, 0 if is_empty else 3), (-1, -1), (-1, -1)]


def test_epochs_of_unknown_places_and_reigns(sides: Sides) -> None:
    """Topic, partition, and a leader epoch from the future."""

    def case(side: Side) -> Any:
        target = side.create("epochs")
        places = [Target("nowhere", uuid.UUID(int=7)), Target(target.topic, target.topic_id, 4)]
        answers = [ends(side, place, 4, {"leader_epoch": 0}) for place in places]
        return [*answers, ends(side, target, 4, {"leader_epoch": 0, "current_leader_epoch": 7})]

    assert [it["error_code"] for (it,) in sides.agreed(case)] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ]


@pytest.mark.parametrize("version", range(12, 18))
def test_a_fetch_that_says_what_it_read_last(sides: Sides, version: int) -> None:
    """The present epoch up to the end and beyond it, and an epoch of which nothing is known."""

    def case(side: Side) -> Any:
        target = side.create("epochs")
        assert side.produce(target, GOOD)["error_code"] == ErrorCode.NONE
        answers = [
            side.fetch(target, offset, version=version, last_fetched_epoch=epoch)["responses"]
            for offset, epoch in ((3, 0), (4, 0), (-1, 0), (3, 5), (0, -1))
        ]
        return [plain(topic["partitions"]) for (topic,) in answers]

    parts = [part for (part,) in sides.agreed(case)]
    assert [it["error_code"] for it in parts] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NONE,
    ]
    assert parts[1]["diverging_epoch"] == {"epoch": 0, "end_offset": 3}
