"""Sums and peaks that only grow, and what they grew by in the latest windows of time.

Recording is adding to an attribute: `tally.records += n`. Averages and rates are made when someone
asks, from the difference to a copy that was taken when a window began. So a tally costs its owner a
few additions per batch, and one copy every 30 s.

What is asked about lies between one and two windows back, as with Kafka's two samples of 30 s; up
to three if the thread that records slept over a window's end.

Invariants.
    Sums never fall. A peak is the greatest value of a window, and begins anew with the next.
    `turn` is called by the one thread that records; `span` changes nothing.

Thread-safety: one thread records; any thread reads, and may see a batch half recorded.
Source: Kafka SampledStat, Rate, Avg, Max (clients 4.3.1) for what the values mean.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

WINDOW_MS = 30_000  # Kafka's metrics.sample.window.ms


class Span(NamedTuple):
    """What was recorded of late.

    Attributes:
        elapsed_ms: How long it covers, at least 1,000: a rate of the first instant says nothing.
        sums: Growth of each sum.
        peaks: Greatest value of each peak.
    """

    elapsed_ms: int
    sums: Mapping[str, int]
    peaks: Mapping[str, int]


class Tally:
    """Sums, peaks, and the two latest windows of them.

    Attributes:
        SUMS: Names of the attributes that are added to.
        PEAKS: Names of those that keep a greatest value.
    """

    SUMS: ClassVar[tuple[str, ...]] = ()
    PEAKS: ClassVar[tuple[str, ...]] = ()

    __slots__ = ("_at_earlier", "_at_start", "_earlier_ms", "_earlier_peaks", "_start_ms")

    def __init__(self, now_ms: int) -> None:
        """Begin at zero.

        Args:
            now_ms: Monotonic.
        """
        for name in self.SUMS + self.PEAKS:
            setattr(self, name, 0)
        # The present window, and the one before it; together, so that a reader gets a pair.
        self._start_ms = self._earlier_ms = now_ms
        self._at_start = self._at_earlier = self._copy()
        self._earlier_peaks = (0,) * len(self.PEAKS)

    def turn(self, now_ms: int) -> None:
        """Begin another window, if the present one is over; by the thread that records.

        Args:
            now_ms: Monotonic.
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
            self._earlier_peaks = (0,) * len(self.PEAKS)
        self._at_start, self._start_ms = sums, now_ms
        for name in self.PEAKS:
            setattr(self, name, 0)

    def span(self, now_ms: int) -> Span:
        """What was recorded of late; any thread.

        Args:
            now_ms: Monotonic.

        Returns:
            The present window and the one before it, as far as they are not over.
        """
        sums, peaks = self._copy(), self._peaks()
        idle_ms = now_ms - self._start_ms
        if idle_ms >= 2 * WINDOW_MS:  # nobody has recorded since, not even a turn
            before, since_ms = sums, now_ms - WINDOW_MS
            peaks = (0,) * len(self.PEAKS)
        elif idle_ms >= WINDOW_MS:
            before, since_ms = self._at_start, self._start_ms
        else:
            before, since_ms = self._at_earlier, self._earlier_ms
            peaks = tuple(map(max, peaks, self._earlier_peaks))
        growth = (after - at for after, at in zip(sums, before, strict=True))
        return Span(
            max(now_ms - since_ms, 1_000),
            dict(zip(self.SUMS, growth, strict=True)),
            dict(zip(self.PEAKS, peaks, strict=True)),
        )

    def _copy(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in self.SUMS)

    def _peaks(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in self.PEAKS)


class SenderTally(Tally):
    """What the sender's thread counts for the whole producer; times in the units of the names."""

    batches: int
    records: int
    plain_bytes: int
    encoded_bytes: int
    queued_ms: int
    produce_requests: int
    answers: int
    latency_ms: int
    throttled_ms: int
    retried_records: int
    failed_records: int
    splits: int
    requests: int
    request_bytes: int
    responses: int
    response_bytes: int
    connections_made: int
    connections_closed: int
    selects: int
    waited_ns: int
    served_ns: int
    queued_ms_max: int
    encoded_bytes_max: int
    latency_ms_max: int
    throttled_ms_max: int
    request_bytes_max: int

    SUMS = (
        "batches",
        "records",
        "plain_bytes",
        "encoded_bytes",
        "queued_ms",
        "produce_requests",
        "answers",
        "latency_ms",
        "throttled_ms",
        "retried_records",
        "failed_records",
        "splits",
        "requests",
        "request_bytes",
        "responses",
        "response_bytes",
        "connections_made",
        "connections_closed",
        "selects",
        "waited_ns",
        "served_ns",
    )
    PEAKS = (
        "queued_ms_max",
        "encoded_bytes_max",
        "latency_ms_max",
        "throttled_ms_max",
        "request_bytes_max",
    )
    __slots__ = SUMS + PEAKS


class CallerTally(Tally):
    """What application threads count, each behind the recorder's lock."""

    memory_waits_ns: int
    refused_for_memory: int
    metadata_waits_ns: int
    flushes_ns: int

    SUMS = ("memory_waits_ns", "refused_for_memory", "metadata_waits_ns", "flushes_ns")
    __slots__ = SUMS


class NodeTally(Tally):
    """What the sender's thread counts of one node."""

    requests: int
    request_bytes: int
    responses: int
    response_bytes: int
    answers: int
    latency_ms: int
    latency_ms_max: int
    request_bytes_max: int

    SUMS = ("requests", "request_bytes", "responses", "response_bytes", "answers", "latency_ms")
    PEAKS = ("latency_ms_max", "request_bytes_max")
    __slots__ = SUMS + PEAKS


class TopicTally(Tally):
    """What the sender's thread counts of one topic."""

    records: int
    plain_bytes: int
    encoded_bytes: int
    retried_records: int
    failed_records: int

    SUMS = ("records", "plain_bytes", "encoded_bytes", "retried_records", "failed_records")
    __slots__ = SUMS
