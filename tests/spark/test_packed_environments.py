"""Executors with an environment that the driver's process does not share: the recipes of the docs.

The driver runs in the tests' own environment, where kprod is this tree; executors have it from its
wheel, in an environment named by its path, and in one that was packed and is unpacked by Spark. Or
they do not have it, and say so.
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
from tests.spark.running import SparkProgramError, run_job
from tests.spark.work_directory import clean_work

ROWS = 10_000
CLUSTER = ("--master", "local-cluster[1,1,1024]")
SITE = Path(pyspark.__file__).parent.parent
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
    with clean_work():
        yield


def test_a_wheel_on_every_node(tmp_path: Path) -> None:
    """`PYSPARK_PYTHON` is the environment's interpreter."""
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


@pytest.mark.parametrize("scene", ["save", "registered"], ids=["found by its name", "registered"])
def test_executors_without_kprod_say_so(tmp_path: Path, scene: str) -> None:
    """The error has the interpreter and the remedy; the driver has kprod and plans the write."""
    _link_environment(tmp_path / "bare", "pyspark", "py4j", "pyarrow", "numpy")
    archive = tmp_path / "env.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path / "bare", "."], check=True, timeout=60)
    _link_environment(tmp_path / "run" / "env", *(each.name for each in SITE.iterdir()))
    path = {"PYTHONPATH": copied_tests(tmp_path / "path"), "PYSPARK_PYTHON": "./env/bin/python"}
    with EmbeddedCluster(brokers=1, topics={"save": 3}) as cluster:
        given = ("--servers", cluster.bootstrap_servers, *CLUSTER)
        archives = f"--conf=spark.archives={archive}#env"
        with pytest.raises(SparkProgramError) as raised:
            run_job(tmp_path / "run", *given, archives, scene, more=path)
    text = str(raised.value)
    assert "ModuleNotFoundError: kprod is not installed for this worker: " in text
    assert "/env/bin/python, Python" in text
    assert "set PYSPARK_PYTHON to an interpreter that has it" in text


def _link_environment(directory: Path, *names: str) -> None:
    """Make an environment with some of this one's packages, which are not copied."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", directory], check=True, timeout=60
    )
    (packages,) = (directory / "lib").glob("python*/site-packages")
    for name in names:
        (packages / name).symlink_to(SITE / name)


def _run(directory: Path, python: str, *arguments: str, expected: str) -> None:
    # Where the driver's interpreter finds the programs of the tests, and its own kprod.
    path = {"PYTHONPATH": copied_tests(directory / "path"), "PYSPARK_PYTHON": python}
    with EmbeddedCluster(brokers=1, topics={"save": 3}) as cluster:
        given = ("--servers", cluster.bootstrap_servers, "--rows", str(ROWS), *CLUSTER)
        found = run_job(directory / "run", *given, *arguments, "where", more=path)["where"]
        assert sum(map(len, cluster.records("save").values())) == ROWS
    assert found["writers"] == [python]
    driver_prefix, driver_package = found["driver"]
    assert driver_prefix == sys.prefix
    for prefix, package in found["tasks"]:
        assert prefix.endswith(expected)
        assert package.startswith(prefix)
        assert package != driver_package
