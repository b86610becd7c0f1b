"""A signal handler's exception at every place of a consumer's calls: nothing is lost or stuck."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

import pytest

from kprod import Producer, TopicPartition
from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.fetch_buffer import AHEAD_MAX
from kprod.consumer.mailbox import Mailbox
from tests.consumer.reading import LIMIT_S, consumer_of, fill, wait_until
from tests.consumer.signalled_reading import SignalledReading
from tests.interruptions import Interrupted, interrupted_everywhere

RECORDS = 6_000
T0 = TopicPartition("t", 0)
AT_LEAST = 3  # places: fewer would mean that nothing was followed; most of a poll is compiled


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with records."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as made:
        fill(made, "t", RECORDS)
        yield made


class Value:
    """A deserialized object."""


def assert_nothing_held(consumer: Consumer) -> None:
    """No memory is counted, and each partition is fetched."""
    parts = engine_of(consumer).parts

    def is_free() -> bool:
        parts.client.wakeup()
        partitions = parts.assignment.partitions.values()
        return not parts.buffer.held_bytes and not any(each.ahead_count for each in partitions)

    wait_until(is_free, "all memory is free")


def poll(consumer: Consumer, seen: list[int]) -> None:
    """Read three records."""
    seen += [record.offset for record in consumer.poll(10, 3)]


def poll_arrow(consumer: Consumer, seen: list[int]) -> None:
    """Read three rows."""
    seen += consumer.poll_arrow(10, 3).column("offset").to_pylist()


def iterate(consumer: Consumer, seen: list[int]) -> None:
    """Leave a loop after three records."""
    with closing(iter(consumer)) as records:  # Python swallows what a generator's end raises
        seen.extend(record.offset for record in islice(records, 3))


@pytest.mark.parametrize("read", [poll, poll_arrow, iterate])
def test_reading(cluster: EmbeddedCluster, read: Callable[[Consumer, list[int]], None]) -> None:
    """Every record comes once, in order, whatever call was interrupted where."""
    seen: list[int] = []
    with consumer_of(cluster, "t", max_poll_records=5) as consumer:
        poll(consumer, seen)
        places = 0
        for where in interrupted_everywhere(partial(read, consumer, seen), times=2):
            read(consumer, seen)
            assert seen == list(range(len(seen))), where
            places += 1
    assert places > AT_LEAST


@pytest.mark.parametrize("read", [poll, poll_arrow, iterate])
def test_reading_after_nothing(
    cluster: EmbeddedCluster, read: Callable[[Consumer, list[int]], None]
) -> None:
    """The same where a poll returned nothing before, and where a block ends with its records."""
    seen: list[int] = []
    topic = f"few-{read.__name__}"
    places, sent = 0, 3
    settings = {"fetch_max_wait_ms": 10, "consumer_timeout_ms": 200}
    with consumer_of(cluster, topic, **settings) as consumer:
        fill(cluster, topic, sent)
        for where in interrupted_everywhere(partial(read, consumer, seen)):
            fill(cluster, topic, 3)
            sent += 3
            while len(seen) < sent:
                read(consumer, seen)
            assert seen == list(range(sent)), where
            assert consumer.poll(0) == []
            assert_nothing_held(consumer)
            fill(cluster, topic, 3)
            sent += 3
            places += 1
    assert places > AT_LEAST


@pytest.mark.parametrize("read", [poll, poll_arrow])
@pytest.mark.parametrize(
    "act",
    [
        lambda _consumer: None,
        lambda consumer: consumer.poll(0, 3),
        lambda consumer: next(iter(consumer)),
        lambda consumer: consumer.seek(T0, consumer.position(T0)),
    ],
    ids=["nothing", "poll", "iterate", "seek"],
)
def test_records_of_a_call_that_ended_with_an_exception_come_again(
    cluster: EmbeddedCluster,
    act: Callable[[Consumer], object],
    read: Callable[[Consumer, list[int]], None],
) -> None:
    """A signal handler may run when the compiled code has returned, and use the consumer."""
    seen: list[int] = []
    with consumer_of(cluster, "t") as consumer:
        read(consumer, seen)
        engine = engine_of(consumer)
        reading = engine.reading
        engine.reading = SignalledReading(reading, partial(act, consumer))  # type: ignore[assignment]
        with pytest.raises(Interrupted):
            read(consumer, seen)
        engine.reading = reading
        assert consumer.position(T0) == 3
        read(consumer, seen)
        assert seen == [0, 1, 2, 3, 4, 5]


def seek(consumer: Consumer) -> None:
    """To an offset."""
    consumer.seek(T0, 100)


def assign(consumer: Consumer) -> None:
    """The same partition, with the position of its own."""
    consumer.assign([T0])
    consumer.seek(T0, 100)


def subscribe(consumer: Consumer) -> None:
    """By topic instead."""
    consumer.unsubscribe()
    consumer.subscribe("t")
    consumer.poll(10, 1)
    consumer.seek(T0, 100)


def pause(consumer: Consumer) -> None:
    """For a moment."""
    consumer.seek(T0, 100)
    consumer.pause(T0)
    consumer.resume(T0)


def beyond(consumer: Consumer) -> None:
    """To an offset beyond the log, so that a step of the polling thread resets the position."""
    consumer.seek(T0, RECORDS + 1)
    consumer.poll(10, 100)


@pytest.mark.parametrize("change", [seek, assign, subscribe, pause])
def test_changes(cluster: EmbeddedCluster, change: Callable[[Consumer], None]) -> None:
    """An interrupted change can be made again, and the next records are the right ones."""
    places = 0
    with consumer_of(cluster, fetch_max_wait_ms=10) as consumer:
        consumer.assign([T0])
        for where in interrupted_everywhere(partial(change, consumer)):
            change(consumer)
            found = [record.offset for record in consumer.poll(10, 3)]
            assert found == [100, 101, 102], where
            places += 1
    assert places > AT_LEAST


def test_a_change_that_is_not_repeated(cluster: EmbeddedCluster) -> None:
    """An interrupted seek has happened or not; reading continues either way."""
    places = 0
    with consumer_of(cluster, "t", fetch_max_wait_ms=10) as consumer:
        consumer.poll(10, 3)
        for where in interrupted_everywhere(partial(seek, consumer)):
            found = [record.offset for record in consumer.poll(10, 3)]
            first = found[0] if found else -1
            assert found == list(range(first, first + 3)), where
            places += 1
    assert places


def test_a_resume_that_is_not_repeated(cluster: EmbeddedCluster) -> None:
    """After an interrupted resume the partition is still paused, or it is read."""
    fill(cluster, "resumed", 3)
    place, sent, places = TopicPartition("resumed", 0), 3, 0
    with consumer_of(cluster, fetch_max_wait_ms=10) as consumer:
        consumer.assign([place])
        seen = [record.offset for record in consumer.poll(10)]
        consumer.pause(place)
        for where in interrupted_everywhere(lambda: consumer.resume(place)):
            if consumer.paused():
                consumer.resume(place)
            fill(cluster, "resumed", 3)
            sent += 3
            while len(seen) < sent:
                found = [record.offset for record in consumer.poll(10)]
                assert found, where
                seen += found
            assert seen == list(range(sent)), where
            consumer.pause(place)
            places += 1
    assert places


def test_blocks_stay_in_order_where_a_pause_comes_between(cluster: EmbeddedCluster) -> None:
    """A hand-out that is rewound is not behind a later block that was parked meanwhile."""
    place = TopicPartition("ordered", 0)
    steps: list[str] = []

    class Interrupting(Marks):
        def on_consume(self, records: list[Any]) -> list[Any]:
            if steps == ["paused"]:
                steps.append("interrupted")
                raise KeyboardInterrupt
            return records

    def deserialize(value: bytes) -> bytes:
        if value == b"2" and not steps:
            steps.append("paused")
            consumer.pause(place)
        return value

    fill(cluster, "ordered", 3)
    with consumer_of(
        cluster, value_deserializer=deserialize, interceptors=[Interrupting()]
    ) as consumer:
        consumer.assign([place])
        partition = engine_of(consumer).parts.assignment.partitions[place]
        wait_until(lambda: partition.fetch_offset == 3, "the first block")
        fill(cluster, "ordered", 3)
        wait_until(lambda: partition.fetch_offset == 6, "the second block")
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(10)
        assert consumer.poll(0) == []
        consumer.resume(place)
        assert [record.offset for record in consumer.poll(10)] == [0, 1, 2, 3, 4, 5]


def test_a_reset(cluster: EmbeddedCluster) -> None:
    """An interrupted reset happens once, with the next poll."""
    places = 0
    with consumer_of(cluster, "t", fetch_max_wait_ms=10) as consumer:
        consumer.poll(10, 1)
        for where in interrupted_everywhere(partial(beyond, consumer)):
            found = [record.offset for record in consumer.poll(10, 3)]
            assert found == list(range(found[0], found[0] + 3)), where
            places += 1
    assert places > AT_LEAST


def test_relief(cluster: EmbeddedCluster) -> None:
    """Records of a paused partition that memory has no room for are fetched again."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(16):
            producer.send("large", bytes(100_000), partition=0)
        assert producer.flush(LIMIT_S) == 0
    place = TopicPartition("large", 0)
    places = 0
    with consumer_of(cluster, fetch_max_wait_ms=10, fetch_buffer_memory=1_500_000) as consumer:
        parts = engine_of(consumer).parts
        consumer.assign([place])

        def relieved() -> None:
            consumer.seek(place, 0)
            assert consumer.poll(10, 1)[0].offset == 0
            partition = parts.assignment.partitions[place]
            wait_until(
                lambda: partition.ahead_count == AHEAD_MAX or partition.fetch_offset == 16,
                "as many records are fetched as may be",
            )
            consumer.pause(place)
            assert consumer.poll(0) == []

        for where in interrupted_everywhere(relieved):
            consumer.pause(place)
            assert consumer.poll(0) == []
            consumer.resume(place)
            seen: list[int] = []
            while not seen or seen[-1] < 15:
                seen += [record.offset for record in consumer.poll(10)]
            assert seen == list(range(seen[0], 16)), where
            assert seen[0] <= 1, where
            consumer.seek(place, 0)
            places += 1
    assert places > AT_LEAST


