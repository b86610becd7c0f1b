"""Statistics of the cleaner, under the names of Kafka's metrics.

Thread-safety: the broker's thread.
Source: the metrics of Kafka's LogCleaner (4.3).
"""

from kprod.broker.log.cleaning.round import RoundSummary

_PERCENT = 100


class CleanerStats:
    """The figures of the last round."""

    __slots__ = ("_last", "_seconds")

    def __init__(self) -> None:
        """Start with no rounds."""
        self._last = RoundSummary()
        self._seconds = 0.0

    def note(self, summary: RoundSummary, seconds: float) -> None:
        """Record a completed round.

        Args:
            summary: The round's results.
            seconds: The round's duration.
        """
        self._last = summary
        self._seconds = seconds

    def metrics(self) -> dict[str, float]:
        """Values by Kafka's names; 0 until the first round."""
        last = self._last
        recopied = _PERCENT * last.kept_bytes / last.read_bytes if last.read_bytes else 0.0
        return {
            "cleaner-recopy-percent": recopied,
            "max-buffer-utilization-percent": _PERCENT * last.map_utilization,
            "max-clean-time-secs": self._seconds,
        }
