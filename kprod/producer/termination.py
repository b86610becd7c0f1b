"""Makes SIGTERM end the interpreter in order, so that producers are closed.

By default SIGTERM kills a process: no `with` block is left, no atexit function runs, and lingering
records are lost. Kubernetes, systemd and Docker stop a service by SIGTERM.

The handler only raises `SystemExit`. It does not close producers itself, because it runs between
two instructions of the main thread, possibly inside a `send`: the stack is unwound first, and then
`kprod.lifetime.open_clients` closes all producers.

Thread-safety: the main thread.
Source: Python's `signal` and `atexit`; exit codes of shells (128 + signal).
"""

import math
import signal
from types import FrameType
from typing import NoReturn

from kprod.lifetime import open_clients

EXIT_TERMINATED = 143  # 128 + SIGTERM, by convention


def close_on_sigterm(*, timeout: float | None = None) -> None:
    """Make SIGTERM end the interpreter in order, so that producers send their records.

    The process ends with exit code 143, after leaving `with` blocks and running atexit functions in
    the main thread. Not needed if a framework handles SIGTERM: gunicorn, uvicorn, Celery and Spark
    do, and end the interpreter in order.

    Args:
        timeout: Seconds, at least 0: the maximum wait of all producers together for unsent records
            at the interpreter's exit, by SIGTERM or otherwise. None keeps the default of 5.

    Raises:
        RuntimeError: The application handles or ignores SIGTERM already, or this is not the main
            thread. Nothing has changed.
        ValueError: The timeout is negative or not a number.
    """
    if timeout is not None and not (0 <= timeout < math.inf):
        raise ValueError(f"timeout must be 0 or more seconds, got {timeout!r}")
    before = signal.getsignal(signal.SIGTERM)
    if before not in {signal.SIG_DFL, _end_interpreter}:
        handler = "one that Python did not install" if before is None else repr(before)
        raise RuntimeError(
            f"SIGTERM has a handler already: {handler}. Let it end the interpreter, for example by"
            " sys.exit(143): producers are closed then"
        )
    try:
        signal.signal(signal.SIGTERM, _end_interpreter)
    except ValueError:  # Python's own error, reworded for the application
        text = "close_on_sigterm must be called in the main thread, as signal.signal itself"
        raise RuntimeError(text) from None
    if timeout is not None:
        open_clients.EXIT_FLUSH_S = timeout


def _end_interpreter(signal_number: int, frame: FrameType | None) -> NoReturn:
    del signal_number, frame
    raise SystemExit(EXIT_TERMINATED)
