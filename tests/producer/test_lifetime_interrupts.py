"""Ctrl-C in `flush` and `close`: raised to the caller, and no record is lost or given up for it."""

import itertools
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import ClosedError
from kprod.protocol.api import ApiKey

SETTLE_S = 60.0  # ends a broken test, never its rhythm
SHORT_INTERRUPTS = 100
LONG_INTERRUPTS = 5_000


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of four partitions."""
    with EmbeddedCluster(brokers=1, topics={"orders": 4}) as running:
        yield running


def _producer(cluster: EmbeddedCluster, **settings: object) -> kprod.Producer:
    return kprod.Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})


def _values(cluster: EmbeddedCluster) -> list[bytes]:
    log = cluster.records("orders")
    return sorted(record.value or b"" for records in log.values() for record in records)


@contextmanager
def _storm(interval_s: float) -> Generator[Callable[[Callable[[], int]], int | None]]:
    """Raise KeyboardInterrupt again and again, but only into functions called through this."""
    is_armed = [False]

    def handle(*_: object) -> None:
        if is_armed[0]:
            is_armed[0] = False
            raise KeyboardInterrupt

    def interrupted(call: Callable[[], int]) -> int | None:
        try:
            is_armed[0] = True
            returned = call()
            is_armed[0] = False
        except KeyboardInterrupt:
            return None
        return returned

    previous = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, interval_s, interval_s)
    try:
        yield interrupted
    finally:
        is_armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _interrupt_flushes(cluster: EmbeddedCluster, wanted: int) -> None:
    sent: list[bytes] = []
    interrupts = 0
    with _producer(cluster, linger_ms=1_000) as producer:
        producer.send("orders", b"warm").add_done_callback(lambda _: None)
        with _storm(0.001) as interrupted:
            while interrupts < wanted:
                value = b"%08d" % len(sent)
                producer.send("orders", value)
                sent.append(value)
                interrupts += interrupted(lambda: producer.flush(SETTLE_S)) is None
        assert producer.flush(SETTLE_S) == 0
    assert _values(cluster) == sorted([b"warm", *sent])


@pytest.mark.slow
def test_interrupted_flushes_lose_nothing(cluster: EmbeddedCluster) -> None:
    """Each raises, and the next continues."""
    _interrupt_flushes(cluster, SHORT_INTERRUPTS)


@pytest.mark.long
def test_thousands_of_interrupted_flushes(cluster: EmbeddedCluster) -> None:
    """The same, long enough to hit every instruction."""
    _interrupt_flushes(cluster, LONG_INTERRUPTS)


def _interrupt_closes(cluster: EmbeddedCluster, turns: int, interval_s: float) -> int:
    """Close until it succeeds, some times over; return how many closes were interrupted."""
    values = [[b"%d:%d" % (turn, number) for number in range(20)] for turn in range(turns)]
    interrupts = sum(_interrupt_close(cluster, turn, interval_s) for turn in values)
    assert _values(cluster) == sorted(itertools.chain(*values))
    return interrupts


def _interrupt_close(cluster: EmbeddedCluster, values: list[bytes], interval_s: float) -> int:
    producer = _producer(cluster, linger_ms=10_000)
    futures = [producer.send("orders", value) for value in values]
    interrupts = 0
    with _storm(interval_s) as interrupted:
        while interrupted(lambda: producer.close(SETTLE_S)) is None:
            interrupts += 1
            with pytest.raises(ClosedError):
                producer.send("orders", b"late")
    assert producer.close(0) == 0
    assert all(future.result(0).offset >= 0 for future in futures)
    assert (producer._kprod.thread.has_ended, producer._kprod.pool.lent_bytes) == (True, 0)
    return interrupts


@pytest.mark.slow
def test_interrupted_closes_continue_with_the_next(cluster: EmbeddedCluster) -> None:
    """Each raises; the records continue, and the close that is left alone delivers them all."""
    cluster.faults.delay(ApiKey.PRODUCE, 20, times=10_000)
    assert _interrupt_closes(cluster, 5, 0.004) > 0


@pytest.mark.long
@pytest.mark.parametrize("interval_ms", [0.4, 0.6, 0.9, 1.4, 2.0, 3.0, 5.0])
def test_thousands_of_interrupted_closes(cluster: EmbeddedCluster, interval_ms: float) -> None:
    """The same, at intervals that fall everywhere."""
    cluster.faults.delay(ApiKey.PRODUCE, 20, times=100_000)
    assert _interrupt_closes(cluster, 100, interval_ms / 1_000) > 0


def test_an_interrupted_close_leaves_the_rest_to_the_next(cluster: EmbeddedCluster) -> None:
    """The broker is slow; the interrupt comes at once, and nothing is given up for it."""
    cluster.faults.delay(ApiKey.PRODUCE, 300, times=1)
    producer = _producer(cluster, linger_ms=10_000)
    future = producer.send("orders", b"more")
    with _storm(0.02) as interrupted:
        assert interrupted(producer.close) is None
    assert not producer._kprod.thread.has_ended
    assert producer.close(SETTLE_S) == 0
    assert future.result(0).offset == 0


def _fail_inside(producer: kprod.Producer) -> None:
    with producer:
        producer.send("orders", b"sent all the same").add_done_callback(lambda _: None)
        raise LookupError("the body's")


def test_the_body_s_exception_is_not_hidden(cluster: EmbeddedCluster) -> None:
    """A `with` block that fails closes, and raises what the body raised."""
    producer = _producer(cluster)
    with pytest.raises(LookupError, match="the body's"):
        _fail_inside(producer)
    assert _values(cluster) == [b"sent all the same"]
    assert producer._kprod.thread.has_ended
