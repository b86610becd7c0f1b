"""A timer as one sorted list: slow, literal, and the judge of the wheel.

Thread-safety: one thread.
"""

from collections.abc import Hashable


class SortedListTimer:
    """A simple timer that checks every task on every call."""

    def __init__(self, now_ms: int, tick_ms: int) -> None:
        """Start empty at that time."""
        self.now_ms = now_ms
        self.tick_ms = tick_ms
        self.deadlines: dict[Hashable, int] = {}

    def add_at(self, deadline_ms: int, name: Hashable) -> None:
        """Let `name` fire at that instant; one that waits is moved."""
        self.deadlines[name] = max(deadline_ms, self.now_ms)

    def cancel(self, name: Hashable) -> bool:
        """Forget `name`; whether it waited."""
        return self.deadlines.pop(name, None) is not None

    def advance(self, now_ms: int) -> tuple[list[Hashable], list[Hashable]]:
        """Move the time: names that must have fired, and those that may have within a tick."""
        self.now_ms = now_ms
        due = sorted((d, str(n), n) for n, d in self.deadlines.items() if d <= now_ms)
        must = [name for deadline, _, name in due if deadline <= now_ms - self.tick_ms + 1]
        return must, [name for _, _, name in due if name not in must]

    def settle(self, fired: list[Hashable]) -> list[int]:
        """Forget what fired; the deadlines, in the order of firing."""
        return [self.deadlines.pop(name) for name in fired]
