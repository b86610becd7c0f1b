"""The leader epoch of a position: of the last record before it, however that was read or skipped.

A wrong one is not seen until the position is validated. With too old an epoch, the leader's answer
ends before the position, and records are read again; after an election this would be a truncation
that never happened.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.errors import DeserializationFailed
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster

P0 = TopicPartition("orders", 0)


def elected_log() -> Log:
    """Offsets 0 to 9 in epochs 1, 1, 2, 2, 2, then 4; a marker of epoch 5 at offset 10."""
    log = Log()
    log.append(b"0", b"1", partition_leader_epoch=1)
    log.append(b"2", b"3", b"4", partition_leader_epoch=2)
    log.append(b"5", b"6", b"7", b"8", b"9", partition_leader_epoch=4)
    log.append(b"marker", partition_leader_epoch=5, is_control=True, is_transactional=True)
    return log


def place_of(consumer: Consumer) -> tuple[int, int]:
    """The next offset and the epoch before it."""
    parts = engine_of(consumer).parts
    place = parts.hand_over.place_of(parts.assignment.of(P0))
    assert place is not None
    return place.offset, place.epoch


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    """A consumer of that log."""
    with scripted_consumer(LogCluster(elected_log()), consumer_timeout_ms=100) as made:
        made.assign([P0])
        yield made


def rows(consumer: Consumer, count: int) -> int:
    """Read rows as columns; return their number."""
    read = 0
    while read < count:
        read += consumer.poll_arrow(0.1, count - read).num_rows
    return read


def test_after_records(consumer: Consumer) -> None:
    """A batch that was opened behind the last record counts: its leader has the record too."""
    for count, place in [(1, (1, 1)), (1, (2, 2)), (2, (4, 2)), (2, (6, 4)), (4, (11, 5))]:
        assert len(scripted_poll_exactly(consumer, count)) == count
        assert place_of(consumer) == place


def scripted_poll_exactly(consumer: Consumer, count: int) -> list[Any]:
    """Poll until there are `count` records and no more."""
    found: list[Any] = []
    while len(found) < count:
        found += consumer.poll(0.1, count - len(found))
    return found


def test_after_columns(consumer: Consumer) -> None:
    """As after records."""
    for count, place in [(1, (1, 1)), (3, (4, 2)), (2, (6, 4)), (4, (11, 5))]:
        assert rows(consumer, count) == count
        assert place_of(consumer) == place


def test_columns_after_records_do_not_keep_the_records_epoch(consumer: Consumer) -> None:
    """Both read the same block."""
    assert len(scripted_poll_exactly(consumer, 1)) == 1
    assert rows(consumer, 6) == 6
    assert place_of(consumer) == (7, 4)


def test_in_a_loop(consumer: Consumer) -> None:
    """That of the record in hand; before the first, that of the position."""
    seen = [(record.offset, place_of(consumer)) for record in consumer]
    epochs = [1, 1, 2, 2, 2, 4, 4, 4, 4, 4]
    assert seen == [(offset, (offset + 1, epochs[offset])) for offset in range(10)]


@pytest.mark.parametrize("is_intercepted", [False, True])
def test_after_a_loop_was_left(is_intercepted: bool) -> None:
    """The records that go back do not leave their epoch behind."""
    settings: dict[str, Any] = {"interceptors": [Copies()]} if is_intercepted else {}
    with scripted_consumer(LogCluster(elected_log()), **settings) as consumer:
        consumer.assign([P0])
        assert [record.offset for record in islice(consumer, 4)] == [0, 1, 2, 3]
        engine_of(consumer).parts.hand_over.settle()
        assert place_of(consumer) == (4, 2)


def test_after_a_skipped_record() -> None:
    """It counts as read."""

    def value_of(data: bytes) -> bytes:
        if data == b"2":
            raise ValueError
        return data

    with scripted_consumer(LogCluster(elected_log()), value_deserializer=value_of) as consumer:
        consumer.assign([P0])
        assert len(scripted_poll_exactly(consumer, 2)) == 2
        with pytest.raises(DeserializationFailed) as raised:
            scripted_poll(consumer, 1)
        consumer.skip(raised.value.record)
        assert place_of(consumer) == (3, 2)


class Copies:
    """An interceptor that makes another list of the same records."""

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Return a copy."""
        return list(records)

    def close(self) -> None:
        """Nothing to release."""


def test_after_a_hand_out_that_was_interrupted(consumer: Consumer) -> None:
    """The position goes back with its epoch."""
    assert len(scripted_poll_exactly(consumer, 3)) == 3
    hand_over = engine_of(consumer).parts.hand_over
    assert len(hand_over.take(5)) == 5
    hand_over.settle()  # as the next call does when the last one was not completed
    assert place_of(consumer) == (3, 2)
    assert [record.offset for record in scripted_poll(consumer, 1)][:1] == [3]


ENDS = {1: 2, 2: 5, 4: 10, 5: 11}
"""The end of each epoch of the log."""


def answer(_cluster: LogCluster, _node_id: int, request: PeerRequest) -> dict[str, Any] | None:
    """Answer with the end of the epoch that is asked for."""
    if request.api_key != ApiKey.OFFSET_FOR_LEADER_EPOCH:
        return None
    epoch = request.body["topics"][0]["partitions"][0]["leader_epoch"]
    found = {"partition": 0, "leader_epoch": epoch, "end_offset": ENDS[epoch]}
    return {"topics": [{"topic": "orders", "partitions": [found]}]}


@pytest.mark.parametrize("is_arrow", [False, True])
def test_a_seek_to_such_a_position_finds_no_truncation(
    is_arrow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader has the epoch up to the position or beyond."""
    cluster = LogCluster(elected_log())
    cluster.rules.append(answer)
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        assert len(scripted_poll_exactly(consumer, 1)) == 1
        if is_arrow:
            assert rows(consumer, 5) == 5
        else:
            assert len(scripted_poll_exactly(consumer, 5)) == 5
        consumer.seek(P0, *place_of(consumer))
        assert [record.offset for record in scripted_poll(consumer, 4)] == [6, 7, 8, 9]
    assert cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) == 1
    assert not [it for it in caplog.records if "was cut" in it.getMessage()]
