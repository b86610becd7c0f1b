# cython: annotation_typing=False, nonecheck=True
"""Waits for one socket to become readable, outside the client's selector.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

The descriptors are closed with the last reference to the object. So they stay open while a thread
waits or is about to wake one, and their numbers cannot be reused by then.

Thread-safety: `wait` one thread at a time, `wake` any thread; other methods the owner of the
    client.
Source: epoll(7), "Questions and answers" 6, on closed descriptors; eventfd(2).
"""

import os
import select
from errno import EBADF
from typing import TYPE_CHECKING

from kprod._core.signal_handlers import run_handlers
from kprod._core.socket_io.epoll_calls import wait_for_one
from kprod._core.socket_io.owned_descriptor import OwnedDescriptor
from kprod.network.epoll_selector import EVENT_COUNT_OF_ONE

if TYPE_CHECKING:
    from kprod.network.transport import Transport


class SocketWait:
    """Waits until one transport is readable, or until a wakeup; an abstract class.

    Attributes:
        by_edges: Whether a wait need not end for bytes that had arrived before an earlier one
            ended; set before the first `watch`.
    """

    def __init__(self) -> None:
        """Wait by levels."""
        self.by_edges: bool = False

    def watch(self, transport: "Transport") -> None:
        """Set the transport for the next waits, replacing the previous one.

        Args:
            transport: An open transport.
        """
        raise NotImplementedError

    def wait(self, timeout_s: float) -> None:
        """Wait until the transport is readable, `wake` was called, or the timeout expired.

        Args:
            timeout_s: Seconds, at least 0.

        Raises:
            BaseException: A signal handler raised it.
            OSError: The wait failed.
            ValueError: The wait failed.
        """
        raise NotImplementedError

    def wake(self) -> None:
        """End the current wait, or the next one; any thread."""
        raise NotImplementedError

    def close_after_fork(self) -> None:
        """End the current wait in a forked child, without an effect on the parent's."""
        raise NotImplementedError


class EpollSocketWait(SocketWait):
    """Waits by epoll, with an eventfd for wakeups; Linux."""

    def __cinit__(self) -> None:  # noqa: PLW3201 - Cython calls it before any `__init__`
        self._descriptor = -1  # without `__init__` the field would be 0, which is a descriptor

    def __init__(self) -> None:
        """Open two descriptors."""
        super().__init__()
        self._transport: Transport | None = None  # registered with `_epoll`
        self._epoll = select.epoll()
        self._descriptor = self._epoll.fileno()  # −1 once it is closed
        self._wakeup_fd = OwnedDescriptor(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
        self._epoll.register(self._wakeup_fd, select.EPOLLIN | select.EPOLLET)

    def watch(self, transport: "Transport") -> None:
        """See `SocketWait.watch`."""
        previous = self._transport
        if previous is transport:
            return
        self._transport = None
        if previous is not None:
            try:  # noqa: SIM105 - `suppress` is Python code (`COMPILED_MODULES`)
                self._epoll.unregister(previous.fileno())
            except (OSError, ValueError):
                pass  # closed, so the kernel has removed it already
        edges = select.EPOLLET if self.by_edges else 0
        self._epoll.register(transport.fileno(), select.EPOLLIN | edges)
        self._transport = transport

    def wait(self, timeout_s: float) -> None:
        """See `SocketWait.wait`."""
        left_ms = int(timeout_s * 1_000 + 0.999)  # rounded up, so that no wait is too short
        run_handlers()  # of signals that arrived in the compiled code before: see `wait_for`
        try:
            while left_ms >= 0:  # after a signal again, by the descriptor that there is now
                left_ms = wait_for_one(self._descriptor, left_ms)
        except OSError as error:
            if self._descriptor >= 0 or error.errno != EBADF:
                raise
            # A signal handler has forked this process during the wait.

    def wake(self) -> None:
        """See `SocketWait.wake`."""
        self._wakeup_fd.write(EVENT_COUNT_OF_ONE)

    def close_after_fork(self) -> None:
        """See `SocketWait.close_after_fork`; the child's epoll is shared with the parent's."""
        self._descriptor = -1
        self._epoll.close()
