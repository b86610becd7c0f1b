"""The data source in a real Spark, with the embedded broker: one session for all that is short."""

import json
import operator
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kprod.broker import EmbeddedCluster
from kprod.spark.reports import writes
from kprod.spark.task_messages import WriteReport
from tests.spark.json_tokens import assert_same_objects
from tests.spark.reading import sum_up
from tests.spark.running import ROOT, environment, run_job

ROWS = 1_000
SCHEMAS = 10
CANARY = "canary-2f9c1b"
TOPICS = dict.fromkeys(("save", "stream", "each", "fault", "logs"), 3)
TOPICS |= dict.fromkeys(("odd", "even", "dead", "json", "bad", "repeat"), 3)
TOPICS |= {f"json-{seed}": 1 for seed in range(SCHEMAS)}


class Run(NamedTuple):
    """The findings of the session, and the broker that it wrote to."""

    found: dict[str, Any]
    cluster: EmbeddedCluster
    log: str
    events: str
    told: list[WriteReport]


pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),  # a session takes its time on a busy machine
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Generator[Run]:
    """Run every short scene, each into topics of its own.

    Yields:
        The records found.
    """
    directory = tmp_path_factory.mktemp("spark")
    events = directory / "events"
    events.mkdir()
    logged = ("eventLog.enabled=true", "eventLog.compress=false", f"eventLog.dir={events}")
    with EmbeddedCluster(brokers=1, topics=TOPICS) as cluster:
        found = run_job(
            directory / "run",
            *("--servers", cluster.bootstrap_servers, "--rows", str(ROWS)),
            *(f"--conf=spark.{each}" for each in logged),
            *("--fault", "kill_worker", "--input", str(directory / "input")),
            *("--schemas", str(SCHEMAS)),
            *(
                "save",
                "topics",
                "as_json",
                "json_schemas",
                "repeat",
                "files",
                "stream",
                "for_each_batch",
                "fault",
                "bad_input",
                "logs",
            ),
            more={"KPROD_CANARY": CANARY, "KPROD_NOWHERE": "127.0.0.1:1", "KPROD_ACKS": "all"},
        )
        log = (directory / "run" / "log").read_text("utf-8")
        written = [path.read_text("utf-8") for path in events.rglob("events*")]
        told = list(writes(directory / "run" / "told"))
        yield Run(found, cluster, log, "".join(written), told)


def test_a_batch_arrives(run: Run) -> None:
    """Every row with everything it has, and a report that says where."""
    found = sum_up(run.cluster.bootstrap_servers, "save")
    assert found.sums == run.found["save"]["sums"]
    assert found.duplicates == 0
    assert found.wrong_partitions == 0
    report = WriteReport.from_json(run.found["save"]["report"])
    ends = {p: len(records) for p, records in run.cluster.records("save").items()}
    assert report.record_count == ROWS
    assert report.batch_id is None
    assert report.traffic.sent_bytes > ROWS
    assert {p: span.record_count for p, span in report.spans["save"].items()} == ends


def test_rows_choose_their_topic(run: Run) -> None:
    """And the one that chose none is a dead letter."""
    counts = {
        topic: sum(map(len, run.cluster.records(topic).values())) for topic in ("odd", "even")
    }
    assert counts == run.found["topics"]
    assert sum(counts.values()) == ROWS - 1
    (dead,) = [r for records in run.cluster.records("dead").values() for r in records]
    assert dict(dead.headers)["kprod.reason"] == b"null topic"


def test_for_each_batch_knows_its_batch(run: Run) -> None:
    """The report of a batch write in `foreachBatch` has the micro-batch's number."""
    reports = [WriteReport.from_json(line) for line in run.found["for_each_batch"]]
    assert [report.batch_id for report in reports] == list(range(8))
    assert sum(report.record_count for report in reports) == ROWS


def test_a_write_that_was_committed_is_not_written_again(run: Run) -> None:
    """Another id is another write."""
    reports = [WriteReport.from_json(line) for line in run.found["repeat"]]
    assert [each.record_count for each in reports] == [ROWS, 0, ROWS]
    assert [each.is_repetition for each in reports] == [False, True, False]
    assert [each.write_id for each in reports] == ["first", "first", "second"]
    assert sum(map(len, run.cluster.records("repeat").values())) == 2 * ROWS


