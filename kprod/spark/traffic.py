"""What a task cost on the wire, from the counters that the producer keeps anyway.

A producer outlives tasks, so that a task's share is the difference between two readings. The
latency is the greatest of the producer's last 30 to 60 s.

Thread-safety: one task's.
"""

import math
from dataclasses import dataclass
from typing import Self

from kprod import Producer
from kprod.clock import SystemClock

__all__ = ["Traffic", "TrafficMeter"]

_TOPIC_GROUP = "producer-topic-metrics."


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one task, or all tasks of a write, cost.

    Attributes:
        sent_bytes: Of record batches on the wire, compressed, dead letters and retries included.
        retried_count: Records that the producer had to send again.
        acknowledgement_ms_max: Longest time from a Produce request to its response.
        duration_ms: Of the task; of all tasks together, the longest.

    Thread-safety: immutable.
    """

    sent_bytes: int = 0
    retried_count: int = 0
    acknowledgement_ms_max: float = 0.0
    duration_ms: int = 0

    def merged(self, other: Self) -> "Traffic":
        """Return the traffic of both."""
        return Traffic(
            sent_bytes=self.sent_bytes + other.sent_bytes,
            retried_count=self.retried_count + other.retried_count,
            acknowledgement_ms_max=max(self.acknowledgement_ms_max, other.acknowledgement_ms_max),
            duration_ms=max(self.duration_ms, other.duration_ms),
        )


class TrafficMeter:
    """Measures one task, from its making on.

    Args:
        producer: The task's.
    """

    __slots__ = ("_begin_ms", "_bytes_before", "_clock", "_producer", "_retried_before")

    def __init__(self, producer: Producer) -> None:
        self._clock = SystemClock()
        self._producer = producer
        self._begin_ms = self._clock.now_ms()
        self._bytes_before, self._retried_before, _ = self._read()

    def measured(self) -> Traffic:
        """Return the traffic since this meter was made."""
        sent_bytes, retried_count, latency_ms = self._read()
        return Traffic(
            # The counters of a topic unused for long are dropped: never below 0.
            sent_bytes=max(sent_bytes - self._bytes_before, 0),
            retried_count=retried_count - self._retried_before,
            acknowledgement_ms_max=latency_ms,
            duration_ms=self._clock.now_ms() - self._begin_ms,
        )

    def _read(self) -> tuple[int, int, float]:
        metrics = self._producer.metrics()
        own = metrics["producer-metrics"]
        sent = sum(
            group["byte-total"] for name, group in metrics.items() if name.startswith(_TOPIC_GROUP)
        )
        latency_ms = own["request-latency-max"]
        known_ms = 0.0 if math.isnan(latency_ms) else latency_ms
        return int(sent), int(own["record-retry-total"]), known_ms
