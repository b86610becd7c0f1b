"""A process that sends one record for each request: the same sender for all readers of a race.

Thread-safety: one thread, the caller's.
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

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
def sender(command: Sequence[str]) -> Generator[Path, None, None]:
    """Run the sender in a process of its own; it ends with the block.

    Args:
        command: The arguments after the interpreter of a program that calls `serve`; the path is
            added.

    Yields:
        A path for `requests_to`.

    Raises:
        RuntimeError: The sender has not started.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "requests")
        process = subprocess.Popen(
            [sys.executable, *command, str(path)], stdout=subprocess.PIPE, text=True
        )
        with process, ExitStack() as stack:
            stack.callback(process.kill)
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the process that sends for all readers has not started")
            yield path


@contextmanager
def requests_to(path: Path, topic: str) -> Generator[Callable[[], object], None, None]:
    """Connect to the sender.

    Args:
        path: Its socket.
        topic: A topic with one partition.

    Yields:
        A function that has the sender send one record to the topic.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as requests:
        requests.connect(str(path))
        yield partial(requests.send, topic.encode())


def serve(address: str, path: Path) -> NoReturn:
    """Send a record for each request, until the process is killed.

    Args:
        address: The broker's `host:port`.
        path: Path of the socket for requests, which is made.
    """
    import kprod  # noqa: PLC0415 - the readers import this module, and some measure their memory

    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as requests,
        kprod.Producer(bootstrap_servers=address, linger_ms=0) as producer,
    ):
        requests.bind(str(path))
        print("ready", flush=True)
        while True:
            producer.send(requests.recv(TOPIC_BYTES).decode(), stamped(), partition=0)