def test_json_of_any_schema_is_what_spark_writes(run: Run) -> None:
    """The JSON of random rows, in several time zones."""
    assert_same_objects(run.cluster, run.found["json_schemas"])


def test_json_is_what_spark_writes(run: Run) -> None:
    """The same objects as `to_json`, without the columns that have a role."""
    texts = [
        (record.value or b"").decode()
        for records in run.cluster.records("json").values()
        for record in records
    ]
    ours = sorted((json.loads(text) for text in texts), key=operator.itemgetter("id"))
    assert ours == [json.loads(text) for text in run.found["as_json"]]


def test_a_stream_arrives(run: Run) -> None:
    """A micro-batch for each file, and a report for each micro-batch."""
    found = sum_up(run.cluster.bootstrap_servers, "stream")
    assert found.sums == run.found["files"]
    assert found.duplicates == 0
    reports = [WriteReport.from_json(line) for line in run.found["stream"]]
    assert [report.batch_id for report in reports] == list(range(8))
    assert sum(report.record_count for report in reports) == ROWS
    assert run.told == reports


def test_a_killed_worker_loses_no_row(run: Run) -> None:
    """Killed when all was written and nothing reported: its rows are there twice, no others.

    The report says so: one attempt more than tasks, and the rows of that one, at most, repeated.
    """
    found = sum_up(run.cluster.bootstrap_servers, "fault")
    assert found.sums == run.found["fault"]["sums"]
    assert found.duplicates == ROWS // 8
    report = WriteReport.from_json(run.found["fault"]["report"])
    assert (report.record_count, report.task_count, report.attempt_count) == (ROWS, 8, 9)
    assert report.repeated_count_max == ROWS // 8


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("option", "AnalysisException", "unknown option 'linger.mss'; did you mean linger.ms?"),
        ("topic", "AnalysisException", "no topic: give one"),
        ("type", "AnalysisException", "column 'value' is int"),
        ("overwrite", "AnalysisException", "a topic cannot be overwritten"),
        ("mode", "AnalysisException", 'use either the "Append"'),
        ("read", "AnalysisException", "kprod only writes"),
        ("null topic", "PythonException", "the topic is null: name one for all"),
        ("too large", "PythonException", "max_request_size=1048576"),
        ("unreachable", "AnalysisException", "127.0.0.1:1"),
        ("missing topic", "AnalysisException", "the cluster has no topic 'missing'"),
        ("nowhere", "AnalysisException", "no broker answered within 8000 ms"),
        ("no variable", "PythonException", "no environment variable KPROD_NOT_SET"),
        ("secret", "AnalysisException", "must be a whole number, not '***'"),
        ("credentials", "AnalysisException", "set security_protocol=SASL_PLAINTEXT or SASL_SSL"),
        ("complete", "StreamingQueryException", "write by foreachBatch, which has update mode"),
    ],
)
def test_bad_input_is_explained(run: Run, case: str, kind: str, text: str) -> None:
    """Before any task where it can be known, else by one clear message of the task."""
    assert run.found["bad_input"][case].startswith(kind)
    assert text in run.found["bad_input"][case]


def test_no_secret_is_anywhere(run: Run) -> None:
    """Neither in an error nor in anything that Spark wrote: its log, its record of events."""
    assert "SparkListenerSQLExecutionStart" in run.events
    assert CANARY not in run.events
    assert CANARY not in json.dumps(run.found)
    assert CANARY not in run.log


def test_commits_are_logged(run: Run) -> None:
    """Where Spark collects its workers' lines, a line tells where the rows went."""
    (line,) = run.found["logs"]
    assert line.startswith(
        f"Committed {ROWS} records of 8 tasks, 0 skipped, 0 dead letters, 8 attempts,"
        " at most 0 rows repeated; logs["
    )


@pytest.mark.long
def test_the_page_begins_with_what_works(tmp_path: Path) -> None:
    """Its first example, in a process of its own, as a reader would run it."""
    page = (ROOT / "docs" / "spark.md").read_text("utf-8")
    (tmp_path / "first.py").write_text(
        page.partition("```python\n")[2].partition("```")[0], "utf-8"
    )
    run = subprocess.run(
        [sys.executable, "first.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert run.stdout.split("\n")[0] == "1000"
    assert '"square":' in run.stdout.split("\n")[1]
