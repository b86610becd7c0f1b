"""A scrape, over HTTP and read by Prometheus's own parser, shows what the producer counts."""

import asyncio
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

import kprod
from kprod import AsyncProducer, Producer
from kprod.broker import EmbeddedCluster
from kprod.metrics.prometheus import ProducerCollector


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, two topics."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1, "payments": 1}) as running:
        yield running


def _scrape(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        address = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(address, timeout=30) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
    assert isinstance(thread, threading.Thread)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _at(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_a_scrape_shows_every_group(cluster: EmbeddedCluster) -> None:
    """The groups of the producer, each topic and each node; two producers by their client ids."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    with (
        kprod.Producer(settings, client_id="one") as one,
        kprod.Producer(settings, client_id="two") as two,
    ):
        registry = CollectorRegistry()
        collector = ProducerCollector(one)
        registry.register(collector)
        collector.add(two)
        for number in range(30):
            one.send("orders" if number % 3 else "payments", b"x")
        two.send("orders", b"x")
        assert (one.flush(30), two.flush(30)) == (0, 0)
        seen = _scrape(registry)
        collector.remove(two)
        after = _scrape(registry)
    assert seen[_at("kafka_producer_record_send_total", client_id="one")] == 30
    assert seen[_at("kafka_producer_record_send_total", client_id="two")] == 1
    topic = _at("kafka_producer_topic_record_send_total", client_id="one", topic="orders")
    assert seen[topic] == 20
    node = _at("kafka_producer_node_request_latency_max", client_id="one", node_id="0")
    assert seen[node] >= 0
    assert seen[_at("kafka_producer_buffer_available_bytes", client_id="one")] == 64 << 20
    assert not any(("client_id", "two") in labels for _, labels in after)


def test_unknown_facts_are_not_shown(cluster: EmbeddedCluster) -> None:
    """An average of nothing has no sample."""
    registry = CollectorRegistry()
    with kprod.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        registry.register(ProducerCollector(producer))
        names = {name for name, _ in _scrape(registry)}
    assert "kafka_producer_batch_size_avg" not in names
    assert "kafka_producer_record_send_total" in names


def test_a_scrape_shows_an_async_producer(cluster: EmbeddedCluster) -> None:
    """Its client id and its counts: none before the start, and still there after the end."""
    producer = AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="aio")
    registry = CollectorRegistry()
    registry.register(ProducerCollector(producer))
    assert (producer.client_id, producer.metrics(), _scrape(registry)) == ("aio", {}, {})

    async def send() -> None:
        async with producer:
            await producer.send_and_wait("orders", b"x")
            await producer.send_and_wait("orders", b"y")

    asyncio.run(send())
    sent = _at("kafka_producer_record_send_total", client_id="aio")
    assert _scrape(registry)[sent] == 2
    assert producer.metrics()["producer-metrics"]["record-send-total"] == 2


def test_an_engine_that_is_shared_is_shown_as_its_own(cluster: EmbeddedCluster) -> None:
    """The async face has the engine's client id and counts."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, client_id="engine") as engine:
        producer = AsyncProducer(engine=engine)
        assert producer.client_id == "engine"
        engine.send("orders", b"x").result(30)
        counts = producer.metrics()["producer-metrics"]
        assert counts["record-send-total"] == 1
