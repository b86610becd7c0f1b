"""Topics that rows name are looked up together, in one wait, and absent ones are remembered."""

import gc
import weakref
from collections import OrderedDict
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.clock import ManualClock
from kprod.errors import BrokerError, MetadataTimeout
from kprod.producer.producer import engine_of
from kprod.protocol.error_table import ErrorCode, error_for
from kprod.spark import topic_lookup
from kprod.spark.topic_lookup import TopicLookup, lookup_of


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Generator[Producer]:
    """Start a broker with two topics that makes no others, and a producer.

    Yields:
        The producer.
    """
    monkeypatch.setattr(topic_lookup, "TOPIC_WAIT_MS", 100)
    config = EmbeddedConfig(auto_create_topics=False)
    with (
        EmbeddedCluster(brokers=1, topics={"a": 1, "b": 1}, config=config) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        yield producer


def test_absent_topics_are_told(producer: Producer) -> None:
    """The others are not, whether they are new or known."""
    lookup = lookup_of(producer)
    for _ in range(2):
        found = lookup.absent(["a", "gone", "b", "lost"])
        assert found.keys() == {"gone", "lost"}
        assert {error.code for error in found.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert lookup.absent([]) == {}


def test_a_topic_that_was_absent_is_not_waited_for_again(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One response is enough then, in the next task, too; few such names are remembered."""
    monkeypatch.setattr(topic_lookup, "ABSENT_MAX", 2)
    assert lookup_of(producer).absent(["gone"])
    monkeypatch.setattr(topic_lookup, "TOPIC_WAIT_MS", 2**30)  # no wait would ever end
    gc.collect()
    assert lookup_of(producer).absent(["gone"])
    monkeypatch.setattr(topic_lookup, "TOPIC_WAIT_MS", 50)
    assert len(lookup_of(producer).absent(["1", "2", "3"])) == 3
    assert len(topic_lookup._absent_ms[engine_of(producer)]) == 2


class _SlowMetadata:
    """Metadata of a cluster without topics, whose every response takes a while, in virtual time."""

    RESPONSE_MS = 300  # longer than the lookup waits between two looks

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._responded_ms = 0
        self.version = 0
        self.snapshot = SimpleNamespace(partition_count=lambda _: 0)

    def request_refresh(self, _: str) -> int:
        return self._clock.now_ms()

    def has_refreshed(self, _: str, requested_ms: int) -> bool:
        return requested_ms < self._responded_ms

    def error_of(self, topic: str) -> BrokerError:
        return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)

    def wait_for_update(self, _: int, timeout_ms: int) -> None:
        next_ms = self._responded_ms + self.RESPONSE_MS
        if next_ms > self._clock.now_ms() + timeout_ms:
            self._clock.advance(timeout_ms)
            raise MetadataTimeout("?")
        self._clock.advance(next_ms - self._clock.now_ms())
        self._responded_ms = next_ms


def test_the_last_response_counts_where_the_producers_own_limit_ends_the_wait() -> None:
    """Else each name would wait by itself: here the limit is over between two responses."""
    clock = ManualClock(now_ms=0)
    engine: Any = SimpleNamespace(
        metadata=_SlowMetadata(clock),
        clock=clock,
        config=SimpleNamespace(max_block_ms=450),
        wake=lambda: None,
    )
    names = {f"gone-{number}" for number in range(20)}
    assert TopicLookup(engine, OrderedDict()).absent(names).keys() == names
    assert clock.now_ms() == 500


def test_a_topic_that_brokers_make_is_not_absent() -> None:
    """The lookup makes it."""
    with (
        EmbeddedCluster(brokers=1) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        assert lookup_of(producer).absent(["made"]) == {}
        assert cluster.records("made")


def test_brokers_that_say_nothing_tell_of_no_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that sends waits for them, and explains."""
    monkeypatch.setattr(topic_lookup, "TOPIC_WAIT_MS", 20)
    with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=20) as producer:
        assert lookup_of(producer).absent(["a"]) == {}


def test_the_memory_of_a_producer_ends_with_it() -> None:
    """And does not keep it alive."""
    producer = Producer(bootstrap_servers="127.0.0.1:1")
    lookup_of(producer)
    engine = weakref.ref(engine_of(producer))
    producer.close(0)
    del producer
    gc.collect()
    assert engine() is None
