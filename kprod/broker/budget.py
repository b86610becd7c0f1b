"""One limit for the memory of one kind (requests or responses) that all connections use.

A broker cannot know which client is hostile, but it knows which connections make progress. When the
total exceeds the limit, the connections without progress for the longest time are closed until the
rest fits; clients that keep reading and writing are served. The only connection that holds memory
is never closed, since a single response may exceed the limit.

Invariants.
    held_bytes is the sum over all holders; after each change it is at most limit_bytes, or belongs
    to one holder. Holders are ordered by their last progress.

Thread-safety: the broker's thread.
Source: kprod's own; Kafka's queued.max.request.bytes bounds requests by muting all connections,
which one client that sends half a request can use to stop every other.
"""

from collections import OrderedDict
from typing import Protocol


class Holder(Protocol):
    """A connection, as the budget uses it."""

    def abort(self, reason: str) -> None:
        """Close immediately and free all memory."""


class MemoryBudget:
    """The used and the available memory of one kind, with its users.

    Attributes:
        held_bytes: Memory of all holders.
    """

    __slots__ = ("_holders", "_limit_bytes", "_what", "held_bytes")

    def __init__(self, limit_bytes: int, what: str) -> None:
        """Start with no holders.

        Args:
            limit_bytes: Limit for all holders, at least 1.
            what: The kind of memory and the setting's name, for the reason text when a holder is
                closed.
        """
        self._limit_bytes = limit_bytes
        self._what = what
        self._holders: OrderedDict[Holder, int] = OrderedDict()
        self.held_bytes: int = 0

    @property
    def is_tight(self) -> bool:
        """Whether more than half of the limit is used, so that no requests should be taken."""
        return self.held_bytes * 2 > self._limit_bytes

    def hold(self, holder: Holder, held_bytes: int, *, has_progressed: bool) -> None:
        """Update the memory of a connection; may close it, or others.

        Args:
            holder: The connection.
            held_bytes: All memory of this kind that it uses now; 0 removes it.
            has_progressed: Whether it has just received or sent bytes.
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
