"""Bad rows of a task: what of them arrives as dead letters, in what memory, and how many may be."""

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.clock import SystemClock
from kprod.errors import UnknownTopic
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.spark import dead_letters
from kprod.spark.bad_row_limits import BadRowLimits
from kprod.spark.bad_rows import BadRows, as_rows
from kprod.spark.row_faults import RowFault
from kprod.spark.task_failure import TaskFailed, TooManyBadRows
from kprod.spark.task_messages import TaskReport, WriteReport
from tests.spark.test_task import FAR_MS, cluster, options_of, write  # noqa: F401 - a fixture

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
POISON: list[dict[str, Any]] = [
    {"topic": None},
    {"topic": ""},
    {"topic": "no topic"},
    {"partition": -1},
    {"partition": 99},
    {"timestamp": -1},
    {"headers": [None, {"key": "own", "value": b"h"}]},
    {"headers": [{"key": None, "value": b"h"}]},
    {"value": b"x" * 3_000},
    {"key": b"k" * 3_000},
    {"headers": [{"key": "own", "value": b"x" * 3_000}]},
]
REASONS = {
    "null topic": 1,
    "illegal topic": 2,
    "negative partition": 1,
    "unknown partition": 1,
    "timestamp before 1970": 1,
    "null header": 1,
    "null header key": 1,
    "too large": 3,
}
GOOD = {"value": b"good", "topic": "a", "partition": None, "timestamp": 5, "headers": None}


def rows_of(*changes: dict[str, Any]) -> Any:
    """Return good rows with these changes, numbered by their keys."""
    rows = [{"key": b"%d" % n, **GOOD, **change} for n, change in enumerate(changes)]
    return pa.record_batch(
        {
            "value": pa.array([row["value"] for row in rows], pa.binary()),
            "key": pa.array([row["key"] for row in rows], pa.binary()),
            "topic": pa.array([row["topic"] for row in rows], pa.string()),
            "partition": pa.array([row["partition"] for row in rows], pa.int32()),
            "timestamp": pa.array([row["timestamp"] for row in rows], pa.timestamp("ms", "UTC")),
            "headers": pa.array([row["headers"] for row in rows], HEADERS),
        }
    )


def letters_of(cluster: EmbeddedCluster) -> dict[bytes, Any]:  # noqa: F811 - not the fixture
    """Return the dead letters by their keys; an empty one where the key was too large."""
    return {record.key or b"": record for record in cluster.records("dead")[0]}


@pytest.mark.parametrize("mode", ["skip", "dlq:dead"])
def test_every_poison_row_is_left_out(cluster: EmbeddedCluster, mode: str) -> None:  # noqa: F811
    """The good rows beside them arrive, and the report tells the reasons with samples."""
    task = write(options_of(cluster, on_record_error=mode), rows_of({}, *POISON, {}))
    assert sum(map(len, cluster.records("a").values())) == 2
    report = WriteReport.of([task.report.message(0, 0)])
    assert report.bad_rows == REASONS
    assert report.skipped_count + report.dead_letter_count == len(POISON)
    assert {sample.reason for sample in report.samples} == set(REASONS)
    assert WriteReport.from_json(report.to_json()) == report
    assert len(cluster.records("dead")[0]) == (0 if mode == "skip" else len(POISON))


def test_a_dead_letter_keeps_what_the_row_had(cluster: EmbeddedCluster) -> None:  # noqa: F811
    """Timestamp, headers and partition, or, where that is the fault, what it was."""
    task = write(options_of(cluster, on_record_error="dlq:dead"), rows_of(*POISON))
    assert task.report.dead_letter_count == len(POISON)
    letters = letters_of(cluster)
    headers = {key: dict(letter.headers) for key, letter in letters.items()}
    assert all(entry["kprod.reason"] and entry["kprod.error"] for entry in headers.values())
    assert {letter.timestamp_ms for key, letter in letters.items() if key != b"5"} == {5}
    assert letters[b"3"].value == b"good"
    assert headers[b"3"]["kprod.partition"] == b"-1"
    assert headers[b"3"]["kprod.topic"] == b"a"
    assert headers[b"4"]["kprod.partition"] == b"99"
    assert headers[b"5"]["kprod.timestamp"] == b"-1"
    assert headers[b"2"]["kprod.topic"] == b"no topic"
    assert headers[b"6"]["own"] == b"h"
    assert headers[b"7"][""] == b"h"
    assert (letters[b"8"].value, headers[b"8"]["kprod.value.bytes"]) == (None, b"3000")
    assert (letters[b""].value, headers[b""]["kprod.key.bytes"]) == (b"good", b"3000")
    assert (letters[b"10"].value, headers[b"10"]["kprod.headers.bytes"]) == (b"good", b"3003")


def test_a_row_with_two_faults(cluster: EmbeddedCluster) -> None:  # noqa: F811
    """No topic, and a timestamp that the topic of dead letters rejects; so do sound letters."""
    far_ms = SystemClock().timestamp_ms() + FAR_MS
    rows = rows_of({"topic": None, "timestamp": far_ms}, *[{"topic": None}] * 5)
    task = write(options_of(cluster, on_record_error="dlq:dead"), rows)
    assert task.report.dead_letter_count == 6
    letters = letters_of(cluster)
    assert letters.keys() == {b"%d" % n for n in range(6)}
    assert dict(letters[b"0"].headers)["kprod.timestamp"] == b"%d" % far_ms
    assert letters[b"0"].timestamp_ms < far_ms


