"""The application's code inside a read: it re-enters, raises, blocks, closes, forks.

The table: a deserializer, an interceptor and a loop's body are the only code of an application that
a read calls; there are no listeners without groups. `test_ends` has the forks.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer import Consumer
from kprod.errors import ClosedError, ConcurrentPoll, DeserializationFailed, WakeupError
from kprod.model import TopicPartition
from tests.consumer.reading import LIMIT_S, consumer_of, fill, later, poll_count

T0 = TopicPartition("t", 0)
COUNT = 40


class Stop(BaseException):
    """The exception of a signal handler."""


class Passing:
    """An interceptor that makes a call and passes the records on."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Call."""
        self._call()
        return records

    def close(self) -> None:
        """Nothing to release."""


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with records."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as made:
        fill(made, "t", COUNT)
        yield made


def reading_with(cluster: EmbeddedCluster, kind: str, call: Callable[[], object]) -> Consumer:
    """A consumer whose deserializer or interceptor makes a call."""

    def deserializer(value: bytes) -> bytes:
        call()
        return value

    chosen: dict[str, Any] = (
        {"value_deserializer": deserializer}
        if kind == "deserializer"
        else {"interceptors": [Passing(call)]}
    )
    consumer = consumer_of(cluster, **chosen)
    consumer.assign([T0])
    return consumer


KINDS = pytest.mark.parametrize("kind", ["deserializer", "interceptor"])


@KINDS
def test_a_call_of_the_same_consumer(cluster: EmbeddedCluster, kind: str) -> None:
    """Methods that read or assign are rejected; all others answer, also those that ask a broker."""
    rejected: list[str] = []
    answers: list[Any] = []

    def call() -> None:
        if answers:
            return
        answers.append(0)
        for name, again in (
            ("poll", lambda: consumer.poll(0)),
            ("poll_arrow", lambda: consumer.poll_arrow(0)),
            ("iterate", lambda: next(iter(consumer))),
            ("assign", lambda: consumer.assign([T0])),
            ("subscribe", lambda: consumer.subscribe("t")),
            ("unsubscribe", consumer.unsubscribe),
        ):
            with pytest.raises(ConcurrentPoll, match="this thread already"):
                again()
            rejected.append(name)
        answers.extend(
            [
                consumer.position(T0),
                consumer.end_offsets([T0]),
                consumer.assignment(),
                repr(consumer),
            ]
        )
        consumer.pause(T0)
        consumer.resume(T0)

    with reading_with(cluster, kind, call) as consumer:
        assert [it.offset for it in poll_count(consumer, COUNT)] == list(range(COUNT))
    assert rejected == ["poll", "poll_arrow", "iterate", "assign", "subscribe", "unsubscribe"]
    assert answers[1:4] == [0, {T0: COUNT}, {T0}]


@KINDS
def test_a_seek_takes_effect_with_the_next_record(cluster: EmbeddedCluster, kind: str) -> None:
    """The records of the call in progress are still returned."""
    sought: list[int] = []

    def call() -> None:
        if not sought:
            sought.append(30)
            consumer.seek(T0, 30)

    with reading_with(cluster, kind, call) as consumer:
        assert [it.offset for it in consumer.poll(LIMIT_S, 5)] == [0, 1, 2, 3, 4]
        assert [it.offset for it in consumer.poll(LIMIT_S, 5)] == [30, 31, 32, 33, 34]


@KINDS
def test_a_close_frees_what_was_fetched(cluster: EmbeddedCluster, kind: str) -> None:
    """At the end of the call in progress, although the closed consumer lives on."""
    with reading_with(cluster, kind, lambda: consumer.close()) as consumer:  # noqa: PLW0108 - below
        consumer.poll(LIMIT_S, 5)
        with pytest.raises(ClosedError):
            consumer.poll(0)
        parts = consumer._kprod.parts  # type: ignore[union-attr]
        assert not parts.hand_over.has_work()
        parts.buffer.take_freed()
        assert parts.buffer.held_bytes == 0


@pytest.mark.parametrize("way", ["loop", "waiting poll"])
def test_a_close_elsewhere_frees_what_was_fetched(cluster: EmbeddedCluster, way: str) -> None:
    """In a loop's body; and by another thread while a poll waits behind fetched, paused records."""
    consumer = consumer_of(cluster)
    consumer.assign([T0])
    consumer.poll(LIMIT_S, 1)

    def close_in_a_loop() -> None:
        for _ in consumer:
            consumer.close()

    def close_beside_a_poll() -> None:
        consumer.pause(T0)
        closing = later(consumer.close)
        try:
            consumer.poll(LIMIT_S)
        finally:
            closing.join()

    with pytest.raises(ClosedError):
        close_in_a_loop() if way == "loop" else close_beside_a_poll()
    parts = consumer._kprod.parts  # type: ignore[union-attr]
    parts.buffer.take_freed()
    assert (parts.hand_over.has_work(), parts.buffer.held_bytes) == (False, 0)


