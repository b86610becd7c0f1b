"""A file of reports as counters."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from kprod.spark.reports import ReportTail, append_report
from kprod.spark.task_messages import OffsetSpan, TaskReport, WriteReport
from kprod.spark.traffic import Traffic
from kprod.spark.write_collector import WriteCollector


def report_of(batch_id: int) -> WriteReport:
    """Return a write of one task with one bad row, in its second attempt."""
    task = TaskReport(traffic=Traffic(sent_bytes=500, duration_ms=1_500))
    task.add("a", 0, OffsetSpan(10, 0, 9))
    task.add_bad_row("too large", "?", None, is_dead_letter=True)
    return WriteReport.of([task.message(0, 1)], batch_id)


def test_reports_add_up(tmp_path: Path) -> None:
    """Each report is counted once, however often the registry is scraped."""
    path = tmp_path / "writes"
    registry = CollectorRegistry()
    registry.register(WriteCollector(path))
    value = registry.get_sample_value
    assert value("kprod_spark_records_total") == 0
    for batch_id in range(3):
        append_report(path, report_of(batch_id))
        assert value("kprod_spark_records_total") == 10 * (batch_id + 1)
    assert value("kprod_spark_writes_total") == 3
    assert value("kprod_spark_attempts_total") == 6
    assert value("kprod_spark_repeated_rows_max_total") == 30
    assert value("kprod_spark_sent_bytes_total") == 1_500
    assert value("kprod_spark_bad_rows_total", {"reason": "too large"}) == 3
    assert value("kprod_spark_last_task_duration_seconds") == pytest.approx(1.5)


def test_a_tail_reads_whole_lines_once(tmp_path: Path) -> None:
    """A half written line waits; a file that was replaced is read from its beginning."""
    path = tmp_path / "writes"
    tail = ReportTail(path)
    assert tail.new() == []
    line = report_of(1).to_json()
    path.write_text(f"{line}\n{line[:20]}", "utf-8")
    assert tail.new() == [report_of(1)]
    assert tail.new() == []
    path.write_text(f"{line}\n{line}\n", "utf-8")
    assert tail.new() == [report_of(1)]
    path.write_text(f"{report_of(2).to_json()}\n", "utf-8")
    assert tail.new() == [report_of(2)]
    path.write_text("no report\n" * 100, "utf-8")
    with pytest.raises(ValueError, match="no line of a write report"):
        tail.new()
