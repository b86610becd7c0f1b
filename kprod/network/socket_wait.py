# cython: annotation_typing=False, nonecheck=True
"""A wait for one socket to become readable, outside the client's selector.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Its descriptors are closed with the last reference to it. So they stay open while a thread waits, or
is about to wake one, and never belong to somebody else's file by then.

Thread-safety: `wait` one thread at a time, `wake` any thread; the rest whoever owns the client.
Source: epoll(7), "Questions and answers" 6, on closed descriptors; eventfd(2).
"""

import os
import select
from typing import TYPE_CHECKING

from kprod._core.socket_io.owned_descriptor import OwnedDescriptor
from kprod.network.epoll_selector import EVENT_COUNT_OF_ONE

if TYPE_CHECKING:
    from kprod.network.transport import Transport


class SocketWait:
    """Waits until one transport is readable, or until it is woken; to be subclassed."""

    def watch(self, transport: "Transport") -> None:
        """Choose the transport that ends the waits to come, in place of the one before.

        Args:
            transport: Open.
        """
        raise NotImplementedError

    def wait(self, timeout_s: float) -> None:
        """Wait until the transport is readable, `wake` was called, or the timeout expired.

        Args:
            timeout_s: Seconds, at least 0.

        Raises:
            BaseException: A signal handler raised it.
            OSError: The system refused the wait.
            ValueError: Likewise.
        """
        raise NotImplementedError

    def wake(self) -> None:
        """End the present wait, or the next one; any thread."""
        raise NotImplementedError

    def close_after_fork(self) -> None:
        """End the present wait in a forked child, without any effect on the parent's."""
        raise NotImplementedError


class EpollSocketWait(SocketWait):
    """epoll, and an eventfd to be woken by; Linux."""

    def __init__(self) -> None:
        """Open two descriptors."""
        self._transport: Transport | None = None  # registered with `_epoll`
        self._epoll = select.epoll()
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
                pass  # it is closed, and so the kernel has forgotten it
        self._epoll.register(transport.fileno(), select.EPOLLIN)
        self._transport = transport

    def wait(self, timeout_s: float) -> None:
        """See `SocketWait.wait`."""
        epoll = self._epoll
        try:
            epoll.poll(timeout_s, 1)
        except (OSError, ValueError):
            if not epoll.closed:
                raise
            # A signal handler has forked this process during the wait.

    def wake(self) -> None:
        """See `SocketWait.wake`."""
        self._wakeup_fd.write(EVENT_COUNT_OF_ONE)

    def close_after_fork(self) -> None:
        """See `SocketWait.close_after_fork`; the child's epoll is shared with the parent's."""
        self._epoll.close()
