"""The bytes and the time that a task needed, from the producer's counters.

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
    """The requests and bytes of one task, or of all tasks of a write.

    Attributes:
        sent_bytes: Size of the sent record batches, compressed, including dead letters and retries.
        sent_batch_count: Number of those batches.
        retried_count: Records that the producer had to send again.
        acknowledgement_ms_max: Longest time from a Produce request to its response.
        duration_ms: Duration of the task; for all tasks together, the longest.

    Thread-safety: immutable.
    """

    sent_bytes: int = 0
    sent_batch_count: int = 0
    retried_count: int = 0
    acknowledgement_ms_max: float = 0.0
    duration_ms: int = 0

    def merged(self, other: Self) -> "Traffic":
        """Return the traffic of both."""
        return Traffic(
            sent_bytes=self.sent_bytes + other.sent_bytes,
            sent_batch_count=self.sent_batch_count + other.sent_batch_count,
            retried_count=self.retried_count + other.retried_count,
            acknowledgement_ms_max=max(self.acknowledgement_ms_max, other.acknowledgement_ms_max),
            duration_ms=max(self.duration_ms, other.duration_ms),
        )


class TrafficMeter:
    """Measures one task, from its making on.

    Args:
        producer: The task's.
    """

    __slots__ = ("_before", "_begin_ms", "_clock", "_producer")

    def __init__(self, producer: Producer) -> None:
        self._clock = SystemClock()
        self._producer = producer
        self._begin_ms = self._clock.now_ms()
        self._before = self._read()

    def measured(self) -> Traffic:
        """Return the traffic since this meter was made."""
        before, now = self._before, self._read()
        return Traffic(
            # The counters of a topic unused for long are dropped: never below 0.
            sent_bytes=max(now.sent_bytes - before.sent_bytes, 0),
            sent_batch_count=now.sent_batch_count - before.sent_batch_count,
            retried_count=now.retried_count - before.retried_count,
            acknowledgement_ms_max=now.acknowledgement_ms_max,
            duration_ms=self._clock.now_ms() - self._begin_ms,
        )

    def _read(self) -> Traffic:
        metrics = self._producer.metrics()
        own = metrics["producer-metrics"]
        topics = [group for name, group in metrics.items() if name.startswith(_TOPIC_GROUP)]
        latency_ms = own["request-latency-max"]
        return Traffic(
            sent_bytes=int(sum(topic["byte-total"] for topic in topics)),
            sent_batch_count=int(own["batch-send-total"]),
            retried_count=int(own["record-retry-total"]),
            acknowledgement_ms_max=0.0 if math.isnan(latency_ms) else latency_ms,
        )
