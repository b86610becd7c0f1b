"""`kprod broker` as a process: its address on standard output, and an orderly end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kprod import Producer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interruptible")]


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """The command, running with one topic."""
    command = [sys.executable, "-m", "kprod.cli", "broker", "--brokers", "2", "--topic", "orders:3"]
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_serves_until_it_is_told_to_end(
    process: subprocess.Popen[str], number: signal.Signals, code: int
) -> None:
    """A client can use the address that is printed; a signal ends it with the shell's code."""
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
