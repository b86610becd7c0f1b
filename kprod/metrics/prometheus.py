"""Prometheus metrics, by a collector for its client library (`kprod[prometheus]`).

    prometheus_client.REGISTRY.register(ProducerCollector(producer))

Values are read when they are scraped; between scrapes nothing runs. One collector is for all of a
process's producers, since a registry takes each family once.

Thread-safety: any thread.
Source: prometheus_client's custom collectors; the exposition format 1.0 for names.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kprod.metrics.export import FAMILIES, Family, Measured, samples
from kprod.metrics.table import Group, Kind

_PREFIXES = {
    Group.PRODUCER: "kafka_producer_",
    Group.TOPIC: "kafka_producer_topic_",
    Group.NODE: "kafka_producer_node_",
}
_LABELS = {
    Group.PRODUCER: ("client_id",),
    Group.TOPIC: ("client_id", "topic"),
    Group.NODE: ("client_id", "node_id"),
}


class ProducerCollector(Collector):
    """Reads producers for a registry.

    Args:
        *producers: The first producers, each with a different `client_id`.
    """

    def __init__(self, *producers: Measured) -> None:
        self._producers = list(producers)

    def add(self, producer: Measured) -> None:
        """Read another producer, too.

        Args:
            producer: A producer with a new `client_id`.
        """
        self._producers.append(producer)

    def remove(self, producer: Measured) -> None:
        """Read a producer no more.

        Args:
            producer: One that was added.

        Raises:
            ValueError: It was not.
        """
        self._producers.remove(producer)

    def collect(self) -> Iterator[Metric]:
        """Read all producers.

        Yields:
            Every family that has a value.
        """
        read = [(producer.client_id, producer.metrics()) for producer in list(self._producers)]
        for family in FAMILIES:
            metric = _metric(family)
            for client_id, metrics in read:
                for sample in samples(family, client_id, metrics):
                    values = [sample.labels[label] for label in _LABELS[family.group]]
                    metric.add_metric(values, sample.value)
            if metric.samples:
                yield metric


def _metric(family: Family) -> CounterMetricFamily | GaugeMetricFamily:
    name = _PREFIXES[family.group] + family.name.replace("-", "_")
    make = CounterMetricFamily if family.kind is Kind.TOTAL else GaugeMetricFamily
    return make(name, family.meaning, labels=_LABELS[family.group])
