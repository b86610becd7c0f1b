"""Settings of every command: one file and one environment serve all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from kprod.cli import demo
from tests.cli import running


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """A cluster with the topic that the commands use."""
    with EmbeddedCluster(1, {"orders": 1}) as opened:
        yield opened


COMMANDS = {
    "topics": ("topics", "list"),
    "groups": ("groups", "list"),
    "dump": ("dump", "-t", "orders"),
    "produce": ("produce", "-t", "orders"),
    "consume": ("consume", "-t", "orders", "--exit"),
    "perf": ("perf", "-t", "orders", "--num-records", "1", "--record-size", "1"),
    "demo": ("demo",),
}
"""Every command that talks to a cluster."""


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records are enough of a demonstration."""
    monkeypatch.setattr(demo, "find_flights", lambda: None)
    monkeypatch.setattr(demo, "read_flights", lambda _: iter([(b"k", b"v")] * 2))


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize("command", COMMANDS)
def test_one_file_serves_every_command(
    command: str, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """Settings of producers and of consumers, beside each other; a name that is none is told."""
    file = tmp_path / "client.properties"
    lines = [f"bootstrap.servers={cluster.bootstrap_servers}", "linger.ms=1", "fetch.min.bytes=1"]
    file.write_text("\n".join(lines), "utf-8")
    done = running.run(*COMMANDS[command], "-F", str(file), stdin=b"")
    assert done.exit_code == 0, done.output
    file.write_text("\n".join([*lines, "lingr.ms=1"]), "utf-8")
    done = running.run(*COMMANDS[command], "-F", str(file), stdin=b"")
    assert (done.exit_code, "unknown setting 'lingr.ms'" in done.stderr) == (2, True), done.output


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reads_the_environment(
    command: str, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers and other settings; a variable that is nearly one is rejected."""
    monkeypatch.setenv("KPROD_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("KPROD_CLIENT_ID", "by-environment")
    done = running.run(*COMMANDS[command], stdin=b"")
    assert done.exit_code == 0, done.output
    monkeypatch.setenv("KPROD_CLIENT_IDD", "x")
    done = running.run(*COMMANDS[command], stdin=b"")
    assert (done.exit_code, "did you mean KPROD_CLIENT_ID?" in done.stderr) == (2, True)


@pytest.mark.parametrize("command", ["topics", "dump", "produce", "perf"])
def test_settings_of_a_group_are_nothing_to_those_that_do_not_read(
    command: str, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """In a file; typed, they are a mistake."""
    file = tmp_path / "consumer.properties"
    file.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\ngroup.id=g\n", "utf-8")
    done = running.run(*COMMANDS[command], "-F", str(file), stdin=b"")
    assert done.exit_code == 0, done.output
    done = running.run(*COMMANDS[command], "-F", str(file), "-X", "group.id=g", stdin=b"")
    assert (done.exit_code, "it belongs to a consumer" in done.stderr) == (2, True), done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reason_is_told_at_once_when_no_broker_answers(command: str) -> None:
    """With the address, by every command; none waits for minutes."""
    done = running.run(*COMMANDS[command], "-b", "127.0.0.1:1", stdin=b"")
    assert done.exit_code == 1
    assert "127.0.0.1:1" in done.stderr
    assert "Connection refused" in done.stderr
