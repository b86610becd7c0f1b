"""Records the events of a producer, and computes Kafka's metrics from them on request.

Told per batch, per request, per turn and per wait, never per record. `SilentRecorder` takes the
same calls and keeps nothing: what counting costs is the difference.

Invariants.
    Nothing here blocks the sender: there is no lock.
    As many topics as the application sends to, at most `NODES_MAX` nodes: a cluster that gives its
    brokers new numbers again and again does not fill the memory.

Thread-safety: `read` and what `Counting` says of itself from any thread; the rest by the sender.
Source: Kafka BufferPool, KafkaProducerMetrics (clients 4.3.1) for what callers' waits are.
"""

from collections.abc import Mapping, Sequence

from kprod._core.clock import SystemClock
from kprod._core.metrics.counters import (
    CallerCounters,
    Counting,
    NodeCounters,
    NotCounting,
    ProducerCounters,
    TopicCounters,
)
from kprod.metrics.metric_windows import WINDOW_MS, MetricWindows
from kprod.metrics.table import CALLER_ROWS, NODE_ROWS, SENDER_ROWS, TOPIC_ROWS, Group, Row

NODES_MAX = 1_024

Metrics = dict[str, dict[str, float]]
"""Values by name, by group: `metrics["producer-metrics"]["record-send-total"]`."""


def names_of(counters: object) -> list[str]:
    """Name the counters of an object.

    Args:
        counters: Any of the kinds here.

    Returns:
        All its integers.
    """
    names = (name for name in dir(counters) if not name.startswith("_"))
    return [name for name in names if isinstance(getattr(counters, name), int)]


PRODUCER_NAMES = names_of(ProducerCounters())
TOPIC_NAMES = names_of(TopicCounters())
NODE_NAMES = names_of(NodeCounters())
CALLER_NAMES = names_of(CallerCounters())


class SilentRecorder(NotCounting):
    """Keeps nothing."""

    def read(self, now_ms: int, gauges: Mapping[str, float]) -> Metrics:  # noqa: ARG002
        """See `MetricsRecorder.read`."""
        return {Group.PRODUCER.value: dict(gauges)}


class MetricsRecorder(Counting):
    """Counts, and keeps windows of what it has counted.

    Args:
        clock: The producer's.
    """

    def __init__(self, clock: SystemClock) -> None:
        self._now_ms = clock.now_ms()  # when the present windows began
        super().__init__(clock, self._now_ms + WINDOW_MS)
        self._producer_windows = MetricWindows(self.producer, PRODUCER_NAMES, self._now_ms)
        self._topic_windows: dict[str, MetricWindows] = {}
        self._node_windows: dict[int, MetricWindows] = {}
        self._caller_windows = MetricWindows(self.callers, CALLER_NAMES, self._now_ms)

    def read(self, now_ms: int, gauges: Mapping[str, float]) -> Metrics:
        """Make the metrics; any thread.

        Args:
            now_ms: Monotonic time.
            gauges: Gauges of other parts: values by name, for the producer's group.

        Returns:
            Everything by group. An average or maximum of nothing is NaN.
        """
        producer = dict(gauges)
        producer |= _values(SENDER_ROWS, self._producer_windows, now_ms)
        producer |= _values(CALLER_ROWS, self._caller_windows, now_ms)
        counters = self.producer
        producer["connection-count"] = float(
            counters.connections_made - counters.connections_closed
        )
        metrics = {Group.PRODUCER.value: producer}
        for name, topic in list(self._topic_windows.items()):
            metrics[f"{Group.TOPIC.value}.{name}"] = _values(TOPIC_ROWS, topic, now_ms)
        for node_id, node in list(self._node_windows.items()):
            metrics[f"{Group.NODE.value}.node-{node_id}"] = _values(NODE_ROWS, node, now_ms)
        return metrics

    # Called by the compiled part.

    def make_topic(self, name: str) -> TopicCounters:
        """Start counting for a topic."""
        counters = super().make_topic(name)
        self._topic_windows.setdefault(name, MetricWindows(counters, TOPIC_NAMES, self._now_ms))
        return counters

    def make_node(self, node_id: int) -> NodeCounters:
        """Start counting for a node, if there are not too many."""
        if len(self.nodes) >= NODES_MAX:
            return NodeCounters()
        counters = super().make_node(node_id)
        self._node_windows[node_id] = MetricWindows(counters, NODE_NAMES, self._now_ms)
        return counters

    def next_window(self, now_ms: int) -> int:
        """Open the next window of every counter."""
        self._now_ms = now_ms
        self._producer_windows.advance(now_ms)
        for windows in (*self._topic_windows.values(), *self._node_windows.values()):
            windows.advance(now_ms)
        self._caller_windows.advance(now_ms)
        return now_ms + WINDOW_MS


Recorder = MetricsRecorder | SilentRecorder


def _values(rows: Sequence[Row], windows: MetricWindows, now_ms: int) -> dict[str, float]:
    span = windows.span(now_ms)
    return {row.name: row.formula(windows.counters, span) for row in rows}
