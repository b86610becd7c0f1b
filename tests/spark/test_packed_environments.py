"""Executors with an environment that the driver's process does not share: the recipes of the docs.

The driver runs in the tests' own environment, where kprod is this tree; executors have it from its
wheel, in an environment named by its path, and in one that was packed and is unpacked by Spark.
"""

import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pyspark
import pytest

from kprod.broker import EmbeddedCluster
from tests.spark.environments import copied_tests, environment_with
from tests.spark.running import run_job

ROWS = 10_000
CLUSTER = ("--master", "local-cluster[1,1,1024]")
VERSION = ".".join(pyspark.__version__.split(".")[:2])

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.usefixtures("work"),
]


@pytest.fixture
def work() -> Generator[None]:
    """Delete what executors leave in PySpark's own directory.

    Yields:
        Nothing.
    """
    directory = Path(pyspark.__file__).parent / "work"
    before = set(directory.glob("*"))
    yield
    for left in set(directory.glob("*")) - before:
        shutil.rmtree(left, ignore_errors=True)


def test_a_wheel_on_every_node(tmp_path: Path) -> None:
    """`spark.pyspark.python` is the environment's interpreter."""
    python = environment_with(f"pyspark=={VERSION}.*", "venv-pack")
    _run(tmp_path, str(python), expected=str(python.parent.parent))


def test_an_environment_packed_by_venv_pack(tmp_path: Path) -> None:
    """Unpacked by Spark for executors, and by hand where the driver starts."""
    python = environment_with(f"pyspark=={VERSION}.*", "venv-pack")
    archive = tmp_path / "env.tar.gz"
    pack = [str(python), "-m", "venv_pack", "-q", "-p", str(python.parent.parent)]
    subprocess.run([*pack, "-o", str(archive)], check=True, timeout=600)
    here = tmp_path / "run" / "env"
    here.mkdir(parents=True)
    shutil.unpack_archive(archive, here, filter="tar")
    _run(tmp_path, "./env/bin/python", f"--conf=spark.archives={archive}#env", expected="/env")


def _run(directory: Path, python: str, *arguments: str, expected: str) -> None:
    # Where the driver's interpreter finds the programs of the tests, and its own kprod.
    path = {"PYTHONPATH": copied_tests(directory / "path"), "PYSPARK_PYTHON": python}
    with EmbeddedCluster(brokers=1, topics={"save": 3}) as cluster:
        given = ("--servers", cluster.bootstrap_servers, "--rows", str(ROWS), *CLUSTER)
        more = {**path, "PYSPARK_DRIVER_PYTHON": sys.executable}
        found = run_job(directory / "run", *given, *arguments, "where", more=more)["where"]
        assert sum(map(len, cluster.records("save").values())) == ROWS
    driver_prefix, driver_package = found["driver"]
    assert driver_prefix == sys.prefix
    for prefix, package in found["tasks"]:
        assert prefix.endswith(expected)
        assert package.startswith(prefix)
        assert package != driver_package
