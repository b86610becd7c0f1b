"""How the parts of a broker run something later; `ClusterState` does it.

Thread-safety: the broker's thread.
"""

from collections.abc import Callable
from typing import Protocol

After = Callable[[int, Callable[[], object]], None]


class Scheduler(Protocol):
    """Runs functions on the broker's thread, each of them once."""

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Run something `delay_ms` from now."""

    def soon(self, action: Callable[[], object]) -> None:
        """Run something in the next step."""
