"""Sleep until a socket is ready, a time has passed, or another thread has something to do.

Waking is a byte written to a socket pair, and nothing else is shared between the threads. To spare
the system call while the client is awake would need a lock, and a signal handler that waits for
the client may come in while its thread holds it. Sending threads, of which there are many, know
whether the client sleeps and call `waker` only then.

Invariants.
    A `wakeup` after a `select` returned ends the next `select` at once.
    All bytes in the socket pair end one `select`, which takes them out.
    The descriptor that wakes it stays open for as long as any thread can write to it.

Thread-safety: `wakeup` and `waker` from any thread; the rest belongs to the client's thread.
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
EVENT_NONE = 0  # except that the peer has gone; only if `Selector.can_pause`
_DRAIN_BYTES = 4096


class Watched(Protocol):
    """Something with a file descriptor."""

    def fileno(self) -> int:
        """The descriptor."""


class Selector(Protocol):
    """The interface to readiness."""

    @property
    def can_pause(self) -> bool:
        """Whether `modify` takes `EVENT_NONE`, also from another thread during a `select`."""

    def register(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """Start to watch.

        Args:
            watched: Not watched yet.
            events: `EVENT_READ`, `EVENT_WRITE` or both.
            owner: Returned by `select` when an event has come.
        """

    def modify(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """Watch for other events; otherwise as `register`."""

    def unregister(self, watched: Watched) -> None:
        """Stop watching, before the descriptor is closed."""

    def select(self, timeout_ms: int) -> list[tuple[Any, int]]:
        """Sleep at most `timeout_ms`; return owners and their events."""

    def wakeup(self) -> None:
        """End the present sleep, or the next one."""

    @property
    def waker(self) -> Callable[[], object]:
        """As `wakeup`, for a caller that knows of the sleep.

        Built-ins only, so that no signal handler runs in the middle. May raise `OSError`, which
        means that the selector wakes already, or is closed. It keeps a descriptor open: let go of
        it when nobody is to be woken any more.

        Raises:
            ClosedError: The selector is closed.
        """

    def close(self) -> None:
        """Give up all descriptors of its own."""

    def close_after_fork(self) -> None:
        """As `close`, in a forked child: takes no lock, and lets the parent's sleep alone."""


class SystemSelector:
    """kqueue, epoll or what the system has, with a pair of sockets to be woken by."""

    __slots__ = ("_selector", "_wake_reader", "_wake_writer")

    def __init__(self) -> None:
        """Take three descriptors."""
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
        wake = self._wake_writer  # held, and so open, until it is written to
        if wake is not None:
            with contextlib.suppress(OSError):  # full: it wakes already; or nobody is left to wake
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
        with contextlib.suppress(OSError):  # a kqueue is not there after a fork
            self._selector.close()
        self._wake_reader.close()
        self._wake_writer = None

    def _drain(self) -> None:
        """Take out what wakes; whatever it announced is seen before the next sleep."""
        with contextlib.suppress(BlockingIOError):
            while len(self._wake_reader.recv(_DRAIN_BYTES)) == _DRAIN_BYTES:
                pass
