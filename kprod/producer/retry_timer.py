"""When a failed request may be sent again: its back-off, on the sender's timer.

A back-off counts from the present. The timer's own time is from before the sender's latest sleep,
so a delay on it would be shorter by that sleep, and a response that came late would have none.

Thread-safety: the sender's.
Source: KIP-580 for the back-off.
"""

import random
from collections.abc import Callable

from kprod._core.clock import SystemClock
from kprod.cluster.backoff import ExponentialBackoff
from kprod.config import SenderSettings
from kprod.timer.timer import Timer, TimerTask


class RetryTimer:
    """Draws back-offs, and lets actions run at their ends.

    Args:
        settings: Back-off.
        timer: The sender's.
        clock: The present.
        rng: Draws each back-off, once.
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
        """Let an action run after the back-off that begins now.

        Args:
            failures: How often it failed before this time; 0 gives the first back-off.
            action: Runs once, on the sender's thread.
        """
        wait_ms = self._backoff.wait_ms(failures, self._rng)
        self._timer.add_at(self._clock.now_ms() + wait_ms, TimerTask(action))
