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
    """The records read before the interruption are delivered."""
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


def test_records_on_a_terminal_have_no_bar_between_them(cluster: EmbeddedCluster) -> None:
    """They are shown as they come, and Ctrl-C ends it with the count."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"one").result(LIMIT_S)
        with terminal(["consume", "-b", cluster.bootstrap_servers, "-t", "orders"]) as person:
            person.await_text("one\r\n")
            producer.send("orders", b"two").result(LIMIT_S)
            person.await_text("two\r\n")
            person.type(CTRL_C)
            assert person.await_end() == 130
    assert person.seen.replace("^C", "") == "one\r\ntwo\r\n2 records\r\n"


def test_progress_is_shown_beside_a_file(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """On standard error, where that is a terminal and the records go elsewhere; not in a log."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many("orders", [b"a line"] * 20_000)
    file = tmp_path / "records"
    arguments = ["consume", "-b", cluster.bootstrap_servers, "-t", "orders", "--exit"]
    with terminal(arguments, more=f">{file}") as person:
        assert person.await_end() == 0
    assert "read: " in person.seen
    assert "100%" in person.seen
    assert person.seen.endswith("20,000 records\r\n")
    assert file.read_bytes() == b"a line\n" * 20_000
    piped = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, timeout=LIMIT_S, check=False
    )
    assert (piped.returncode, piped.stderr) == (0, b"20,000 records\n")
    assert piped.stdout == b"a line\n" * 20_000


def test_a_reader_that_leaves_ends_consume(cluster: EmbeddedCluster) -> None:
    """As `kprod consume | head -1`, though it would follow the topic for ever."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many("orders", [b"x" * 100] * 20_000)
    command = [*COMMAND, "consume", "-b", cluster.bootstrap_servers, "-t", "orders"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x" * 100 + b"\n"
        process.stdout.close()
        assert process.wait(LIMIT_S) == 1
        assert process.stderr.read() == b""


def test_what_consume_writes_produce_reads(cluster: EmbeddedCluster) -> None:
    """Through a pipe, as a person copies a topic: every byte, header and time is the same."""
    cluster.create_topic("copy", 1)
    sent: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]] = [
        (b"k", b"v", 1_000, [("trace", b"1"), ("trace", None)]),
        (None, b"\xff\x00", 2_000, []),
        ("ключ".encode(), None, 3_000, [("", b"\xfe")]),
        (b"", b"a\nb\x1b[0m\xe2\x80\xa8", 4_000, []),
    ]
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for key, value, at_ms, headers in sent:
            producer.send("orders", value, key=key, timestamp_ms=at_ms, headers=headers)
    here = ["-b", cluster.bootstrap_servers]
    reading = [*COMMAND, "consume", *here, "-t", "orders", "--exit", "--format", "json"]
    writing = [*COMMAND, "produce", *here, "-t", "copy", "--json"]
    with subprocess.Popen(reading, stdout=subprocess.PIPE) as reader:
        done = subprocess.run(
            writing, stdin=reader.stdout, capture_output=True, timeout=LIMIT_S, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"4 records delivered, 0 failed\n")
    copied = [
        (it.key, it.value, it.timestamp_ms, list(it.headers)) for it in cluster.records("copy")[0]
    ]
    assert copied == sent


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["consume", "dump"])
def test_output_that_is_cut_is_a_failure(
    command: str, unbuffered: str, cluster: EmbeddedCluster
) -> None:
    """The loss at a pipe that takes only a part is told, with PYTHONUNBUFFERED, too."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"x" * 500_000).result(LIMIT_S)
    more = {"consume": ["--exit"], "dump": ["--deep"]}[command]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    done = subprocess.run(
        [*COMMAND, command, "-b", cluster.bootstrap_servers, "-t", "orders", *more],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        timeout=LIMIT_S,
        check=False,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        written = len(stream.read())
    assert 0 < written < 500_000
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(b"kprod: standard output is non-blocking")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is Linux's")
@pytest.mark.parametrize("size", [1, 500_000])
@pytest.mark.parametrize("command", ["consume", "dump"])
def test_a_full_disk_is_a_failure(command: str, size: int, cluster: EmbeddedCluster) -> None:
    """One line, however little was to be written."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"x" * size).result(LIMIT_S)
    more = {"consume": ["--exit"], "dump": ["--deep"]}[command]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, command, "-b", cluster.bootstrap_servers, "-t", "orders", *more],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"kprod: [Errno 28] No space left on device\n")
