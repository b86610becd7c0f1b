"""Apache Kafka's jars: fetched once by Maven into a cache outside the checkout, then checked.

Why a cache of our own. Maven's local repository says nothing of completeness, and the class path
that a running node shows is easier to read when it is one directory.

Invariants.
    A version's directory appears whole, by one rename, or not at all.
    Two runs never fetch at once: a lock beside the directory orders them.
    A file's size is checked against the manifest at every use; a changed pom fetches again.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

POM = Path(__file__).parent.parent / "kafka" / "pom.xml"
KAFKA_VERSION: str = re.findall(r"<kafka\.version>(.+)</", POM.read_text("utf-8"))[0]
OLD_CLIENTS_VERSION: str = re.findall(r"<kafka\.old\.version>(.+)</", POM.read_text("utf-8"))[0]
JAVA_MAJOR_MIN = 17
"""Kafka 4's brokers are compiled for it."""

FETCH_TIMEOUT_S = 600.0
MANIFEST = "MANIFEST.json"


class KafkaUnavailableError(Exception):
    """Apache Kafka cannot be run here; the text says why and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """A complete set of jars and the Java to run them with.

    Attributes:
        directory: Holds `jars/`, `protocol/` and the manifest.
        java: Path of the `java` program.
    """

    directory: Path
    java: str

    @property
    def class_path(self) -> str:
        """All jars, in a fixed order: a class-data archive holds for one order only."""
        return os.pathsep.join(
            str(path) for path in sorted((self.directory / "jars").glob("*.jar"))
        )

    @property
    def class_data_archive(self) -> Path:
        """Possible path of this Java's shared class data; it need not exist."""
        program = Path(self.java).resolve()
        transaction_manager = f"{program} {program.stat().st_mtime_ns}"
        mark = hashlib.sha256(transaction_manager.encode()).hexdigest()[:12]
        return self.directory / f"classes-{mark}.jsa"

    def clients_jar(self, version: str) -> Path:
        """Find the kafka-clients jar that holds a version's message definitions.

        Args:
            version: `KAFKA_VERSION` or `OLD_CLIENTS_VERSION`.

        Returns:
            Its path.
        """
        return self.directory / "protocol" / f"kafka-clients-{version}.jar"


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Find where this version is kept.

    Args:
        environment: `KPROD_CACHE_DIR` overrides `XDG_CACHE_HOME`, which overrides `~/.cache`.

    Returns:
        The directory, which need not exist.
    """
    fallback = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = environment.get("KPROD_CACHE_DIR") or Path(fallback) / "kprod"
    return Path(root) / "kafka" / KAFKA_VERSION


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """Find a Java that runs Kafka.

    Args:
        environment: `JAVA_HOME` is preferred to `PATH`.

    Returns:
        The path of the program.

    Raises:
        KafkaUnavailableError: There is none, or it is too old.
    """
    home = environment.get("JAVA_HOME")
    found = (
        str(Path(home) / "bin" / "java")
        if home
        else shutil.which("java", path=environment.get("PATH"))
    )
    if not found or not Path(found).exists():
        raise KafkaUnavailableError(
            f"no java at {found or 'PATH'}: a JDK of {JAVA_MAJOR_MIN} or later is needed"
        )
    answer = subprocess.run(
        [found, "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    problem = java_problem(answer.returncode, answer.stdout + answer.stderr)
    if problem:
        raise KafkaUnavailableError(f"{found}: {problem}")
    return found


def java_problem(exit_code: int, answer: str) -> str | None:
    """Judge what `java -version` said.

    Args:
        exit_code: Exit code of the program; macOS has a `java` that only fails.
        answer: Output of the program.

    Returns:
        Why this Java will not do, or None if it will.
    """
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    if exit_code != 0 or version is None:
        first_line = answer.strip().partition("\n")[0]
        return f"`java -version` gave exit code {exit_code}: {first_line}"
    if int(version[1]) < JAVA_MAJOR_MIN:
        return f"is Java {version[1]}, and Kafka {KAFKA_VERSION} needs {JAVA_MAJOR_MIN} or later"
    return None


def fetch(
    directory: Path | None = None, *, environment: Mapping[str, str] = os.environ
) -> Artifacts:
    """Get the jars, from the cache if it is whole, else by Maven.

    Args:
        directory: The cache's place for this version; the default is `cache_directory()`.
        environment: Variables that locate Java and Maven, and the environment of Maven.

    Returns:
        Jars that are all there.

    Raises:
        KafkaUnavailableError: Java or Maven is missing, or Maven failed.
    """
    java = find_java(environment)
    directory = directory or cache_directory(environment)
    if not is_whole(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with locked(directory.with_name(f"{directory.name}.lock")):
            if not is_whole(directory):  # an earlier holder of the lock may have fetched it
                _fetch_into(directory, environment)
    return Artifacts(directory=directory, java=java)


def is_whole(directory: Path) -> bool:
    """Say whether every file of the manifest is there with its size, for today's pom.

    Args:
        directory: The cache's place for this version.

    Returns:
        False as well where nothing is there.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text("utf-8"))
        sizes = {name: (directory / name).stat().st_size for name in manifest["files"]}
    except (OSError, ValueError, KeyError):
        return False
    expected = {name: entry["size_bytes"] for name, entry in manifest["files"].items()}
    return manifest["pom_sha256"] == _sha256(POM) and sizes == expected


def _fetch_into(directory: Path, environment: Mapping[str, str]) -> None:
    maven = shutil.which("mvn", path=environment.get("PATH"))
    if maven is None:
        raise KafkaUnavailableError(
            f"Kafka {KAFKA_VERSION} is not in {directory} and there is no mvn to fetch it"
        )
    fresh = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
    try:
        _run_maven(maven, fresh, environment)
        (fresh / MANIFEST).write_text(json.dumps(_manifest(fresh), indent=1), "utf-8")
        if directory.exists():  # damaged, or of another pom
            shutil.rmtree(directory)
        fresh.rename(directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _run_maven(maven: str, output: Path, environment: Mapping[str, str]) -> None:
    goals = ["dependency:copy-dependencies@jars", "dependency:copy@protocol"]
    command = [maven, "-B", "-q", "-C", "-ntp", "-f", str(POM), f"-Dkprod.output={output}", *goals]
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
            env=dict(environment),
        )
    except subprocess.TimeoutExpired as late:
        raise KafkaUnavailableError(f"mvn did not end within {FETCH_TIMEOUT_S:g} s") from late
    if run.returncode != 0 or not (output / "protocol").is_dir():
        said = (run.stdout + run.stderr)[-2000:]
        raise KafkaUnavailableError(f"mvn gave exit code {run.returncode}: {said}")


def _manifest(directory: Path) -> dict[str, object]:
    files = {
        str(path.relative_to(directory)): {
            "size_bytes": path.stat().st_size,
            "sha256": _sha256(path),
        }
        for path in sorted(directory.rglob("*.jar"))
    }
    return {"kafka": KAFKA_VERSION, "pom_sha256": _sha256(POM), "files": files}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold a lock against other processes.

    Args:
        path: A file that stands for it and stays.

    Yields:
        Nothing.
    """
    with path.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed, however we end
        yield
