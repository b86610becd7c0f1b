"""The jars of Spark's own Kafka sink, fetched once by Maven into the cache: to compare with.

Invariants.
    The directory appears whole, by one rename, or not at all; a changed pom has another one.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.plugins.kafka_artifacts import (
    FETCH_TIMEOUT_S,
    KafkaUnavailableError,
    cache_directory,
    locked,
)

POM = Path(__file__).parent.parent / "spark" / "pom.xml"
JAR_COUNT = 4


def spark_kafka_jars(environment: Mapping[str, str] = os.environ) -> str:
    """Get the jars.

    Args:
        environment: Variables that locate Maven, and its environment.

    Returns:
        A value for `spark.jars`.

    Raises:
        KafkaUnavailableError: They are not in the cache and Maven cannot fetch them.
    """
    mark = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    directory = cache_directory(environment).parent.parent / "spark-kafka" / mark
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory.with_name(f"{mark}.lock")):
        if not directory.exists():
            _fetch_into(directory, environment)
    return ",".join(str(jar) for jar in sorted(directory.glob("*.jar")))


def _fetch_into(directory: Path, environment: Mapping[str, str]) -> None:
    maven = shutil.which("mvn", path=environment.get("PATH"))
    if maven is None:
        raise KafkaUnavailableError(
            f"Spark's Kafka sink is not in {directory}, and there is no mvn"
        )
    with tempfile.TemporaryDirectory(dir=directory.parent) as fresh:
        command = [maven, "-B", "-q", "-C", "-ntp", "-f", str(POM), f"-Dkprod.output={fresh}"]
        run = subprocess.run(
            [*command, "dependency:copy-dependencies@jars"],
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
            env=dict(environment),
        )
        jars = Path(fresh) / "jars"
        if run.returncode != 0 or len(list(jars.glob("*.jar"))) != JAR_COUNT:
            said = (run.stdout + run.stderr)[-2_000:]
            raise KafkaUnavailableError(f"mvn gave exit code {run.returncode}: {said}")
        jars.rename(directory)