class Marks:
    """An interceptor that changes values in place."""

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Add a mark to each value."""
        for record in records:
            record.value.append("seen")
        return records

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("read", ["poll", "iterate"])
def test_an_interceptor_sees_a_record_once(cluster: EmbeddedCluster, read: str) -> None:
    """An object that it changed in an interrupted call does not come again."""
    values: list[list[Any]] = []

    def call() -> None:
        if read == "poll":
            values.extend(record.value for record in consumer.poll(10, 3))
        else:
            with closing(iter(consumer)) as records:
                values.extend(record.value for record in islice(records, 3))

    places = 0
    with consumer_of(
        cluster,
        "t",
        max_poll_records=5,
        value_deserializer=lambda value: [value],
        interceptors=[Marks()],
    ) as consumer:
        for where in interrupted_everywhere(call):
            call()
            expected = [[str(number).encode(), "seen"] for number in range(len(values))]
            assert values == expected, where
            places += 1
    assert places > AT_LEAST


def test_close(cluster: EmbeddedCluster) -> None:
    """An interrupted close can be repeated, and then the thread has ended."""
    consumer = consumer_of(cluster, "t")

    def close() -> None:
        consumer.close()

    places = 0
    for where in interrupted_everywhere(close):
        consumer.close()
        assert engine_of(consumer).parts.thread.has_ended, where
        consumer = consumer_of(cluster, "t")
        assert consumer.poll(10, 3)
        places += 1
    consumer.close()
    assert places > AT_LEAST


def test_an_interrupted_step_runs_again() -> None:
    """A step of the polling thread that a signal handler ended early is not lost."""
    mailbox = Mailbox()
    runs: list[int] = []

    def step() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise KeyboardInterrupt

    mailbox.hand(step)
    with pytest.raises(KeyboardInterrupt):
        mailbox.run_steps()
    mailbox.run_steps()
    assert (runs, mailbox.has_steps) == ([0, 1], False)


def test_iteration_keeps_no_object_that_it_has_returned(cluster: EmbeddedCluster) -> None:
    """Of a block with thousands of records, the chunk in hand alone is alive."""
    alive: weakref.WeakSet[Value] = weakref.WeakSet()
    most = 0

    def deserialize(_: bytes | None) -> Value:
        made = Value()
        alive.add(made)
        return made

    with consumer_of(cluster, "t", max_poll_records=10, value_deserializer=deserialize) as consumer:
        for _ in islice(consumer, 200):
            most = max(most, len(alive))
    assert 0 < most <= 2 * 10
