"""Messages from tasks to the driver are added up, and can be read from a report's line."""

import pickle
from pathlib import Path

import pytest

from kprod.spark.columns import Columns
from kprod.spark.delivery_guarantee import AtLeastOnce
from kprod.spark.options import read_options
from kprod.spark.reports import append_report, last_write, writes
from kprod.spark.task_messages import OffsetSpan, TaskMessage, TaskReport, WriteReport
from kprod.spark.traffic import Traffic


def message(partition_id: int, first: int) -> TaskMessage:
    """Return a task's message about two topics."""
    report = TaskReport(skipped_count=1)
    report.add("a", 0, OffsetSpan(10, first, first + 9))
    report.add("a", 0, OffsetSpan(5, first + 20, first + 24))
    report.add("b", 3, OffsetSpan(1, -1, -1))
    return report.message(partition_id, 0)


def test_spans_of_one_partition_join() -> None:
    """Counts add up, offsets reach from the least to the greatest, the unknown tells nothing."""
    told = pickle.loads(pickle.dumps(message(0, 100)))
    assert told.spans == {"a": {0: OffsetSpan(15, 100, 124)}, "b": {3: OffsetSpan(1, -1, -1)}}
    assert told.record_count == 16


def test_a_report_adds_up_its_tasks() -> None:
    """A task that never finished counts for nothing."""
    report = WriteReport.of([message(0, 100), None, message(1, 50)], 7)
    assert report.batch_id == 7
    assert report.task_count == 2
    assert report.record_count == 32
    assert report.skipped_count == 2
    assert report.spans == {"a": {0: OffsetSpan(30, 50, 124)}, "b": {3: OffsetSpan(2, -1, -1)}}
    assert "batch 7: 32 records of 2 tasks, 2 skipped" in report.summary()
    assert WriteReport.from_json(report.to_json()) == report


def test_failed_attempts_bound_the_repeated_rows() -> None:
    """A task's third attempt succeeded: its rows may be in the topics three times."""
    report = TaskReport()
    report.add("a", 0, OffsetSpan(10, 0, 9))
    told = [report.message(0, 2, 7), report.message(1, 0, 7), None]
    whole = WriteReport.of(told)
    assert (whole.batch_id, whole.attempt_count, whole.repeated_count_max) == (7, 4, 20)
    assert "4 attempts, at most 20 rows repeated" in whole.summary()
    assert WriteReport.from_json(whole.to_json()) == whole


def test_traffic_adds_up() -> None:
    """Counts are sums, times are those of the slowest."""
    one = Traffic(sent_bytes=5, retried_count=1, acknowledgement_ms_max=2.0, duration_ms=30)
    two = Traffic(sent_bytes=7, retried_count=2, acknowledgement_ms_max=9.5, duration_ms=10)
    messages = [TaskReport(traffic=each).message(0, 0) for each in (one, two)]
    assert WriteReport.of(messages).traffic == Traffic(
        sent_bytes=12, retried_count=3, acknowledgement_ms_max=9.5, duration_ms=30
    )


def test_reports_of_a_file(tmp_path: Path) -> None:
    """The last is the newest; before the first commit there is none."""
    path = tmp_path / "writes"
    assert last_write(path) is None
    reports = [WriteReport.of([message(0, n)], n) for n in range(3)]
    for report in reports:
        append_report(path, report)
    assert list(writes(path)) == reports
    assert last_write(path) == reports[-1]


@pytest.mark.parametrize("line", ["", "1", "{}", '{"spans": 1}', '{"spans": {}, "x": 1}'])
def test_texts_that_are_no_report(line: str) -> None:
    """Another file is told by its first line."""
    with pytest.raises(ValueError, match=r".+"):
        WriteReport.from_json(line)


def test_a_failure_counts_the_finished_tasks_only(caplog: pytest.LogCaptureFixture) -> None:
    """Spark has no message of a task that did not finish, whose records may be in the topics."""
    columns = Columns(
        value="value", key=None, headers=None, topic=None, partition=None, timestamp=None
    )
    delivery = AtLeastOnce(read_options({"bootstrap.servers": "127.0.0.1:1"}), columns)
    delivery.abort([None, None], None)
    assert "unfinished tasks may have written more: 0 records of 0 tasks" in caplog.text
