"""`kprod` in a terminal, in a pipe, and with Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from tests.cli.terminal import LIMIT_S, terminal

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interruptible")]

CTRL_C, CTRL_D = "\x03", "\x04"
COMMAND = [sys.executable, "-m", "kprod.cli"]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker and a topic."""
    with EmbeddedCluster(1, {"orders": 1}) as opened:
        yield opened


def values(cluster: EmbeddedCluster) -> list[bytes | None]:
    """The values in the topic."""
    return [record.value for record in cluster.records("orders")[0]]


def test_typed_lines_are_sent_as_they_come(cluster: EmbeddedCluster) -> None:
    """Before the input ends, without a bar in the way; Ctrl-D ends it."""
    arguments = ["produce", "-b", cluster.bootstrap_servers, "-t", "orders", "-X", "linger.ms=0"]
    with terminal(arguments) as person:
        person.type("one\n")
        while not values(cluster):
            assert person.process.poll() is None, person.seen
        person.type(f"two\n{CTRL_D}")
        assert person.await_end() == 0
    assert values(cluster) == [b"one", b"two"]
    assert "2 records delivered, 0 failed" in person.seen
    assert "records/s" not in person.seen


def test_ctrl_c_delivers_what_was_typed(cluster: EmbeddedCluster) -> None:
    """The shell's code 130, a summary, no traceback."""
    arguments = ["produce", "-b", cluster.bootstrap_servers, "-t", "orders", "-X", "linger.ms=0"]
    with terminal(arguments) as person:
        person.type("one\n")
        while not values(cluster):
            assert person.process.poll() is None, person.seen
        person.type(f"not ended by Enter{CTRL_C}")
        assert person.await_end() == 130
    assert "interrupted: flushing" in person.seen
    assert "1 record delivered, 0 failed" in person.seen
    assert "Traceback" not in person.seen
    assert values(cluster) == [b"one"]


def test_a_file_shows_a_bar_in_a_terminal_only(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """It is gone at the end, and not in a log."""
    file = tmp_path / "lines"
    file.write_bytes(b"a line\n" * 20_000)
    arguments = ["produce", "-b", cluster.bootstrap_servers, "-t", "orders", str(file)]
    with terminal(arguments) as person:
        assert person.await_end() == 0
    assert "━" in person.seen
    piped = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (piped.returncode, piped.stderr) == (0, "20,000 records delivered, 0 failed\n")


def test_deleting_asks_a_person(cluster: EmbeddedCluster) -> None:
    """No keeps the topic, Ctrl-C as well; yes deletes it."""
    arguments = ["topics", "delete", "-b", cluster.bootstrap_servers, "orders"]
    # A signal that comes just before `input` starts to read is seen by Python when the read ends.
    for keys in ("n\n", f"{CTRL_C}\n"):
        with terminal(arguments) as person:
            person.await_text("Delete orders and all records there?")
            person.type(keys)
            assert person.await_end() == 130
        assert values(cluster) == []
    with terminal(arguments) as person:
        person.await_text("[y/N]")
        person.type("y\n")
        assert person.await_end() == 0
    assert "deleted topic orders" in person.seen


def test_a_broker_in_a_terminal_ends_by_ctrl_c() -> None:
    """A usual end: exit code 0, no word of an error."""
    with terminal(["broker", "--topic", "orders"]) as person:
        person.await_text("Ctrl-C ends it")
        person.type(CTRL_C)
        assert person.await_end() == 0
    assert "Traceback" not in person.seen
    assert "interrupted" not in person.seen


def test_a_reader_that_leaves_ends_the_command(cluster: EmbeddedCluster) -> None:
    """As `kprod dump | head -1`: no traceback about a broken pipe."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(2_000):
            producer.send("orders", b"x" * 100)
            producer.flush()
    command = [*COMMAND, "dump", "-b", cluster.bootstrap_servers, "-t", "orders", "--deep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"Dumping")
        process.stdout.close()
        assert process.wait(LIMIT_S) == 1
        assert process.stderr.read() == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_pipe_without_end_is_flushed_by_a_signal(
    cluster: EmbeddedCluster, number: signal.Signals, code: int
) -> None:
    """What came through it is delivered."""
    command = [*COMMAND, "produce", "-b", cluster.bootstrap_servers, "-t", "orders"]
    with subprocess.Popen(
        [*command, "-X", "linger.ms=0"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        while len(values(cluster)) < 2:
            assert process.poll() is None
        os.kill(process.pid, number)
        _, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == code
    assert b"2 records delivered, 0 failed" in errors
    assert b"Traceback" not in errors
