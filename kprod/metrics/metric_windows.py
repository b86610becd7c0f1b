"""Sums and peaks that only grow, and what they grew by in the latest windows of time.

Counters are incremented where events happen (`kprod._core.metrics.counters`). Averages and rates
are calculated on request, from the difference to a copy made at the start of a window. So counting
costs a few additions for each batch, and one copy every 30 s.

A rate covers between one and two windows back, as with Kafka's two samples of 30 s; up
to three if the thread that counts slept over a window's end.

Invariants.
    Sums never fall. A peak is the greatest value of a window, and starts at nothing in the next.
    `turn` is called by the one thread that counts; `span` changes nothing.

Thread-safety: one thread counts; any thread reads, and may see a batch half counted.
Source: Kafka SampledStat, Rate, Avg, Max (clients 4.3.1) for what the values mean.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kprod._core.metrics.counters import ProducerCounters

WINDOW_MS = 30_000  # Kafka's metrics.sample.window.ms
_SUFFIX_OF_PEAKS = "_max"


class Span(NamedTuple):
    """Counts of the last windows.

    Attributes:
        elapsed_ms: How long it covers, at least 1,000: a rate of the first instant says nothing.
        sums: Growth of each sum.
        peaks: Greatest value of each peak.
        latencies: Growth of each bucket of latencies; none where they are not counted.
    """

    elapsed_ms: int
    sums: Mapping[str, int]
    peaks: Mapping[str, int]
    latencies: Sequence[int] = ()


class MetricWindows:
    """Counters, and the two latest windows of them."""

    __slots__ = (
        "_at_earlier",
        "_at_start",
        "_earlier_ms",
        "_earlier_peaks",
        "_peak_names",
        "_start_ms",
        "_sum_names",
        "counters",
    )

    def __init__(self, counters: object, names: Sequence[str], now_ms: int) -> None:
        """Open the first window.

        Args:
            counters: An object with integers by these names.
            names: Names of sums, and of peaks, which end in `_max`.
            now_ms: Monotonic time.
        """
        self.counters: object = counters
        self._sum_names = [name for name in names if not name.endswith(_SUFFIX_OF_PEAKS)]
        self._peak_names = [name for name in names if name.endswith(_SUFFIX_OF_PEAKS)]
        self._start_ms = self._earlier_ms = now_ms
        self._at_start = self._at_earlier = self._copy()
        self._earlier_peaks = (0,) * len(self._peak_names)

    def advance(self, now_ms: int) -> None:
        """Open the next window if the present one is over; by the thread that counts.

        Args:
            now_ms: Monotonic time.
        """
        idle_ms = now_ms - self._start_ms
        if idle_ms < WINDOW_MS:
            return
        sums = self._copy()
        if idle_ms < 2 * WINDOW_MS:
            self._at_earlier, self._earlier_ms = self._at_start, self._start_ms
            self._earlier_peaks = self._peaks()
        else:
            self._at_earlier, self._earlier_ms = sums, now_ms
            self._earlier_peaks = (0,) * len(self._peak_names)
        self._at_start, self._start_ms = sums, now_ms
        for name in self._peak_names:
            setattr(self.counters, name, 0)

    def span(self, now_ms: int) -> Span:
        """Return the counts of the last windows; any thread.

        Args:
            now_ms: Monotonic time.

        Returns:
            The present window and the one before it, as far as they are not over.
        """
        sums, peaks = self._copy(), self._peaks()
        idle_ms = now_ms - self._start_ms
        if idle_ms >= 2 * WINDOW_MS:  # nothing was counted since, not even a turn
            before, since_ms = sums, now_ms - WINDOW_MS
            peaks = (0,) * len(peaks)
        elif idle_ms >= WINDOW_MS:
            before, since_ms = self._at_start, self._start_ms
        else:
            before, since_ms = self._at_earlier, self._earlier_ms
            peaks = tuple(map(max, peaks, self._earlier_peaks))
        growth = [after - at for after, at in zip(sums, before, strict=True)]
        named_count = len(self._sum_names)
        return Span(
            max(now_ms - since_ms, 1_000),
            dict(zip(self._sum_names, growth[:named_count], strict=True)),
            dict(zip(self._peak_names, peaks, strict=True)),
            tuple(growth[named_count:]),
        )

    def _copy(self) -> tuple[int, ...]:
        """Return the sums in the order of their names, followed by the buckets of latencies."""
        sums = tuple(getattr(self.counters, name) for name in self._sum_names)
        if isinstance(self.counters, ProducerCounters):
            return sums + self.counters.latency_counts()
        return sums

    def _peaks(self) -> tuple[int, ...]:
        return tuple(getattr(self.counters, name) for name in self._peak_names)
