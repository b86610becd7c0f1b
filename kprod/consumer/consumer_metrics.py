"""The consumer's metrics, under the names of Kafka's consumer.

Thread-safety: any thread.
Source: Kafka FetchMetricsRegistry (clients 4.3.1).
"""

from typing import NamedTuple

from kprod.consumer.parts import ConsumerParts
from kprod.consumer.selection import Selection

GROUP = "consumer-fetch-manager-metrics"


class ConsumerMetric(NamedTuple):
    """A metric of a consumer, for its page.

    Attributes:
        name: Name in its group.
        unit: Unit of the value.
        meaning: Meaning of the value.
        of_partition: Whether it is in the group of a partition.
    """

    name: str
    unit: str
    meaning: str
    of_partition: bool = False


ROWS = (
    ConsumerMetric("records-consumed-total", "records", "records returned to the application"),
    ConsumerMetric("bytes-consumed-total", "bytes", "fetched record batches, as brokers sent them"),
    ConsumerMetric("fetch-total", "requests", "fetch requests that were answered"),
    ConsumerMetric(
        "fetch-latency-avg", "ms", "time of a fetch, with the broker's wait, since the start"
    ),
    ConsumerMetric("fetch-latency-max", "ms", "longest such time since the start"),
    ConsumerMetric("records-lag-max", "offsets", "largest lag of an assigned partition"),
    ConsumerMetric("assigned-partitions", "partitions", "assigned partitions"),
    ConsumerMetric(
        "buffered-bytes", "bytes", "memory of responses that have unread records (kprod's own)"
    ),
    ConsumerMetric(
        "truncation-total", "truncations", "truncated logs that were found (kprod's own)"
    ),
    ConsumerMetric(
        "records-lag", "offsets", "offsets between position and log end", of_partition=True
    ),
)
"""All metrics, in the order of the page."""


def metrics_of(
    parts: ConsumerParts, selection: Selection, truncation_count: int
) -> dict[str, dict[str, float]]:
    """Calculate the metrics from the counters.

    Args:
        parts: The consumer's parts.
        selection: The consumer's assignment.
        truncation_count: Number of log truncations found.

    Returns:
        Values by group and name.
    """
    counts = parts.fetcher.counts
    lags = {
        key: lag
        for key in parts.assignment.partitions
        if parts.closed_error is None and (lag := selection.lag(key)) is not None
    }
    fetches = counts.fetch_count
    found = {
        GROUP: {
            "records-consumed-total": float(parts.hand_over.record_count),
            "bytes-consumed-total": float(counts.bytes_total),
            "fetch-total": float(fetches),
            "fetch-latency-avg": counts.latency_ms_total / fetches if fetches else float("nan"),
            "fetch-latency-max": float(counts.latency_ms_max) if fetches else float("nan"),
            "records-lag-max": float(max(lags.values(), default=0)),
            "assigned-partitions": float(len(parts.assignment.partitions)),
            "buffered-bytes": float(parts.buffer.held_bytes),
            "truncation-total": float(truncation_count),
        }
    }
    for key, lag in lags.items():
        name = f"{GROUP}.{key.topic}-{key.partition}"
        found[name] = {"records-lag": float(lag)}
    return found
