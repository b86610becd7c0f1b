"""The pytest plugin around a real Apache Kafka, and its command line.

`kafka` is one node, `kafka_trio` three brokers and a controller; both live as long as the session.
Tests that use one get the marker `kafka` and live in files with kafka in their names, which
`pytest -n 2 --dist loadgroup` gives to one worker, so that a whole run starts each of them once.
Where Kafka cannot run they are skipped with the reason, unless `KPROD_REQUIRE_KAFKA=1`: then they
fail.

By hand: `python -m tests.plugins.kafka [fetch | run]`.
"""

import argparse
import contextlib
import functools
import os
import signal
import sys
from collections.abc import Generator

import pytest

from tests.plugins.kafka_artifacts import (
    KAFKA_VERSION,
    Artifacts,
    KafkaUnavailableError,
    cache_directory,
    fetch,
    find_java,
    is_whole,
    locked,
)
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_settings import QUICK_JAVA, STRONG_JAVA

FIXTURES = frozenset({"kafka_artifacts", "kafka", "kafka_kerberos", "kafka_secured", "kafka_trio"})
REQUIRE = "KPROD_REQUIRE_KAFKA"


@functools.cache
def artifacts_or_reason() -> Artifacts | str:
    """Fetch Kafka, once for this process.

    Returns:
        Its jars, or why it cannot run here.
    """
    try:
        artifacts = fetch()
    except KafkaUnavailableError as error:
        return str(error)
    share_class_data(artifacts)
    return artifacts


def pytest_report_header() -> str:
    """Say which Kafka the tests will meet, or why none; nothing is fetched for it.

    Returns:
        One line.
    """
    directory = cache_directory()
    try:
        java = find_java()
    except KafkaUnavailableError as error:
        return f"kafka: none, {error}"
    state = "in" if is_whole(directory) else "to be fetched into"
    return f"kafka: {KAFKA_VERSION}, {state} {directory}, run by {java}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses Kafka, before `-m` selects by marks.

    Raises:
        pytest.UsageError: A file without kafka in its name uses it.
    """
    for item in items:
        if FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
            if "kafka" not in item.path.name:
                raise pytest.UsageError(
                    f"{item.nodeid} uses Apache Kafka: its file's name must contain kafka"
                )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Give all tests that meet Kafka to one worker.

    Returns:
        A scheduler for `--dist loadgroup`; None leaves other ways to xdist.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.plugins.kafka_together import KafkaTogether  # noqa: PLC0415 - only under xdist

    return KafkaTogether(config, log)


@pytest.fixture(scope="session")
def kafka_artifacts() -> Artifacts:
    """Kafka's jars and a Java.

    Returns:
        Them, or skips or fails the test.
    """
    found = artifacts_or_reason()
    if isinstance(found, Artifacts):
        return found
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{REQUIRE}=1, but Apache Kafka {KAFKA_VERSION} cannot run: {found}")
    pytest.skip(found)


@pytest.fixture(scope="session")
def kafka(kafka_artifacts: Artifacts) -> Generator[KafkaNodes]:
    """One node, which all tests of a session share.

    Yields:
        It, ready.
    """
    with KafkaNodes(kafka_artifacts) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def kafka_trio(kafka_artifacts: Artifacts) -> Generator[KafkaNodes]:
    """Three brokers, which all tests of a session share; a test that kills one restarts it.

    Yields:
        Them, ready.
    """
    with KafkaNodes(kafka_artifacts, brokers=3) as nodes:
        yield nodes


def share_class_data(artifacts: Artifacts) -> None:
    """Have Java write down the classes that a node loads, so that later nodes start faster.

    Args:
        artifacts: Get the archive beside them, once for each Java.
    """
    archive = artifacts.class_data_archive
    with locked(artifacts.directory.with_name(f"{artifacts.directory.name}.lock")):
        if archive.exists():
            return
        fresh = archive.with_suffix(f".{os.getpid()}")
        flags = (*QUICK_JAVA, f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:disable")
        with KafkaNodes(artifacts, java_flags=flags) as nodes:
            nodes.create_topic("shared")
            nodes.stop(1)  # at the end of a SIGTERM, Java writes the archive
        if fresh.exists():  # it only saves time: without it nodes start as before
            fresh.rename(archive)


def main() -> int:
    """Run the command line.

    Returns:
        The exit code: 0, or 1 with the reason on standard error.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.plugins.kafka", description="Apache Kafka"
    )
    parser.add_argument(
        "command",
        nargs="?",
        default="run",
        choices=("run", "fetch"),
        help="start Kafka, print its address, stop on Ctrl-C; or only get the jars into the cache",
    )
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    parser.add_argument(
        "--strong", action="store_true", help="Java as fast as it can, not quick to start"
    )
    parser.add_argument("--auto-create-topics", action="store_true")
    given = parser.parse_args()
    found = artifacts_or_reason()
    if isinstance(found, str):
        sys.stderr.write(f"{found}\n")
        return 1
    if given.command == "fetch":
        sys.stdout.write(f"Apache Kafka {KAFKA_VERSION} is in {found.directory}\n")
        return 0
    nodes = KafkaNodes(
        found,
        brokers=given.brokers,
        auto_create_topics=given.auto_create_topics,
        java_flags=STRONG_JAVA if given.strong else QUICK_JAVA,
    )
    return _serve(nodes)


def _serve(nodes: KafkaNodes) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # they end it as Ctrl-C does
    with contextlib.suppress(KeyboardInterrupt), nodes:
        sys.stdout.write(f"{nodes.bootstrap_servers}\n")
        sys.stdout.flush()
        sys.stderr.write(f"logs in {nodes.directory}; Ctrl-C stops it\n")
        signal.pause()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
