"""Waits for socket events, a timeout, or a wakeup by another thread.

A wakeup is a byte written to a socket pair; threads share nothing else. Omitting the system call
while the client is awake would need a lock, and a signal handler that waits for the client may run
while its thread holds that lock. Sending threads know whether the client sleeps, and call `waker`
only then.

Invariants.
    A `wakeup` after a `select` has returned ends the next `select` immediately. All bytes in the
    socket pair end one `select`, which reads them. The writing descriptor stays open while any
    thread may write to it.

Thread-safety: `wakeup` and `waker` from any thread; other methods on the client's thread.
Source: Kafka's Selector.wakeup; socketpair(2). A TCP emulation of the pair is never used
(CVE-2024-3219 class).
"""

import contextlib
import functools
import selectors
import socket
from collections.abc import Callable
from typing import Any, Protocol

from kprod._core.socket_io.owned_descriptor import OwnedDescriptor
from kprod.errors import ClosedError

EVENT_READ = selectors.EVENT_READ
EVENT_WRITE = selectors.EVENT_WRITE
EVENT_NONE = 0  # except that the peer has closed; only if `Selector.can_pause`
_DRAIN_BYTES = 4096


class Watched(Protocol):
    """Something with a file descriptor."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Selector(Protocol):
    """The interface of a selector."""

    @property
    def can_pause(self) -> bool:
        """Whether `modify` takes `EVENT_NONE`, also from another thread during a `select`."""

    def register(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """Start to watch.

        Args:
            watched: An object that is not watched yet.
            events: `EVENT_READ`, `EVENT_WRITE` or both.
            owner: Returned by `select` together with its events.
        """

    def modify(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """Change the watched events; otherwise like `register`."""

    def unregister(self, watched: Watched) -> None:
        """Stop watching, before the descriptor is closed."""

    def select(self, timeout_ms: int) -> list[tuple[Any, int]]:
        """Wait at most `timeout_ms`; returns owners with their events."""

    def wakeup(self) -> None:
        """End the current wait, or the next one."""

    @property
    def waker(self) -> Callable[[], object]:
        """A function like `wakeup`, for a caller that knows that the client sleeps.

        It is implemented in C, so that no signal handler runs in the middle. It may raise `OSError`
        if the selector is awake already, or closed. It holds a descriptor: drop it when no wakeup
        is needed any more.

        Raises:
            ClosedError: The selector is closed.
        """

    def close(self) -> None:
        """Close all own descriptors."""

    def close_after_fork(self) -> None:
        """Like `close`, in a forked child: takes no lock and does not wake the parent."""


class SystemSelector:
    """kqueue, epoll or the system's best selector, with a socket pair for wakeups."""

    __slots__ = ("_selector", "_wake_reader", "_wake_writer")

    def __init__(self) -> None:
        """Open three descriptors."""
        self._selector = selectors.DefaultSelector()
        self._wake_reader, writer = socket.socketpair()
        for end in (self._wake_reader, writer):
            end.setblocking(False)  # noqa: FBT003 - the standard library's signature
        self._wake_writer: OwnedDescriptor | None = OwnedDescriptor(writer.detach())
        self._selector.register(self._wake_reader, EVENT_READ, None)

    @property
    def can_pause(self) -> bool:
        """See `Selector.can_pause`."""
        return False

    def register(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """See `Selector.register`."""
        self._selector.register(watched, events, owner)

    def modify(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """See `Selector.modify`."""
        self._selector.modify(watched, events, owner)

    def unregister(self, watched: Watched) -> None:
        """See `Selector.unregister`."""
        self._selector.unregister(watched)

    def select(self, timeout_ms: int) -> list[tuple[Any, int]]:
        """See `Selector.select`."""
        ready = self._selector.select(timeout_ms / 1000)
        owned = [(key.data, events) for key, events in ready if key.data is not None]
        if len(owned) < len(ready):
            self._drain()
        return owned

    def wakeup(self) -> None:
        """See `Selector.wakeup`."""
        wake = self._wake_writer  # this reference keeps it open while it is written to
        if wake is not None:
            with contextlib.suppress(OSError):  # full: it is awake already; or closed
                wake.write(b"\0")

    @property
    def waker(self) -> Callable[[], object]:
        """See `Selector.waker`."""
        if self._wake_writer is None:
            raise ClosedError("the selector is closed")
        return functools.partial(self._wake_writer.write, b"\0")

    def close(self) -> None:
        """See `Selector.close`."""
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer = None

    def close_after_fork(self) -> None:
        """See `Selector.close_after_fork`."""
        with contextlib.suppress(OSError):  # a kqueue does not exist in a forked child
            self._selector.close()
        self._wake_reader.close()
        self._wake_writer = None

    def _drain(self) -> None:
        """Read all wakeup bytes; what they announce is processed before the next wait."""
        with contextlib.suppress(BlockingIOError):
            while len(self._wake_reader.recv(_DRAIN_BYTES)) == _DRAIN_BYTES:
                pass
