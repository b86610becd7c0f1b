"""Topics that rows name are looked up together, in one wait, and absent ones are remembered."""

import gc
import weakref
from collections.abc import Generator

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.producer.producer import engine_of
from kprod.protocol.error_table import ErrorCode
from kprod.spark import topic_lookup
from kprod.spark.topic_lookup import lookup_of


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
