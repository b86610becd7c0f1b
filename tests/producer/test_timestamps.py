"""When a record was sent, by the wall clock: read for each, or shared by a row of many."""

from collections.abc import Iterator

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.clock import SystemClock

_CLOCK = SystemClock()
_TICK_MS = 10  # of the slowest kernel's; its coarse clock is behind by one at most
_APART_NS = 50_000
_ROW = 2_000  # records in a row of many


@pytest.fixture
def producer() -> Iterator[kprod.Producer]:
    """Of a cluster with the topic `orders`, one partition."""
    with (
        EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster,
        kprod.Producer(bootstrap_servers=cluster.bootstrap_servers) as made,
    ):
        made.send("orders", b"the topic is known").result(60)
        yield made


def _stamps(futures: list[kprod.RecordFuture]) -> list[int]:
    return [future.result(60).timestamp_ms for future in futures]


def _pass_the_time(ns: int) -> None:
    until_ns = _CLOCK.now_ns() + ns
    while _CLOCK.now_ns() < until_ns:
        pass


def test_records_that_come_one_by_one_have_the_very_millisecond(producer: kprod.Producer) -> None:
    """Never earlier than the clock was before the call, nor later than after it."""
    spans, futures = [], []
    for _ in range(300):
        before_ms = _CLOCK.timestamp_ms()
        futures.append(producer.send("orders", b"x"))
        spans.append((before_ms, _CLOCK.timestamp_ms()))
        _pass_the_time(_APART_NS)
    for (before_ms, after_ms), stamp in zip(spans, _stamps(futures), strict=True):
        assert before_ms <= stamp <= after_ms


def test_records_in_a_row_are_stamped_in_order_and_not_long_ago(producer: kprod.Producer) -> None:
    """They share readings, each of which is of the same tick of the kernel's clock."""
    befores, futures = [], []
    for _ in range(_ROW):
        befores.append(_CLOCK.timestamp_ms())
        futures.append(producer.send("orders", b"x"))
    after_ms = _CLOCK.timestamp_ms()
    stamps = _stamps(futures)
    assert stamps == sorted(stamps)
    assert stamps[-1] <= after_ms
    late = [before - stamp for before, stamp in zip(befores, stamps, strict=True)]
    assert max(late) <= _TICK_MS


def test_the_first_record_of_a_batch_has_the_very_millisecond(producer: kprod.Producer) -> None:
    """Even right after a row of many, for somebody may have waited for those."""
    for _ in range(100):
        for _ in range(100):
            producer.send("orders", b"x")
        producer.flush()
        before_ms = _CLOCK.timestamp_ms()
        future = producer.send("orders", b"y")
        after_ms = _CLOCK.timestamp_ms()
        assert before_ms <= future.result(60).timestamp_ms <= after_ms


def test_a_stamp_of_the_callers_is_kept(producer: kprod.Producer) -> None:
    """In a row and in a new batch alike."""
    futures = [producer.send("orders", b"x", timestamp_ms=number) for number in range(500)]
    assert _stamps(futures) == list(range(500))
