"""Counts the flushes of logs, and how long they take.

A flush in the background lasts from its submission to its completion on the broker's thread, so
that it includes the time in which other syncs are ahead of it.

Thread-safety: the broker's thread.
Source: Kafka LogFlushStats (4.3), whose timer measures the sync of each segment.
"""

from kprod.clock import Clock

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000


class FlushStats:
    """Number and duration of all successful flushes."""

    __slots__ = ("_began_ns", "_clock", "_count", "_longest_ns", "_total_ns")

    def __init__(self, clock: Clock) -> None:
        """Start with no flushes.

        Args:
            clock: The clock for durations.
        """
        self._clock = clock
        self._began_ns = clock.now_ns()
        self._count = 0
        self._longest_ns = 0
        self._total_ns = 0

    def begin(self) -> int:
        """Return the start of a flush, for `end`."""
        return self._clock.now_ns()

    def end(self, start_ns: int) -> None:
        """Record a successful flush.

        Args:
            start_ns: Result of `begin`.
        """
        elapsed_ns = self._clock.now_ns() - start_ns
        self._count += 1
        self._total_ns += elapsed_ns
        self._longest_ns = max(self._longest_ns, elapsed_ns)

    def metrics(self) -> dict[str, float]:
        """Values by the attributes of Kafka's timers; durations are in milliseconds."""
        lifetime_ns = max(self._clock.now_ns() - self._began_ns, 1)
        return {
            "Count": self._count,
            "MeanRate": self._count * _NS_PER_S / lifetime_ns,
            "Mean": self._total_ns / self._count / _NS_PER_MS if self._count else 0.0,
            "Max": self._longest_ns / _NS_PER_MS,
        }
