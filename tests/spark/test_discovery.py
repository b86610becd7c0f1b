"""Spark finds the data source by a package's name, and that package never raises."""

import subprocess
import sys

from tests.spark.running import environment


def run(program: str) -> str:
    """Return what a program prints in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_the_package_has_the_source() -> None:
    """And brings no Arrow into the process that only looks."""
    program = (
        "import sys, pyspark_kprod as p; print(p.DefaultSource.name(), 'pyarrow' in sys.modules)"
    )
    assert run(program) == "kprod False\n"


def test_what_is_missing_hides_no_other_source() -> None:
    """Without PySpark's data sources, or anything else, there is just no class."""
    program = (
        "import sys; sys.modules['pyspark.sql.datasource'] = None\n"
        "import pyspark_kprod as p; print(hasattr(p, 'DefaultSource'))"
    )
    assert run(program) == "False\n"
