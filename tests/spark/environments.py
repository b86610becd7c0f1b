"""Environments with kprod installed from its wheel: one for each PySpark, and ones to pack.

Each is made once, in the cache; the wheel in it is always that of this tree.
"""

import functools
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.plugins.kafka_artifacts import cache_directory, locked
from tests.spark.running import ROOT

INSTALL_TIMEOUT_S = 900


@functools.cache
def wheel() -> Path:
    """Build this tree's wheel, once in a process.

    Returns:
        The file.
    """
    directory = Path(tempfile.mkdtemp(prefix="kprod-wheel-"))
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(directory), str(ROOT))
    (built,) = directory.glob("kprod-*.whl")
    with zipfile.ZipFile(built) as files:
        assert any(name.endswith(".so") for name in files.namelist()), "no module is compiled"
    return built


def environment_with(*requirements: str) -> Path:
    """Make an environment with these and kprod, or bring the one in the cache up to date.

    Args:
        requirements: For pip, such as `pyspark==4.0.*`.

    Returns:
        Its interpreter.
    """
    name = "-".join(each.replace("=", "").replace("*", "x") for each in requirements)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    directory = cache_directory(os.environ).parent.parent / "spark-environments" / version / name
    directory.parent.mkdir(parents=True, exist_ok=True)
    python = directory / "bin" / "python"
    with locked(directory.with_name(f"{name}.lock")):
        if not python.exists():
            _run(sys.executable, "-m", "venv", str(directory))
        install = (str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check")
        _run(*install, *requirements, "pyarrow>=18", "setuptools")
        _run(*install, "--no-deps", "--force-reinstall", str(wheel()))
        _run(*install, str(wheel()))  # what it depends on
    return python


def copied_tests(directory: Path) -> str:
    """Return a path from which the programs of the tests are imported, and this tree's kprod not.

    Args:
        directory: Is made.

    Returns:
        A value for PYTHONPATH.
    """
    (directory / "tests").mkdir(parents=True)
    (directory / "tests" / "spark").symlink_to(ROOT / "tests" / "spark")
    return str(directory)


def _run(*command: str) -> None:
    # Under make this names a file that has modules compiled in the tree, and none in a wheel.
    variables = {name: text for name, text in os.environ.items() if name != "DIST_EXTRA_CONFIG"}
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
        env=variables,
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-3_000:]
