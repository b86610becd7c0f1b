"""`kprod broker` as a process: its address on standard output, and an orderly end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from tests.cli import running

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the test is whether it may be bound
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interruptible")]


@pytest.fixture
def arguments() -> list[str]:
    """Overridden by a parameter."""
    return ["--brokers", "2", "--topic", "orders:3"]


@pytest.fixture
def process(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The command, running with one topic."""
    command = [sys.executable, "-m", "kprod.cli", "broker", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_serves_until_it_is_told_to_end(
    process: subprocess.Popen[str], number: signal.Signals, code: int
) -> None:
    """A client can use the address that is printed; Ctrl-C is its usual end."""
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.count(":") == 2
    with Producer(bootstrap_servers=address) as producer:
        metadata = producer.send("orders", b"value", partition=2).result(30)
    assert (metadata.partition, metadata.offset) == (2, 0)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert "interrupted" not in errors


def test_a_port_that_is_taken_is_one_line(process: subprocess.Popen[str]) -> None:
    """Exit code 1, the address that is taken, and the way out."""
    assert process.stdout is not None
    port = process.stdout.readline().strip().partition(",")[0].rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, "-m", "kprod.cli", "broker", "--port", port],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 1
    assert second.stderr.startswith("kprod: ")
    assert second.stderr.count("\n") == 1
    assert f"cannot listen at 127.0.0.1:{port}: Address already in use" in second.stderr
    assert "choose another port, or 0 for a free one" in second.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", EVERY_ADDRESS], "bind 127.0.0.1, or give --unsafe if that is what you want"),
        (["--port", "65535", "--brokers", "2"], "port=65535 leaves no port for the last broker"),
        (["--set", "num.partitions"], "'num.partitions' is not NAME=VALUE"),
        (
            ["--set", "num.partition=3"],
            "'num.partition' of the broker; did you mean num.partitions",
        ),
        (["--set", "num.partitions=x"], "num.partitions='x' is not a whole number"),
        (["--set", "num.partitions=0"], "default_partitions=0 is not between 1 and"),
        (["--set", "auto_create_topics=maybe"], "auto_create_topics='maybe' is neither true nor"),
        (["--set", "port=9092"], "port has an option of its own: --port"),
        (["--advertise", "bro ker"], "--advertise"),
        (["--advertise", "broker:0"], "--advertise"),
        (["--adopt"], "--adopt needs --data DIR, the directories to adopt"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], text: str) -> None:
    """Exit code 2, before anything is bound."""
    result = running.run("broker", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["--brokers", "2", "--advertise", "localhost", "--set", "num.partitions=4"]]
)
def test_clients_are_told_the_advertised_host(process: subprocess.Popen[str]) -> None:
    """With the ports that are bound; and a setting has its effect."""
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert [it.partition(":")[0] for it in address.split(",")] == ["localhost"] * 2
    with Producer(bootstrap_servers=address.split(",")[0]) as producer:
        assert producer.send("made", b"value", partition=3).result(30).partition == 3


@pytest.mark.parametrize("arguments", [["--brokers", "2", "--advertise", "[::1]:19092"]])
def test_clients_are_told_the_advertised_ports(process: subprocess.Popen[str]) -> None:
    """They follow each other, as those that are bound do."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "[::1]:19092,[::1]:19093"


@pytest.mark.parametrize("arguments", [["--host", EVERY_ADDRESS, "--unsafe"]])
def test_a_broker_that_is_open_says_so(process: subprocess.Popen[str]) -> None:
    """On standard error; and it is reached on loopback too."""
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with Producer(bootstrap_servers=address) as producer:
        producer.send("made", b"value").result(30)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert "at 0.0.0.0, open to the network, for tests" in errors


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory of another cluster, with one record of `orders`."""
    path = tmp_path / "kafka"
    with (
        EmbeddedCluster(1, {"orders": 1}, data_dir=path) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        producer.send("orders", b"first").result(30)
    (path / "kprod-metadata.json").unlink()
    (path / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    return path


def test_a_directory_of_kafkas_is_adopted_on_request(directory: Path) -> None:
    """The topics' settings are told on the screen; a rejection is one line."""
    without = running.run("broker", "--data", str(directory))
    assert without.exit_code == 1
    assert without.stderr.count("\n") == 1
    assert "is of cluster 'other'" in without.stderr

    command = [sys.executable, "-m", "kprod.cli", "broker", "--data", str(directory), "--adopt"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with Producer(bootstrap_servers=address) as producer:
            assert producer.send("orders", b"second").result(30).offset == 1
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    adopted, loaded = errors.splitlines()
    assert adopted == (
        "adopted 1 topic with 1 partition of cluster other; their settings are not known: they "
        "have this cluster's defaults, and retention.ms=-1"
    )
    assert "1 partition with 1 segment" in loaded


_SIGNALLED_BY_A_THREAD = """
import _thread, sys, threading
from kprod.broker import EmbeddedConfig
from kprod.cli.broker import run_broker

def interrupt():
    main, frame = threading.main_thread().ident, None
    while frame is None or frame.f_code is not run_broker.__code__:  # it waits itself, not `open`
        threading.Event().wait(0.001)
        frame = sys._current_frames()[main]
        while frame is not None and frame.f_code.co_filename == threading.__file__:
            frame = frame.f_back
    threading.Event().wait(0.05)  # from the frame of the wait to its system call
    _thread.interrupt_main()

threading.Thread(target=interrupt, daemon=True).start()
run_broker(EmbeddedConfig(), broker_count=1, topics={"orders": 1})
"""


def test_ctrl_c_that_interrupts_no_system_call_ends_it() -> None:
    """As one that arrives just before the call, and so is seen only at the call's end."""
    command = [sys.executable, "-c", _SIGNALLED_BY_A_THREAD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
