"""Calculates the wait before another attempt: exponential, capped, with jitter.

A wait is drawn once per failure and kept as a deadline by the caller. Drawing it again at each
check would shorten it on average and could not be put on a timer.

Thread-safety: immutable; the random source belongs to the caller.
Source: KIP-580; Kafka's ExponentialBackoff (clients 4.3.1) for jitter and the exponent's cap.
"""

import random
from typing import NamedTuple

JITTER_RATIO = 0.2  # KIP-580: one fifth either way, so that clients do not return together
_EXPONENT_MAX = 62  # beyond it the power alone is past every limit in milliseconds


class ExponentialBackoff(NamedTuple):
    """Waits of `initial_ms × 2^failures`, at most `max_ms`, each varied by a fifth.

    Attributes:
        initial_ms: The first wait; at least 0.
        max_ms: No wait is longer, jitter included. Below `initial_ms` it is what counts.
    """

    initial_ms: int
    max_ms: int

    def wait_ms(self, failures: int, rng: random.Random) -> int:
        """Draw a wait.

        Args:
            failures: Number of earlier failures; 0 gives the first wait.
            rng: Random numbers for jitter.

        Returns:
            Milliseconds, 0 to `max_ms`.
        """
        nominal_ms = min(self.initial_ms << min(failures, _EXPONENT_MAX), self.max_ms)
        jitter = rng.uniform(1 - JITTER_RATIO, 1 + JITTER_RATIO)
        return min(round(nominal_ms * jitter), self.max_ms)
