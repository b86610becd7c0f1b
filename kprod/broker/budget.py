"""One total for the memory that all connections of a cluster hold of one kind.

A broker cannot know which of its clients is hostile. It knows which of them moves: a connection
whose bytes come or go has just made progress, and one that holds memory and does not move is the
one to lose. So when the total is passed, the connections without progress for longest are closed
until the rest fits, and clients that keep moving are served. A connection that is the only one to
hold anything stays: one response may be larger than all of them together should be.

Invariants.
    held_bytes is the sum of what the holders hold, and after each change at most limit_bytes, or
    one holder's.
    The holders are in the order of their last progress.

Thread-safety: the broker's thread.
Source: kprod's own; Kafka's queued.max.request.bytes bounds requests by muting all connections,
which one client that sends half a request can use to stop every other.
"""

from collections import OrderedDict
from typing import Protocol


class Holder(Protocol):
    """A connection, as the budget sees it."""

    def abort(self, reason: str) -> None:
        """Close at once, and hold nothing any more."""


class MemoryBudget:
    """How much of one kind of memory is held, by whom, and how much may be.

    Attributes:
        held_bytes: By all holders together.
    """

    __slots__ = ("_holders", "_limit_bytes", "_what", "held_bytes")

    def __init__(self, limit_bytes: int, what: str) -> None:
        """Make an empty budget.

        Args:
            limit_bytes: Most bytes in total, at least 1.
            what: The held thing, and the setting's name, for the reason that a closed holder is
                told.
        """
        self._limit_bytes = limit_bytes
        self._what = what
        self._holders: OrderedDict[Holder, int] = OrderedDict()
        self.held_bytes: int = 0

    @property
    def is_tight(self) -> bool:
        """Whether more than half of the limit is held: time to take no more than must be."""
        return self.held_bytes * 2 > self._limit_bytes

    def hold(self, holder: Holder, held_bytes: int, *, has_progressed: bool) -> None:
        """Note how much a connection holds now; may close it, or others.

        Args:
            holder: The connection.
            held_bytes: All that it holds of this kind, not the change; 0 takes it out.
            has_progressed: Whether its bytes came or went just now.
        """
        before = self._holders.get(holder, 0)
        self.held_bytes += held_bytes - before
        if not held_bytes:
            if before:
                del self._holders[holder]
            return
        self._holders[holder] = held_bytes
        if has_progressed:
            self._holders.move_to_end(holder)
        while self.held_bytes > self._limit_bytes and len(self._holders) > 1:
            self._close_oldest()

    def _close_oldest(self) -> None:
        holder, held_bytes = self._holders.popitem(last=False)
        self.held_bytes -= held_bytes
        holder.abort(
            f"it held {held_bytes} bytes of {self._what} and made no progress for longest, when "
            f"all connections together passed the limit of {self._limit_bytes}"
        )
