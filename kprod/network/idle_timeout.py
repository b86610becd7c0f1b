"""Ends a connection that nothing uses for `connections_max_idle_ms`.

Not on the direct path: the I/O thread's timer runs the task.

Thread-safety: one thread.
"""

from collections.abc import Callable

from kprod.network.connection_context import ConnectionContext
from kprod.timer.timer import TimerTask


class IdleTimeout:
    """The idle time of one connection."""

    __slots__ = ("_context", "_idle_ms", "_on_idle", "_task")

    def __init__(
        self,
        context: ConnectionContext,
        idle_ms: Callable[[int], int],
        on_idle: Callable[[int], object],
    ) -> None:
        """Start without a task.

        Args:
            context: The state that the client's connections share.
            idle_ms: Gets the monotonic time, and returns for how long the connection was not used.
            on_idle: Called with the monotonic time when that is too long.
        """
        self._context = context
        self._idle_ms = idle_ms
        self._on_idle = on_idle
        self._task: TimerTask | None = None

    def begin(self, used_at_ms: int) -> None:
        """Look at the connection when it may have been idle for too long.

        Args:
            used_at_ms: Monotonic time of its last use.
        """
        idle_max_ms = self._context.settings.connections_max_idle_ms
        if idle_max_ms >= 0:
            self._task = TimerTask(self._on_due)
            self._context.timer.add_at(used_at_ms + idle_max_ms, self._task)

    def end(self) -> None:
        """Look no more; the connection is closed."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _on_due(self) -> None:
        now_ms = self._context.timer.now_ms
        idle_ms = self._idle_ms(now_ms)
        if idle_ms < self._context.settings.connections_max_idle_ms:
            self.begin(now_ms - idle_ms)
        else:
            self._on_idle(now_ms)