@KINDS
def test_an_exception_each_time(cluster: EmbeddedCluster, kind: str) -> None:
    """A BaseException ends the call, each time; nothing is lost once it has stopped."""
    is_broken = [True]

    def call() -> None:
        if is_broken:
            raise Stop

    with reading_with(cluster, kind, call) as consumer:
        for _ in range(3):
            with pytest.raises(Stop):
                consumer.poll(LIMIT_S)
            assert consumer.position(T0) == 0
        is_broken.clear()
        assert [it.offset for it in poll_count(consumer, COUNT)] == list(range(COUNT))


def test_a_deserializer_interrupted_again_and_again_makes_progress(
    cluster: EmbeddedCluster,
) -> None:
    """As by a timer's signal handler that is faster than the list: no record is done twice."""
    seen: list[bytes] = []
    interruptions = 0

    def deserializer(value: bytes) -> bytes:
        seen.append(value)
        if len(seen) % 7 == 0:
            seen.pop()
            seen.append(b"")
            raise Stop
        return value

    found: list[Any] = []
    with consumer_of(cluster, value_deserializer=deserializer) as consumer:
        consumer.assign([T0])
        while len(found) < COUNT:
            try:
                found += consumer.poll(LIMIT_S)
            except Stop:
                interruptions += 1
                assert interruptions <= COUNT
    assert [it.offset for it in found] == list(range(COUNT))
    assert len([it for it in seen if it]) == COUNT
    assert interruptions == len(seen) // 7


def test_the_wrong_deserializer_names_the_place_each_time(cluster: EmbeddedCluster) -> None:
    """Topic, partition, offset and the cause; the position stays."""

    def deserializer(value: bytes) -> str:
        return value.decode("utf-16-be") if value == b"0" else value.decode()

    with consumer_of(cluster, value_deserializer=deserializer) as consumer:
        consumer.assign([T0])
        for _ in range(3):
            with pytest.raises(DeserializationFailed) as raised:
                consumer.poll(LIMIT_S)
            text = str(raised.value)
            assert "topic 't', partition 0, offset 0" in text
            assert "utf-16" in text
            assert isinstance(raised.value.__cause__, UnicodeDecodeError)
            assert consumer.position(T0) == 0


@KINDS
def test_a_blocked_call_keeps_nobody_else_waiting(cluster: EmbeddedCluster, kind: str) -> None:
    """Neither the I/O thread, nor calls of other threads; closing takes its timeout."""
    entered, released = threading.Event(), threading.Event()

    def call() -> None:
        entered.set()
        released.wait(LIMIT_S)

    consumer = reading_with(cluster, kind, call)
    reader = threading.Thread(target=consumer.poll, args=(LIMIT_S, 1))
    reader.start()
    try:
        assert entered.wait(LIMIT_S)
        assert consumer.end_offsets([T0], LIMIT_S) == {T0: COUNT}
        assert consumer.position(T0) == 0
        with pytest.raises(ConcurrentPoll, match="is being read by thread"):
            consumer.poll(0)
        consumer.close(LIMIT_S)
        assert "closed" in repr(consumer)
    finally:
        released.set()
        reader.join()


@pytest.mark.parametrize("call", ["pause", "seek", "wakeup"])
def test_an_interceptor_changes_the_loop_that_it_is_called_for(
    cluster: EmbeddedCluster, call: str
) -> None:
    """At most one record of the chunk that it was given is returned after the change."""
    changes: dict[str, Callable[[], object]] = {
        "pause": lambda: consumer.pause(T0),
        "seek": lambda: consumer.seek(T0, 5),
        "wakeup": lambda: consumer.wakeup(),  # noqa: PLW0108 - there is none yet
    }
    waiting = [changes[call]]
    found: list[int] = []
    with consumer_of(
        cluster,
        interceptors=[Passing(lambda: waiting and waiting.pop()())],
        consumer_timeout_ms=1_000,
        fetch_max_wait_ms=10,
        max_poll_records=10,
    ) as consumer:
        consumer.assign([T0])
        with contextlib.suppress(WakeupError):
            found += (record.offset for record in islice(consumer, 3))
        if call == "pause":
            assert consumer.position(T0) == 1
    assert found == {"pause": [0], "seek": [0, 5, 6], "wakeup": [0]}[call]
