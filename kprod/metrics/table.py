"""Every metric in one table: its name, group, unit, what it says, and how it is made.

Names and groups are those of Kafka's own producer, the values' place in nested dictionaries that of
kafka-python. `docs/metrics.md` and the exporters are made from this table.

Where kprod differs: it has percentiles of latencies; compression rates are of bytes, not averages
of batches' rates; the first window's rates are over the time since the start, not over a whole
window; an average or maximum of nothing is NaN, as in Java.

Thread-safety: immutable.
Source: Kafka SenderMetricsRegistry, KafkaProducerMetrics, BufferPool, Selector (clients 4.3.1).
"""

import enum
import math
from collections.abc import Callable
from typing import NamedTuple

from kprod._core.metrics.counters import latency_bound_ms
from kprod.metrics.metric_windows import Span

NAN = math.nan


class Group(enum.Enum):
    """The group of a metric."""

    PRODUCER = "producer-metrics"
    TOPIC = "producer-topic-metrics"
    NODE = "producer-node-metrics"


class Kind(enum.Enum):
    """Type of a metric: how its value changes."""

    TOTAL = "total"
    """Grows from the start of the producer to its end."""
    RATE = "rate"
    """Per second, over the last 30 to 60 s."""
    AVERAGE = "average"
    """Over the last 30 to 60 s."""
    MAXIMUM = "maximum"
    """Over the last 30 to 60 s."""
    PERCENTILE = "percentile"
    """Over the last 30 to 60 s."""
    VALUE = "value"
    """As it is now."""


Formula = Callable[[object, Span], float]


