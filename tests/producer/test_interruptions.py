"""A signal handler's exception at every place of a producer's calls: nothing is lost or stuck.

A send to a known topic, and the wait for its future, have no such place: they run in compiled code.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest

from kprod import Producer, RecordFuture
from kprod.broker import EmbeddedCluster
from tests.consumer.reading import consumer_of, poll_count
from tests.interruptions import interrupted_everywhere

AT_LEAST = 5  # places: fewer would mean that nothing was followed
LIMIT_S = 10.0  # a call that takes longer hangs


class Sends:
    """Numbered records of a producer, and the futures that the application got."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.futures: list[tuple[bytes, RecordFuture]] = []
        self._numbers = count()

    def send(self, topic: str = "t") -> RecordFuture:
        """Send the next record."""
        value = b"%d" % next(self._numbers)
        future = self.producer.send(topic, value)
        self.futures.append((value, future))
        return future

    def send_to_a_new_topic(self) -> None:
        """A send that waits for metadata."""
        self.send(f"new-{len(self.futures)}")

    def send_and_flush(self) -> None:
        """A record, and the wait for it."""
        self.send()
        self.producer.flush(LIMIT_S)

    def send_many(self) -> None:
        """Two records at once."""
        self.producer.send_many("t", [b"%d" % next(self._numbers), b"%d" % next(self._numbers)])


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as made:
        yield made


@pytest.mark.parametrize("act", [Sends.send_to_a_new_topic, Sends.send_and_flush, Sends.send_many])
def test_sending(cluster: EmbeddedCluster, act: Callable[[Sends], None]) -> None:
    """The producer continues; records that got a future are delivered, and none comes twice."""
    places = 0
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        sends = Sends(producer)
        for where in interrupted_everywhere(partial(act, sends)):
            after = sends.send()
            assert producer.flush(LIMIT_S) == 0, where
            assert after.exception(0) is None, where
            places += 1
    assert places > AT_LEAST
    assert all(future.exception(0) is None for _, future in sends.futures)
    wanted = {value for value, future in sends.futures if future.result(0).topic == "t"}
    with consumer_of(cluster, "t") as consumer:
        found = [record.value for record in poll_count(consumer, len(wanted))]
        while more := consumer.poll(0.2):
            found += [record.value for record in more]
    assert wanted <= set(found)
    assert found == sorted(set(found), key=int)


def test_close(cluster: EmbeddedCluster) -> None:
    """An interrupted close can be repeated; the record that waited is delivered."""

    def opened() -> tuple[Producer, RecordFuture]:
        made = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=10_000)
        return made, made.send("t", b"waits")

    producer, future = opened()

    def close() -> None:
        producer.close(LIMIT_S)

    places = 0
    for where in interrupted_everywhere(close):
        assert producer.close(LIMIT_S) == 0, where
        assert future.exception(0) is None, where
        producer, future = opened()
        places += 1
    producer.close(LIMIT_S)
    assert places > AT_LEAST
