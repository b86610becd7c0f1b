# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Decides when the next metadata request may be sent, and when to drop the known brokers.

The interval between requests grows with failures and with responses that bring nothing new. Each
interval is drawn once and stored as a deadline, so that a check is one comparison.

Thread-safety: the client's thread, but for `last_success_ms`, which any thread may read.
Source: Metadata.timeToNextUpdate (clients 4.3.1); KIP-580, KIP-899, KIP-1102.
"""

import random

from kprod.cluster.backoff import ExponentialBackoff
from kprod.config import MetadataSettings

NEVER_MS = 1 << 60  # "no deadline": beyond every clock, small enough to add to


class QuestionSchedule:
    """The instants of one client's questions; all are monotonic milliseconds.

    Attributes:
        due_at_ms: When the next request may be sent; `NEVER_MS` while one is in flight.
        last_success_ms: When a response about all topics last arrived; None before the first.
        rebootstrap_at_ms: When to drop the known brokers; `NEVER_MS` for never.
    """

    def __init__(self, settings: MetadataSettings, rng: random.Random) -> None:
        """Create a schedule whose first request is due immediately.

        Args:
            settings: The intervals.
            rng: Random numbers for jitter.
        """
        self._settings = settings
        self._rng = rng
        self._backoff = ExponentialBackoff(
            initial_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms
        )
        self._allowed_at_ms = 0
        self._attempts_since_ms: int | None = None
        self._failures = 0
        self._equivalent_responses = 0
        self._rebootstrap_asked = False
        self.last_success_ms: int | None = None
        self.due_at_ms: int = 0
        self.rebootstrap_at_ms: int = NEVER_MS

    def settle(self, *, is_out: bool, is_wanted: bool) -> None:
        """Compute the instants again, after anything has changed.

        Args:
            is_out: Whether a question is out.
            is_wanted: Whether a request is needed before the newest response is too old.
        """
        if is_out:
            self.due_at_ms = NEVER_MS
        elif is_wanted or self.last_success_ms is None:
            self.due_at_ms = self._allowed_at_ms
        else:
            aged_at_ms = self.last_success_ms + self._settings.metadata_max_age_ms
            self.due_at_ms = max(aged_at_ms, self._allowed_at_ms)
        self.rebootstrap_at_ms = NEVER_MS
        if self._settings.metadata_recovery_strategy == "rebootstrap":
            trigger_ms = self._settings.metadata_recovery_rebootstrap_trigger_ms
            if self._rebootstrap_asked:
                self.rebootstrap_at_ms = 0
            elif self._attempts_since_ms is not None:
                self.rebootstrap_at_ms = self._attempts_since_ms + trigger_ms

    def is_old(self, now_ms: int) -> bool:
        """Whether the newest response about all topics is too old, or missing."""
        last_ms = self.last_success_ms
        return last_ms is None or now_ms - last_ms >= self._settings.metadata_max_age_ms

    def allow(self, now_ms: int) -> None:
        """Make the next request due immediately."""
        self._allowed_at_ms = now_ms

    def note_new_topic(self, now_ms: int) -> None:
        """Make the next request due immediately, with a short interval after it."""
        self._allowed_at_ms = now_ms
        self._equivalent_responses = 0

    def note_question(self, now_ms: int) -> None:
        """Record that a request is sent."""
        if self._attempts_since_ms is None:
            self._attempts_since_ms = now_ms

    def note_answer(self, now_ms: int, *, is_partial: bool, made_progress: bool) -> None:
        """Record a response.

        Args:
            now_ms: Monotonic time.
            is_partial: Whether it left out topics in use.
            made_progress: Whether the response brought anything new.
        """
        if not is_partial:
            self.last_success_ms = now_ms
        self._attempts_since_ms = None
        self._failures = 0
        self._equivalent_responses = 0 if made_progress else self._equivalent_responses + 1
        self._hold_off(max(self._equivalent_responses - 1, 0), now_ms)

    def note_failure(self, now_ms: int, *, rebootstrap_asked: bool) -> None:
        """Record a failed request.

        Args:
            now_ms: Monotonic time.
            rebootstrap_asked: Whether a broker demands to begin again from the configuration.
        """
        self._rebootstrap_asked |= rebootstrap_asked
        self._hold_off(self._failures, now_ms)
        self._failures += 1

    def note_rebootstrap(self, now_ms: int) -> None:
        """Record that the known brokers were dropped."""
        self._rebootstrap_asked = False
        self._attempts_since_ms = now_ms

    def _hold_off(self, failures: int, now_ms: int) -> None:
        self._allowed_at_ms = now_ms + self._backoff.wait_ms(failures, self._rng)
