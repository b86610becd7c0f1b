"""The SDK's own reader collects the values that the producer counts."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum

import kprod
from kprod.broker import EmbeddedCluster
from kprod.metrics.opentelemetry import observe


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, one topic."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as running:
        yield running


def _collect(reader: InMemoryMetricReader) -> dict[str, Any]:
    collected = reader.get_metrics_data()
    assert collected is not None
    return {
        metric.name: metric
        for resource in collected.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_a_reader_collects_what_the_producer_counts(cluster: EmbeddedCluster) -> None:
    """Totals are monotonic sums, the rest gauges; each collection reads again."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    with kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers, client_id="observed"
    ) as producer:
        observe(producer, meter_provider=provider)
        for round_count in (10, 25):
            for _ in range(round_count):
                producer.send("orders", b"x")
            assert producer.flush(30) == 0
            seen = _collect(reader)
    provider.shutdown()
    sent = seen["kafka.producer.record-send-total"]
    assert isinstance(sent.data, Sum)
    assert sent.data.is_monotonic
    assert [point.value for point in sent.data.data_points] == [35]
    assert sent.unit == "{records}"
    (point,) = seen["kafka.producer.topic.record-send-total"].data.data_points
    assert dict(point.attributes) == {"client-id": "observed", "topic": "orders"}
    nodes = seen["kafka.producer.node.request-latency-max"].data.data_points
    assert [dict(point.attributes)["node-id"] for point in nodes] == ["0"]
    assert seen["kafka.producer.outgoing-byte-rate"].unit == "By/s"
