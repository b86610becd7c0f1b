"""Who is told what happened in a producer, and makes Kafka's metrics of it when asked.

Told per batch, per request, per turn and per wait, never per record. `SilentRecorder` takes the
same calls and keeps nothing: what recording costs is the difference.

Invariants.
    Nothing here blocks the sender: the lock is the application threads' own.
    As many topics as the application sends to, at most `NODES_MAX` nodes: a cluster that gives its
    brokers new numbers again and again does not fill the memory.

Thread-safety: by method: those of the sender, those of application threads (which take the lock),
    and `read`, any thread.
Source: Kafka SenderMetricsRegistry, BufferPool, Selector (clients 4.3.1) for what is counted where.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from kprod._core.batch import BatchBuilder
from kprod._core.future import BatchResult
from kprod.metrics.table import CALLER_ROWS, NODE_ROWS, SENDER_ROWS, TOPIC_ROWS, Group, Row
from kprod.metrics.tally import (
    WINDOW_MS,
    CallerTally,
    NodeTally,
    SenderTally,
    Span,
    Tally,
    TopicTally,
)

NODES_MAX = 1_024

Metrics = dict[str, dict[str, float]]
"""Values by name, by group: `metrics["producer-metrics"]["record-send-total"]`."""


class MeasuredBatch(Protocol):
    """A batch as far as it is measured."""

    builder: BatchBuilder
    result: BatchResult


class Recorder(Protocol):
    """Takes note of what happens."""

    def produced(self, batches: Sequence[MeasuredBatch], now_ms: int) -> None:
        """A Produce request was made of these batches; the sender."""

    def answered(self, node_id: int, latency_ms: int, throttle_ms: int) -> None:
        """A Produce request was answered; the sender."""

    def retried(self, topic: str, record_count: int) -> None:
        """A batch goes again; the sender."""

    def failed(self, topic: str, record_count: int) -> None:
        """A batch has failed for good; the sender."""

    def split(self) -> None:
        """A batch was cut in two; the sender."""

    def requested(self, node_id: int, size_bytes: int) -> None:
        """A request of any kind is on its way; the sender."""

    def responded(self, node_id: int, size_bytes: int) -> None:
        """A response of any kind came; the sender."""

    def connected(self) -> None:
        """A connection can be used; the sender."""

    def disconnected(self) -> None:
        """A connection that could be used is gone; the sender."""

    def polled(self, waited_ns: int, served_ns: int, now_ms: int) -> None:
        """The sender slept, then served what was ready; the sender."""

    def waited_for_memory(self, waited_ns: int, *, in_vain: bool) -> None:
        """A send waited in the buffer's line; any thread."""

    def waited_for_metadata(self, waited_ns: int) -> None:
        """A send waited for a topic; any thread."""

    def flushed(self, waited_ns: int) -> None:
        """A flush is over; any thread."""

    def read(self, now_ms: int, gauges: Mapping[str, float]) -> Metrics:
        """Make the metrics; any thread."""


class SilentRecorder:
    """Keeps nothing."""

    __slots__ = ()

    def produced(self, batches: Sequence[MeasuredBatch], now_ms: int) -> None:
        """See `Recorder.produced`."""

    def answered(self, node_id: int, latency_ms: int, throttle_ms: int) -> None:
        """See `Recorder.answered`."""

    def retried(self, topic: str, record_count: int) -> None:
        """See `Recorder.retried`."""

    def failed(self, topic: str, record_count: int) -> None:
        """See `Recorder.failed`."""

    def split(self) -> None:
        """See `Recorder.split`."""

    def requested(self, node_id: int, size_bytes: int) -> None:
        """See `Recorder.requested`."""

    def responded(self, node_id: int, size_bytes: int) -> None:
        """See `Recorder.responded`."""

    def connected(self) -> None:
        """See `Recorder.connected`."""

    def disconnected(self) -> None:
        """See `Recorder.disconnected`."""

    def polled(self, waited_ns: int, served_ns: int, now_ms: int) -> None:
        """See `Recorder.polled`."""

    def waited_for_memory(self, waited_ns: int, *, in_vain: bool) -> None:
        """See `Recorder.waited_for_memory`."""

    def waited_for_metadata(self, waited_ns: int) -> None:
        """See `Recorder.waited_for_metadata`."""

    def flushed(self, waited_ns: int) -> None:
        """See `Recorder.flushed`."""

    def read(self, now_ms: int, gauges: Mapping[str, float]) -> Metrics:  # noqa: ARG002
        """See `Recorder.read`."""
        return {Group.PRODUCER.value: dict(gauges)}


