"""Integration tests of other clients, from their own sources, run on a broker that is given.

Their code is unpacked into a temporary directory and is no part of this tree. A small plugin of
ours (`shims/`) replaces the servers that a suite would start.

kafka-python's source distribution has its integration tests. Those of aiokafka 0.14.0 and
confluent-kafka 2.16.1 have none, so `KPROD_CLIENT_REPOSITORIES` names a directory with checkouts
of their repositories, `aiokafka` and `confluent-kafka-python`; without it they are skipped.

Thread-safety: any thread.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET  # noqa: S405 - a report that pytest has written here

import pytest

SHIMS = Path(__file__).parent / "shims"
REPOSITORIES = "KPROD_CLIENT_REPOSITORIES"
DOWNLOAD_LIMIT_S, SUITE_LIMIT_S, TEST_LIMIT_S = 300, 1_500, 120
KAFKA_VERSION = "4.3.1"


class Suite(NamedTuple):
    """A client's tests that use groups.

    Attributes:
        distribution: The client's name in the package registry.
        repository: The directory's name below `KPROD_CLIENT_REPOSITORIES`, or "" where the
            source distribution has the tests.
        shim: The plugin's module.
        selected: Arguments of pytest that select tests.
        dropped: Files of the suite that the shim replaces.
    """

    distribution: str
    repository: str
    shim: str
    selected: tuple[str, ...]
    dropped: tuple[str, ...] = ()


KAFKA_PYTHON = Suite(
    "kafka-python",
    "",
    "kafka_python_shim",
    (
        "test/integration/test_consumer_integration.py",
        "test/integration/test_admin_integration.py::test_describe_group_exists",
        "test/integration/test_admin_integration.py::test_delete_groups",
        "test/integration/test_admin_integration.py::test_delete_groups_with_errors",
    ),
    ("kafka",),  # the installed client is tested
)
AIOKAFKA = Suite(
    "aiokafka",
    "aiokafka",
    "aiokafka_shim",
    (
        "tests/test_coordinator.py",
        "tests/test_consumer.py",
        "--deselect=tests/test_consumer.py::TestConsumerIntegration::test_ssl_consume",
    ),
    ("tests/conftest.py", "aiokafka"),
)
CONFLUENT = Suite(
    "confluent-kafka",
    "confluent-kafka-python",
    "confluent_shim",
    ("tests/integration/consumer", "tests/integration/admin/test_basic_operations.py"),
    ("src",),
)
SUITES = (KAFKA_PYTHON, AIOKAFKA, CONFLUENT)


class Outcomes(NamedTuple):
    """Names of tests by their outcome; failures with their text."""

    passed: frozenset[str]
    skipped: frozenset[str]
    failed: Mapping[str, str]


def unpacked(suite: Suite, directory: Path) -> Path:
    """Put a suite's sources into a directory, or skip the test where they cannot be had.

    Args:
        suite: The client's tests.
        directory: An empty directory.

    Returns:
        The directory to run pytest in.
    """
    root = _copied(suite, directory) if suite.repository else _downloaded(suite, directory)
    for name in suite.dropped:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return root


def run(suite: Suite, root: Path, servers: str) -> Outcomes:
    """Run the selected tests in a process of their own.

    Args:
        suite: The client's tests.
        root: Directory of its sources.
        servers: Address of one broker.

    Returns:
        All outcomes.

    Raises:
        RuntimeError: pytest could not run them; the text ends with its output.
    """
    report = root / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", suite.shim, "-p", "no:randomly"]
    command += ["-p", "no:cacheprovider", "-p", "no:kprod", "-c", os.devnull, f"--rootdir={root}"]
    command += [f"--junitxml={report}", f"--timeout={TEST_LIMIT_S}", *suite.selected]
    ended = subprocess.run(
        command,
        cwd=root,
        env=_environment(servers),
        capture_output=True,
        text=True,
        timeout=SUITE_LIMIT_S,
        check=False,
    )
    if not report.exists():
        raise RuntimeError(f"{suite.distribution}'s tests did not run: {ended.stdout[-2_000:]}")
    return _outcomes(report)


def _copied(suite: Suite, directory: Path) -> Path:
    checkouts = os.environ.get(REPOSITORIES)
    if not checkouts:
        pytest.skip(
            f"{suite.distribution}'s source distribution has no integration tests, and "
            f"{REPOSITORIES} names no directory with a checkout of {suite.repository}"
        )
    root = directory / suite.repository
    shutil.copytree(Path(checkouts) / suite.repository, root, ignore=lambda *_: {".git"})
    return root


def _downloaded(suite: Suite, directory: Path) -> Path:
    wanted = f"{suite.distribution}=={version(suite.distribution)}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", suite.distribution, "--no-build-isolation"]
    ended = subprocess.run(
        [*command, "--dest", str(directory), wanted],
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_LIMIT_S,
        check=False,
    )
    if ended.returncode:
        pytest.skip(f"no source distribution of {wanted}: {ended.stderr.strip()[-500:]}")
    (archive,) = directory.glob("*.tar.gz")
    shutil.unpack_archive(archive, directory, filter="data")
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def _environment(servers: str) -> dict[str, str]:
    """The variables by which each suite, or its shim, learns of the broker."""
    return os.environ | {
        "PYTHONPATH": str(SHIMS),
        "PYTHONWARNINGS": "default",
        "SUITE_SERVERS": servers,
        "SUITE_KAFKA_VERSION": KAFKA_VERSION,
        "BROKERS": servers,
        "KAFKA_URI": f"kafka://{servers}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(SHIMS),  # any directory: no server is started from it
    }


def _outcomes(report: Path) -> Outcomes:
    passed, skipped, failed = set(), set(), {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - see the import
        name = f"{case.get('classname')}.{case.get('name')}"
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        if problem is not None:
            failed[name] = (problem.text or problem.get("message") or "")[-1_500:]
        elif case.find("skipped") is not None:
            skipped.add(name)
        else:
            passed.add(name)
    return Outcomes(frozenset(passed), frozenset(skipped), failed)