def test_a_topic_that_is_not_there() -> None:
    """Where rows name their topics, it is their fault, and waited for once; else the task's."""
    config = EmbeddedConfig(auto_create_topics=False)
    with EmbeddedCluster(topics={"a": 1, "dead": 1}, config=config) as strict:
        rows = rows_of({}, {"topic": "gone"}, {"topic": "gone"}, {})
        own = {"max__block__ms": "500"}
        task = write(options_of(strict, on_record_error="dlq:dead", **own), rows, rows)
        assert task.report.bad_rows == {"unknown topic": 4}
        assert len(strict.records("a")[0]) == 4
        letters = strict.records("dead")[0]
        assert {dict(letter.headers)["kprod.topic"] for letter in letters} == {b"gone"}
        for options in (
            options_of(strict, **own),
            options_of(strict, on_record_error="skip", topic="gone", **own),
        ):
            with pytest.raises(UnknownTopic, match="gone"):
                write(options, rows)


@pytest.mark.parametrize("poison", POISON, ids=lambda change: next(iter(change)))
def test_without_leave_each_fails_the_task(
    cluster: EmbeddedCluster,  # noqa: F811
    poison: dict[str, Any],
) -> None:
    """The default mode leaves out nothing."""
    with pytest.raises(TaskFailed):
        write(options_of(cluster), rows_of({}, poison))


def test_a_dead_letter_that_its_topic_rejects_comes_without_its_fields(
    cluster: EmbeddedCluster,  # noqa: F811
) -> None:
    """A topic for dead letters may allow smaller records than the row's own."""
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE, times=1)
    write(options_of(cluster, on_record_error="dlq:dead"), rows_of({"partition": -1}))
    (letter,) = cluster.records("dead")[0]
    assert (letter.key, letter.value) == (b"0", None)
    assert dict(letter.headers)["kprod.value.bytes"] == b"4"


def test_few_dead_letters_are_kept(
    cluster: EmbeddedCluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many there are, a limited number of them waits for its acknowledgement."""
    monkeypatch.setattr(dead_letters, "LETTERS_MAX", 10)
    most = 0
    with Producer(options_of(cluster, topic="a").settings) as producer:
        letters = dead_letters.DeadLetters(producer, "dead", None)
        for n in range(300):
            row = {"value": b"%d" % n}
            letters.send(row, "a", RowFault.NEGATIVE_PARTITION, "-1")
            most = max(most, len(letters))
        monkeypatch.setattr(dead_letters, "LETTER_BYTES_MAX", 100)
        for _ in range(50):
            letters.send({"value": b"x" * 60}, "a", RowFault.NEGATIVE_PARTITION, "-1")
        assert len(letters) == 1
        letters.settle()
    assert most == 10
    assert len(cluster.records("dead")[0]) == 350


def test_few_rows_are_dictionaries_at_a_time() -> None:
    """However many rows of a gathering are bad; all of them come, in their order."""
    rows = rows_of(*[{}] * 12_345)
    tracemalloc.start()
    assert [int(row["key"]) for row in as_rows(rows)] == list(range(12_345))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 12_345 * 200  # each has six fields


def test_a_limit_by_count_stops_the_task(cluster: EmbeddedCluster) -> None:  # noqa: F811
    """The error names the counts, the setting, the reason, and one row's fault."""
    rows = rows_of({"partition": -1}, {}, {"partition": 99})
    own = {"on_record_error": "skip"}
    assert write(options_of(cluster, max_bad_rows="2", **own), rows).report.skipped_count == 2
    with pytest.raises(TooManyBadRows, match=r"2 of 3 rows .*max_bad_rows=1.*negative partition"):
        write(options_of(cluster, max_bad_rows="1", **own), rows)


def test_a_limit_by_share_is_judged_from_a_thousand_rows(
    cluster: EmbeddedCluster,  # noqa: F811
) -> None:
    """A share of fewer rows means nothing."""
    limits = BadRowLimits(max_bad_ratio=0.01)
    limits.check(999, 999, "")
    limits.check(10, 1_000, "")
    with pytest.raises(TooManyBadRows, match=r"11 of 1000 rows .*max_bad_ratio=0\.01"):
        limits.check(11, 1_000, "")
    rows = rows_of(*[{}] * 988, *[{"partition": -1}] * 12)
    with pytest.raises(TooManyBadRows):
        write(options_of(cluster, on_record_error="skip", max_bad_ratio="0.01"), rows)


def test_samples_are_few(cluster: EmbeddedCluster) -> None:  # noqa: F811
    """Three of each reason, from all tasks together."""
    report = TaskReport()
    with Producer(options_of(cluster, topic="a").settings) as producer:
        bad_rows = BadRows(producer, options_of(cluster, on_record_error="skip"), report)
        for n in range(9):
            row = {"value": None, "key": b"%d" % n}
            bad_rows.leave_out_one(row, "a", RowFault.TOO_LARGE, "large")
    whole = WriteReport.of([report.message(0, 0), report.message(1, 0)])
    assert whole.bad_rows == {"too large": 18}
    assert [sample.key for sample in whole.samples] == ["0", "1", "2"]
    assert "(18 × too large)" in whole.summary()
