"""Schedules of records: at full speed, or at a fixed rate.

With a rate the loop is *open*: record n is due n / rate seconds after the start, whether earlier
records are complete or not. Its latency counts from that time. So if a broker stops and `send`
blocks, the latencies of all records that were due meanwhile include their wait. A *closed* loop,
which counts from the call of `send`, would show one long latency and omit the others: Gil Tene
calls it coordinated omission.

Thread-safety: one thread reads; nothing changes after `begin`.
Source: HdrHistogram's documentation, for coordinated omission.
"""

from typing import Protocol

from kprod.clock import Clock

NS_PER_S = 1_000_000_000
BLOCK_COUNT = 10_000
"""Records that are asked for at a time, at most."""


class Pace(Protocol):
    """A schedule of records; their numbers count from 0."""

    def begin(self) -> None:
        """Start the clock."""

    def due_ns(self, number: int) -> int:
        """Return the clock time (ns) from which a record's latency counts.

        Call it right before the send.
        """

    def due_count(self, sent_count: int) -> int:
        """Return how many records are due after those already sent, at most `BLOCK_COUNT`."""

    def wait_s(self, sent_count: int) -> float:
        """Return how long it takes until the next record is due."""


class FullSpeed:
    """Records are due at once.

    Args:
        clock: For the instant of a send.
    """

    __slots__ = ("due_ns_now",)

    def __init__(self, clock: Clock) -> None:
        self.due_ns_now = clock.now_ns

    def begin(self) -> None:
        """See `Pace`."""

    def due_ns(self, number: int) -> int:  # noqa: ARG002 - as `Pace`
        """See `Pace`."""
        return self.due_ns_now()

    def due_count(self, sent_count: int) -> int:  # noqa: ARG002 - as `Pace`
        """See `Pace`."""
        return BLOCK_COUNT

    def wait_s(self, sent_count: int) -> float:  # noqa: ARG002 - as `Pace`
        """See `Pace`."""
        return 0.0


class OpenLoop:
    """Records are due one after the other, evenly spaced.

    Args:
        clock: Monotonic.
        rate: Records per second, above 0.
    """

    __slots__ = ("_began_ns", "_clock", "_rate")

    def __init__(self, clock: Clock, rate: float) -> None:
        self._clock = clock
        self._rate = rate
        self._began_ns = clock.now_ns()

    def begin(self) -> None:
        """See `Pace`."""
        self._began_ns = self._clock.now_ns()

    def due_ns(self, number: int) -> int:
        """See `Pace`."""
        return self._began_ns + int(number * NS_PER_S / self._rate)

    def due_count(self, sent_count: int) -> int:
        """See `Pace`."""
        elapsed_ns = self._clock.now_ns() - self._began_ns
        due = int(elapsed_ns * self._rate / NS_PER_S) + 1  # record 0 is due at the begin
        return min(max(due - sent_count, 0), BLOCK_COUNT)

    def wait_s(self, sent_count: int) -> float:
        """See `Pace`."""
        return max(self.due_ns(sent_count) - self._clock.now_ns(), 0) / NS_PER_S
