"""The timer that its owner drives: a wheel, a current time, and the firing of due tasks.

A loop advances it once a turn and then waits until `next_expiry_ms`, so deadlines need no thread.

Rules. A task that is due immediately fires in the next `advance`, never inside `add`. Tasks fire in
order of their expiration in ticks. A task may add and cancel tasks while it is fired, itself
included. If one raises, this is logged and does not stop the others, unless the timer is vital to
its owner.

Thread-safety: the owner's thread only; `SystemTimer` is for the others.
Source: Kafka's Timer.java and SystemTimer.java (server-common, 4.x).
"""

from kprod._core.timer.timer_task import TimerTask
from kprod._core.timer.wheel import TimingWheel
from kprod.guarded_log import guarded_logger

__all__ = ["Timer", "TimerTask", "log_failure"]

_logger = guarded_logger(__name__)


class Timer(TimingWheel):
    """A wheel that fires.

    `add`, `add_at`, `schedule`, `next_expiry_ms`, `clear` and `len` are the wheel's own, so that
    they cost no interpreted call.

    Args:
        now_ms: Monotonic milliseconds; 0 ≤ now_ms.
        tick_ms: Resolution in milliseconds, at least 1; a task is late by less than that.
        wheel_size: Buckets a level; at least 2.
        is_vital: Whether `advance` propagates a task's exception. The remaining tasks are the first
            of the next call.

    Thread-safety: the owner's thread only.
    """

    __slots__ = ("_on_failure",)

    def __init__(
        self, now_ms: int, *, tick_ms: int = 1, wheel_size: int = 20, is_vital: bool = False
    ) -> None:
        del now_ms, tick_ms, wheel_size  # the wheel took them when it was made (`__cinit__`)
        self._on_failure = raise_failure if is_vital else log_failure

    def advance(self, now_ms: int) -> int:
        """Move the time and run due tasks, in order of expiration.

        Args:
            now_ms: Monotonic milliseconds, not below the current time.

        Returns:
            Number of tasks that were run.

        Raises:
            ValueError: Time went back. Nothing has changed and nothing was run.
            RuntimeError: Called by a task of this timer.
            Exception: A task of a vital timer raised it.
        """
        super().advance(now_ms)
        return self.fire(self._on_failure)


def log_failure(task: TimerTask, error: BaseException) -> None:
    """Log a task that raised; the other tasks continue."""
    _logger.error(
        "A timer's task failed: %r, due at %d ms", task, task.expiration_ms, exc_info=error
    )


def raise_failure(task: TimerTask, error: BaseException) -> None:
    """Log a task that raised, and end the call that has fired it."""
    log_failure(task, error)
    raise error
