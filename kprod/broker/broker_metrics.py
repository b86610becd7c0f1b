"""The metrics of an embedded cluster: one table, and the function that reads their values.

Names and groups are those of Kafka's MBeans in `kafka.log`: the group is the MBean's type, followed
by the partition where there is one. Values are read when they are asked for; only flushes and
rounds of compaction are counted before.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog, LogManager, LogFlushStats, LogCleaner and LogCleanerManager (4.3).
"""

from typing import NamedTuple, Protocol

from kprod.broker.log.cleaning.cleaner import LogCleaner
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.partition_logs import PartitionLogs
from kprod.broker.topics import TopicRegistry

LOG = "Log"
DIRECTORIES = "LogManager"
ROUNDS = "LogCleaner"
SEARCHES = "LogCleanerManager"
FLUSHES = "LogFlushStats.LogFlushRateAndTimeMs"

Metrics = dict[str, dict[str, float]]
"""Values by group and name."""


class MeasuredCluster(Protocol):
    """The parts of the cluster that have metrics.

    Attributes:
        topics: All topics.
        cleaner: Compacts the logs.
        logs: Provides the partitions' logs.
    """

    topics: TopicRegistry
    cleaner: LogCleaner
    logs: PartitionLogs


class MetricRow(NamedTuple):
    """One metric.

    Attributes:
        group: The group that has it; those of partitions are `Log.<topic>-<partition>`.
        name: Kafka's name.
        unit: Unit of the value, as text.
        meaning: One sentence for the documentation.
    """

    group: str
    name: str
    unit: str
    meaning: str


ROWS: tuple[MetricRow, ...] = (
    MetricRow(LOG, "Size", "bytes", "Size of all segments of the partition."),
    MetricRow(LOG, "NumLogSegments", "segments", "Number of the partition's segments."),
    MetricRow(LOG, "LogStartOffset", "offset", "First offset that can be read."),
    MetricRow(LOG, "LogEndOffset", "offset", "Offset of the next record."),
    MetricRow(
        DIRECTORIES, "OfflineLogDirectoryCount", "directories", "Directories that have failed."
    ),
    MetricRow(FLUSHES, "Count", "flushes", "Flushes of logs; in memory there are none."),
    MetricRow(FLUSHES, "MeanRate", "flushes", "The same, per second since the start."),
    MetricRow(
        FLUSHES,
        "Mean",
        "ms",
        "Duration of a flush, on average; in the background it includes the wait for other syncs.",
    ),
    MetricRow(FLUSHES, "Max", "ms", "The same, at most."),
    MetricRow(
        ROUNDS,
        "cleaner-recopy-percent",
        "%",
        "Bytes of new segments by bytes of old ones, in the last round of compaction.",
    ),
    MetricRow(
        ROUNDS,
        "max-buffer-utilization-percent",
        "%",
        "Keys in the last round's map, as a part of those that fit; Kafka counts spare slots, too.",
    ),
    MetricRow(ROUNDS, "max-clean-time-secs", "s", "Duration of the last round."),
    MetricRow(
        SEARCHES,
        "max-dirty-percent",
        "%",
        "Dirty bytes of the dirtiest partition, as a part of its bytes that may be compacted.",
    ),
    MetricRow(
        SEARCHES,
        "time-since-last-run-ms",
        "ms",
        "Since the last search for dirty partitions; an idle cluster does not search.",
    ),
    MetricRow(
        SEARCHES,
        "uncleanable-partitions-count",
        "partitions",
        "Partitions whose rounds failed, which are not compacted until the next start.",
    ),
    MetricRow(SEARCHES, "uncleanable-bytes", "bytes", "Size of these partitions."),
)


def read_metrics(cluster: MeasuredCluster) -> Metrics:
    """Read all metrics; the time grows with the number of segments.

    Args:
        cluster: The cluster.

    Returns:
        Values by name, by group.
    """
    flushes, cleaner = cluster.logs.flushes, cluster.cleaner
    metrics: Metrics = {
        DIRECTORIES: {"OfflineLogDirectoryCount": cluster.logs.offline_count},
        FLUSHES: flushes.metrics(),
        ROUNDS: cleaner.stats.metrics(),
        SEARCHES: cleaner.metrics(),
    }
    for partition in cluster.topics.partitions():
        name, index = partition.name
        metrics[f"{LOG}.{name}-{index}"] = _of_log(partition.log)
    return metrics


def _of_log(log: PartitionLog) -> dict[str, float]:
    return {
        "Size": log.size_bytes,
        "NumLogSegments": len(log.segments),
        "LogStartOffset": log.log_start_offset,
        "LogEndOffset": log.log_end_offset,
    }
