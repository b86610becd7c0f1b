"""Fetching Kafka: whole or not at all, once, checked, and clear about missing files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins import kafka_artifacts
from tests.plugins.kafka_artifacts import (
    KafkaUnavailableError,
    fetch,
    find_java,
    is_whole,
    java_problem,
)

FAKE_JAVA = "#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n"
FAKE_MAVEN = """#!/bin/sh
echo run >> "$(dirname "$0")/runs"
for argument; do case $argument in -Dkprod.output=*) output=${argument#*=};; esac; done
mkdir -p "$output/jars" "$output/protocol"
echo jar > "$output/jars/kafka.jar"
echo jar > "$output/protocol/clients.jar"
"""


def _programs(directory: Path, **scripts: str) -> dict[str, str]:
    directory.mkdir(parents=True, exist_ok=True)
    for name, script in scripts.items():
        (directory / name).write_text(script, "utf-8")
        (directory / name).chmod(0o755)
    return {
        "PATH": f"{directory}:/usr/bin:/bin",
        "KPROD_CACHE_DIR": str(directory.parent / "cache"),
    }


@pytest.mark.parametrize(
    ("exit_code", "answer", "problem"),
    [
        (0, 'openjdk version "17.0.15" 2025-04-15', None),
        (0, 'openjdk version "25" 2025-09-16', None),
        (0, 'java version "1.8.0_452"', "is Java 8, and Kafka"),
        (1, "Unable to locate a Java Runtime.\n", "exit code 1: Unable to locate"),
        (0, "", "exit code 0: "),
    ],
)
def test_java_is_judged_by_its_answer(exit_code: int, answer: str, problem: str | None) -> None:
    """Kafka needs Java 17; macOS has a `java` that only says there is none."""
    found = java_problem(exit_code, answer)
    assert (found is None) == (problem is None)
    assert problem is None or problem in (found or "")


def test_missing_java_is_said(tmp_path: Path) -> None:
    """The reason names the files looked for and the tools needed."""
    with pytest.raises(KafkaUnavailableError, match=r"no java at PATH: a JDK of 17 or later"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(KafkaUnavailableError, match=f"no java at {tmp_path}/bin/java"):
        find_java({"PATH": "/usr/bin", "JAVA_HOME": str(tmp_path)})


def test_missing_maven_is_said(tmp_path: Path) -> None:
    """Without jars in the cache Maven is needed, and the reason says so."""
    environment = _programs(tmp_path / "bin", java=FAKE_JAVA)
    environment["PATH"] = str(tmp_path / "bin")
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    with pytest.raises(KafkaUnavailableError, match="there is no mvn to fetch it"):
        fetch(environment=environment)


def test_the_cache_is_filled_once(tmp_path: Path) -> None:
    """A second call finds the jars of the first one, all named in the manifest."""
    environment = _programs(tmp_path / "bin", java=FAKE_JAVA, mvn=FAKE_MAVEN)
    first, second = fetch(environment=environment), fetch(environment=environment)
    assert first == second
    assert first.directory == tmp_path / "cache" / "kafka" / kafka_artifacts.KAFKA_VERSION
    assert first.class_path == str(first.directory / "jars" / "kafka.jar")
    assert (tmp_path / "bin" / "runs").read_text("utf-8") == "run\n"


def test_a_damaged_cache_is_fetched_again(tmp_path: Path) -> None:
    """A file that lost its end is noticed, and the whole directory replaced."""
    environment = _programs(tmp_path / "bin", java=FAKE_JAVA, mvn=FAKE_MAVEN)
    directory = fetch(environment=environment).directory
    (directory / "jars" / "kafka.jar").write_text("j", "utf-8")
    assert not is_whole(directory)
    fetch(environment=environment)
    assert is_whole(directory)


def test_a_failed_fetch_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    """Maven's own words are in the reason; no half-filled directory stays."""
    failing = FAKE_MAVEN + "echo no route to the repository; exit 1\n"
    environment = _programs(tmp_path / "bin", java=FAKE_JAVA, mvn=failing)
    with pytest.raises(KafkaUnavailableError, match="no route to the repository"):
        fetch(environment=environment)
    left = [path.name for path in (tmp_path / "cache" / "kafka").iterdir()]
    assert left == [f"{kafka_artifacts.KAFKA_VERSION}.lock"]


@pytest.mark.slow
@pytest.mark.parametrize(("require", "outcome"), [("0", "1 skipped"), ("1", "1 error")])
def test_without_java_kafka_tests_are_skipped_unless_required(
    tmp_path: Path, require: str, outcome: str
) -> None:
    """A laptop without Java skips them with the reason; the gate fails."""
    (tmp_path / "test_uses_kafka.py").write_text("def test_it(kafka): assert kafka\n", "utf-8")
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\n", "utf-8")
    options = ("-p", "tests.plugins.kafka", "-p", "no:randomly", "-ra", "-q", "-c", str(settings))
    environment = os.environ | {"JAVA_HOME": str(tmp_path), "KPROD_REQUIRE_KAFKA": require}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=Path(__file__).parent.parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome in run.stdout
    assert f"no java at {tmp_path}/bin/java" in run.stdout
