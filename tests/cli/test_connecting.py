"""Where settings come from, what wins, and what the Tab key offers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from tests.cli import running


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """A cluster with topics to complete."""
    with EmbeddedCluster(1, {"orders": 1, "origins": 1, "__consumer_offsets": 1}) as opened:
        yield opened


def complete(words: str, **environment: str) -> list[str]:
    """Ask as bash does behind the Tab key; the last word is incomplete."""
    question = {
        "_KPROD_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    answer = subprocess.run(
        [sys.executable, "-m", "kprod.cli"],
        env={**os.environ, **question, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not answer.stderr  # it would be written into the line that is typed
    return [line.partition(",")[2] for line in answer.stdout.splitlines() if line]


def test_the_environment_names_the_cluster(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No option is needed then."""
    monkeypatch.setenv("KPROD_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    assert running.run("topics", "list").stdout == "orders\norigins\n"


def test_what_is_nearer_wins(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line over the environment, that over the file."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file\nlinger.ms=3\n", "utf-8")
    monkeypatch.setenv("KPROD_CONFIG", str(file))
    assert "'file' has no port" in running.run("topics", "list").stderr
    monkeypatch.setenv("KPROD_BOOTSTRAP_SERVERS", "environment")
    assert "'environment' has no port" in running.run("topics", "list").stderr
    typed = running.run("topics", "list", "-b", cluster.bootstrap_servers)
    assert typed.exit_code == 0, typed.stderr


def test_without_a_cluster_the_ways_to_name_one_are_told() -> None:
    """All three."""
    result = running.run("topics", "list")
    assert result.exit_code == 2
    for way in ("--bootstrap localhost:9092", "--config", "KPROD_BOOTSTRAP_SERVERS"):
        assert way in result.stderr


def test_a_setting_without_a_value_is_rejected() -> None:
    """As NAME=VALUE."""
    result = running.run("topics", "list", "-b", "a:1", "-X", "linger.ms")
    assert (result.exit_code, "'linger.ms' is not NAME=VALUE" in result.stderr) == (2, True)


@pytest.mark.slow
def test_topics_are_completed(cluster: EmbeddedCluster) -> None:
    """From the cluster that was typed, or that the environment names; none if it is away."""
    address = cluster.bootstrap_servers
    assert complete(f"kprod topics describe -b {address} or") == ["orders", "origins"]
    here = {"KPROD_BOOTSTRAP_SERVERS": address}
    assert complete("kprod topics delete o", **here) == ["orders", "origins"]
    assert complete("kprod topics describe -b localhost:1 or") == []
    assert complete("kprod topics describe or") == []


@pytest.mark.slow
def test_settings_are_completed() -> None:
    """Settings of clients after -X, of topics after --set."""
    assert complete("kprod topics list -X linger") == ["linger.ms=", "linger_ms="]
    assert complete("kprod topics create x --set min.ins") == ["min.insync.replicas="]
    assert complete("kprod topics alter x --unset min.ins") == ["min.insync.replicas"]