class MetricsRecorder:
    """Keeps tallies: of the producer, of its callers, of each node and topic."""

    __slots__ = ("_callers", "_lock", "_nodes", "_now_ms", "_sender", "_topics", "_turns_at_ms")

    def __init__(self, now_ms: int) -> None:
        """Begin at zero.

        Args:
            now_ms: Monotonic.
        """
        self._sender = SenderTally(now_ms)
        self._callers = CallerTally(now_ms)
        self._nodes: dict[int, NodeTally] = {}
        self._topics: dict[str, TopicTally] = {}
        self._now_ms = now_ms  # of the sender's newest turn; windows of new tallies begin there
        self._turns_at_ms = now_ms + WINDOW_MS
        # Re-entrant: a finalizer or signal handler that runs in here may send.
        self._lock = threading.RLock()  # guards: writes to _callers

    def produced(self, batches: Sequence[MeasuredBatch], now_ms: int) -> None:
        """See `Recorder.produced`."""
        tally = self._sender
        for batch in batches:
            builder, result = batch.builder, batch.result
            record_count, encoded_bytes = builder.record_count, builder.encoded_bytes
            plain_bytes, queued_ms = builder.size_bytes, now_ms - result.created_ms
            tally.batches += 1
            tally.records += record_count
            tally.plain_bytes += plain_bytes
            tally.encoded_bytes += encoded_bytes
            tally.queued_ms += queued_ms
            if queued_ms > tally.queued_ms_max:
                tally.queued_ms_max = queued_ms
            if encoded_bytes > tally.encoded_bytes_max:
                tally.encoded_bytes_max = encoded_bytes
            topic = self._topics.get(result.topic) or self._topic(result.topic)
            topic.records += record_count
            topic.plain_bytes += plain_bytes
            topic.encoded_bytes += encoded_bytes
        tally.produce_requests += 1

    def answered(self, node_id: int, latency_ms: int, throttle_ms: int) -> None:
        """See `Recorder.answered`."""
        tally = self._sender
        tally.answers += 1
        tally.latency_ms += latency_ms
        tally.throttled_ms += throttle_ms
        if latency_ms > tally.latency_ms_max:
            tally.latency_ms_max = latency_ms
        if throttle_ms > tally.throttled_ms_max:
            tally.throttled_ms_max = throttle_ms
        node = self._nodes.get(node_id) or self._node(node_id)
        node.answers += 1
        node.latency_ms += latency_ms
        if latency_ms > node.latency_ms_max:
            node.latency_ms_max = latency_ms

    def retried(self, topic: str, record_count: int) -> None:
        """See `Recorder.retried`."""
        self._sender.retried_records += record_count
        self._topic(topic).retried_records += record_count

    def failed(self, topic: str, record_count: int) -> None:
        """See `Recorder.failed`."""
        self._sender.failed_records += record_count
        self._topic(topic).failed_records += record_count

    def split(self) -> None:
        """See `Recorder.split`."""
        self._sender.splits += 1

    def requested(self, node_id: int, size_bytes: int) -> None:
        """See `Recorder.requested`."""
        tally = self._sender
        tally.requests += 1
        tally.request_bytes += size_bytes
        if size_bytes > tally.request_bytes_max:
            tally.request_bytes_max = size_bytes
        node = self._nodes.get(node_id) or self._node(node_id)
        node.requests += 1
        node.request_bytes += size_bytes
        if size_bytes > node.request_bytes_max:
            node.request_bytes_max = size_bytes

    def responded(self, node_id: int, size_bytes: int) -> None:
        """See `Recorder.responded`."""
        self._sender.responses += 1
        self._sender.response_bytes += size_bytes
        node = self._nodes.get(node_id) or self._node(node_id)
        node.responses += 1
        node.response_bytes += size_bytes

    def connected(self) -> None:
        """See `Recorder.connected`."""
        self._sender.connections_made += 1

    def disconnected(self) -> None:
        """See `Recorder.disconnected`."""
        self._sender.connections_closed += 1

    def polled(self, waited_ns: int, served_ns: int, now_ms: int) -> None:
        """See `Recorder.polled`."""
        tally = self._sender
        tally.selects += 1
        tally.waited_ns += waited_ns
        tally.served_ns += served_ns
        if now_ms >= self._turns_at_ms:
            self._turn(now_ms)

    def waited_for_memory(self, waited_ns: int, *, in_vain: bool) -> None:
        """See `Recorder.waited_for_memory`."""
        with self._lock:
            self._callers.memory_waits_ns += waited_ns
            self._callers.refused_for_memory += in_vain

    def waited_for_metadata(self, waited_ns: int) -> None:
        """See `Recorder.waited_for_metadata`."""
        with self._lock:
            self._callers.metadata_waits_ns += waited_ns

    def flushed(self, waited_ns: int) -> None:
        """See `Recorder.flushed`."""
        with self._lock:
            self._callers.flushes_ns += waited_ns

    def read(self, now_ms: int, gauges: Mapping[str, float]) -> Metrics:
        """Make the metrics; any thread.

        Args:
            now_ms: Monotonic.
            gauges: What others know: values by name, for the producer's group.

        Returns:
            Everything by group. An average or maximum of nothing is NaN.
        """
        producer = dict(gauges)
        producer |= _values(SENDER_ROWS, self._sender, now_ms)
        producer |= _values(CALLER_ROWS, self._callers, now_ms)
        producer["connection-count"] = float(
            self._sender.connections_made - self._sender.connections_closed
        )
        metrics = {Group.PRODUCER.value: producer}
        for name, topic in list(self._topics.items()):
            metrics[f"{Group.TOPIC.value}.{name}"] = _values(TOPIC_ROWS, topic, now_ms)
        for node_id, node in list(self._nodes.items()):
            metrics[f"{Group.NODE.value}.node-{node_id}"] = _values(NODE_ROWS, node, now_ms)
        return metrics

    def _turn(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._turns_at_ms = now_ms + WINDOW_MS
        self._sender.turn(now_ms)
        for tally in (*self._topics.values(), *self._nodes.values()):
            tally.turn(now_ms)
        with self._lock:
            self._callers.turn(now_ms)

    def _topic(self, name: str) -> TopicTally:
        tally = self._topics.get(name)
        if tally is None:
            tally = self._topics[name] = TopicTally(self._now_ms)
        return tally

    def _node(self, node_id: int) -> NodeTally:
        tally = self._nodes.get(node_id)
        if tally is None:
            tally = NodeTally(self._now_ms)
            if len(self._nodes) < NODES_MAX:
                self._nodes[node_id] = tally
        return tally


def _values(rows: Sequence[Row], tally: Tally, now_ms: int) -> dict[str, float]:
    span: Span = tally.span(now_ms)
    return {row.name: row.formula(tally, span) for row in rows}
