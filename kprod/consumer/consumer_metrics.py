"""The consumer's metrics, under the names of Kafka's consumer.

Thread-safety: any thread.
Source: Kafka FetchMetricsRegistry (clients 4.3.1).
"""

from kprod.consumer.parts import ConsumerParts
from kprod.consumer.selection import Selection


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
        "consumer-fetch-manager-metrics": {
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
        name = f"consumer-fetch-manager-metrics.{key.topic}-{key.partition}"
        found[name] = {"records-lag": float(lag)}
    return found
