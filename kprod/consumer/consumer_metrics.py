"""The consumer's metrics, under the names of Kafka's consumer.

Thread-safety: any thread.
Source: Kafka FetchMetricsRegistry, ConsumerCoordinatorMetrics and HeartbeatMetricsManager (clients
4.3.1).
"""

from typing import NamedTuple

from kprod.consumer.group.group_parts import GroupParts
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.selection import Selection

GROUP = "consumer-fetch-manager-metrics"
COORDINATOR_GROUP = "consumer-coordinator-metrics"


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

COORDINATOR_ROWS = (
    ConsumerMetric("commit-total", "requests", "commits that were answered"),
    ConsumerMetric("commit-latency-avg", "ms", "time of a commit, since the start"),
    ConsumerMetric("commit-latency-max", "ms", "longest such time since the start"),
    ConsumerMetric("heartbeat-total", "requests", "heartbeats that were answered"),
    ConsumerMetric("last-heartbeat-seconds-ago", "s", "time since the newest response"),
    ConsumerMetric("rebalance-total", "rebalances", "assignments that were taken over"),
)
"""The metrics of a consumer with `group_id`, in the order of the page."""


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
    if parts.group is not None:
        found[COORDINATOR_GROUP] = _group_metrics(parts.group, parts.clock.now_ms())
    for key, lag in lags.items():
        name = f"{GROUP}.{key.topic}-{key.partition}"
        found[name] = {"records-lag": float(lag)}
    return found


def _group_metrics(group: GroupParts, now_ms: int) -> dict[str, float]:
    commits, heartbeats = group.commits, group.membership.heartbeats
    count, answered_ms = commits.count, heartbeats.answered_ms
    return {
        "commit-total": float(count),
        "commit-latency-avg": commits.latency_ms_total / count if count else float("nan"),
        "commit-latency-max": float(commits.latency_ms_max) if count else float("nan"),
        "heartbeat-total": float(heartbeats.count),
        "last-heartbeat-seconds-ago": (
            (now_ms - answered_ms) / 1_000 if answered_ms else float("nan")
        ),
        "rebalance-total": float(group.membership.rebalance_count),
    }
