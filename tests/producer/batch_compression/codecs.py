"""Codecs that tell which thread they run on, wait, and fail, for tests of compression."""

import threading
from typing import TYPE_CHECKING, Any

from kprod.compression import Buffer, compressor
from kprod.model import Codec
from kprod.producer.wiring import Environment

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 60.0  # ends a broken test, never its rhythm


class Codecs:
    """Makes gzip codecs, and notes each call.

    Attributes:
        calls: The name of the thread and the size of the records, for each call.
        on_call: Called before each compression, on its thread, with the records.
    """

    def __init__(self) -> None:
        """Make codecs that only note their calls."""
        self.calls: list[tuple[str, int]] = []
        self.on_call: Callable[[Buffer], object] = lambda _: None

    def __call__(self, codec: Codec = Codec.GZIP, level: int | None = None) -> Any:
        """Make one; see `Environment.make_codec`."""
        compress = compressor(codec, level)

        def run(plain: Buffer) -> Buffer:
            self.calls.append((threading.current_thread().name, len(memoryview(plain))))
            self.on_call(plain)
            return compress(plain)

        return run

    @property
    def workers(self) -> set[str]:
        """Names of the threads that have compressed, except the sender's and the tests'."""
        return {name for name, _ in self.calls if name.startswith("kprod-compression")}

    def environment(self) -> Environment:
        """Return an environment of a producer with these codecs, which shares small batches."""
        return Environment(make_codec=self, shared_bytes_min=0)


def is_worker() -> bool:
    """Whether the calling thread compresses beside a sender."""
    return threading.current_thread().name.startswith("kprod-compression")


def worker_threads() -> list[threading.Thread]:
    """Return the threads that compress beside senders, and run."""
    return [
        thread for thread in threading.enumerate() if thread.name.startswith("kprod-compression")
    ]


def check_no_worker_is_left() -> None:
    """Fail if a thread that compresses does not end; a stopped one may need a core to do so."""
    for thread in worker_threads():
        thread.join(WAIT_S)
    assert not worker_threads()
