"""The JSON format beside `to_json` on many random schemas; `test_sink` has a few of them."""

from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from tests.spark.json_tokens import assert_same_objects
from tests.spark.running import run_job

SCHEMAS = 200

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_800)]


def test_any_schema_is_written_as_spark_writes_it(tmp_path: Path) -> None:
    """Nested types, time zones, escapes, decimals, nulls."""
    topics = {f"json-{seed}": 1 for seed in range(SCHEMAS)}
    with EmbeddedCluster(brokers=1, topics=topics) as cluster:
        arguments = ("--servers", cluster.bootstrap_servers, "--schemas", str(SCHEMAS))
        found = run_job(tmp_path / "run", *arguments, "json_schemas", timeout_s=1_500)
        assert_same_objects(cluster, found["json_schemas"])
