"""Deadlines: the timer a loop drives, the timer with a thread of its own, and the purgatory.

Thread-safety: see each module.
"""

from kprod._core.wheel import TimerTask
from kprod.timer.timer import Timer

__all__ = ["Timer", "TimerTask"]
