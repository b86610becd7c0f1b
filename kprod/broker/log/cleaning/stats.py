"""What the cleaner did, under the names of Kafka's metrics.

Thread-safety: the broker's thread.
Source: Kafka LogCleaner (4.3), its metrics.
"""

from kprod.broker.log.cleaning.round import RoundSummary

_PERCENT = 100


class CleanerStats:
    """Sums over all rounds, and the last one.

    Attributes:
        round_count: Rounds that came to their end.
        last_end_ms: When the last one did, monotonic milliseconds; None before the first.
    """

    __slots__ = ("_last", "_longest_s", "last_end_ms", "round_count")

    def __init__(self) -> None:
        """Make it for no round yet."""
        self._last = RoundSummary()
        self._longest_s = 0.0
        self.round_count: int = 0
        self.last_end_ms: int | None = None

    def note(self, summary: RoundSummary, seconds: float, now_ms: int) -> None:
        """Take note of a round.

        Args:
            summary: What it did.
            seconds: How long it took.
            now_ms: Monotonic milliseconds.
        """
        self._last = summary
        self._longest_s = max(self._longest_s, seconds)
        self.round_count += 1
        self.last_end_ms = now_ms

    def metrics(self, now_ms: int) -> dict[str, float]:
        """Values by Kafka's names.

        Args:
            now_ms: Monotonic milliseconds.

        Returns:
            `time-since-last-run-ms` is 0 before the first round.
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
