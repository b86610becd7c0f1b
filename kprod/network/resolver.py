# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Resolves host names in separate threads, since a slow name server must not delay batches.

The client requests a name, continues, and takes the result in a later turn; `wakeup` ends its sleep
when there is one. Threads exist only while names are being resolved.

Invariants.
    Each `request` leads to exactly one `Resolution`, unless the resolver is closed first. There are
    at most `THREADS_MAX` threads, and none without requests.

Thread-safety: any thread. `_lock` guards `_jobs`, `_thread_count` and `_closed`; the deque of
results is atomic by itself. The lock is re-entrant: a signal handler or finalizer that runs inside
may close the client.
Source: getaddrinfo(3); KIP-302 for the use of every address.
"""

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kprod.network.address_cursor import SocketAddress
from kprod.peer_text import peer_text

THREADS_MAX = 4  # a name that times out must not delay others; clusters have few distinct names


class Resolution(NamedTuple):
    """The result of one name lookup.

    Attributes:
        host: The name that was looked up.
        port: The port given with it.
        addresses: Empty on failure.
        error: The reason of a failure, as text; None on success.
    """

    host: str
    port: int
    addresses: Sequence[SocketAddress]
    error: str | None = None


class Resolver(Protocol):
    """The interface of name resolution."""

    def request(self, host: str, port: int) -> None:
        """Request the addresses of a name; never blocks.

        Args:
            host: A host name, not a numeric address.
            port: Copied into the result.
        """

    def take(self) -> list[Resolution]:
        """Return the results since the last call; never blocks."""

    def close(self) -> None:
        """Discard all requests; a running lookup ends by itself."""


class ThreadResolver:
    """Resolves names by the operating system, on up to four short-lived daemon threads."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        """Create a resolver without threads.

        Args:
            wakeup: Called from a resolver thread when there is a result.
        """
        self._wakeup = wakeup
        self._lock = threading.RLock()  # guards: _jobs, _thread_count, _closed
        self._jobs: deque[tuple[str, int]] = deque()
        self._results: deque[Resolution] = deque()
        self._thread_count = 0
        self._closed = False

    def request(self, host: str, port: int) -> None:
        """See `Resolver.request`."""
        with self._lock:
            if self._closed:
                return
            self._jobs.append((host, port))
            if self._thread_count >= THREADS_MAX:
                return
            self._thread_count += 1
        try:
            threading.Thread(target=self._run, name="kprod-resolver", daemon=True).start()
        except RuntimeError:
            # No thread can be started, or the interpreter is exiting: unsent records then have a
            # few seconds left, and resolving the name in this thread is their only chance.
            self._run()

    def take(self) -> list[Resolution]:
        """See `Resolver.take`."""
        taken = []
        while self._results:
            taken.append(self._results.popleft())
        return taken

    def close(self) -> None:
        """See `Resolver.close`."""
        with self._lock:
            self._closed = True
            self._jobs.clear()
            self._results.clear()
            # A running lookup cannot be interrupted; it must not keep the client alive.
            self._wakeup = _ignore

    def _run(self) -> None:
        while (job := self._next_job()) is not None:
            resolution = look_up(*job)
            with self._lock:
                if self._closed:
                    continue
                self._results.append(resolution)
            self._wakeup()

    def _next_job(self) -> tuple[str, int] | None:
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            self._thread_count -= 1
            return None


def _ignore() -> None:
    """Do nothing."""


def look_up(host: str, port: int) -> Resolution:
    """Resolve a name by the operating system; blocks.

    Args:
        host: A name or a numeric address.
        port: Copied into the addresses.

    Returns:
        The addresses in the system's order of preference, or the reason of the failure.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = peer_text(str(error))
        return Resolution(host, port, (), f"cannot resolve '{peer_text(host)}': {reason}")
    addresses = [
        SocketAddress(family, str(address[0]), port)
        for family, _, _, _, address in found
        if family in {socket.AF_INET, socket.AF_INET6}
    ]
    if not addresses:
        return Resolution(
            host, port, (), f"cannot resolve '{peer_text(host)}': it has no IP address"
        )
    return Resolution(host, port, addresses)