class Row(NamedTuple):
    """One metric.

    Attributes:
        name: Kafka's.
        kind: Type of the metric.
        unit: Unit of the value, as text; for a rate, per second.
        meaning: One sentence for the documentation.
        formula: Calculates the value from counters and their latest span.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    formula: Formula


def _total(field: str) -> Formula:
    return lambda counters, _: float(getattr(counters, field))


def _rate(field: str) -> Formula:
    return lambda _, span: span.sums[field] * 1_000 / span.elapsed_ms


def _ratio(field: str) -> Formula:
    """A share of time: nanoseconds of a sum per nanosecond."""
    return lambda _, span: span.sums[field] / (span.elapsed_ms * 1_000_000)


def _average(field: str, count: str) -> Formula:
    return lambda _, span: span.sums[field] / span.sums[count] if span.sums[count] else NAN


def _maximum(field: str, count: str) -> Formula:
    return lambda _, span: float(span.peaks[field]) if span.sums[count] else NAN


def _percentile(thousandths: int) -> Formula:
    """Return the percentile of latencies: the upper bound of the bucket that contains it."""

    def value(_: object, span: Span) -> float:
        left = -(-sum(span.latencies) * thousandths // 1_000)
        for bucket, count in enumerate(span.latencies):
            left -= count
            if count and left <= 0:
                return float(latency_bound_ms(bucket))
        return NAN

    return value


def _total_and_rate(stem: str, unit: str, meaning: str, field: str) -> tuple[Row, Row]:
    return (
        Row(f"{stem}-total", Kind.TOTAL, unit, f"{meaning}.", _total(field)),
        Row(f"{stem}-rate", Kind.RATE, unit, f"{meaning}, per second.", _rate(field)),
    )


def _average_and_maximum(
    stem: str, unit: str, meaning: str, fields: tuple[str, str]
) -> tuple[Row, Row]:
    """The average of a sum over a count, and the peak that is named after the sum."""
    field, count = fields
    return (
        Row(f"{stem}-avg", Kind.AVERAGE, unit, f"{meaning}, on average.", _average(field, count)),
        Row(
            f"{stem}-max",
            Kind.MAXIMUM,
            unit,
            f"{meaning}, at most.",
            _maximum(f"{field}_max", count),
        ),
    )


_REQUESTS = (
    *_total_and_rate("request", "requests", "Requests of every kind sent", "requests"),
    *_total_and_rate("response", "responses", "Responses of every kind received", "responses"),
    *_total_and_rate("outgoing-byte", "bytes", "Bytes of requests sent", "request_bytes"),
    *_total_and_rate("incoming-byte", "bytes", "Bytes of responses received", "response_bytes"),
    *_average_and_maximum(
        "request-size", "bytes", "Size of a request", ("request_bytes", "requests")
    ),
    *_average_and_maximum(
        "request-latency",
        "ms",
        "From the sending of a Produce request to its response",
        ("latency_ms", "answers"),
    ),
)

_RETRIES = (
    *_total_and_rate(
        "record-retry",
        "records",
        "Records that had to be sent again, counted at each time",
        "retried_records",
    ),
    *_total_and_rate("record-error", "records", "Records that failed for good", "failed_records"),
)

SENDER_ROWS: tuple[Row, ...] = (
    *_total_and_rate("batch-send", "batches", "Batches sent, counted at each attempt", "batches"),
    *_total_and_rate("record-send", "records", "Records sent, counted at each attempt", "records"),
    *_RETRIES,
    *_average_and_maximum(
        "record-queue-time",
        "ms",
        "From a batch's first record to its being sent",
        ("queued_ms", "batches"),
    ),
    *_average_and_maximum(
        "batch-size", "bytes", "Size of a batch on the wire", ("encoded_bytes", "batches")
    ),
    *_total_and_rate(
        "batch-split", "batches", "Batches too large for the broker that were cut", "splits"
    ),
    Row(
        "record-size-avg",
        Kind.AVERAGE,
        "bytes",
        "Size of a record before compression, on average.",
        _average("plain_bytes", "records"),
    ),
    Row(
        "records-per-request-avg",
        Kind.AVERAGE,
        "records",
        "Records in a Produce request, on average.",
        _average("records", "produce_requests"),
    ),
    Row(
        "compression-rate-avg",
        Kind.AVERAGE,
        "ratio",
        "Size of batches on the wire by that before compression.",
        _average("encoded_bytes", "plain_bytes"),
    ),
    *_average_and_maximum(
        "produce-throttle-time",
        "ms",
        "Throttle time in a response",
        ("throttled_ms", "answers"),
    ),
    *_REQUESTS,
    *(
        Row(
            f"request-latency-{name}",
            Kind.PERCENTILE,
            "ms",
            f"{share} of the Produce requests had their response within so long; to an eighth.",
            _percentile(thousandths),
        )
        for name, share, thousandths in (
            ("p50", "Half", 500),
            ("p95", "95 %", 950),
            ("p99", "99 %", 990),
            ("p999", "99.9 %", 999),
        )
    ),
    *_total_and_rate("connection-creation", "connections", "Connections made", "connections_made"),
    *_total_and_rate(
        "connection-close", "connections", "Connections closed or lost", "connections_closed"
    ),
    *_total_and_rate("successful-authentication", "logins", "Logins that succeeded", "logins"),
    *_total_and_rate("failed-authentication", "logins", "Logins that failed", "failed_logins"),
    *_total_and_rate(
        "successful-reauthentication",
        "logins",
        "Logins that were made again on a connection",
        "logins_again",
    ),
    *_total_and_rate(
        "failed-reauthentication",
        "logins",
        "Logins that were to be made again on a connection, and failed",
        "failed_logins_again",
    ),
    *_average_and_maximum(
        "reauthentication-latency",
        "ms",
        "From the begin of another login on a connection to its end",
        ("login_again_ms", "logins_again"),
    ),
    *_total_and_rate("select", "calls", "Turns of the sender", "selects"),
    Row(
        "io-wait-time-ns-total",
        Kind.TOTAL,
        "ns",
        "Time that the sender slept, or waited for the interpreter.",
        _total("waited_ns"),
    ),
    Row(
        "io-wait-time-ns-avg",
        Kind.AVERAGE,
        "ns",
        "The same, per turn.",
        _average("waited_ns", "selects"),
    ),
    Row("io-wait-ratio", Kind.RATE, "ratio", "The same, as a part of all.", _ratio("waited_ns")),
    Row(
        "io-time-ns-total",
        Kind.TOTAL,
        "ns",
        "Time in which the sender read and wrote sockets and settled responses.",
        _total("served_ns"),
    ),
    Row(
        "io-time-ns-avg",
        Kind.AVERAGE,
        "ns",
        "The same, per turn.",
        _average("served_ns", "selects"),
    ),
    Row("io-ratio", Kind.RATE, "ratio", "The same, as a part of all.", _ratio("served_ns")),
)

CALLER_ROWS: tuple[Row, ...] = (
    Row(
        "bufferpool-wait-time-ns-total",
        Kind.TOTAL,
        "ns",
        "Time that sends waited for memory.",
        _total("memory_waits_ns"),
    ),
    Row(
        "bufferpool-wait-time-total",
        Kind.TOTAL,
        "ns",
        "The same under its older name.",
        _total("memory_waits_ns"),
    ),
    Row(
        "bufferpool-wait-ratio",
        Kind.RATE,
        "ratio",
        "Time that sends waited for memory, as a part of all; several may wait at once.",
        _ratio("memory_waits_ns"),
    ),
    *_total_and_rate(
        "buffer-exhausted", "sends", "Sends that got no memory in time", "rejected_for_memory"
    ),
    Row(
        "metadata-wait-time-ns-total",
        Kind.TOTAL,
        "ns",
        "Time that sends waited for a topic to become known.",
        _total("metadata_waits_ns"),
    ),
    Row("flush-time-ns-total", Kind.TOTAL, "ns", "Time spent in `flush`.", _total("flushes_ns")),
)

TOPIC_ROWS: tuple[Row, ...] = (
    *_total_and_rate("record-send", "records", "Records sent, counted at each attempt", "records"),
    *_total_and_rate("byte", "bytes", "Bytes of batches sent", "encoded_bytes"),
    Row(
        "compression-rate",
        Kind.AVERAGE,
        "ratio",
        "Size of batches on the wire by that before compression.",
        _average("encoded_bytes", "plain_bytes"),
    ),
    *_RETRIES,
)

NODE_ROWS: tuple[Row, ...] = _REQUESTS


class Gauge(NamedTuple):
    """A metric whose value comes from another part: name, unit, meaning."""

    name: str
    unit: str
    meaning: str


GAUGES: tuple[Gauge, ...] = (
    Gauge("connection-count", "connections", "Connections that can be used."),
    Gauge("requests-in-flight", "requests", "Requests that wait for a response."),
    Gauge("buffer-total-bytes", "bytes", "`buffer_memory`."),
    Gauge("buffer-available-bytes", "bytes", "The part of it that batches do not use."),
    Gauge("waiting-threads", "threads", "Sends that wait for memory."),
    Gauge("metadata-age", "s", "Since the newest response about all topics; NaN before the first."),
)
