"""The data source with each PySpark that it promises, each in an environment of its own.

kprod is installed there from its wheel, and this tree is not on the path.
"""

import subprocess
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from kprod.spark.task_messages import WriteReport
from tests.spark.environments import copied_tests, environment_with
from tests.spark.json_tokens import assert_same_objects
from tests.spark.reading import sum_up
from tests.spark.running import run_job

ROWS = 1_000
SCHEMAS = 5
TOPICS = dict.fromkeys(("save", "stream", "each", "fault", "repeat", "odd", "even", "dead"), 3)
TOPICS |= {f"json-{seed}": 1 for seed in range(SCHEMAS)}
SCENES = ("save", "topics", "json_schemas", "repeat", "files", "stream", "for_each_batch", "fault")

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2", "4.3"])
def test_every_promised_version(version: str, tmp_path: Path) -> None:
    """Batch, stream, JSON, reports with the micro-batch's number, and a killed worker."""
    python = str(environment_with(f"pyspark=={version}.*"))
    path = {"PYTHONPATH": copied_tests(tmp_path / "path"), "PYSPARK_PYTHON": python}
    with EmbeddedCluster(brokers=1, topics=TOPICS) as cluster:
        found = run_job(
            tmp_path / "run",
            *("--servers", cluster.bootstrap_servers, "--rows", str(ROWS)),
            *("--schemas", str(SCHEMAS), "--fault", "kill_worker"),
            *("--input", str(tmp_path / "input"), *SCENES),
            more=path,
            python=python,
        )
        sums = {topic: sum_up(cluster.bootstrap_servers, topic) for topic in ("save", "stream")}
        assert sums["save"].sums == found["save"]["sums"]
        assert sums["stream"].sums == found["files"]
        assert sums["stream"].duplicates == 0
        assert sum_up(cluster.bootstrap_servers, "fault").sums == found["fault"]["sums"]
        assert WriteReport.from_json(found["fault"]["report"]).attempt_count == 9
        for scene in ("stream", "for_each_batch"):
            reports = [WriteReport.from_json(line) for line in found[scene]]
            assert [report.batch_id for report in reports] == list(range(8))
        repeats = [WriteReport.from_json(line).is_repetition for line in found["repeat"]]
        assert repeats == [False, True, False]
        assert_same_objects(cluster, found["json_schemas"])


def test_an_older_pyspark_is_told_what_it_misses() -> None:
    """PySpark 3.5 has no Python data sources."""
    python = environment_with("pyspark==3.5.*")
    run = subprocess.run(
        [str(python), "-c", "import kprod.spark"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "kprod.spark needs PySpark 4.0 or newer" in run.stderr
    assert "this is PySpark 3.5" in run.stderr
