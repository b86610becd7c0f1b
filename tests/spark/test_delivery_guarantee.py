"""The driver's work around a write's tasks, and the text of an error that had a secret in it."""

from pathlib import Path

import pyarrow as pa
import pytest

from kprod.errors import MetadataTimeout
from kprod.spark.columns import Columns
from kprod.spark.delivery_guarantee import AtLeastOnce
from kprod.spark.options import read_options
from kprod.spark.reports import last_write
from kprod.spark.task_failure import TaskFailed, TooManyBadRows
from kprod.spark.task_messages import OffsetSpan, TaskMessage, TaskReport

COLUMNS = Columns(value="value", key=None, headers=None, topic=None, partition=None, timestamp=None)
GIVEN = {"bootstrap.servers": "127.0.0.1:1", "topic": "t", "max.block.ms": "100"}
# So short that the tests' own search for secrets leaves out the error before it is scrubbed.
SECRET = "5d-1e"  # noqa: S105 - of this test


def delivery(**own: str) -> AtLeastOnce:
    """Return a write to no broker, dots in the names of options written as two underscores."""
    given = {name.replace("__", "."): text for name, text in own.items()}
    return AtLeastOnce(read_options({**GIVEN, **given}), COLUMNS)


def message(partition_id: int, good: int, bad: int) -> TaskMessage:
    """Return the message of a task with this many rows."""
    report = TaskReport()
    report.add("t", 0, OffsetSpan(good, 0, good - 1))
    for _ in range(bad):
        report.add_bad_row("too large", "?", None, is_dead_letter=partition_id == 0)
    return report.message(partition_id, 0)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ({"max_bad_rows": "3"}, r"4 of 1004 rows can never be records, and max_bad_rows=3"),
        ({"max_bad_ratio": "0.003"}, r"and max_bad_ratio=0\.003: 4 × too large"),
    ],
)
def test_limits_count_the_bad_rows_of_all_tasks(
    tmp_path: Path, limit: dict[str, str], text: str
) -> None:
    """Each task was within the limit; all of them are not, and the write is not committed."""
    path = tmp_path / "writes"
    write = delivery(on_record_error="skip", report__path=str(path), **limit)
    with pytest.raises(TooManyBadRows, match=text):
        write.commit([message(0, 500, 2), message(1, 500, 2)], None)
    assert last_write(path) is None
    write.commit([message(0, 500, 2), message(1, 500, 1)], None)
    report = last_write(path)
    assert report is not None
    assert (report.dead_letter_count, report.skipped_count) == (2, 1)


def test_an_error_without_its_secret_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a part of its text, since a traceback of its own would have the secret."""
    monkeypatch.setenv("KPROD_SECRET", SECRET)
    with pytest.raises(TaskFailed) as caught:
        delivery(linger__ms="env:KPROD_SECRET").write(iter(()))
    text = str(caught.value)
    assert text.startswith("ConfigError: linger.ms (ms) must be a whole number, not '***'")
    assert "Traceback (most recent call last)" in text
    assert ", in _write_with" in text
    assert SECRET not in text
    assert caught.value.__context__ is None


def test_an_error_with_values_that_are_no_secrets_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Addresses and choices are shown, though they were read from the environment."""
    monkeypatch.setenv("KPROD_BROKERS", "127.0.0.1:1")
    monkeypatch.setenv("KPROD_ACKS", "1")
    write = delivery(bootstrap__servers="env:KPROD_BROKERS", acks="env:KPROD_ACKS")
    with pytest.raises(MetadataTimeout, match=r"127\.0\.0\.1:1") as caught:
        write.write(iter([pa.record_batch({"value": [b"x"]})]))
    assert "***" not in str(caught.value)
