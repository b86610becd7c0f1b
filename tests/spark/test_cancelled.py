"""Writes that a user ends in their middle: nothing hangs, nothing stays, the next one works."""

from collections.abc import Generator
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from tests.spark.running import run_job
from tests.spark.work_directory import clean_work

ROWS = 1_000
SAYS = {
    "jobs cancelled": "[SPARK_JOB_CANCELLED]",
    "interrupted": "",
    "query stopped": "",  # it ends without an error, as Spark's own sinks do
    "silent broker": "[SPARK_JOB_CANCELLED]",
}

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def cluster() -> Generator[EmbeddedCluster]:
    """Run a broker.

    Yields:
        It.
    """
    with (
        clean_work(),
        EmbeddedCluster(brokers=1, topics={"endless": 3, "next": 3}) as cluster,
    ):
        yield cluster


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
@pytest.mark.parametrize("master", ["local[2,3]", "local-cluster[2,1,1024]"])
def test_a_write_that_is_ended_leaves_nothing(
    cluster: EmbeddedCluster, tmp_path: Path, master: str
) -> None:
    """Its workers are gone, no record comes any more, and the next write is whole."""
    arguments = ("--servers", cluster.bootstrap_servers, "--rows", str(ROWS))
    found = run_job(tmp_path / "run", *arguments, "--master", master, "cancelled")["cancelled"]
    assert found.keys() == SAYS.keys()
    for way, text in SAYS.items():
        assert text in found[way]["raised"], way
        assert bool(found[way]["raised"]) == (way != "query stopped"), way
        assert found[way]["worker_count"] >= 2, way
        assert found[way]["left"] == [], way
        assert found[way]["late"] == 0, way
    assert sum(map(len, cluster.records("next").values())) == ROWS * len(SAYS)
