"""Statistics of the cleaner, under the names of Kafka's metrics.

Thread-safety: the broker's thread.
Source: the metrics of Kafka's LogCleaner (4.3).
"""

from kprod.broker.log.cleaning.round import RoundSummary

_PERCENT = 100


class CleanerStats:
    """Totals of all rounds, and the figures of the last round.

    Attributes:
        round_count: Number of completed rounds.
        last_end_ms: Monotonic time at which the last round completed, in milliseconds; None before
            the first.
    """

    __slots__ = ("_last", "_longest_s", "last_end_ms", "round_count")

    def __init__(self) -> None:
        """Start with no rounds."""
        self._last = RoundSummary()
        self._longest_s = 0.0
        self.round_count: int = 0
        self.last_end_ms: int | None = None

    def note(self, summary: RoundSummary, seconds: float, now_ms: int) -> None:
        """Record a completed round.

        Args:
            summary: The round's results.
            seconds: The round's duration.
            now_ms: Monotonic time, in milliseconds.
        """
        self._last = summary
        self._longest_s = max(self._longest_s, seconds)
        self.round_count += 1
        self.last_end_ms = now_ms

    def metrics(self, now_ms: int) -> dict[str, float]:
        """Values by Kafka's names.

        Args:
            now_ms: Monotonic time, in milliseconds.

        Returns:
            Until the first round, `time-since-last-run-ms` is 0.
        """
        last = self._last
        since_ms = 0 if self.last_end_ms is None else now_ms - self.last_end_ms
        recopied = _PERCENT * last.kept_bytes / last.read_bytes if last.read_bytes else 0.0
        return {
            "cleaner-recopy-percent": recopied,
            "max-buffer-utilization-percent": _PERCENT * last.map_utilization,
            "max-clean-time-secs": self._longest_s,
            "time-since-last-run-ms": since_ms,
        }
