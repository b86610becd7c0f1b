"""A process that sends one record for each request: the same sender for all readers of a race.

Thread-safety: one thread, the caller's.
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

VALUE_BYTES = 100
STAMP_BYTES = 8
TOPIC_BYTES = 249  # a topic name's maximum


def stamped() -> bytes:
    """Make a value that holds the time of this call.

    Returns:
        `VALUE_BYTES` bytes.
    """
    return time.monotonic_ns().to_bytes(STAMP_BYTES) + b"v" * (VALUE_BYTES - STAMP_BYTES)


def age_ns(value: bytes) -> int:
    """Measure the time since `stamped` made a value, in any process of this machine.

    Args:
        value: A value that it made.

    Returns:
        Nanoseconds.
    """
    return time.monotonic_ns() - int.from_bytes(value[:STAMP_BYTES])


@contextmanager
def sender(address: str) -> Generator[Path, None, None]:
    """Run the sender; it ends with the block.

    Args:
        address: The broker's `host:port`.

    Yields:
        A socket; each datagram to it is the name of a topic, to whose partition 0 a record goes.

    Raises:
        RuntimeError: The sender has not started.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "requests")
        process = subprocess.Popen(
            [sys.executable, __file__, address, str(path)], stdout=subprocess.PIPE, text=True
        )
        with process, ExitStack() as stack:
            stack.callback(process.kill)
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the process that sends for all readers has not started")
            yield path


def _serve(address: str, path: str) -> None:
    import kprod  # noqa: PLC0415 - the readers import this module, and some measure their memory

    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as requests,
        kprod.Producer(bootstrap_servers=address, linger_ms=0) as producer,
    ):
        requests.bind(path)
        print("ready", flush=True)
        while True:
            topic = requests.recv(TOPIC_BYTES).decode()
            producer.send(topic, stamped(), partition=0)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
