"""Latencies, counted in a histogram whose buckets keep three digits, from a microsecond to an hour.

HdrHistogram keeps percentiles of any number of samples in a few kilobytes, and those of several
processes can be added up. Average and maximum are exact.

Its Python port takes microseconds for each sample. So samples are counted by their buckets here,
and the histogram is filled with the counts when a percentile is asked for: never in the process
that is measured.

Thread-safety: one thread.
Source: HdrHistogram (Gil Tene); its Python port on PyPI.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

HIGHEST_US = 3_600_000_000
DIGITS = 3
NS_PER_US = 1_000
NS_PER_MS = 1_000_000
_BUCKET_BITS = 11
"""Each value of up to 11 bits has a bucket; longer values share a bucket if their first 11 bits are
equal: HdrHistogram's layout for three digits."""


class LatencyTally:
    """A number of latencies.

    Attributes:
        count: Number of latencies.
        sum_ns: Sum of all latencies.
        max_ns: The longest; 0 of none.
    """

    __slots__ = ("_counts", "_histogram", "count", "max_ns", "sum_ns")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()  # by the bucket's lowest value, in microseconds
        self._histogram: HdrHistogram | None = None  # all counts; None until it is asked for
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
        self._take(
            Counter(map(_bucket_us, latencies_ns)),
            count=len(latencies_ns),
            sum_ns=sum(latencies_ns),
            max_ns=max(latencies_ns),
        )

    def add(self, other: "LatencyTally") -> None:
        """Count what another has counted, too."""
        counts = other._counts  # noqa: SLF001 - of its own kind
        self._take(counts, count=other.count, sum_ns=other.sum_ns, max_ns=other.max_ns)

    def percentile_ms(self, percent: float) -> float:
        """Return the value that this percentage of the latencies do not exceed.

        Args:
            percent: 0 to 100.

        Returns:
            Milliseconds, to three digits and never above the maximum; 0 of none.
        """
        if not self.count:
            return 0.0
        if self._histogram is None:
            self._histogram = _histogram_of(self._counts)
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
        """Return the tally in the form that JSON can hold."""
        return {
            "count": self.count,
            "sum_ns": self.sum_ns,
            "max_ns": self.max_ns,
            "buckets_us": list(self._counts.items()),
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
        tally._take(
            dict(fields["buckets_us"]),
            count=fields["count"],
            sum_ns=fields["sum_ns"],
            max_ns=fields["max_ns"],
        )
        return tally

    def _take(self, counts: Mapping[int, int], *, count: int, sum_ns: int, max_ns: int) -> None:
        self._counts.update(counts)
        self._histogram = None
        self.count += count
        self.sum_ns += sum_ns
        self.max_ns = max(self.max_ns, max_ns)


def _bucket_us(latency_ns: int) -> int:
    latency_us = min(max(latency_ns // NS_PER_US, 1), HIGHEST_US)
    dropped_bits = max(latency_us.bit_length() - _BUCKET_BITS, 0)
    return latency_us >> dropped_bits << dropped_bits


def _histogram_of(counts: Mapping[int, int]) -> "HdrHistogram":
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415 - see the module

    histogram = HdrHistogram(1, HIGHEST_US, DIGITS)
    for latency_us, count in counts.items():
        histogram.record_value(latency_us, count)
    return histogram
