"""Signal handlers that raise, and threads that switch everywhere: nothing lost, doubled or held.

The long forms are what the library is judged by; the short ones keep it honest from day to day.
"""

import gc
import itertools
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.clock import SystemClock

pytestmark = pytest.mark.usefixtures("nobody_listens_to_the_collector")

SETTLE_S = 60.0  # ends a broken test, never its rhythm


class Interrupt(Exception):
    """The exception of the signal handler."""


@pytest.fixture
def nobody_listens_to_the_collector() -> Iterator[None]:
    """Such a listener ignores a handler's exception; Hypothesis has one."""
    listeners = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks.extend(listeners)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of four partitions."""
    with EmbeddedCluster(brokers=1, topics={"orders": 4}) as running:
        yield running


def _values(cluster: EmbeddedCluster) -> list[bytes]:
    log = cluster.records("orders")
    return [record.value or b"" for records in log.values() for record in records]


def _interrupt_sends(producer: kprod.Producer, wanted: int) -> tuple[list[bytes], list[bytes]]:
    """Send under a signal storm; return values that got a future, and values that did not."""
    accepted: list[bytes] = []
    rejected: list[bytes] = []
    futures: list[kprod.RecordFuture] = []
    is_armed = [False]

    def handle(*_: object) -> None:
        if is_armed[0]:
            is_armed[0] = False
            raise Interrupt

    previous = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for number in itertools.count():
            value = b"%08d" % number + b"x" * (number % 300)
            future = None
            try:
                is_armed[0] = True
                future = producer.send("orders", value, headers={"n": b"1"})
                is_armed[0] = False
            except Interrupt:
                pass
            if future is None:
                rejected.append(value)
            else:
                accepted.append(value)
                futures.append(future)
            if len(rejected) >= wanted:
                break
    finally:
        is_armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert producer.flush(SETTLE_S) == 0
    assert all(future.result(0).offset >= 0 for future in futures)
    return accepted, rejected


def _run_interrupts(cluster: EmbeddedCluster, wanted: int) -> None:
    producer = kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        buffer_memory=256 * 1024,
        batch_size=20_000,
        linger_ms=1,
    )
    with producer:
        producer.send("orders", b"warm").result(SETTLE_S)
        accepted, rejected = _interrupt_sends(producer, wanted)
        assert (producer._kprod.pool.lent_bytes, producer._kprod.pool.waiter_count) == (0, 0)
        assert producer.send("orders", b"after").result(SETTLE_S).offset >= 0
    counts = Counter(_values(cluster))
    assert max(counts.values()) == 1
    assert set(accepted) <= counts.keys()
    # The handler may also raise between the return of `send` and the assignment of its future.
    assert counts.keys() <= {*accepted, *rejected, b"warm", b"after"}


@pytest.mark.slow
def test_a_handler_that_raises_into_send_leaves_nothing_behind(cluster: EmbeddedCluster) -> None:
    """At 1 kHz: each record is once in the log, or not at all and nobody was told otherwise."""
    _run_interrupts(cluster, 500)


@pytest.mark.long
def test_ten_thousand_interrupts(cluster: EmbeddedCluster) -> None:
    """The same, long enough to hit every instruction."""
    _run_interrupts(cluster, 10_000)


def _run_threads(cluster: EmbeddedCluster, seconds: float) -> None:
    clock = SystemClock()
    sent: list[list[kprod.RecordFuture]] = [[] for _ in range(16)]
    producer = kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        buffer_memory=512 * 1024,
        batch_size=10_000,
        linger_ms=1,
    )
    producer.send("orders", b"warm").result(SETTLE_S)
    ends_ms = clock.now_ms() + int(seconds * 1000)

    def run(thread: int) -> None:
        number = 0
        while clock.now_ms() < ends_ms:
            value = b"%d:%d" % (thread, number)
            sent[thread].append(producer.send("orders", value, partition=number % 4))
            number += 1

    threads = [threading.Thread(target=run, args=(n,)) for n in range(16)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + SETTLE_S)
        assert producer.flush(SETTLE_S) == 0
    finally:
        sys.setswitchinterval(interval)
    assert (producer._kprod.pool.lent_bytes, producer._kprod.pool.waiter_count) == (0, 0)
    assert producer.close(SETTLE_S) == 0

    log = cluster.records("orders")
    assert sum(map(len, log.values())) == 1 + sum(map(len, sent))
    for partition, records in log.items():
        newest = dict.fromkeys(range(16), -1)
        for record in records:
            if record.value and b":" in record.value:
                sender, number = map(int, record.value.split(b":"))
                assert number > newest[sender]
                assert number % 4 == partition
                assert sent[sender][number].result(0).offset == record.offset
                newest[sender] = number


@pytest.mark.slow
def test_sixteen_threads_that_switch_everywhere(cluster: EmbeddedCluster) -> None:
    """A switch interval of one microsecond: orders hold, each future names its own record."""
    _run_threads(cluster, 1.5)


@pytest.mark.long
def test_sixteen_threads_for_twenty_seconds(cluster: EmbeddedCluster) -> None:
    """The same, longer."""
    _run_threads(cluster, 20.0)
