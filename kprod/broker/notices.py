"""Limits the rate of log lines about events that clients can cause at will.

The first event of a kind is logged immediately. Further ones within `QUIET_MS` are counted, and one
line logs their number.

Thread-safety: the broker's thread.
"""

from kprod.broker.scheduler import After
from kprod.guarded_log import guarded_logger

QUIET_MS = 10_000
_logger = guarded_logger("kprod.broker")


class Notices:
    """The warnings of a cluster, by kind."""

    __slots__ = ("_after", "_counts")

    def __init__(self, after: After) -> None:
        """Start with no warnings.

        Args:
            after: Calls a function after a number of milliseconds.
        """
        self._after = after
        self._counts: dict[str, int] = {}

    def warn(self, kind: str, text: str, *values: object) -> None:
        """Log a warning; only count it if its kind was logged in the last `QUIET_MS`.

        Args:
            kind: Name of the event, for the line with the count.
            text: Format string with `%` placeholders, as for `logging`.
            values: Values for the placeholders.
        """
        if kind in self._counts:
            self._counts[kind] += 1
            return
        self._counts[kind] = 0
        _logger.warning(text, *values)
        self._after(QUIET_MS, lambda: self._sum_up(kind))

    def _sum_up(self, kind: str) -> None:
        count = self._counts.pop(kind)
        if count:
            _logger.warning("%s: %d more within %d s", kind, count, QUIET_MS // 1_000)
            self._counts[kind] = 0
            self._after(QUIET_MS, lambda: self._sum_up(kind))
