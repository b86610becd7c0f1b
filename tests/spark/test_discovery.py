"""Spark finds the data source by a package's name, and that package never raises."""

import subprocess
import sys
from pathlib import Path

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


def test_a_missing_source_hides_no_other() -> None:
    """Without PySpark's data sources, or anything else, there is just no class."""
    program = (
        "import sys; sys.modules['pyspark.sql.datasource'] = None\n"
        "import pyspark_kprod as p; print(hasattr(p, 'DefaultSource'))"
    )
    assert run(program) == "False\n"


def test_the_installed_package_is_found_by_its_name(tmp_path: Path) -> None:
    """As Spark looks for it, without this tree on the path; an editable install included."""
    program = "import pkgutil; print('pyspark_kprod' in {m.name for m in pkgutil.iter_modules()})"
    outside = {name: text for name, text in environment().items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env=outside,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout == "True\n"
