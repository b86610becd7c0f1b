"""The back-off of a failed request, on the sender's timer.

A back-off counts from the current time. The timer's own time is that of before the sender's last
sleep; a delay relative to it would be shorter by that sleep, and after a late response there would
be none.

Thread-safety: the sender.
Source: KIP-580 for the back-off.
"""

import random
from collections.abc import Callable

from kprod._core.clock import SystemClock
from kprod.cluster.backoff import ExponentialBackoff
from kprod.config import SenderSettings
from kprod.timer.timer import Timer, TimerTask


class RetryTimer:
    """Draws back-offs, and runs actions at their end.

    Args:
        settings: The back-off.
        timer: The sender's timer.
        clock: The current time.
        rng: Random numbers, one for each back-off.
    """

    __slots__ = ("_backoff", "_clock", "_rng", "_timer")

    def __init__(
        self, settings: SenderSettings, *, timer: Timer, clock: SystemClock, rng: random.Random
    ) -> None:
        self._backoff = ExponentialBackoff(
            initial_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms
        )
        self._timer = timer
        self._clock = clock
        self._rng = rng

    def start(self, failures: int, action: Callable[[], object]) -> None:
        """Run an action after a back-off that starts now.

        Args:
            failures: Number of earlier failures; 0 gives the first back-off.
            action: Runs once, on the sender's thread.
        """
        wait_ms = self._backoff.wait_ms(failures, self._rng)
        self._timer.add_at(self._clock.now_ms() + wait_ms, TimerTask(action))
