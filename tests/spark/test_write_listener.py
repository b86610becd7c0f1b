"""Reports reach the application with the query's progress."""

from pathlib import Path
from typing import Any

from kprod.spark.reports import append_report
from kprod.spark.task_messages import TaskReport, WriteReport
from kprod.spark.write_listener import WriteListener


def report_of(batch_id: int) -> WriteReport:
    """Return the report of an empty micro-batch."""
    return WriteReport.of([TaskReport().message(0, 0)], batch_id)


def test_each_report_is_handed_over_once(tmp_path: Path) -> None:
    """Those of earlier runs are not; the last one is when the query ends."""
    path = tmp_path / "writes"
    append_report(path, report_of(0))
    told: list[WriteReport] = []
    listener = WriteListener(path, told.append)
    event: Any = None
    listener.onQueryStarted(event)
    append_report(path, report_of(1))
    listener.onQueryIdle(event)
    assert told == []
    listener.onQueryProgress(event)
    listener.onQueryProgress(event)
    assert [report.batch_id for report in told] == [1]
    append_report(path, report_of(2))
    listener.onQueryTerminated(event)
    assert [report.batch_id for report in told] == [1, 2]
