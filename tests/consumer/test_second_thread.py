"""Two threads with one consumer: each record comes once, and no memory stays after a close."""

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.errors import ConcurrentPoll
from tests.consumer.reading import LIMIT_S, consumer_of, fill

RECORDS = 6_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with records."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as made:
        fill(made, "t", RECORDS)
        yield made


@pytest.fixture
def _threads_alternate() -> Iterator[None]:
    """Threads are switched as often as may be."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


def poll(consumer: Consumer) -> list[int]:
    """Read up to five records."""
    return [record.offset for record in consumer.poll(0.2, 5)]


def poll_arrow(consumer: Consumer) -> list[int]:
    """Read up to five rows."""
    found: list[int] = consumer.poll_arrow(0.2, 5).column("offset").to_pylist()
    return found


@pytest.mark.usefixtures("_threads_alternate")
@pytest.mark.parametrize("read", [poll, poll_arrow])
def test_each_record_comes_once(
    cluster: EmbeddedCluster, read: Callable[[Consumer], list[int]]
) -> None:
    """The second thread gets ConcurrentPoll until a call has returned, not just done its work."""
    found: list[list[int]] = [[], []]

    def work(mine: list[int]) -> None:
        while sum(map(len, found)) < RECORDS:
            try:
                mine += read(consumer)
            except ConcurrentPoll:
                continue

    with consumer_of(cluster, "t") as consumer:
        threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
    assert sorted(found[0] + found[1]) == list(range(RECORDS))


def test_a_close_beside_a_change_of_assignment(cluster: EmbeddedCluster) -> None:
    """The call that the close does not wait for frees the records at its end."""
    consumer = consumer_of(cluster, "t")
    assert len(consumer.poll(LIMIT_S, 1)) == 1
    parts = engine_of(consumer).parts
    with parts.alone:  # as an `assign` of another thread has it
        consumer.close()
        parts.buffer.take_freed()
        assert parts.buffer.held_bytes > 0
    parts.buffer.take_freed()
    assert parts.buffer.held_bytes == 0
