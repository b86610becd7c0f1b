# cython: annotation_typing=False, nonecheck=True
"""Waits for socket events on Linux, with a minimum of system calls.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A wakeup costs the sleeping thread nothing: the eventfd is edge-triggered, so its counter is never
read, and each write ends one `select`. That saves a tenth of the round trip of a single record.

Invariants.
    A `wakeup` ends the current `select`, or the next one. The eventfd stays open while any thread
    may write to it.

Thread-safety: `wakeup` and `waker` from any thread; other methods on the client's thread.
Source: epoll(7) on edges; eventfd(2).
"""

import contextlib
import functools
import os
import select
import sys
from collections.abc import Callable
from typing import Any, Final

from kprod._core.socket_io.epoll_calls import change_events
from kprod._core.socket_io.owned_descriptor import OwnedDescriptor
from kprod.errors import ClosedError
from kprod.network.selector import EVENT_NONE, EVENT_READ, EVENT_WRITE, Watched

IS_AVAILABLE: Final = hasattr(select, "epoll") and hasattr(os, "eventfd")

EVENT_COUNT_OF_ONE: Final = (1).to_bytes(8, sys.byteorder)  # the value written to an eventfd

_MS_PER_S: Final = 1_000
# C integers (see the `.pxd`): looked up for each record. epoll's are absent where there is none.
_NONE: Final = EVENT_NONE
_READ: Final = EVENT_READ
_EPOLLIN: Final[int] = getattr(select, "EPOLLIN", 0)
_EPOLLRDHUP: Final[int] = getattr(select, "EPOLLRDHUP", 0)


class EpollSelector:
    """epoll, with an eventfd for wakeups."""

    def __cinit__(self) -> None:  # noqa: PLW3201 - Cython calls it before any `__init__`
        self._descriptor = -1  # without `__init__` the field would be 0, which is a descriptor

    def __init__(self) -> None:
        """Open two descriptors."""
        self._epoll = select.epoll()
        self._descriptor = self._epoll.fileno()  # −1 once it is closed
        self._owners: dict[int, Any] = {}
        self._wake: OwnedDescriptor | None = OwnedDescriptor(
            os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        )
        self._epoll.register(self._wake, select.EPOLLIN | select.EPOLLET)

    @property
    def can_pause(self) -> bool:
        """See `Selector.can_pause`."""
        return True

    def register(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """See `Selector.register`."""
        descriptor = watched.fileno()
        self._epoll.register(descriptor, _to_epoll(events))
        self._owners[descriptor] = owner

    def modify(self, watched: Watched, events: int, owner: Any) -> None:  # noqa: ANN401
        """See `Selector.modify`."""
        descriptor = watched.fileno()
        self.change(descriptor, events)
        self._owners[descriptor] = owner

    def change(self, descriptor: int, events: int) -> None:
        """Do what `modify` does, for the same owner.

        Args:
            descriptor: The descriptor of something that is registered.
            events: As for `register`.
        """
        change_events(self._descriptor, descriptor, _to_epoll(events))

    def unregister(self, watched: Watched) -> None:
        """See `Selector.unregister`."""
        descriptor = watched.fileno()
        del self._owners[descriptor]
        with contextlib.suppress(OSError):  # the kernel has removed a closed descriptor already
            self._epoll.unregister(descriptor)

    def select(self, timeout_ms: int) -> list[tuple[Any, int]]:
        """See `Selector.select`."""
        owners = self._owners
        return [
            (owners[descriptor], EVENT_READ if bits == select.EPOLLIN else _from_epoll(bits))
            for descriptor, bits in self._epoll.poll(timeout_ms / _MS_PER_S)
            if descriptor in owners
        ]

    def wakeup(self) -> None:
        """See `Selector.wakeup`."""
        wake = self._wake  # this reference keeps it open while it is written to
        if wake is not None:
            try:  # noqa: SIM105 - `suppress` is Python code (`COMPILED_MODULES`)
                wake.write(EVENT_COUNT_OF_ONE)
            except OSError:
                pass  # the counter is full, so a wakeup is pending, or the descriptor is closed

    @property
    def waker(self) -> Callable[[], object]:
        """See `Selector.waker`."""
        if self._wake is None:
            raise ClosedError("the selector is closed")
        return functools.partial(self._wake.write, EVENT_COUNT_OF_ONE)

    def close(self) -> None:
        """See `Selector.close`."""
        self._owners.clear()
        self._descriptor = -1
        self._epoll.close()
        self._wake = None

    def close_after_fork(self) -> None:
        """See `Selector.close_after_fork`."""
        self.close()  # closes the child's copies, without a call to the shared epoll


def _to_epoll(events: int) -> int:
    """Convert events to epoll's; without any, epoll still reports that the peer has closed."""
    if events == _READ:
        return _EPOLLIN
    if events == _NONE:
        return _EPOLLRDHUP
    reads = select.EPOLLIN if events & EVENT_READ else 0
    return reads | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def _from_epoll(bits: int) -> int:
    """Convert epoll's events; errors count as both, so that the next call reports them."""
    reads = EVENT_READ if bits & ~select.EPOLLOUT else 0
    return reads | (EVENT_WRITE if bits & ~select.EPOLLIN else 0)
