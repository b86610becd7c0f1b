"""kprod's producer against the embedded broker and against Apache Kafka: the same outcomes.

Each test runs against both, one after the other.
"""

from collections.abc import Sequence

import pytest

from kprod import Producer
from kprod.clock import SystemClock
from kprod.errors import BrokerError, Persistence, UnknownPartition, UnknownTopic
from kprod.protocol.error_table import ErrorCode
from kprod.record.blocks import ConsumerRecord
from tests.conformance.batches import HOUR_MS
from tests.conformance.sides import Side
from tests.consumer.reading import read_topic
from tests.oracle.record_v2 import decode_batches

LIMIT_S = 60.0
READS_MAX = 200


def produce(side: Side, **settings: object) -> Producer:
    """A producer that puts everything into one batch, unless it is full."""
    return Producer({"bootstrap.servers": side.address, "linger_ms": 1_000, **settings})


def read(side: Side, topic: str) -> list[ConsumerRecord]:
    """All records of a topic with one partition."""
    return read_topic(side.address, topic)


def code_of(error: BaseException | None) -> int | None:
    """The code of a broker's error."""
    assert error is None or isinstance(error, BrokerError)
    return None if error is None else error.code


def test_unknown_topic(side: Side) -> None:
    """With auto-creation off `send` raises, names the topic, and continues with others."""
    known = side.create("known").topic
    with produce(side, max_block_ms=300) as producer:
        kept = producer.send(known, b"before")
        with pytest.raises(UnknownTopic, match="no-such-topic"):
            producer.send("no-such-topic", b"value")
        assert producer.flush(LIMIT_S) == 0
        assert kept.result(0).offset == 0


def test_partitions_are_counted(side: Side) -> None:
    """The last one takes records; the one behind it is an error, with the number there are."""
    topic = side.create("counted", partitions=3).topic
    with produce(side, max_block_ms=2_000) as producer:
        last = producer.send(topic, b"value", partition=2)
        with pytest.raises(UnknownPartition, match="its last is 2"):
            producer.send(topic, b"value", partition=3)
        assert producer.flush(LIMIT_S) == 0
        assert last.result(0).partition == 2


def test_the_broker_stamps_where_the_topic_says_so(side: Side) -> None:
    """The metadata has the log's time, not the record's."""
    topic = side.create("stamping", message_timestamp_type="LogAppendTime").topic
    before_ms = SystemClock().timestamp_ms()
    with produce(side) as producer:
        futures = [producer.send(topic, b"value", timestamp_ms=1_000) for _ in range(3)]
        assert producer.flush(LIMIT_S) == 0
        told = [future.result(0).timestamp_ms for future in futures]
    assert told == [record.timestamp_ms for record in read(side, topic)]
    assert all(before_ms <= it <= SystemClock().timestamp_ms() for it in told)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_that_is_too_large_is_split(side: Side, codec: str) -> None:
    """Until each piece fits; order and offsets are those of sending."""
    target = side.create("narrow", max_message_bytes="1000")
    values = [number.to_bytes(2) * 40 for number in range(300)]
    with produce(side, compression_type=codec) as producer:
        futures = [producer.send(target.topic, value) for value in values]
        assert producer.flush(LIMIT_S) == 0
        assert [future.result(0).offset for future in futures] == list(range(300))
    assert [record.value for record in read(side, target.topic)] == values
    batches = decode_batches(side.log(target))
    assert len(batches) > 1
    assert all(batch.batch_length + 12 <= 1_000 for batch in batches)


def test_a_record_that_is_too_large_fails_alone(side: Side) -> None:
    """With the broker's code and NOT_PERSISTED; its neighbours arrive."""
    topic = side.create("narrow", max_message_bytes="1000").topic
    with produce(side) as producer:
        futures = [producer.send(topic, value) for value in (b"a", b"x" * 2_000, b"b")]
        assert producer.flush(LIMIT_S) == 1
        errors = [future.exception(0) for future in futures]
    assert [code_of(error) for error in errors] == [None, ErrorCode.MESSAGE_TOO_LARGE, None]
    assert getattr(errors[1], "persistence", None) is Persistence.NOT_PERSISTED
    assert [record.value for record in read(side, topic)] == [b"a", b"b"]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(side: Side, acks: object) -> None:
    """Everything is in the log, whatever acks; without a response there are no offsets."""
    topic = side.create("acks").topic
    values = [b"%d" % number for number in range(20)]
    with produce(side, acks=acks, enable_idempotence=acks == "all", linger_ms=0) as producer:
        futures = [producer.send(topic, value) for value in values]
        assert producer.flush(LIMIT_S) == 0
        offsets = [future.result(0).offset for future in futures]
    assert offsets == ([-1] * 20 if acks == 0 else list(range(20)))
    assert await_values(side, topic, 20) == values


def await_values(side: Side, topic: str, count: int) -> Sequence[bytes | None]:
    """Read until there are this many: unanswered requests may still arrive."""
    for _ in range(READS_MAX):
        records = read(side, topic)
        if len(records) >= count:
            break
    return [record.value for record in records]


def test_records_that_the_broker_rejects_by_name(side: Side) -> None:
    """One is stamped too far ahead: it has that error, its companions another; none is written."""
    topic = side.create("late").topic
    now_ms = SystemClock().timestamp_ms()
    with produce(side) as producer:
        futures = [
            producer.send(topic, b"value", timestamp_ms=now_ms + ahead_ms)
            for ahead_ms in (0, 2 * HOUR_MS, 0)
        ]
        assert producer.flush(LIMIT_S) == 3
        errors = [future.exception(0) for future in futures]
    invalid = ErrorCode.INVALID_RECORD
    assert [code_of(error) for error in errors] == [invalid, ErrorCode.INVALID_TIMESTAMP, invalid]
    assert all(getattr(it, "persistence", None) is Persistence.NOT_PERSISTED for it in errors)
    assert read(side, topic) == []
