"""When a record was sent, by the wall clock: read for each, or shared by a row of many."""

import sys
import time
from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.clock import SystemClock

_CLOCK = SystemClock()
_TICKS = 5  # Linux's CLOCK_REALTIME_COARSE: a machine that is kept from running may lose some
_APART_NS = 300_000  # no row continues over it
_ROW = 300  # enough for one
_SHORT_ROW = 40  # not enough
_LEFT_OVER = 15  # this many may have a timestamp of a row that has ended


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, and the topic `orders` of one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as running:
        yield running


@pytest.fixture
def producer(cluster: EmbeddedCluster) -> Iterator[kprod.Producer]:
    """Knows the topic, and lets batches stay open."""
    servers = cluster.bootstrap_servers
    with kprod.Producer(bootstrap_servers=servers, linger_ms=2_000) as made:
        made.send("orders", b"the topic is known")
        made.flush()
        yield made


class _Witness:
    """Sends, and knows between which readings of the clock each stamp must be."""

    def __init__(self, producer: kprod.Producer) -> None:
        self._producer = producer
        self._sent: list[tuple[int, int, int, kprod.RecordFuture]] = []

    def send(self) -> None:
        ticked_ms, before_ms = _tick_ns() // 1_000_000, _CLOCK.timestamp_ms()
        future = self._producer.send("orders", b"x")
        self._sent.append((ticked_ms, before_ms, _CLOCK.timestamp_ms(), future))

    def early_ms(self) -> list[int]:
        """By how much each stamp is earlier than the clock before its call."""
        # None is earlier than the tick of that time, or later than the clock after it.
        self._producer.flush()
        early = []
        for ticked_ms, before_ms, after_ms, future in self._sent:
            stamp_ms = future.result(0).timestamp_ms
            assert ticked_ms <= stamp_ms <= after_ms
            early.append(max(before_ms - stamp_ms, 0))
        return early


def _tick_ns() -> int:
    """Time of the kernel clock's last tick."""
    return time.clock_gettime_ns(_TICKS) if sys.platform == "linux" else time.clock_gettime_ns(0)


def _pass_a_tick() -> None:
    ticked_ns = _tick_ns()
    while _tick_ns() == ticked_ns:
        pass


def _pass_the_time(ns: int) -> None:
    until_ns = _CLOCK.now_ns() + ns
    while _CLOCK.now_ns() < until_ns:
        pass


def _send_row(producer: kprod.Producer) -> None:
    for _ in range(_ROW):
        producer.send("orders", b"x")


@pytest.mark.parametrize("together", [1, 2, 3, _SHORT_ROW])
def test_records_that_are_no_row_have_the_very_millisecond(
    producer: kprod.Producer, together: int
) -> None:
    """One by one, in pairs, or some tens at once, again and again."""
    witness = _Witness(producer)
    for _ in range(1_000 // together):
        for _ in range(together):
            witness.send()
        _pass_the_time(_APART_NS)
    assert not any(witness.early_ms())


def test_each_record_of_a_new_batch_has_the_very_millisecond(cluster: EmbeddedCluster) -> None:
    """One at a time without linger: what opens a batch is one call, not two in quick succession."""
    servers = cluster.bootstrap_servers
    with kprod.Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        witness = _Witness(producer)
        for _ in range(1_000):
            witness.send()
            _pass_the_time(_APART_NS)
        assert not any(witness.early_ms())


def test_few_records_have_the_stamp_of_a_row_that_has_ended(producer: kprod.Producer) -> None:
    """None of them one from before the last tick of the kernel's clock."""
    for _ in range(20):
        _send_row(producer)
        witness = _Witness(producer)
        for _ in range(3 * _LEFT_OVER):
            _pass_the_time(_APART_NS)
            witness.send()
        assert not any(witness.early_ms()[_LEFT_OVER:])


def test_after_a_tick_nothing_has_the_stamp_of_a_row(producer: kprod.Producer) -> None:
    """However many might still share it."""
    for _ in range(20):
        _send_row(producer)
        _pass_a_tick()
        witness = _Witness(producer)
        witness.send()
        assert witness.early_ms() == [0]


def test_the_first_record_of_a_batch_has_the_very_millisecond(producer: kprod.Producer) -> None:
    """Even right after a row, for somebody may have waited for that."""
    for _ in range(100):
        _send_row(producer)
        producer.flush()
        witness = _Witness(producer)
        witness.send()
        assert witness.early_ms() == [0]


def test_the_stamps_of_one_thread_do_not_go_back(
    cluster: EmbeddedCluster, producer: kprod.Producer
) -> None:
    """Rows of single sends and whole blocks in turn, into open batches."""
    for _ in range(50):
        _send_row(producer)
        _pass_the_time(1_200_000)
        producer.send_many("orders", [b"y"] * 10)
        for _ in range(5):
            producer.send("orders", b"z")
    producer.flush()
    (log,) = cluster.records("orders").values()
    stamps = [record.timestamp_ms for record in log]
    assert len(stamps) == 1 + 50 * (_ROW + 15)
    assert stamps == sorted(stamps)


def test_a_stamp_of_the_callers_is_kept(producer: kprod.Producer) -> None:
    """In a row and in a new batch alike."""
    futures = [producer.send("orders", b"x", timestamp_ms=number) for number in range(_ROW)]
    producer.flush()
    assert [future.result(0).timestamp_ms for future in futures] == list(range(_ROW))
