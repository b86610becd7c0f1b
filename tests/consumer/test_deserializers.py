"""Deserializers and interceptors: the application's code while records are handed out."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer import Consumer
from kprod.errors import DeserializationFailed
from kprod.model import TopicPartition
from kprod.record.blocks import ConsumerRecord
from tests.consumer.reading import LIMIT_S, consumer_of, fill, poll_count

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with a topic."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as made:
        yield made


def test_deserializers(cluster: EmbeddedCluster) -> None:
    """They get keys and values that are not null; one that wants a context is given one."""

    def read_key(key: bytes, ctx: Any) -> str:
        return f"{ctx.topic} {ctx.field} {key.decode()}"

    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("t", b"1", key=b"k", partition=0)
        producer.send("t", None, key=None, partition=0)
    with consumer_of(cluster, "t", value_deserializer=int, key_deserializer=read_key) as consumer:
        records = poll_count(consumer, 2)
    assert [(record.key, record.value) for record in records] == [("t key k", 1), (None, None)]


@pytest.mark.parametrize("iterates", [False, True])
def test_a_deserializer_that_fails_loses_no_record(
    cluster: EmbeddedCluster, *, iterates: bool
) -> None:
    """Records before it are handed out, it is raised until it is skipped, the rest follows."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in (b"0", b"1", b"x", b"3", b"y"):
            producer.send("t", value, partition=0)
    seen: list[int] = []

    def read() -> None:
        records = consumer if iterates else poll_count(consumer, 1)
        seen.extend(record.value for record in records)

    def read_up_to(offset: int, value: bytes) -> None:
        """Read until a record fails, which it does again, and skip it."""
        error = None
        while error is None:
            try:
                read()
            except DeserializationFailed as raised:
                error = raised
        with pytest.raises(DeserializationFailed, match=f"offset {offset}.*skip") as raised_again:
            read()
        assert (error.field, raised_again.value.field) == ("value", "value")
        assert isinstance(error.record, ConsumerRecord)
        assert (error.record.offset, error.record.value) == (offset, value)
        assert consumer.position(T0) == offset
        consumer.skip(error.record)

    with consumer_of(cluster, value_deserializer=int, consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        read_up_to(2, b"x")
        read_up_to(4, b"y")
        assert consumer.position(T0) == 5
    assert seen == [0, 1, 3]


def test_a_deserializer_s_error_without_a_text_can_be_skipped(cluster: EmbeddedCluster) -> None:
    """Its class may raise when it is asked for one."""

    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError

        __repr__ = __str__

    def deserializer(value: bytes) -> bytes:
        if value == b"1":
            raise Wordless
        return value

    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in (b"0", b"1", b"2"):
            producer.send("t", value, partition=0)
    with consumer_of(cluster, value_deserializer=deserializer) as consumer:
        consumer.assign([T0])
        assert [record.offset for record in consumer.poll(LIMIT_S)] == [0]
        with pytest.raises(
            DeserializationFailed, match="Wordless: its text raised Runtime"
        ) as told:
            consumer.poll(LIMIT_S)
        consumer.skip(told.value.record)
        assert [record.offset for record in consumer.poll(LIMIT_S)] == [2]


def test_interceptors_see_what_is_handed_out(cluster: EmbeddedCluster) -> None:
    """They may leave records out; one that fails costs a line in the log."""

    class Even:
        closed = 0

        def on_consume(self, records: list[Any]) -> list[Any]:
            return [record for record in records if record.offset % 2 == 0]

        def close(self) -> None:
            self.closed += 1

    class Broken(Even):
        def on_consume(self, records: list[Any]) -> list[Any]:
            raise ZeroDivisionError(len(records))

    even, broken = Even(), Broken()
    fill(cluster, "t", 10)
    with consumer_of(cluster, interceptors=[broken, even], consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        assert [record.offset for record in consumer] == [0, 2, 4, 6, 8]
        consumer.seek(T0, 0)
        assert [record.offset for record in poll_count(consumer, 5)] == [0, 2, 4, 6, 8]
    assert (even.closed, broken.closed) == (1, 1)


class Marked:
    """A record of an interceptor's own class, which knows how often it was made."""

    def __init__(self, record: Any) -> None:
        self.offset: int = record.offset
        self.depth: int = getattr(record, "depth", 0) + 1


class Making:
    """An interceptor that makes records by a function."""

    def __init__(self, make: Callable[[list[Any]], list[Any]]) -> None:
        self.on_consume = make

    def close(self) -> None:
        """Nothing to release."""


def left_again_and_again(consumer: Consumer) -> Iterator[Any]:
    """Yield records of a loop that is left after every seventh."""
    found: list[Any] = [None]
    while found:
        found = list(itertools.islice(consumer, 7))
        yield from found


def test_interceptors_see_records_as_they_were_read_after_a_loop_was_left(
    cluster: EmbeddedCluster,
) -> None:
    """The rest of a list goes back without what interceptors made of it."""
    fill(cluster, "t", 60)
    marking = Making(lambda records: [Marked(record) for record in records])
    with consumer_of(cluster, interceptors=[marking], consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        found = list(left_again_and_again(consumer))
        assert consumer.position(T0) == 60
    assert [record.offset for record in found] == list(range(60))
    assert {record.depth for record in found} == {1}


def test_a_filter_meets_no_record_twice_after_a_loop_was_left(cluster: EmbeddedCluster) -> None:
    """One that keeps a part of each list must not be asked about the part that it kept."""
    fill(cluster, "t", 60)
    seen: list[int] = []

    def every_other_one(records: list[Any]) -> list[Any]:
        seen.append(len(records))
        return [record for number, record in enumerate(records) if number % 2 == 0]

    with consumer_of(
        cluster, interceptors=[Making(every_other_one)], consumer_timeout_ms=1_000
    ) as consumer:
        consumer.assign([T0])
        offsets = [record.offset for record in left_again_and_again(consumer)]
        assert consumer.position(T0) == 60
    # Each list begins behind the record that was in hand, so it is the seventh of every other one.
    assert offsets == [
        offset for begin in range(0, 60, 13) for offset in range(begin, min(begin + 13, 60), 2)
    ]
    assert seen == [60 - begin for begin in range(0, 60, 13)]


def test_what_is_no_record_is_an_interceptor_s_failure(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The records continue as they were, also through a loop that is left."""
    fill(cluster, "t", 10)
    values = Making(lambda records: [record.value for record in records])
    with consumer_of(cluster, interceptors=[values], consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        assert [record.offset for record, _ in zip(consumer, range(3), strict=False)] == [0, 1, 2]
        consumer.seek(T0, 0)
        assert [record.offset for record in consumer] == list(range(10))
    assert "failed in on_consume" in caplog.text


@pytest.mark.parametrize(
    "make",
    [
        lambda records: list(reversed(records)),
        lambda records: [record for record in records for _ in range(2)],
        lambda records: [ConsumerRecord("t", 0, record.offset + 1) for record in records],
        lambda records: [Marked(record) for record in (*records[1:], records[0])],
    ],
    ids=["reversed", "doubled", "other offsets", "first one last"],
)
def test_an_interceptor_that_changes_the_order(
    cluster: EmbeddedCluster,
    make: Callable[[list[Any]], list[Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would lose records when a loop is left, so it counts as a failure."""
    fill(cluster, "t", 20)
    with consumer_of(cluster, interceptors=[Making(make)], consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        assert [record.offset for record in left_again_and_again(consumer)] == list(range(20))
        consumer.seek(T0, 0)
        assert [record.offset for record in poll_count(consumer, 20)] == list(range(20))
    assert "not in their order" in caplog.text


def test_an_interceptor_s_close_may_do_anything(cluster: EmbeddedCluster) -> None:
    """It runs on the consumer's thread: one that blocks costs the timeout, no more."""
    released = threading.Event()

    class Closing:
        def __init__(self, close: Callable[[], object]) -> None:
            self.close = close

        def on_consume(self, records: list[Any]) -> list[Any]:
            return records

    def leave() -> None:
        raise SystemExit

    def close_again() -> None:
        consumer.close()
        again.append(consumer.client_id)

    again: list[str] = []
    for close in (leave, close_again):
        consumer = consumer_of(cluster, "t", interceptors=[Closing(close)])
        consumer.close(LIMIT_S)
        assert "closed" in repr(consumer)
    assert len(again) == 1
    consumer = consumer_of(cluster, "t", interceptors=[Closing(released.wait)])
    consumer.close(0)
    assert "closing" in repr(consumer)
    released.set()
    consumer.close(LIMIT_S)
    assert "closed" in repr(consumer)
