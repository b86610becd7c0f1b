"""Helpers for tests of the consumer: clusters with records, and reading with a limit."""

import threading
from collections.abc import Callable
from typing import Any

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.clock import SystemClock
from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_wiring import ConsumerEnvironment
from kprod.consumer.whole_topic import records_to_end
from kprod.record.blocks import ConsumerRecord
from tests.network.scripted_logs import LogCluster

LIMIT_S = 20.0  # a test that waits longer has failed
CLOCK = SystemClock()


def fill(
    cluster: EmbeddedCluster, topic: str, count: int, *, partition: int = 0, **settings: Any
) -> None:
    """Send values b"0", b"1", … to one partition."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, **settings) as producer:
        futures = [
            producer.send(topic, str(number).encode(), key=b"k", partition=partition)
            for number in range(count)
        ]
        assert producer.flush(LIMIT_S) == 0
        assert all(future.exception() is None for future in futures)


def consumer_of(cluster: EmbeddedCluster, *topics: str, **settings: Any) -> Consumer:
    """A consumer from the beginning, unless it is told otherwise."""
    settings.setdefault("auto_offset_reset", "earliest")
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **settings)


def poll_until(consumer: Consumer, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Poll until there is enough, and return all."""
    found: list[Any] = []
    until_ms = CLOCK.now_ms() + LIMIT_S * 1_000
    while not is_enough(found):
        assert CLOCK.now_ms() < until_ms, f"only {len(found)} records in {LIMIT_S} s"
        found += consumer.poll(0.2)
    return found


def poll_count(consumer: Consumer, count: int) -> list[Any]:
    """Poll until there are `count` records."""
    return poll_until(consumer, lambda found: len(found) >= count)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that the consumer's thread does."""
    until_ms = CLOCK.now_ms() + LIMIT_S * 1_000
    pause = threading.Event()
    while not holds():
        assert CLOCK.now_ms() < until_ms, f"not within {LIMIT_S} s: {what}"
        pause.wait(0.001)


def scripted_consumer(cluster: LogCluster, *topics: str, **settings: Any) -> Consumer:
    """A consumer of a scripted cluster, which takes its turns while it waits."""
    settings.setdefault("auto_offset_reset", "earliest")
    world = ConsumerEnvironment(
        clock=cluster.clock, io=lambda _settings: cluster.io, is_threaded=False
    )
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap, environment=world, **settings)


def scripted_poll(consumer: Consumer, count: int, *, seconds: float = 30.0) -> list[Any]:
    """Poll a scripted cluster in its own time until there are `count` records."""
    found: list[Any] = []
    for _ in range(round(seconds * 10)):
        if len(found) >= count:
            break
        found += consumer.poll(0.1)
    return found


def read_topic(
    servers: str, topic: str, partitions: list[int] | None = None, **settings: Any
) -> list[ConsumerRecord]:
    """Every record that a topic has now, ascending by partition and offset."""
    settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest", **settings}
    with Consumer(**settings) as consumer:
        found = list(records_to_end(consumer, topic, partitions))
    return sorted(found, key=lambda it: (it.partition, it.offset))


def later(call: Callable[[], object]) -> threading.Thread:
    """Make a call on another thread, after a moment in which a poll begins to wait."""

    def run() -> None:
        threading.Event().wait(0.1)
        call()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
