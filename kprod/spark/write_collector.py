"""Metrics of Spark writes for Prometheus, read from a file of reports (`kprod[prometheus]`).

    prometheus_client.REGISTRY.register(WriteCollector("/var/log/trips.writes"))

It runs where the file is, on the driver's machine, in the query's own process or beside it. Each
scrape reads the reports added to the file.

Thread-safety: any thread.
Source: prometheus_client's custom collectors.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kprod.spark.reports import ReportTail
from kprod.spark.task_messages import WriteReport

__all__ = ["WriteCollector"]

_TOTALS = {
    "writes": "Committed writes: batch jobs and micro-batches.",
    "records": "Rows that are in their topics.",
    "dead_letters": "Rows that went to the topic for dead letters.",
    "skipped_rows": "Rows that were left out.",
    "tasks": "Tasks that wrote.",
    "attempts": "Attempts of these tasks.",
    "repeated_rows_max": "Most rows that failed attempts may have repeated.",
    "retried_records": "Records that producers sent again.",
    "sent_batches": "Record batches on the wire.",
    "sent_bytes": "Their bytes, compressed.",
}


class WriteCollector(Collector):
    """Adds up the reports of a file for a registry.

    Args:
        path: Path in the option `report.path`; it may not exist yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._tail = ReportTail(path)
        self._totals: Counter[str] = Counter()
        self._bad_rows: Counter[str] = Counter()
        self._last: WriteReport | None = None
        self._lock = threading.Lock()  # guards: all of the above

    def collect(self) -> Iterator[Metric]:
        """Read new reports, and give the sums.

        Yields:
            Every counter, and gauges of the last write once there was one.
        """
        with self._lock:
            for report in self._tail.new():
                self._add(report)
            totals, bad_rows, last = dict(self._totals), dict(self._bad_rows), self._last
        for name, meaning in _TOTALS.items():
            yield CounterMetricFamily(f"kprod_spark_{name}", meaning, value=totals.get(name, 0))
        reasons = CounterMetricFamily(
            "kprod_spark_bad_rows", "Rows that can never be records.", labels=["reason"]
        )
        for reason, count in bad_rows.items():
            reasons.add_metric([reason], count)
        yield reasons
        if last is not None:
            yield GaugeMetricFamily(
                "kprod_spark_last_task_duration_seconds",
                "Longest task of the last write.",
                value=last.traffic.duration_ms / 1_000,
            )
            yield GaugeMetricFamily(
                "kprod_spark_last_acknowledgement_seconds",
                "Longest acknowledgement of the last write.",
                value=last.traffic.acknowledgement_ms_max / 1_000,
            )

    def _add(self, report: WriteReport) -> None:
        if report.is_repetition:
            return
        self._last = report
        self._bad_rows.update(report.bad_rows)
        self._totals.update(
            writes=1,
            records=report.record_count,
            dead_letters=report.dead_letter_count,
            skipped_rows=report.skipped_count,
            tasks=report.task_count,
            attempts=report.attempt_count,
            repeated_rows_max=report.repeated_count_max,
            retried_records=report.traffic.retried_count,
            sent_batches=report.traffic.sent_batch_count,
            sent_bytes=report.traffic.sent_bytes,
        )
