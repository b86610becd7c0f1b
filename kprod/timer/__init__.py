"""Deadlines: the timer that a loop drives, the timer with its own threads, and the purgatory.

Thread-safety: see each module.
"""

from kprod._core.timer.timer_task import TimerTask
from kprod.timer.operation import DelayedOperation
from kprod.timer.purgatory import Purgatory
from kprod.timer.system_timer import SystemTimer
from kprod.timer.timer import Timer

__all__ = ["DelayedOperation", "Purgatory", "SystemTimer", "Timer", "TimerTask"]
