"""The clocks of kprod: the protocol, and its two implementations. No other module reads the time.

Thread-safety: see `kprod._core.clock`.
"""

from typing import Protocol

from kprod._core.clock import Deadline, ManualClock, SystemClock, wait_by

__all__ = ["Clock", "Deadline", "ManualClock", "SystemClock", "wait_by"]


class Clock(Protocol):
    """Two instants: monotonic for deadlines, wall for timestamps."""

    def now_ms(self) -> int:
        """Monotonic milliseconds from an arbitrary origin."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds, same origin as `now_ms`."""

    def timestamp_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""
