"""Latencies, counted in a histogram whose buckets keep three digits, from a microsecond to an hour.

HdrHistogram keeps percentiles of any number of samples in a few kilobytes, and those of several
processes can be added up. Average and maximum are exact.

Thread-safety: one thread.
Source: HdrHistogram (Gil Tene); its Python port on PyPI.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from hdrh.histogram import HdrHistogram

HIGHEST_US = 3_600_000_000
DIGITS = 3
NS_PER_US = 1_000
NS_PER_MS = 1_000_000


class LatencyTally:
    """A number of latencies.

    Attributes:
        count: How many.
        sum_ns: Sum of all latencies.
        max_ns: The longest; 0 of none.
    """

    __slots__ = ("_histogram", "count", "max_ns", "sum_ns")

    def __init__(self) -> None:
        self._histogram = HdrHistogram(1, HIGHEST_US, DIGITS)
        self.count: int = 0
        self.sum_ns: int = 0
        self.max_ns: int = 0

    def record(self, latencies_ns: Sequence[int]) -> None:
        """Count latencies.

        Args:
            latencies_ns: Latencies; those above an hour count as an hour in percentiles.
        """
        if not latencies_ns:
            return
        record = self._histogram.record_value
        for latency_ns in latencies_ns:
            record(min(max(latency_ns // NS_PER_US, 1), HIGHEST_US))
        self.count += len(latencies_ns)
        self.sum_ns += sum(latencies_ns)
        longest_ns = max(latencies_ns)
        self.max_ns = max(self.max_ns, longest_ns)

    def add(self, other: "LatencyTally") -> None:
        """Count what another has counted, too."""
        if other.count:
            self._histogram.add(other._histogram)  # noqa: SLF001 - of its own kind
        self.count += other.count
        self.sum_ns += other.sum_ns
        self.max_ns = max(self.max_ns, other.max_ns)

    def percentile_ms(self, percent: float) -> float:
        """Return the value that this percentage of the latencies do not exceed.

        Args:
            percent: 0 to 100.

        Returns:
            Milliseconds, to three digits and never above the maximum; 0 of none.
        """
        if not self.count:
            return 0.0
        found_us: int = self._histogram.get_value_at_percentile(percent)
        return min(found_us * NS_PER_US, self.max_ns) / NS_PER_MS

    @property
    def average_ms(self) -> float:
        """The average; 0 of none."""
        return self.sum_ns / self.count / NS_PER_MS if self.count else 0.0

    @property
    def max_ms(self) -> float:
        """The longest; 0 of none."""
        return self.max_ns / NS_PER_MS

    def to_wire(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "count": self.count,
            "sum_ns": self.sum_ns,
            "max_ns": self.max_ns,
            "histogram": self._histogram.encode().decode() if self.count else "",
        }

    @classmethod
    def from_wire(cls, fields: Mapping[str, Any]) -> Self:
        """Read what `to_wire` made.

        Args:
            fields: The fields, as there.

        Returns:
            A new tally.
        """
        tally = cls()
        if fields["count"]:
            tally._histogram.decode_and_add(fields["histogram"])
        tally.count = fields["count"]
        tally.sum_ns = fields["sum_ns"]
        tally.max_ns = fields["max_ns"]
        return tally
