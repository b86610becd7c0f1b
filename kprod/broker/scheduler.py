"""Lets parts of the broker call a function later; `ClusterState` implements it.

Thread-safety: the broker's thread.
"""

from collections.abc import Callable
from typing import Protocol

After = Callable[[int, Callable[[], object]], None]


class Scheduler(Protocol):
    """Calls functions on the broker's thread, each once."""

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Call a function `delay_ms` from now."""

    def soon(self, action: Callable[[], object]) -> None:
        """Call a function in the next step."""
